"""The command line: options do what they say, errors are one line and never a traceback, nothing is lost."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from typer.testing import CliRunner

import cloister as face
from cloister import cli
from cloister.fl.runs import experiment
from cloister.fl.runs.run_folder import RunFolder
from cloister.flowing import flowing
from cloister.scenario_file import load

ROOT = Path(__file__).parents[1]
QUICKSTART = str(ROOT / "examples" / "quickstart.py")

SCENARIO = """
import numpy as np
from dataclasses import replace
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.data.source import Digits, Mnist
from cloister.fl.clients.fast import Fast
from cloister.fl.models.papers import Mlp
from cloister.fl.data.partition import Iid, LabelSwap
from cloister.fl.runs.scenario import Scenario
from cloister.fl.clients.training import Training
from cloister.protocol import Permuted, Plain

scenario = Scenario(
    name="small", data=Digits(), partition=LabelSwap(clients=6, groups=2, samples=40), model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1), algorithm=CFL(thresholds=ScaleFree(eps1=0.9, eps2=0.1), patience=2),
    protection=Permuted(), rounds=4,
)
fedavg = replace(scenario, name="fed avg", algorithm=FedAvg(), protection=Plain())
mnist = replace(scenario, data=Mnist())

def one_without_data(source, rng):
    population = LabelSwap(clients=6, groups=2)(source, rng)
    clients = dict(population.clients)
    clients[4] = replace(clients[4], train=clients[4].train.take(clients[4].train.y[:0]))
    return replace(population, clients=clients)

empty = replace(scenario, partition=one_without_data)

def poisoned(module, jobs, training, round):
    for client, update in Fast()(module, jobs, training, round):
        yield client, np.full_like(update, np.nan) if (client, round) == (3, 1) else update

