"""Labels and embeddings from a projected cloud whose projection nobody outside the pair knows: by the cloud's shape alone.

Adversary: the server alone. Side information: embeddings of public examples, and their labels, under the same embedding model:
a public one, or one that the server holds because the protection shows it updates. No record of the client's is known.

A random projection keeps distances about, so a cloud of images has the clusters of the classes, as far apart as the public
ones: that names the clusters. Rows are then matched to public rows and the projection to the matches, in turn
(Wasserstein-Procrustes, Grave, Joulin and Berthet 2019, with a ridge in place of a rotation, as R is not square); and at last
the projection of greatest likelihood is sought, embeddings being a mixture of a Gaussian for each class.
"""

from dataclasses import dataclass, field

import numpy as np

from .naming import distances_of, namings
from .projection_known import Labels, Matrix, Rows

NAMED, MATCHED, SETTLED, STEPS = 8, 15, 2, 20
"""Namings that are tried, turns of matching for each, how many are carried on, and steps of the mixture for those."""
RIDGE = 0.1
LEAST_NOISE = 1e-2
"""Of the variance of what was released: with less the mixture's steps hardly move the projection."""


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """Of every row a label, int64 (n,), and an embedding, float64 (n, d); the projection, float64 (d, p); and how likely."""

    labels: Labels = field(repr=False)
    embeddings: Matrix = field(repr=False)
    projection: Matrix = field(repr=False)
    likelihood: float


def aligned(released: Rows, public: Rows, labels: Labels, rng: np.random.Generator) -> Guess:
    """The likeliest of several starts. released: float (n, p). public: embeddings, float (m, d), with labels, int64 (m,).

    Raises ValueError for fewer public rows than released ones.
    """
    from sklearn.cluster import KMeans

    if len(public) < len(released):
        raise ValueError(f"{len(released)} rows cannot be matched to {len(public)} public ones")
    y, z = released.astype(np.float64), public.astype(np.float64)
    classes = Classes.of(z, labels)
    chosen = z[rng.permutation(len(z))[: 4 * len(y)]]
    clusters = KMeans(len(classes.names), n_init=10, random_state=int(rng.integers(2**31))).fit(y)
    seen, centres = _with_origin(clusters.cluster_centers_), _with_origin(classes.centres)
    found = []
    for order in namings(distances_of(seen), distances_of(centres), rng, fixed=1)[:NAMED]:
        start = _ridge(classes.centres[order[:-1]][clusters.labels_], y)
        found.append(_matched(y, chosen, start))
    found.sort(key=lambda one: one[0])
    return max((_settled(y, classes, projection, cost) for cost, projection in found[:SETTLED]), key=lambda g: g.likelihood)


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """What public embeddings say of each class: a mean, float64 (classes, d), and a covariance, float64 (classes, d, d).

    names: the labels, int64 (classes,). Covariances are drawn towards the pooled one, as a class has few examples.
    """

    names: Labels
    centres: Matrix = field(repr=False)
    covariances: Matrix = field(repr=False)

    @classmethod
    def of(cls, public: Matrix, labels: Labels, pooled: float = 0.3) -> "Classes":
        names = np.unique(labels)
        parts = [public[labels == k] for k in names]
        each = np.stack([np.cov(part, rowvar=False) for part in parts])
        whole = np.average(each, axis=0, weights=[len(part) for part in parts])
        mixed = (1 - pooled) * each + pooled * whole
        mixed += 1e-4 * np.trace(mixed, axis1=1, axis2=2)[:, None, None] / mixed.shape[1] * np.eye(mixed.shape[1])
        return cls(names, np.stack([part.mean(axis=0) for part in parts]), mixed)


def _with_origin(rows: Matrix) -> Matrix:
    """The rows and 0, so that distances between them are norms as well."""
    return np.concatenate([rows, np.zeros((1, rows.shape[1]))])


def _ridge(z: Matrix, y: Matrix) -> Matrix:
    square = z.T @ z
    square += RIDGE * np.trace(square) / len(square) * np.eye(len(square))
    return np.asarray(np.linalg.solve(square, z.T @ y))


def _matched(y: Matrix, z: Matrix, projection: Matrix) -> tuple[float, Matrix]:
    """Rows of y to rows of z, and the projection to the matches, in turn: mean squared distance, and the projection."""
    from scipy.optimize import linear_sum_assignment

    best = np.inf
    for _ in range(MATCHED):
        image = z @ projection
        cost = np.sum(y**2, axis=1)[:, None] - 2 * y @ image.T + np.sum(image**2, axis=1)
        rows, matches = linear_sum_assignment(cost)
        now = float(cost[rows, matches].mean())
        projection = _ridge(z[matches], y[rows])
        if now > 0.999 * best:
            break
        best = now
    return min(best, now), projection


def _settled(y: Matrix, classes: Classes, projection: Matrix, cost: float) -> Guess:
    """Expectation and maximisation over classes and embeddings, for R and the noise of y = z R + noise."""
    n, p = y.shape
    noise, least = cost / p, LEAST_NOISE * float(y.var())
    prior = np.full(len(classes.names), 1 / len(classes.names))
    for _ in range(STEPS):
        logs, means, left = _expected(y, classes, projection, max(noise, least))
        logs += np.log(prior)
        largest = logs.max(axis=1, keepdims=True)
        weights = np.exp(logs - largest)
        likelihood = float((largest[:, 0] + np.log(weights.sum(axis=1))).sum())
        weights /= weights.sum(axis=1, keepdims=True)
        prior = (weights.sum(axis=0) + 1) / (n + len(prior))
        weighted = [w[:, None] * z for w, z in zip(weights.T, means, strict=True)]
        square = sum(a.T @ z + w.sum() * v for a, z, w, v in zip(weighted, means, weights.T, left, strict=True))
        product = sum(weighted).T @ y
        square += 1e-4 * np.trace(square) / len(square) * np.eye(len(square))
        projection = np.linalg.solve(square, product)
        noise = float(np.sum(y**2) - 2 * np.sum(projection * product) + np.sum(projection * (square @ projection))) / (n * p)
    return Guess(classes.names[weights.argmax(axis=1)], np.asarray(sum(weighted)), projection, likelihood)


def _expected(y: Matrix, classes: Classes, projection: Matrix, noise: float) -> tuple[Matrix, list[Matrix], list[Matrix]]:
    """Of every class, if a row were of it: its log-likelihood, (n, classes); its embedding, (n, d); what is left open, (d, d)."""
    logs, means, left = np.empty((len(y), len(classes.names))), [], []
    for k, (mean, covariance) in enumerate(zip(classes.centres, classes.covariances, strict=True)):
        seen = covariance @ projection
        factor = np.linalg.cholesky(projection.T @ seen + noise * np.eye(y.shape[1]))
        off = y - mean @ projection
        white = np.linalg.solve(factor, off.T)
        gain = np.linalg.solve(factor, seen.T)
        logs[:, k] = -0.5 * np.sum(white**2, axis=0) - np.log(np.diag(factor)).sum()
        means.append(mean + white.T @ gain)
        left.append(covariance - gain.T @ gain)
    return logs, means, left
