"""Recorded runs on the command line: `run FILE --record`, and `audit FOLDER` of what it wrote."""

import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cloister import cli
from cloister.auditing.new_audit import BUDGETS
from cloister.fl.runs import experiment
from cloister.threat_models.audit.experiment import QUICK

SCENARIO = """
from dataclasses import replace
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked, Plain

masked = Scenario(
    name="small", data=Digits(), partition=LabelSwap(clients=6, groups=2, samples=40, shared_test=True), model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), similarities="every round", remember=False),
    protection=Masked(), rounds=4,
)
scenario = replace(masked, protection=Plain())
"""
RUN = ("run", "scenario.py:masked", "--out", "r", "--record", "--rounds", 3, "--seed", 5, "--set", "training.lr=0.05")
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cloister(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command, in a folder of its own that holds scenario.py: exit code, stdout, and the line that complains, if any."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.py").write_text(SCENARIO)

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cloister", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out
        said = [line for line in captured.err.splitlines() if line.startswith("cloister: ")]
        assert len(said) <= 1
        return int(caught.value.code or 0), captured.out, "".join(said)

    return command


def audited(folder: str) -> Any:
    return json.loads(Path(folder, "audit.json").read_text())


def damaged(file: str) -> None:
    """With one bit flipped."""
    content = bytearray(Path(file).read_bytes())
    content[len(content) // 2] ^= 1
    Path(file).write_bytes(content)


@pytest.mark.trains
@pytest.mark.long
def test_recording_adds_a_folder_and_changes_nothing_else(cloister: Command) -> None:
    assert cloister(*RUN)[0] == 0
    plain = ["s" if word == "r" else word for word in RUN if word != "--record"]
    assert cloister(*plain)[0] == 0
    assert {p.name for p in Path("r").iterdir()} - {p.name for p in Path("s").iterdir()} == {"recording"}
    for name in ("scenario.json", "disclosure.jsonl", "account.jsonl", "splits.jsonl", "similarities.jsonl"):
        assert Path("r", name).read_bytes() == Path("s", name).read_bytes()
    for model in Path("r/models").iterdir():
        assert model.read_bytes() == Path("s/models", model.name).read_bytes()
    everything = b"".join(p.read_bytes() for p in Path("r/recording").iterdir())
    assert str(Path.cwd()).encode() not in everything
    assert json.loads(Path("r/recording/origin.json").read_text()) == {
        "source": SCENARIO, "name": "masked", "settings": ["training.lr=0.05", "rounds=3", "seed=5"],
    }  # fmt: skip


@pytest.mark.trains
@pytest.mark.slow
def test_an_audit_of_the_run_is_that_of_its_scenario(cloister: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(QUICK, victims=3, records=20, steps=5, shadows=4)
    monkeypatch.setitem(BUDGETS, "quick", small)
    assert cloister(*RUN)[0] == 0
    Path("scenario.py").rename("moved.py")  # the folder is enough
    code, out, _ = cloister("audit", "r", "--seeds", 5, "--out", "a", "--json")
    live = cloister(
        "audit", "moved.py:masked", "--seeds", 5, "--set", "rounds=3", "--set", "training.lr=0.05", "--set", "seed=5",
        "--out", "b", "--json",
    )  # fmt: skip
    assert (code, json.loads(out)) == (live[0], audited("a"))
    assert (audited("a")["recorded"], audited("b")["recorded"]) == ([5], [])
    seen, begun = audited("a")["recorded_in"]["5"], json.loads(Path("r/origin.json").read_text())
    assert (seen["folder"], seen["data_sha256"]) == ("r", begun["data_sha256"])
    assert audited("a")["data_sha256"] == audited("b")["data_sha256"] == {"5": begun["data_sha256"]}
    for name in ("rows", "meters", "scenario", "seeds"):
        assert audited("a")[name] == audited("b")[name]
    assert len(audited("a")["rows"]) > 4
    code, out, _ = cloister("audit", "a", "--json")  # shows it again
    assert (code, json.loads(out)) == (live[0], audited("a"))
    assert not list(Path("r").rglob("__pycache__"))


@pytest.mark.trains
@pytest.mark.long
def test_what_an_audit_of_a_folder_refuses(cloister: Command) -> None:
    assert cloister(*RUN)[0] == 0

    def complaint(*arguments: object) -> str:
        before = set(Path().rglob("*"))
        code, out, said = cloister("audit", *arguments)
        assert (code, out) == (1, "")
        assert set(Path().rglob("*")) == before
        return said

    assert "--set would make it another scenario" in complaint("r", "--set", "rounds=2")
    assert "of seed 5; name it among --seeds (seeds= in Python)" in complaint("r", "--seeds", "0,1")
    for name in ("frames.safetensors", "seen.safetensors", "truth.safetensors", "recording.json", "origin.json", "SHA256SUMS"):
        shutil.copytree("r", f"damaged {name}")
        damaged(f"damaged {name}/recording/{name}")
        assert "is damaged" in complaint(f"damaged {name}")
    shutil.copytree("r", "unsigned")
    Path("unsigned/recording/SHA256SUMS").unlink()
    assert "holds no recording; take a whole copy" in complaint("unsigned")
    for content in (None, "", "[]", "[" * 100_000):
        if content is None:
            Path("unsigned/scenario.json").unlink()
        else:
            Path("unsigned/scenario.json").write_text(content)
        shutil.copy("r/recording/SHA256SUMS", "unsigned/recording/SHA256SUMS")
        assert "unsigned/scenario.json is missing, or damaged; take a whole copy" in complaint("unsigned")
    shutil.copytree("r", "nested")
    Path("nested/recording/origin.json").write_text("[" * 100_000)
    sums = [line for line in Path("r/recording/SHA256SUMS").read_text().splitlines() if "origin.json" not in line]
    digest = hashlib.sha256(b"[" * 100_000).hexdigest()
    Path("nested/recording/SHA256SUMS").write_text("\n".join([*sums, f"{digest}  origin.json", ""]))
    assert "nests too deep" in complaint("nested")
    shutil.copytree("r", "mixed")
    begun = json.loads(Path("mixed/origin.json").read_text())
    Path("mixed/origin.json").write_text(json.dumps({**begun, "data_sha256": "0" * 64}))
    assert "is of other data than the run in mixed" in complaint("mixed")
    shutil.copytree("r", "longer")
    begun = json.loads(Path("longer/scenario.json").read_text())
    Path("longer/scenario.json").write_text(json.dumps({**begun, "rounds": 9}))
    assert "another rounds" in complaint("longer")
    shutil.rmtree("longer/recording")
    assert "cloister run FILE --record" in complaint("longer")


def test_a_folder_with_neither(cloister: Command) -> None:
    Path("empty").mkdir()
    code, out, said = cloister("audit", "empty")
    assert (code, out) == (1, "")
    assert "empty holds no audit and no recorded run" in said
    assert "cloister run FILE --record" in said


def test_a_recording_is_not_written_over(cloister: Command) -> None:
    Path("r/recording").mkdir(parents=True)
    code, _, said = cloister(*RUN)
    assert (code, "r already holds a recording" in said) == (1, True)
    assert not Path("r/scenario.json").exists()


def test_a_resumed_run_is_not_recorded(cloister: Command) -> None:
    code, _, said = cloister(*RUN, "--resume")
    assert code == 1
    assert "recorded from its first round on: leave out --resume, or --record" in said
    assert not Path("r").exists()


@pytest.mark.long
@pytest.mark.trains
def test_a_recorded_run_that_was_stopped_goes_on_unrecorded(cloister: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    step = experiment._play

    def stopped(simulation: Any, *arguments: Any) -> Any:
        if simulation.state.round == 1:
            raise KeyboardInterrupt
        return step(simulation, *arguments)

    monkeypatch.setattr(experiment, "_play", stopped)
    code, _, said = cloister(*RUN)
    assert code == 130
    assert "--out r --resume in the place of --record goes on" in said
    monkeypatch.setattr(experiment, "_play", step)
    assert cloister(*("--resume" if word == "--record" else word for word in RUN))[0] == 0
    assert not Path("r/recording").exists()
    assert "--record" in cloister("audit", "r")[2]


@pytest.mark.trains
def test_a_source_that_makes_something_else_by_now_is_refused(cloister: Command) -> None:
    """Of a file that depends on more than itself."""
    source = SCENARIO.replace("rounds=4", "rounds=len(__import__('pathlib').Path('rounds').read_text())")
    Path("scenario.py").write_text(source)
    Path("rounds").write_text("12")
    assert cloister("run", "scenario.py", "--out", "r", "--record")[0] == 0
    Path("rounds").write_text("123")
    assert "not of the scenario that was recorded: another rounds" in cloister("audit", "r")[2]
    Path("rounds").unlink()
    assert "line 15: FileNotFoundError" in cloister("audit", "r")[2]
