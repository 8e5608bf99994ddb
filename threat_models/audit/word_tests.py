"""Whether words are uniform and used once: tests of many of them at one joint level of false alarms.

Each test has a bound on the chance that uniform, independent words do as ill, and is held against the level over the number of
tests; every bound holds for any number of words:

- of n bits, c ones: 2 exp(-n KL(c/n || 1/2)), by Chernoff on either side;
- of words that come, one after the other, each with a chance of at most p_j of being like an earlier one, c that are:
  exp(-m + c - c ln(c/m)) for c > m, m = sum p_j, by Chernoff for chances that are bounded given what was before. Among n words of
  R bits m = n^2 / 2^(R+1), and twice that where w and -w count as alike.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.unsignedinteger[Any]]
Logs = NDArray[np.float64]
FAMILIES = 13
"""Kinds of tests, which share the level alike."""
WINDOW = 64
"""Coordinates side by side that are tested together."""
PAIRED, PAIRED_BITS = 192, 2**31
"""Uploads whose bits are held against those of each other, and bit products of that, at most."""
WITHIN = 2**17
"""Words, at most, of which each bit is held against each other."""
SHOWN = 64
"""Coordinates with equal words by which the two uploads that share most are found."""


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """What was added in some uploads at the same coordinates. table: (uploads, coordinates), of `bits` bits each. at: int64,
    ascending, those coordinates. names: of uploads, in words. clients: who made them.
    """

    table: Table = field(repr=False)
    bits: int
    at: NDArray[np.int64] = field(repr=False)
    names: tuple[str, ...]
    clients: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Witness:
    """What uniform words would not do. log: the natural logarithm of its chance, at most, times all tests at the same level."""

    words: str
    log: float


@dataclass(frozen=True, slots=True, eq=False)
class _Family:
    """Tests of one kind. logs: of each, any shape. said: what the one at an index found."""

    logs: Logs
    said: Callable[[tuple[int, ...]], str]


def unlikely(words: Words, level: float) -> list[Witness]:
    """What these words do that uniform ones, used once, do with a chance of at most `level` together; of each kind the worst."""
    found = list[Witness]()
    for family in _families(words):
        if not family.logs.size:
            continue
        k = np.unravel_index(int(np.argmin(family.logs)), family.logs.shape)
        log = float(family.logs[k]) + float(np.log(FAMILIES * family.logs.size))
        if log < np.log(level):
            found.append(Witness(f"{family.said(tuple(map(int, k)))}: {chance(log)}", log))
    return sorted(found, key=lambda w: w.log)


def chance(log: float) -> str:
    """Of a natural logarithm, in words."""
    return f"a chance below 10^{int(np.ceil(log / np.log(10)))}"


def uneven(ones: NDArray[np.integer], of: NDArray[np.integer] | int) -> Logs:
    """Log of the bound on so many ones among so many bits, or as far from half."""
    n = np.asarray(of, np.float64)
    share = np.asarray(ones, np.float64) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = np.nan_to_num(share * np.log(share)) + np.nan_to_num((1 - share) * np.log1p(-share))
    found: Logs = np.minimum(np.log(2) - n * (np.log(2) + entropy), 0.0)
    return found


def repeated(count: NDArray[np.integer], expected: float | Logs) -> Logs:
    """Log of the bound on so many words like an earlier one, where so many are expected at most."""
    c, m = np.broadcast_arrays(np.asarray(count, np.float64), np.asarray(expected, np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(c > m, -m + c - c * np.log(c / m), 0.0)
    return np.nan_to_num(found)


# --- bits -----------------------------------------------------------------------------------------------------------------------


def _families(words: Words) -> Iterator[_Family]:
    yield _zeros(words)
    yield from _bits(words)
    yield from _repeats(words)
    yield _pairs_of_bits(words)
    yield _pairs_of_uploads(words)


def _bits(words: Words) -> Iterator[_Family]:
    (uploads, n), bits, names, at = words.table.shape, words.bits, words.names, words.at
    starts = np.arange(0, n, WINDOW)
    sizes = np.diff(np.append(starts, n))
    who = sorted(set(words.clients))
    of = np.array([who.index(i) for i in words.clients])
    by_upload, by_place = np.zeros((bits, uploads), np.int64), np.zeros((bits, n), np.int64)
    inside = np.zeros((uploads, len(starts)), np.int64)
    for k in range(bits):
        bit = ((words.table >> words.table.dtype.type(k)) & words.table.dtype.type(1)).astype(np.uint8)
        by_upload[k], by_place[k] = bit.sum(axis=1, dtype=np.int64), bit.sum(axis=0, dtype=np.int64)
        inside += np.add.reduceat(bit, starts, axis=1, dtype=np.int64)
    by_client = np.stack([np.bincount(of, row, len(who)).astype(np.int64) for row in by_upload])
    by_window = np.add.reduceat(by_place, starts, axis=1)
    made = np.bincount(of) * n

    def window(w: int) -> str:
        return f"coordinates {at[starts[w]]} to {at[starts[w] + sizes[w] - 1]}"

    def half(k: int, ones: int, of: int) -> str:
        return f"bit {k} is 1 in {ones} of {of} words"

    every = by_upload.sum(axis=1)
    yield _Family(uneven(every, uploads * n), lambda j: f"all uploads, {half(j[0], every[j], uploads * n)}")
    yield _Family(uneven(by_upload, n), lambda j: f"{names[j[1]]}, {half(j[0], by_upload[j], n)}")
    yield _Family(uneven(by_client, made), lambda j: f"client {who[j[1]]}, all rounds, {half(j[0], by_client[j], made[j[1]])}")
    yield _Family(
        uneven(by_window, sizes * uploads),
        lambda j: f"all uploads, {window(j[1])}, {half(j[0], by_window[j], sizes[j[1]] * uploads)}",
    )
    yield _Family(uneven(by_place, uploads), lambda j: f"all uploads, coordinate {at[j[1]]}, {half(j[0], by_place[j], uploads)}")
    whole = by_place.sum(axis=0)
    yield _Family(
        uneven(whole, uploads * bits), lambda j: f"all uploads, coordinate {at[j[0]]}, {whole[j]} of {uploads * bits} bits are 1"
    )
    yield _Family(
        uneven(inside, sizes * bits), lambda j: f"{names[j[0]]}, {window(j[1])}, {inside[j]} of {sizes[j[1]] * bits} bits are 1"
    )


def _signs(table: Table, k: int) -> NDArray[np.float32]:
    bit = (table >> table.dtype.type(k)) & table.dtype.type(1)
    return bit.astype(np.float32) * np.float32(2) - np.float32(1)


def _pairs_of_bits(words: Words) -> _Family:
    """Each bit of a word against each other, of all words."""
    flat = words.table.reshape(-1)
    flat = flat[:: -(-len(flat) // WITHIN)]
    signs = np.stack([_signs(flat, k) for k in range(words.bits)])
    alike = np.rint((len(flat) + (signs @ signs.T).astype(np.float64)) / 2).astype(np.int64)
    one, other = np.triu_indices(words.bits, 1)
    counts = alike[one, other]
    return _Family(
        uneven(counts, len(flat)),
        lambda j: f"all uploads, bits {one[j]} and {other[j]} are alike in {counts[j]} of {len(flat)} words",
    )


def _pairs_of_uploads(words: Words) -> _Family:
    """Each bit of each upload against the same one of each other, at equal coordinates."""
    some = _some_uploads(words.clients)
    most = max(1, PAIRED_BITS // (len(some) ** 2 * words.bits))
    table = words.table[some][:, :: -(-words.table.shape[1] // most)]
    n = table.shape[1]
    one, other = np.triu_indices(len(some), 1)
    counts = np.zeros((words.bits, len(one)), np.int64)
    for k in range(words.bits):
        signs = _signs(table, k)
        counts[k] = np.rint((n + (signs @ signs.T)[one, other].astype(np.float64)) / 2)

    def said(j: tuple[int, ...]) -> str:
        a, b = (words.names[some[side[j[1]]]] for side in (one, other))
        return f"{a} and {b}, bit {j[0]} is the same at {counts[j]} of {n} coordinates"

    return _Family(uneven(counts, n), said)


def _some_uploads(clients: Sequence[int]) -> list[int]:
    """Places of PAIRED uploads at most: several rounds, one after the other, of the same clients."""
    who = sorted(set(clients))
    chosen = who[:: -(-len(who) // (PAIRED // 4))]
    each = -(-PAIRED // len(chosen))
    found = [k for i in chosen for k in [k for k, j in enumerate(clients) if j == i][:each]]
    return sorted(found[:PAIRED])


# --- equal words ----------------------------------------------------------------------------------------------------------------


def _zeros(words: Words) -> _Family:
    """Words at which nothing was added."""
    of = (words.table == 0).sum(axis=1)
    most, size, total = int(np.argmax(of)), words.table.shape[1], int(of.sum())
    return _Family(
        repeated(np.array([total]), words.table.size / 2.0**words.bits),
        lambda j: f"{words.names[most]} is 0 in {of[most]} of {size} words, in all uploads {total} of {words.table.size} are",
    )


def _repeats(words: Words) -> Iterator[_Family]:
    (uploads, n), bits = words.table.shape, words.bits
    parts = [("words", words.table, bits)]
    if bits >= 32:
        half = words.table.dtype.type(bits // 2)
        small = np.dtype(f"u{bits // 16}")
        parts += [("low halves of words", words.table.astype(small), bits // 2)]
        parts += [("high halves of words", (words.table >> half).astype(small), bits // 2)]
    own = np.stack([_equal(part, 1) for _, part, _ in parts])
    expected = np.array([[n * (n - 1) / 2.0 ** (r + 1)] for _, _, r in parts])
    yield _Family(
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

    yield _Family(repeated(counts, often), said)
    total = _equal(folded[0].reshape(1, -1), 1)
    may = uploads * n * (uploads * n - 1) / 2.0**bits
    yield _Family(
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
