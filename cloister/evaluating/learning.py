"""Whether a defence learned anything without attack: what did not is praised for nothing that it holds."""

from collections.abc import Sequence

from ..grids.words import capital
from ..threat_models.chance import no_better
from .data import Grid

LEARNED = 0.5
"""Of the best accuracy without attack, below which a defence is not praised for what it holds: it learned next to nothing."""
CLOSE = 0.125
"""Of the way from chance to 1, and no more than chance once more, below which an accuracy is not much better than chance."""


def learns(grid: Grid, defence: str, protection: str) -> bool:
    """Whether its model without attack is worth holding: better than chance, and at least half as accurate as that of the best
    defence.
    """
    own = grid.clean(defence, protection)
    return own is None or not (at_chance(grid, own.mean, protection) or own.mean < LEARNED * _best(grid, protection)[1])


def seeds_without(grid: Grid, defence: str, protection: str) -> tuple[int, int]:
    """On how many of its seeds a defence learned as little without attack as `learns` does not praise; and of how many."""
    own, best = grid.clean_by_seed(defence, protection), _best(grid, protection)[1]
    chances = grid.chances(protection)
    return sum(no_better(a, chances.get(seed)) or a < LEARNED * best for seed, a in own.items()), len(own)


def at_chance(grid: Grid, accuracy: float, protection: str) -> bool:
    """Whether an accuracy, the mean of seeds, is hardly above that of a guess among the labels; False where their number is not
    known.
    """
    return no_better(accuracy, grid.chance(protection))


def close_to_chance(grid: Grid, accuracy: float, protection: str) -> bool:
    """Whether an accuracy is little above that of a guess: of ten labels up to 20 %, or by less than twice what a defence may
    lose. False where their number is not known.
    """
    chance = grid.chance(protection)
    if chance is None:
        return False
    return accuracy <= chance + min(CLOSE * (1 - chance), chance) or accuracy < chance + 2 * grid.bounds.loss


def enough_words(grid: Grid, protection: str) -> str:
    """What a defence must have learned to be praised, "half as much as median does without attack"."""
    name, best = _best(grid, protection)
    return (
        f"more than {grid.guess(protection)}, {_percent(grid.chance(protection))},"
        if at_chance(grid, best, protection)
        else f"half as much as {name} does without attack"
    )


def little_words(grid: Grid, defences: Sequence[str], protection: str) -> str:
    """Which of these learned little, or nothing, and what they have; empty where all did."""
    said = []
    for name in defences:
        own = grid.clean(name, protection)
        if own is not None and not learns(grid, name, protection):
            little = (
                f"nothing, as {grid.guess(protection)} is {_percent(grid.chance(protection))}"
                if at_chance(grid, own.mean, protection)
                else "little"
            )
            said.append(f"{name} learned {little}: {_percent(own.mean)}")
    return f"{', '.join(said)} without attack" if said else ""


def without_attack(grid: Grid, holding: Sequence[str], protection: str) -> str:
    """What those that hold keep, beside the best: else one that learns little looks as good as one that learns well."""
    name, best = _best(grid, protection)
    own = {d: of.mean for d in holding if (of := grid.clean(d, protection)) is not None}
    if not own:
        return ""
    said = ", ".join(f"{d} {_percent(mean)}" for d, mean in own.items())
    beside = "" if name in own else f"; the best of all, {name}, {_percent(best)}"
    close = [d for d, mean in own.items() if close_to_chance(grid, mean, protection)]
    near = f"{', '.join(close)} {'is' if len(close) == 1 else 'are'} little above it"
    guess = f"{capital(grid.guess(protection))} is {_percent(grid.chance(protection))}"
    little = f" {guess}, and {near}: there was little to lose." if close else ""
    return f"Accuracy without attack, over all clients: {said}{beside}.{little}"


def _best(grid: Grid, protection: str) -> tuple[str, float]:
    """The defence with the best accuracy without attack, and that; the first of equals."""
    found = {d: of.mean for d in grid.defences if (of := grid.clean(d, protection)) is not None}
    best = max(found, key=lambda d: found[d], default="")
    return best, found.get(best, 0.0)


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.1f} %"
