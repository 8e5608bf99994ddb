"""FLDetector's arithmetic: how far updates are from what the last ones and the models since predict, by inner products alone.

A client's update changes with the model: x_i(w') is about x_i(w) + J (w' - w). The server knows the steps w_k - w_(k-1), which
are the means that it published, A_(k-1), and how means changed along them, A_k - A_(k-1); L-BFGS makes a J of these, symmetric
and of low rank (Byrd, Nocedal and Schnabel 1994, theorem 2.3). So the prediction is a combination of x_i's last value and of the
A_k, and its error a quadratic form in inner products: nobody needs to see an update. The paper (Zhang et al. 2022) writes it for
gradients, with vectors in clear.
"""

import numpy as np
from numpy.typing import NDArray

from .rule import Matrix

REFERENCES = 10
"""Uniform draws that the gap statistic is held against, as in the authors' code."""
ROUNDING = 1e-6
"""Of the squares of an update and its last one: what of their difference is rounding."""


def predicted_change(gram: Matrix) -> Matrix:
    """Coefficients c of J A_q = sum_k c_k A_k: float64 (q,), from the inner products (q, q) of the published means, oldest first.

    s_k = A_(k-1), y_k = A_k - A_(k-1), and J begins as (y.s / s.s) of the newest pair times the identity. Where pairs depend on
    each other the least squares solution is taken. Raises ValueError for fewer than two means.
    """
    q = len(gram)
    if q < 2:
        raise ValueError(f"a change is predicted from two published means at least, not from {q}")
    steps, newest = np.eye(q)[:, :-1], np.eye(q)[:, -1]
    changes = np.eye(q)[:, 1:] - steps
    both, squares = steps.T @ gram @ changes, steps.T @ gram @ steps
    if not squares[-1, -1] > 0:
        return np.zeros(q)
    scale = both[-1, -1] / squares[-1, -1]
    below = np.tril(both, -1)
    middle = np.block([[scale * squares, below], [below.T, -np.diag(np.diagonal(both))]])
    along = np.concatenate([scale * steps.T @ gram @ newest, changes.T @ gram @ newest])
    found: Matrix = scale * newest - np.hstack([scale * steps, changes]) @ np.linalg.lstsq(middle, along, rcond=1e-10)[0]
    return found


def errors(now: Matrix, to_means_now: Matrix, to_means_before: Matrix, means: Matrix) -> Matrix:
    """|x_i - (x_i' + J A_q)| of n clients: float64 (n,).

    now: inner products of the n updates and then of the same clients' last ones, (2 n, 2 n). to_means_now, to_means_before: of
    each with the published means, (n, q). means: of these with each other, (q, q). An error that is lost in the rounding of
    inner products of float32 vectors is 0.
    """
    n, c = len(to_means_now), predicted_change(means)
    square = np.diagonal(now)
    squared = square[:n] + square[n:] - 2 * np.diagonal(now[:n, n:]) - 2 * (to_means_now - to_means_before) @ c + c @ means @ c
    told = squared > ROUNDING * (square[:n] + square[n:])
    return np.asarray(np.sqrt(np.where(told, squared, 0.0)))


def suspects(scores: Matrix, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Who has the higher scores where there are two groups of them and not one: bool (n,), nobody where there is one.

    One or two is decided by the gap statistic (Tibshirani et al. 2001) on scores brought to [0, 1], whether more than two is not
    asked: the paper goes by the same two means then. Two means are found exactly, in one dimension.
    """
    span = float(np.ptp(scores)) if len(scores) else 0.0
    if len(scores) < 4 or not span > 0:
        return np.zeros(len(scores), dtype=bool)
    scaled = (scores - scores.min()) / span
    drawn = [rng.random(len(scores)) for _ in range(REFERENCES)]
    one, two = (np.log([_spread(values, groups) for values in drawn]) for groups in (1, 2))
    tiny = np.finfo(np.float64).tiny
    gap = [float(of.mean()) - np.log(max(_spread(scaled, k), tiny)) for k, of in ((1, one), (2, two))]
    if gap[0] >= gap[1] - np.sqrt(1 + 1 / REFERENCES) * float(two.std()):
        return np.zeros(len(scores), dtype=bool)
    return np.asarray(scaled >= np.sort(scaled)[_cut(scaled)])


def _spread(values: Matrix, groups: int) -> float:
    """Sum of squares about the means of one group, or of the two that make it least."""
    if groups == 1:
        return float(np.sum((values - values.mean()) ** 2))
    ordered, at = np.sort(values), _cut(values)
    return _spread(ordered[:at], 1) + _spread(ordered[at:], 1)


def _cut(values: Matrix) -> int:
    """How many of the values, in ascending order, are the lower of two means."""
    ordered = np.sort(values)
    return min(range(1, len(values)), key=lambda at: _spread(ordered[:at], 1) + _spread(ordered[at:], 1))
