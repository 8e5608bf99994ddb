"""First models of a run between processes: every party has them of its own reading of one scenario file."""

from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

from cloister import Scenario, Training, algorithms, data, partitions, protections
from cloister.fl.runs.greeting import own_parties
from cloister.protocol.core.errors import Refused


def network(shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))


def scenario(model: Any) -> Scenario:
    return Scenario(
        name="m",
        data=data.Digits(),
        partition=partitions.Iid(clients=4),
        model=model,
        training=Training(epochs=1, batch=10, lr=0.1),
        algorithm=algorithms.FedAvg(),
        protection=protections.Plain(),
        rounds=1,
    )


def refusal(read: Scenario) -> str:
    greeting: Any = SimpleNamespace(protection=repr(read.protection), client=0, known=b"another's")
    with pytest.raises(Refused, match="begins with another model: give both the same scenario") as refused:
        own_parties(read, greeting, None, None)
    return str(refused.value)


def test_of_a_module_it_is_said_that_every_reading_draws_other_weights() -> None:
    words = "a module's weights are drawn wherever the file is read: let model be a function of shape and classes"
    assert words in refusal(scenario(nn.Sequential(nn.Flatten(), nn.Linear(64, 10))))
    assert words not in refusal(scenario(network))
