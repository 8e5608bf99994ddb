"""What a client computes for K slots, how it is checked, and how it is written into an upload."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.errors import Refused
from ..view.answers import Assignment, Vector
from ..view.work import LocalWork
from ..wire.messages import MAX_MODELS, MOST_SHARES
from .uploads import usable


def check(work: Assignment, most: int) -> int:
    """The number of slots. Raises Refused for numbers that no protocol takes."""
    if not 1 <= len(work.models) <= MAX_MODELS:
        raise Refused(f"there are 1 to {MAX_MODELS} slots, not {len(work.models)}")
    if work.own:
        raise Refused("work for slots starts from the slots' models, not from clients' own")
    if not 1 <= most <= MOST_SHARES:
        raise Refused(f"the most shares of a client in a slot are 1 to {MOST_SHARES}, not {most}")
    return len(work.models)


def misfit(work: LocalWork, slots: int, d: int, most: int) -> str | None:
    """Why a client cannot take part with this work, or None."""
    if work.vector.shape != (slots, d) or len(work.shares) != slots:
        return f"work for {slots} slots is a vector of {d} coordinates and a share for each"
    if (reason := unfair(work.shares, most)) is not None:
        return reason
    return None if usable(work.vector.ravel()) else "the vector is not finite, or too large to compare"


def unfair(shares: Sequence[float], most: int) -> str | None:
    """Why these cannot be a client's shares, or None."""
    if all(0 <= share <= most and share == int(share) for share in shares) and any(shares):
        return None
    return f"shares are whole numbers from 0 to {most}, and not all are 0"


def packed(work: LocalWork) -> NDArray[np.float32]:
    """As one array, float32 (K, d + 1): of each slot the vector, then the share."""
    shares = np.array(work.shares, np.float32)[:, None]
    return np.concatenate([work.vector.astype(np.float32, copy=False), shares], axis=1)


def unpacked(upload: Vector, slots: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The vectors (K, length) and the shares (K,) of an upload."""
    rows = upload.reshape(slots, -1)
    return rows[:, :-1], rows[:, -1]
