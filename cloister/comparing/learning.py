"""Which methods of a comparison diverged or learned nothing without attack, and what may help each."""

from collections.abc import Iterable, Sequence

from ..fl.runs.results_folder import Row
from ..grids.learning import LONGER, SMALLER, diverged, guesses
from ..threat_models.chance import NOTHING, nothing_words
from .data import Found, Spot

LOOK = "Others here learned from the same data, so look at the method first, and at its training.lr"


def learning_words(found: Found) -> list[str]:
    """A line each: who diverged, whose training came to nothing, and who else is no better than a guess, without attack."""
    spots = [Spot(data, method, protection) for data, protection in found.blocks for method in found.methods]
    told = {spot: _seeds_words(row for row in found.lines(spot) if diverged(row)) for spot in spots}
    nothing = {spot: _seeds_words(row for row in found.lines(spot) if guesses(row)) for spot in spots}
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
        and not any(diverged(row) or guesses(row) or row.get("nothing_summed") for row in found.lines(spot))
        and not _at_chance(found, spot)
    ]
