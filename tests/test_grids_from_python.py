"""Evaluations, comparisons and audits from Python: played at once, shown, read again, and never a process too many."""

import csv
import multiprocessing
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import cloister
from cloister import grids_from_python
from cloister.evaluating.texts import WORDS
from cloister.tables_out import columns_of, frame_of
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.chance import NOTHING

from . import comparison_sample, evaluation_sample

ROOT = Path(__file__).parents[1]
small = replace(evaluation_sample.evaluation, seeds=(0,), strengths=(3,), scenario=replace(evaluation_sample.scenario, rounds=2))
SPEND = replace(QUICK, name="small", seeds=1, victims=3, records=10, steps=5, shadows=4, clients=20)


def parses(page):
    """Whether every table that a notebook shows is whole, and nothing in it runs."""
    return page.count("<table>") == page.count("</table>") > 0 and "<script" not in page


@pytest.mark.trains
@pytest.mark.long
def test_an_evaluation_is_played_and_read_again(tmp_path):
    seen = []
    found = cloister.evaluate(replace(small, name="t <script>"), tmp_path / "e", quiet=True, callbacks=seen.append)
    assert multiprocessing.active_children() == []  # what Python made is played in this process
    assert len(seen) == len(found.cells) == 2 * (1 + 2)
    assert {row["status"] for row in found.cells} == {"done"}
    assert all(0 <= row["accuracy.late"] <= 1 for row in found.cells)
    table = list(csv.DictReader((tmp_path / "e" / "table.csv").open()))
    assert [(row["attack"], row["seed"], row["verdict"]) for row in table] == [
        (row["attack"] or "", str(row["seed"]), row["verdict"] or "") for row in found.cells
    ]
    attacked = [row for row in found.cells if row["attack"]]
    assert all(row["lost"] == pytest.approx(row["impact.late"]) for row in attacked)  # no run without the data here
    assert {row["lost_against"] for row in attacked} == {"the run without attack"}
    assert {row["verdict"] for row in attacked} <= {*WORDS.values(), NOTHING}  # so few rounds may teach nothing
    assert "| attack | strength | defence |" in (tmp_path / "e" / "table.md").read_text()
    assert "Broken is a defence where loyal clients lose more than 5 points" in " ".join(str(found).split())
    assert {row["defence"] for row in found.summary["found"]} == {"fedavg", "multikrum"}
    assert found.verdict == found.summary["verdict"]
    assert found.verdict.split(". ")[0] in str(found)
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
@pytest.mark.long
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
@pytest.mark.long
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


@pytest.mark.long
def test_an_object_that_no_file_names_has_no_workers_and_a_line_says_why(tmp_path):
    with pytest.raises(ValueError, match="load an evaluation from its file, and no name at the top level of a file holds this"):
        cloister.evaluate(replace(small, name="nameless"), tmp_path / "e", workers=2)
    with pytest.raises(ValueError, match=r"and test_grids_from_python.py cannot be loaded once more: .*relative import"):
        cloister.evaluate(small, tmp_path / "e", workers=2)
    with pytest.raises(ValueError, match="worker processes load what is attacked from its file, and no name at the top level"):
        cloister.attack(replace(small, name="nameless"), tmp_path / "e", workers=2)
    with pytest.raises(ValueError, match="worker processes load a comparison from its file, and no name at the top level"):
        cloister.compare(replace(comparison_sample.tiny, name="nameless"), tmp_path / "c", workers=2)
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
    done = subprocess.run(
        [sys.executable, "mine.py", *arguments], cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    return done, (folder / "begun").read_text().count("once") if (folder / "begun").exists() else 0


@pytest.mark.trains
@pytest.mark.slow
def test_workers_do_not_run_the_script_that_began_them(tmp_path):
    """The grid is in a file of its own; the script that plays it has no guard, and two workers."""
    (tmp_path / "grid.py").write_text(GRID.format(root=str(ROOT)).replace("begun", "read") + "\nevaluation = small\n")
    done, begun = script(tmp_path, "\nprint(len(cloister.evaluate('grid.py', 'out', workers=2, quiet=True).cells))\n")
    assert (done.returncode, done.stdout, begun) == (0, "6\n", 1), done.stderr
    assert (tmp_path / "read").read_text().count("once") == 3  # here, and by each worker


@pytest.mark.trains
@pytest.mark.slow
def test_an_object_is_played_by_workers_that_load_the_file_it_is_in(tmp_path):
    (tmp_path / "grid.py").write_text(GRID.format(root=str(ROOT)).replace("begun", "read") + "\nevaluation = small\n")
    text = "\nimport grid\nprint(len(cloister.evaluate(grid.evaluation, 'out', workers=2).cells))\n"
    done, begun = script(tmp_path, text)
    assert (done.returncode, done.stdout, begun) == (0, "6\n", 1), done.stderr
    assert (tmp_path / "read").read_text().count("once") == 4  # imported, loaded to look whether it is the same, and by each
    assert "grid.py:evaluation" in (tmp_path / "out" / "evaluation.json").read_text()
    guarded = '\nevaluation = small\nif __name__ == "__main__":\n    cloister.evaluate(evaluation, "other", workers=2)\n'
    (tmp_path / "begun").unlink()
    done, begun = script(tmp_path, guarded)
    assert (done.returncode, begun) == (0, 4), done.stderr


@pytest.mark.trains
@pytest.mark.slow
def test_comparisons_and_searches_of_objects_are_played_by_workers_too(tmp_path):
    more = "\nfrom tests.comparison_sample import tiny\ncomparison = replace(tiny, name='again')\nevaluation = small\n"
    (tmp_path / "grid.py").write_text(GRID.format(root=str(ROOT)).replace("begun", "read") + more)
    for call in ("compare(grid.comparison, 'c', ", "attack(grid.evaluation, 'a', against='fedavg', budget=6, attackers=2, "):
        (tmp_path / "read").unlink(missing_ok=True)
        done, _ = script(tmp_path, f"\nimport grid\ncloister.{call}workers=2, quiet=True)\n")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "read").read_text().count("once") > 2  # imported, loaded to look whether it is the same, by workers
    assert "grid.py:comparison" in (tmp_path / "c" / "comparison.json").read_text()
    assert "grid.py:evaluation" in (tmp_path / "a" / "search.json").read_text()


