"""What a mean hides: a model ruined in the last round, rows of a table that rest on some of the seeds, one seed's gain."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cloister.evaluating.data import described_in
from cloister.evaluating.heat import heat_maps
from cloister.evaluating.judging import NOBODY, findings
from cloister.evaluating.report import render
from cloister.evaluating.searches import broken_by
from cloister.evaluating.summaries import defence_rows, markdown
from cloister.evaluating.tables import breakdown_words, grid_json, grid_table
from cloister.evaluating.texts import cell_rows
from cloister.evaluating.verdict import verdict
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.robust.averages import Mean
from cloister.fl.robust.coordinates import Median
from cloister.grids.spread import spread
from cloister.threat_models.broken import Bounds, lost_at_end, ruined
from cloister.threat_models.evaluation import ABSENT

from .judged import finding
from .test_verdict_sentences import edited
from .test_verdicts import made_up

Rows = dict[str, Any]


def ends_at(row: Rows, final: float, worst: float | None = None) -> Rows:
    """The line of a run under attack that was as it was late, and ends so."""
    if row["attack"] in (None, ABSENT):
        return row
    of = {"final": final} | ({} if worst is None else {"worst": worst})
    return row | {"accuracy": row["accuracy"] | of, "clean": {"late": 0.9, "final": 0.9, "worst": 0.88}}


@pytest.mark.parametrize("worst", [None, 0.3])
def test_a_model_that_is_ruined_in_the_last_round_is_no_model_that_holds(tmp_path: Path, worst: float | None) -> None:
    """Before: "a holds against every attack played", of a late mean that ten evaluations make of one that is ruined."""
    made_up(tmp_path, {("a", "X"): [0.86] * 3, ("b", "X"): [0.89] * 3})
    grid = edited(tmp_path, lambda row: ends_at(row, 0.3, worst) if row["defence"] == "a" else ends_at(row, 0.89))
    words = verdict(grid)
    assert words.startswith("With as many attackers as it is built for, b holds against every attack played.")
    assert "a breaks at the end (in the last evaluation 60.0 points to X, from 90.0 to 30.0 %, 86.0 % late in the run)." in words
    assert "single clients" not in words
    assert finding(grid, "a", 3.0, "Plain").word == "breaks at the end"
    assert {row["verdict"] for row in cell_rows(grid) if row["defence"] == "a" and row["attack"] == "X"} == {"breaks at the end"}
    told = {one["defence"]: one["at_the_end"] for one in grid_json(grid)["found"]}
    assert (told["a"]["broke"], told["b"]) == (3, {})
    assert "by accuracy at the end in 3 of 3 seeds; 60.0 points are lost in the last evaluation, to X" in render(grid)
    ends = {row["defence"]: (row["attack_at_end"], row["lost_at_end"]) for row in defence_rows(grid)}
    assert ends == {"a": ("X", pytest.approx(0.6)), "b": (None, None)}
    (heat,) = heat_maps(grid)
    assert [cell.broke for name, cells in heat.rows for cell in cells if name == "X"] == [True, False]


def test_what_breaks_late_and_ends_much_worse_says_both(tmp_path: Path) -> None:
    made_up(tmp_path, {("a", "X"): [0.8] * 3})
    words = verdict(edited(tmp_path, lambda row: ends_at(row, 0.2 if row["seed"] else 0.8)))
    late = "a breaks (loses 10.0 points of accuracy to X, from 90.0 to 80.0 %; "
    assert late + "in the last evaluation 50.0 points in the mean to X, from 90.0 to 40.0 %, 80.0 % late in the run," in words
    assert "above the bound in 2 of 3 seeds)" in words


def test_one_evaluation_by_chance_below_the_others_is_no_break() -> None:
    """Neither where a run lies little below what it has late, nor where another of the runs that it is held against is as low."""
    assert ruined(lost_at_end(0.3, [0.9, 0.9]), 0.86, 0.3, 0.05)
    assert not ruined(lost_at_end(0.83, [0.9, 0.9]), 0.87, 0.83, 0.05)
    assert not ruined(lost_at_end(0.8, [0.9, 0.83, float("nan")]), 0.87, 0.8, 0.05)
    assert not ruined(lost_at_end(0.3, [float("nan")]), 0.86, 0.3, 0.05)


def test_a_search_counts_what_is_ruined_at_the_end() -> None:
    row: Rows = {"clean": {"late": 0.9, "final": 0.9}, "accuracy": {"late": 0.87, "final": 0.3}, "success": None}
    absent: Rows = {"status": "done", "accuracy": {"late": 0.9, "final": 0.33}}
    assert broken_by(row, None, Bounds()) == "accuracy at the end"
    assert not broken_by(row, absent, Bounds())


def test_single_clients_are_named_where_it_is_they_alone(tmp_path: Path) -> None:
    bounds = {"bounds": Bounds(loss=0.3)}
    made_up(tmp_path, {("a", "X"): [0.7] * 3}, changes=bounds)
    assert "single clients" not in verdict(edited(tmp_path, lambda row: ends_at(row, 0.7, 0.6)))
    made_up(tmp_path / "b", {("a", "X"): [0.85] * 3}, changes=bounds)
    assert "single clients" in verdict(edited(tmp_path / "b", lambda row: ends_at(row, 0.85, 0.6)))


def test_rows_of_a_defence_within_and_beyond_are_each_of_their_own_seeds(tmp_path: Path) -> None:
    """Before: 64.0 % "under it" in both rows, of which one has lost nothing of its 90."""
    made_up(tmp_path, {("a", "X"): [0.2, 0.3, 0.9, 0.9, 0.9]}, success={("a", "X"): [0.9, 0.8, 0.02, 0.02, 0.02]})

    def more(row: Rows) -> Rows:
        row = row | {"accuracy": {"late": 0.5}} if row["attack"] == ABSENT and row["seed"] == 0 else row
        return row | {"attackers": 4} if row["attack"] == "X" and row["seed"] in (0, 1) else row

    grid = edited(tmp_path, more)
    within, beyond = defence_rows(grid)
    assert [within["attacked"], within["absent"], within["success"]] == pytest.approx([0.9, 0.9, 0.02])
    assert [beyond["attacked"], beyond["absent"], beyond["success"]] == pytest.approx([0.25, 0.7, 0.85])
    for row in (within, beyond):
        assert row["held_against"] - row["lost"] == pytest.approx(row["attacked"])
    assert [one["attacked"]["mean"] for one in grid_json(grid)["found"]] == pytest.approx([0.9, 0.25])
    table = grid_table(grid, "Plain")
    assert [[*column.cells] for column in table.columns[1:5]] == [
        ["3 (3 in a round)", "3 (4 in a round)"],
        ["90.0 / 90.0", "90.0 / 70.0"],
        ["X", "X"],
        ["90.0 ±0.0", "25.0 (20.0 and 30.0)"],
    ]
    assert [line.split(" | ")[9] for line in markdown(grid).splitlines() if line.startswith("| a ")] == [
        "90.0 ±0.0",
        "25.0 (20.0 and 30.0)",
    ]


def test_a_row_in_which_nobody_was_at_work_says_so_and_holds_nothing(tmp_path: Path) -> None:
    """Before: two rows of the terminal's table with "3", of which one "holds"."""
    made_up(tmp_path, {("a", "never"): [0.9] * 3, ("a", "X"): [0.2] * 3}, limits={"a": 0})
    grid = edited(tmp_path, lambda row: row | {"attackers": 0} if row["attack"] == "never" else row)
    assert [one.word for one in findings(grid, "Plain")] == [NOBODY, "breaks"]
    table = grid_table(grid, "Plain")
    assert [*table.columns[1].cells] == ["3 (0 in a round)", "3 (3 in a round)"]
    assert "holds" not in verdict(grid)


