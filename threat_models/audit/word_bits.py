"""Tests of bits: how many are 1, and how often two are alike, of one word, of two uploads, or of one some coordinates on."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .words import WINDOW, Family, Table, Words, uneven

PAIRED, PAIRED_BITS = 192, 2**31
"""Uploads whose bits are held against those of each other, and bit products of that, at most."""
WITHIN = 2**17
"""Words, at most, of which each bit is held against each other."""
LAGS = (1, 2, 4, 8, 16, 32, 64)
"""Coordinates apart at which bits are held against each other."""
KINDS = 10
"""Of tests here."""


def tests_of_bits(words: Words) -> Iterator[Family]:
    """Of every kind here."""
    yield from _bits(words)
    yield _pairs_of_bits(words)
    yield _pairs_of_uploads(words)
    yield _lags(words)


def _bits(words: Words) -> Iterator[Family]:
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
    yield Family(uneven(every, uploads * n), lambda j: f"all uploads, {half(j[0], every[j], uploads * n)}")
    yield Family(uneven(by_upload, n), lambda j: f"{names[j[1]]}, {half(j[0], by_upload[j], n)}")
    yield Family(uneven(by_client, made), lambda j: f"client {who[j[1]]}, all rounds, {half(j[0], by_client[j], made[j[1]])}")
    yield Family(
        uneven(by_window, sizes * uploads),
        lambda j: f"all uploads, {window(j[1])}, {half(j[0], by_window[j], sizes[j[1]] * uploads)}",
    )
    yield Family(uneven(by_place, uploads), lambda j: f"all uploads, coordinate {at[j[1]]}, {half(j[0], by_place[j], uploads)}")
    whole = by_place.sum(axis=0)
    yield Family(
        uneven(whole, uploads * bits), lambda j: f"all uploads, coordinate {at[j[0]]}, {whole[j]} of {uploads * bits} bits are 1"
    )
    yield Family(
        uneven(inside, sizes * bits), lambda j: f"{names[j[0]]}, {window(j[1])}, {inside[j]} of {sizes[j[1]] * bits} bits are 1"
    )


def _signs(table: Table, k: int) -> NDArray[np.float32]:
    bit = (table >> table.dtype.type(k)) & table.dtype.type(1)
    return bit.astype(np.float32) * np.float32(2) - np.float32(1)


def _pairs_of_bits(words: Words) -> Family:
    """Each bit of a word against each other, of all words."""
    flat = words.table.reshape(-1)
    flat = flat[:: -(-len(flat) // WITHIN)]
    signs = np.stack([_signs(flat, k) for k in range(words.bits)])
    alike = np.rint((len(flat) + (signs @ signs.T).astype(np.float64)) / 2).astype(np.int64)
    one, other = np.triu_indices(words.bits, 1)
    counts = alike[one, other]
    return Family(
        uneven(counts, len(flat)),
        lambda j: f"all uploads, bits {one[j]} and {other[j]} are alike in {counts[j]} of {len(flat)} words",
    )


def _pairs_of_uploads(words: Words) -> Family:
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

    return Family(uneven(counts, n), said)


def _lags(words: Words) -> Family:
    """Each bit against the same one some coordinates on, in some uploads."""
    some = words.table[: max(1, WITHIN // words.table.shape[1])]
    lags = [lag for lag in LAGS if lag < some.shape[1]]
    counts = np.zeros((words.bits, len(lags)), np.int64)
    sizes = np.array([some.shape[0] * (some.shape[1] - lag) for lag in lags])
    for k in range(words.bits):
        bit = ((some >> some.dtype.type(k)) & some.dtype.type(1)).astype(np.bool_)
        counts[k] = [int((bit[:, lag:] == bit[:, :-lag]).sum()) for lag in lags]

    def said(j: tuple[int, ...]) -> str:
        share = f"{counts[j]} of {sizes[j[1]]} words"
        return f"{len(some)} uploads, bit {j[0]} is the same {lags[j[1]]} coordinates on in {share}"

    return Family(uneven(counts, sizes), said)


def _some_uploads(clients: Sequence[int]) -> list[int]:
    """Places of PAIRED uploads at most: several rounds, one after the other, of the same clients."""
    who = sorted(set(clients))
    chosen = who[:: -(-len(who) // (PAIRED // 4))]
    each = -(-PAIRED // len(chosen))
    found = [k for i in chosen for k in [k for k, j in enumerate(clients) if j == i][:each]]
    return sorted(found[:PAIRED])
