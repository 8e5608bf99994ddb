"""What functions of a scenario's own return, and are called with, is refused by name where it is of another kind."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from cloister.fl.clients.training import optimizer_of
from cloister.fl.data.function import as_data
from cloister.fl.functions import Unfit
from cloister.fl.models.papers import initial
from cloister.result import Result

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
    with pytest.raises(ValueError, match=r"metrics are a tuple of names or functions, .*, not a mapping"):
        replace(sample.scenario.training, metrics={"AUC": "AUC"})


def test_a_damaged_model_file_of_a_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "0.safetensors").write_bytes(b"not a model")
    with pytest.raises(ValueError, match=r"0\.safetensors is damaged, and no model can be read of it"):
        Result(tmp_path, {}).models()
