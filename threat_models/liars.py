"""The two liars against similarities of sketches: a poison that the sketch does not see, and two faces.

Under a protection where clients sketch their own vectors, a client that follows the protocol but knows the projection can add
any vector of its kernel, and one that does not can sketch an honest vector and sum another (`Adversary.shown`). Where the sketch
is drawn after the upload and applied to it by others, both fail.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hadamard

from ..crypto.dense_projection import Dense, Gaussian
from ..crypto.hadamard import Hadamard
from ..crypto.projection import TwoStage
from ..protocol.view.answers import Vector
from .attack import LoneAttack, looks_back
from .knowledge import Level, Own

Column = NDArray[np.float64]
Linear = Dense | Gaussian | Hadamard | TwoStage

PRECISION = 1e-12
"""Relative residual at which the projection onto the kernel stops."""
STEPS = 500


def kernel_poison(sketch: Linear, honest: Vector, poison: Vector) -> Vector:
    """honest + the part of the poison in the sketch's kernel: float32 (d,), whose sketch is that of `honest` up to rounding.

    With P the sketch, the part outside is P^T (P P^T)^-1 P poison, about k / d of the poison's square norm. The system is
    solved by conjugate gradients in float64, to a residual of 1e-12; the result is rounded once, to float32, which moves the
    sketch by about 1e-7 of its norm. Raises ValueError if the system cannot be solved, as with k > d.
    """
    held = sketch.held() if isinstance(sketch, TwoStage | Gaussian) else sketch
    wide = poison.astype(np.float64)
    solved = conjugate_gradients(lambda z: forward(held, adjoint(held, z)), forward(held, wide))
    return np.asarray(honest + (wide - adjoint(held, solved)), dtype=np.float32)


def conjugate_gradients(apply: Callable[[Column], Column], right: Column) -> Column:
    """x with apply(x) = right, for a symmetric positive definite map (Hestenes and Stiefel 1952)."""
    x, residual = np.zeros_like(right), right.copy()
    direction, square = residual.copy(), float(residual @ residual)
    goal = PRECISION**2 * square
    for _ in range(STEPS):
        if square <= goal:
            return x
        applied = apply(direction)
        curvature = float(direction @ applied)
        if not curvature > 0:
            break
        length = square / curvature
        x += length * direction
        residual -= length * applied
        square, before = float(residual @ residual), square
        direction = residual + square / before * direction
    raise ValueError("the poison could not be projected onto the sketch's kernel; a sketch shorter than the update has one")


def forward(sketch: Linear, x: Column) -> Column:
    """P x in float64: (d,) to (k,). `apply` of a Hadamard projection adds in float32."""
    match sketch:
        case TwoStage(None, secret):
            return forward(secret, x)
        case TwoStage(Hadamard() as public, secret):
            return forward(secret, forward(public, x))
        case Hadamard():
            blocks = np.zeros((-(-sketch.d // sketch.width), sketch.width))
            blocks.reshape(-1)[: sketch.d] = x * sketch.signs
            mixed = _walsh(blocks)[:, sketch.columns]
            return np.asarray((_outer_signs(sketch, len(blocks)) * mixed).sum(axis=0) / np.sqrt(sketch.k))
        case _:
            return sketch.apply(x)


def adjoint(sketch: Linear, y: Column) -> Column:
    """P^T y in float64: (k,) to (d,)."""
    match sketch:
        case TwoStage(None, secret):
            return adjoint(secret, y)
        case TwoStage(Hadamard() as public, secret):
            return adjoint(public, adjoint(secret, y))
        case Hadamard():
            blocks = np.zeros((-(-sketch.d // sketch.width), sketch.width))
            blocks[:, sketch.columns] = _outer_signs(sketch, len(blocks)) * y
            return np.asarray(_walsh(blocks).reshape(-1)[: sketch.d] * sketch.signs / np.sqrt(sketch.k))
        case Dense():
            return np.asarray(y @ sketch.matrix)
        case _:
            return adjoint(sketch.held(), y)


def _walsh(blocks: Column) -> Column:
    """The Walsh-Hadamard transform of every row: rows of length 2^b, seen as a matrix with a smaller transform on both sides."""
    bits = blocks.shape[1].bit_length() - 1
    left, right = hadamard(1 << (bits - bits // 2), float), hadamard(1 << (bits // 2), float)
    mixed: Any = left @ blocks.reshape(len(blocks), len(left), len(right)) @ right
    return np.asarray(mixed.reshape(blocks.shape))


def _outer_signs(sketch: Hadamard, count: int) -> Column:
    """(-1)^popcount(a & outer_q): float64, shape (count, k)."""
    odd = np.bitwise_count(np.arange(count)[:, None] & sketch.outer[None, :]) & np.uint8(1)
    return np.asarray(1.0 - 2.0 * odd)


def shared(own: Own) -> TwoStage | None:
    """The sketch of this work that every client of the run can draw, or None where no client knows it before it uploads."""
    return None if own.sketch is None else own.sketch()


@dataclass(frozen=True, slots=True)
class KernelPoison:
    """The upload of another attack as far as the sketch does not see it: own update + the kernel's part of (attack - own).

    sketch: what a member takes for the projection, by default the secret that it shares with every client of the run. Where
    there is none, as with two servers who draw theirs after the upload, the other attack's upload is sent as it is.
    """

    attack: LoneAttack
    sketch: Callable[[Own], Linear | None] = shared
    needs: ClassVar[Level] = Level.OWN

    @property
    def looks_back(self) -> bool:
        return looks_back(self.attack)

    def __call__(self, own: Own, /) -> Vector:
        sketch, upload = self.sketch(own), self.attack(own)
        return upload if sketch is None else kernel_poison(sketch, own.update, upload - own.update)
