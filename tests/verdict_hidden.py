"""The notes of a verdict on what means hide, held against the lines: the one client that is worst off, or that a backdoor takes,
and rounds in which a backdoor succeeded before or after the last poisoned one.
"""

import re
from collections.abc import Callable, Sequence
from math import isfinite

from .verdict_tables import Row
from .verdict_truth import HOLDS, Part, number
from .verdict_words import OfParts, near, outside_brackets

FORMS = {
    r"Means hide single clients; the worst off at the end: (.+)\.": "worst",
    r"Means hide single clients, whom a backdoor takes at the end: of the one that is taken most, (.+)\.": "taken",
    r"Backdoors are judged in their last poisoned round; their highest success from the middle of the attack on: (.+) \(where"
    r" models have learned little, that may be no backdoor's doing\)\.": "peak",
}
ONE = (
    r"(.+?) (\d+\.\d) % (?:under|of) (.+?)( on 1 of \d+ seeds|, the worst of \d+ (?:such seeds of \d+|seeds))?"
    r"(?: \((?:the worst has|at most) (\d+\.\d) % (?:without attack|of any client without it)\))?"
)
Moved = Callable[[Row], tuple[float, float, float, float]]


class HiddenByMeans(OfParts):
    """Reads them."""

    def hidden(self, notes: Sequence[str]) -> None:
        """Holds those that are there against the lines, and what should be there against those."""
        t = self.truth
        parts = [p for p in t.parts if p.losses]
        ways: dict[str, tuple[list[Part], Moved]] = {
            "worst": ([p for p in parts if p.word == HOLDS], self._worst_off),
            "taken": ([p for p in parts if p.gains and not (p.let_through or p.nothing)], self._taken),
            "peak": ([p for p in parts if not (p.let_through or p.nothing)], self._peak),
        }
        for form, way in FORMS.items():
            said = next(((found[1], note) for note in notes if (found := re.fullmatch(form, note))), ("", ""))
            so = [(p, of) for p in ways[way][0] if (of := self._most(p, ways[way][1]))]
            told = [one for one in outside_brackets(re.sub(r", the worst of", " ~ the worst of", said[0])) if one]
            self.claim(len(told) == len(so), f"{way}: {len(so)} {[(p.defence, p.strength) for p, _ in so]}", said[1])
            for one, (part, (before, after, attack, often)) in zip(told, so, strict=False):
                found = re.fullmatch(ONE, one.replace(" ~ ", ", "))
                if found is None:
                    self.claim(False, f"{way}: no reading of {one}", said[1])
                    continue
                where = f"{part.defence}{t.under(part.place)} with {t.at(part.strength)}"
                self.claim((found[1], found[3], found[4] or "") == (where, attack, often), f"{way}: {where} {attack}{often}", one)
                self.claim(near(found[2], after) and (not found[5] or near(found[5], before)), f"{way}: {before} {after}", one)

    @staticmethod
    def _worst_off(row: Row) -> tuple[float, float, float, float]:
        """By how much, by how much at least, without attack and under it."""
        before, after = number(row, "clean", "worst"), number(row, "accuracy", "worst")
        return before - after, max(0.2, 2 * (number(row, "clean", "final") - number(row, "accuracy", "final"))), before, after

    @staticmethod
    def _taken(row: Row) -> tuple[float, float, float, float]:
        before, after, of_all = (number(row, "success", name) for name in ("clean_worst", "worst", "mean"))
        return after - before, max(0.2, 2 * (of_all - number(row, "success", "clean_mean"))), before, after

    def _peak(self, row: Row) -> tuple[float, float, float, float]:
        before, after = number(row, "success", "clean_mean"), number(row, "success", "peak")
        return after - before, self.truth.success, before, after

    @staticmethod
    def _most(part: Part, moved: Moved) -> tuple[float, float, str, str] | None:
        """Of the attack that moves one seed most."""
        found = []
        for attack, rows in part.rows.items():
            played = [of for of in map(moved, rows) if isfinite(of[0])]
            seen = [of for of in played if of[0] > of[1]]
            n, count = len(seen), len(played)
            often = f", the worst of {n} " + (f"such seeds of {count}" if n < count else "seeds")
            often = "" if count == 1 else f" on 1 of {count} seeds" if n == 1 else often
            found += [(by, before, after, attack, often) for by, _, before, after in seen]
        return max(found)[1:] if found else None