@pytest.mark.long
def test_a_script_that_plays_as_it_is_read_is_not_read_again(tmp_path):
    done, begun = script(tmp_path, "\nevaluation = small\ncloister.evaluate(evaluation, 'out', workers=2)\n")
    assert (done.returncode, begun) == (1, 1)
    assert 'mine.py plays as it is read: put the call under: if __name__ == "__main__"' in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_file_that_holds_another_value_each_time_is_not_played_by_workers(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "\nimport time\nevaluation = replace(small, scenario=replace(small.scenario, seed=time.monotonic_ns() % 10**9))\n"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "changing.py").write_text(GRID.format(root=str(ROOT)) + text.replace("seed=", "rounds=2, evaluate_every=1 + "))
    import changing

    with pytest.raises(ValueError, match=r"changing.py holds another evaluation than this one when it is loaded once more"):
        cloister.evaluate(changing.evaluation, tmp_path / "e", workers=2)


@pytest.mark.trains
@pytest.mark.long
def test_breakdown_and_attack_are_played_from_python_and_read_again(tmp_path):
    found = cloister.breakdown(
        small, tmp_path / "b", attacks=["minus", "backdoor"], against=["fedavg"], most=3, loss=0.001, seeds=(0,), workers=1,
        quiet=True,
    )  # fmt: skip
    assert [(row["attack"], row["seed"]) for row in found.searches] == [("minus", 0), ("backdoor", 0)]
    assert found.summary["bounds"] == {"loss": 0.001, "success": 0.1}
    assert "loyal clients lose more than 0.1 points of accuracy" in " ".join(str(found).split())
    assert parses(found._repr_html_())
    assert "higher is better" in found.plot().axes[0].get_xlabel()
    assert cloister.load(tmp_path / "b").breakdown == found
    assert {len(column) for column in columns_of(found.searches).values()} == {2}
    with pytest.raises(ValueError, match="no attack 'x'"):
        cloister.breakdown(small, tmp_path / "n", attacks=["x"], most=3, workers=1)
    with pytest.raises(ValueError, match="there is no defence 'mean field'"):
        cloister.breakdown(small, tmp_path / "n", against="mean field", most=3, workers=1)

    pytest.importorskip("optuna")

    def turned(own: cloister.attacks.Own):
        return -own.update

    common = {"attackers": (2, 3), "budget": 9, "held_out": (1,), "quiet": True}
    broken = cloister.attack(small, tmp_path / "a", against="fedavg", attacks=[turned], **common)
    assert {row["attack"] for row in broken.points} == {"turned"}
    assert "safe" not in broken.verdict
    assert broken.summary["runs"] <= 9
    assert parses(broken._repr_html_())
    assert "higher is worse" in broken.plot().axes[0].get_ylabel()
    assert cloister.load(tmp_path / "a") == broken
    assert "points that were played" in str(broken)
    scenario = cloister.attack(small.scenario, tmp_path / "s", against="Median()", attacks=["IPM"], **common)
    assert {row["attack"] for row in scenario.points} == {"IPM"}
    with pytest.raises(ValueError, match=r"^knows is own, .* or, for all that can be known, insider, not 'all'"):
        cloister.attack(small, tmp_path / "n", attacks=["IPM"], knows="all")
    with pytest.raises(ValueError, match=r"attacks are a list of names"):
        cloister.attack(small, tmp_path / "n", attacks="IPM")


@pytest.mark.slow
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
    (tmp_path / "mine.py").write_text(
        GRID.format(root=str(ROOT)).replace("begun", str(tmp_path / "begun")) + f"\nscenario = small.scenario\ncloister.{call}\n"
    )
    with pytest.raises(ValueError, match=r"mine.py, line 12: cloister\.\w+ is called while the file is read"):
        cloister.evaluate(str(tmp_path / "mine.py"))
