"""Attack A5: an initial model that makes every update a label histogram, whatever secret permutation hides its coordinates.

All hidden units are dead, so that nothing but the output layer's biases has a gradient: after one step on a whole data set these
change by lr * (f_k - q_k), with f the client's label shares and q what the model answers to every input. Shares are multiples of
1 / N, which the upload tells; q is chosen so that each q_k has a remainder of its own modulo 1 / N, and the remainder of a value
names its label. Half of the remainders are left free, so that values whose signs are flipped are read too. A client that derives
theta_0 itself, or refuses one that it has not agreed to, is safe.

A rotation hides the single values and not their norm, |f - q| * lr, which tells the label of a client that has but one.
"""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Values = NDArray[np.float64]
DEAD = -1e3
"""A bias that no input in [0, 1] lifts above 0."""


def distinct_answers(classes: int, samples: int) -> Values:
    """q, float64 (classes,), a distribution about 1 / classes whose q_k * samples have remainders that are apart and below 1/2.

    Raises ValueError for fewer than five classes, which leave no room for that, or too few samples.
    """
    if classes < 5 or samples < 2 * classes:
        raise ValueError(f"five classes or more and at least {2 * classes} samples are needed, not {classes} and {samples}")
    remainders = (np.arange(classes) + 0.5) / (2 * classes + 1)
    remainders *= np.floor(remainders.sum()) / remainders.sum()
    left = samples - round(remainders.sum())
    whole = np.full(classes, left // classes)
    whole[: left % classes] += 1
    found: Values = (whole + remainders) / samples
    return found


def dead_model(hidden: int, features: int, q: Values, rng: np.random.Generator) -> Vectors:
    """theta_0 of a multilayer perceptron with one hidden layer of ReLUs: float32 (d,), layers in turn, weights before biases."""
    first = rng.standard_normal((hidden, features)) / np.sqrt(features)
    last = rng.standard_normal((len(q), hidden)) / np.sqrt(hidden)
    return np.concatenate([first.ravel(), np.full(hidden, DEAD), last.ravel(), np.log(q)]).astype(np.float32)


def histograms(uploads: Vectors, samples: NDArray[np.int64], q: Values, lr: float, signed: bool = False) -> Values:
    """Label histograms from permuted uploads of one step from `dead_model`.

    Adversary: the server, which chose theta_0. uploads: float32 (n, d). samples: int64 (n,), as the uploads say. signed: signs
    are flipped too. Returns float64 (n, classes); rows of a client whose upload is not of this kind are NaN.
    """
    return np.stack([_histogram(u, int(n), q, lr, signed) for u, n in zip(uploads, samples, strict=True)])


def _histogram(upload: Vectors, samples: int, q: Values, lr: float, signed: bool) -> Values:
    """By the assignment of values to labels for which counts come out most nearly whole."""
    from scipy.optimize import linear_sum_assignment

    moved = upload[upload != 0].astype(np.float64) / lr
    if len(moved) != len(q):
        return np.full(len(q), np.nan)
    options = np.stack([moved, -moved]) if signed else moved[None]
    counts = samples * (options[:, :, None] + q)  # (signs, values, labels)
    outside = (counts < -0.25) | (counts > samples + 0.25)
    off = np.where(outside, 1.0, np.abs(counts - np.round(counts)))
    sign = off.argmin(axis=0)
    values, labels = linear_sum_assignment(np.square(off.min(axis=0)))
    found = np.zeros(len(q))
    found[labels] = np.round(counts[sign[values, labels], values, labels]) / samples
    return found


def spread_answers(classes: int) -> Values:
    """q, float64 (classes,), so uneven that |e_k - q| differs from label to label: what a rotation does not hide."""
    q = np.arange(1, classes + 1, dtype=np.float64)
    found: Values = q / q.sum()
    return found


def only_labels(uploads: Vectors, q: Values, lr: float) -> NDArray[np.int64]:
    """The label of clients that have one alone, from the norm of an upload of one step from `dead_model`.

    Adversary: the server, which chose theta_0; any orthonormal map of updates. uploads: float32 (n, length). Returns int64 (n,).
    """
    norms = np.linalg.norm(uploads.astype(np.float64), axis=1) / lr
    expected = np.linalg.norm(np.eye(len(q)) - q, axis=1)
    found: NDArray[np.int64] = np.abs(norms[:, None] - expected).argmin(axis=1)
    return found
