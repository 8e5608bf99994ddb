"""Arrays of a recording: kept once each, whoever refers to them, and checked when they are read."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...fl.data.population import Examples
from ...protocol.core.link import Frame
from ...protocol.view.answers import Vector

Array = NDArray[Any]
FRAMES = ("number", "sender", "receiver", "kind", "late", "end")
"""Of every frame, int64: as in `Frame`, the kind as its place among the kinds' names, and where its bytes end among all."""
EXAMPLES = ("float32", "int64")


@dataclass(frozen=True, slots=True)
class ExamplesLine:
    """Names of the arrays of examples."""

    x: str
    y: str
    topic: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """Arrays by a name of their content: what is the same is kept once."""

    arrays: dict[str, Array] = field(default_factory=dict)

    def add(self, array: Array) -> str:
        """Its name."""
        whole = np.ascontiguousarray(array)
        name = hashlib.sha256(repr((whole.dtype.str, whole.shape)).encode() + whole.tobytes()).hexdigest()[:32]
        self.arrays.setdefault(name, whole)
        return name


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """Arrays that were read, by name. file: where from, for errors."""

    arrays: Mapping[str, Array]
    file: str

    def get(self, name: str, dimensions: int, *dtypes: str) -> Array:
        """The array. Raises ValueError if there is none, or it has other dimensions or another dtype."""
        found = self.arrays.get(name)
        if found is None:
            raise ValueError(f"{self.file} has no array {name[:64]!r}")
        if (dimensions and found.ndim != dimensions) or found.dtype.name not in dtypes:
            raise ValueError(f"an array of {self.file} is {found.dtype.name} of shape {found.shape}, not {' or '.join(dtypes)}")
        return found

    def vector(self, name: str, length: int | None = None) -> Vector:
        """Of float32, of this length if one is given. Raises ValueError."""
        found = self.get(name, 1, "float32")
        if length is not None and len(found) != length:
            raise ValueError(f"a vector of {self.file} has {len(found)} numbers, not {length}")
        return found

    def matrix(self, name: str) -> NDArray[np.float64]:
        """Of float64. Raises ValueError."""
        return self.get(name, 2, "float64")


def keep_examples(kept: Kept, examples: Examples) -> ExamplesLine:
    """Keep a set of examples."""
    topic = None if examples.topic is None else kept.add(examples.topic.cpu().numpy())
    return ExamplesLine(kept.add(examples.x.cpu().numpy()), kept.add(examples.y.cpu().numpy()), topic)


def examples_in(arrays: Arrays, line: ExamplesLine) -> Examples:
    """The examples. Raises ValueError for what is none."""
    x, y = (torch.from_numpy(arrays.get(name, 0, *EXAMPLES)) for name in (line.x, line.y))
    topic = None if line.topic is None else torch.from_numpy(arrays.get(line.topic, 1, "int64"))
    if y.dtype != torch.int64 or not 1 <= y.ndim <= 2 or x.ndim < 2:
        raise ValueError(f"the examples of {arrays.file} have targets of shape {tuple(y.shape)} and type {y.dtype}")
    return Examples(x, y, topic)


def keep_frames(kept: Kept, frames: Sequence[Frame], prefix: str = "") -> tuple[str, ...]:
    """Keep frames, in order, in arrays whose names begin so. Returns the kinds that there are."""
    kinds = tuple(dict.fromkeys(f.kind for f in frames))
    place = {kind: k for k, kind in enumerate(kinds)}
    rows = [(f.number, f.sender, f.receiver, place[f.kind], f.late) for f in frames]
    ends = np.cumsum([len(f.data) for f in frames], dtype=np.int64)
    columns = np.column_stack([np.array(rows, np.int64).reshape(len(rows), 5), ends])
    kept.arrays.update({prefix + name: np.ascontiguousarray(column) for name, column in zip(FRAMES, columns.T, strict=True)})
    kept.arrays[f"{prefix}data"] = np.frombuffer(b"".join(f.data for f in frames), np.uint8)
    return kinds


def frames_in(arrays: Arrays, kinds: Sequence[str], prefix: str = "") -> tuple[Frame, ...]:
    """The frames, of these kinds. Raises ValueError where their bytes do not add up to what is there."""
    number, sender, receiver, kind, late, end = (arrays.get(prefix + name, 1, "int64") for name in FRAMES)
    data = arrays.get(f"{prefix}data", 1, "uint8")
    starts = np.concatenate([np.zeros(1, np.int64), end])[:-1]
    same = all(len(column) == len(end) for column in (number, sender, receiver, kind, late))
    if not same or (end < starts).any() or (end[-1] if len(end) else 0) != len(data):
        raise ValueError("the frames do not fill their bytes")
    if len(kind) and (kind.min() < 0 or kind.max() >= len(kinds)):
        raise ValueError("a frame is of no kind")
    rows = zip(*(column.tolist() for column in (number, sender, receiver, kind, late, starts, end)), strict=True)
    return tuple(Frame(n, i, j, kinds[k], data[a:b].tobytes(), bool(was)) for n, i, j, k, was, a, b in rows)
