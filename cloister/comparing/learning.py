"""Which methods of a comparison diverged or learned nothing without attack, and what may help each."""

from collections.abc import Iterable, Sequence

from ..fl.runs.results_folder import Row
from ..grids.spread import metric
from ..threat_models.chance import NOTHING, nothing_words
from .data import Found, Spot

GROWN = 2
"""A loss at the end so many times that of guessing is said to have diverged; one that is less, to have come to nothing."""
SMALLER = "A smaller training.lr, or inputs of one scale, may help"
LOOK = "Others here learned from the same data, so look at the method first, and at its training.lr"
LONGER = "More rounds, or another training.lr, may help"


def learning_words(found: Found) -> list[str]:
    """A line each: who diverged, whose training came to nothing, and who else is no better than a guess, without attack."""
    spots = [Spot(data, method, protection) for data, protection in found.blocks for method in found.methods]
    told = {spot: _seeds_words(row for row in found.lines(spot) if _diverged(row)) for spot in spots}
    nothing = {spot: _seeds_words(row for row in found.lines(spot) if _guesses(row)) for spot in spots}
    rest = [spot for spot in spots if not (told[spot] or nothing[spot])]
    at_chance = {spot: _at_chance(found, spot).removeprefix(NOTHING) for spot in rest}
    return [
        *_line("Training diverged", told, SMALLER),
        *_line("Training came to nothing, with loss and accuracy of a guess", nothing, _remedy(found, nothing)),
        *_line(NOTHING.capitalize(), at_chance, _remedy(found, at_chance)),
    ]


def _line(what: str, of: dict[Spot, str], remedy: str) -> list[str]:
    said = [f"{spot.method} on {spot.data} under {spot.protection}{words}" for spot, words in of.items() if words]
    return [f"{what}: {'; '.join(said)}. {remedy}."] if said else []


def _seeds_words(rows: Iterable[Row]) -> str:
    """Which seeds these are of, in brackets; empty without any."""
    seeds = [str(row["seed"]) for row in rows]
    return f" (seed{'s' * (len(seeds) != 1)} {', '.join(seeds)})" if seeds else ""


def _diverged(row: Row) -> bool:
    """Whether some loss is not finite at the end, or far above that of guessing."""
    return bool(row.get("not_finite")) or (bool(row.get("diverged")) and not _guesses(row))


def _guesses(row: Row) -> bool:
    """Whether after some rounds neither loss nor accuracy was better than that of a guess (`fl.runs.diverged`)."""
    return metric(row, "diverged", "last") < GROWN * metric(row, "diverged", "guess")


def _at_chance(found: Found, spot: Spot) -> str:
    """That its mean accuracy is no better than a guess, as an evaluation says it; empty where it is better, or nobody knows, and
    where no update was summed, which is said by itself.
    """
    of, rows = found.over_seeds(spot, "accuracy", "mean"), found.lines(spot)
    return "" if of is None or any(row.get("nothing_summed") for row in rows) else nothing_words(of.mean, rows)


def _remedy(found: Found, of: dict[Spot, str]) -> str:
    """What may help those of which something is said: where others learned beside each of them, to look at these."""
    blocks = [(spot.data, spot.protection) for spot, words in of.items() if words]
    return LOOK if all(_learned(found, *block) for block in blocks) else LONGER


def _learned(found: Found, data: str, protection: str) -> Sequence[str]:
    """The methods of a block that are better than a guess on every seed that they have a result with."""
    spots = [Spot(data, method, protection) for method in found.methods]
    return [
        spot.method
        for spot in spots
        if found.over_seeds(spot, "accuracy", "mean") is not None
        and not any(_diverged(row) or _guesses(row) or row.get("nothing_summed") for row in found.lines(spot))
        and not _at_chance(found, spot)
    ]
