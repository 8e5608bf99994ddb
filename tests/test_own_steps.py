"""A rule of one's own may have a field called `steps`: it is no step before a rule, as `Mixed` has them."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import cloister
from cloister import Scenario, Training, algorithms, attacks, data, models, partitions, protections, rules
from cloister.threat_models.design_limit import built_for
from cloister.threat_models.search.space import rule_of


@dataclass(frozen=True)
class Gate:
    """Weights by distance, so many times anew."""

    steps: int = 3
    f: int = 1
    sees: ClassVar = rules.Sight.GRAM
    shift_invariant: ClassVar = False

    def weights(self, gram: Any, rng: Any, /) -> Any:
        weights = np.full(len(gram), 1 / len(gram))
        for _ in range(self.steps):
            apart = np.diag(gram) - 2 * gram @ weights + weights @ gram @ weights
            weights = 1 / np.sqrt(np.maximum(apart, 1e-9))
            weights /= weights.sum()
        return weights


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.filterwarnings("ignore::cloister.fl.runs.feasibility.Doubt")
def test_a_rule_with_a_field_called_steps_is_played_under_every_attack_that_looks_at_rules(tmp_path: Any) -> None:
    """Its attacked cells failed with "TypeError: 'int' object is not iterable", and no place."""
    scenario = Scenario(
        name="steps", data=data.Digits(), partition=partitions.Iid(clients=6, samples=40), model=models.Mlp(hidden=(8,)),
        training=Training(epochs=1, batch=20, lr=0.1), algorithm=algorithms.FedAvg(), protection=protections.Plain(), rounds=1,
    )  # fmt: skip
    defence = algorithms.RobustFedAvg(rule=Gate())
    names = ("optimal ALIE", "DYN-OPT", "ALIE z=1.5", "Min-Max mean")
    suite = {name: attack for name, attack in attacks.strongest().items() if name in names}
    assert {*suite} == {*names}
    grid = cloister.Evaluation(
        name="steps", scenario=scenario, attacks=suite, defences={"gate": defence}, strengths=(1,), seeds=(0,), absent=False
    )
    found = cloister.evaluate(grid, tmp_path / "e", quiet=True, workers=1)
    assert not [row for row in found.cells if row["status"] != "done"]
    assert rule_of(defence) == Gate()
    assert built_for(defence, 6) == 1