def test_a_mean_of_what_backdoors_gain_is_said_to_be_one(tmp_path: Path) -> None:
    """Before: "backdoors gain at most 2.2 points of success", of which 9.0 on one seed."""
    attacked = {("a", "B"): [0.9] * 5, ("b", "B"): [0.88] * 5}
    rates = {("a", "B"): [0.01, 0.02, 0.1, 0.02, 0.01], ("b", "B"): [0.01] * 5}
    words = verdict(made_up(tmp_path, attacked, success=rates))
    assert (
        "a loses least of these: nothing, and backdoors gain at most 2.2 points of success in the mean of 5 seeds, 9.0 on one."
        in words
    )
    rates[("a", "B")] = [0.003, 0.002, 0.001, 0.0, 0.001]
    assert "and backdoors gain at most 0.0 points of success." in verdict(made_up(tmp_path / "less", attacked, success=rates))
    rates[("a", "B")] = [0.02] * 5
    assert "and backdoors gain at most 1.0 points of success." in verdict(made_up(tmp_path / "b", attacked, success=rates))


def test_a_mean_lies_where_its_values_do() -> None:
    """Before: a picture of an evaluation ended in an error, since three equal seeds had a mean below the least of them."""
    for k in range(1, 1000):
        seen = spread([k / 1000] * 3)
        assert seen is not None
        assert seen.least <= seen.mean <= seen.most


