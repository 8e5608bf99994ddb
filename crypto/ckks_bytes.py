"""How the bytes of keys and ciphertexts must look, and what of them the library is shown.

TenSEAL 0.3 wraps objects of SEAL 4 in protobuf, and each is compressed (zstd). Whoever reads such bytes as they come inflates and
builds what they ask for before it says what they were: gigabytes for some hundred, and lists of keys too short to be walked to
their end. But under known parameters all that is free in an honest object are its coefficients. So what others sent is inflated
here, up to the one length that it must have; what is no coefficient must stand as it would in an object made here; and the
library is shown the result uncompressed, in fields in the one order that it writes them.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

Layout = tuple[bytes | int, ...]
"""Bytes that stand in an object, and between them how many stand free."""

_MAGIC, _HEADER, _PLAIN, _ZSTD = 0xA15E, 16, 0, 2
_HEAD = struct.Struct("<HBBBBHQ")  # magic number, length of this, version in two, compression, nothing, length of all
_WINDOW = 1 << 22
"""Bytes that a decompressor may look back over; the library's own look back over half of it."""


class UnexpectedBytes(ValueError):
    """The bytes are none that the library writes for such an object."""


@dataclass(frozen=True, slots=True)
class Objects:
    """Layouts of the library's objects in one ring. version: two numbers of the library's. degree: of the ring."""

    version: tuple[int, int]
    degree: int

    def ciphertext(self, parms: Sequence[int], primes: int, scale: float) -> Layout:
        """Of two polynomials modulo so many primes; a public key is one, too. parms: the library's hash of the parameters at this
        level, four numbers.
        """
        told = struct.pack("<4QBQQQdQ", *parms, 1, 2, self.degree, primes, scale, 1)
        return (told, *self._numbers(2 * primes * self.degree))

    def secret_key(self, parms: Sequence[int], primes: int) -> Layout:
        count = primes * self.degree
        return (struct.pack("<4QQd", *parms, count, 1.0), *self._numbers(count))

    def switching_keys(self, parms: Sequence[int], primes: int, places: int, used: Iterable[int]) -> Layout:
        """Keys for all primes but the last at each place that is used."""
        key = self._plain(self.ciphertext(parms, primes, 1.0))
        each, here = primes - 1, frozenset(used)
        some = (struct.pack("<Q", each), *key * each)
        parts = (some if place in here else (bytes(8),) for place in range(places))
        return _merged((struct.pack("<4QQ", *parms, places), *chain.from_iterable(parts)))

    def relinearisation(self, parms: Sequence[int], primes: int) -> Layout:
        return self.switching_keys(parms, primes, 1, [0])

    def rotations(self, parms: Sequence[int], primes: int) -> Layout:
        """Of all powers of two, to either side, and of conjugation."""
        steps = [1 << k for k in range((self.degree // 2).bit_length() - 1)]
        elements = {pow(3, sign * step, 2 * self.degree) for step in steps for sign in (1, -1)} | {2 * self.degree - 1}
        return self.switching_keys(parms, primes, self.degree, [(element - 1) // 2 for element in elements])

    def read(self, data: memoryview, layout: Layout) -> bytes:
        """The object in `data`, uncompressed, as the library reads it. Raises UnexpectedBytes."""
        size = _size(layout)
        if data[:_HEADER] == _HEAD.pack(_MAGIC, _HEADER, *self.version, _ZSTD, 0, len(data)):
            body = _inflated(data[_HEADER:], size)
        elif data[:_HEADER] == self._head(size):
            body = bytes(data[_HEADER:])
        else:
            raise UnexpectedBytes("an object of another kind, or of another version of the library")
        if len(body) != size:
            raise UnexpectedBytes("an object of another size")
        at = 0
        for part in layout:
            end = at + (part if isinstance(part, int) else len(part))
            if not isinstance(part, int) and body[at:end] != part:
                raise UnexpectedBytes("an object that was not made with these parameters")
            at = end
        return self._head(size) + body

    def numbers(self, data: memoryview, layout: Layout) -> NDArray[np.uint64]:
        """The numbers at the end of the object in `data`: uint64 (count,). Raises UnexpectedBytes."""
        return np.frombuffer(self.read(data, layout)[-_free(layout) :], np.uint64)

    def made_of(self, numbers: NDArray[np.uint64], layout: Layout) -> bytes:
        """The object with these numbers at its end, uncompressed."""
        (end,) = (part for part in layout if isinstance(part, int))
        if numbers.nbytes != end:
            raise ValueError(f"{numbers.size} numbers where {end // 8} belong")
        before = b"".join(part for part in layout if isinstance(part, bytes))
        return self._head(_size(layout)) + before + numbers.tobytes()

    def _head(self, size: int) -> bytes:
        return _HEAD.pack(_MAGIC, _HEADER, *self.version, _PLAIN, 0, _HEADER + size)

    def _plain(self, layout: Layout) -> Layout:
        """As it stands within another."""
        return (self._head(_size(layout)), *layout)

    def _numbers(self, count: int) -> Layout:
        """So many whole numbers of 64 bits."""
        return _merged(self._plain((struct.pack("<Q", count), 8 * count)))


def varint(value: int) -> bytes:
    """A number of a protobuf message."""
    told = b""
    while value > 0x7F:
        told += bytes([value & 0x7F | 0x80])
        value >>= 7
    return told + bytes([value])


def wrapped(number: int, data: bytes) -> bytes:
    """A field of a protobuf message."""
    return bytes([number << 3 | 2]) + varint(len(data)) + data


def unwrapped(data: memoryview, number: int) -> tuple[memoryview, memoryview]:
    """What is in the field of this number that `data` begins with, and what comes behind. Raises UnexpectedBytes."""
    size = 0
    for place in range(1, min(6, len(data))):
        size |= (data[place] & 0x7F) << 7 * (place - 1)
        if data[place] < 0x80:
            start, end = place + 1, place + 1 + size
            if data[0] != number << 3 | 2 or end > len(data):
                break
            return data[start:end], data[end:]
    raise UnexpectedBytes("a field is missing, or is not where it should be")


def _free(layout: Layout) -> int:
    return sum(part for part in layout if isinstance(part, int))


def _size(layout: Layout) -> int:
    return sum(part if isinstance(part, int) else len(part) for part in layout)


def _merged(layout: Iterable[bytes | int]) -> Layout:
    """With bytes that follow each other in one."""
    found: list[bytes | int] = []
    fixed: list[bytes] = []
    for part in layout:
        if isinstance(part, bytes):
            fixed.append(part)
            continue
        found += [b"".join(fixed)] * bool(fixed) + [part]
        fixed = []
    return (*found, *([b"".join(fixed)] if fixed else []))


def _inflated(data: memoryview, size: int) -> bytes:
    """At most one byte more than `size`."""
    import zstandard  # here, so that who needs none of it does not load it

    try:
        with zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(data) as stream:
            return stream.read(size + 1)
    except zstandard.ZstdError:
        raise UnexpectedBytes("an object that is not compressed as the library does") from None
