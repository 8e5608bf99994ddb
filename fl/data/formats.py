"""Readers of idx files and CIFAR batches. Files are not trusted: a header is bounded before anything is allocated.

Every fault of a file is a ValueError of one line that names the file.
"""

import gzip
import math
import pickle
import struct
import zlib
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 20
"""Bytes read at a time from a compressed file, so that a false header cannot make us allocate what it claims."""

DEFLATE_LIMIT = 1032
"""No deflate stream expands by more than this factor (zlib documentation, "maximum expansion factor")."""


def read_idx(path: Path, rank: int) -> NDArray[np.uint8]:
    """The uint8 array of `rank` dimensions in an idx file, plain or gzip-compressed (recognised by content, not by name)."""
    size = path.stat().st_size
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not compressed:
            return _idx(path, file, rank, size)
        try:
            with gzip.open(file) as stream:
                return _idx(path, stream, rank, size * DEFLATE_LIMIT)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is a damaged gzip file; fetch it again") from error


def _idx(path: Path, stream: BufferedIOBase, rank: int, limit: int) -> NDArray[np.uint8]:
    """Parse an idx stream that holds at most `limit` bytes: 0, 0, type, rank, big-endian uint32 lengths, then the values."""
    header = stream.read(4 + 4 * rank)
    if len(header) < 4 + 4 * rank or header[:4] != bytes((0, 0, 8, rank)):
        raise ValueError(f"{path} is not an idx file of unsigned bytes in {rank} dimensions")
    shape = struct.unpack(f">{rank}I", header[4:])
    claimed = math.prod(shape)
    if claimed > limit - len(header):
        raise ValueError(f"{path} is cut short: its header promises {claimed} values, more than it can hold")
    body = bytearray()
    while chunk := stream.read(min(CHUNK, claimed + 1 - len(body))):
        body += chunk
    if len(body) != claimed:
        found = "more" if len(body) > claimed else f"only {len(body)}"
        raise ValueError(f"{path} is damaged: its header promises {claimed} values, but it has {found}")
    return np.frombuffer(body, np.uint8).reshape(shape)


def read_cifar_batch(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images, uint8 (n, 3, 32, 32), and labels, int64 (n,) in 0..9, of one batch of the Python version of CIFAR-10."""
    try:
        with path.open("rb") as file:
            batch = _BatchUnpickler(file, encoding="bytes").load()
    except _PICKLE_FAULTS as error:
        raise ValueError(f"{path} is not a CIFAR-10 batch: {_one_line(error)}") from error
    if not isinstance(batch, dict):
        raise ValueError(f"{path} is not a CIFAR-10 batch: it holds no dictionary")
    pixels, labels = (batch.get(key.encode(), batch.get(key)) for key in ("data", "labels"))
    if not isinstance(pixels, _Bytes) or pixels.values.ndim != 2 or pixels.values.shape[1] != 3 * 32 * 32:
        raise ValueError(f"{path} is not a CIFAR-10 batch: 'data' must be bytes of shape (n, 3072)")
    if not isinstance(labels, list) or not all(type(label) is int and 0 <= label <= 9 for label in labels):
        raise ValueError(f"{path} is not a CIFAR-10 batch: 'labels' must be a list of integers from 0 to 9")
    if len(labels) != len(pixels.values):
        raise ValueError(f"{path} is not a CIFAR-10 batch: {len(pixels.values)} images but {len(labels)} labels")
    return pixels.values.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)


_PICKLE_FAULTS = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    MemoryError,
    RecursionError,
)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__


class _Bytes:
    """Stands for the array while a batch is unpickled: takes the state that numpy wrote, and checks it."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values = np.zeros((0, 0), np.uint8)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, raw = state
        if not isinstance(dtype, _ByteType) or not isinstance(raw, bytes) or len(shape) != 2:
            raise ValueError("the array is not a table of bytes")
        if any(type(length) is not int or length < 0 for length in shape) or math.prod(shape) != len(raw):
            raise ValueError("the array's shape does not fit its bytes")
        self.values = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


class _ByteType:
    """Stands for numpy's dtype while a batch is unpickled; only unsigned bytes are known."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        """Byte order and alignment, which mean nothing for single bytes."""


class _Reconstruct:
    """Stands for numpy's function that makes the array which then takes its state."""

    __slots__ = ()

    def __call__(self, kind: Any, shape: Any, code: Any, /) -> _Bytes:
        return _Bytes()


class _DType:
    """Stands for numpy.dtype as a function of its code."""

    __slots__ = ()

    def __call__(self, code: Any, /, *_: Any) -> _ByteType:
        if code not in ("u1", b"u1"):
            raise pickle.UnpicklingError("it holds an array of something other than unsigned bytes")
        return _ByteType()


class _Encode:
    """Stands for the codec by which Python 3 writes bytes under pickle protocols up to 2."""

    __slots__ = ()

    def __call__(self, text: Any, encoding: Any, /) -> bytes:
        if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
            raise pickle.UnpicklingError("it holds bytes in an unknown encoding")
        return text.encode("latin1")


_STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): _DType(),
    ("_codecs", "encode"): _Encode(),
}
"""All that a batch may ask for. A pickle can also set attributes on what it asks for; these have none to set."""


class _BatchUnpickler(pickle.Unpickler):
    """Unpickles dictionaries, lists, numbers, bytes and tables of bytes, and refuses everything else.

    What a file asks for leads to the stand-ins, never to numpy or to the codecs, and is checked before it is made.
    """

    def find_class(self, module: str, name: str, /) -> Any:
        try:
            return _STAND_INS[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which a batch does not need") from None
