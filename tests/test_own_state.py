"""An algorithm of one's own that gives back no state, or one of a round that was played, is told so; it would never end."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import cloister
from cloister import Scenario, Training, algorithms, data, models, partitions, protections
from cloister.fl.functions import Unfit


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing(algorithms.FedAvg):
    def round(self, state: Any, view: Any, rng: Any, /) -> Any:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Still(algorithms.FedAvg):
    def round(self, state: Any, view: Any, rng: Any, /) -> Any:
        return state if state.round == 1 else algorithms.FedAvg.round(self, state, view, rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begins(algorithms.FedAvg):
    def init(self, start: Any, /) -> Any:
        return {"clusters": {}}


@pytest.mark.trains
@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        (Nothing, r"^Nothing.round \(test_own_state.py, line 16\) returned None, which is no state: it has no round; give back"),
        (Still, r"^Still.round \(test_own_state.py, line 22\) returned a state whose round is 1, and 2 comes next: round=state"),
        (Begins, r"^Begins.init \(test_own_state.py, line 28\) returned dict, which is no state: it has no round; give back"),
    ],
)
def test_what_is_no_state_that_comes_next_is_told_with_its_line(algorithm: Any, words: str, tmp_path: Path) -> None:
    scenario = Scenario(
        name="own",
        data=data.Digits(),
        partition=partitions.Iid(clients=4, samples=20),
        model=models.Mlp(hidden=()),
        training=Training(epochs=1, batch=10, lr=0.1),
        algorithm=algorithm(by_samples=False),
        protection=protections.Plain(),
        rounds=3,
    )
    with pytest.raises(Unfit, match=words):
        cloister.run(scenario, tmp_path / "r", quiet=True)
