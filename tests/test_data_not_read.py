"""A folder of data sets that the scenario's data do not look at is said to be in vain; the run goes on."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import cloister
from cloister import algorithms, data, protections
from cloister.comparing.play import opened
from cloister.fl.data.source import not_read
from cloister.fl.data.synthetic import Drawn
from cloister.fl.runs.feasibility import Doubt

from . import comparison_sample, evaluation_sample

ROWS = "a,b,label\n" + "".join(f"{k / 10},{1 - k / 10},{k % 2}\n" for k in range(10))
FOLDER = Path("folder")


def of_ones_own(folder: Path | None) -> Any:
    return data.Digits()(None)


def in_memory() -> Any:
    records = [(np.array([k / 10, 1.0], np.float32), k % 2) for k in range(10)]
    return data.from_datasets({"one": records, "other": records})


@pytest.mark.parametrize(
    ("loader", "where"),
    [
        (data.from_csv("clients"), "from_csv reads the files that it names"),
        (data.from_folders("clients", shape=(1, 4, 4)), "from_folders reads the images that it names"),
        (data.from_leaf("leaf.json"), "from_leaf reads the files that it names"),
        (in_memory(), "the scenario's data are in memory"),
        (data.Digits(), "the digits come with scikit-learn"),
        (Drawn(), "the scenario's data are drawn"),
    ],
)
def test_data_that_are_elsewhere_say_so(loader: Any, where: str) -> None:
    assert not_read(loader, FOLDER) == f"the folder of data sets folder is not read: {where}"
    assert not_read(loader, None) == ""


def test_data_that_are_read_from_it_and_functions_of_ones_own_say_nothing() -> None:
    assert not_read(data.Mnist(), FOLDER) == ""
    assert not_read(lambda folder: None, FOLDER) == ""  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("all_elsewhere", [True, False])
def test_a_comparison_says_it_where_none_of_its_data_reads_the_folder(all_elsewhere: bool, tmp_path: Path) -> None:
    base = comparison_sample.tiny.data["iid"]
    made = replace(comparison_sample.tiny, data={"a": base, "b": base if all_elsewhere else replace(base, data=of_ones_own)})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", Doubt)
        opened(made, tmp_path, tmp_path / "out", False, {})
    words = [str(one.message) for one in seen if one.category is Doubt]
    assert words == [f"the folder of data sets {tmp_path} is not read: the digits come with scikit-learn"] * all_elsewhere


@pytest.mark.trains
@pytest.mark.parametrize("named", [True, False])
def test_a_run_notes_it_and_goes_on(named: bool, tmp_path: Path) -> None:
    clients = tmp_path / "clients"
    clients.mkdir()
    for name in ("one", "other"):
        (clients / f"{name}.csv").write_text(ROWS)
    scenario = cloister.Scenario(
        name="mine",
        data=data.from_csv(clients),
        model=nn.Linear(2, 2),
        training=cloister.Training(epochs=1, batch=4, lr=0.1),
        algorithm=algorithms.FedAvg(),
        protection=protections.Plain(),
        rounds=1,
    )
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = cloister.run(scenario, tmp_path / "run", tmp_path if named else None, quiet=True)
    assert [str(one.message) for one in seen if "is not read" in str(one.message)] == [
        f"the folder of data sets {tmp_path} is not read: from_csv reads the files that it names"
    ] * named
    assert len(result.metrics) == 2  # two clients, one round


@pytest.mark.trains
def test_a_search_for_a_break_notes_it(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", Doubt)
        cloister.attack(
            evaluation_sample.scenario, tmp_path / "out", data=tmp_path, attacks=["IPM"], attackers=1, budget=1, workers=1,
            quiet=True,
        )  # fmt: skip
    words = [str(one.message) for one in seen if one.category is Doubt]
    assert words == [f"the folder of data sets {tmp_path} is not read: the digits come with scikit-learn"]


@pytest.mark.trains
def test_a_search_for_a_break_notes_clients_that_are_dealt_anew(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    rows = [(np.full(4, k % 2, np.float32), k % 2) for k in range(80)]
    scenario = replace(evaluation_sample.scenario, data=data.from_datasets(dict.fromkeys("abc", rows)))
    with pytest.warns(Doubt, match="the 3 clients of data sets .* are not the clients of the run"):
        cloister.attack(scenario, tmp_path / "out", attacks=["IPM"], attackers=1, budget=1, workers=1, quiet=True)
