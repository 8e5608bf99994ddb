"""Known plaintext against a shared permutation: updates or models that are known in clear give the places of coordinates.

A permuted vector is u[i] = signs[i] * v[order[i]], with signs of 1 unless clients flip them too. Under one key for the run all
clients share order and signs, so what one known vector tells opens everybody's uploads of all rounds; with keys of a session it
opens that session's. Zeros are alike and cannot be told apart, and need not be: whoever leaves them at 0 loses what other clients
have there.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Places = NDArray[np.int64]
UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """A guess of a (signed) permutation. order: int64 (d,), for each coordinate of an upload the coordinate in clear that it
    holds, or UNKNOWN. signs: float32 (d,), 1 or -1; of unknown ones 1."""

    order: Places = field(repr=False)
    signs: Vectors = field(repr=False)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Of which coordinates of an upload the place is known, (d,)."""
        found: NDArray[np.bool_] = self.order != UNKNOWN
        return found

    def opened(self, uploads: Vectors) -> Vectors:
        """Uploads, float32 (..., d), as they were in clear; 0 where no coordinate is placed."""
        clear = np.zeros_like(uploads)
        clear[..., self.order[self.known]] = uploads[..., self.known] * self.signs[self.known]
        return clear


def known_plaintext(clear: Vectors, permuted: Vectors, signed: bool = False) -> Placed:
    """Attack A1. Adversary: the server, which has one client's updates of r rounds under one key in clear, by a leak or by guess.

    clear, permuted: float32 (r, d), of the same updates. signed: clients flip signs too, so that values are compared up to the
    sign that a coordinate has in all rounds. A coordinate is placed when its r values are nobody else's: what is placed is
    right, as values are copied bit for bit. Raises ValueError for other shapes.
    """
    _check(clear, permuted)
    ours, theirs = _unique(clear, signed), _unique(permuted, signed)
    order = np.full(clear.shape[1], UNKNOWN)
    for values in ours.keys() & theirs.keys():
        order[theirs[values]] = ours[values]
    return Placed(order, _signs(order, clear, permuted))


def by_rank(clear: Vectors, permuted: Vectors, signed: bool = False, apart: float = 1e-8) -> Placed:
    """Attack A2 with one released model. Adversary: the server, which knows theta_0 and a released theta_T.

    clear: float32 (d,), theta_T - theta_0. permuted: float32 (d,), the sum of the means that the server published until then.
    The two are equal up to the order that sums were rounded in, so coordinates are matched by their rank. What is closer to 0
    than `apart` is left out.
    """
    _check(clear[None], permuted[None])
    a, b = (np.abs(v) if signed else v for v in (clear, permuted))
    order = np.full(len(clear), UNKNOWN)
    order[np.argsort(b, kind="stable")] = np.argsort(a, kind="stable")
    order[np.abs(permuted) < apart] = UNKNOWN
    return Placed(order, _signs(order, clear[None], permuted[None]) if signed else np.ones(len(order), np.float32))


def by_nearest(clear: Vectors, permuted: Vectors, signed: bool = False, apart: float = 1e-8) -> Placed:
    """Attack A2 with several released models. Adversary: the server, which knows theta_0 and released models of r rounds.

    clear: float32 (r, d), of each released model its difference to theta_0. permuted: float32 (r, d), the sums of the means that
    the server published until then. Each coordinate is matched to the nearest in r dimensions, if each is the other's nearest.
    """
    from scipy.spatial import KDTree

    _check(clear, permuted)
    a, b = (_upright(v.astype(np.float64)) if signed else v.astype(np.float64) for v in (clear, permuted))
    nearest, back = KDTree(a.T).query(b.T)[1], KDTree(b.T).query(a.T)[1]
    mutual = (back[nearest] == np.arange(len(nearest))) & (np.abs(permuted).max(axis=0) >= apart)
    order = np.where(mutual, nearest, UNKNOWN)
    return Placed(order, _signs(order, clear, permuted) if signed else np.ones(len(order), np.float32))


def _check(clear: Vectors, permuted: Vectors) -> None:
    if clear.shape != permuted.shape or clear.ndim != 2:
        raise ValueError(f"updates in clear and permuted have one shape, (rounds, d), not {clear.shape} and {permuted.shape}")


def _upright(vectors: NDArray[np.float64] | Vectors) -> NDArray[np.float64] | Vectors:
    """Columns times a sign each, so that the largest of each is not negative."""
    largest = np.abs(vectors).argmax(axis=0)
    return np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -vectors, vectors)


def _unique(vectors: Vectors, signed: bool) -> dict[bytes, int]:
    """Where the columns are whose values no other column has, by their values."""
    columns = _upright(vectors) if signed else vectors
    rows = np.ascontiguousarray((columns + np.float32(0)).T.astype(np.float32))  # adding 0 makes -0 a 0
    found: dict[bytes, int] = {}
    twice = set[bytes]()
    for place, row in enumerate(rows):
        values = row.tobytes()
        if values in found:
            twice.add(values)
        found[values] = place
    return {values: place for values, place in found.items() if values not in twice}


def _signs(order: Places, clear: Vectors, permuted: Vectors) -> Vectors:
    """Of each placed coordinate, whether the upload has the sign of the clear vector, by the largest value of all rounds."""
    placed = np.where(order == UNKNOWN, 0, order)
    product = (clear[:, placed].astype(np.float64) * permuted).sum(axis=0)
    return np.where((order != UNKNOWN) & (product < 0), -1, 1).astype(np.float32)
