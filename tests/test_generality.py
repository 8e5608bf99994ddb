"""Models of every generality on a client's path, their ensemble, and falling back to a more general one."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from cloister.fl.algorithms.algorithm import Cluster
from cloister.fl.algorithms.cfl import State
from cloister.fl.algorithms.fedavg import State as Flat
from cloister.fl.algorithms.parameter_tree import Node
from cloister.fl.data.population import Client, Examples
from cloister.fl.runs.generality import ensemble_accuracy, fall_back, models_of_clients
from cloister.protocol.view.answers import Model


def test_models_of_clients_follow_the_tree() -> None:
    state = State(
        5,
        {"00": Cluster((3, 42), Model("a")), "010": Cluster((10,), Model("b")), "011": Cluster((7, 9), Model("c"))},
        {
            "0": Node((3, 7, 9, 10, 42), Model("root"), 0, 1, ("00", "01"), ()),
            "01": Node((7, 9, 10), Model("inner"), 2, 3, ("010", "011"), ()),
        },
        {11: "0"},
        (),
        1.0,
    )
    found = {i: [m.name for m in path] for i, path in models_of_clients(state).items()}
    assert found == {
        3: ["root", "a"],
        42: ["root", "a"],
        10: ["root", "inner", "b"],
        7: ["root", "inner", "c"],
        9: ["root", "inner", "c"],
    }  # a client that waits has no cluster yet


def test_without_a_tree_there_is_one_model() -> None:
    state = Flat(1, {"group 0": Cluster((4,), Model("m"))})
    assert models_of_clients(state) == {4: [Model("m")]}


def linear(matrix: list[list[float]]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(matrix, np.float32).ravel()


class Logits(nn.Module):
    """Two classes from two numbers, by a matrix without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.linear(x)
        return out


def client(x: list[list[float]], y: list[int]) -> Client:
    examples = Examples(torch.tensor(x), torch.tensor(y))
    return Client(1, examples, examples)


SURE, UNSURE = linear([[9.0, 0.0], [0.0, 9.0]]), linear([[0.0, 1.0], [1.0, 0.0]])
"""Models that predict the larger and, with less confidence, the smaller of two numbers."""


def test_the_ensemble_is_the_mean_of_probabilities() -> None:
    one = client([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [0, 1, 0])
    assert ensemble_accuracy(Logits(), [SURE], one) == pytest.approx(2 / 3)
    assert ensemble_accuracy(Logits(), [UNSURE], one) == pytest.approx(1 / 3)
    assert ensemble_accuracy(Logits(), [SURE, UNSURE], one) == pytest.approx(2 / 3)
    # Probabilities of class 0 at (1, 0): sure 0.9999, each unsure 0.27; three unsure outvote it, two do not.
    assert ensemble_accuracy(Logits(), [UNSURE, UNSURE, SURE], one) == pytest.approx(2 / 3)
    assert ensemble_accuracy(Logits(), [UNSURE, UNSURE, UNSURE, SURE], one) == pytest.approx(1 / 3)


def test_the_ensemble_of_copies_is_the_model() -> None:
    one = client([[0.3, 0.1], [0.2, 0.9]], [0, 1])
    assert ensemble_accuracy(Logits(), [SURE] * 4, one) == ensemble_accuracy(Logits(), [SURE], one) == 1.0


def test_padding_is_not_counted() -> None:
    assert ensemble_accuracy(Logits(), [SURE], client([[1.0, 0.0], [0.0, 1.0]], [0, -1])) == 1.0


def test_fall_back_takes_the_least_loss_and_the_special_model_on_a_tie() -> None:
    losses = {3: [1.0, 0.5, 0.7], 10: [0.2, 0.4], 42: [0.5, 0.5, 0.5], 7: [0.9]}
    assert fall_back(losses) == {3: 1, 10: 0, 42: 2, 7: 0}


def test_a_model_without_a_finite_loss_is_never_chosen_over_one_with() -> None:
    nan, inf = float("nan"), float("inf")
    assert fall_back({1: [nan, 0.5], 2: [0.5, nan], 3: [inf, 2.0], 4: [nan, nan]}) == {1: 1, 2: 0, 3: 1, 4: 1}


@given(st.lists(st.floats(0, 10), min_size=1, max_size=6))
def test_what_is_chosen_is_a_last_minimum(losses: list[float]) -> None:
    k = fall_back({0: losses})[0]
    assert losses[k] == min(losses)
    assert all(loss > losses[k] for loss in losses[k + 1 :])
