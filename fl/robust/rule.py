"""What a robust rule is, what it must see, and distances from a Gram matrix.

A rule turns the updates x_1 .. x_n of one round into one vector. Most rules of the field need only the Gram matrix
G_ij = <x_i, x_j>: they return weights w, and the vector is sum_i w_i x_i. Such a rule runs wherever a protocol gives a Gram
matrix and a weighted sum, without anybody seeing an update. Others look at every coordinate, or at whole updates.

Rows are positions 0 .. n-1. Ties go to the lowest position. f is the number of faulty updates that a rule is built for; a
rule that cannot stand f of n raises ValueError. A rule changes nothing that it is given.
"""

from enum import IntEnum
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..field_types import wrong_types

Matrix = NDArray[np.float64]
Block = NDArray[np.float32]


class Sight(IntEnum):
    """The least that whoever applies a rule must see, in ascending order: the first of these kinds that holds what it uses."""

    SUM = 0
    """Weights that depend on n alone: nothing but the sum is seen."""
    NORMS = 1
    """The norm of every update."""
    GRAM = 2
    """Every inner product."""
    COORDINATES = 3
    """Every coordinate, up to an unknown order and unknown signs of coordinates."""
    UPDATES = 4
    """The updates themselves."""


class Rule(Protocol):
    """What all rules have in common."""

    @property
    def sees(self) -> Sight:
        """The least that it must see."""
        ...


@runtime_checkable
class GramRule(Protocol):
    """A rule that is a function of the Gram matrix."""

    @property
    def sees(self) -> Sight: ...

    @property
    def shift_invariant(self) -> bool:
        """Whether the weights sum to 1 and depend on differences of updates alone, so that these may be centred first."""
        ...

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        """The weights w of the result sum_i w_i x_i: float64 (n,), from the Gram matrix, float64 (n, n).

        Raises ValueError where f is too large for n.
        """
        ...


@runtime_checkable
class ExtraRowRule(Protocol):
    """A rule of the Gram matrix with one more vector in it: a trusted update, or the result of the round before."""

    @property
    def sees(self) -> Sight: ...

    def weights_with(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        """Weights (n + 1,) from the Gram matrix (n + 1, n + 1); the last row and the last weight are the extra vector's."""
        ...


@runtime_checkable
class CoordinateRule(Protocol):
    """A rule that treats every coordinate alone. It commutes with permutations and sign flips of the coordinates."""

    @property
    def sees(self) -> Sight: ...

    def combine(self, block: Block, /) -> Block:
        """The result of these coordinates: float32 (k,) from float32 (n, k), which is not changed."""
        ...


@runtime_checkable
class Noisy(Protocol):
    """A rule whose result the owner of the model blurs."""

    def noise_std(self, gram: Matrix, /) -> float:
        """Standard deviation of the Gaussian noise that is added to every coordinate of the result.

        gram: of the updates as they came, before any step.
        """
        ...


def squared_distances(gram: Matrix) -> Matrix:
    """|x_i - x_j|^2 from a Gram matrix: float64 (n, n), symmetric, not negative, diagonal 0."""
    square = np.diagonal(gram)
    distances = square[:, None] + square[None, :] - (gram + gram.T)
    np.maximum(distances, 0.0, out=distances)
    np.fill_diagonal(distances, 0.0)
    return distances


def centred(gram: Matrix, weights: Matrix) -> Matrix:
    """The Gram matrix of x_i - sum_j w_j x_j; the weights sum to 1."""
    mean = gram @ weights
    result: Matrix = gram - mean[:, None] - mean[None, :] + float(weights @ mean)
    return result


def uniform_on(chosen: NDArray[np.intp] | list[int], n: int) -> Matrix:
    """The weights of the mean of the chosen rows; all 0 if none is chosen."""
    weights = np.zeros(n)
    if len(chosen):
        weights[chosen] = 1 / len(chosen)
    return weights


def check_types(rule: object) -> None:
    """Raise ValueError for a field of one of our rules that holds what its type cannot be, such as a text for a number."""
    for words in wrong_types(rule, type(rule).__name__):
        raise ValueError(words)


def check_f(rule: object, name: str = "f") -> None:
    """The same, and for a number of faulty updates below 0. name: of the rule's field that counts them."""
    check_types(rule)
    if (f := getattr(rule, name)) < 0:
        raise ValueError(f"{name} counts faulty updates and is 0 or more, not {f}")


class TooFew(ValueError):
    """Fewer updates than a rule needs."""


def check_count(rule: object, n: int, least: int, lower: str = "f") -> None:
    """Raise TooFew if there are fewer than the least updates that the rule needs. lower: its field by which that is fewer."""
    if n < max(least, 1):
        remedy = f"lower {lower} or " if getattr(rule, lower, None) else ""
        raise TooFew(f"{rule} needs at least {max(least, 1)} updates, got {n}; {remedy}wait for more clients")


def check_positive(rule: object, name: str) -> None:
    """As `check_types`, and for a field that is no number above 0."""
    check_types(rule)
    if not (value := getattr(rule, name)) > 0:
        raise ValueError(f"{name} must be above 0, not {value}")
