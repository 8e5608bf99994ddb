"""Labels and places by turns: from a guess of all clients' labels the places of values, and from places a better guess.

Attack A6 goes on where all clients' updates are under one permutation. How a coordinate depends on labels is learned on
shadow updates from the known initial model. A guess of the clients' labels then says what every coordinate's values are over
clients and rounds, and an assignment finds which permuted coordinate has them; put back by that, updates tell labels better than
sorted values do. It is the alternation of Wasserstein-Procrustes (Grave et al. 2019) with a regression in the place of the
rotation.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from .label_regression import LabelRegression
from .permutation_shadow import features

Vectors = NDArray[np.float32]
Values = NDArray[np.float64]
PLACED = 800
"""Coordinates that are looked for: those of the largest mean square."""
TURNS = 10
RIDGE = 0.1
SMALL = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What the attacker made: updates float32 (rounds, n, d), with their clients' label shares (n, classes) and numbers of
    examples, float64 (n,)."""

    updates: Vectors = field(repr=False)
    histograms: Values = field(repr=False)
    samples: Values = field(repr=False)


def permuted_labels(uploads: Vectors, samples: Values, known: Known, signed: bool = False) -> Values:
    """Guessed label shares of the clients: float64 (m, classes), rows that add up to 1.

    uploads: float32 (rounds, m, d), all under one permutation, or one with flips of signs if `signed`; of as many rounds as
    `known` has at most. samples: how many examples the clients say that they have, (m,).

    Adversary: the server, which knows the initial model and how clients train and has public data of the same kind.
    """
    rounds, _, d = uploads.shape
    count = min(PLACED, d)
    guess = by_sorted_values(uploads[0], samples, known, signed)
    shadow = known.updates[:rounds].astype(np.float64)
    scale = float(known.samples.mean())
    terms = _terms(known.histograms, known.samples / scale)
    solve = np.linalg.solve(terms.T @ terms + RIDGE * np.eye(terms.shape[1]), terms.T)
    of_labels = solve @ shadow
    precision = 1 / (np.sqrt(np.square(shadow - terms @ of_labels).mean(axis=1)) + SMALL)
    ours, theirs = (np.argsort(-np.square(x.astype(np.float64)).mean(axis=(0, 1)))[:count] for x in (shadow, uploads))
    readers = [LabelRegression.learned(one[:, ours], known.histograms) for one in shadow]
    seen = uploads[:, :, theirs].astype(np.float64)
    flat = seen.reshape(-1, count)
    sharp = np.repeat(precision[:, ours], uploads.shape[1], axis=0)
    for _ in range(TURNS):
        expected = (_terms(guess, samples / scale) @ of_labels[:, :, ours]).reshape(-1, count)
        here, there, signs = _matched(flat, expected, sharp, signed)
        placed = np.zeros_like(seen)
        placed[:, :, here] = seen[:, :, there] * signs
        guess = np.mean([reader.histograms(one) for reader, one in zip(readers, placed, strict=True)], axis=0)
    return guess


def by_sorted_values(uploads: Vectors, samples: Values, known: Known, signed: bool = False) -> Values:
    """The first guess: a ridge regression on what no permutation changes (A6), and on how many examples there are.

    uploads: float32 (m, d), of the first round.
    """
    seen, counts = ("magnitudes" if signed else "values"), (known.samples, samples)
    both = (known.updates[0], uploads)
    rows = [np.hstack([features(x, seen), np.log(n)[:, None]]) for x, n in zip(both, counts, strict=True)]  # type: ignore[arg-type]
    return LabelRegression.learned(rows[0], known.histograms).histograms(rows[1])


def _terms(histograms: Values, sizes: Values) -> Values:
    """What an update is taken to be linear in: labels, and how many steps they were for."""
    size = sizes[:, None]
    return np.hstack([np.ones_like(size), size, histograms, histograms * size])


def _matched(
    seen: Values, expected: Values, sharp: Values, signed: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Which coordinate each expected one is among those seen, likeliest together, and its sign. All: (observations, k)."""
    weighted = sharp * sharp
    fixed = (
        (weighted * np.square(expected)).sum(axis=0)[:, None]
        + weighted.T @ np.square(seen)
        - 2 * np.log(sharp).sum(axis=0)[:, None]
    )
    crossed = 2 * (weighted * expected).T @ seen
    here, there = linear_sum_assignment(fixed - (np.abs(crossed) if signed else crossed))
    signs = np.sign(crossed[here, there]) if signed else np.ones(len(here))
    return here, there, signs
