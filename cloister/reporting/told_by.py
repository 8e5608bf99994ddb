"""Rounds in which not all clients said how well they predict: their mean is of others than that of rounds before and after."""

from collections.abc import Sequence

from .run_data import Row, Run, evaluated, scores


def told_by(run: Run, line: Row) -> frozenset[str]:
    """Clients whose score of a round is known."""
    return frozenset(map(str, scores(run, line)))


def partly_told(run: Run) -> tuple[int, frozenset[float]]:
    """How many clients ever said it, and the evaluated rounds in which some of them did not. Of a simulation there are none."""
    if not run.link:
        return 0, frozenset()
    each = [(t, told_by(run, line)) for t, line in evaluated(run)]
    ever = frozenset[str]().union(*(who for _, who in each))
    return len(ever), frozenset(t for t, who in each if who != ever)


def shaded(run: Run) -> Sequence[tuple[float, float]]:
    """Where a picture over rounds shows these: from half a round before each to half a round after, neighbours as one."""
    found: list[tuple[float, float]] = []
    for t in sorted(partly_told(run)[1]):
        first, last = found.pop() if found and found[-1][1] >= t - 0.5 else (t - 0.5, t + 0.5)
        found.append((first, max(last, t + 0.5)))
    return found
