"""Errors that are about a field of a scenario say where its file gives it."""

from importlib import import_module
from pathlib import Path

import pytest
import torch

from cloister import Training
from cloister.errors_in_one_line import Failure, one_line_errors
from cloister.fl.data.own import OwnData
from cloister.fl.fields_at_fault import about, field_of
from cloister.fl.near_names import listed
from cloister.fl.runs.objective_check import check_targets
from cloister.lines_of_fields import place_of_field

FILE = """from cloister import Scenario, data

source = data.from_csv("data")
scenario = Scenario(
    name="mine",
    data=source,
    model=None,
)
"""


HOLDERS = """from dataclasses import replace

base = Scenario(
    data=Digits(),
    model=None,
)
{}
"""


@pytest.mark.parametrize(
    ("holder", "field", "line"),
    [
        ("evaluation = Evaluation(scenario=base)", "data", 4),
        ("evaluation = Evaluation(scenario=replace(base, data=Mnist()))", "data", 7),
        ("evaluation = Evaluation(scenario=replace(base, rounds=3))", "model", 5),
        ("scenario = replace(base, rounds=3)", "data", 4),
        ("comparison = Comparison(data={'one': base})", "data", 4),
        ("comparison = Comparison(data={'one': base, 'other': base})", "data", 7),
        ("scenario = scenario(scenario)", "data", 7),
    ],
)
def test_a_field_is_found_in_the_scenario_that_something_holds_or_is_a_changed_copy_of(
    tmp_path: Path, holder: str, field: str, line: int
) -> None:
    file = tmp_path / "held.py"
    file.write_text(HOLDERS.format(holder))
    assert place_of_field(str(file), field, ()) == f"{file}, line {line}"


@pytest.fixture
def where(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(FILE)
    return str(tmp_path / "mine.py")


@pytest.mark.parametrize(("field", "line"), [("data", 3), ("model", 7), ("rounds", 4)])
def test_it_is_the_line_of_the_field_of_the_name_it_stands_for_or_of_the_scenario(where: str, field: str, line: int) -> None:
    assert place_of_field(where, field, ()) == f"{where}, line {line}"


def test_a_setting_took_the_place_of_what_the_file_gives(where: str) -> None:
    settings = ["data=from_csv('a')", "model=Mlp()", "data.label=x"]
    assert place_of_field(where, "data", settings) == "--set data.label=x"
    assert place_of_field(where, "database", settings) == f"{where}, line 4"


def test_of_what_holds_no_such_scenario_nothing_is_said(where: str, tmp_path: Path) -> None:
    assert place_of_field(f"{where}:other", "data", ()) == place_of_field(str(tmp_path / "none.py"), "data", ()) == ""


def test_what_the_system_refused_about_a_file_is_said_in_words(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(Failure, match=r"taken: a folder is to be there .* a file is; choose another"), one_line_errors():
        (tmp_path / "taken").mkdir()
    with pytest.raises(Failure, match=r"^there is no .*none$"), one_line_errors():
        (tmp_path / "none").read_text()
    with pytest.raises(Failure, match=r": is a directory$"), one_line_errors():
        tmp_path.read_text()


def test_an_extra_that_is_not_installed_is_a_line_and_a_failing_import_is_a_bug() -> None:
    with pytest.raises(Failure, match=r"^real processes need grpcio: pip install 'cloister\[deploy\]'$"), one_line_errors():
        raise ImportError("real processes need grpcio: pip install 'cloister[deploy]'")
    with pytest.raises(ImportError), one_line_errors():
        import_module("cloister.no_such_module")


def test_the_innermost_note_stays() -> None:
    with pytest.raises(ValueError) as caught, about("model"), about("data"):
        raise ValueError("a cell is empty")
    assert field_of(caught.value) == "data"
    assert field_of(ValueError()) == ""


def test_a_command_says_the_line_of_the_field_at_fault_and_of_other_errors_none(where: str) -> None:
    with pytest.raises(Failure, match=r"mine\.py, line 3: a cell is empty$"), one_line_errors(where), about("data"):
        raise ValueError("a cell is empty")
    with pytest.raises(Failure, match=r"^a cell is empty$"), one_line_errors(where):
        raise ValueError("a cell is empty")
    with pytest.raises(Failure, match=r"^a cell is empty$"), one_line_errors(), about("data"):
        raise ValueError("a cell is empty")


def test_what_is_wrong_in_a_clients_own_file_is_not_placed_in_the_scenario(tmp_path: Path) -> None:
    (file := tmp_path / "mine.py").write_text(FILE)
    (own := tmp_path / "own.csv").write_text("1,2,3,0\n")
    with pytest.raises(Failure, match=r"^line 1 of .*own\.csv has 4 columns"), one_line_errors(str(file)), about("data"):
        OwnData(own, (2,), 2)(None)
    with pytest.raises(Failure, match=r"^there is no file or folder"), one_line_errors(str(file)), about("data"):
        OwnData(tmp_path / "none", (2,), 2)(None)


@pytest.mark.parametrize(
    ("loss", "y", "classes", "attacked", "field"),
    [
        ("cross entropy", torch.zeros(3), 1, False, "training"),
        ("Huber", torch.tensor([0, 1]), 2, False, "training"),
        ("binary cross entropy", torch.tensor([0, 1, 2]), 3, False, "training"),
        ("Huber", torch.zeros(3), 1, True, "adversary"),
    ],
)
def test_targets_of_another_kind_than_the_loss_are_about_it(
    loss: str, y: torch.Tensor, classes: int, attacked: bool, field: str
) -> None:
    with pytest.raises(ValueError) as refused:
        check_targets(Training(epochs=1, batch=1, lr=0.1, loss=loss), y, classes, attacked)
    assert field_of(refused.value) == field


def test_names_with_commas_stay_one_in_a_list_of_names() -> None:
    assert listed(["FedAvg", "NNM, trimmed mean"]) == "FedAvg, 'NNM, trimmed mean'"
