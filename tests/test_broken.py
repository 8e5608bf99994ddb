"""One definition of a broken defence: what evaluations, breakdown searches and searches for a break say of the same numbers."""

import csv
from pathlib import Path

import pytest

from cloister.evaluating.breaking import breakdown_asked
from cloister.evaluating.cells import details
from cloister.evaluating.report import render, write_evaluation_report
from cloister.evaluating.searches import broken_by
from cloister.evaluating.tables import bounds_words, breakdown_lines, grid_table
from cloister.evaluating.texts import cell_rows, markdown
from cloister.threat_models.breakdown import Steps
from cloister.threat_models.broken import Bounds, breaks, broken_words, gained, lost
from cloister.threat_models.evaluation import ABSENT
from cloister.threat_models.search.play import Sought, Try, harm

from . import evaluation_sample as sample
from .judged import finding
from .test_search_plan import line
from .test_verdict_sentences import edited
from .test_verdicts import made_up


@pytest.mark.parametrize(("absent", "loss", "broken"), [(0.62, 0.02, False), (0.99, 0.3, True), (None, 0.3, True)])
def test_all_that_judge_say_the_same_of_the_same_run(tmp_path: Path, absent: float | None, loss: float, broken: bool) -> None:
    """.9 without attack, .6 under it: lost is .3, or what is below the run without the attackers' data, where that is lower."""
    grid = made_up(tmp_path, {("a", "IPM"): [0.6] * 3}, clean=0.9, absent=absent)
    judged = finding(grid, "a", 3.0, "Plain")
    assert judged.harm is not None
    assert (judged.harm.lost.mean, judged.word) == (pytest.approx(loss), "breaks" if broken else "holds")
    rows = [row for row in cell_rows(grid) if row["attack"] == "IPM"]
    assert [row["lost"] for row in rows] == [pytest.approx(loss)] * 3
    assert {row["verdict"] for row in rows} == {"breaks" if broken else "holds"} == {row["finding"] for row in rows}
    (detail,) = [row for row in details(grid) if row["attack"] == "IPM"]
    assert detail["values"][0] == f"{100 * loss:.1f}"
    (cell,) = (row for row in grid.rows("IPM", "a", 3.0, "Plain") if row["seed"] == 0)
    beside = next((row for row in grid.rows(ABSENT, "a", 3.0, "Plain") if row["seed"] == 0), None)
    assert broken_by(cell, beside, grid.bounds) == ("accuracy" if broken else "")

    one = Try({"attack": "IPM"}, 3, 0)
    without = (
        None if absent is None else line(one.absent, lambda *_: 0.0) | {"accuracy": absent, "of": {"0": absent, "1": absent}}
    )
    found = harm(line(one, lambda *_: 0.3), line(one.clean, lambda *_: 0.0), without, Sought())
    assert (found.loss, found.severity > 1) == (pytest.approx(loss), broken)


def test_the_definition_stands_with_its_bounds_wherever_the_word_does(tmp_path: Path) -> None:
    success = {("a", "BadNets"): [0.5, 0.4, 0.6]}
    changes = {"bounds": Bounds(loss=0.07, success=0.3)}
    grid = made_up(tmp_path, {("a", "BadNets"): [0.9] * 3}, success=success, changes=changes)
    said = broken_words(grid.bounds)
    for words in (
        "more than 7 points of accuracy",
        "last quarter of its evaluations",
        "the lower of the runs without attack and",
    ):
        assert words in said
    assert "a backdoor succeeds over 30 points more often in its last poisoned round than on the models that the run" in said
    assert said in bounds_words(grid)
    assert said in render(grid).replace("&#39;", "'")
    assert said in markdown(grid)
    assert said in breakdown_lines({"bounds": {"loss": 0.07, "success": 0.3}})[0]
    assert "backdoor: success in its last poisoned round" in str(grid_table(grid, "Plain").title)
    write_evaluation_report(tmp_path)
    table = list(csv.DictReader((tmp_path / "table.csv").open()))
    attacked = [row for row in table if row["attack"] == "BadNets"]
    assert [float(row["gained"]) for row in attacked] == pytest.approx([0.49, 0.39, 0.59])
    assert {row["verdict"] for row in attacked} == {"lets a backdoor through"}
    assert {(row["loss_bound"], row["success_bound"]) for row in attacked} == {("0.07", "0.3")}
    assert {row["lost"] for row in table if row["attack"] in ("", ABSENT)} == {""}


def test_bounds_are_the_evaluations_and_can_be_changed() -> None:
    names = dict.fromkeys(("attack", "defence", "protection"), ())
    own = breakdown_asked(sample.evaluation, names, {"most": 4}, {"loss": None, "success": None})
    assert (own.steps, own.bounds) == (Steps(most=4), sample.evaluation.bounds)
    assert breakdown_asked(sample.evaluation, names, {"most": 4}, {"loss": 0.2}).bounds == Bounds(loss=0.2)
    with pytest.raises(ValueError, match="success is above 0 and at most 1, not 3"):
        Bounds(success=3)


def test_lost_and_gained_by_hand() -> None:
    assert lost(0.6, 0.9, None) == pytest.approx(0.3)
    assert lost(0.6, 0.9, 0.7) == pytest.approx(0.1)
    assert lost(0.6, 0.9, 0.95) == pytest.approx(0.3)
    assert gained(None) is None
    assert gained({"last_poisoned": 0.5, "clean_mean": 0.1}) == pytest.approx(0.4)
    assert breaks(0.06, 0.2, Bounds()) == "accuracy and backdoor"
    assert breaks(0.05, 0.1, Bounds()) == ""
    assert breaks(0.04, float("nan"), Bounds()) == ""


@pytest.mark.parametrize(("refused", "verdict"), [(90, "attack refused"), (89, "holds"), (0, "holds")])
def test_a_run_all_of_whose_attackers_updates_were_refused_is_not_said_to_hold(
    tmp_path: Path, refused: int, verdict: str
) -> None:
    """Before: "holds", of 3 attackers in 30 rounds that sent what is not finite."""
    made_up(tmp_path, {("a", "nan"): [0.9] * 3})
    grid = edited(tmp_path, lambda row: row | ({"rejected": {"loyal": 0, "members": refused}} if row["attack"] == "nan" else {}))
    assert {row["verdict"] for row in cell_rows(grid) if row["attack"] == "nan"} == {verdict}
