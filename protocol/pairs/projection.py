"""The projection that follows from a secret. Spec: specs/pairs.md, section Projection."""

import numpy as np
from numpy.typing import NDArray

from ...crypto.dense_projection import Orthonormal, standard_normal
from ...crypto.prg import derive_key
from .terms import PairTerms


def drawn(terms: PairTerms, key: bytes) -> NDArray[np.float64]:
    """The projection R of this secret: float64 (d, p); embeddings Z become Z R. The same wherever it is drawn, up to rounding.

    "gaussian rows": entries N(0, 1), each of the d rows divided by its length, so that E |z R|^2 = |z|^2 and the largest row norm
    is 1. "orthonormal": sqrt(d / p) times orthonormal columns: the spectral norm is sqrt(d / p).
    """
    if terms.projection == "none":
        return np.eye(terms.d)
    derived = derive_key(key, "pair projection", terms.projection_context)
    if terms.projection == "orthonormal":
        return Orthonormal.draw(derived, terms.d, terms.p).matrix.T
    entries = standard_normal(derived, terms.d * terms.p).reshape(terms.d, terms.p)
    return np.asarray(entries / np.linalg.norm(entries, axis=1, keepdims=True))
