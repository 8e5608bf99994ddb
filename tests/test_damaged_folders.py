"""Folders of results that have lost something: what is missing is said in a line, and what to do; nothing is shown as whole."""

import json
import re
import shutil
import warnings
from pathlib import Path

import pytest

import cloister
from cloister.fl.runs.feasibility import Doubt
from cloister.fl.runs.origin import ORIGIN
from cloister.fl.runs.results_folder import cut_off
from cloister.fl.runs.run_folder import LOGS, RunFolder
from cloister.reporting.report import write_report

from .commanded import commanded
from .run_folder_sample import Sample, write_sample

RUN = Sample(clients=3, groups=1, rounds=3, splits=0)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return write_sample(tmp_path / "run", RUN)


def torn(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-20])
    return path


def test_a_run_that_is_over_and_has_lost_rounds_is_refused_by_load_report_and_rerun(whole: Path) -> None:
    log = whole / "metrics.jsonl"
    recorded = {"file": "s.py", "source": "", "name": "scenario", "settings": []}
    (whole / ORIGIN).write_text(json.dumps(recorded))
    torn(log)
    words = f"{log} has 2 whole lines, one a round, and the run was over after 3 rounds: the folder is damaged; take a whole copy"
    with pytest.raises(ValueError, match="has 2 whole lines"):
        cloister.load(whole)
    for command in ("report", "rerun"):
        said = commanded(whole.parent, command, str(whole))
        assert (said.returncode, said.stderr.startswith(f"cloister: {words}")) == (1, True), said.stderr
    log.unlink()
    with pytest.raises(ValueError, match=r"metrics.jsonl is missing, and the run was over after 3 rounds"):
        cloister.load(whole)


