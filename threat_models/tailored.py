"""Attacks that know the rule and go as far as it lets them: STAT-OPT and DYN-OPT (attacks of group 5.3).

A rule that selects or weighs updates accepts the members' vectors where it gives them no less than the mean would. The largest
step that it accepts is searched in Gram space, as in `line_search`, whose forms of a rule are taken here too; a rule that takes
every coordinate alone accepts or refuses nobody, unless steps before it pick rows, as Bulyan's do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..fl.field_ranges import need_above
from ..fl.robust.mixing import Prepared
from ..protocol.view.answers import Vector
from .geometry import PERTURBATIONS, Geometry, Perturbation, geometry
from .knowledge import Colluding, Insider, Level, forged
from .line_search import Grams, WithExtra

Acceptance = Callable[[float], float]


def acceptance_of(rule: Any, shape: Geometry, faulty: int, static: bool, rng: np.random.Generator) -> Acceptance:
    """t -> the members' share of the rule's weights over their share of the clients; 0 where the rule fails or trusts nobody.

    The members send mu + t p, or t p where static. Raises ValueError for a rule that gives no weights.
    """
    behind: Any = rule.rule if isinstance(rule, WithExtra) else rule
    last: Any = behind
    steps: list[Any] = []
    while isinstance(last, Prepared):
        last, steps = last.rule, [*steps, *last.steps]
    picks = hasattr(last, "combine") and bool(steps)
    if not picks and (hasattr(last, "combine") or not (hasattr(behind, "weights") or isinstance(rule, WithExtra))):
        raise ValueError(f"{type(last).__name__} gives no weights, so it accepts nobody; use LineSearched")
    if isinstance(rule, WithExtra) and len(shape.basis) != shape.count + 3:
        raise ValueError("the geometry lacks the extra vector of the rule")
    m, seed = shape.count, int(rng.integers(2**63))
    invariant = all(s.shift_invariant for s in steps) if picks else bool(getattr(behind, "shift_invariant", False))
    grams = Grams(shape, faulty, invariant and not isinstance(rule, WithExtra))
    if static:
        grams.combination[m:, -1] -= 1.0  # t p lies mu away from mu + t p

    def weights(t: float) -> np.ndarray[Any, np.dtype[np.float64]]:
        drawn = np.random.default_rng(seed)
        if isinstance(rule, WithExtra):
            return np.asarray(behind.weights_with(grams.with_extra(t), drawn))[:-1]
        if not picks:
            return np.asarray(behind.weights(grams.at(t), drawn))
        total, gram = np.eye(m + faulty), grams.at(t)
        for step in steps:
            total = np.asarray(step.mixing(total @ gram @ total.T, drawn)) @ total
        return np.asarray(total.mean(axis=0))

    def accepted(t: float) -> float:
        try:
            found = weights(t)
        except ValueError:  # too few updates for the rule
            return 0.0
        total = float(found.sum())
        share = float(found[m:].sum()) / total if np.isfinite(total) and total > 0 else 0.0
        return share * (m + faulty) / faulty

    return accepted


def largest_accepted(accepts: Callable[[float], bool], least: float, most: float, evaluations: int) -> float:
    """The largest point of [least, most], 0 < least < most, that is accepted among those tried; `least` if none is.

    Half of the evaluations come down from `most` geometrically to the first point that is accepted, the others halve the interval
    above it.
    """
    points = np.geomspace(most, least, max(2, evaluations // 2))
    found = next((k for k, t in enumerate(points) if accepts(float(t))), None)
    if found is None or found == 0:
        return least if found is None else most
    low, high = float(points[found]), float(points[found - 1])
    for _ in range(evaluations - len(points)):
        middle = (low + high) / 2
        low, high = (middle, high) if accepts(middle) else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class Tailored:
    """u = mu + t p, or t p where static, with the largest t in [least, most] that the adversary's rule accepts.

    All members send the same.
    share: of the weight that the mean would give the members, what the rule must give them at least. Where no t is accepted,
    the least is sent. `stat_opt` and `dyn_opt` are the two of the literature.
    """

    perturbation: Perturbation = "mean"
    static: bool = False
    share: float = 1.0
    least: float = 1e-3
    most: float = 100.0
    evaluations: int = 40
    needs: ClassVar[Level] = Level.INSIDER
    identical: ClassVar[bool] = True
    looks_back: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.least < self.most or self.evaluations < 4:
            raise ValueError("a search needs 0 < least < most and at least 4 evaluations")
        need_above(self, 0, "share", "most")

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        if not isinstance(coalition, Insider):
            raise ValueError("a search against a rule needs an insider's knowledge")
        first = coalition.own[min(coalition.own)]
        extra = coalition.rule.row(first) if isinstance(coalition.rule, WithExtra) else None
        shape = geometry(coalition.seen, self.perturbation, extra)
        accepted = acceptance_of(coalition.rule, shape, coalition.faulty, self.static, first.rng)

        def accepts(t: float) -> bool:
            return accepted(t) >= self.share - 1e-9

        t = largest_accepted(accepts, self.least, self.most, self.evaluations)
        found = np.float32(t) * PERTURBATIONS[self.perturbation](shape.mean, shape.deviation) if self.static else shape.point(t)
        return forged(coalition, [found.copy() for _ in coalition.own])


def stat_opt(most: float = 100.0, evaluations: int = 40, share: float = 1.0) -> Tailored:
    """u = -t sign(mu): a direction that is the same for all data (Fang et al. 2020; named in Shejwalkar et al. 2022)."""
    return Tailored("sign", True, share, most=most, evaluations=evaluations)


def dyn_opt(perturbation: Perturbation = "mean", most: float = 100.0, evaluations: int = 40, share: float = 1.0) -> Tailored:
    """u = mu + t p with p made of the updates (Shejwalkar and Houmansadr 2021, eq. 6; named in Shejwalkar et al. 2022)."""
    return Tailored(perturbation, False, share, most=most, evaluations=evaluations)
