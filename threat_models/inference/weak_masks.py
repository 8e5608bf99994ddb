"""Masks that do not hide: a mask key that serves twice, and masks that are real numbers. Neither is Cloister's.

The adversary is the server, which sees every masked upload. Masks of a sum hide an upload completely only if they are uniform in
the ring that the sum is taken in, and fresh for every upload.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ...crypto.fixed_point import FixedPoint, Ring

Vector = NDArray[np.float32] | NDArray[np.float64]


def difference_of_reused(first: Ring, second: Ring, code: FixedPoint, weight: int = 1) -> NDArray[np.float64]:
    """The first update less the second, float64 (d,), from two uploads of one client that were masked with the same masks.

    first, second: masked encodings of `code`'s ring, shape (d + 1,), of one weight. The masks cancel in the ring and what is left
    is the difference of the levels: exact up to a step of the grid a coordinate.
    """
    if first.dtype != code.dtype or second.dtype != code.dtype or first.shape != second.shape:
        raise ValueError(f"two uploads are vectors of {code.dtype.__name__} of one length")
    signed = (first - second)[:-1].view(np.int32 if code.ring_bits == 32 else np.int64)
    return signed.astype(np.float64) * code.step / weight


def which_of_two(upload: Vector, one: Vector, other: Vector) -> float:
    """log-likelihood ratio, up to a positive factor, that the upload is `one` under Gaussian masks rather than `other`: float
    (d,) each.
    """
    wide, apart = np.asarray(upload, np.float64), np.asarray(one, np.float64) - np.asarray(other, np.float64)
    middle = (np.asarray(one, np.float64) + np.asarray(other, np.float64)) / 2
    return float((wide - middle) @ apart)


def gaussian_mask_auc(distance: float, deviation: float, clients: int) -> float:
    """Area under the curve of `which_of_two`: Phi(|dx| / (s sqrt(2 (n - 1)))), the best there can be (Neyman and Pearson).

    distance: |dx|, of the two candidates. deviation: s, of each pairwise mask's coordinates; a client adds one for each of the
    others, so the upload is x + N(0, (n - 1) s^2). clients: n, 2 or more.
    """
    return float(ndtr(distance / (deviation * math.sqrt(2 * (clients - 1)))))


def gaussian_masks(clients: int, length: int, deviation: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """What each client adds, float64 (clients, length): pairwise normal masks, one sign each, that cancel in the sum."""
    found = np.zeros((clients, length))
    for i in range(clients):
        for j in range(i):
            one = deviation * rng.standard_normal(length)
            found[i] += one
            found[j] -= one
    return found
