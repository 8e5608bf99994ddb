"""Attacks that know the rule and search a line for the point that harms it most (ByzFL's optimal ALIE and IPM).

A rule comes in one of four forms, told apart by structure:
- `weights(gram, rng)`: the weights of a weighted sum, from the Gram matrix (every rule that can run under secure aggregation).
  A search costs the pass that makes the geometry and small matrices after it. `shift_invariant`, where the rule has it and it
  is true, says that centred updates will do, which rounds less.
- `combine(block)`: treats every coordinate alone. The search looks at `SAMPLED` coordinates drawn at random, whose share of the
  damage estimates the whole. Such a rule may stand behind `steps`, each with `mixing(gram, rng)`, as its `rule`.
- `WithExtra(rule, row)`: a rule with `weights_with(gram, rng)`, whose last row is a vector that is no update, such as the result
  of the round before (centred clipping) or a root update (FLTrust).
- a callable from updates, a sequence of float32 (d,), to the result, float32 (d,): evaluated in full at every point.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..fl.robust.mixing import Prepared
from ..protocol.view.answers import Vector
from .geometry import Geometry, Perturbation, geometry
from .knowledge import Colluding, Insider, Level, Own, forged

SAMPLED = 16_384
"""Coordinates at which a coordinate-wise rule is tried."""

Damage = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class WithExtra:
    """A rule with the extra vector that it is given, as an insider knows it."""

    rule: Any
    row: Callable[[Own], Vector]


def last_aggregate(own: Own) -> Vector:
    """What the global model changed by since members last opened it: 0 at first."""
    return np.zeros_like(own.start) if own.previous is None else own.start - own.previous


def damage_of(rule: Any, shape: Geometry, updates: Sequence[Vector], faulty: int, rng: np.random.Generator) -> Damage:
    """t -> |R(x_1 .. x_m, u(t) .. u(t)) - mu|^2 with u(t) sent by `faulty` members; -inf where the rule fails or is not finite.

    Raises ValueError for a rule of none of the four forms.
    """
    behind: Any = rule.rule if isinstance(rule, WithExtra) else rule
    steps: list[Any] = []
    while isinstance(behind, Prepared):
        behind, steps = behind.rule, [*steps, *behind.steps]
    if isinstance(rule, WithExtra):
        found = of_weights_with(rule.rule, shape, faulty, rng)
    elif hasattr(behind, "combine"):
        found = of_coordinates(behind, steps, shape, updates, faulty, rng)
    elif hasattr(behind, "weights"):
        found = of_weights(rule, shape, faulty, rng)
    elif callable(rule):
        found = of_vectors(rule, shape, updates, faulty)
    else:
        raise ValueError(f"{type(rule).__name__} is no rule: give it weights(gram, rng) or combine(block), or make it callable")

    def damage(t: float) -> float:
        try:
            value = found(t)
        except ValueError:  # too few updates for the rule
            return -np.inf
        return value if np.isfinite(value) else -np.inf

    return damage


class Grams:
    """The Gram matrix of x_1 .. x_m, u(t) .. u(t) for every t: all are combinations of x_i - mu, p and mu.

    centred: of the vectors less mu, which rounds less.
    """

    def __init__(self, shape: Geometry, faulty: int, centred: bool) -> None:
        m = shape.count
        self._basis = shape.basis
        self._clean = m
        self.combination = np.zeros((m + faulty, len(shape.basis)))
        self.combination[:m, :m] = np.eye(m)
        self.combination[:, -1] = 0.0 if centred else 1.0

    def at(self, t: float) -> NDArray[np.float64]:
        self.combination[self._clean :, -2] = t
        gram = self.combination @ self._basis @ self.combination.T
        return np.asarray((gram + gram.T) / 2)

    def with_extra(self, t: float) -> NDArray[np.float64]:
        """`at` with the extra vector of the geometry as the last row."""
        gram, extra = self.at(t), np.zeros((1, len(self._basis)))
        extra[0, -3] = 1.0
        across = self.combination @ self._basis @ extra.T
        return np.block([[gram, across], [across.T, extra @ self._basis @ extra.T]])


def of_weights(rule: Any, shape: Geometry, faulty: int, rng: np.random.Generator) -> Damage:
    """In Gram space."""
    seed = int(rng.integers(2**63))
    grams = Grams(shape, faulty, bool(getattr(rule, "shift_invariant", False)))

    def damage(t: float) -> float:
        weights = np.asarray(rule.weights(grams.at(t), np.random.default_rng(seed)))
        moved = weights @ grams.combination
        moved[-1] = float(weights.sum()) - 1.0  # right for centred vectors too: less mu, plus sum w mu
        return float(moved @ shape.basis @ moved)

    return damage


def of_weights_with(rule: Any, shape: Geometry, faulty: int, rng: np.random.Generator) -> Damage:
    """In Gram space, with the extra vector as the last row. Raises ValueError for a geometry without one."""
    if len(shape.basis) != shape.count + 3:
        raise ValueError("the geometry lacks the extra vector of the rule")
    seed = int(rng.integers(2**63))
    grams = Grams(shape, faulty, False)
    extra = np.zeros((1, len(shape.basis)))
    extra[0, shape.count] = 1.0

    def damage(t: float) -> float:
        weights = np.asarray(rule.weights_with(grams.with_extra(t), np.random.default_rng(seed)))
        moved = weights[:-1] @ grams.combination + weights[-1] * extra[0]
        moved[-1] -= 1.0
        return float(moved @ shape.basis @ moved)

    return damage


def of_coordinates(
    rule: Any, steps: Sequence[Any], shape: Geometry, updates: Sequence[Vector], faulty: int, rng: np.random.Generator
) -> Damage:
    """At a sample of the coordinates, after the steps' mixing of the rows."""
    d, m = len(shape.mean), len(updates)
    chosen = np.arange(d) if d <= SAMPLED else np.sort(rng.choice(d, SAMPLED, replace=False))
    rows = np.empty((m + faulty, len(chosen)), np.float32)
    for row, update in zip(rows, updates, strict=False):
        row[:] = update[chosen]
    at = Geometry(shape.mean[chosen], shape.deviation[chosen], shape.perturbation, shape.basis, m)
    seed = int(rng.integers(2**63))
    grams = Grams(shape, faulty, all(bool(getattr(step, "shift_invariant", False)) for step in steps))

    def damage(t: float) -> float:
        rows[m:] = at.point(t)
        drawn, gram, mixed = np.random.default_rng(seed), grams.at(t), rows.copy()
        for step in steps:
            mixing = np.asarray(step.mixing(gram, drawn))
            gram, mixed = mixing @ gram @ mixing.T, mixing.astype(np.float32) @ mixed
        moved = np.asarray(rule.combine(mixed), dtype=np.float64) - at.mean
        return float(moved @ moved) * d / len(chosen)

    return damage


