"""`join --check`: what is in one's own data, and whether they fit, with nobody connected."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cloister.fl.data.given import from_csv
from cloister.fl.data.looking import look
from cloister.fl.data.spelling import check_spelling, nearest
from cloister.fl.functions import Unfit
from cloister.own_data_check import fits, seen
from cloister.protocol.core.errors import Refused
from cloister.scenario_file import load

from .commanded import commanded

AGREED = """
from pathlib import Path
from cloister import Scenario, Training, algorithms, data, protections
from torch import nn

def network(shape, classes):
    return nn.Sequential(nn.BatchNorm1d(shape[0], track_running_stats=False), nn.Linear(shape[0], classes))

scenario = Scenario(
    name="agreed",
    data=data.from_csv(str(Path(__file__).with_name("columns.csv")), client="hospital", label="ill"),
    model=network,
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=algorithms.FedAvg(by_samples=False),
    protection=protections.Masked(floor=2),
    rounds=2,
)
"""


def table(path: Path, rows: list[list[object]], names: tuple[str, ...] = ("age", "dose", "ill")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def of(count: int, label: str = "Yes") -> list[list[object]]:
    return [[k + 0.5, (7 * k) % 11, label if k % 2 else "No"] for k in range(count)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [[f"h{k % 3}", *row] for k, row in enumerate(of(36))]
    table(tmp_path / "columns.csv", rows, ("hospital", "age", "dose", "ill"))
    (tmp_path / "agreed.py").write_text(AGREED)
    return tmp_path


@pytest.mark.trains
def test_a_loss_that_would_end_the_first_round_is_found_by_trying_it(folder: Path) -> None:
    mine = table(folder / "mine.csv", of(40))
    agreed = (folder / "agreed.py").read_text()
    for loss, said in (
        ("nn.CrossEntropyLoss()", r"training\.loss, CrossEntropyLoss, gives shape \(\) for 10 records"),
        (
            "lambda outputs, targets: {}[0]",
            r"training\.loss, <lambda> \(other\.py, line \d+\), failed in other\.py, line \d+: Key",
        ),
    ):
        (folder / "other.py").write_text(agreed.replace("lr=0.1", f"lr=0.1, loss={loss}"))
        with pytest.raises((Unfit, ValueError), match=said):
            words(fits(load(str(folder / "other.py")), mine, None, None))
    (folder / "other.py").write_text(agreed.replace("lr=0.1", "lr=0.1, metrics=(lambda outputs, targets: {}[1],)"))
    with pytest.raises(Unfit, match=r"metric, <lambda> \(other\.py, line \d+\), failed in other\.py, line \d+: KeyError: 1"):
        words(fits(load(str(folder / "other.py")), mine, None, None))
    constant = "lambda outputs, targets: outputs.sum(1)"
    (folder / "other.py").write_text(agreed.replace("lr=0.1", f"lr=0.1, loss={constant}"))
    assert "gives the same for other targets" in words(fits(load(str(folder / "other.py")), mine, None, None))["note"]


def words(lines) -> dict[str, str]:
    return dict(lines)


def test_a_table_is_looked_at(tmp_path):
    rows = [[1, 5, "a"], ["", 5, "b"], ["n/a", 5, "a"], ["x", 5, "a"], [2, 5]]
    found = look(table(tmp_path / "t.csv", rows))
    assert (found.rows, found.label, dict(found.labels), found.ragged) == (5, "ill", {"a": 3, "b": 1}, 1)
    age, dose = found.columns
    assert (age.missing, age.others, age.constant) == (2, 1, True)
    assert (dose.missing, dose.others, dose.constant) == (0, 0, True)
    told = words(seen(tmp_path / "t.csv", None))
    assert told["missing"] == "age (2)"
    assert told["no numbers"] == "age (1)"
    assert "dose" in told["constant"]
    assert told["ragged"].startswith("1 rows")


def test_a_table_without_a_header_and_one_of_another_program(tmp_path):
    (tmp_path / "bare.csv").write_text("1,2,0\n3,4,1\n")
    found = look(tmp_path / "bare.csv")
    assert (found.rows, found.label, dict(found.labels)) == (2, "column 3", {"0": 1, "1": 1})
    (tmp_path / "other.csv").write_text("age;dose;ill\n1;2;a\n")
    with pytest.raises(ValueError, match="parts its cells by ';'"):
        look(tmp_path / "other.csv")
    (tmp_path / "marked.csv").write_bytes(b"\xef\xbb\xbfage,ill\n1,a\n")
    assert [column.name for column in look(tmp_path / "marked.csv").columns] == ["age"]
    (tmp_path / "none.csv").write_text("")
    with pytest.raises(ValueError, match="is empty"):
        look(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="no column 'sick'"):
        look(tmp_path / "marked.csv", "sick")


def test_spelling_and_a_guessed_label_are_said_without_a_scenario(tmp_path):
    told = words(seen(table(tmp_path / "t.csv", [*of(20), [1, 2, "yes"]]), None))
    assert told[""] == "'ill' is taken for the label, as the last column: a scenario says which it is"
    assert "'Yes' and 'yes' of t.csv differ in spelling alone" in told["spelling"]
    told = words(seen(table(tmp_path / "t.csv", of(20)), "ill"))
    assert {"", "spelling"}.isdisjoint(told)


def test_images_are_looked_at(tmp_path):
    for label in "01":
        (tmp_path / label).mkdir()
        Image.fromarray(np.zeros((4, 6), np.uint8)).save(tmp_path / label / "a.png")
    (tmp_path / "1" / "b.png").write_bytes(b"no image")
    found = look(tmp_path)
    assert (found.rows, dict(found.labels), dict(found.sizes), found.unreadable) == (3, {"0": 1, "1": 2}, {(6, 4): 2}, 1)
    assert words(seen(tmp_path, None))["images"] == "3 of 2 labels, 6 x 4 (2)"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["north"], r" is a folder of north\.csv, and a client gives one file of its own: \S+north\.csv$"),
        (["south", "north"], r" is a folder of north\.csv, south\.csv, and a client .*: for example \S+north\.csv$"),
        ([f"c{k:02d}" for k in range(10)], r"c07\.csv and 2 more, and a client gives"),
    ],
)
def test_a_folder_of_tables_is_not_the_data_of_one_client(names, said, tmp_path):
    for name in names:
        table(tmp_path / f"{name}.csv", of(2))
    with pytest.raises(ValueError, match=said):
        dict(seen(tmp_path, None))


@pytest.mark.parametrize("drawn", ["__import__('numpy').random.randn()", "float(__import__('torch').seed() % 1_000_003)"])
def test_weights_that_are_not_of_torchs_seeded_generator_are_told_and_no_coordinator_is_blamed(folder, drawn):
    own = f"    net = nn.Linear(shape[0], classes)\n    nn.init.constant_(net.bias, {drawn})\n    return net\n"
    (folder / "agreed.py").write_text(re.sub(r"    return nn\.Sequential.*\n", own.replace("\\", r"\\"), AGREED))
    with pytest.raises(Refused, match="the model's function draws other weights each time that it is called") as told:
        words(fits(load(str(folder / "agreed.py")), table(folder / "mine.csv", of(40)), None, None))
    assert "coordinator" not in str(told.value)


@pytest.mark.trains
def test_data_that_fit_are_said_to(folder):
    told = words(fits(load(str(folder / "agreed.py")), table(folder / "mine.csv", of(40)), None, None))
    assert told["model"] == "10 parameters, inputs of 2, 2 classes"
    assert told["agreed"] == "labels No, Yes; columns age, dose"
    assert told["train on"] == "32 records, in batches of 10, the last of 2"
    assert told["held out"].startswith("8 records")
    assert "note" not in told
    few = words(fits(load(str(folder / "agreed.py")), table(folder / "mine.csv", of(10)), None, None, 7))
    assert few["train on"] == "8 records, in one batch"  # before: "in batches of 10, the last of 8"
    assert few["note"] == "the keys' directory lists 7 clients, and the scenario has 3: they may be of another run"
    assert "not here" not in told
    assert told["predicts"].startswith("only for many records together, whose means BatchNorm takes")
    (folder / "agreed.py").write_text(
        AGREED.replace("nn.BatchNorm1d(shape[0], track_running_stats=False)", "nn.LayerNorm(shape[0])")
    )
    assert "predicts" not in words(fits(load(str(folder / "agreed.py")), folder / "mine.csv", None, None))


@pytest.mark.trains
def test_what_a_run_doubts_of_is_said_before_it(folder):
    """Before: "it fits" of a run whose first line is that every split of its clients will be turned down."""
    mine = table(folder / "mine.csv", of(40))
    assert "note" not in words(fits(load(str(folder / "agreed.py")), mine, None, None))
    (folder / "agreed.py").write_text(
        AGREED.replace("FedAvg(by_samples=False)", "CFL(thresholds=algorithms.ScaleFree(eps1=0.4, eps2=0.74))")
    )
    assert words(fits(load(str(folder / "agreed.py")), mine, None, None))["note"].startswith(
        "every split of 3 clients leaves a side below the floor of 2"
    )


@pytest.mark.parametrize(
    ("rows", "names", "message"),
    [
        (of(40, "yes "), ("age", "dose", "ill"), "ill is 'yes', none of those agreed: No, Yes; is 'Yes' meant"),
        (of(40, "zebra"), ("age", "dose", "ill"), "ill is 'zebra', none of those agreed: No, Yes; 20 cells are at fault: ill"),
        (of(40), ("age", "drug", "ill"), "lacks 'dose' and has 'drug' besides"),
        ([["", 1, "No"], *of(40)], ("age", "dose", "ill"), "column 'age' has '', which is no number; inputs are numbers"),
        (of(51), ("age", "dose", "ill"), "has 41 records, of which batches of 10 leave one.*leave one record out"),
    ],
    ids=["spelled differently", "unknown", "another column", "missing", "a last batch of one"],
)
def test_data_that_do_not_fit_are_refused_in_a_line(folder, rows, names, message):
    with pytest.raises(ValueError, match=message):
        list(fits(load(str(folder / "agreed.py")), table(folder / "mine.csv", rows, names), 1, None))


def test_labels_that_differ_in_spelling_alone_are_no_two_classes(tmp_path):
    for client, label in (("a", "Yes"), ("b", "yes")):
        table(tmp_path / f"{client}.csv", of(20, label))
    with pytest.raises(ValueError, match=r"labels 'Yes' \(client 'a'\) and 'yes' \(client 'b'\) of .* differ in spelling alone"):
        from_csv(tmp_path, label="ill")(None)
    check_spelling("letters and numbers", ["a", "A", "1", "1.0", "-1", 3, "type 1", "type 2"])
    with pytest.raises(ValueError, match="'Type-1' and 'type 1'"):
        check_spelling("types", ["type 1", "Type-1"])


@pytest.mark.parametrize(
    ("word", "meant"), [("yes", "Yes"), ("YES", "Yes"), ("Yess", "Yes"), ("dont know", "Don't know"), ("zebra", None), ("", None)]
)
def test_the_nearest_word_is_named(word, meant):
    assert nearest(word, ["No", "Yes", "Don't know"]) == meant


def test_of_a_regression_a_check_says_what_a_coordinator_would_and_nothing_of_its_columns(folder):
    text = AGREED.replace('label="ill"', 'label="dose", numbers=True').replace("lr=0.1", 'lr=0.1, loss="mean squared error"')
    (folder / "agreed.py").write_text(text)
    mine = table(folder / "mine.csv", [[1, 2.5, 3], [4, 5.5, 6]])
    bad = commanded(folder, "join", "--check", "--data", str(mine), "--scenario", "agreed.py")
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr.startswith("cloister: targets here are numbers, and clients elsewhere say how many labels they find")
    home = (
        "127.0.0.1:1",
        "--data",
        str(mine),
        "--scenario",
        "agreed.py",
        "--folder",
        "home",
        "--client",
        "0",
        "--insecure-loopback",
    )
    joined = commanded(folder, "join", *home)
    assert (joined.returncode, joined.stderr) == (1, bad.stderr), "it waited for a coordinator that there cannot be"
    served = commanded(folder, "serve", "agreed.py", "--listen", "127.0.0.1:0", "--insecure-loopback")
    assert served.stderr.splitlines()[-1] == bad.stderr.strip()


@pytest.mark.trains
@pytest.mark.long
def test_the_command_connects_to_nobody(folder):
    def run(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cloister", "join", *more]
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False, env=os.environ)

    table(folder / "mine.csv", of(40))
    good = run("--check", "--data", "mine.csv", "--scenario", "agreed.py")
    assert (good.returncode, good.stdout.splitlines()[-1]) == (0, "it fits"), good.stderr
    table(folder / "mine.csv", of(40, "yes"))
    bad = commanded(folder, "join", "--check", "--data", "mine.csv", "--scenario", "agreed.py")
    assert bad.returncode == 1
    assert bad.stderr.count("\n") == 1
    assert "is 'Yes' meant?" in bad.stderr
    assert "labels       No (20), yes (20)" in bad.stdout
    assert list(folder.glob("*/journal")) == []
    (folder / "agreed.py").write_text(AGREED.replace("model=network", "model=network((2,), 2)"))
    table(folder / "mine.csv", of(40))
    finished = commanded(folder, "join", "--check", "--data", "mine.csv", "--scenario", "agreed.py")
    assert finished.returncode == 1
    assert "the model is a finished module: a module's weights are drawn wherever the file is read" in finished.stderr
    given = "import torch\ntorch.manual_seed(0)\n" + (folder / "agreed.py").read_text()
    (folder / "agreed.py").write_text(given)  # the same each time
    assert commanded(folder, "join", "--check", "--data", "mine.csv", "--scenario", "agreed.py").returncode == 0
    lacking = commanded(folder, "join", "localhost:1", "--scenario", "agreed.py", "--insecure-loopback")
    assert (lacking.returncode, lacking.stderr) == (1, "cloister: give --folder, or --check\n")


@pytest.mark.parametrize(
    ("rows", "names", "message"),
    [
        (
            [["1,5", 1, "No"], *of(40)],
            ("age", "dose", "ill"),
            r"has '1,5', which is no number; inputs .*is it a decimal comma\? write 1\.5$",
        ),
        (
            [["x", 1, "No"], ["", "y", ""], *of(40)],
            ("age", "dose", "ill"),
            r"4 cells are at fault: age \(2\), dose \(1\), ill \(1\)$",
        ),
        ([["x", 1, "No"], *of(40)], ("age", "dose", "ill"), "which is no number; inputs are numbers$"),
        ([[1, 1, ""], *of(40)], ("age", "dose", "ill"), "ill is empty; fill it in, or leave the row out$"),
        ([[1, 1, "yes"], [1, 1, "yes"], *of(40)], ("age", "dose", "ill"), r"is 'Yes' meant\?; 2 cells are at fault: ill \(2\)$"),
        (
            [[0, *row] for row in of(40)],
            ("", "age", "dose", "ill"),
            "has '' besides .'' is a column without a name, as of row numbers",
        ),
        (of(40), ("AGE", "dose", "ill"), r"has 'AGE' besides \(they differ in capitals alone\); it is to name"),
    ],
    ids=["decimal comma", "several", "one", "no label", "labels", "row numbers", "capitals"],
)
def test_what_is_wrong_with_a_table_is_said_at_once(folder, rows, names, message):
    with pytest.raises(ValueError, match=message):
        list(fits(load(str(folder / "agreed.py")), table(folder / "mine.csv", rows, names), 1, None))


def test_empty_labels_are_missing_and_codes_are_asked_about(tmp_path):
    told = words(seen(table(tmp_path / "t.csv", [[-999, "", ""], [4, 5, "a"], [5, 6, "a"]]), "ill"))
    assert told["missing"] == "ill (1), dose (1)"
    assert told["codes"].startswith("age (-999): does that say that a value is missing?")
    one = words(seen(table(tmp_path / "t.csv", [[1, 2, "a"]]), "ill"))
    assert {"constant", "codes"}.isdisjoint(one)
