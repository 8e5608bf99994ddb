"""When CFL asks for similarities, told by sums that are published anyway, and when the cut that they show is looked at twice.

Sattler et al. 2020 compare the mean of a cluster's updates with the largest of them in every round (Eq. 32 and 33). The sum and
the mean squared norm of the updates, one more number of the same sum, tell nearly as much: the root mean square takes the place
of the largest norm. It is at most that, so both tests have some slack; what passes them is decided by the similarities.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...protocol.view.answers import Gram
from .bipartition import Bipartition

MEAN_SLACK, SIZE_SLACK = 1.1, 0.85
"""Eq. 32 is asked of the mean's norm over the first, Eq. 33 of the size of updates over the second.

Without them thresholds that were made for the largest norm can miss a split: the root mean square is at most that.
"""
SAME = 1e-6
"""Updates whose cosine is within this of 1 are the same: products of float32 numbers tell no less."""
DOUBT = 0.5
"""Share of a Gram matrix's tolerance that a decision must be apart from another one: three standard deviations of a sketch."""


class Thresholds(Protocol):
    """When to split: close to a stationary point of the objective (Eq. 32), far from one's own (Eq. 33).

    size: of single updates, the largest norm of a round or the root mean square; first: that of the run's first round.
    """

    def stationary(self, mean: float, size: float, /) -> bool: ...

    def incongruent(self, size: float, first: float, /) -> bool: ...


def worth_asking(thresholds: Thresholds, mean: float, rms: float, first: float) -> bool:
    """Whether the similarities could lead to a split. mean: norm of the cluster's mean update."""
    return thresholds.stationary(mean / MEAN_SLACK, rms) and thresholds.incongruent(rms / SIZE_SLACK, first)


def mean_of_members(norm: float, energy: float, answered: int, members: int) -> float:
    """The norm of the mean update of all members, estimated from that of a sample: without the sample's own variance.

    energy: the sample's mean squared norm. The mean of n of N draws without replacement has the variance (1/n - 1/N) S^2, with
    S^2 the members' variance (Cochran 1977, theorem 2.2). Of all members it is the norm itself.
    """
    spread = max(energy - norm**2, 0.0) * answered / max(answered - 1, 1)
    return sqrt(max(norm**2 - (1 / answered - 1 / max(members, answered)) * spread, 0.0))


def cross_about_origin(deviations: NDArray[np.float64], mean: float, clients: Sequence[int], cut: Bipartition) -> float:
    """The largest similarity across the cut, with the mean put back that deviations lack: what Eq. 39 bounds.

    deviations: Gram matrix of the clients' deviations from their mean, float64 (m, m). mean: norm of that mean. Deviations add
    up to 0, so m updates that have nothing in common have cosines of -1 / (m - 1) about their mean; by <x_i, x_j> =
    <d_i, d_j> + |mean|^2, true on average over pairs, they have 0 again. 0 also where a norm is 0.
    """
    left = np.isin(clients, cut.left)
    square = np.maximum(np.diagonal(deviations), 0.0) + mean**2
    scale = np.sqrt(np.outer(square, square))
    cosines = np.divide(deviations + mean**2, scale, out=np.zeros_like(scale), where=scale > 0)
    cross = float(np.clip(cosines[np.ix_(left, ~left)], -1.0, 1.0).max())
    return cross if cross < 1 - SAME else 1.0


@dataclass(frozen=True, slots=True)
class Looks:
    """What left a cut in doubt. round: of the last look; cut: by that look alone; gram: the mean of the last `count` looks."""

    round: int
    count: int
    cut: Bipartition
    gram: Gram


def recent(looks: Looks | None, round: int, pause: int) -> Looks | None:
    """The looks, unless more than a pause lies between the last one and this round: updates change."""
    return looks if looks is not None and round <= looks.round + 1 + pause else None


def together(before: Looks | None, gram: Gram) -> tuple[Gram, int]:
    """The mean of the earlier looks and this one, and how many they are. Their errors are independent: sketches under fresh keys.

    Looks at other clients do not count.
    """
    if before is None or before.gram.clients != gram.clients:
        return gram, 1
    count = before.count
    matrix = (count * before.gram.matrix + gram.matrix) / (count + 1)
    error = sqrt((count * before.gram.tolerance) ** 2 + gram.tolerance**2) / (count + 1)
    return Gram(gram.clients, matrix, error), count + 1


def in_doubt(similarity: NDArray[np.float64], clients: Sequence[int], cut: Bipartition, gamma_max: float, error: float) -> bool:
    """Whether a look with another error of this size could well show another cut, or none.

    It could if the cross similarity is within the error of the bound of Eq. 39, 1 - 2 gamma_max^2; or if some client is, but for
    the error, as similar to one of the other side as to any of its own; or, for a side of one, if another client is as far from
    its nearest. similarity: rows in the order of the clients.
    """
    if abs(cut.cross - (1 - 2 * gamma_max**2)) < error:
        return True
    if len(clients) == 2:
        return False
    left = np.isin(clients, cut.left)
    others = np.where(np.eye(len(clients), dtype=np.bool_), -np.inf, similarity)
    nearest = others.max(axis=1)
    margins = []
    for side in (left, ~left):
        if side.sum() == 1:
            margins.append(nearest[~side].min() - nearest[side][0])
        else:
            margins.extend(others[np.ix_(side, side)].max(axis=1) - others[np.ix_(side, ~side)].max(axis=1))
    return bool(min(margins) < error)


def same_cut(one: Bipartition, other: Bipartition) -> bool:
    """Whether two cuts part the clients that are in both in the same way."""
    both = {*one.left, *one.right} & {*other.left, *other.right}
    return {frozenset(both & set(side)) for side in (one.left, one.right)} == {
        frozenset(both & set(side)) for side in (other.left, other.right)
    }
