"""Models and means that clients make, each once for all clients of one process that make the same."""

import hashlib
import struct
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import numpy as np

from ..view.answers import Vector
from .uploads import to_bytes


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class KeptModel:
    """A model or mean. vector: float32 (d,). digest: SHA-256 of its bytes. finite: whether all of it is."""

    vector: Vector = field(repr=False)
    digest: bytes
    finite: bool


class Making:
    """Makes equal things once, as long as somebody holds what was made."""

    def __init__(self) -> None:
        self._made: WeakValueDictionary[Hashable, KeptModel] = WeakValueDictionary()
        self._equal: WeakValueDictionary[bytes, KeptModel] = WeakValueDictionary()

    def __call__(self, of: Hashable, make: Callable[[], Vector], digest: bytes = b"") -> KeptModel:
        """What follows from `of`, and is made by `make` where nobody did. digest: SHA-256 of its bytes, where that is known."""
        if (found := self._made.get(of)) is None:
            with np.errstate(over="ignore", invalid="ignore"):
                vector = make()
            digest = digest or hashlib.sha256(to_bytes(vector)).digest()
            found = self._made[of] = self._equal.setdefault(digest, KeptModel(vector, digest, bool(np.isfinite(vector).all())))
        return found


def combined(models: Sequence[Vector], weights: Iterable[float]) -> Vector:
    """Their sum, each times its weight, float32 (d,), added in float64."""
    total = np.zeros(len(models[0]))
    for vector, weight in zip(models, weights, strict=True):
        total += weight * vector
    return total.astype(np.float32)


def weights_of(weights: Iterable[float]) -> bytes:
    """As in a `Recipe`."""
    return b"".join(struct.pack(">d", weight) for weight in weights)
