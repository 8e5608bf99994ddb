"""The notes of a verdict, each held against the lines of the folder: what is not so, what is left out, and what no reading is
known of.
"""

import re
from collections.abc import Callable, Sequence
from statistics import fmean

from .verdict_hidden import FORMS, HiddenByMeans
from .verdict_tables import Row
from .verdict_truth import HOLDS, REFUSED, UNCHANGED, Part, Truth, half, mean_of, number
from .verdict_words import near, outside_brackets

LOWER = "the lower of the runs without attack and without the attackers' data"
CLEAN = "the run without attack"


class Notes(HiddenByMeans):
    """Holds notes against the lines."""

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self.judged = [p for p in truth.parts if p.losses]
        self.holding = [p for p in self.judged if p.word == HOLDS]

    def read(self, notes: Sequence[str]) -> list[str]:
        readings: list[tuple[str, Callable[[re.Match[str], str], None], Callable[[], bool]]] = [
            (r"Points lost: the loyal clients' accuracy late in the run below that of (.+), of the same seed"
             r"(?:, in the mean of (?:(\d+) to )?(\d+) seeds)?\.", self._points_lost, lambda: bool(self.judged)),
            (r"In no round was an update summed without attack, so that accuracies are of clients alone: by (.+) \((.+)\)\.",
             self._not_summed, lambda: bool(self._bad("nothing_summed", idle=True))),
            (r"Training diverged or came to nothing without attack: by (.+); (.+)\.", self._diverged,
             lambda: bool(self._bad("diverged", "not_finite"))),
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

    def _same(self, so: Sequence[str], words: str, note: str, mark: str = ", ") -> None:
        said = outside_brackets(words, mark)
        self.claim(sorted(said) == sorted(so), f"so: {so}", note)

    # --- what points are ----------------------------------------------------------------------------------------------

    def _worst(self, part: Part) -> str:
        return max(part.broken_late or part.losses, key=lambda a: fmean(part.losses[a]))

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

    # --- without attack -----------------------------------------------------------------------------------------------

    def _bad(self, *flags: str, idle: bool = False) -> list[str]:
        t, said = self.truth, []
        for place in t.places:
            for d in t.defences:
                rows = t.clean_rows(place, d)
                bad = sum(any(row.get(flag) for flag in flags) for row in rows)
                if bad and (idle or not t.idle(place, d)):
                    said.append(f"{d}{t.under(place)} on {bad} of {len(rows)} seed{'s' * (len(rows) != 1)}")
        return said

    def _not_summed(self, found: re.Match[str], note: str) -> None:
        self._same(self._bad("nothing_summed", idle=True), found[1], note)

    def _diverged(self, found: re.Match[str], note: str) -> None:
        t = self.truth
        self._same(self._bad("diverged", "not_finite"), found[1], note)
        bad = {(p, d) for p in t.places for d in t.defences if not t.idle(p, d)
               for row in t.clean_rows(p, d) if row.get("diverged") or row.get("not_finite")}  # fmt: skip
        fine = {p for p in t.places for d in t.defences if (p, d) not in bad and t.clean_rows(p, d)
                and not t.idle(p, d) and not t.learned_nothing(p, d)}  # fmt: skip
        others = "others here learned" in found[2]
        self.claim(others == ({p for p, _ in bad} <= fine), f"others learned in {fine}", note)

    def _little_seeds(self) -> list[str]:
        t, said = self.truth, []
        for place in t.places:
            for d in dict.fromkeys(p.defence for p in self.holding if p.place == place):
                rows, chances = t.clean_rows(place, d), t.chances(place)
                has = {row["seed"]: number(row, "accuracy", "late") for row in rows}
                little = sum(t.no_better(v, chances.get(k, float("nan"))) or v < 0.5 * t.best(place) for k, v in has.items())
                if little and t.learns(place, d):
                    said.append(f"{d}{t.under(place)} on {little} of {len(has)} seeds")
        return said

    def _little_on_some(self, found: re.Match[str], note: str) -> None:
        self._same(self._little_seeds(), found[1], note)

    # --- without the attackers' data ----------------------------------------------------------------------------------

    def _hidden(self) -> list[tuple[str, Part]]:
        """Who holds, and has less than without attack by more than the bound."""
        t, hidden = self.truth, list[tuple[str, Part]]()
        for p in self.holding:
            rows = p.rows[self._worst(p)]
            if mean_of(number(r, "clean", "late") for r in rows) - mean_of(map(t.held, rows)) > t.loss:
                hidden.append((f"{p.defence}{t.under(p.place)} with {t.at(p.strength)}", p))
        return hidden

    def _missing_data(self, found: re.Match[str], note: str) -> None:
        t, hidden, told = self.truth, self._hidden(), list[str]()
        for one in outside_brackets(found[1], ", "):
            form = (r"(.+) (\d+\.\d) %( on one seed)?(?: \((\S+) takes (\d+\.\d) points of the (\d+\.\d) % without attack: a"
                    r" break, if the defence gives up without them\))?")  # fmt: skip
            said = re.fullmatch(form, one)
            if said is not None and said[3]:
                continue
            parts = [part for name, part in hidden if said and name == said[1] and near(said[2], self._held(part))]
            if not parts or said is None:
                self.claim(False, f"hidden: {[(name, self._held(part)) for name, part in hidden]}", note)
                continue
            part = next((p for p in parts if said[4] in (None, *p.losses)), parts[0])
            told.append(said[1])
            left = {a: mean_of(number(r, "accuracy", "late") for r in of) for a, of in part.rows.items() if of}
            attack = min(left, key=lambda a: left[a])
            whole = mean_of(number(r, "clean", "late") for r in part.rows[attack])
            self.claim((said[4] is not None) == (whole - left[attack] > t.loss), f"{attack} leaves {left[attack]}", note)
            if said[4] in part.losses:
                self.claim(near(said[5], whole - left[said[4]]) and left[said[4]] <= left[attack], "takes", note)
                self.claim(near(said[6], whole), "without attack", note)
        self.claim({*told} == {name for name, _ in hidden}, f"hidden, too: {hidden}", note)

    def _held(self, part: Part) -> float:
        return mean_of(map(self.truth.held, part.rows[self._worst(part)]))

    def _joined(self) -> list[str]:
        t, said = self.truth, []
        for (place, d, attack, s), rows in t.of.items():
            if attack != "absent" or s is None:
                continue
            done = [row for row in rows.values() if row["status"] == "done"]
            clean = {row["seed"]: row["clusters"]["count"] for row in t.clean_rows(place, d)}
            if one := sum(clean.get(row["seed"], 0) > 1 and row["clusters"]["count"] == 1 for row in done):
                said.append(f"{d}{t.under(place)} with {t.at(s)} on {one} of {len(done)} seeds")
        return said

    def _one_cluster(self, found: re.Match[str], note: str) -> None:
        self._same(self._joined(), found[1], note)

    def _no_absent(self) -> list[str]:
        t, said = self.truth, []
        for (place, d, attack, s), rows in t.of.items():
            bad = [row for row in rows.values() if row["status"] != "done"]
            if attack == "absent" and s is not None and bad:
                why = f"({bad[0]['status']}: {bad[0]['reason']})"
                said.append(f"{d}{t.under(place)} with {t.at(s)} on {len(bad)} of {len(rows)} seeds {why}")
        return said

    def _absent_failed(self, found: re.Match[str], note: str) -> None:
        self._same(self._no_absent(), found[1], note, "; ")

    # --- attacks that did less ----------------------------------------------------------------------------------------

    def _attacked(self, attack: str) -> list[Row]:
        return [row for row in self.truth.rows if row["attack"] == attack and row["status"] == "done"]

    def _tests(self) -> dict[str, Callable[[Row], bool | None]]:
        return {
            "updates that A made were refused, as not finite or too large: there it did less than it was to do, or nothing.":
                lambda row: row["rejected"]["members"] > 0,
            "of A no attacker was at work in any round: there it did nothing.":
                lambda row: not row["attackers"] if row["strength"] else None,
            "of A every loyal client ended with the very model that it has without attack: there the attack did nothing, or the"
            " defence took nothing of those clients without attack either.":
                lambda row: row["same_models"] if row["attackers"] else None,
            "of A every client was an attacker in some round, or may have been drawn as one: accuracies there are of all,"
            " attackers of some rounds among them.": lambda row: row["loyal"] == 0,
            "of A its trigger works on the models without attack already, so that it could not gain more than the bound: of a"
            " backdoor nothing is known there.": lambda row: self.truth.full(row) if row["success"] else None,
        }  # fmt: skip

    def _all_runs(self, notes: Sequence[str]) -> None:
        said = {note for note in notes if re.match(r"In \d+ of \d+ runs", note)}
        so = set()
        for words, test in self._tests().items():
            for attack in self.truth.attacks:
                of = [is_so for row in self._attacked(attack) if (is_so := test(row)) is not None]
                if any(of):
                    so.add(f"In {sum(map(bool, of))} of {len(of)} runs " + words.replace(" A ", f" {attack} ", 1))
        self.claim(said == so, f"in runs: {so ^ said}", "")

    def _runs(self, found: re.Match[str], note: str) -> None:
        """All at once in `_all_runs`."""

    def _unchanged(self) -> set[tuple[str, str]]:
        t = self.truth
        return {
            (a, f"{p.defence}{t.under(p.place)} with {t.at(p.strength)}")
            for p in self.holding
            for a, of in p.rows.items()
            if (met := [row for row in of if row["attackers"]]) and all(row["same_models"] for row in met)
        }

    def _others_alone(self, found: re.Match[str], note: str) -> None:
        said = set()
        for one in outside_brackets(found[1], "; "):
            attack, _, of = one.partition(" (")
            said |= {(attack, who) for who in of.removesuffix(")").split(", ")}
        self.claim(said == self._unchanged(), f"so: {self._unchanged()}", note)

    def _plain(self) -> dict[str, list[Part]]:
        """By place, of whatever takes the mean of all updates, where no attack breaks it, while others hold."""
        t, so = self.truth, {}
        for place in t.places:
            plain = [p for p in self.judged if p.place == place and p.defence in ("FedAvg", "mean") and p.met]
            whole = all(p.word in (HOLDS, UNCHANGED, REFUSED) for p in plain)
            if plain and whole and any(p.place == place and p.defence not in ("FedAvg", "mean") for p in self.holding):
                so[place] = plain
        return so

    def _harmless(self, found: re.Match[str], note: str) -> None:
        t, so = self.truth, self._plain()
        for one in outside_brackets(found[1], "; "):
            said = re.fullmatch(
                r"(.+?)(?: under (.+?))?, which defends? nothing \((\d+\.\d) points in the mean at most(?:, to (.+))?\)", one
            )
            place = (said and said[2]) or t.places[0]
            if said is None or place not in so:
                self.claim(False, f"unharmed in {[*so]}", note)
                continue
            plain = so.pop(place)
            self.claim({*self.defences(said[1])} == {p.defence for p in plain}, "who", note)
            most = max(fmean(v) for p in plain for v in p.losses.values())
            self.claim(near(said[3], max(0.0, most)), f"at most {most}", note)
            self.claim(not said[4] or any(abs(fmean(p.losses.get(said[4], [9])) - most) < 1e-9 for p in plain), "to whom", note)
        self.claim(not so, f"unharmed, too: {[*so]}", note)

    # --- errors, chance, rounds ---------------------------------------------------------------------------------------

    def _stopped(self) -> list[str]:
        t, said = self.truth, []
        for attack in t.attacks:
            rows = [row for row in t.rows if row["attack"] == attack and row["status"] == "failed"
                    and any(own["seed"] == row["seed"] for own in t.clean_rows(t.place(row), row["defence"]))]  # fmt: skip
            if rows:
                said.append(f"{len(rows)} run{'s' * (len(rows) != 1)} of {attack} ({rows[0]['reason']})")
        return said

    def _errors(self, found: re.Match[str], note: str) -> None:
        self._same(self._stopped(), found[1], note)

    def _by_chance(self, found: re.Match[str], note: str) -> None:
        """Each break of a defence of which it is said may be chance: none is on all seeds, nor has a mean above nothing."""
        t = self.truth
        by = {f"{p.defence}{t.under(p.place)} with {t.at(p.strength)}": list[Part]() for p in self.judged}
        for p in self.judged:
            by[f"{p.defence}{t.under(p.place)} with {t.at(p.strength)}"].append(p)
        for one in found[1].split("; "):
            who, _, rest = one.partition(" by ")
            said = re.findall(r"(?:^|, by )(\S+) on (\d+) of (\d+) seeds \((-?\d+\.\d) points in the mean\)", rest)
            parts = [p for p in by.get(who, ()) if said and {*p.broken_late} >= {a for a, *_ in said}]
            if not parts or not said:
                self.claim(False, "no such break", note)
                continue
            part = (
                parts[0]
                if len(parts) == 1
                else next((p for p in parts if near(said[0][3], fmean(p.losses[said[0][0]]))), parts[0])
            )
            for attack, broke, count, mean in said:
                of = part.losses[attack]
                so = sum(v > t.loss for v in of), len(of)
                self.claim((int(broke), int(count)) == so and near(mean, fmean(of)), f"{attack} {so} {fmean(of)}", note)
            told = {attack for attack, *_ in said}
            self.claim({*part.broken_late} == told, f"also broken by {part.broken_late}", note)
            ways = [(t.loss, part.losses[a]) for a in part.broken_late]
            ways += [(t.loss, part.ends(a)) for a in part.ruined] + [(t.success, part.gains[a]) for a in part.let_through]
            for bound, of in ways:
                self.claim(len(of) < 2 or min(of) <= bound, f"breaks on all seeds: {of}", note)
            for attack in part.broken_late:
                of = part.losses[attack]
                self.claim(len(of) < 3 or fmean(of) <= half(of), f"the mean is above nothing: {attack} {of}", note)

    def _stopped_rounds(self) -> dict[tuple[str, str, str], tuple[float, float, str]]:
        t, worst = self.truth, dict[tuple[str, str, str], tuple[float, float, str]]()
        shares: tuple[tuple[str, Callable[[Row], float]], ...] = (
            ("loyal clients' models stayed as they were in", lambda row: number(row, "stood")),
            ("sums were withheld in", lambda row: number(row, "withheld") / len(row["rounds"])),
        )
        for (place, d, attack, s), rows in t.of.items():
            if attack in (None, "absent") or s is None:
                continue
            clean = {row["seed"]: row for row in t.clean_rows(place, d)}
            done = [row for row in rows.values() if row["status"] == "done" and row["seed"] in clean]
            for words, share in shares:
                more, less = mean_of(map(share, done)), mean_of(share(clean[row["seed"]]) for row in done)
                before = worst.get((place, d, words), (0.1, 0.0, ""))
                if done and more - less > before[0] - before[1]:
                    said = f"{d}{t.under(place)} against {attack} with {t.at(s)}, where {words}"
                    worst[place, d, words] = more, less, said
        return worst

    def _in_vain(self, found: re.Match[str], note: str) -> None:
        so = {words: (more, less) for more, less, words in self._stopped_rounds().values()}
        for one in found[1].split("; "):
            said = re.fullmatch(r"(.+) (\d+) % of the rounds \((\d+) % without attack\)", one)
            more, less = so.pop(said[1], (9.0, 9.0)) if said else (9.0, 9.0)
            is_so = said and abs(100 * more - int(said[2])) <= 0.501 and abs(100 * less - int(said[3])) <= 0.501
            self.claim(bool(is_so), f"so: {more} {less}", note)
        self.claim(not so, f"so, too: {so}", note)

    # --- what is left out ---------------------------------------------------------------------------------------------

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
