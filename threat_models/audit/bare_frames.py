"""Updates that stand in a client's frames as they are, whatever its protection says.

This reading knows no protection. Of every message that a client sent it takes what is as long as an update, as integers and as
floating point numbers. What is masked by uniform numbers of its own fills its ring, and is at a cosine of about 1 / sqrt(d) to
the published mean; an update does not fill it and has more. So an observer who knows the means notices without a key, and as
<u_i, mean> is |mean|^2 on average, it knows the scale too. It says how much leaks where masks are none; whether what hides an
update is what it should be is tested apart from attacks (`masks`), and not guessed here.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from ...protocol.core.errors import ProtocolError
from ...protocol.view.account import kind_of
from ...protocol.view.answers import COMPUTED
from ...protocol.wire.codec import decode
from ...protocol.wire.messages import Task
from .reading import Instance, messages
from .view import CorruptView

Matrix = NDArray[np.float64]
Raw = NDArray[np.uint32] | NDArray[np.uint64] | NDArray[np.float32] | NDArray[np.float64]
FORMATS = ("<u4", "<u8", "<f4", "<f8")
MORE = 8
"""So many numbers more than an update has may go with it: a count, a norm."""
NOTICED = 7.0
"""Standard deviations of chance: one of 10^11 uploads that are masked well is taken for an update."""
FEWEST = 64
"""Numbers that tell whether a ring is filled; of fewer none is said to leave some of it empty."""
SAMPLE = 200
"""So many numbers, or some more, tell whether a ring is filled."""


def bare(view: CorruptView, means: Mapping[Instance, Matrix]) -> Iterator[tuple[Instance, Matrix]]:
    """Updates that are noticed in frames, float64 (d,). means: what is known without them of the sums that they are in."""
    came = _came(view, means)
    together: dict[tuple[int, str, bytes], dict[Instance, Matrix]] = defaultdict(dict)
    for key, raws in came.items():
        if (found := _like(raws.values(), means[key])) is not None:
            together[key[0], key[1], means[key].tobytes()][key] = found
    for of in together.values():
        yield from _scaled(of, means[next(iter(of))]).items()


def _came(view: CorruptView, means: Mapping[Instance, Matrix]) -> dict[Instance, dict[str, Raw]]:
    """Of every update whose mean is known, what its client sent meanwhile that is as long, by message, field and format."""
    tasks = [(f.number, e.message) for f, e in messages(view, Task) if e.message.work in COMPUTED]
    asked: dict[int, list[tuple[int, Task]]] = defaultdict(list)
    for number, task in tasks:
        for i in task.roster:
            asked[i].append((number, task))
    found: dict[Instance, dict[str, Raw]] = defaultdict(dict)
    for frame in view.frames:
        now = next((task for number, task in reversed(asked.get(frame.sender, [])) if number < frame.number), None)
        key = None if now is None else (now.round, kind_of(now.work), frame.sender)
        if key is None or key not in means or len(frame.data) < 4 * len(means[key]):
            continue
        try:
            message = decode(frame.data, frame.sender, len(frame.data), view.public.kinds).message
        except ProtocolError:
            continue
        for f in fields(message):
            for raw in _as_long(getattr(message, f.name), len(means[key])):
                found[key][f"{frame.kind} {f.name} {raw.dtype}"] = raw
    return found


def _as_long(content: object, length: int) -> Iterator[Raw]:
    """These bytes as vectors of about this length."""
    if isinstance(content, bytes | memoryview):
        for dtype in map(np.dtype, FORMATS):
            if len(content) % dtype.itemsize == 0 and 0 <= len(content) // dtype.itemsize - length <= MORE:
                yield np.frombuffer(content, dtype)


def _scaled(of: Mapping[Instance, Matrix], mean: Matrix) -> Mapping[Instance, Matrix]:
    """Numbers that were noticed, of clients of one sum, at the scale at which they have the published mean on average."""
    along = float(np.mean([vector @ mean for vector in of.values()]))
    return {key: vector * (float(mean @ mean) / along) for key, vector in of.items()} if along > 0 else {}


def _like(raws: Iterable[Raw], mean: Matrix) -> Matrix | None:
    """Of these the numbers that are most like the mean; None where chance explains them all."""
    best, size = None, (False, -1.0)
    for vector, narrow in (_read(raw, len(mean)) for raw in raws):
        with np.errstate(over="ignore", invalid="ignore"):  # random bits as floating point numbers
            norm = float(np.linalg.norm(vector)) * float(np.linalg.norm(mean))
            cosine = float(vector @ mean) / norm if norm > 0 and np.isfinite(norm) else 0.0
        if (narrow, cosine) > size and (narrow or cosine > NOTICED / np.sqrt(len(mean))):
            best, size = vector, (narrow, cosine)
    return best


def _read(raw: Raw, length: int) -> tuple[Matrix, bool]:
    """As a vector, float64 (length,), of a ring about 0 or about the median, and whether it leaves some of the ring empty."""
    if raw.dtype.kind == "f":
        return np.asarray(np.nan_to_num(raw[:length], nan=0.0, posinf=0.0, neginf=0.0), np.float64), False
    signed = raw.view(f"<i{raw.dtype.itemsize}")
    if not _crowded(raw[:: max(1, len(raw) // SAMPLE)]):
        return np.asarray(signed, np.float64)[:length], False
    middles = 0, np.sort(raw)[len(raw) // 2], np.sort(signed)[len(raw) // 2].astype(raw.dtype)
    read = [np.asarray((raw - raw.dtype.type(m)).view(signed.dtype), np.float64)[:length] for m in middles]
    vector = min(read, key=lambda one: float(np.linalg.norm(one)))
    return vector, 0 < float(np.abs(vector).max()) < 2.0 ** (8 * raw.itemsize - 2)


def _crowded(some: Raw) -> bool:
    """Whether these numbers of a ring leave half of it empty, which n uniform ones do once in 2^(n - 1) / n times."""
    if len(some) < FEWEST:
        return False
    ordered = np.sort(some)
    apart = np.subtract(np.roll(ordered, -1), ordered)  # the last one around the ring
    return bool(apart.max() > 2.0 ** (8 * some.itemsize - 1))
