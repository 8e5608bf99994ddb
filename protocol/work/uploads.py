"""What both ends of an upload have in common: vectors as bytes, which of them are usable, and what a client insists on.

Spec: specs/uploads.md. The client's role: upload_client.py. The server's: upload_server.py.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
PROTOCOL = "uploads"
UNUSABLE = "the vector is not finite, or too large to compare"


def to_bytes(vector: Vector) -> bytes:
    """A float32 vector as little-endian bytes."""
    return vector.astype("<f4", copy=False).tobytes()


def from_bytes(data: bytes) -> Vector:
    """Little-endian bytes as a float32 vector. Raises ValueError if they are not whole numbers of floats."""
    return np.frombuffer(data, dtype="<f4").astype(np.float32, copy=False)


def usable(vector: Vector) -> bool:
    """Whether all values are finite and so small that no inner product of two usable vectors overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(vector @ vector))


@dataclass(frozen=True, slots=True)
class Policy:
    """What a client insists on, whatever the server proposes: the least cohort and threshold it takes part in."""

    min_cohort: int = 1
    min_threshold: int = 1
