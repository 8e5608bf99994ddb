"""What inner products with published sums tell of single updates: the part of each along the sums."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cloister.threat_models.audit.estimates import _along_sums
from cloister.threat_models.audit.view import Compared, PublishedSum

CLIENTS = (0, 1, 2, 3, 4)
UPDATES = np.random.default_rng(3).normal(0.3, 1.0, (5, 12)) * np.array([1.0, 3.0, 1.0, 1.0, 0.5])[:, None]


def seen(weights: list[list[float]], origin: bool) -> tuple[Any, dict[Any, Any]]:
    """A view of these sums of one round and the Gram matrix of its updates, and the mean of the first sum as what is known."""
    means = [np.array(row) @ UPDATES / sum(row) for row in weights]
    rows = [dict(zip(CLIENTS, row, strict=True)) for row in weights]
    sums = [
        PublishedSum(0, "c", "training", row, False, -1, mean=mean.astype(np.float32))
        for row, mean in zip(rows, means, strict=True)
    ]
    about = UPDATES if origin else UPDATES - UPDATES.mean(axis=0)
    compared = Compared(0, "training", CLIENTS, CLIENTS, about @ about.T, origin, "gram")
    view = SimpleNamespace(compared=[compared], sums=sums, held={}, public=SimpleNamespace(clients=CLIENTS))
    return view, {(0, "training", i): sums[0].mean.astype(np.float64) for i in CLIENTS}


def expected(basis: np.ndarray, mean: np.ndarray, update: np.ndarray) -> np.ndarray:
    """The mean, and of what sets the update apart from it the part in the span of these vectors."""
    q = np.linalg.qr(basis.T)[0]
    return mean + q @ (q.T @ (update - mean))


@pytest.mark.parametrize("origin", [True, False], ids=["about the origin", "of deviations"])
def test_each_update_is_known_along_the_sums(origin: bool) -> None:
    weights = [[1.0] * 5, [1.0, 2.0, 1.0, 3.0, 1.0], [0.5, 1.0, 4.0, 1.0, 1.0]]
    view, known = seen(weights, origin)
    means = np.stack([np.asarray(s.mean, np.float64) for s in view.sums])
    basis = means if origin else means[1:] - means[0]
    found = {key: one.vector for key, one in _along_sums(view, known)}
    assert set(found) == set(known)
    for (_, _, i), vector in found.items():
        right, missed = expected(basis, means[0], UPDATES[i]), UPDATES[i] - means[0]
        assert np.linalg.norm(vector - right) < 0.05 * np.linalg.norm(missed), "but for the ridge"
        assert np.linalg.norm(vector - UPDATES[i]) < np.linalg.norm(missed)


def test_one_sum_is_a_direction_about_the_origin_and_none_of_deviations_from_it() -> None:
    view, known = seen([[1.0] * 5], origin=True)
    mean = known[0, "training", 0]
    for (_, _, i), one in _along_sums(view, known):
        along = float((UPDATES[i] - mean) @ mean / (mean @ mean))
        assert np.allclose(one.vector, mean + along * mean, atol=2e-2 * np.linalg.norm(mean))
    view, known = seen([[1.0] * 5], origin=False)
    assert all(np.allclose(one.vector, mean) for _, one in _along_sums(view, known))


def test_sums_of_others_or_of_other_rounds_are_no_directions() -> None:
    view, known = seen([[1.0] * 5, [1.0, 2.0, 1.0, 3.0, 1.0]], origin=False)
    first, second = view.sums
    for other in (
        PublishedSum(1, "c", "training", second.row, False, -1, mean=second.mean),
        PublishedSum(0, "c", "training", {**second.row, 9: 1.0}, False, -1, mean=second.mean),
        PublishedSum(0, "c", "training", second.row, False, -1, mean=None),
    ):
        view.sums = [first, other]
        assert all(np.allclose(one.vector, known[key]) for key, one in _along_sums(view, known))
