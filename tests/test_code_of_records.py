"""The code of a file is the same code where it is read from a record: what was recorded is audited, rerun and gone on with."""

from pathlib import Path
from types import FunctionType

import pytest

from cloister.fl.own_code import digest_of
from cloister.scenario_file import load, load_source

REST = """
scenario = Scenario(
    name="s", data=data.Digits(), partition=partitions.Iid(clients=2), model=network,
    training=Training(epochs=1, batch=8, lr=0.1), algorithm=algorithms.FedAvg(), protection=protections.Plain(), rounds=1,
)
"""
HEAD = """
from dataclasses import dataclass
from torch import nn
from cloister import Scenario, Training, algorithms, data, partitions, protections

"""
A_CLASS = """
class Net(nn.Module):
    def __init__(self, n, k):
        super().__init__()
        self.a = nn.Linear(n, k)

    def __call__(self, x):
        return self.a(x.flatten(1))
"""
MODELS = {
    "a class": A_CLASS + "def network(shape, classes):\n    return Net(64, classes)\n",
    "a class within": "def network(shape, classes):\n" + A_CLASS.replace("\n", "\n    ") + "\n    return Net(64, classes)\n",
    "a dataclass": (
        "@dataclass(frozen=True)\nclass Made:\n    hidden: int = 3\n    def __call__(self, shape, classes):\n"
        "        return nn.Linear(64, classes)\n    def __len__(self):\n        return self.hidden\n\nnetwork = Made()\n"
    ),
    "a sequence": "class Net(nn.Sequential):\n    def __init__(self, k):\n"
    "        super().__init__(nn.Flatten(), nn.Linear(64, k))\n\ndef network(shape, classes):\n    return Net(classes)\n",
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_a_record_is_the_one_that_was_recorded(name: str, tmp_path: Path) -> None:
    """Of a class with an `__init__` of its own every recorded run was refused: "another model"."""
    text = HEAD + MODELS[name] + REST

    def digest(of: object) -> str:
        return digest_of(of if isinstance(of, FunctionType) else type(of))

    (tmp_path / "mine.py").write_text(text)
    recorded = digest(load(str(tmp_path / "mine.py")).model)
    assert digest(load_source(text, "", "record").model) == recorded
    edited = text.replace("Linear(64,", "Linear(63,").replace("nn.Linear(n, k)", "nn.Linear(n, k, True)")
    assert digest(load_source(edited, "", "record").model) != recorded
