"""Layers that are sized by what they see, in a model of the user's own."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from cloister.fl.models.lazy import waits
from cloister.fl.models.papers import initial
from cloister.fl.runs.scenario import described
from cloister.fl.runs.simulation import Simulation

from . import evaluation_sample as sample


def lazy() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(6), nn.ReLU(), nn.LazyLinear(10))


@pytest.mark.parametrize("model", [lazy(), lambda shape, classes: lazy()], ids=["module", "factory"])
def test_they_are_sized_by_the_data_and_drawn_from_the_seed_alone(model: Any) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other = (initial(model, (1, 8, 8), 10, seed) for seed in (0, 0, 1))
    assert not waits(first)
    assert first.training
    assert [tuple(p.shape) for p in first.parameters()] == [(6, 64), (6,), (10, 6), (10,)]
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(next(first.parameters()), next(other.parameters()))
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_module_given_by_itself_stays_without_a_size_and_fits_a_scenario() -> None:
    given = lazy()
    scenario = replace(sample.scenario, model=given)
    assert len(Simulation(scenario, None).vectors()[0]) == 64 * 6 + 6 + 6 * 10 + 10
    assert len(waits(given)) == 2
    assert described(scenario)["model"] == described(replace(sample.scenario, model=lazy()))["model"]


def test_tokens_size_them_too_and_normalisation_over_a_batch() -> None:
    words = nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.LazyBatchNorm1d(track_running_stats=False), nn.LazyLinear(5))
    assert initial(words, (4,), 5, 0)[3].weight.shape == (5, 12)  # type: ignore[index]


def test_what_cannot_be_sized_is_refused_in_a_line() -> None:
    class Unreached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.spare = nn.LazyLinear(2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    with pytest.raises(ValueError, match=r"^the model has layers without a size \(LazyLinear\), and a pass of inputs of shape"):
        initial(Unreached(), (4,), 2, 0)
    with pytest.raises(
        ValueError, match=r"LazyLinear.*does not take inputs of shape \(4,\): .*give them sizes, or call the model"
    ):
        initial(nn.Sequential(nn.Conv2d(1, 1, 3), nn.LazyLinear(2)), (4,), 2, 0)
