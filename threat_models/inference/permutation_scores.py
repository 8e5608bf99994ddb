"""How well a guess about transformed uploads does: guesses are compared with the truth here, and nowhere in an attack.

Label histograms are compared by `total_variation` and `top_label` of `threat_models.inference.label_regression`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .permutation_known import Placed

Values = NDArray[np.float64]
Vectors = NDArray[np.float32]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Recovery:
    """Of a guessed permutation. recovered: share of all coordinates placed rightly. wrong: how many are placed wrongly."""

    recovered: float
    wrong: int


def recovery(guess: Placed, clear: Vectors, permuted: Vectors, among: NDArray[np.bool_] | None = None) -> Recovery:
    """A guess beside updates of several clients and rounds under the key, both float32 (n, d).

    A coordinate is placed rightly where it has the value of its place in all of them. among: bool (d,), the coordinates in clear
    that count; None for all.
    """
    at = np.flatnonzero(guess.known)
    right = (permuted[:, at] * guess.signs[at] == clear[:, guess.order[at]]).all(axis=0)
    counted = np.ones(clear.shape[1], bool) if among is None else among
    return Recovery(float((right & counted[guess.order[at]]).sum() / max(counted.sum(), 1)), int((~right).sum()))


def moved(opened: Vectors, true: Vectors) -> float:
    """Share of the coordinates that are not 0 in true updates (..., d) that have exactly their value in what was opened."""
    return float((opened == true)[true != 0].mean())


def energy(opened: Vectors | Values, true: Vectors) -> float:
    """How much of the squared norm of true updates (..., d) was opened: 1 - |opened - true|^2 / |true|^2, pooled; 0 of nothing
    opened, and below it where the guess is worse than none."""
    apart, of = (np.square(v.astype(np.float64)).sum() for v in (opened - true, true))
    return float(1 - apart / of)


def relative_error(opened: Vectors | Values, true: Vectors) -> float:
    """|opened - true| / |true|, pooled over rows."""
    apart, of = (np.linalg.norm(v.astype(np.float64)) for v in (opened - true, true))
    return float(apart / of)


def psnr(guessed: Values, true: Values, peak: float = 1.0) -> Values:
    """Of each image, rows of values up to `peak`: 10 log10(peak^2 / mean squared error), in dB."""
    error = np.square(guessed - true).mean(axis=1)
    found: Values = 10 * np.log10(peak**2 / np.maximum(error, 1e-300))
    return found


def precision_and_recall(members: Places, order: Places, true: Iterable[frozenset[int]]) -> tuple[float, float]:
    """Of groups of coordinates of uploads, int64 (groups, size): the share that is right, and of the true ones the share found.

    order: int64 (d,), the clients' permutation. true: groups of coordinates in clear. Precision is 1 where nothing was claimed.
    """
    claimed, there = {frozenset(order[group].tolist()) for group in members}, set(true)
    hits = len(claimed & there)
    return hits / len(claimed) if claimed else 1.0, hits / len(there)


def similarity_correlation(guessed: Values, histograms: Values) -> float:
    """Correlation, over all pairs of clients, of guessed similarities (n, n) with cosines of histograms (n, classes) beside their
    mean."""
    beside = histograms - histograms.mean(axis=0)
    beside = beside / (np.linalg.norm(beside, axis=1, keepdims=True) + 1e-300)
    pairs = np.triu_indices(len(histograms), 1)
    return float(np.corrcoef(guessed[pairs], (beside @ beside.T)[pairs])[0, 1])