rejecting = replace(fedavg, execution=poisoned)
"""


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line that says what is wrong."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("cloister: ")]
        return line


Command = Callable[..., Result]


@pytest.fixture
def cloister(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command, run in a folder of its own that holds scenario.py."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.py").write_text(SCENARIO)

    def command(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["cloister", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:  # however it ends: with 0 too
            cli.main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out
        return Result(int(caught.value.code or 0), captured.out, captured.err)

    return command


def summary(folder: Path | str) -> Any:
    return json.loads((Path(folder) / "summary.json").read_text())


def rounds_in(folder: Path | str) -> int:
    return len((Path(folder) / "metrics.jsonl").read_text().splitlines())


# --- what it does -----------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.long
def test_a_run_writes_a_folder_and_shows_the_summary(cloister: Command) -> None:
    result = cloister("run", "scenario.py")
    assert result.code == 0
    assert "groups planted" in result.out
    assert "runs/small-seed0" in result.out
    names = {p.name for p in Path("runs/small-seed0").iterdir()}
    expected = {"scenario.json", "summary.json", "metrics.jsonl", "splits.jsonl", "disclosure.jsonl", "faults.jsonl"}
    expected |= {"similarities.jsonl", "pairs.jsonl", "account.jsonl", "origin.json", "exposure.json"}
    assert names == expected | {"tree.json", "models", "checkpoints", "report.html"}
    assert rounds_in("runs/small-seed0") == 4
    again = cloister("run", "scenario.py")
    assert (again.code, "runs/small-seed0-2" in again.out) == (0, True)


@pytest.mark.trains
def test_json_prints_json_alone(cloister: Command) -> None:
    result = cloister("run", "scenario.py", "--json", "--out", "here")
    assert result.code == 0
    assert json.loads(result.out) == summary("here")
    assert result.out.count("\n") == 1


@pytest.mark.trains
def test_options_are_obeyed(cloister: Command) -> None:
    result = cloister(
        "run", "scenario.py:fedavg", "--rounds", 2, "--seed", 7, "--device", "cpu", "--out", "a/b",
        "--set", "training.lr=0.05", "--set", "partition.clients=5", "--set", "rounds=9",
    )  # fmt: skip
    assert result.code == 0
    recorded = json.loads(Path("a/b/scenario.json").read_text())
    assert (recorded["rounds"], recorded["seed"], recorded["device"]) == (2, 7, "cpu")  # options have the last word
    assert (recorded["training"]["lr"], recorded["partition"]["clients"]) == (0.05, 5)
    assert summary("a/b")["rounds"] == rounds_in("a/b") == 2
    assert summary("a/b")["seed"] == 7
    assert len(summary("a/b")["groups"]) == 5


@pytest.mark.trains
@pytest.mark.long
def test_the_default_folder_is_named_after_scenario_and_seed(cloister: Command) -> None:
    assert cloister("run", "scenario.py:fedavg", "--rounds", 1, "--seed", 3).code == 0
    assert rounds_in("runs/fed-avg-seed3") == 1
    assert cloister("run", "scenario.py:fedavg", "--rounds", 2, "--seed", 3, "--resume").code == 0
    assert rounds_in("runs/fed-avg-seed3") == 2


def test_data_names_the_data_folder(cloister: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path | None] = []

    def remember(self: Any, folder: Path | None) -> Any:
        asked.append(folder)
        raise ValueError("asked")

    monkeypatch.setattr("cloister.fl.data.images.Mnist.__call__", remember)
    assert cloister("run", "scenario.py:mnist", "--data", "my-data").code == 1
    assert asked == [Path("my-data")]


@pytest.mark.trains
def test_rejected_updates_are_told_and_change_the_exit_code(cloister: Command) -> None:
    result = cloister("run", "scenario.py:rejecting", "--json", "--out", "r")
    assert result.code == 3
    assert json.loads(result.out)["rejected"] == summary("r")["rejected"] != []
    assert "1 update was rejected, of client 3, first in round 1" in result.complaint


@pytest.mark.long
@pytest.mark.trains
def test_a_stopped_run_says_how_to_go_on(cloister: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    play = experiment.run

    def stopped(*arguments: Any, **options: Any) -> Iterator[Any]:
        steps = play(*arguments, **options)
        yield next(steps)
        raise KeyboardInterrupt

    monkeypatch.setattr(experiment, "run", stopped)
    result = cloister("run", "scenario.py", "--out", "s")
    assert result.code == 130
    assert "--out s --resume" in result.complaint
    monkeypatch.setattr(experiment, "run", play)
    assert cloister("run", "scenario.py", "--out", "s", "--resume").code == 0
    assert rounds_in("s") == 4


@pytest.mark.trains
@pytest.mark.long
def test_reports_of_finished_and_of_interrupted_runs(cloister: Command) -> None:
    assert cloister("run", "scenario.py", "--out", "f").code == 0
    Path("f/report.html").unlink()
    result = cloister("report", "f")
    assert (result.code, "f/report.html" in result.out) == (0, True)
    assert "<html" in Path("f/report.html").read_text()
    for name in ("summary.json", "tree.json", "report.html"):
        Path("f", name).unlink()
    lines = Path("f/metrics.jsonl").read_text().splitlines(keepends=True)
    Path("f/metrics.jsonl").write_text("".join(lines[:2]) + lines[2][:30])
    assert cloister("report", "f").code == 0
    assert "<html" in Path("f/report.html").read_text()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("--help",), ("run", "report", "cloister new quickstart")),
        (("run", "--help"), ("--resume", "--set", "training.lr=0.05", "cloister run cloister:quickstart", "FILE[:NAME]")),
        (("report", "--help"), ("run folder", "cloister report runs/")),
        (
            ("attack", "--help"),
            ("scale: Annotated[float, attacks.Span(0.1, 10, log=True)]", "cloister attack cloister:evaluate_digits"),
        ),  # before: "Annotated."
    ],
)
def test_help_teaches_by_example(cloister: Command, command: tuple[str, ...], words: tuple[str, ...]) -> None:
    result = cloister(*command)
    assert result.code == 0
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m|[│╭╮╰╯─]", " ", result.out).split())
    for word in words:
        assert word in text
    assert "<bool>" not in text  # beside a flag, which takes nothing


def test_help_runs_on_to_the_end_of_a_terminals_line() -> None:
    """Before: each line of the source was broken again, a word or two on every second line."""
    assert flowing("One\ntwo.\n\n1. three\n    four\nfive.\n") == "One two.\n\n1. three\n    four five."
    long = [said.name or said.callback.__name__ for said in cli.app.registered_commands if "\n" in said.help.replace("\n\n", "")]
    assert long == []


# --- what it says when it cannot --------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.py"], ["no file nothing.py", "cloister:quickstart"]),
        (["scenario.py:other"], ["no scenario named 'other'", "scenario, fedavg, mnist"]),
        (["broken.py"], ["broken.py", "SyntaxError"]),
        (["notes.txt"], ["notes.txt", "not a Python file"]),
        (["scenario.py", "--set", "training.rate=1"], ["'rate'", "epochs, batch, lr, momentum"]),
        (["scenario.py", "--set", "training.lr=fast"], ["Training.lr", "'fast'"]),
        (["scenario.py", "--set", "training.lr"], ["PATH=VALUE"]),
        (["scenario.py", "--set", "protection.keys=session"], ["CFL", "gram(edge)", "keys='session'"]),
        (["scenario.py", "--device", "meta"], ["no device 'meta'", "--device cpu"]),
        (["scenario.py", "--device", "nonsense"], ["no device 'nonsense'"]),
        (["scenario.py", "--out", "nowhere", "--resume"], ["nowhere holds no run", "leave out --resume"]),
        (["scenario.py", "--resume"], ["no run folder runs/small-seed0"]),
        (["scenario.py", "--out", "notes.txt"], ["notes.txt"]),
        (["scenario.py:empty"], ["client 4 has no training examples"]),
        (["scenario.py", "--set", "partition.clients=5000"], ["too few for 5000 clients"]),
    ],
    ids=lambda value: " ".join(value) if value and " " not in value[0] else "",
)
def test_errors_are_one_line(cloister: Command, arguments: list[str], words: list[str]) -> None:
    Path("broken.py").write_text("scenario = Scenario(\n")
    Path("notes.txt").write_text("notes")
    before = set(Path().rglob("*"))
    result = cloister("run", *arguments)
    assert result.code == 1
    assert result.out == ""
    for word in words:
        assert word in result.complaint
    left = {p for p in Path().rglob("*") if "__pycache__" not in p.parts}
    assert left <= before  # bad input leaves no run folder that would be in the way of the next attempt


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is such a device here")
def test_a_device_that_is_not_there(cloister: Command) -> None:
    result = cloister("run", "scenario.py", "--device", "cuda")
    assert result.code == 1
    assert "no device 'cuda'" in result.complaint


@pytest.mark.parametrize("arguments", [["run"], ["run", "scenario.py", "--rounds", "0"], ["run", "a", "--nothing"], ["walk"]])
def test_wrong_usage_is_another_exit_code(cloister: Command, arguments: list[str]) -> None:
    result = cloister(*arguments)
    assert (result.code, result.out) == (2, "")


def test_missing_data_names_the_file_and_the_place(cloister: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # the network is not there
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    Path("data").mkdir()
    result = cloister("run", "scenario.py:mnist", "--data", "data", "--out", "m")
    assert result.code == 1
    assert "train-images-idx3-ubyte.gz is missing: put it into data/MNIST/raw" in result.complaint
    assert "--data" in result.complaint
    assert not Path("m").exists()


@pytest.mark.long
def test_an_error_before_the_first_round_has_no_bar_above_it(cloister: Command) -> None:
    Path("taken").write_text("mine")
    for arguments in (("--out", "taken"), ("--set", "partition.clients=6000")):
        result = cloister("run", "scenario.py", *arguments)
        assert result.code == 1
        assert result.err.startswith("cloister: ")
        assert result.err.count("\n") == 1


@pytest.mark.long
@pytest.mark.trains
def test_a_folder_that_holds_a_run_is_kept(cloister: Command) -> None:
    assert cloister("run", "scenario.py", "--out", "held", "--rounds", 2).code == 0
    before = summary("held")
    result = cloister("run", "scenario.py", "--out", "held")
    assert result.code == 1
    assert "held already holds a run" in result.complaint
    assert "--resume" in result.complaint
    assert summary("held") == before


@pytest.mark.long
@pytest.mark.trains
def test_a_run_is_resumed_with_the_seed_it_had(cloister: Command) -> None:
    assert cloister("run", "scenario.py", "--out", "held", "--rounds", 2).code == 0
    result = cloister("run", "scenario.py", "--out", "held", "--seed", 1, "--resume")
    assert result.code == 1
    assert "another seed" in result.complaint


@pytest.mark.trains
@pytest.mark.parametrize("file", ["state.json", "vectors.safetensors"])
@pytest.mark.parametrize("half", [False, True], ids=["flipped", "truncated"])
@pytest.mark.long
def test_a_damaged_checkpoint_says_what_to_delete_and_the_one_before_goes_on(cloister: Command, file: str, half: bool) -> None:
    assert cloister("run", "scenario.py", "--out", "d").code == 0
    whole = {p.name: p.read_bytes() for p in Path("d/models").iterdir()}
    newest = max(Path("d/checkpoints").iterdir())
    content = bytearray((newest / file).read_bytes())
    content[-20] ^= 1
    (newest / file).write_bytes(content[: len(content) // 2] if half else content)
    result = cloister("run", "scenario.py", "--out", "d", "--resume")
    assert result.code == 1
    assert f"checkpoint {newest} is damaged" in result.complaint
    assert "delete that folder" in result.complaint
    for inside in newest.iterdir():
        inside.unlink()
    newest.rmdir()
    assert cloister("run", "scenario.py", "--out", "d", "--resume").code == 0
    assert {p.name: p.read_bytes() for p in Path("d/models").iterdir()} == whole
    assert rounds_in("d") == 4


@pytest.mark.trains
@pytest.mark.parametrize("scenario", ["scenario.py", "scenario.py:fedavg"])
def test_a_learning_rate_that_explodes_is_one_line(cloister: Command, scenario: str) -> None:
    explode = ["run", scenario, "--set", "training.lr=1e30", "--set", "training.epochs=3", "--out", "x"]
    result = cloister(*explode)
    assert result.code == 1
    assert "no update of round 0 could be used" in result.complaint
    assert "training.lr" in result.complaint
    assert json.loads(Path("x/scenario.json").read_text())["training"]["lr"] == 1e30
    logs = {log.name: log.read_text() for log in Path("x").glob("*.jsonl")}
    assert "rejected" in logs.pop("faults.jsonl")
    names = ("account", "disclosure", "metrics", "pairs", "similarities", "splits")
    assert logs == dict.fromkeys([f"{name}.jsonl" for name in names], "")
    assert cloister(*explode, "--resume").code == 1


@pytest.mark.long
@pytest.mark.trains
def test_updates_that_are_huge_but_finite_end_in_no_traceback_either(cloister: Command) -> None:
    """Some of them can be used, so that it may end either way; CFL cannot compare them all."""
    explode = ["--set", "training.lr=1e9", "--set", "training.epochs=3", "--json"]
    assert cloister("run", "scenario.py", *explode, "--out", "x").code != 0

    def forbidden(word: str) -> None:
        raise ValueError(word)

    result = cloister("run", "scenario.py:fedavg", *explode, "--out", "y")
    if result.code != 1:
        json.loads(result.out, parse_constant=forbidden)  # a loss that is not finite is null: JSON has no word for it
    for line in Path("y/metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=forbidden)


def test_numbers_that_json_has_no_word_for_are_null(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin({"bound": float("inf")})
    folder.append("metrics.jsonl", [{"loss": {"3": float("nan"), "4": 0.5}, "list": [(1, float("-inf"))]}])
    assert folder.scenario() == {"bound": None}
    assert folder.read("metrics.jsonl") == [{"loss": {"3": None, "4": 0.5}, "list": [[1, None]]}]


@pytest.mark.parametrize("folder", ["nothing", "."])
def test_a_report_needs_a_run(cloister: Command, folder: str) -> None:
    result = cloister("report", folder)
    assert result.code == 1
    assert result.complaint


def test_a_folder_of_run_folders_is_told_from_one_with_the_newest_named(tmp_path: Path, cloister: Command) -> None:
    for age, name in enumerate(("new", "old", "oldest")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "summary.json").write_text("{}")
        os.utime(tmp_path / name / "summary.json", (1e9 - age, 1e9 - age))
    (tmp_path / "nothing in it").mkdir()
    said = cloister("report", str(tmp_path)).complaint
    assert "holds 3 folders of results: new, old, oldest; give one of them" in said
    assert said.endswith(f"for example {tmp_path / 'new'}")
    with pytest.raises(ValueError, match="holds 3 folders of results"):
        face.load(tmp_path)


@pytest.mark.long
def test_the_command_as_a_process() -> None:
    """Once for real: streams, exit codes and no traceback from the interpreter either."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "cloister.cli", "run", "no-such-file.py", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("cloister: there is no file no-such-file.py")


