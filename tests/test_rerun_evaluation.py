"""`cloister rerun` of an evaluation: it is played again from its own record, and its cells are compared."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cloister
from cloister.evaluating.again import Repeated, compared, play_again

from .commanded import commanded
from .test_other_data import evaluation, table

AGAIN = """
from cloister import Evaluation, Scenario, Training, algorithms, attacks, data, models, protections
from cloister.attacks import Own
from beside import factor


def times(own: Own):
    return own.update * factor


scenario = Scenario(
    name="own",
    data=data.from_csv("own.csv", client="who", label="label"),
    model=models.Mlp(hidden=(4,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=algorithms.FedAvg(),
    protection=protections.Plain(),
    rounds=2,
)
evaluation = Evaluation(
    name="own", scenario=scenario, attacks={"times": times},
    defences={"fedavg": algorithms.FedAvg()}, strengths=(1,), seeds=(0, 1),
)
"""


@pytest.mark.trains
@pytest.mark.long
def test_an_evaluation_is_played_again_from_its_own_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file edited since, or gone: from the text that it had. Of a file beside it that was edited its cells are others."""
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "own.csv")
    (tmp_path / "mine.py").write_text(AGAIN)
    (tmp_path / "beside.py").write_text("factor = -0.5\n")

    def command(*words: object) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-m", "cloister", *map(str, words)], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    assert command("evaluate", "mine.py", "--seeds", 1, "--out", "e", "--workers", 1)[0] == 0
    (tmp_path / "mine.py").write_text(AGAIN.replace("factor\n", "factor * 9\n"))
    code, said = command("rerun", "e", "--out", "again")
    assert (code, "the same, bit for bit: 3 cells" in said) == (0, True), said
    assert (tmp_path / "again" / "mine.py").read_text() == AGAIN
    (tmp_path / "beside.py").write_text("factor = -0.75\n")
    code, said = command("rerun", "e", "--out", "other")
    assert (code, "of 3 cells 1 is not there, of other code, settings or seeds" in said) == (4, True), said
    with pytest.raises(ValueError, match="already holds an evaluation"):
        play_again(tmp_path / "e", tmp_path / "other", None)


@pytest.mark.long
@pytest.mark.trains
def test_a_repetition_that_was_stopped_goes_on_by_the_same_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every try began in a new folder, and what was played was lost."""
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "own.csv")
    (tmp_path / "mine.py").write_text(AGAIN)
    (tmp_path / "beside.py").write_text("factor = -0.5\n")
    assert commanded(tmp_path, "evaluate", "mine.py", "--seeds", 1, "--out", "e", "--workers", 1).returncode == 0
    shutil.copytree("e", "again")
    first, *others = Path("again/results.jsonl").read_text().splitlines(keepends=True)
    Path("again/results.jsonl").write_text(first)
    assert commanded(tmp_path, "rerun", "e", "--out", "again").returncode == 0
    assert Path("again/results.jsonl").read_text().splitlines(keepends=True)[0] == first
    assert len(Path("again/results.jsonl").read_text().splitlines()) == 1 + len(others)
    for edit in ({}, {"source": "another"}):  # one that is over, and one of another file
        about = json.loads(Path("again/evaluation.json").read_text())
        about["origin"] |= edit
        Path("again/evaluation.json").write_text(json.dumps(about))
        with pytest.raises(ValueError, match="already holds an evaluation"):
            play_again(tmp_path / "e", tmp_path / "again", None)


@pytest.mark.trains
@pytest.mark.long
def test_an_evaluation_of_python_is_compared_alone(tmp_path: Path) -> None:
    table(file := tmp_path / "own.csv")
    for name in ("a", "b"):
        cloister.evaluate(evaluation(file), tmp_path / name, quiet=True)
    with pytest.raises(ValueError, match="was played from Python"):
        play_again(tmp_path / "a", None, None)
    assert compared(tmp_path / "a", tmp_path / "b") == Repeated(True, (), (), 3, 0)
    table(file, 90)
    cloister.evaluate(evaluation(file), tmp_path / "c", quiet=True)
    moved = compared(tmp_path / "a", tmp_path / "c")
    assert (moved.same, moved.cells + len(moved.apart)) == (False, 3)
    assert moved.different == ("the data: their checksums differ",)


@pytest.mark.long
@pytest.mark.trains
def test_cells_of_a_search_beside_an_evaluation_are_none_of_it(tmp_path: Path) -> None:
    table(file := tmp_path / "own.csv")
    for name in ("a", "b"):
        cloister.evaluate(evaluation(file), tmp_path / name, quiet=True)
    line = json.loads((tmp_path / "a" / "results.jsonl").read_text().splitlines()[0])
    with open(tmp_path / "a" / "results.jsonl", "a") as results:
        results.write(json.dumps({**line, "key": "another"}) + "\n")
    assert compared(tmp_path / "a", tmp_path / "b").same
