"""Known plaintext against a secret rotation H D2 H D1 of padded vectors: secret signs D1 and D2, public Walsh-Hadamard H.

Two attacks. Any secret linear map gives whoever knows r vectors in clear the part of every other vector that lies in their
span, and everything once they span the space (`in_span`). This map gives all of it for one known vector x of y = H D2 H D1 x:
the sizes of z = H y = D2 (H D1 x) are those of H (D1 x), where x is known and only its signs are not. That is phase retrieval,
with as many measurements as the padded vector has coordinates: the leading eigenvector of a matrix of the measurements is close
to the signs (spectral initialisation, Netrapalli et al. 2013; which function of the sizes to take, Mondelli and Montanari
2019), and alternating between both sides makes it exact. So the rotation stands up to a known update no longer than a
permutation does (`key_of`).
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Values = NDArray[np.float64]
EXACT = 1e-3
"""A misfit below this is rounding: the next best key would miss by far more."""


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

    misfit: relative error of what the guess makes of the known vectors: below `EXACT` where the key is right.
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
        found = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(-1, length)
        half *= 2
    whole: Values = (found / np.sqrt(length)).reshape(vectors.shape)
    return whole


def key_of(clear: Vectors, transformed: Vectors, rng: np.random.Generator, most: int = 600) -> RotationGuess:
    """The key from one or more vectors that are known in clear and rotated.

    Adversary: the server, which has an update under the key in clear, or theta_0, a released model, and the sum of the means
    that it published until then. Or none of these, but theta_0 and public data: a mean that it trains itself, beside the one
    that it published; signs are so coarse that a likeness will do. clear: float32 (r, d). transformed: float32 (r, length),
    length a power of two. rng: draws where the search for the eigenvector begins. most: steps of the difference map, taken only
    where alternating ends at no key; 0 where clear vectors are likenesses, which no key fits. The signs of coordinates that are
    0 in all known vectors cannot be told, and there is a key for each choice. Raises ValueError for other shapes.
    """
    _check(clear, transformed)
    (r, d), length = clear.shape, transformed.shape[1]
    if length & (length - 1):
        raise ValueError(f"rotated vectors have a power of two as their length, not {length}")
    x = np.zeros((r, length))
    x[:, :d] = clear
    z = walsh_hadamard(transformed.astype(np.float64))
    norm = np.linalg.norm(z)
    x, z = x / norm, z / norm
    w = x * _spectral(x, z, rng)
    first, second, misfit = _alternated(x, z, w)
    for step in range(most):
        if misfit < EXACT:
            break
        _, m = _fit_second(z, w)
        w = w + 0.5 * (x * _signs((x * (2 * m - w)).sum(axis=0)) - m)
        if step % 20 == 19:
            first, second, misfit = _alternated(x, z, w)
    return RotationGuess(first, second, d, misfit)


def _spectral(x: Values, z: Values, rng: np.random.Generator) -> Values:
    """A first guess of D1: signs of the leading eigenvector of sum_r diag(x_r) H diag(T(z_r^2)) H diag(x_r)."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    length = x.shape[1]
    share = np.maximum((x != 0).sum(axis=1, keepdims=True), 1) / length
    y = np.square(z) / np.maximum(np.square(z).mean(axis=1, keepdims=True), 1e-300)
    weights = (y - 1) / (y + np.sqrt(1 / share) - 0.9)

    def applied(signs: Values) -> Values:
        found: Values = (x * walsh_hadamard(weights * walsh_hadamard(x * signs.reshape(-1)))).sum(axis=0)
        return found

    start = np.abs(x).sum(axis=0) * rng.choice([-1.0, 1.0], length) + 1e-3 * np.abs(x).max()
    matrix = LinearOperator((length, length), matvec=applied, dtype=np.float64)
    return _signs(eigsh(matrix, k=1, which="LA", v0=start, tol=1e-4)[1][:, 0])


def _fit_second(z: Values, w: Values) -> tuple[Values, Values]:
    """D2 by the vectors w before the first H, and what the measurements then say that these are."""
    second = _signs((z * walsh_hadamard(w)).sum(axis=0))
    return second, walsh_hadamard(second * z)


def _alternated(x: Values, z: Values, w: Values) -> tuple[Values, Values, float]:
    """Each side's signs from the other's until they agree: D1, D2, and how far they miss."""
    first = _signs((x * w).sum(axis=0))
    for _ in range(50):
        second, m = _fit_second(z, x * first)
        again = _signs((x * m).sum(axis=0))
        if np.array_equal(again, first):
            break
        first = again
    second, m = _fit_second(z, x * first)
    return first, second, float(np.linalg.norm(x * first - m) / np.linalg.norm(z))


def _signs(values: Values) -> Values:
    return np.where(values < 0, -1.0, 1.0)


def _check(clear: Vectors, transformed: Vectors) -> None:
    if clear.ndim != 2 or transformed.ndim != 2 or len(clear) != len(transformed) or clear.shape[1] > transformed.shape[1]:
        raise ValueError(f"as many vectors in clear as transformed, and no longer ones, not {clear.shape}, {transformed.shape}")