@pytest.mark.trains
def test_a_single_client_below_the_floor_is_one_line(cloister: Command) -> None:
    result = cloister("run", QUICKSTART, "--set", "partition.clients=1", "--set", "partition.groups=1", "--out", "alone")
    assert result.code == 1
    rules: Any = getattr(load(QUICKSTART).protection, "rules", None)
    assert f"below the floor of {rules.least}" in result.complaint
    assert "protection.floor" in result.complaint


@pytest.mark.long
@pytest.mark.trains
def test_a_single_client_without_a_floor_is_one_cluster(cloister: Command, tmp_path: Path) -> None:
    plain = tmp_path / "plain.py"
    plain.write_text(f"""
from dataclasses import replace
from cloister.protocol import Plain
from cloister.scenario_file import load
scenario = replace(load({QUICKSTART!r}), protection=Plain())
""")
    settings = ("partition.clients=1", "partition.groups=1", "rounds=3")
    result = cloister("run", str(plain), *(word for s in settings for word in ("--set", s)), "--out", "alone", "--json")
    assert result.code == 0
    assert json.loads(result.out)["clusters"] == [[0]]


@pytest.mark.parametrize(
    ("option", "said"), [("--rounds", "--set rounds="), ("--lr", "--set training.lr="), ("--batch-size", "--set training.batch=")]
)
def test_a_scenarios_field_given_as_an_option_is_told_how_it_is_set(option: str, said: str) -> None:
    found = CliRunner().invoke(cli.app, ["audit", "cloister:quickstart", option, "3"], env={"COLUMNS": "200"})
    assert found.exit_code == 2
    assert said in found.output
    assert "--set" not in CliRunner().invoke(cli.app, ["audit", "cloister:quickstart", "--nonsense", "3"]).output
    assert "--set" not in CliRunner().invoke(cli.app, ["keys", "ca", option, "3"]).output
