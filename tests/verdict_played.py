"""The notes of a verdict on attacks that did less than they were to do, on errors, on breaks that may be chance and on rounds
that came to nothing, held against the lines.
"""

import re
from collections.abc import Callable, Sequence
from statistics import fmean

from .verdict_tables import Row
from .verdict_truth import HOLDS, REFUSED, UNCHANGED, Part, half, mean_of, number
from .verdict_words import OfParts, near, outside_brackets


class LessPlayed(OfParts):
    """Reads them."""

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
                of = [(is_so, row["defence"]) for row in self._attacked(attack) if (is_so := test(row)) is not None]
                whose = [defence for is_so, defence in of if is_so]
                by = ", ".join(f"{d} {whose.count(d)}" for d in dict.fromkeys(whose))
                if whose:
                    runs = f"{len(whose)} of {len(of)} runs{f' ({by})' * (len(self.truth.defences) > 1)} "
                    so.add(f"In {runs}" + words.replace(" A ", f" {attack} ", 1))
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
        at = {(p.place, p.defence, p.strength) for p in self.judged}
        for place in t.places:
            all_of = [d for d in ("FedAvg", "mean") if all((place, d, s) in at for s in t.strengths)]
            plain = [p for p in self.judged if p.place == place and p.defence in all_of and p.met]
            every = [p for p in self.judged if p.place == place and p.defence in ("FedAvg", "mean") and p.met]
            whole = all(p.word in (HOLDS, UNCHANGED, REFUSED) for p in every)
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
