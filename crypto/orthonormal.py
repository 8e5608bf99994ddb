"""Secret orthonormal transforms of a vector, drawn from a key (CFL's privacy step: Sattler et al. 2020, Eq. 45-46).

They keep inner products and norms, so cosine similarity is unchanged, and they are linear, so the mean of transformed
vectors is the transform of the mean. They are obfuscation, not encryption: whoever holds the key inverts them, and each
leaks what its docstring says.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from .prg import derive_key, random_permutation, random_signs

Vector = NDArray[np.float32]


class Transform(Protocol):
    """An orthonormal map from R^d into R^length with length >= d.

    leak: what one transformed vector still shows of the clear one, beside its norm and inner products.
    keeps_coordinates: whether order statistics of coordinates survive (median, trimmed mean).
    """

    leak: ClassVar[str]
    keeps_coordinates: ClassVar[bool]

    @classmethod
    def draw(cls, key: bytes, d: int, /) -> Self:
        """The transform of d coordinates that a 32-byte key names."""
        ...

    @property
    def length(self) -> int:
        """Coordinates of a transformed vector."""
        ...

    def apply(self, vector: Vector, /) -> Vector:
        """float32 (d,) to float32 (length,). Raises ValueError for another length."""
        ...

    def invert(self, transformed: Vector, /) -> Vector:
        """float32 (length,) back to float32 (d,); `invert(apply(v))` is v up to `tolerance` times its norm."""
        ...

    @property
    def tolerance(self) -> float:
        """Relative error of a round trip and of inner products, from float32 rounding."""
        ...


def _check(vector: Vector, length: int) -> None:
    if vector.shape != (length,):
        raise ValueError(f"expected a vector of {length} coordinates, got shape {vector.shape}")


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """No transform: CFL with P set to the identity mapping (Algorithm 5, line 3)."""

    length: int
    leak: ClassVar[str] = "everything"
    keeps_coordinates: ClassVar[bool] = True
    tolerance: float = 0.0

    @classmethod
    def draw(cls, key: bytes, d: int, /) -> "Identity":
        return cls(d)

    def apply(self, vector: Vector, /) -> Vector:
        _check(vector, self.length)
        return vector

    def invert(self, transformed: Vector, /) -> Vector:
        _check(transformed, self.length)
        return transformed


@dataclass(frozen=True, slots=True, eq=False)
class Permutation:
    """Coordinate i of the result is coordinate order[i] of the vector. order: int64, shape (d,)."""

    order: NDArray[np.int64] = field(repr=False)
    leak: ClassVar[str] = "the multiset of its values"
    keeps_coordinates: ClassVar[bool] = True
    tolerance: float = 0.0

    @classmethod
    def draw(cls, key: bytes, d: int, /) -> "Permutation":
        return cls(random_permutation(derive_key(key, "permutation", b""), d))

    @property
    def length(self) -> int:
        return len(self.order)

    def apply(self, vector: Vector, /) -> Vector:
        _check(vector, self.length)
        return vector[self.order]

    def invert(self, transformed: Vector, /) -> Vector:
        _check(transformed, self.length)
        vector = np.empty_like(transformed)
        vector[self.order] = transformed
        return vector


@dataclass(frozen=True, slots=True, eq=False)
class SignedPermutation:
    """A permutation after secret sign flips: the signs of values are hidden, their magnitudes are not."""

    signs: Vector = field(repr=False)
    permutation: Permutation = field(repr=False)
    leak: ClassVar[str] = "the multiset of its values without their signs"
    keeps_coordinates: ClassVar[bool] = True
    tolerance: float = 0.0

    @classmethod
    def draw(cls, key: bytes, d: int, /) -> "SignedPermutation":
        return cls(random_signs(derive_key(key, "signs", b""), d), Permutation.draw(key, d))

    @property
    def length(self) -> int:
        return len(self.signs)

    def apply(self, vector: Vector, /) -> Vector:
        _check(vector, self.length)
        return self.permutation.apply(vector * self.signs)

    def invert(self, transformed: Vector, /) -> Vector:
        return self.permutation.invert(transformed) * self.signs


def _walsh_hadamard(vector: Vector) -> Vector:
    """The orthonormal Walsh-Hadamard transform of a float32 vector whose length is a power of two, by butterflies."""
    result = vector.copy()
    half = 1
    while half < len(result):
        pairs = result.reshape(-1, 2, half)
        difference = pairs[:, 0] - pairs[:, 1]
        pairs[:, 0] += pairs[:, 1]
        pairs[:, 1] = difference
        half *= 2
    return result * np.float32(1 / np.sqrt(len(result)))


@dataclass(frozen=True, slots=True, eq=False)
class HadamardRotation:
    """Two passes of secret signs and Walsh-Hadamard, H D2 H D1, on the vector padded to a power of two.

    Every result mixes all coordinates, so single values do not show; it is still obfuscation and not encryption: whoever knows
    one vector in clear and transformed finds both keys in a second (`threat_models.inference.rotation_known`).
    """

    d: int
    first: Vector = field(repr=False)
    second: Vector = field(repr=False)
    leak: ClassVar[str] = "every linear relation to other updates, and the key with one of them in clear"
    keeps_coordinates: ClassVar[bool] = False

    @classmethod
    def draw(cls, key: bytes, d: int, /) -> "HadamardRotation":
        length = 1 << max(d - 1, 0).bit_length()
        first, second = (random_signs(derive_key(key, f"hadamard signs {i}", b""), length) for i in (1, 2))
        return cls(d, first, second)

    @property
    def length(self) -> int:
        return len(self.first)

    @property
    def tolerance(self) -> float:
        return 8 * float(np.finfo(np.float32).eps) * max(self.length.bit_length(), 1)

    def apply(self, vector: Vector, /) -> Vector:
        _check(vector, self.d)
        padded = np.zeros(self.length, dtype=np.float32)
        padded[: self.d] = vector
        return _walsh_hadamard(self.second * _walsh_hadamard(self.first * padded))

    def invert(self, transformed: Vector, /) -> Vector:
        _check(transformed, self.length)
        return (self.first * _walsh_hadamard(self.second * _walsh_hadamard(transformed)))[: self.d]  # H is its own inverse
