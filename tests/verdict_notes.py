"""The notes of a verdict, each held against the lines of the folder: what is not so, what is left out, and what no reading is
known of.
"""

import re
from collections.abc import Callable, Sequence

from .verdict_hidden import FORMS, HiddenByMeans
from .verdict_played import LessPlayed
from .verdict_without import WithoutAttack

LOWER = "the lower of the runs without attack and without the attackers' data"
CLEAN = "the run without attack"


class Notes(HiddenByMeans, WithoutAttack, LessPlayed):
    """Holds notes against the lines."""

    def read(self, notes: Sequence[str]) -> list[str]:
        readings: list[tuple[str, Callable[[re.Match[str], str], None], Callable[[], bool]]] = [
            (r"Points lost: the loyal clients' accuracy late in the run below that of (.+), of the same seed"
             r"(?:, in the mean of (?:(\d+) to )?(\d+) seeds)?\.", self._points_lost, lambda: bool(self.judged)),
            (r"In no round was an update summed without attack, so that accuracies are of clients alone: by (.+) \((.+)\)\.",
             self._not_summed, lambda: bool(self._bad(lambda row: row.get("nothing_summed"), idle=True))),
            (r"Training diverged without attack: by (.+?)\. (.+)\.", self._diverged, lambda: bool(self._gone(False))),
            (r"Training came to nothing without attack, with loss and accuracy of a guess: by (.+?)\. (.+)\.", self._nothing,
             lambda: bool(self._gone(True))),
            (r"Sums were withheld without attack, and what was in them moved no model, so that losses are held against less:"
             r" (.+?)\.( A model whose slot stayed shut is as it was, and clients may go by others for good\.)? What may help:"
             r" more clients\.", self._withheld_clean, lambda: bool(self._withheld_runs()[0])),
            (r"A defence is worth what it is better by than training alone; under its worst attack seeds do not tell from that:"
             r" (.+)\.", self._no_better, lambda: bool(self._like_alone())),
            (r"Nothing is lost to an attack that is missing without the attackers' data, too: (.+)\.", self._missing_data,
             lambda: bool(self._hidden())),
            (r"Without the attackers' data all clients stayed in one cluster, where there were several without attack: (.+)\."
             r" What that costs is .+", self._one_cluster, lambda: bool(self._joined())),
            (r"Next to nothing was learned without attack, so that little could be lost: by (.+)\.", self._little_on_some,
             lambda: bool(self._little_seeds())),
            (r"In (\d+) of (\d+) runs (.+)", self._runs, lambda: False),
            (r"Held against the other attacks alone, as no loyal client's model was changed by (.+)\.", self._others_alone,
             lambda: bool(self._unchanged())),
            (r"No attack of this grid takes more than the bound from (.+): that others hold against these tells little of"
             r" them\. .+",
             self._harmless, lambda: bool(self._plain())),
            (r"Runs without the attackers' data have no result: (.+)\.", self._absent_failed, lambda: bool(self._no_absent())),
            (r"An error ended (.+): where it is the defence's, whoever attacks so stops the run, which counts for no"
             r" break here\.",
             self._errors, lambda: bool(self._stopped())),
            (r"Where the mean may be none a break may be chance, the more so the more attacks and seeds are played: (.+)\. More"
             r" seeds of (?:that attack|these attacks) alone tell\.", self._by_chance, lambda: False),
            (r"Points lost do not show rounds that came to nothing: (.+)\.", self._in_vain, lambda: bool(self._stopped_rounds())),
            (r"Left out, as without a result: (.+)\.", self._left_out, lambda: bool(self._out())),
            (r"Of fewer seeds than played: (.+)\.", self._fewer, lambda: bool(self._fewer_seeds())),
            (r"With (\d) seeds? nothing but a break is decided: play 3 or more\.", self._few, lambda: False),
            (r"2 seeds are few, and what holds here may yet break on a third: play 3 or more\.", self._few_hold, lambda: False),
        ]  # fmt: skip
        self.hidden(notes)
        left = [note for note in notes if not any(re.fullmatch(form, note) for form in FORMS)]
        for form, reading, due in readings:
            told = [(found, note) for note in left if (found := re.fullmatch(form, note))]
            left = [note for note in left if not re.fullmatch(form, note)]
            for found, note in told:
                reading(found, note)
            self.claim(bool(told) or not due(), f"not said: {form[:40]}", "")
        for note in left:
            self.claim(False, "no reading of a note", note)
        self._all_runs(notes)
        few = len(self.truth.seeds) < 3
        self.claim(any("play 3 or more" in note for note in notes) == few, "few seeds", "")
        return self.found

    def _points_lost(self, found: re.Match[str], note: str) -> None:
        t, against = self.truth, set[str]()
        for part in self.judged:
            for row in (row for of in part.rows.values() for row in of):
                against.add(CLEAN if t.absent(row) is None else LOWER)
        self.claim({*found[1].split(" or, where that is no measure, ")} == against, f"against {against}", note)
        counts = {len(p.losses[self._worst(p)]) for p in self.judged}
        most, least = max(counts), min(counts)
        said = int(found[2] or found[3] or 1), int(found[3] or 1)
        self.claim(said == (least, most), f"seeds {counts}", note)

    def _few(self, found: re.Match[str], note: str) -> None:
        self.claim(int(found[1]) == len(self.truth.seeds), "seeds", note)
        self.claim(not self.holding or len(self.truth.seeds) == 1, "something holds", note)

    def _few_hold(self, found: re.Match[str], note: str) -> None:
        self.claim(len(self.truth.seeds) == 2 and bool(self.holding), "nothing holds", note)

    def _out(self) -> list[str]:
        t, there = self.truth, {(p.place, p.defence) for p in self.judged}
        at = {(p.place, p.defence, p.strength) for p in self.judged}
        out = [f"{d} under {p}" for p in t.places for d in t.defences if (p, d) not in there]
        return out + [f"{d} under {p} with {t.at(s)}" for p, d in there for s in t.strengths if (p, d, s) not in at]

    def _left_out(self, found: re.Match[str], note: str) -> None:
        self._same(self._out(), found[1], note)

    def _fewer_seeds(self) -> set[str]:
        t = self.truth
        counts = [(p, len(p.losses[self._worst(p)])) for p in self.judged]
        return {f"{p.defence} under {p.place} {n} of {len(t.seeds)}" for p, n in counts if n < len(t.seeds)}

    def _fewer(self, found: re.Match[str], note: str) -> None:
        self._same([*self._fewer_seeds()], found[1], note)
