"""Theorem 1 of FPFC's paper: its conditions against the formulas, softmax regression's constant against Hessians, a report."""

import json
from dataclasses import replace
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from cloister.fl.algorithms.fpfc import FPFC
from cloister.fl.clients.training import Training
from cloister.fl.clustering.fusion import L1, Scad
from cloister.fl.clustering.fusion_theory import smoothness_of, theorem_1
from cloister.fl.data.agreed import agreed_columns
from cloister.fl.data.population import Examples
from cloister.fl.models.papers import Mlp, SoftmaxRegression, initial
from cloister.fl.runs.experiment import run
from cloister.fl.runs.summing_up import _conditions
from cloister.reporting.report import write_report
from cloister.summary import conditions_in_words, summary_table

from .example_files import load

FULL = Training(epochs=50, batch=1000, lr=1 / 11)
GENTLE = Scad(lam=0.01, a=3.7, xi=0.009)


def holds(**changes: Any) -> list[bool | None]:
    """Of a setting in which all conditions hold, with these changes."""
    setting: dict[str, Any] = {"penalty": GENTLE, "rho": 5.0, "training": FULL, "sizes": [40, 90], "smoothness": 1.0} | changes
    return [condition.holds for condition in theorem_1(**setting)]


def test_there_are_settings_in_which_every_condition_holds() -> None:
    assert holds() == [True] * 7
    assert conditions_in_words([{"words": "a", "holds": True}]) == "holds: all of its conditions do"


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"training": replace(FULL, batch=89)}, {0}),
        ({"training": replace(FULL, momentum=0.5)}, {0}),
        ({"penalty": Scad(lam=0.5, xi=0.009)}, {1}),
        ({"penalty": Scad(lam=0.01, a=1.3, xi=0.009)}, {2}),
        ({"weak": 5.0, "training": replace(FULL, lr=0.1)}, {3, 5, 6}),
        ({"training": replace(FULL, lr=0.0911)}, {4}),
        ({"training": replace(FULL, epochs=2)}, {5, 6}),
        ({"smoothness": 4.0, "training": replace(FULL, epochs=4, lr=1 / 14)}, {6}),
    ],
)
def test_each_condition_is_broken_by_itself(changes: dict[str, Any], broken: set[int]) -> None:
    assert {k for k, value in enumerate(holds(**changes)) if value is False} == broken


def test_what_is_not_known_is_not_said_to_hold() -> None:
    """Without L_f: what needs it is open, but for a step that is too long for every L_f."""
    assert holds(smoothness=None) == [True, True, True, None, None]
    assert holds(smoothness=None, training=replace(FULL, lr=0.1001)) == [True, True, True, False, None]
    assert conditions_in_words([{"words": "a", "holds": None}, {"words": "b", "holds": True}]).startswith("may hold: 1 of 2")


@pytest.mark.parametrize("penalty", [L1(lam=0.2), Scad(lam=0.2, xi=0)])
def test_the_theorem_is_of_the_smoothed_penalty(penalty: Any) -> None:
    assert holds(penalty=penalty) == [True, False]


@pytest.mark.parametrize("seed", range(5))
def test_the_numbers_are_the_formulas(seed: int) -> None:
    """c, the least number of steps and the least rho, as printed, for random settings."""
    rng = np.random.default_rng(seed)
    rho, smooth, weak = 1 + 5 * rng.random(), 3 * rng.random() + 0.1, 0.5 * rng.random()
    alpha, steps = 1 / (smooth + 2 * rho), int(rng.integers(3, 20))
    mu = rho - weak
    c = 1 - alpha * 2 * mu * (smooth + rho) / (smooth + rho + mu)
    assert 0 < c < 1
    training = Training(epochs=steps, batch=100, lr=alpha)
    found = theorem_1(GENTLE, rho, training, [60, 100], smooth, weak)
    assert f"-2 log 2 / log c = {-2 * log(2) / log(c):.3g}" in found[5].words
    rest = 1 - 2 * c ** (steps / 2)
    assert f"L_f / (1 - 2 c^(T/2)) = {smooth / rest if rest > 0 else float('inf'):.3g}" in found[6].words
    assert found[4].holds is (alpha <= 1 / (smooth + 2 * rho - weak))