def test_a_whole_run_is_loaded_without_a_word(whole: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(cloister.load(whole).rounds) == 3


def test_a_run_that_was_killed_in_a_line_is_loaded_as_far_as_it_is_whole_and_says_so(tmp_path: Path) -> None:
    folder = write_sample(tmp_path / "cut", Sample(clients=3, groups=1, rounds=3, splits=0, interrupted=True))
    words = f"the last line of {folder / 'metrics.jsonl'} is cut off and left out; 3 whole rounds are read; --resume"
    with pytest.warns(Doubt, match="is cut off and left out; 3 whole rounds are read; --resume"):
        assert len(cloister.load(folder).rounds) == 3
    assert f"cloister: note: {words}" in commanded(tmp_path, "report", str(folder)).stderr
    (folder / "metrics.jsonl").unlink()
    with pytest.warns(Doubt, match=r"metrics.jsonl is missing, so the run has no rounds to read"):
        assert cloister.load(folder).rounds == []


def test_another_log_that_was_cut_after_the_run_was_over_is_said(whole: Path) -> None:
    torn(whole / "disclosure.jsonl")
    with pytest.warns(Doubt) as said:
        cloister.load(whole)
    assert ["disclosure.jsonl is cut off" in str(one.message) for one in said] == [True, False]
    assert "where" in str(said[1].message)  # and how many answers are missing


@pytest.mark.parametrize(("command", "kind"), [("evaluate", "evaluation"), ("compare", "comparison"), ("attack", "search")])
def test_a_grid_without_its_results_is_damaged_and_is_not_called_another_folder(tmp_path: Path, command: str, kind: str) -> None:
    (tmp_path / f"{kind}.json").write_text("{}")
    with pytest.raises(ValueError, match=rf"results.jsonl is missing, which has what the {kind} found"):
        cloister.load(tmp_path)
    assert "results.jsonl is missing" in commanded(tmp_path, "report", str(tmp_path)).stderr


def test_results_that_do_not_say_what_they_are_of(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text("")
    with pytest.raises(ValueError, match="does not say what was evaluated"):
        cloister.load(tmp_path)


@pytest.mark.parametrize(
    ("row", "kind", "command"),
    [
        ({"key": "a", "method": "FedAvg"}, "comparison", "compare"),
        ({"key": "a", "numbers": {}}, "search", "attack"),
        ({"key": "a", "defence": "Median"}, "evaluation", "evaluate"),
    ],
)
def test_a_grid_that_lacks_what_describes_it_is_told_by_its_lines(
    tmp_path: Path, row: dict[str, object], kind: str, command: str
) -> None:
    """Before: "does not say what was evaluated; run the evaluation again", of a comparison."""
    (tmp_path / "results.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(ValueError, match=rf"{kind}.json is missing, .*: cloister {command} FILE --out .* --resume"):
        cloister.load(tmp_path)


def test_an_audit_that_is_damaged_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    for text in ('{"name": "x", ', '{"name": "x"}', "[]"):
        (tmp_path / "audit.json").write_text(text)
        with pytest.raises(ValueError, match="is damaged"):
            cloister.load(tmp_path)


def test_a_log_that_is_shorter_than_its_checkpoint_says_is_not_gone_on_with(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for log in LOGS:
        (tmp_path / log).write_text("12345678\n")
    lengths = folder.lengths()
    torn_log = tmp_path / "faults.jsonl"
    torn_log.write_text("1234")
    (tmp_path / "metrics.jsonl").write_text("12345678\nmore")
    with pytest.raises(ValueError, match=r"faults.jsonl is shorter than at its newest checkpoint, so the run cannot go on"):
        folder.cut(lengths)
    assert (tmp_path / "metrics.jsonl").read_text() == "12345678\nmore"  # nothing was cut
    torn_log.unlink()
    with pytest.raises(ValueError, match=r"faults.jsonl is missing"):
        folder.cut(lengths)
    shutil.copyfile(tmp_path / "splits.jsonl", torn_log)
    folder.cut(lengths)
    assert folder.lengths() == lengths


def test_a_line_of_results_that_was_cut_off_is_said(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    assert cut_off(tmp_path) == []
    results.write_text('{"key": "a"}\n')
    assert cut_off(tmp_path) == []
    results.write_text('{"key": "a"}\n{"key": "b"')
    assert cut_off(tmp_path)[0].startswith(f"the last line of {results} is cut off, and its cell counts as not played; --resume")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"clusters": 7}, "clusters is 7, where a list is to be"),
        ({"clusters": [[0, 1], 2]}, "clusters[1] is 2, where a list is to be"),
        ({"groups": [1]}, "groups is [1], where an object is to be"),
        ({"disclosed": "word"}, "disclosed is 'word', where an object is to be"),
        ({"disclosed": {"server": 3}}, "disclosed.server is 3, where a list is to be"),
        ({"rejected": 7}, "rejected is 7, where a list is to be"),
        ({"accuracy_mean": "word"}, "accuracy_mean is 'word', where a number is to be"),
        ({"rounds": True}, "rounds is True, where a number is to be"),
        ({"names": ["north"]}, "names is ['north'], where an object is to be"),
        ({"clusters": [[0, "x"]]}, "clusters[0][1] is 'x', where a number is to be"),
        ({"groups": {"0": [1]}}, "groups.0 is [1], where a number is to be"),
        ({"names": {"0": 3}}, "names.0 is 3, where a text is to be"),
        ({"disclosed": {"server": [{"words": 3}]}}, "disclosed.server[0].words is 3, where a text is to be"),
        ({"disclosed": {"server": [7]}}, "disclosed.server[0] is 7, where an object is to be"),
        ({"rejected": [{"round": 1, "client": 0, "reason": 5}]}, "rejected[0].reason is 5, where a text is to be"),
        ({"metrics": {"AUC": {"mean": "high"}}}, "metrics.AUC.mean is 'high', where a number is to be"),
        ({"metrics": {"AUC": 0.5}}, "metrics.AUC is 0.5, where an object is to be"),
        ({"privacy": {"record": {"not_covered": "x"}}}, "privacy.record.not_covered is 'x', where a list is to be"),
        ({"account": {"span": {"largest": []}}}, "account.span.largest is [], where a number is to be"),
        ({"under_attack": {"by": [1]}}, "under_attack.by[0] is 1, where a text is to be"),
        ({"unmoved": {"rounds": 1, "reason": 2}}, "unmoved.reason is 2, where a text is to be"),
        ({"yardsticks": {"gains": [1]}}, "yardsticks.gains is [1], where an object is to be"),
    ],
)
def test_a_summary_with_damaged_words_is_refused_by_load_and_report(whole: Path, damage: dict[str, object], words: str) -> None:
    """Before: a traceback of whichever line read it first."""
    path = whole / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    said = f"{path} is damaged: {words}; delete it and go on with the run (--resume, in Python resume=True), which writes it anew"
    for read in (cloister.load, write_report):
        with pytest.raises(ValueError, match=re.escape(said)):
            read(whole)


@pytest.mark.parametrize("text", ["{", "[]", "3"])
def test_a_summary_that_is_no_object_is_refused_by_load_and_report(whole: Path, text: str) -> None:
    (whole / "summary.json").write_text(text)
    for read in (cloister.load, write_report):
        with pytest.raises(ValueError, match=r"summary\.json (is not JSON|should hold a JSON object)"):
            read(whole)


def test_what_a_summary_does_not_know_and_what_a_later_version_says_are_no_damage(whole: Path) -> None:
    path = whole / "summary.json"
    summary = json.loads(path.read_text()) | {"accuracy_worst": None, "ari": "nan", "later": [1, "x"], "scored": None}
    summary["disclosed"]["server"][0] |= {"later": [2], "bytes": None}
    path.write_text(json.dumps(summary))
    assert cloister.load(whole).summary["later"] == [1, "x"]
