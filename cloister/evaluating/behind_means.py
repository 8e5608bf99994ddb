"""What the means of a verdict hide, seed by seed: single clients behind the mean of all, and rounds other than the last poisoned
one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from ..fl.runs.results_folder import Row
from ..grids.spread import metric
from .data import Grid, at
from .judging import Finding, State

ONE = 0.2
"""Of the worst client's accuracy lost on some seed, from which on a verdict that a defence holds names it; and twice as much as
all lose there in the mean, else it is no single client.
"""


@dataclass(frozen=True, slots=True, order=True)
class Hidden:
    """The most that a mean hides of one attack: on the seed where a number moved most, what it was without the attack and under
    it. often: on how many of `seeds`, as words; empty where one seed alone was played.
    """

    moved: float
    before: float
    after: float
    attack: str
    often: str


def single_clients(grid: Grid, found: Mapping[str, Sequence[Finding]]) -> list[str]:
    """Who holds in the mean of the loyal clients, while the one that is worst off lost much, or has a backdoor to itself."""

    def holds(one: Finding) -> bool:
        return one.holds

    def not_through(one: Finding) -> bool:
        return not one.nothing and one.backdoor is not None and one.backdoor.state != State.BREAKS

    said = [
        f"{where} {100 * of.after:.1f} % under {of.attack}{of.often} (the worst has {100 * of.before:.1f} % without attack)"
        for where, of in _most(grid, found, holds, _worst_off)
    ]
    taken = [
        f"{where} {100 * of.after:.1f} % of {of.attack}{of.often} (at most {100 * of.before:.1f} % of any client without it)"
        for where, of in _most(grid, found, not_through, _taken_most)
    ]
    first = "Means hide single clients, whom a backdoor takes at the end: of the one that is taken most"
    return [
        *([f"Means hide single clients; the worst off at the end: {'; '.join(said)}."] if said else []),
        *([f"{first}, {'; '.join(taken)}."] if taken else []),
    ]


def earlier_peaks(grid: Grid, found: Mapping[str, Sequence[Finding]]) -> list[str]:
    """Whom no backdoor breaks by its last poisoned round, while one succeeded above the bound in an earlier or a later one."""

    def moved(row: Row) -> tuple[float, float, float, float]:
        before, after = metric(row, "success", "clean_mean"), metric(row, "success", "peak")
        return after - before, grid.bounds.success, before, after

    def not_through(one: Finding) -> bool:
        return not one.nothing and (one.backdoor is None or one.backdoor.state != State.BREAKS)

    most = _most(grid, found, not_through, moved)
    said = [f"{where} {100 * of.after:.1f} % of {of.attack}{of.often}" for where, of in most]
    tail = "where models have learned little, that may be no backdoor's doing"
    first = "Backdoors are judged in their last poisoned round; their highest success from the middle of the attack on"
    return [f"{first}: {'; '.join(said)} ({tail})."] if said else []


Moved = Callable[[Row], tuple[float, float, float, float]]
"""Of a run: by how much a number was moved for the worse, more than what that has to be, and the number without attack and under
it. Not finite where there is none.
"""


def _worst_off(row: Row) -> tuple[float, float, float, float]:
    before, after = metric(row, "clean", "worst"), metric(row, "accuracy", "worst")
    lost = metric(row, "clean", "final") - metric(row, "accuracy", "final")
    return before - after, max(ONE, 2 * lost), before, after


def _taken_most(row: Row) -> tuple[float, float, float, float]:
    before, after = metric(row, "success", "clean_worst"), metric(row, "success", "worst")
    gained = metric(row, "success", "mean") - metric(row, "success", "clean_mean")
    return after - before, max(ONE, 2 * gained), before, after


def _most(
    grid: Grid, found: Mapping[str, Sequence[Finding]], about: Callable[[Finding], bool], moved: Moved
) -> Iterator[tuple[str, Hidden]]:
    """For each finding that it is about, where it is in words, and the attack of which most is to be said."""
    for place, several in found.items():
        under = f" under {place}" if len(found) > 1 else ""
        for one in several:
            told = [_hidden(attack, rows, moved) for attack, rows in one.rows.items()] if about(one) else []
            if there := [of for of in told if of is not None]:
                yield f"{one.defence}{under} with {at(grid, one.strength)}", max(there)


def _hidden(attack: str, rows: Sequence[Row], moved: Moved) -> Hidden | None:
    """Of an attack; None where nothing moved as much as it has to on any seed."""
    told = [one for one in map(moved, rows) if isfinite(one[0])]
    seen = [(by, before, after) for by, least, before, after in told if by > least]
    return Hidden(*max(seen), attack, _often_words(len(seen), len(told))) if seen else None


def _often_words(seen: int, played: int) -> str:
    if played == 1:
        return ""
    if seen == 1:
        return f" on 1 of {played} seeds"
    return f", the worst of {seen} {'such ' * (seen < played)}seeds{f' of {played}' * (seen < played)}"
