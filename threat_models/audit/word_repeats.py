"""Tests of whole words: that none is 0, or there twice, more often than chance has it, and that no uploads add up to nothing.

Every linear relation between uploads with an odd coefficient makes a sum of lowest bits even: of masks that cancel among them,
and of masks that serve again.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from .words import Family, Table, Words, repeated

SPARE = 64
"""Coordinates more than uploads, at least, where sums of uploads are looked at."""
SHOWN = 64
"""Coordinates with equal words by which the two uploads that share most are found."""
KINDS = 5
"""Of tests here."""


def tests_of_words(words: Words) -> Iterator[Family]:
    """Of every kind here."""
    yield _zeros(words)
    yield from _repeats(words)
    yield _relations(words)


def _zeros(words: Words) -> Family:
    """Words at which nothing was added."""
    of = (words.table == 0).sum(axis=1) if words.zeros is None else words.zeros
    size = words.length or words.table.shape[1]
    most, every, total = int(np.argmax(of)), size * len(of), int(of.sum())
    return Family(
        repeated(np.array([total]), every / 2.0**words.bits),
        lambda j: f"{words.names[most]} is 0 in {of[most]} of {size} words, in all uploads {total} of {every} are",
    )


def _repeats(words: Words) -> Iterator[Family]:
    (uploads, n), bits = words.table.shape, words.bits
    parts = [("words", words.table, bits)]
    if bits >= 32:
        half = words.table.dtype.type(bits // 2)
        small = np.dtype(f"u{bits // 16}")
        parts += [("low halves of words", words.table.astype(small), bits // 2)]
        parts += [("high halves of words", (words.table >> half).astype(small), bits // 2)]
    own = np.stack([_equal(part, 1) for _, part, _ in parts])
    expected = np.array([[n * (n - 1) / 2.0 ** (r + 1)] for _, _, r in parts])
    yield Family(
        repeated(own, expected),
        lambda j: f"{words.names[j[1]]}, {own[j]} of {n} {parts[j[0]][0]} are there twice, where {expected[j[0], 0]:.2g} may be",
    )
    folded = [part if k < 2 else np.minimum(part, ~part) for k, (_, part, _) in enumerate(parts)]
    folded = [_unsigned(part) if k < 2 else part for k, part in enumerate(folded)]
    counts = np.array([int(_equal(part, 0).sum()) for part in folded])
    often = np.array([n * uploads * (uploads - 1) / 2.0**r for _, _, r in parts])

    def said(j: tuple[int, ...]) -> str:
        a, b = _sharing(folded[j[0]])
        same = int((folded[j[0]][a] == folded[j[0]][b]).sum())
        name = parts[j[0]][0]
        which = f"{words.names[a]} and {words.names[b]} share {same} of {n} {name} at equal coordinates, or their negatives"
        return f"{which}; in all {counts[j]}, where {often[j]:.2g} may be"

    yield Family(repeated(counts, often), said)
    total = _equal(folded[0].reshape(1, -1), 1)
    may = uploads * n * (uploads * n - 1) / 2.0**bits
    yield Family(
        repeated(total, may),
        lambda j: f"all uploads, {total[j]} of {uploads * n} words, or their negatives, are there twice, where {may:.2g} may be",
    )


def _unsigned(part: Table) -> Table:
    """The lesser of each word and its negative."""
    found: Table = np.minimum(part, part.dtype.type(0) - part)
    return found


def _equal(part: Table, axis: int) -> NDArray[np.int64]:
    """How many words along an axis are like one before them."""
    ordered = np.sort(part, axis=axis)
    again = np.take(ordered, range(1, part.shape[axis]), axis) == np.take(ordered, range(part.shape[axis] - 1), axis)
    return np.asarray(again.sum(axis=axis), np.int64)


def _sharing(part: Table) -> tuple[int, int]:
    """The two uploads with most equal words, of some coordinates where there are any."""
    there = np.flatnonzero(_equal(part, 0))
    found = Counter[tuple[int, int]]()
    for place in there[:: max(1, len(there) // SHOWN)]:
        values, counts = np.unique(part[:, place], return_counts=True)
        alike = np.flatnonzero(part[:, place] == values[int(np.argmax(counts))])[:8].tolist()
        found.update(combinations(alike, 2))
    return max(found, key=lambda pair: found[pair])


def _relations(words: Words) -> Family:
    """Uploads whose lowest bits add up to an even number at every coordinate; so many at a time that chance makes none."""
    uploads, n = words.table.shape
    each = max(n - SPARE, 0)
    starts = range(0, uploads if each > 1 else 0, max(each, 1))
    found = [_even_sum(words.table[start : start + each]) for start in starts]
    sizes = np.array([min(each, uploads - start) for start in starts], np.float64)
    logs = np.array([0.0 if some is None else np.log(2.0) * (m - n) for some, m in zip(found, sizes, strict=True)])

    def said(j: tuple[int, ...]) -> str:
        some = [words.names[starts[j[0]] + k] for k in found[j[0]] or ()]
        named = ", ".join(some[:3]) + (f" and {len(some) - 3} more" if len(some) > 3 else "")
        return f"{named} add up to an even number at {n} of {n} coordinates"

    return Family(logs, said)


def _even_sum(table: Table) -> list[int] | None:
    """Rows whose lowest bits add up to 0 modulo 2 in every column, by elimination; None if there are none."""
    packed = np.packbits((table & table.dtype.type(1)).astype(np.uint8), axis=1)
    pivots = dict[int, tuple[int, int]]()
    for k, row in enumerate(packed):
        bits, of = int.from_bytes(row.tobytes(), "big"), 1 << k
        while bits and (known := pivots.get(bits.bit_length())) is not None:
            bits, of = bits ^ known[0], of ^ known[1]
        if not bits:
            return [i for i in range(k + 1) if of >> i & 1]
        pivots[bits.bit_length()] = bits, of
    return None
