"""The words of a verdict, and claims that several of its sentences make: what is lost, and on how many seeds."""

import re
from collections.abc import Sequence
from math import inf, isfinite
from statistics import fmean

from .verdict_truth import HOLDS, REFUSED, UNCHANGED, Part, Truth, mean_of

WITHIN = "with as many attackers as it is built for"
NOTHING_MET = {
    "no attack changed any loyal client's model": UNCHANGED,
    "what attackers sent was refused, or changed no model": REFUSED,
}
OPENINGS = {
    "within what they are built for": True,
    "defences that state no number of attackers (say it with limits=)": None,
    "beyond what they are built for": False,
}
GUESS = "(?:[Cc]hance|[Aa]lways saying the most frequent label)"
NUMBER = r"(-?\d+\.\d)"
POINTS = re.compile(
    rf"{NUMBER} points of accuracy( in the mean)? to (.+?)(?:, played on (\d+) of (\d+) seeds)?, from {NUMBER} to {NUMBER} %"
    r"(?:, above the bound in (\d+) of (\d+) seeds)?"
)
UP_TO = re.compile(
    rf"up to {NUMBER} points of accuracy to (.+?)(?:, played on (\d+) of (\d+) seeds)?, nothing in the mean, above the bound in"
    r" (\d+) of (\d+) seeds"
)
END = re.compile(
    rf"(?:(.+) most )?in the last evaluation {NUMBER} points( in the mean)? to (.+?)(?:, played on (\d+) of (\d+) seeds)?, from"
    rf" {NUMBER} to {NUMBER} %, {NUMBER} % late in the run(?:, above the bound in (\d+) of (\d+) seeds)?"
)
SUCCESS = re.compile(
    rf"(?:most through (.+?): )?(\S+) succeeds {NUMBER} points( in the mean)? more often than without it, in its last poisoned"
    r" round(?:, played on (\d+) of (\d+) seeds)?(?:, above the bound in (\d+) of (\d+) seeds)?"
)


def near(said: str | float, so: float) -> bool:
    """Whether a share is what is said of it in points, as far as they are printed."""
    return isfinite(so) and abs(float(said) - 100 * so) <= 0.0501


def names_in(words: str) -> list[str]:
    """ "a, b and c"."""
    return re.split(r", | and ", words)


def seeds_said(words: str) -> float | None:
    """How many seeds are said to be needed."""
    found = re.fullmatch(r"(?:about (\d+)|more than 1000) seeds needed", words)
    return None if found is None else float(found[1] or inf)


def outside_brackets(words: str, mark: str = "; ") -> list[str]:
    """The parts of a sentence, of which brackets are none."""
    parts, depth, last = list[str](), 0, 0
    for k, letter in enumerate(words):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and words[k:].startswith(mark):
            parts.append(words[last:k])
            last = k + len(mark)
    return [*parts, words[last:]]


class Claims:
    """What is claimed, held against the lines; found: what is not so."""

    def __init__(self, truth: Truth) -> None:
        self.truth, self.found = truth, list[str]()
        self.names = {name.lower(): name for name in truth.defences}

    def claim(self, so: bool, what: str, sentence: str) -> None:
        if not so:
            self.found.append(f"{what} | {sentence}")

    def defences(self, words: str) -> list[str]:
        return [self.names.get(name.lower(), f"? {name}") for name in names_in(words)]

    def points(self, part: Part, words: str, line: str) -> None:
        """What is lost, "8.0 points of accuracy to A, from 90.0 to 82.0 %"."""
        worst = max(part.over_bound or part.losses, key=lambda a: fmean(part.losses[a]))
        if words == "nothing":
            return self.claim(fmean(part.losses[worst]) <= 0, "something is lost", line)
        if (found := UP_TO.fullmatch(words)) and found[2] in part.losses:
            most, attack, *seeds_of = found.groups()
            of = part.losses[attack]
            self.claim(near(most, max(of)) and fmean(of) <= 0 and fmean(of) >= fmean(part.losses[worst]), f"up to: {of}", line)
            return self._seeds(part, (*seeds_of, "mean"), of, self.truth.loss, line)
        found = POINTS.fullmatch(words)
        if found is None or found[3] not in part.losses:
            return self.claim(False, "no reading of points", line)
        lost, mean, attack, played, seeds, before, after, broke, count = found.groups()
        of = part.losses[attack]
        self.claim(fmean(of) > 0, "less than nothing", line)
        self.claim(near(lost, fmean(of)) and fmean(of) >= fmean(part.losses[worst]) - 1e-9, f"to {worst}, {part.losses}", line)
        rows = [row for row in part.rows[attack] if isfinite(self.truth.lost(row))]
        held = mean_of(map(self.truth.held, rows))
        self.claim(near(before, held) and near(after, held - fmean(of)), f"held {held}", line)
        self._seeds(part, (played, seeds, broke, count, mean), of, self.truth.loss, line)
        return None

    def _seeds(self, part: Part, said: Sequence[str | None], of: Sequence[float], bound: float, line: str) -> None:
        """On how many seeds an attack was played, and breaks the defence, and that a mean is one."""
        played, seeds, broke, count, mean = said
        of_all = len(self.truth.seeds)
        so = (len(of), of_all) if len(of) < of_all else (0, 0)
        self.claim((int(played or 0), int(seeds or 0)) == so, f"played on {so}", line)
        above = sum(v > bound for v in of)
        so = (above, len(of)) if 0 < above < len(of) else (0, 0)
        self.claim((int(broke or 0), int(count or 0)) == so, f"above on {so}", line)
        self.claim(bool(mean) or above in (0, len(of)), "a mean", line)


class OfParts(Claims):
    """Claims of all parts of a grid that have a result."""

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self.judged = [p for p in truth.parts if p.losses]
        self.holding = [p for p in self.judged if p.word == HOLDS]

    def _same(self, so: Sequence[str], words: str, note: str, mark: str = ", ") -> None:
        said = outside_brackets(words, mark)
        self.claim(sorted(said) == sorted(so), f"so: {so}", note)

    def _worst(self, part: Part) -> str:
        return max(part.over_bound or part.losses, key=lambda a: fmean(part.losses[a]))
