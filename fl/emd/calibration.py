"""How large eps must be: a tolerance from the reference distances, or from the whole matrix of distances.

The excess W - tau of two clients of one distribution has mean 0: both are distances of the same source to samples that could
be swapped. Its size is in units of the ground cost and of the embedding, so no number is right for every model: the paper's
0.025 goes with references of about 0.1. What is portable is a share of the reference distances, or the noise that is seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from ...protocol.core.errors import Refused

Excess = NDArray[np.float64]

SHARE = 0.25
"""eps over the median reference distance: the paper's 0.025 over the 0.1 that its cosine distances of 512 embeddings have."""
INDIFFERENT = 0.05
"""Share of the median reference distance that is taken for noise though nothing shows it."""

ERROR = 0.05
"""How often a client may refuse another of its own distribution, where eps comes from noise."""

ODD = 3.0
"""A client's lowest excess over the median client's, above which it is not taken for noise."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """eps, and where it lies: between the mutual excesses `below` and `above` (inf: every pair was below). noise: up to here
    an excess says nothing. `below` is the noise where no pair lies between it and eps."""

    eps: float
    noise: float
    below: float
    above: float


def from_references(references: Sequence[float], share: float = SHARE) -> float:
    """eps as a share of the median reference distance. Needs the taus only, so it comes before any pair is decided.

    Scaling all embeddings, or taking another ground cost, scales eps with the distances. A quarter is several times the noise
    of 512 stratified embeddings (standard deviation 0.04 tau on a synthetic cloud), and it joins groups whose distance from
    each other exceeds that between two samples of one of them by less than a quarter.
    """
    middle = _median(references)
    if not share > 0:
        raise ValueError(f"the share of the reference distances must be above 0, not {share}")
    return share * middle


def from_replicates(replicates: Sequence[Sequence[float]], error: float = ERROR) -> float:
    """eps from several reference distances a client: each of its source against another, disjoint sample of its validation data.

    Under one distribution W - tau is the difference of two such numbers. eps is the quantile of Student's t with its pooled
    standard deviation at which, if they are normal, a client refuses another of its own distribution with probability `error`; so
    a pair loses its edge with at most twice that, which `majorities` outvote. For a rule that forgives no missing edge divide
    `error` by the number of directed pairs. Clients with a single distance do not count; Refused if no client has two.

    It asks what is more than noise, whatever lies farther away: groups of two scales are found where `from_distances` joins the
    nearer ones. Clients of one group whose data differ a little are parted too, once samples are large enough to show it.
    """
    from scipy.special import stdtrit  # here, as most runs do without

    rows = [np.asarray(row, dtype=np.float64) for row in replicates if len(row) > 1]
    if not rows or not all(np.isfinite(row).all() for row in rows):
        raise Refused("give at least one client two finite reference distances")
    if not 0 < error < 1:
        raise ValueError(f"the error must be in (0, 1), not {error}")
    freedom = sum(len(row) - 1 for row in rows)
    squares = sum(float(((row - row.mean()) ** 2).sum()) for row in rows)
    return sqrt(2 * squares / freedom) * float(-stdtrit(freedom, error))


def excess(distances: Mapping[tuple[int, int], float], references: Mapping[int, float], clients: Sequence[int]) -> Excess:
    """W - tau as a matrix: float64 (clients, clients), NaN where a pair was not asked and 0 on the diagonal.

    distances: W of (client, other). references: tau of every client that asked.
    """
    places = {client: place for place, client in enumerate(clients)}
    matrix = np.full((len(clients), len(clients)), np.nan)
    for (client, other), distance in distances.items():
        matrix[places[client], places[other]] = distance - references[client]
    np.fill_diagonal(matrix, 0.0)
    return matrix


def from_distances(matrix: Excess, references: Sequence[float]) -> Calibration:
    """eps in the widest gap of the excesses: for a server that may see the distances and not only bits.

    A pair counts with the larger of its two excesses, as an edge needs both sides. An excess below 0 can only be noise, and
    noise is symmetric, so twice the lowest one (twice `INDIFFERENT` of the median reference, if that is more) bounds it. eps
    is the geometric middle of the widest gap, by ratio, between neighbouring excesses above the noise, or between the noise
    and the least of them; if all are noise, it is one and a half times that, and all clients are joined. With fewer than
    about five clients a group the lowest excess says little; prefer `from_references`.

    It fails where groups lie apart at two scales: if two are much nearer to each other than to a third, the widest gap by ratio
    is beyond the nearer two, and they are joined. `from_replicates` does not look for a gap.

    A client that reports a reference that is too large makes its own excesses low: clients whose lowest is more than `ODD` times
    the median client's are not believed about the noise. But where the widest gap is, every client has a say: one that reports
    clouds unlike all others, or a small reference, can move eps up to between all others and itself. `from_references` takes a
    median, so a minority moves it little.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or np.isinf(matrix).any():
        raise ValueError(f"excesses must be a square matrix without infinities, not of shape {matrix.shape}")
    noise = 2 * _lowest(matrix, INDIFFERENT * _median(references))
    mutual = np.maximum(matrix, matrix.T)[np.triu_indices(len(matrix), 1)]
    marks = np.concatenate([[noise], np.sort(mutual[mutual > noise])])  # NaN is not above
    if len(marks) == 1:
        return Calibration(1.5 * noise, noise, noise, float("inf"))
    widest = int(np.argmax(marks[1:] / marks[:-1]))
    below, above = float(marks[widest]), float(marks[widest + 1])
    return Calibration(sqrt(below * above), noise, below, above)


def _lowest(matrix: Excess, indifferent: float) -> float:
    """How far the excesses of believable clients fall below 0, at least `indifferent`: of each its own lowest."""
    own = np.where(np.eye(len(matrix), dtype=np.bool_), np.nan, matrix)
    depths = np.array([max(0.0, -float(np.nanmin(row))) for row in own if np.isfinite(row).any()])
    if depths.size == 0:
        return indifferent
    most = ODD * max(float(np.median(depths)), indifferent)
    return max(float(depths[depths <= most].max()), indifferent)


def _median(references: Sequence[float]) -> float:
    taus = np.asarray(references, dtype=np.float64)
    if taus.size == 0 or not np.isfinite(taus).all() or np.median(taus) <= 0:
        raise Refused("the reference distances must be finite, and most above 0; calibrate with a larger subsample")
    return float(np.median(taus))
