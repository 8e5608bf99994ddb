"""From models and examples to edges: embeddings in evaluation mode, stratified subsamples, all pairs on all cores."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from cloister.fl.data.population import Examples
from cloister.fl.emd import (
    Cores,
    Cosine,
    Embedding,
    Euclidean,
    ExactEmd,
    MeanDistance,
    Pair,
    Problem,
    Size,
    adjacency,
    decide,
    decisions,
    distances,
    embed,
    excess,
    from_references,
    neighbourhoods,
    stratified,
    subsample,
)
from cloister.fl.emd.distances import Sample
from cloister.fl.models.papers import EmbeddingAndHead, Lstm, Mlp, initial


def batch_norm_model() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3))


def test_embeddings_are_what_the_head_is_given() -> None:
    module = initial(Mlp((20, 30)), (1, 8, 8), 10, 0)
    x = torch.rand(300, 1, 8, 8)
    found = embed(module, Embedding(), x)
    assert found.dtype == np.float32
    assert found.shape == (300, 30)
    with torch.no_grad():
        torch.testing.assert_close(module.get_submodule("head")(torch.from_numpy(found)), module(x))


def test_the_last_linear_layer_is_the_head_unless_one_is_named() -> None:
    module, x = batch_norm_model().eval(), torch.rand(4, 6)
    assert embed(module, Embedding(), x).shape == (4, 5)
    cut = Embedding().cut(module)
    torch.testing.assert_close(cut(x), module(x))
    assert isinstance(cut.head, nn.Linear)
    first = nn.Sequential(nn.Flatten(), nn.Linear(6, 7), nn.ReLU())
    assert embed(first, Embedding("1"), x).shape == (4, 6)
    with pytest.raises(ValueError, match="no linear layer"):
        embed(nn.Sequential(nn.ReLU()), Embedding(), x)
    with pytest.raises(ValueError, match="no part named"):
        embed(module, Embedding("fc"), x)
    with pytest.raises(ValueError, match="one vector"):
        embed(initial(Lstm(4, 5, 1), (7,), 11, 0), Embedding(), torch.zeros(2, 7, dtype=torch.int64))


def test_an_embedding_depends_on_its_input_alone_and_the_model_stays_as_it_was() -> None:
    module = batch_norm_model().train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    x = torch.rand(600, 6)
    together = embed(module, Embedding(), x)
    np.testing.assert_allclose(embed(module, Embedding(), x[5:6]), together[5:6], rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(embed(module, Embedding(), x), together)
    assert all(part.training for part in module.modules())
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    split = EmbeddingAndHead(nn.Dropout(0.9), nn.Linear(6, 2)).train()
    np.testing.assert_array_equal(embed(split, Embedding(), x), x.numpy())
    assert split.embedding.training


@given(st.integers(0, 2**32 - 1), st.integers(1, 80), st.integers(1, 6), st.floats(0.01, 1))
def test_strata_keep_their_proportions(seed: int, size: int, classes: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, size) * 3
    count = max(1, int(share * size))
    found = stratified(labels, count, np.random.default_rng(seed))
    assert len(found) == len(set(found.tolist())) == count
    assert (np.diff(found) > 0).all()
    for label in np.unique(labels):
        assert abs((labels[found] == label).sum() - count * (labels == label).mean()) < 1
    np.testing.assert_array_equal(found, stratified(labels, count, np.random.default_rng(seed)))


def test_subsamples_differ_by_seed_and_keep_examples_together() -> None:
    y = torch.arange(100) % 10
    examples = Examples(torch.arange(100).reshape(100, 1).float(), y)
    drawn = [subsample(examples, 40, np.random.default_rng(seed)) for seed in range(2)]
    assert not torch.equal(drawn[0].x, drawn[1].x)
    assert torch.equal(drawn[0].x[:, 0].long() % 10, drawn[0].y)
    assert torch.equal(torch.bincount(drawn[0].y), torch.full((10,), 4))


def test_one_size_fits_all_sets() -> None:
    assert Size().common([5000, 600]) == 512
    assert Size().common([5000, 300]) == 300
    assert Size(512, 0.1).common([4878, 6000]) == 487
    assert Size(512, 0.1).common([9000, 6000]) == 512
    assert Size(512, 0.7).common([10]) == 7
    for size, sizes in ((Size(), []), (Size(), [4, 0]), (Size(512, 0.1), [9])):
        with pytest.raises(ValueError, match="subsample"):
            size.common(sizes)
    for limit, share in ((0, None), (5, 0.0), (5, 1.1)):
        with pytest.raises(ValueError, match="limit"):
            Size(limit, share)
    for labels, count in ((np.arange(3), 4), (np.arange(3), 0), (np.zeros((2, 2), dtype=np.int64), 1)):
        with pytest.raises(ValueError, match="cannot be drawn"):
            stratified(labels, count, np.random.default_rng(0))


def problems(clients: int, groups: int, seed: int) -> list[Problem]:
    """Clouds of one mixture a group, and every pair of clients in both directions."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((groups, 4, 10)) * 2

    def cloud(client: int) -> Sample:
        picked = centres[client % groups][np.arange(40) % 4]
        return np.asarray(np.maximum(picked + 0.3 * rng.standard_normal((40, 10)), 0), dtype=np.float32)

    train, validation = [cloud(client) for client in range(clients)], [cloud(client) for client in range(clients)]
    taus = [ExactEmd()(train[client], validation[client]) for client in range(clients)]
    return [Problem(i, j, train[i], validation[j], taus[i]) for i in range(clients) for j in range(clients) if i != j]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_all_pairs_are_decided_as_one_by_one(workers: int) -> None:
    asked = problems(7, 3, 0)
    eps = from_references([problem.reference for problem in asked])
    heard: list[int] = []
    found = decisions(iter(asked), eps, Cosine(), cores=Cores(workers, heard.append))
    assert heard == list(range(1, 43))
    for problem in asked:
        alone = decide(Pair.of(Cosine(), problem.source, problem.target), problem.reference, eps)
        assert found[problem.client, problem.other] == alone
    joined = adjacency({pair: decision.edge for pair, decision in found.items()}, range(7))
    assert neighbourhoods(joined, range(7)) == ((0, 3, 6), (1, 4), (2, 5))


