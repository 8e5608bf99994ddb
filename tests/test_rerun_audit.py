"""`cloister rerun` of an audit: it is played again from its own record, with attacks of one's own, and its rows are compared."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cloister.auditing.again import compared, in_words, play_again
from cloister.kept_source import written_again
from cloister.threat_models.audit.kept import is_empty

from .commanded import commanded

FILE = """
from cloister import Scenario, Training, algorithms, data, models, partitions, protections

scenario = Scenario(
    name="small",
    data=data.Digits(),
    partition=partitions.Iid(clients=5, samples=30),
    model=models.Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=algorithms.FedAvg(by_samples=False),
    protection=protections.Plain(),
    rounds=1,
)
"""
ATTACK = """
import numpy as np
from cloister.threats import Attack

def guess(evidence, client, records, rng):
    return np.ones(10)

attack = Attack("mine", guess, "labels")
"""


@pytest.mark.trains
@pytest.mark.long
def test_an_audit_is_played_again_from_its_own_record(tmp_path: Path) -> None:
    """A second expert had to be told the command by hand, and could not see whether an attack was the one of the report."""
    (tmp_path / "small.py").write_text(FILE)
    (tmp_path / "mine.py").write_text(ATTACK)
    words = ("audit", "small.py", "--attack", "mine.py", "--against", "client:0", "--seeds", "3", "--out", "a")
    done = commanded(tmp_path, *words, "--set", "training.lr=0.2")
    assert done.returncode in (0, 4), done.stderr
    kept = json.loads((tmp_path / "a/audit.json").read_text())["origin"]
    assert kept["of"] == {"file": "small.py", "source": FILE}
    assert kept["attacks"] == [{"file": "mine.py", "source": ATTACK}]
    assert (kept["settings"], kept["against"]) == (["training.lr=0.2"], ["client:0"])
    (tmp_path / "mine.py").write_text(ATTACK.replace("np.ones(10)", "np.arange(10.0)"))
    (tmp_path / "small.py").unlink()
    again = commanded(tmp_path, "rerun", "a", "--out", "a-again")
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("the same, bit for bit: ")
    assert (tmp_path / "a-again/mine.py").read_text() == ATTACK
    assert (tmp_path / "a-again/report.html").is_file()
    with pytest.raises(ValueError, match="already holds an audit"):
        play_again(tmp_path / "a", tmp_path / "a-again", None)

    shutil.copytree(tmp_path / "a", tmp_path / "other")
    found = json.loads((tmp_path / "a/audit.json").read_text())
    found["rows"][0]["leakage"] = None
    found["rows"][1]["unit"] = "others"
    found["versions"]["torch"] = "0"
    (tmp_path / "other/audit.json").write_text(json.dumps(found))
    told = compared(tmp_path / "a", tmp_path / "other")
    named = [f"{row['observer']}, {row['experiment']}" for row in found["rows"][:2]]
    assert (told.same, [*told.apart], told.rows, told.different) == (False, named, len(found["rows"]) - 2, ("versions",))
    assert in_words(told, tmp_path)[0].startswith(
        f"not the same: of {len(found['rows'])} rows 2 came out otherwise ({named[0]}; "
    )
    found.pop("origin")
    (tmp_path / "other/audit.json").write_text(json.dumps(found))
    with pytest.raises(
        ValueError, match=r"was played from Python, or by an earlier version: play it there again.*--against OTHER"
    ):
        play_again(tmp_path / "other", None, None)


@pytest.mark.trains
@pytest.mark.long
def test_an_audit_of_a_recorded_run_needs_that_run(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(FILE)
    assert commanded(tmp_path, "run", "small.py", "--record", "--out", "r").returncode == 0
    assert commanded(tmp_path, "audit", "r", "--against", "server", "--out", "a").returncode in (0, 4)
    again = commanded(tmp_path, "rerun", "a", "--out", "b")
    assert (again.returncode, again.stdout.split(":")[0]) == (0, "the same, bit for bit"), again.stderr
    shutil.move(tmp_path / "r", tmp_path / "elsewhere")
    lost = commanded(tmp_path, "rerun", "a", "--out", "c")
    assert lost.returncode == 1
    assert lost.stderr.startswith("cloister: the audit in a is of the run recorded in r, which is not there: put it there")


@pytest.mark.trains
@pytest.mark.long
def test_a_repetition_that_was_stopped_goes_on_by_the_same_command(tmp_path: Path) -> None:
    """It said --resume, which rerun has not."""
    (tmp_path / "small.py").write_text(FILE)
    assert commanded(tmp_path, "audit", "small.py", "--against", "client:0", "--out", "a").returncode in (0, 4)
    command = [sys.executable, "-m", "cloister", "rerun", "a", "--out", "b"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        until = time.monotonic() + 100
        while is_empty(tmp_path / "b/playing") and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=100)[1]
    assert process.returncode == 143
    assert "stopped; cloister rerun a --out b goes on" in said
    again = commanded(tmp_path, *command[3:])
    assert (again.returncode, again.stdout.split(":")[0]) == (0, "the same, bit for bit"), again.stderr


def test_two_files_of_one_name_are_both_written_again(tmp_path: Path) -> None:
    """The second took the place of the first, which was then read."""
    kept = [{"file": f"{folder}/small.py:one", "source": f"one = {folder!r}\n"} for folder in ("a", "b")]
    for _ in range(2):  # and where the repetition goes on, they are the same
        where = [written_again(one, tmp_path / "into", "it") for one in kept]
        assert where == [f"{tmp_path}/into/small.py:one", f"{tmp_path}/into/small_2.py:one"]
        assert [Path(one.partition(":")[0]).read_text() for one in where] == [one["source"] for one in kept]
    with pytest.raises(ValueError, match="it is of an earlier version, which kept no source"):
        written_again({"file": "small.py"}, tmp_path, "it")
