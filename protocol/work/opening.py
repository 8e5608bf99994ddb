"""Models as they came to clients: equal bytes are opened once in a process."""

import hashlib
from weakref import WeakValueDictionary

import numpy as np

from ..view.answers import Vector
from .uploads import from_bytes


class OpenedModels:
    """Models as they came. data: the bytes. digest: their SHA-256. vectors: float32 (d,), one for each name in the task."""

    def __init__(self, data: bytes, count: int) -> None:
        self.data = data
        self.digest = hashlib.sha256(data).digest()
        self.vectors: tuple[Vector, ...] = tuple(np.split(from_bytes(data), count))


class ModelOpener:
    """Opens equal bytes once, as long as somebody holds what was opened."""

    def __init__(self) -> None:
        self._held: WeakValueDictionary[tuple[bytes, int], OpenedModels] = WeakValueDictionary()

    def __call__(self, data: bytes, count: int) -> OpenedModels:
        found = self._held.get((data, count))
        if found is None:
            found = self._held[data, count] = OpenedModels(data, count)
        return found
