"""What functions of a scenario's own return, and are called with, is refused by name where it is of another kind."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cloister.fl.clients.losses import IGNORED
from cloister.fl.clients.training import optimizer_of
from cloister.fl.data.function import as_data
from cloister.fl.data.population import Examples
from cloister.fl.functions import Unfit
from cloister.fl.models.papers import initial
from cloister.fl.runs.simulation import Simulation
from cloister.result import Result
from cloister.threat_models.functions import check_trainable

from . import evaluation_sample as sample

X = np.zeros((4, 2), np.float32)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((X[:0], np.zeros(0, np.int64)), r"mine .*returned no examples"),
        ((X, np.array([0, 1, -1, 0])), r"mine .*returned the label -1; labels are whole numbers from 0"),
        ((X, np.array([0.5, 1, 0, 0])), r"mine .*returned labels of type float64; they are whole numbers from 0"),
    ],
)
def test_data_of_a_function_that_are_none(found: Any, said: str) -> None:
    def mine(folder: Any) -> Any:
        return found

    with pytest.raises(Unfit, match=said):
        as_data(mine)(None)


def test_an_optimizer_that_is_none() -> None:
    def mine(parameters: Any, lr: float) -> Any:
        return None

    training = replace(sample.scenario.training, optimizer=mine)
    with pytest.raises(Unfit, match=r"training.optimizer, mine .*, returned None, where an optimizer of torch is taken"):
        optimizer_of(training, [*nn.Linear(2, 2).parameters()], 0)


def test_a_factory_of_a_model_with_other_arguments_or_without_a_return() -> None:
    def alone(shape: Any) -> nn.Module:
        return nn.Linear(2, 2)

    def forgetful(shape: Any, classes: int) -> Any:
        nn.Linear(2, classes)

    with pytest.raises(Unfit, match=r"model, alone .*, does not fit: "):
        initial(alone, (2,), 2, 0)  # type: ignore[arg-type]
    with pytest.raises(Unfit, match=r"forgetful .*returned None, where a module of torch is taken; is there a `return`\?"):
        initial(forgetful, (2,), 2, 0)


def test_metrics_by_name_are_said_to_be_a_tuple() -> None:
    with pytest.raises(ValueError, match=r"training.metrics is \{'AUC': 'AUC'\}; give a tuple, each a text or a function"):
        replace(sample.scenario.training, metrics={"AUC": "AUC"})


def test_a_damaged_model_file_of_a_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "0.safetensors").write_bytes(b"not a model")
    with pytest.raises(ValueError, match=r"0\.safetensors is damaged, and no model can be read of it"):
        Result(tmp_path, {}).models()


def _no_rng(source: Any) -> Any:
    return None


def _forgetful(source: Any, rng: Any) -> Any:
    return None


def _a_dict(source: Any, rng: Any) -> Any:
    return {0: source}


@pytest.mark.parametrize(
    ("partition", "said"),
    [
        (_no_rng, r"partition, _no_rng .*test_own_returns\.py, line \d+.*, does not fit: "),
        (_forgetful, r"_forgetful .*test_own_returns\.py, line \d+.* returned None, where a Population is taken"),
        (_a_dict, r"_a_dict .* returned .*dict.*, where a Population is taken \(cloister\.data\.Population\)"),
    ],
)
def test_a_partition_with_other_arguments_or_another_return(partition: Any, said: str) -> None:
    with pytest.raises(Unfit, match=said):
        Simulation(replace(sample.scenario, partition=partition), None)


HONEST = Examples(torch.zeros(4, 1, 2, 2), torch.tensor([0, 1, 2, 0]))


def mine() -> None:
    """What is blamed."""


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Examples(HONEST.x[:0], HONEST.y[:0]), "returned 0 inputs and 0 labels; as many of both, and at least one"),
        (Examples(HONEST.x[:, 0], HONEST.y), r"returned inputs of shape \(2, 2\) and labels of shape \(\), where \(1, 2, 2\)"),
        (Examples(HONEST.x, torch.zeros(4, 3, dtype=torch.int64)), r"labels of shape \(3,\), where .* and \(\) are taken"),
        (
            Examples(HONEST.x.double(), HONEST.y),
            "returned inputs of torch.float64 and labels of torch.int64, where ",
        ),
        (Examples(HONEST.x, HONEST.y.float()), "labels of torch.float32, where torch.float32 and torch.int64 are taken"),
        (Examples(HONEST.x, HONEST.y + 1), "returned labels from 1 to 3; there are 3, from 0"),
        (Examples(HONEST.x, HONEST.y - 1), "returned labels from -1 to 1; there are 3, from 0"),
    ],
)
def test_examples_that_no_model_could_be_trained_on(found: Examples, said: str) -> None:
    with pytest.raises(Unfit, match=rf"mine .*test_own_returns\.py, line \d+.*{said}"):
        check_trainable(mine, HONEST, 3, found)


def test_examples_that_can_be_trained_on_padding_and_numbers_included() -> None:
    check_trainable(mine, HONEST, 3, HONEST.take(torch.tensor([1])))
    tokens = Examples(torch.zeros(2, 3, dtype=torch.int64), torch.tensor([[0, 2, IGNORED], [IGNORED] * 3]))
    check_trainable(mine, tokens, 3, tokens)
    with pytest.raises(Unfit, match="returned labels from 0 to 2; there are 2, from 0"):
        check_trainable(mine, tokens, 2, tokens)
    numbers = Examples(torch.zeros(2, 3), torch.tensor([-5.0, 9.0]))
    check_trainable(mine, numbers, 1, numbers)
