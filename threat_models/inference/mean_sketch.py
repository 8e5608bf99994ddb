"""What one noisy mean of public embeddings, projected, tells of a client: its labels' shares, and whether a record is in it.

Noise for one record hides one record: shares of labels are what a mean is, and show the better the more rows it is of. Side
information of all: the public embedding, public examples with labels, and the terms of the release (clip, noise, rows), which are
public; embeddings are clipped as the terms say before their means are taken.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .naming import alike, distances_of
from .projection_known import Labels, Matrix, Rows

Vector = NDArray[np.float64]


def clipped(embeddings: Rows, clip: float) -> Matrix:
    """Rows scaled down to this norm, float64 (n, d): what a client averages of them."""
    found = embeddings.astype(np.float64)
    return np.asarray(found * (clip / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), clip)))


def label_shares(sketch: Rows, projection: Matrix, centres: Matrix) -> Vector:
    """The shares of the classes, float64 (classes,), none negative, with the sum 1.

    Adversary: the server and any one client, as all know the projection R, float64 (d, p). sketch: float (p,). centres: mean
    clipped public embedding of each class, float64 (classes, d). Least squares on the simplex: sum_k h_k c_k R
    nearest the sketch.
    """
    from scipy.optimize import nnls

    image = centres @ projection
    weight = 1e3 * float(np.linalg.norm(image, axis=1).mean())  # of the condition that shares add up to 1
    matrix = np.concatenate([image.T, np.full((1, len(image)), weight)])
    found, _ = nnls(matrix, np.append(sketch.astype(np.float64), weight))
    return np.asarray(found / found.sum())


def presence(sketch: Rows, projection: Matrix, rest: Vector, candidate: Rows, rows: int) -> float:
    """How much likelier the sketch is with the candidate in it than with the record that it would replace: larger if it is in.

    Adversary: of differential privacy, who knows R and all other records. rest: float64 (d,), the sum of the clipped embeddings
    of the others and of the record that may be in the candidate's place; candidate: float (d,), its clipped embedding less that
    record's. The sufficient statistic of two Gaussians of one deviation.
    """
    without = (rest / rows) @ projection
    shift = (candidate / rows) @ projection
    return float((sketch - without - shift / 2) @ shift)


def named_by_sketches(sketches: Sequence[Rows], centres: Matrix, kinds: Labels, rng: np.random.Generator) -> Labels:
    """The kind of data of every client, int64 (clients,), by the distances between their sketches under one unknown projection.

    Adversary: the server alone. centres: mean clipped public embedding of each kind, float64 (m, d). Norms count as
    well, as distances to 0.
    """
    seen = np.stack([sketch.astype(np.float64) for sketch in sketches])
    origin_seen, origin = np.zeros((1, seen.shape[1])), np.zeros((1, centres.shape[1]))
    order = alike(
        distances_of(np.concatenate([seen, origin_seen])), distances_of(np.concatenate([centres, origin])), rng, fixed=1
    )
    return np.asarray(kinds[order[:-1]])
