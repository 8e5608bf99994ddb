"""Known plaintext against a secret rotation H D2 H D1 of padded vectors: secret signs D1 and D2, public Walsh-Hadamard H.

Two attacks. Any secret linear map gives whoever knows r vectors in clear the part of every other vector that lies in their span,
and everything once they span the space (`in_span`). This map gives more: with y = H D2 H D1 x, H y = D2 H (D1 x), so that of two
known vectors a and b the unknown second signs cancel,

    (H y_a) * H (D1 b) = (H y_b) * H (D1 a)      (coordinate by coordinate),

which are as many linear equations as the padded vector has coordinates, in the d signs of D1 alone. Two known updates, or two
released models, under one key therefore give the whole key (`two_known`).
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Values = NDArray[np.float64]


def in_span(clear: Vectors, transformed: Vectors, uploads: Vectors) -> Values:
    """What uploads are within the span of known vectors, whatever linear map with orthonormal columns clients apply.

    Adversary: the server, with r updates under one key in clear. clear: float32 (r, d). transformed: float32 (r, length), the
    same as uploads. uploads: float32 (n, length). Returns float64 (n, d): the orthogonal projection on the known vectors' span.
    """
    _check(clear, transformed)
    coefficients = np.linalg.lstsq(transformed.T.astype(np.float64), uploads.T.astype(np.float64), rcond=1e-7)[0]
    found: Values = coefficients.T @ clear.astype(np.float64)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class RotationGuess:
    """A guess of the key of H D2 H D1. first, second: float64 (length,), 1 or -1, up to all of both negated.

    misfit: relative error of what the guess makes of the known vectors; near 0 where the key is right.
    """

    first: Values = field(repr=False)
    second: Values = field(repr=False)
    d: int
    misfit: float

    def opened(self, uploads: Vectors) -> Values:
        """Uploads, float32 (..., length), in clear: float64 (..., d)."""
        found: Values = (self.first * walsh_hadamard(self.second * walsh_hadamard(uploads.astype(np.float64))))[..., : self.d]
        return found


def walsh_hadamard(vectors: Values) -> Values:
    """The orthonormal Walsh-Hadamard transform of rows, float64 (..., length), length a power of two."""
    length, half = vectors.shape[-1], 1
    found = vectors.reshape(-1, length)
    while half < length:
        pairs = found.reshape(len(found), -1, 2, half)
        found = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(len(found), length)
        half *= 2
    return (found / np.sqrt(length)).reshape(vectors.shape)


def two_known(clear: Vectors, transformed: Vectors, refinements: int = 50, most: int = 2000) -> RotationGuess:
    """The key from two or more vectors that are known in clear and rotated.

    Adversary: the server, which has two updates under one key in clear, or theta_0 and two released models with the sums of the
    means that it published until then. clear: float32 (r, d), r >= 2. transformed: float32 (r, length), length a power of two.
    First the linear equations of all neighbouring pairs are solved by conjugate gradients (at most `most` steps), then signs are
    rounded and each side's are read from the other's until they agree. Signs of coordinates that are 0 in all known vectors
    cannot be told. Raises ValueError for other shapes or one vector.
    """
    from scipy.sparse.linalg import LinearOperator, lsmr

    _check(clear, transformed)
    (r, d), length = clear.shape, transformed.shape[1]
    if r < 2 or length & (length - 1):
        raise ValueError(f"two known vectors or more, of a length that is a power of two, are needed; these are {r} of {length}")
    x = np.zeros((r, length))
    x[:, :d] = clear
    z = walsh_hadamard(transformed.astype(np.float64))  # D2 H D1 x
    scale = np.sqrt(np.square(x).sum(axis=0)) + 1e-300  # so that every unknown sign counts alike in its column
    column = np.where(scale > 1e-12 * scale.max(), 1 / scale, 0.0)
    others = np.roll(np.arange(r), -1)

    def forward(signs: Values) -> Values:
        mixed = walsh_hadamard(x * (column * signs.reshape(-1)))
        return (z * mixed[others] - z[others] * mixed).reshape(-1)

    def backward(residual: Values) -> Values:
        e = residual.reshape(r, length)
        mixed = np.zeros_like(e)
        mixed[others] += z * e
        mixed -= z[others] * e
        found: Values = column * (x * walsh_hadamard(mixed)).sum(axis=0)
        return found

    fixed = int(scale.argmax())  # the key is told up to its sign: one sign is chosen, and the others follow
    unit = np.zeros(length)
    unit[fixed] = 1 / column[fixed]
    free = np.ones(length)
    free[fixed] = 0.0
    equations = LinearOperator(
        (r * length, length), matvec=lambda v: forward(free * v.reshape(-1)), rmatvec=lambda e: free * backward(e), dtype=np.float64
    )
    solved = lsmr(equations, -forward(unit), atol=1e-12, btol=1e-12, conlim=0, maxiter=most)[0]
    first = _signs(free * solved + unit)
    second = np.ones(length)
    for _ in range(refinements):
        second = _signs((z * walsh_hadamard(x * first)).sum(axis=0))
        again = _signs((x * walsh_hadamard(second * z)).sum(axis=0))
        if np.array_equal(again, first):
            break
        first = again
    misfit = float(np.linalg.norm(walsh_hadamard(x * first) * second - z) / np.linalg.norm(z))
    return RotationGuess(first, second, d, misfit)


def _signs(values: Values) -> Values:
    return np.where(values < 0, -1.0, 1.0)


def _check(clear: Vectors, transformed: Vectors) -> None:
    if clear.ndim != 2 or transformed.ndim != 2 or len(clear) != len(transformed) or clear.shape[1] > transformed.shape[1]:
        raise ValueError(f"as many vectors in clear as transformed, and no longer ones, not {clear.shape}, {transformed.shape}")