def of_vectors(rule: Callable[[Sequence[Vector]], Vector], shape: Geometry, updates: Sequence[Vector], faulty: int) -> Damage:
    """By the rule itself."""

    def damage(t: float) -> float:
        moved = np.subtract(rule([*updates, *[shape.point(t)] * faulty]), shape.mean, dtype=np.float64)
        return float(moved @ moved)

    return damage


def worst_point(damage: Damage, least: float, most: float, evaluations: int) -> float:
    """The point of [least, most], 0 < least < most, where the damage is largest among those tried.

    Half of the evaluations are spread geometrically, the others evenly between the neighbours of the best of them. The first
    of equals is taken.
    """
    coarse = np.geomspace(least, most, max(2, (evaluations + 1) // 2))
    found = [damage(float(t)) for t in coarse]
    best = int(np.argmax(found))
    low, high = coarse[max(0, best - 1)], coarse[min(len(coarse) - 1, best + 1)]
    fine: NDArray[np.float64] = np.linspace(low, high, evaluations - len(coarse) + 2)[1:-1]
    tried = [*zip(found, coarse, strict=True), *((damage(float(t)), t) for t in fine)]
    return float(max(tried, key=lambda pair: pair[0])[1])


@dataclass(frozen=True, slots=True)
class LineSearched:
    """u = mu + t p for the t in [least, most] that harms the adversary's rule most; the same from all members.

    Shejwalkar and Houmansadr's attack tailored to a rule. `optimal_alie` and `optimal_ipm` are the two of ByzFL.
    """

    perturbation: Perturbation = "sign"
    least: float = 1e-3
    most: float = 10.0
    evaluations: int = 20
    needs: ClassVar[Level] = Level.INSIDER
    identical: ClassVar[bool] = True
    looks_back: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.least < self.most or self.evaluations < 4:
            raise ValueError("a line search needs 0 < least < most and at least 4 evaluations")

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        if not isinstance(coalition, Insider):
            raise ValueError("a search against a rule needs an insider's knowledge")
        first = coalition.own[min(coalition.own)]
        extra = coalition.rule.row(first) if isinstance(coalition.rule, WithExtra) else None
        shape, rng = geometry(coalition.seen, self.perturbation, extra), first.rng
        damage = damage_of(coalition.rule, shape, coalition.seen, coalition.faulty, rng)
        found = shape.point(worst_point(damage, self.least, self.most, self.evaluations))
        return forged(coalition, [found.copy() for _ in coalition.own])


def optimal_alie(most: float = 10.0, evaluations: int = 20) -> LineSearched:
    """u = mu - z sd for the worst z."""
    return LineSearched("deviation", most=most, evaluations=evaluations)


def optimal_ipm(most: float = 10.0, evaluations: int = 20) -> LineSearched:
    """u = -eps mu for the worst eps from 0 to most: t = 1 + eps on the line from mu against itself."""
    return LineSearched("mean", least=1.0, most=1.0 + most, evaluations=evaluations)
