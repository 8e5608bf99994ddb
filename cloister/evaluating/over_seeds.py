"""What breakdown searches found over seeds, of those of the seeds alone: whoever played them, and in whichever folder."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import inf
from typing import Any

from ..fl.runs.results_folder import Row
from ..threat_models.breakdown import Steps, median_interval


def over_seeds(seeds: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """median: of the smallest strengths that break, with its interval (`MedianInterval`; None for what lies above the greatest
    strength), None where no seed has a result. single: whether the strengths tried fit one crossing with every seed.
    """
    done = searched(seeds)
    points = [inf if one["breaks"] is None else float(one["breaks"]) for one in done]
    interval = asdict(median_interval(points)) if points else None
    return {
        "median": None if interval is None else {name: None if v == inf else v for name, v in interval.items()},
        "single": all(one.get("single", True) is not False for one in done),
    }


def searched(seeds: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The seeds whose search came to a result, that nothing breaks it among them."""
    return [one for one in seeds if one.get("breaks") is not None or one.get("holds") is not None]


def summed_up(found: Row) -> Row:
    """What a folder says of its searches, with what is said over seeds made anew: an earlier version had a mean of two values
    for the median, a strength that nobody tried.
    """
    return {**found, "results": [{**one, **over_seeds(one["seeds"])} for one in found.get("results", ())]}


def greatest(found: Mapping[str, Any]) -> float:
    """The greatest strength that searches may try: of steps of 2 from 1, up to 6, that is 5."""
    steps = Steps(**found["steps"])
    return steps.at(len(steps) - 1)


def breaks_within(one: Mapping[str, Any]) -> bool:
    """Whether half of the seeds or more that were searched break at a strength that was tried."""
    return one["median"] is not None and one["median"]["median"] is not None


def beyond_words(one: Mapping[str, Any]) -> str:
    """That it breaks with more attackers in a round than the defence is built for: where every seed that breaks does so, and half
    of all or more break; where some break with no more, and the median does not, on how many. Empty where nothing says so.
    """
    limit = one.get("built_for")
    if limit is None:
        return ""
    done = searched(one["seeds"])
    median, broken = (one["median"] or {}).get("median"), [seed["breaks"] for seed in done if seed["breaks"] is not None]
    within = sum(_attackers(one, strength) <= limit for strength in broken)
    if median is not None and _attackers(one, median) <= limit:
        return ""
    if within:
        return f"within the {limit} that it is built for on {within} of {len(done)} seeds"
    return f"beyond the {limit} that it is built for" if median is not None else ""


def _attackers(one: Mapping[str, Any], strength: float) -> float:
    """At work in one round at this strength, at most."""
    return float(one.get("at_work", {}).get(f"{strength:g}", strength))


def median_words(one: Mapping[str, Any], most: float) -> str:
    """The median as strengths that were tried: "2", of an even number of seeds "1 to 2", or "over 5"."""
    low, high = (one["median"][name] for name in ("median", "upper"))
    said = [f"over {most:g}" if of is None else f"{of:g}" for of in (low, high)]
    return said[0] if said[0] == said[1] else " to ".join(said)


def broke_words(one: Mapping[str, Any]) -> str:
    """With how many seeds anything broke it, of those that were searched: "2 of 3 seeds"."""
    done: Sequence[Mapping[str, Any]] = searched(one["seeds"])
    count = sum(seed["breaks"] is not None for seed in done)
    return f"{count} of {len(done)} seed{'s' * (len(done) != 1)}"


def least_words(found: Mapping[str, Any]) -> str:
    """What searches look for: "fewest attackers", "smallest share of attackers"."""
    return f"{'fewest' if found['strength'] == 'attackers' else 'smallest'} {found['strength']}"
