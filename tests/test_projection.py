"""Projections: linear, unbiased, with the variances they claim; and what a server sees of a sketch is the Gram matrix."""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

from cloister.crypto.dense_projection import Gaussian, Orthonormal, standard_normal
from cloister.crypto.hadamard import Hadamard
from cloister.crypto.projection import INNER, TwoStage
from cloister.crypto.sparse_projection import Sparse

KEY = bytes(range(32))
RNG = np.random.default_rng(7)


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def draw(kind, seed: bytes, d: int, k: int):
    return kind.draw(seed, d, k, 5.0) if kind is Sparse else kind.draw(seed, d, k)


def vectors(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Two unit vectors of cosine 0.5, one of them with most of its weight in few coordinates."""
    x = np.zeros(d)
    x[:3] = [3, -2, 2]
    x += 0.05 * RNG.normal(size=d)
    x /= np.linalg.norm(x)
    z = RNG.normal(size=d)
    z -= (z @ x) * x
    return x, 0.5 * x + math.sqrt(0.75) * z / np.linalg.norm(z)


def variance(kind, x: np.ndarray, z: np.ndarray, k: int) -> float:
    """Var <Px, Pz>, as documented."""
    d, norms, inner = len(x), (x @ x) * (z @ z), x @ z
    if kind is Orthonormal:
        return (d - k) * (d * norms + (d - 2) * inner**2) / (k * (d - 1) * (d + 2))
    return (norms + inner**2 + (2.0 * (x**2 @ z**2) if kind is Sparse else 0.0)) / k  # s - 3 = 2


@pytest.mark.parametrize("kind", [Gaussian, Sparse, Orthonormal, Hadamard])
@pytest.mark.parametrize(("d", "k"), [(48, 16), (100, 24)])
@pytest.mark.long
def test_inner_products_are_unbiased_with_the_stated_variance(kind, d, k):
    x, z = vectors(d)
    pairs = np.stack([x, z])
    draws = 3000
    products = np.empty(draws)
    for number in range(draws):
        left, right = draw(kind, key(number), d, k).apply(pairs)
        products[number] = left @ right
    stated = variance(kind, x, z, k)
    assert abs(products.mean() - x @ z) < 4.5 * math.sqrt(stated / draws)
    assert stated < draw(kind, KEY, d, k).error ** 2 * 1.0001
    ratio = products.var() / stated
    if kind is Hadamard:
        assert ratio < 1.15  # claimed as a bound
    else:
        assert 0.85 < ratio < 1.2


@pytest.mark.parametrize("kind", [Gaussian, Sparse, Orthonormal, Hadamard])
def test_projections_are_linear_and_act_row_by_row(kind):
    d, k = 300, 40
    projection = draw(kind, KEY, d, k)
    assert (projection.d, projection.k) == (d, k)
    rows = RNG.normal(size=(3, d))
    image = projection.apply(rows)
    assert image.shape == (3, k)
    assert image.dtype == np.float64
    assert np.allclose(projection.apply(rows[1]), image[1], atol=1e-12)
    assert np.allclose(projection.apply(2 * rows[0] - rows[2]), 2 * image[0] - image[2], atol=1e-5)
    assert np.allclose(projection.apply(rows.astype(np.float32)), image, atol=1e-5)
    assert np.array_equal(draw(kind, KEY, d, k).apply(rows), image)
    assert not np.allclose(draw(kind, KEY[::-1], d, k).apply(rows), image, atol=0.1)
    with pytest.raises(ValueError, match="coordinates"):
        projection.apply(rows[:, 1:])


def matrix_of(projection) -> np.ndarray:
    return projection.apply(np.eye(projection.d)).T


def test_orthonormal_rows_have_the_least_spectral_norm():
    matrix = matrix_of(Orthonormal.draw(KEY, 128, 115))
    assert np.allclose(matrix @ matrix.T, 128 / 115 * np.eye(115))
    assert np.linalg.norm(matrix, 2) == pytest.approx(math.sqrt(128 / 115))
    assert np.linalg.norm(matrix_of(Gaussian.draw(KEY, 128, 115)), 2) > 1.9
    with pytest.raises(ValueError, match="orthonormal"):
        Orthonormal.draw(KEY, 10, 11)


def test_hadamard_rows_are_signed_hadamard_rows():
    """Against the definition: rows of the full Sylvester matrix of 64 blocks of 16, times one sign a coordinate."""
    from scipy.linalg import hadamard

    projection = Hadamard.draw(KEY, 1000, 13)
    full = hadamard(1024)[projection.outer * 16 + projection.columns][:, :1000] * projection.signs / math.sqrt(13)
    assert np.allclose(matrix_of(projection), full, atol=1e-6)
    assert len(set(projection.columns.tolist())) == 13


def test_hadamard_keeps_inner_products_within_one_block():
    rows = RNG.normal(size=(4, 512))
    image = Hadamard.draw(KEY, 512, 512).apply(rows)
    assert np.allclose(image @ image.T, rows @ rows.T, rtol=1e-5, atol=1e-4)


def test_blocks_do_not_show():
    """Vectors longer than one pass of work, against one basis vector at a time."""
    d = 2 * 2**17 + 77
    for projection in (Hadamard.draw(KEY, d, 64), Gaussian.draw(KEY, d, 3)):
        places = [0, 2**17 - 1, 2**17, d - 1]
        x = np.zeros(d)
        x[places] = [1.0, -2.0, 3.0, 4.0]
        ones = np.zeros((4, d))
        ones[range(4), places] = 1
        assert np.allclose(projection.apply(x), [1.0, -2.0, 3.0, 4.0] @ projection.apply(ones), atol=1e-5)


def test_sparse_entries_are_as_dense_as_stated():
    projection = Sparse.draw(KEY, 4000, 50, 8.0)
    expected = 4000 * 50 / 8
    assert abs(projection.matrix.nnz - expected) < 5 * math.sqrt(expected)
    values = projection.matrix.data
    assert set(np.abs(values).round(12)) == {round(math.sqrt(8 / 50), 12)}
    assert abs(values.sum() / math.sqrt(8 / 50)) < 5 * math.sqrt(expected)
    per_row, per_column = np.diff(projection.matrix.indptr), np.bincount(projection.matrix.indices, minlength=4000)
    assert stats.chisquare(per_row).pvalue > 1e-4
    assert per_column.var() == pytest.approx(50 / 8 * 7 / 8, rel=0.15)
    assert Sparse.draw(KEY, 40, 5, 1.0).matrix.nnz == 200
    with pytest.raises(ValueError, match="s must"):
        Sparse.draw(KEY, 40, 5, 0.5)


def test_normal_numbers_are_normal():
    numbers = standard_normal(KEY, 10**6)
    assert np.isfinite(numbers).all()
    assert stats.kstest(numbers, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 5e-3
    assert abs((np.abs(numbers) > 4).sum() - 63.3) < 40


def test_held_sketches_are_the_same():
    sketch = TwoStage.draw(key(1), key(2), 20_000, 64)
    rows = RNG.normal(size=(2, 20_000)).astype(np.float32)
    assert np.allclose(sketch.held().apply(rows), sketch.apply(rows), atol=1e-10)
    assert sketch.held().held().k == 64
    assert repr(key(2)) not in repr(sketch)


def test_the_server_sees_independent_rows_with_the_gram_matrix_as_covariance():
    """After whitening with the Gram matrix of the projected updates, all k x n numbers are independent N(0, 1)."""
    d, k, clients = 30_000, 512, 5
    updates = RNG.normal(size=(clients, d)).astype(np.float32) * np.linspace(0.1, 3, d).astype(np.float32)
    updates[1:] += 0.8 * updates[0]
    sketch = TwoStage.draw(key(1), key(2), d, k)
    view = sketch.apply(updates)
    projected = sketch.public.apply(updates)
    white = np.linalg.solve(np.linalg.cholesky(projected @ projected.T / k), view)
    assert stats.kstest(white.ravel(), "norm").pvalue > 1e-3
    covariance = white @ white.T / k
    assert np.abs(covariance - np.eye(clients)).max() < 5 * math.sqrt(2 / k)
    lagged = np.corrcoef(white[:, 1:].ravel(), white[:, :-1].ravel())[0, 1]
    assert abs(lagged) < 5 / math.sqrt(clients * k)
    gram, seen = updates.astype(float) @ updates.T.astype(float), view @ view.T
    norms = np.sqrt(np.outer(gram.diagonal(), gram.diagonal()))
    assert (np.abs(seen - gram) / norms).max() < 4.5 * sketch.error


def spiky_and_spread() -> tuple[np.ndarray, np.ndarray]:
    """Two sets of three updates with the same Gram matrix: few coordinates, and a rotation of them into all coordinates."""
    rng = np.random.default_rng(3)
    spiky = np.zeros((3, 64))
    spiky[:, :3] = rng.normal(size=(3, 3))
    rotation, _ = np.linalg.qr(rng.normal(size=(64, 64)))
    return spiky, spiky @ rotation


def distinguisher(kind, pairs: int = 1500) -> tuple[float, float]:
    """(AUC, its standard deviation) of a trained classifier that tells which of the two sets the server's view came from."""
    sets = spiky_and_spread()
    features, labels = [], []
    for number in range(2 * pairs):
        view = draw(kind, key(number), 64, 16).apply(sets[number % 2])
        view = view / np.sqrt((view**2).mean(axis=1, keepdims=True))
        inner = (view[:, None] * view[None]).mean(axis=2).ravel()
        features.append(np.concatenate([np.sort(np.abs(view), axis=1).ravel(), (view**4).mean(axis=1), inner]))
        labels.append(number % 2)
    x, y = np.array(features), np.array(labels)
    x = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-9)
    half = len(y) // 2
    scores = LogisticRegression(C=0.05, max_iter=300).fit(x[:half], y[:half]).decision_function(x[half:])
    ones, zeros = scores[y[half:] == 1], scores[y[half:] == 0]
    auc = stats.mannwhitneyu(ones, zeros).statistic / (len(ones) * len(zeros))
    return float(auc), math.sqrt((len(ones) + len(zeros) + 1) / (12 * len(ones) * len(zeros)))


def test_no_classifier_tells_updates_of_one_gram_matrix_apart():
    auc, deviation = distinguisher(Gaussian)
    assert abs(auc - 0.5) < 3 * deviation


@pytest.mark.long
@pytest.mark.parametrize("kind", [Sparse, Hadamard])
def test_the_same_classifier_sees_through_projections_that_are_not_isotropic(kind):
    auc, _ = distinguisher(kind)
    assert auc > 0.9


def test_sizes_that_give_the_updates_away_are_refused():
    assert TwoStage.draw(key(1), key(2), 4000, 1000).public is None
    with pytest.raises(ValueError, match="at most 300"):
        TwoStage.draw(key(1), key(2), 600, 301)
    assert TwoStage.draw(key(1), key(2), INNER + 1, 8).public.k == INNER
    with pytest.raises(ValueError, match="at least 1"):
        Gaussian.draw(KEY, 0, 4)
    with pytest.raises(ValueError, match="bits"):
        Gaussian.draw(b"short", 3, 4)
