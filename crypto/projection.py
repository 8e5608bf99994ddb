"""The secret sketch of updates: a public projection of what is long, then a secret one, which keep inner products.

It is named by two 32-byte keys, applies to float vectors (d,) or rows (n, d), and returns float64 (k,) or (n, k).
"""

import math
from dataclasses import dataclass, replace
from typing import Self

from .dense_projection import Dense, Gaussian, Rows, Sketch
from .hadamard import Hadamard
from .prg import derive_key

INNER = 8192
"""Coordinates between the two stages of `TwoStage`."""
ROWS = 1024
"""Length of a two-stage sketch."""


def error_of(d: int, k: int) -> float:
    """Standard deviation of an inner product of two-stage sketches relative to the norms, at most: of both stages together."""
    secret, public = math.sqrt(2 / k), math.sqrt(2 / INNER) if d > INNER else 0.0
    return math.sqrt(secret**2 * (1 + public**2) + public**2)


@dataclass(frozen=True, slots=True, eq=False)
class TwoStage:
    """The secret sketch of updates: a public `Hadamard` to `INNER` coordinates, then a secret `Gaussian` to k.

    Formal guarantee, against a server that does not hold the secret seed: with the updates as columns of X and the public
    projection P, the k coordinates of the sketches are independent N(0, (PX)^T (PX) / k). So what the server sees depends on
    the Gram matrix of the projected updates alone, up to the keystream and float64 rounding. Holders of the seed see k linear
    measurements of each update, and can hide any change of an update in the kernel.
    The seed serves one comparison: all updates sketched under it can be compared with each other.
    `public` is None where d is at most `INNER`: the Gaussian stage then projects the updates themselves.
    """

    public: Hadamard | None
    secret: Gaussian | Dense

    @classmethod
    def draw(cls, public_key: bytes, secret_seed: bytes, d: int, k: int = ROWS, /) -> Self:
        """Raises ValueError where k exceeds half of the coordinates that it measures: a colluder would learn most of them."""
        inner = min(d, INNER)
        if 2 * k > inner:
            raise ValueError(f"{k} measurements of {inner} coordinates leave too little hidden; take k at most {inner // 2}")
        secret = Gaussian.draw(derive_key(secret_seed, "secret sketch", b""), inner, k)
        return cls(None if d <= INNER else Hadamard.draw(public_key, d, inner), secret)

    @property
    def d(self) -> int:
        return self.secret.d if self.public is None else self.public.d

    @property
    def k(self) -> int:
        return self.secret.k

    @property
    def error(self) -> float:
        """Standard deviation of an inner product relative to the norms, at most: from both stages and their product."""
        return error_of(self.d, self.k)

    def apply(self, rows: Rows, /) -> Sketch:
        return self.secret.apply(rows if self.public is None else self.public.apply(rows))

    def held(self) -> Self:
        """The same sketch with the secret matrix in memory (64 MiB): for simulations, where all clients share one process."""
        return self if isinstance(self.secret, Dense) else replace(self, secret=self.secret.held())
