"""Evaluations, comparisons and audits from Python: played at once, shown, read again, and never a process too many."""

import multiprocessing
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import cloister
from cloister import grids_from_python
from cloister.tables_out import frame_of
from cloister.threat_models.audit.experiment import QUICK

from . import comparison_sample, evaluation_sample

ROOT = Path(__file__).parents[1]
small = replace(evaluation_sample.evaluation, seeds=(0,), strengths=(3,), scenario=replace(evaluation_sample.scenario, rounds=2))
SPEND = replace(QUICK, name="small", seeds=1, victims=3, rounds=2, records=10, steps=5, shadows=4, clients=20)


def parses(page):
    """Whether every table that a notebook shows is whole, and nothing in it runs."""
    return page.count("<table>") == page.count("</table>") > 0 and "<script" not in page


@pytest.mark.trains
def test_an_evaluation_is_played_and_read_again(tmp_path):
    seen = []
    found = cloister.evaluate(replace(small, name="t <script>"), tmp_path / "e", quiet=True, callbacks=seen.append)
    assert multiprocessing.active_children() == []  # what Python made is played in this process
    assert len(seen) == len(found.cells) == 2 * (1 + 2)
    assert {row["status"] for row in found.cells} == {"done"}
    assert all(0 <= row["accuracy.late"] <= 1 for row in found.cells)
    assert {row["defence"] for row in found.summary["found"]} == {"fedavg", "multikrum"}
    assert found.verdict == found.summary["verdict"] in str(found)
    assert parses(found._repr_html_())
    (axes,) = found.plot().axes
    assert axes.get_xlabel() == "attackers"
    assert "higher is better" in axes.get_ylabel()
    with pytest.raises(ValueError, match="no protection 'x'; there are: Plain"):
        found.plot("x")
    again = cloister.load(tmp_path / "e")
    assert type(again) is type(found)
    assert again.cells == found.cells
    assert "cloister.evaluate(evaluation, seeds=(0,))" in found.report.read_text()
    with pytest.raises(ValueError, match="already holds an evaluation"):
        cloister.evaluate(small, tmp_path / "e", quiet=True)
    assert len(cloister.evaluate(replace(small, name="t <script>"), tmp_path / "e", resume=True, quiet=True).cells) == 6


@pytest.mark.trains
def test_a_comparison_is_played_and_read_again(tmp_path):
    found = cloister.compare(comparison_sample.tiny, tmp_path / "c", seeds=(4,), quiet=True)
    assert {(row["method"], row["seed"]) for row in found.cells} == {("LOCAL", 4), ("CFL", 4)}
    assert found.summary["verdict"].startswith("One seed tells nothing of chance")
    assert parses(found._repr_html_())
    assert "LOCAL" in str(found)
    (axes,) = found.plot().axes
    assert "higher is better" in axes.get_xlabel()
    with pytest.raises(ValueError, match="no 'x' under 'Plain'"):
        found.plot("x")
    assert cloister.load(tmp_path / "c").cells == found.cells


@pytest.mark.trains
def test_an_audit_is_played_and_read_again(tmp_path, monkeypatch):
    monkeypatch.setitem(grids_from_python.BUDGETS, "quick", SPEND)
    found = cloister.audit(evaluation_sample.scenario, tmp_path / "a", seeds=(0,), quiet=True)
    assert found.summary["budget"] == "small"
    assert found.summary["refuted"] == []
    assert found.rows
    assert all({"leakage", "observer", "experiment", "low", "high"} - {"leakage"} <= row.keys() for row in found.rows)
    assert parses(found._repr_html_())
    assert cloister.load(tmp_path / "a").claims == found.claims
    if any(row["valid"] for row in found.rows):
        assert "lower is better" in found.plot().axes[0].get_xlabel()
    with pytest.raises(ValueError, match="already holds an audit"):
        cloister.audit(evaluation_sample.scenario, tmp_path / "a", quiet=True)
    with pytest.raises(ValueError, match="budget is 'quick' or 'full', not 'dear'"):
        cloister.audit(evaluation_sample.scenario, budget="dear")


def test_frames_need_pandas_and_say_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="data frames need pandas: pip install 'cloister\\[pandas\\]'"):
        frame_of([{"a": 1}])


def test_an_object_is_played_here_and_workers_want_its_file(tmp_path):
    with pytest.raises(ValueError, match=r'worker processes load an evaluation from its file: give "FILE.py:NAME"'):
        cloister.evaluate(small, tmp_path / "e", workers=2)
    with pytest.raises(ValueError, match="worker processes load a comparison"):
        cloister.compare(comparison_sample.tiny, tmp_path / "c", workers=2)
    assert not list(tmp_path.iterdir())


GRID = """
import sys
import cloister
sys.path.insert(0, {root!r})
from tests.evaluation_sample import evaluation, scenario
from dataclasses import replace
small = replace(evaluation, seeds=(0,), strengths=(3,), scenario=replace(scenario, rounds=1))
with open("begun", "a") as file:
    file.write("once\\n")
"""


def script(folder, text, *arguments):
    """Played by `python mine.py` in a folder of its own."""
    (folder / "mine.py").write_text(GRID.format(root=str(ROOT)) + text)
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "mine.py", *arguments], cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    assert time.monotonic() - begun < 240
    return done, (folder / "begun").read_text().count("once") if (folder / "begun").exists() else 0


@pytest.mark.trains
def test_workers_do_not_run_the_script_that_began_them(tmp_path):
    """The grid is in a file of its own; the script that plays it has no guard, and two workers."""
    (tmp_path / "grid.py").write_text(GRID.format(root=str(ROOT)).replace("begun", "read") + "\nevaluation = small\n")
    done, begun = script(tmp_path, "\nprint(len(cloister.evaluate('grid.py', 'out', workers=2, quiet=True).cells))\n")
    assert (done.returncode, done.stdout, begun) == (0, "6\n", 1), done.stderr
    assert (tmp_path / "read").read_text().count("once") == 3  # here, and by each worker


def test_a_file_that_plays_itself_is_told_to_guard_it(tmp_path):
    """Reading it for what it holds would play it without end."""
    done, begun = script(tmp_path, "\nevaluation = small\ncloister.evaluate('mine.py', 'out', workers=2, quiet=True)\n")
    assert done.returncode == 1
    assert begun == 2  # as the script, and once more for what it holds
    assert "cloister.evaluate is called while the file is read for what it holds; put it under: if __name__" in done.stderr
    assert "mine.py, line 12" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("call", ["run(small.scenario)", "iterate(small.scenario)", "compare(None)", "audit(small.scenario)"])
def test_nothing_is_played_while_a_file_is_read(call, tmp_path):
    (tmp_path / "mine.py").write_text(GRID.format(root=str(ROOT)) + f"\nscenario = small.scenario\ncloister.{call}\n")
    with pytest.raises(ValueError, match=r"mine.py, line 12: cloister\.\w+ is called while the file is read"):
        cloister.evaluate(str(tmp_path / "mine.py"))