def test_what_is_hidden_by_missing_data_is_told_of_the_seeds_on_which_it_is() -> None:
    """Before: a mean over seeds, one of which breaks there, beside the median of what breaks them all."""
    tried = [[4.0, False], [6.0, True], [9.0, True]]
    seeds: list[Rows] = [
        {"seed": 0, "breaks": 6.0, "holds": 4.0, "reason": "", "tried": tried, "by": "accuracy"},
        *(
            {"seed": s, "breaks": None, "holds": 9.0, "reason": "", "tried": [[k, False] for k, _ in tried], "by": ""}
            for s in (1, 2)
        ),
    ]
    median = {"median": None, "upper": None, "low": 6.0, "high": None, "coverage": 0.75}
    one: Mapping[str, Any] = {"median": median, "single": True, "seeds": seeds, "taken": {"0": [6.0, 9.0]}}
    assert not breakdown_words(one, 9)[2]
    words = "on 2 of 3 seeds more than the bound is taken of the accuracy without attack at 4 to 6; no more"
    assert breakdown_words({**one, "taken": {"0": [4.0, 6.0], "2": [6.0]}}, 9)[2].startswith(words)


def test_a_cell_without_a_result_belongs_where_others_of_its_attack_do(tmp_path: Path) -> None:
    """Before: the seed that failed was "undecided", with the attack that nobody made, and the others of it "breaks"."""
    made_up(tmp_path, {("a", "never"): [0.9] * 3, ("a", "X"): [0.2] * 3}, limits={"a": 0})

    def edit(row: Rows) -> Rows:
        if (row["attack"], row["seed"]) == ("X", 0):
            return row | {"status": "failed", "reason": "no", "attackers": None}
        return row | {"attackers": 0} if row["attack"] == "never" else row

    assert {row["finding"] for row in cell_rows(edited(tmp_path, edit)) if row["attack"] == "X"} == {"breaks"}


def test_a_defence_that_no_attack_reached_is_not_said_to_hold(tmp_path: Path) -> None:
    """Before: it held, in the headline and in both tables, and more seeds were asked for to tell two nothings apart."""
    made_up(tmp_path, {("a", "X"): [0.9] * 3, ("b", "X"): [0.9, 0.89, 0.9]})
    grid = edited(tmp_path, lambda row: row | {"same_models": row["attack"] == "X" and row["defence"] == "a"})
    words = verdict(grid)
    assert words.startswith("With as many attackers as it is built for, b holds against every attack played.")
    nothing = "held against nothing, as no attack changed any loyal client's model."
    assert f" A {nothing} 3 attackers, within what they are built for: b holds; a {nothing}" in words
    assert [row["finding"] for row in defence_rows(grid)] == ["no model changed", "holds"]
    assert {(row["verdict"], row["finding"]) for row in cell_rows(grid) if row["attack"] == "X"} == {
        ("no model changed", "no model changed"),
        ("holds", "holds"),
    }
    grid = edited(tmp_path, lambda row: row | {"same_models": row["attack"] == "X"})
    assert verdict(grid).startswith(f"With as many attackers as they are built for, a and b {nothing}")
    assert "needed" not in verdict(grid)


def test_a_defence_that_refused_all_that_attackers_sent_is_not_said_to_hold(tmp_path: Path) -> None:
    """Before: "holds against every attack played", where each run of the table said "attack refused"."""
    made_up(tmp_path, {("a", "nan"): [0.9] * 3, ("a", "still"): [0.9] * 3})
    all_of = {"rejected": {"loyal": 0, "members": 90}}
    grid = edited(tmp_path, lambda row: row | {"nan": all_of, "still": {"same_models": True}}.get(str(row["attack"]), {}))
    nothing = "a held against nothing, as what attackers sent was refused, or changed no model."
    assert verdict(grid).startswith(f"With as many attackers as it is built for, {nothing}")
    assert [row["finding"] for row in defence_rows(grid)] == ["attack refused"]
    grid = edited(tmp_path, lambda row: row | (all_of if row["attack"] == "nan" else {"same_models": False}))
    assert [row["finding"] for row in defence_rows(grid)] == ["holds"]


