"""Whether words are uniform and used once: all tests of them, at one joint level of false alarms.

Each test is held against the level over the number of tests (Bonferroni): kinds share it alike, and tests of a kind their part.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from . import word_bits, word_repeats
from .words import Family, Words

KINDS = word_bits.KINDS + word_repeats.KINDS


@dataclass(frozen=True, slots=True)
class Witness:
    """What uniform words would not do. log: the natural logarithm of its chance, at most, times all tests at the same level."""

    words: str
    log: float


def unlikely(words: Words, level: float) -> list[Witness]:
    """What these words do that uniform ones, used once, do with a chance of at most `level` together; of each kind the worst."""
    found = list[Witness]()
    for family in _kinds(words):
        if not family.logs.size:
            continue
        k = np.unravel_index(int(np.argmin(family.logs)), family.logs.shape)
        log = float(family.logs[k]) + float(np.log(KINDS * family.logs.size))
        if log < np.log(level):
            found.append(Witness(f"{family.said(tuple(map(int, k)))}: {chance(log)}", log))
    return sorted(found, key=lambda w: w.log)


def chance(log: float) -> str:
    """Of a natural logarithm, in words."""
    return f"a chance below 10^{int(np.ceil(log / np.log(10)))}"


def _kinds(words: Words) -> Iterator[Family]:
    yield from word_bits.tests_of_bits(words)
    yield from word_repeats.tests_of_words(words)
