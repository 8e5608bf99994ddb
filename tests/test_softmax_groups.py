"""Drawn data of hidden groups: sizes, labels and groups are those of FPFC's Table 1, and the same numbers give the same data."""

import numpy as np
import pytest
import torch

from cloister.fl.data.population import Population
from cloister.fl.data.synthetic import Drawn, SoftmaxGroups
from cloister.fl.models.papers import SoftmaxRegression, initial
from cloister.fl.models.vector import dimension, to_vector


def drawn(seed: int, **numbers: float) -> Population:
    return SoftmaxGroups(**numbers)(Drawn()(None), np.random.default_rng(seed))  # type: ignore[arg-type]


@pytest.mark.long
def test_the_papers_population() -> None:
    found = drawn(0)
    assert (len(found.clients), found.classes, found.shape) == (100, 10, (60,))
    assert [found.groups[i] for i in range(100)] == [k // 25 for k in range(100)]
    sizes = np.array([len(c.test) for c in found.clients.values()])
    assert [len(c.train) for c in found.clients.values()] == (4 * sizes).tolist()
    assert sizes.min() >= 50
    logs = np.log(np.concatenate([[len(c.test) - 50 for c in drawn(s).clients.values()] for s in range(5)]).clip(1))
    assert np.median(logs) == pytest.approx(4.0, abs=0.35)
    assert logs.std() == pytest.approx(2.0, abs=0.3)
    for client in found.clients.values():
        assert client.train.x.dtype == torch.float32
        assert 0 <= float(client.train.x.min()) <= float(client.train.x.max()) <= 1


def test_clients_of_a_group_answer_alike_and_others_do_not() -> None:
    """The best linear classifier of one client, by least squares, serves its group as well as itself, and others no better than
    chance among the labels there are."""
    found = drawn(1, clients=8, groups=4, samples=1000)

    def features(x: torch.Tensor) -> np.ndarray:
        return np.hstack([x.numpy() - 0.5, np.ones((len(x), 1))])

    def accuracy(of: int, on: int) -> float:
        train, test = found.clients[of].train, found.clients[on].test
        weights = np.linalg.lstsq(features(train.x), np.eye(10)[train.y.numpy()], rcond=None)[0]
        return float((features(test.x) @ weights).argmax(1).__eq__(test.y.numpy()).mean())

    same = [accuracy(i, j) for i in range(8) for j in range(8) if i != j and found.groups[i] == found.groups[j]]
    other = [accuracy(i, j) for i in range(8) for j in range(8) if found.groups[i] != found.groups[j]]
    assert np.mean(same) > np.mean(other) + 0.25


def test_samples_limit_training_and_nothing_else() -> None:
    whole, few = drawn(2, clients=6, groups=2), drawn(2, clients=6, groups=2, samples=100)
    for i in range(6):
        assert torch.equal(whole.clients[i].test.x, few.clients[i].test.x)
        assert torch.equal(whole.clients[i].train.y[:100], few.clients[i].train.y)


def test_the_same_numbers_give_the_same_data() -> None:
    one, again, other = (drawn(s, clients=5, groups=2) for s in (3, 3, 4))
    assert all(torch.equal(one.clients[i].train.x, again.clients[i].train.x) for i in range(5))
    assert not torch.equal(one.clients[0].test.x[:50], other.clients[0].test.x[:50])


@pytest.mark.parametrize("bad", [{"clients": 3, "groups": 4}, {"noise": -1.0}, {"samples": 0}])
def test_numbers_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        SoftmaxGroups(**bad)  # type: ignore[arg-type]


def test_softmax_regression_has_the_papers_size_and_either_start() -> None:
    zero, normal = (initial(SoftmaxRegression(deviation=s), (60,), 10, 1) for s in (0.0, 1.0))
    assert dimension(zero) == dimension(normal) == 610
    assert not to_vector(zero).any()
    assert to_vector(normal).std() == pytest.approx(1.0, abs=0.1)
