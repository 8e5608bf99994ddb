"""How well a guess about permuted uploads does: it is compared with the truth here, and nowhere in an attack."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...crypto.orthonormal import HadamardRotation, Permutation, SignedPermutation
from .permutation_known import UNKNOWN, Placed
from .rotation_known import RotationGuess

Values = NDArray[np.float64]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Recovery:
    """Of a guessed permutation. recovered: share of all coordinates placed rightly. wrong: how many are placed wrongly."""

    recovered: float
    wrong: int


def placed(guess: Placed, true: Permutation | SignedPermutation) -> Recovery:
    """A guess beside the clients' transform."""
    order, signs = (true.order, None) if isinstance(true, Permutation) else (true.permutation.order, true.signs)
    right = guess.order == order
    if signs is not None:
        right &= guess.signs == signs[order]
    return Recovery(float(right.mean()), int((guess.known & ~right).sum()))


def moved(guess: Placed, clear: Vectors, permuted: Vectors) -> float:
    """Share of the non-zero coordinates of an update (d,) that the guess puts where they were, or where the same value was."""
    lit = clear != 0
    return float((guess.opened(permuted)[lit] == clear[lit]).mean())


def energy(opened: Vectors, true: Vectors) -> float:
    """How much of the squared norm of true updates (..., d) is in what was opened: 1 - |opened - true|^2 / |true|^2, pooled."""
    apart, of = (np.square(v.astype(np.float64)).sum() for v in (opened - true, true))
    return float(1 - apart / of)


def relative_error(opened: Vectors, true: Vectors) -> float:
    """|opened - true| / |true|, pooled over rows."""
    return float(np.linalg.norm((opened - true).astype(np.float64)) / np.linalg.norm(true.astype(np.float64)))


def total_variation(guessed: Values, true: Values) -> Values:
    """Of each histogram (n, classes), half of the sum of absolute differences: (n,), in [0, 1]."""
    found: Values = np.abs(guessed - true).sum(axis=1) / 2
    return found


def top_hits(guessed: Values, true: Values) -> NDArray[np.bool_]:
    """Whether the most frequent label of each histogram is found: (n,). Of equally frequent ones any counts."""
    found: NDArray[np.bool_] = true[np.arange(len(true)), guessed.argmax(axis=1)] == true.max(axis=1)
    return found


def psnr(guessed: Values, true: Values, peak: float = 1.0) -> Values:
    """Of each image, rows of values up to `peak`: 10 log10(peak^2 / mean squared error), in dB."""
    error = np.square(guessed - true).reshape(len(true), -1).mean(axis=1)
    found: Values = 10 * np.log10(peak**2 / np.maximum(error, 1e-300))
    return found


def same_rotation(guess: RotationGuess, true: HadamardRotation, lit: NDArray[np.bool_]) -> float:
    """Share of the signs that are right, of `lit` coordinates (d,) and of the rotation's second signs, up to both flipped."""
    a = guess.first[: true.d][lit] * true.first[: true.d][lit]
    b = guess.second * true.second
    return float(max(np.concatenate([a, b]).mean(), np.concatenate([-a, -b]).mean()) / 2 + 0.5)


def known_share(guess: Placed) -> float:
    """Share of coordinates that a guess says anything about."""
    return float((guess.order != UNKNOWN).mean())
