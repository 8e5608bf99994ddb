"""Is W - tau < eps? Decided by bounds where they suffice, and by the exact solver where they do not.

Formal guarantee: `decide` returns the edge that `ExactEmd(ground)(source, target) - reference < eps` gives. A bound decides
only if it is on its side of reference + eps by more than `Pair.slack`, which is above every rounding error involved (those of
the solver, of the bounds and of the sum); closer calls, ties among them, are solved as `ExactEmd` solves them, on the same costs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .bounds import Couplings, Interval, Moments, Pair, Relaxed, Stage
from .distances import transport

LADDER: tuple[Stage, ...] = (Moments(), Relaxed(), Couplings(iterations=10, share=0.25), Couplings(iterations=60, share=0.1))
"""Stages in the order of their cost. `Projections` and `Gelbrich` are left out: at 512 embeddings of more than a hundred
coordinates they take longer than the `Relaxed` transport, which is sharper."""

EXACT = "exact"
START = "range of costs"


@dataclass(frozen=True, slots=True)
class Decision:
    """edge: whether W - tau < eps. by: what settled it. stage: the name of the bound, or "exact".

    bounds: lower <= W <= upper as known at the end; both are W itself if it was solved.
    """

    edge: bool
    by: Literal["lower bound", "upper bound", "exact"]
    stage: str
    bounds: Interval


def decide(pair: Pair, reference: float, eps: float, stages: Sequence[Stage] = LADDER) -> Decision:
    """Whether the distance of the pair exceeds its reference by less than eps.

    reference: tau, the distance of the source to a sample of its own client. Raises ValueError unless both numbers are finite.
    """
    threshold = reference + eps
    if not math.isfinite(threshold):
        raise ValueError(f"a reference distance and eps must be finite, not {reference} and {eps}")
    slack = pair.slack + 1e-15 * (abs(reference) + abs(eps))
    known, name = Interval(0.0, pair.largest), START
    for stage in (None, *stages):
        if stage is not None:
            known, name = known & stage(pair, threshold), type(stage).__name__
        if known.lower > threshold + slack:
            return Decision(False, "lower bound", name, known)
        if known.upper < threshold - slack:
            return Decision(True, "upper bound", name, known)
    distance = transport(pair.exact_costs)
    return Decision(distance - reference < eps, "exact", EXACT, Interval(distance, distance))
