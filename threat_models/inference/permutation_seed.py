"""Attack A7: trying seeds. Weights of features that no client has are 0, and only the right permutation puts the zeros there.

A key of 32 bytes, as clients use, cannot be tried; a seed of 32 bits takes some thousand hours of one core, and less on many.
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


def brute_force(
    upload: Vectors, seeds: Iterable[int], order_of: Callable[[int], NDArray[np.int64]], dead: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """How well each seed explains an upload: the share of zeros where zeros belong, float64 (seeds,); the best is the guess.

    Adversary: the server, which knows how permutations are drawn and from public data which weights never move. upload: float32
    (d,), u[i] = v[order[i]], with or without flipped signs. order_of: int64 (d,), the permutation of a seed. dead: bool (d,), in
    clear.
    """
    zero = upload == 0
    return np.array([zero[dead[order_of(seed)]].mean() for seed in seeds])
