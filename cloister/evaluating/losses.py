"""What an attack cost a defence in each run, late and in the last evaluation alone, and what a backdoor gained there."""

from collections.abc import Mapping, Sequence
from math import nan

from ..fl.runs.results_folder import Row
from ..grids.spread import metric
from ..threat_models.broken import CLEAN, LOWER, gained, lost, lost_at_end, ruined

NO_MEASURE = " or, where that is no measure, "


def gains_by_seed(rows: Sequence[Row], bound: float) -> dict[int, float]:
    """By seed, what a backdoor gained; NaN where it could not have gained more than the bound."""
    found = {row["seed"]: (gained(row.get("success")), cannot_gain(row, bound)) for row in rows}
    return {seed: nan if full else gain for seed, (gain, full) in found.items() if gain is not None}


def cannot_gain(row: Row, bound: float) -> bool:
    """Whether a backdoor succeeds so often without attack that there is no room for the bound."""
    success = row.get("success")
    return success is not None and float(success["clean_mean"]) >= 1 - bound


def lost_by_seed(rows: Sequence[Row], absent: Mapping[int, float]) -> dict[int, float]:
    """Accuracy of the loyal clients late in the run that an attack cost them, by seed.

    absent: what they have without the attackers' data, by seed, of which and of what the same clients have without attack the
    lower counts; on seeds that it lacks the latter alone.
    """
    late = {row["seed"]: (metric(row, "accuracy", "late"), metric(row, "clean", "late")) for row in rows}
    return {seed: lost(*of, absent.get(seed)) for seed, of in late.items()}


def ends_ruined(row: Row, absent: Mapping[int, float], ends: Mapping[int, float], bound: float) -> bool:
    """Whether a run breaks the defence in its last evaluation alone. absent, ends: of the run without the attackers' data, by
    seed, late and at its end.
    """
    late, final = (metric(row, "accuracy", name) for name in ("late", "final"))
    return ruined(lost_at_end_of(row, absent, ends), late, final, bound)


def lost_at_end_of(row: Row, absent: Mapping[int, float], ends: Mapping[int, float]) -> float:
    held = [metric(row, "clean", "late"), metric(row, "clean", "final")]
    return lost_at_end(metric(row, "accuracy", "final"), [*held, *(of.get(row["seed"], nan) for of in (absent, ends))])


def reference_of(rows: Sequence[Row], absent: Mapping[int, float]) -> str:
    """What `lost_by_seed` holds these lines against, in words."""
    there = {row["seed"] in absent for row in rows}
    return NO_MEASURE.join(words for words, is_there in ((LOWER, True), (CLEAN, False)) if is_there in there or not there)


def held_by_seed(rows: Sequence[Row], absent: Mapping[int, float]) -> dict[int, float]:
    """By seed, the accuracy below which `lost_by_seed` counts: the lower of the two."""
    losses = lost_by_seed(rows, absent)
    return {row["seed"]: losses[row["seed"]] + metric(row, "accuracy", "late") for row in rows}
