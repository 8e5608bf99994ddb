"""Which defences of an evaluation diverged without attack, or came to nothing, and what may help each."""

from collections.abc import Callable
from itertools import product

from ..fl.runs.results_folder import Row
from ..grids.learning import LONGER, SMALLER, diverged, guesses
from .data import Grid
from .learning import at_chance

LOOK = "Others here learned from the same data, so look at the defence first, and at its training.lr"


def diverged_without_attack(grid: Grid) -> list[str]:
    """Who diverged without attack, and whose training came to nothing, whatever the accuracy is: what an attack took there is not
    to be known. A sentence each, with what may help: where another one learned beside each of them, to look at these.
    """
    where = {
        "Training diverged without attack": (_of_clean_runs(grid, diverged), SMALLER),
        "Training came to nothing without attack, with loss and accuracy of a guess": (_of_clean_runs(grid, guesses), LONGER),
    }
    said = []
    for what, (of, remedy) in where.items():
        by = [f"{name}{f' under {place}' * (len(grid.protections) > 1)}{words}" for (name, place), words in of.items()]
        if of and all(_learned(grid, place) for _, place in of):
            remedy = LOOK
        said += [f"{what}: by {', '.join(by)}. {remedy}."] * bool(by)
    return said


def _of_clean_runs(grid: Grid, is_so: Callable[[Row], bool]) -> dict[tuple[str, str], str]:
    """On how many of its seeds something is so of a defence without attack, by its name and protection; not of idle ones."""
    found = {}
    for place, name in product(grid.protections, grid.defences):
        rows = grid.rows(None, name, None, place)
        if (bad := sum(map(is_so, rows))) and not grid.idle(name, place):
            found[name, place] = f" on {bad} of {len(rows)} seed{'s' * (len(rows) != 1)}"
    return found


def _learned(grid: Grid, place: str) -> bool:
    """Whether some defence is better than chance there, by the whole interval of its seeds, and none of its runs diverged."""
    for name in grid.defences:
        own, rows = grid.clean(name, place), grid.rows(None, name, None, place)
        if own is None or grid.idle(name, place) or any(diverged(row) or guesses(row) for row in rows):
            continue
        if not at_chance(grid, own.low if own.tells else own.least, place):
            return True
    return False