def test_all_distances_are_those_of_one_pair() -> None:
    asked = problems(4, 2, 1)
    for distance in (ExactEmd(Euclidean()), MeanDistance()):
        found = distances(asked, distance)
        assert found == {(problem.client, problem.other): distance(problem.source, problem.target) for problem in asked}
    matrix = excess(distances(asked, ExactEmd()), {problem.client: problem.reference for problem in asked}, range(4))
    assert matrix[0, 2] < 0.1 < matrix[0, 1]


def test_problems_are_taken_as_they_are_needed() -> None:
    asked = problems(6, 2, 2)
    taken = 0

    def source() -> Iterator[Problem]:
        nonlocal taken
        for problem in asked:
            taken += 1
            yield problem

    ahead: list[int] = []
    decisions(source(), 0.05, cores=Cores(1, lambda done: ahead.append(taken - done)))
    assert taken == 30
    assert max(ahead) <= 4


def test_a_pair_that_occurs_twice_raises_and_errors_come_through() -> None:
    asked = problems(3, 1, 3)
    with pytest.raises(ValueError, match="twice"):
        decisions([*asked, asked[0]], 0.05)
    broken = Problem(0, 1, asked[0].source, np.full((3, 10), np.nan), 0.1)
    with pytest.raises(ValueError, match="not finite"):
        decisions([broken, *asked], 0.05)
    with pytest.raises(ValueError, match="workers"):
        Cores(-1)


def test_zero_inputs_give_zero_embeddings_that_are_nobodys_twins() -> None:
    class Rectified(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.fc(torch.relu(x))
            return out

    dead = embed(Rectified(), Embedding(), -torch.ones(5, 3))
    alive = embed(Rectified(), Embedding(), torch.rand(5, 3) + 0.1)
    assert (dead == 0).all()
    assert ExactEmd()(dead, alive) == 1
    assert not decide(Pair.of(Cosine(), alive, dead), 0.01, 0.025).edge
