"""Attack A13: one cosine between a chosen upload and a victim's reads one coordinate of the victim's update.

Orthonormal maps keep inner products, so this is as true of a rotation as of a permutation, and of keys of a session as of a
run: the corrupt client transforms its unit vector like an update. It needs cosines that are told to somebody who must not have
the updates: a client, or a reader of published similarity matrices.
"""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Values = NDArray[np.float64]


def unit(d: int, coordinate: int, norm: float = 1.0) -> Vectors:
    """What a corrupt client claims as its update to read a coordinate of everybody else's: float32 (d,), 0 but there."""
    found = np.zeros(d, np.float32)
    found[coordinate] = norm
    return found


def by_cosines(cosines: Values, norms: Values | float = 1.0) -> Values:
    """Entries of victims' updates from published cosines.

    Adversary: corrupt clients that uploaded `unit`s and read the published cosines. cosines: float64 (probes, victims). norms:
    float64 (victims,), where they are published too; else entries are in units of each victim's norm. Returns float64
    (victims, probes).
    """
    found: Values = (cosines * norms).T
    return found
