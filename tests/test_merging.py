"""Folders of evaluations put together: the table is that of one evaluation, and what does not fit is refused in words."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cloister.cli import app
from cloister.evaluating.data import read_grid
from cloister.evaluating.merging import merge
from cloister.evaluating.report import render
from cloister.evaluating.verdict import verdict
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.threat_models.evaluation import Bounds
from cloister.threat_models.membership import Fixed

from . import evaluation_sample as sample
from .test_evaluate import play, timeless
from .test_verdicts import made_up

SMALL = replace(sample.evaluation, attacks={"minus": sample.minus}, strengths=(3,), absent=True)


@pytest.mark.trains
@pytest.mark.long
def test_folders_of_other_seeds_and_attacks_are_the_folder_of_one_evaluation(tmp_path: Path) -> None:
    whole = replace(SMALL, attacks={"minus": sample.minus, "backdoor": sample.backdoor})
    play(whole, tmp_path / "whole")
    play(replace(whole, seeds=(0,)), tmp_path / "a")
    play(replace(whole, seeds=(1,), attacks=SMALL.attacks), tmp_path / "b")
    play(replace(whole, seeds=(1,), attacks={"backdoor": sample.backdoor}, defences={"fedavg": FedAvg()}), tmp_path / "c")
    merge([tmp_path / "a", tmp_path / "b", tmp_path / "c"], tmp_path / "ab")
    one, other = read_grid(tmp_path / "whole"), read_grid(tmp_path / "ab")
    assert other.expected == one.expected - 1  # of one defence, a backdoor with one seed was played by nobody
    for attack, defence in (("minus", "fedavg"), ("backdoor", "fedavg"), ("minus", "multikrum")):
        assert other.attacked(attack, defence, 3.0, "Plain") == one.attacked(attack, defence, 3.0, "Plain")
    assert [row for row in timeless(tmp_path / "ab") if row["attack"] is None] == timeless(tmp_path / "whole")[:4]
    merge([tmp_path / "ab", tmp_path / "whole"], tmp_path / "again")
    assert play(whole, tmp_path / "again", resume=True) == []  # with the attack-free runs, nothing is left to play
    assert timeless(tmp_path / "again") == timeless(tmp_path / "whole")
    assert verdict(read_grid(tmp_path / "again")) == verdict(one)


def changed(path: Path, change: Callable[[dict[str, Any]], None], line: bool = False) -> None:
    """A folder with something else in it."""
    file = path / ("results.jsonl" if line else "evaluation.json")
    parts = [json.loads(text) for text in (file.read_text().splitlines() if line else [file.read_text()])]
    change(parts[-1])
    file.write_text("".join(json.dumps(part) + "\n" for part in parts))


TABLE: Mapping[tuple[str, str], list[float]] = {("a", "IPM"): [0.9, 0.8]}


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (lambda about: about["scenario"].update(rounds=9), False, "has another scenario than .*: rounds is 9, not 4"),
        (lambda about: about["bounds"].update(loss=0.5), False, "has another bounds than .*: loss is 0.5, not 0.05"),
        (lambda about: about["defences"].update(a={"type": "B"}), False, "means something else by 'a', one of defences"),
        (lambda about: about["attacks"].update(IPM={"3": {"type": "B"}}), False, "means something else by 'IPM', one of attacks"),
        (lambda row: row["accuracy"].update(late=0.1), True, r"has another result for one cell \(IPM, a, seed 1\)"),
    ],
    ids=["scenario", "bounds", "defence", "attack", "result"],
)
def test_what_does_not_fit_is_refused_in_words(tmp_path: Path, change: Any, line: bool, words: str) -> None:
    made_up(tmp_path / "a", TABLE)
    made_up(tmp_path / "b", TABLE)
    changed(tmp_path / "b", change, line)
    with pytest.raises(ValueError, match=words):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_attackers_who_are_other_clients_have_no_run_without_the_data_of_both(tmp_path: Path) -> None:
    """One of the two runs was kept for both attacks, by the order of the folders."""
    made_up(tmp_path / "a", {("a", "IPM"): [0.9, 0.9]}, absent=0.9)
    other = lambda count: replace(sample.minus(count), members=Fixed((0, 1, 2)))  # noqa: E731
    made_up(tmp_path / "b", {("a", "ALIE"): [0.5, 0.5]}, absent=0.5, changes={"attacks": {"ALIE": other}})
    for first, second in ("ab", "ba"):
        merge([tmp_path / first, tmp_path / second], tmp_path / (first + second))
        grid = read_grid(tmp_path / (first + second))
        assert not grid.absent("a", 3.0, "Plain")
        assert grid.unplayed == 0
        assert "a breaks (loses 40.0 points of accuracy to ALIE, from 90.0 to 50.0 %)" in verdict(grid)
        assert grid.about["absent"] == {"3": False}


def test_attackers_are_other_clients_by_the_runs_themselves_where_no_description_says_so(tmp_path: Path) -> None:
    """Before: of attacks that know the run, which are described in words, one absent run was kept by the order of the folders."""
    for name, attack, late, members in (("a", "IPM", 0.9, [5, 6, 7]), ("b", "ALIE", 0.5, [0, 1, 2])):
        made_up(tmp_path / name, {("a", attack): [late, late]}, absent=late)
        changed(tmp_path / name, lambda about: about.update(attacks=dict.fromkeys(about["attacks"], "in words")))
        path = tmp_path / name / "results.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        lines = [line | ({"members": members} if line["attack"] else {}) for line in lines]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for first, second in ("ab", "ba"):
        merge([tmp_path / first, tmp_path / second], tmp_path / (first + second))
        assert read_grid(tmp_path / (first + second)).about["absent"] == {"3": False}


def test_what_is_known_and_doubted_of_any_folder_is_in_the_one_of_all(tmp_path: Path) -> None:
    made_up(tmp_path / "a", TABLE)
    made_up(tmp_path / "b", TABLE)
    changed(tmp_path / "b", lambda about: about.update(known_breaks={"a": "Known words."}, doubts=["some doubt"]))
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    grid = read_grid(tmp_path / "out")
    assert (grid.about["known_breaks"], grid.about["doubts"]) == ({"a": "Known words."}, ["some doubt"])
    assert "Some doubt." in verdict(grid)


def test_the_same_twice_is_the_same_once_and_other_costs_are_no_other_result(tmp_path: Path) -> None:
    made_up(tmp_path / "a", TABLE)
    made_up(tmp_path / "b", TABLE)
    changed(tmp_path / "b", lambda row: row["cost"].update(seconds=99.0), line=True)
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert render(read_grid(tmp_path / "out")).count("2 of 2") == render(read_grid(tmp_path / "a")).count("2 of 2")
    assert verdict(read_grid(tmp_path / "out")) == verdict(read_grid(tmp_path / "a"))


@pytest.mark.long
def test_the_command_puts_folders_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made_up(Path("a"), TABLE)
    made_up(Path("b"), TABLE, changes={"seeds": (5, 6), "bounds": Bounds()}, seeds_from=5)
    done = CliRunner().invoke(app, ["report", "a", "b", "--out", "c"])
    assert done.exit_code == 0, done.output
    assert read_grid(Path("c")).about["seeds"] == [0, 1, 5, 6]
    assert Path("c/report.html").is_file()
    for words, said in (
        (["report", "a", "b"], "several folders are put together in one"),
        (["report", "a", "--out", "d"], "--out is for several folders"),
        (["report", "a", "b", "--out", "c"], "c already holds an evaluation; choose another --out"),
    ):
        assert said in str(CliRunner().invoke(app, words).exception)
    assert CliRunner().invoke(app, ["report", "a"]).exit_code == 0


def searched(path: Path, attack: str, breaks: dict[int, int | None], **more: Any) -> Path:
    """The folder with what a breakdown search of one attack found, by seed."""
    found = {"steps": {"most": 3}, "bounds": {"loss": 0.05, "success": 0.1}, "strength": "attackers", **more}
    seeds = [{"seed": k, "breaks": b, "holds": 3 if b is None else None, "single": True} for k, b in breaks.items()]
    results = [{"of": f"{attack} a", "attack": attack, "defence": "a", "seeds": seeds}]
    (path / "breakdown.json").write_text(json.dumps(found | {"results": results}))
    return path


def test_what_breakdown_searches_found_is_put_together_over_the_seeds_of_all(tmp_path: Path) -> None:
    """Before, searches of one attack with other seeds were refused."""
    folders = []
    for name, attack, breaks in (("a", "IPM", {1: 3, 0: 1}), ("b", "IPM", {5: None, 0: 1}), ("c", "ALIE", {0: 2}), ("d", "", {})):
        made_up(
            tmp_path / name, TABLE, **({"changes": {"seeds": (5, 6), "bounds": Bounds()}, "seeds_from": 5} if name == "b" else {})
        )
        folders.append(searched(tmp_path / name, attack, breaks) if attack else tmp_path / name)
    merge(folders, tmp_path / "out")
    found = json.loads((tmp_path / "out" / "breakdown.json").read_text())
    assert [one["attack"] for one in found["results"]] == ["IPM", "ALIE"]
    assert [seed["seed"] for seed in found["results"][0]["seeds"]] == [0, 1, 5]
    assert found["results"][0]["median"]["median"] == 3
    assert found["steps"] == {"most": 3}
    for breaks, more, words in (
        (
            {5: 3},
            {"steps": {"most": 4}},
            r"b has breakdown searches of other steps than .*a: search again .* the same --least, --most",
        ),
        ({1: 2}, {}, r"b found something else in a search \(IPM on a, seed 1\) than .*a: was it another version"),
    ):
        searched(tmp_path / "b", "IPM", breaks, **more)
        with pytest.raises(ValueError, match=words):
            merge(folders[:2], tmp_path / "no")
        assert not (tmp_path / "no").exists()


def test_what_is_said_beside_searches_is_of_all_folders(tmp_path: Path) -> None:
    """Before, of the first alone: what another folder's seeds took of the accuracy without attack was not said."""
    beside = (
        {"taken": {"0": [3.0]}, "built_for": 4, "at_work": {"3": 2}},
        {"taken": {"5": [2.0]}, "built_for": 2, "at_work": {"3": 3}, "in_vain": ["in 1 of 1 runs no attacker was at work"]},
    )
    for name, of, seeds in (("a", beside[0], (0, 1)), ("b", beside[1], (5, 6))):
        changes = {"changes": {"seeds": seeds, "bounds": Bounds()}, "seeds_from": seeds[0]} if name == "b" else {}
        made_up(tmp_path / name, TABLE, **changes)
        path = searched(tmp_path / name, "IPM", {seeds[0]: 3}) / "breakdown.json"
        found = json.loads(path.read_text())
        path.write_text(json.dumps(found | {"results": [one | of for one in found["results"]]}))
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    (one,) = json.loads((tmp_path / "out" / "breakdown.json").read_text())["results"]
    assert one["taken"] == {"0": [3.0], "5": [2.0]}
    assert (one["built_for"], one["at_work"], one["in_vain"]) == (2, {"3": 3}, beside[1]["in_vain"])


@pytest.mark.parametrize(("file", "words"), [("comparison.json", "cloister compare FILE"), ("search.json", "a larger --budget")])
def test_what_is_not_put_together_is_refused_with_what_to_do_instead(tmp_path: Path, file: str, words: str) -> None:
    """Before: "does not say what was evaluated; run the evaluation again"."""
    (tmp_path / file).write_text("{}")
    with pytest.raises(ValueError, match=f"and evaluations alone are put together; .*{words}"):
        merge([tmp_path, tmp_path], tmp_path / "out")


def test_two_runs_without_out_are_told_what_plays_runs_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).mkdir()
        Path(name, "scenario.json").write_text("{}")
    said = str(CliRunner().invoke(app, ["report", "a", "b"]).exception)
    assert said.startswith("a holds a run, and evaluations alone are put together; ")
    assert "cloister compare" in said
