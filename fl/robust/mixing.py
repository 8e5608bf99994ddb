"""Steps before a rule: NNM, bucketing, clipping and ARC, each a linear map of the updates that follows from their Gram matrix.

A step gives a matrix A: the rule then works on the rows of A X. Their Gram matrix is A G A^T, and weights w of the mixed rows
are weights A^T w of the updates, so that NNM + Multi-Krum is one Gram matrix and one weighted sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from ..clustering.separation import norms
from ..field_types import wrong_types
from .averages import clip_factors
from .function import as_rule
from .rule import (
    CoordinateRule,
    ExtraRowRule,
    GramRule,
    Matrix,
    Rule,
    Sight,
    check_count,
    check_f,
    check_positive,
    squared_distances,
)


class Step(Protocol):
    """A linear map of the updates before a rule."""

    @property
    def sees(self) -> Sight: ...

    @property
    def shift_invariant(self) -> bool:
        """Whether every row of the mixing matrix sums to 1 and depends on differences of updates alone."""
        ...

    def mixing(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        """A, float64 (m, n), from the Gram matrix (n, n)."""
        ...


@dataclass(frozen=True, slots=True)
class NNM:
    """Nearest-neighbour mixing: every update becomes the mean of the n - f nearest to it, itself among them (Allouah 2023)."""

    f: int
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_f(self)

    def mixing(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        check_count(self, n, 2 * self.f + 1)
        distances = squared_distances(gram)
        np.fill_diagonal(distances, -1.0)
        nearest = np.argsort(distances, axis=1, kind="stable")[:, : n - self.f]
        mixing = np.zeros((n, n))
        np.put_along_axis(mixing, nearest, 1 / (n - self.f), axis=1)
        return mixing


@dataclass(frozen=True, slots=True)
class Bucketing:
    """Shuffle, then means over buckets of s, the last may be smaller (Karimireddy et al. 2022).

    ceil(n / s) rows are left, and f faulty updates spoil at most f of them: the rule behind it must stand f of those.
    """

    s: int
    sees: ClassVar[Sight] = Sight.SUM
    shift_invariant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive(self, "s")

    def mixing(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        order = rng.permutation(n)
        mixing = np.zeros((-(-n // self.s), n))
        for bucket, row in enumerate(mixing):
            members = order[bucket * self.s : (bucket + 1) * self.s]
            row[members] = 1 / len(members)
        return mixing


@dataclass(frozen=True, slots=True)
class Clip:
    """Every update is shortened to norm c if it is longer."""

    c: float
    sees: ClassVar[Sight] = Sight.NORMS
    shift_invariant: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive(self, "c")

    def mixing(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        return np.diag(clip_factors(norms(gram), self.c))


@dataclass(frozen=True, slots=True)
class ARC:
    """The floor(2 f (n - f) / n) longest updates are shortened to the next norm (Allouah et al. 2025)."""

    f: int
    sees: ClassVar[Sight] = Sight.NORMS
    shift_invariant: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_f(self)

    def mixing(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        check_count(self, n, 2 * self.f + 1)
        norm = norms(gram)
        clipped = 2 * self.f * (n - self.f) // n
        return np.diag(clip_factors(norm, float(np.sort(norm)[n - clipped - 1])))


@runtime_checkable
class Prepared(Protocol):
    """A rule that begins with steps."""

    @property
    def sees(self) -> Sight: ...

    @property
    def steps(self) -> Sequence[Step]: ...

    @property
    def rule(self) -> Rule: ...


@dataclass(frozen=True, slots=True)
class Mixed:
    """The steps in their order, then the rule on what they made: Mixed((NNM(f=2),), MultiKrum(f=2))."""

    steps: tuple[Step, ...]
    rule: Rule

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", as_rule(self.rule))
        for words in wrong_types(self, "Mixed"):
            raise ValueError(words)

    @property
    def sees(self) -> Sight:
        return max([self.rule.sees, *(step.sees for step in self.steps)])

    @property
    def shift_invariant(self) -> bool:
        return isinstance(self.rule, GramRule) and self.rule.shift_invariant and all(s.shift_invariant for s in self.steps)

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        """As `GramRule.weights`. Raises ValueError if the rule behind the steps needs more than a Gram matrix."""
        if not isinstance(self.rule, GramRule) or not of_gram(self.rule):
            raise ValueError(f"{self.rule} is no function of a Gram matrix; use aggregate")
        mixing = mixing_of(self.steps, gram, rng)
        return np.asarray(mixing.T @ self.rule.weights(mixing @ gram @ mixing.T, rng))

    def weights_with(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        """As `ExtraRowRule.weights_with`: the extra row is not mixed."""
        if not isinstance(self.rule, ExtraRowRule):
            raise ValueError(f"{self.rule} takes no extra vector")
        n = len(gram) - 1
        mixing = np.pad(mixing_of(self.steps, gram[:n, :n], rng), (0, 1))
        mixing[-1, -1] = 1.0
        return np.asarray(mixing.T @ self.rule.weights_with(mixing @ gram @ mixing.T, rng))


def mixing_of(steps: Sequence[Step], gram: Matrix, rng: np.random.Generator) -> Matrix:
    """The product of the steps' maps, (m, n), each computed from the Gram matrix of what the steps before it made."""
    total = np.eye(len(gram))
    for step in steps:
        total = step.mixing(total @ gram @ total.T, rng) @ total
    return total


def of_gram(rule: Rule) -> bool:
    """Whether the rule is a function of the Gram matrix, its steps included."""
    if isinstance(rule, Prepared):
        return of_gram(rule.rule)
    return isinstance(rule, GramRule | ExtraRowRule) and not isinstance(rule, CoordinateRule)