def test_a_defence_without_a_result_is_not_said_to_have_met_other_numbers(tmp_path: Path) -> None:
    """Before: "no number of attackers was played that a defence says it is built for", where its runs ended in errors."""
    made_up(tmp_path, {("a", "X"): [0.9] * 3, ("b", "X"): [0.9] * 3}, limits={"a": 3, "b": 0})
    error = {"status": "failed", "reason": "RuntimeError: no"}
    grid = edited(tmp_path, lambda row: row | (error if (row["attack"], row["defence"]) == ("X", "a") else {}))
    assert verdict(grid).startswith("No defence has a result with as many attackers as it says it is built for.")


def test_attacks_that_changed_no_model_are_named_beside_one_that_did(tmp_path: Path) -> None:
    """Before: one other attack, however weak, and the note that nothing was held against was gone."""
    made_up(tmp_path, {(d, a): [0.9] * 3 for d in "ab" for a in ("X", "none")})
    words = verdict(edited(tmp_path, lambda row: row | {"same_models": row["attack"] == "none"}))
    assert words.startswith("With as many attackers as they are built for, a and b hold against every attack played.")
    alone = "Held against the other attacks alone, as no loyal client's model was changed by"
    assert f"{alone} none (a with 3 attackers, b with 3 attackers)." in words


@pytest.mark.long
def test_attacks_that_leave_the_mean_unharmed_are_said_to_tell_little(tmp_path: Path) -> None:
    """Before: a rule held "against every attack played", all of which FedAvg held against, too."""
    words = (
        "No attack of this grid takes more than the bound from mean, which defends nothing (1.0 points in the mean at most, to"
        " X): that others hold against these tells little of them. Take more attackers, other or stronger attacks, or what"
        " `cloister attack` finds."
    )

    def said(name: str, mean: list[float], median: list[float], plain: Any = FedAvg()) -> str:
        defences = {"mean": plain, "median": RobustFedAvg(rule=Median())}
        attacked = {("mean", "X"): mean, ("median", "X"): median}
        return verdict(made_up(tmp_path / name, attacked, limits={"mean": 0, "median": 3}, changes={"defences": defences}))

    assert words in said("both", [0.89] * 3, [0.9] * 3)
    assert words in said("rule", [0.89] * 3, [0.9] * 3, RobustFedAvg(rule=Mean()))
    for name, mean, median in (
        ("broken", [0.2] * 3, [0.9] * 3),
        ("open", [0.8, 0.9, 0.89], [0.9] * 3),
        ("weak", [0.89] * 3, [0.2] * 3),
    ):
        assert "No attack of this grid" not in said(name, mean, median)


def test_of_a_mean_without_a_result_at_some_strength_it_is_not_said_that_nothing_takes_more_than_the_bound(
    tmp_path: Path,
) -> None:
    defences = {"mean": FedAvg(), "median": RobustFedAvg(rule=Median())}
    by = {(name, "X", float(s)): [0.89] * 3 for name in defences for s in (2, 3)}
    made_up(tmp_path, {}, strengths=(2, 3), by_strength=by, limits={"mean": 0, "median": 3}, changes={"defences": defences})
    assert "No attack of this grid" in verdict(edited(tmp_path, lambda row: row))
    error = {"status": "failed", "reason": "RuntimeError: no"}
    words = verdict(edited(tmp_path, lambda row: row | (error if (row["defence"], row["strength"]) == ("mean", 3) else {})))
    assert "No attack of this grid" not in words


def test_a_folder_that_is_not_there_is_said_not_to_be(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no folder .*nothere"):
        described_in(tmp_path / "nothere")


def test_what_was_played_on_fewer_seeds_says_so_of_backdoors_and_of_ends_too(tmp_path: Path) -> None:
    """Before: points of one seed among those that are means of three."""
    made_up(tmp_path, {("a", "B"): [0.89] * 3, ("b", "X"): [0.89] * 3, ("b", "Y"): [0.89] * 3}, success={("a", "B"): [0.9] * 3})
    failed = {"status": "failed", "reason": "no", "success": None}

    def edit(row: Rows) -> Rows:
        if row["attack"] in ("B", "X") and row["seed"]:
            return row | failed
        return ends_at(row, 0.3) if row["attack"] == "X" else row

    words = verdict(edited(tmp_path, edit))
    assert "in its last poisoned round, played on 1 of 3 seeds)" in words
    assert "in the last evaluation 60.0 points to X, played on 1 of 3 seeds, from 90.0 to 30.0 %" in words