def hessian(x: Tensor, y: Tensor, w: Tensor, classes: int) -> Tensor:
    """Of the mean cross entropy of a softmax regression, float64."""
    wide = torch.hstack([x, torch.ones(len(x), 1, dtype=x.dtype)])

    def loss(v: Tensor) -> Tensor:
        return functional.cross_entropy(wide @ v.view(classes, -1).T, y)

    found: Tensor = torch.autograd.functional.hessian(loss, w)
    return found


@pytest.mark.parametrize(("classes", "seed"), [(2, 0), (3, 1), (5, 2)])
def test_no_hessian_is_larger_than_the_constant(classes: int, seed: int) -> None:
    """At random models and at zero; of two classes at zero it is the constant itself."""
    rng = np.random.default_rng(seed)
    data = [Examples(torch.from_numpy(rng.random((30, 4), np.float32)), torch.from_numpy(rng.integers(0, classes, 30)))]
    most = smoothness_of(initial(SoftmaxRegression(), (4,), classes, 0), data)
    assert most is not None
    x, y = data[0].x.double(), data[0].y
    sizes = [float(torch.linalg.eigvalsh(hessian(x, y, s * torch.from_numpy(rng.standard_normal(5 * classes)), classes))[-1])
             for s in (0.0, 0.1, 1.0, 10.0)]  # fmt: skip
    assert max(sizes) <= most * (1 + 1e-9)
    if classes == 2:
        assert sizes[0] == pytest.approx(most)


def test_of_other_models_no_constant_is_known() -> None:
    data = [Examples(torch.zeros(3, 4), torch.zeros(3, dtype=torch.int64))]
    assert smoothness_of(initial(Mlp(hidden=(5,)), (4,), 2, 0), data) is None
    linear, none = initial(SoftmaxRegression(), (4,), 2, 0), Examples(torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64))
    assert smoothness_of(linear, data) == pytest.approx(0.5)  # the bias alone
    assert smoothness_of(linear, [*data, none]) is None
    assert smoothness_of(linear, [Examples(data[0].x + float("nan"), data[0].y)]) is None


def test_of_data_that_clients_alone_have_neither_sizes_nor_steps_are_known() -> None:
    """Before: "the full gradient of at most 8 examples: yes", "T = 2 steps", of a table that is made up to know the model by."""
    of = FPFC(rounds=5, penalty=GENTLE, rho=5.0)
    for told, data in ((True, agreed_columns(["a", "b"], label="y", labels=["n", "p"], clients=3)), (False, None)):
        client = SimpleNamespace(train=Examples(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64)))
        simulation = SimpleNamespace(
            told=object() if told else None,
            scenario=SimpleNamespace(data=data, algorithm=of, training=FULL),
            population=SimpleNamespace(clients={0: client}),
            module=initial(SoftmaxRegression(), (2,), 2, 0),
        )
        found = _conditions(simulation)["conditions"]
        full = next(of for of in found if "full gradient" in of["words"])
        assert ("it alone knows" in full["words"]) == (full["holds"] is None) == told
        assert any("T steps and rho" in of["words"] for of in found) == told
    assert of.conditions(replace(FULL, momentum=0.5), (), None)[0].holds is False


def test_a_falling_step_and_fixed_cohorts_are_none_of_the_theorems() -> None:
    assert holds(training=replace(FULL, lr_decay=0.9)) == [False, *[True] * 7]
    fixed = FPFC(rounds=5, penalty=GENTLE, rho=5.0, participation=0.5, sampling="cohorts")
    assert [c.holds for c in fixed.conditions(FULL, [40, 90], 1.0)] == [False, *[True] * 7]
    assert all(c.holds for c in replace(fixed, sampling="random").conditions(FULL, [40, 90], 1.0))


@pytest.mark.trains
def test_a_run_says_that_the_published_settings_break_the_theorem(tmp_path: Path) -> None:
    quick = load("fpfc_table1").quick
    list(run(replace(quick, rounds=2), tmp_path))
    write_report(tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (
        next(c["words"] for c in summary["conditions"] if c["holds"] is False) == "rho = 1 has to be above 2 lambda / xi = 1200"
    )
    assert "says nothing of this run" in "".join(str(cell) for column in summary_table(summary).columns for cell in column._cells)
    assert "2 lambda / xi = 1200</td><td>no" in (tmp_path / "report.html").read_text()
