"""What an evaluation's report says, on tables that are made up: in each of them the words before would have flattered."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from cloister.evaluating.data import Grid, read_grid
from cloister.evaluating.judging import State, findings, harm_of, seeds_needed
from cloister.evaluating.panels import backdoor_courses, defences, late_words
from cloister.evaluating.report import render
from cloister.evaluating.summaries import markdown
from cloister.evaluating.tables import clean_of, clean_words, grid_json, grid_table
from cloister.evaluating.verdict import verdict
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.data.partition import Dirichlet, Iid
from cloister.fl.robust.averages import Mean, NormBound
from cloister.fl.robust.coordinates import Bulyan, Median, TrimmedMean
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.mixing import ARC, NNM, Bucketing, Mixed
from cloister.fl.robust.weiszfeld import RFA, GeometricMedian
from cloister.fl.runs.metrics import late_count
from cloister.grids.spread import spread
from cloister.threat_models.attack_metrics import course
from cloister.threat_models.design_limit import built_for
from cloister.threat_models.evaluation import ABSENT, Bounds, Cell, Evaluation, all_cells, description, key_of, resolved
from cloister.threat_models.evaluation_folder import EvaluationFolder
from cloister.threat_models.trial import played

from . import evaluation_sample as sample
from .judged import finding

Values = Sequence[float]


def made_up(
    path: Path,
    attacked: Mapping[tuple[str, str], Values],
    *,
    success: Mapping[tuple[str, str], Values] | None = None,
    strengths: tuple[float, ...] = (3,),
    by_strength: Mapping[tuple[str, str, float], Values] | None = None,
    limits: Mapping[str, int] | None = None,
    clean: float = 0.9,
    absent: float | None = 0.9,
    not_done: Mapping[str, str] | None = None,
    changes: Mapping[str, Any] | None = None,
    seeds_from: int = 0,
    lost: int = 0,
) -> Grid:
    """A grid whose numbers are given: accuracy late in the run, and a backdoor's success when last poisoned, by defence and
    attack, a value a seed. A backdoor's success without it is .01. limits: what defences are built for, 3 where nothing is said.
    """
    names = sorted({d for d, _ in attacked} | {d for d, _, _ in by_strength or {}})
    of = sorted({a for _, a in attacked} | {a for _, a, _ in by_strength or {}})
    seeds = max(len(v) for v in [*attacked.values(), *(by_strength or {}).values()])
    known: dict[str, Any] = {
        "defences": {name: FedAvg(by_samples=k == 0) for k, name in enumerate(names)},
        "attacks": dict.fromkeys(of, sample.minus),
        "strengths": strengths,
        "seeds": tuple(range(seeds)),
        "absent": absent is not None,
        "limits": dict.fromkeys(names, 3) if limits is None else limits,
    }
    evaluation: Evaluation = replace(sample.evaluation, **(known | dict(changes or {})))
    folder = EvaluationFolder(path)
    folder.open(description(evaluation), resume=False)
    for cell in all_cells(evaluation):
        at = by_strength or {}
        values = attacked.get((cell.defence, cell.attack or "")) or at.get((cell.defence, cell.attack or "", cell.strength or 0))
        accuracy = {None: clean, ABSENT: absent}.get(cell.attack, values[cell.seed - seeds_from] if values else clean)
        row = {"key": key_of(evaluation, cell), "status": "done", "reason": ""} | {n: getattr(cell, n) for n in cell.__slots__}
        if cell.attack in (not_done or {}):
            folder.append(row | {"status": "failed", "reason": (not_done or {})[str(cell.attack)]})
            continue
        rates = (success or {}).get((cell.defence, cell.attack or ""))
        numbers = {
            "accuracy": {"late": accuracy, "final": accuracy, "best_of_last_50": 0.93},
            "clean": {"late": clean},
            "attackers": 0 if cell.attack in (None, ABSENT) else int(cell.strength or 0),
            "built_for": None,
            "success": {
                "last_poisoned": rates[cell.seed - seeds_from], "last_poisoned_round": 19, "peak": 0.99, "mean": 0.3, "worst":
                0.4, "clean_mean": 0.01, "measured_after": [19, 20, 21], "durability": 2,
            } if rates else None,
            "learned": {}, "cost": {"seconds": 1.0}, "rounds": [*range(30)],
            "lost": {"rounds": lost, "reason": "too few"} if lost and cell.attack == ABSENT else None,
        }  # fmt: skip
        folder.append(row | numbers)
    return read_grid(path)


# --- sentences --------------------------------------------------------------------------------------------------------


def test_a_defence_that_lets_a_backdoor_through_is_not_praised_for_its_accuracy(tmp_path: Path) -> None:
    """Before: "Multi-Krum keeps the most accuracy ... a tie with FedAvg" above success of 82.8 %."""
    grid = made_up(
        tmp_path,
        {("Multi-Krum", "BadNets"): [0.9] * 3, ("median", "BadNets"): [0.88, 0.881, 0.879]},
        success={("Multi-Krum", "BadNets"): [0.83, 0.82, 0.84], ("median", "BadNets"): [0.02, 0.01, 0.02]},
    )
    words = verdict(grid)
    assert words.startswith("With as many attackers as it is built for, median holds against every attack played.")
    assert (
        "Multi-Krum lets a backdoor through (BadNets succeeds 82.0 points more often than without it, in its last poisoned round)"
        in words
    )
    assert "Multi-Krum hold" not in words
    assert finding(grid, "Multi-Krum", 3.0, "Plain").word == "lets a backdoor through"


def test_no_defence_is_best_of_those_that_all_break(tmp_path: Path) -> None:
    """Before: "Multi-Krum keeps the most accuracy against its worst attack: 20.7 %"."""
    words = verdict(made_up(tmp_path, {("Multi-Krum", "IPM"): [0.2, 0.21, 0.2], ("median", "IPM"): [0.1, 0.11, 0.1]}))
    assert words.startswith("No defence holds against every attack played with as many attackers as it is built for.")
    assert "Multi-Krum and median break (median loses most: 79.7 points of accuracy to IPM, from 90.0 to 10.3 %)" in words
    assert "most accuracy" not in words


@pytest.mark.long
def test_what_breaks_beyond_what_a_defence_is_built_for_is_said_apart_from_what_holds_within(tmp_path: Path) -> None:
    """Before: one worst attack over all strengths, at 9 attackers, of a rule that is built for 6."""
    grid = made_up(
        tmp_path,
        {},
        strengths=(2, 4),
        by_strength={("a", "IPM", 2.0): [0.89] * 3, ("a", "IPM", 4.0): [0.2] * 3, ("b", "IPM", 2.0): [0.5] * 3,
                     ("b", "IPM", 4.0): [0.4] * 3},
        limits={"a": 3, "b": 4},
    )  # fmt: skip
    words = verdict(grid)
    assert words.startswith("With no more attackers than it is built for (a with 2 of 3), a holds against every attack played.")
    assert "2 attackers, within what they are built for: a holds; b breaks (loses 40.0 points of accuracy to IPM, from" in words
    assert (
        "4 attackers, within what they are built for: b breaks (loses 50.0 points of accuracy to IPM, from 90.0 to 40.0 %)."
        in words
    )
    assert (
        "4 attackers, beyond what they are built for: a breaks (loses 70.0 points of accuracy to IPM, from 90.0 to 20.0 %)."
        in words
    )
    page = render(grid)
    assert page.count("beyond what it is built for") == 1


def test_a_defence_that_states_no_number_is_not_said_to_hold_what_it_is_built_for(tmp_path: Path) -> None:
    words = verdict(made_up(tmp_path, {("clusters", "IPM"): [0.9] * 3}, limits={}))
    assert words.startswith("No number of attackers was played that a defence says it is built for.")
    assert "3 attackers, defences that state no number of attackers (say it with limits=): clusters holds." in words


def test_one_seed_that_breaks_is_not_averaged_away(tmp_path: Path) -> None:
    """Five seeds, one of which ends at chance: the mean of the loss is within any usual bound of its interval."""
    grid = made_up(tmp_path, {("a", "IPM"): [0.9, 0.9, 0.9, 0.9, 0.8]})
    assert finding(grid, "a", 3.0, "Plain").state == State.BREAKS
    words = "a breaks (loses 2.0 points of accuracy in the mean to IPM, from 90.0 to 88.0 %, above the bound in 1 of 5 seeds)"
    assert words in verdict(grid)
    assert "by accuracy in 1 of 5 seeds" in render(grid)


def test_points_say_what_they_are_of_against_which_run_and_over_what(tmp_path: Path) -> None:
    """Before: "27.2 points to IPM", of what and below what was for the reader to know."""
    table = {("a", "IPM"): [0.6, 0.61, 0.6]}
    against = "the loyal clients' accuracy late in the run below that of {}, of the same seed"
    both = against.format("the lower of the runs without attack and without the attackers' data")
    assert f"Points lost: {both}, in the mean of 3 seeds." in verdict(made_up(tmp_path, table))
    one = verdict(made_up(tmp_path / "one", {("a", "IPM"): [0.6]}, absent=None))
    assert f"Points lost: {against.format('the run without attack')}. " in one


def test_the_table_of_the_terminal_says_what_its_heads_are(tmp_path: Path) -> None:
    title = str(grid_table(made_up(tmp_path, {("a", "IPM"): [0.6, 0.61, 0.6]}), "Plain").title)
    assert title.endswith("; clean: without attack; absent: without the attackers' data")


def test_a_gain_is_not_said_to_be_a_loss_of_less_than_nothing(tmp_path: Path) -> None:
    words = verdict(made_up(tmp_path, {("a", "IPM"): [0.92] * 3, ("b", "IPM"): [0.89] * 3}))
    assert "With 3 attackers a loses least of these: nothing." in words


def test_what_seeds_cannot_tell_is_undecided_with_the_seeds_that_would(tmp_path: Path) -> None:
    """Before: "a tie with FedAvg (45.0 %)" for two seeds that could not tell 45 from 90."""
    grid = made_up(tmp_path, {("a", "IPM"): [0.9, 0.86]})
    found = finding(grid, "a", 3.0, "Plain")
    assert (found.word, found.harm and found.harm.broke) == ("undecided", 0)
    assert "a is undecided (about 6 seeds needed)" in verdict(grid)
    assert "tie" not in verdict(grid).split()


def test_who_loses_least_is_said_only_as_far_as_seeds_tell(tmp_path: Path) -> None:
    table = {("a", "IPM"): [0.89, 0.89, 0.89], ("b", "IPM"): [0.885, 0.889, 0.885], ("c", "IPM"): [0.87, 0.872, 0.869]}
    words = verdict(made_up(tmp_path, table))
    assert "With 3 attackers a loses least of these: 1.0 points of accuracy to IPM, from 90.0 to 89.0 %." in words
    assert "Whether b loses more is undecided by intervals that hold for all pairs at once, about 6 seeds needed." in words
    other = verdict(made_up(tmp_path / "other", {("a", "IPM"): [0.89] * 2, ("b", "IPM"): [0.86] * 2}))
    assert "undecided" not in other


def test_one_seed_decides_nothing_but_a_break(tmp_path: Path) -> None:
    words = verdict(made_up(tmp_path, {("a", "IPM"): [0.9], ("b", "IPM"): [0.2]}))
    assert words.startswith("No defence is known to hold")
    assert "a is undecided (about 3 seeds needed)" in words
    assert "b breaks" in words


@pytest.mark.long
def test_a_defence_is_not_said_to_hold_against_attacks_that_have_no_result(tmp_path: Path) -> None:
    grid = made_up(tmp_path, {("a", "IPM"): [0.9] * 3, ("a", "ALIE"): [0.9] * 3}, not_done={"ALIE": "RuntimeError: no"})
    words = verdict(grid)
    assert "a is undecided (no result against some attacks with a)" in words
    assert "a holds" not in words
    broken = made_up(tmp_path / "b", {("a", "IPM"): [0.1] * 3, ("a", "ALIE"): [0.9] * 3}, not_done={"ALIE": "RuntimeError: no"})
    assert "a breaks" in verdict(broken)  # a break is one whatever else is missing
    assert "no result against ALIE" in render(grid)


def test_harm_is_held_against_the_run_without_the_attackers_data(tmp_path: Path) -> None:
    """A defence that is .08 below FedAvg even where the attackers' data are missing has not lost that to the attack."""
    harmless = finding(made_up(tmp_path, {("a", "IPM"): [0.82] * 3}, absent=0.82), "a", 3.0, "Plain")
    assert harmless.harm is not None
    assert (harmless.word, harmless.harm.lost.mean) == ("holds", 0)
    alone = finding(made_up(tmp_path / "b", {("a", "IPM"): [0.82] * 3}, absent=None), "a", 3.0, "Plain")
    assert (alone.word, alone.reference) == ("breaks", "the run without attack")
    page = render(made_up(tmp_path / "c", {("a", "IPM"): [0.8] * 3}, absent=0.82))
    row = page.split('<tr><th scope="row">a</th>')[1].split("</tr>")[0]
    assert 'data-of="absent, %">82.0 ±0.0</td>' in row


def test_a_run_without_the_attackers_data_that_lost_rounds_is_no_measure(tmp_path: Path) -> None:
    """A protection that refuses sums without them leaves .18, beside which .19 under attack would look like no loss."""
    found = finding(made_up(tmp_path, {("a", "IPM"): [0.19] * 3}, absent=0.18, lost=2), "a", 3.0, "Plain")
    assert (found.word, found.reference) == ("breaks", "the run without attack")


def test_what_a_defence_costs_by_itself_is_not_the_attacks_doing(tmp_path: Path) -> None:
    """It is .7 whether it is attacked or not, and would be .9 without the members' data."""
    idle = finding(made_up(tmp_path, {("a", "IPM"): [0.7] * 3}, absent=0.9, clean=0.7), "a", 3.0, "Plain")
    assert idle.harm is not None
    assert (idle.word, idle.harm.lost.mean) == ("holds", 0)


def test_a_run_that_says_absent_is_no_attack_and_never_the_worst(tmp_path: Path) -> None:
    grid = made_up(tmp_path, {("a", "IPM"): [0.7] * 3}, absent=0.1)
    assert grid.attacks == ["IPM"]
    assert finding(grid, "a", 3.0, "Plain").state == State.HOLDS
    assert grid.worst_attack("a", 3.0, "Plain") == "IPM"


def test_several_grounds_are_judged_each_by_itself(tmp_path: Path) -> None:
    of = {"IID": Iid(clients=8), "Dirichlet 0.1": Dirichlet(clients=8, alpha=0.1)}
    grid = made_up(tmp_path, {("a", "IPM"): [0.9] * 2}, changes={"partitions": of})
    words = verdict(grid)
    assert grid.protections == ["Plain on IID", "Plain on Dirichlet 0.1"]
    assert "Under Plain on IID: with as many attackers as it is built for, a holds against every attack played." in words
    assert "Under Plain on Dirichlet 0.1: with as many" in words
    assert grid.expected == len(all_cells(replace(sample.evaluation, **{  # type: ignore[arg-type]
        "defences": {"a": FedAvg()}, "attacks": {"IPM": sample.minus}, "strengths": (3,), "seeds": (0, 1), "absent": True,
        "partitions": of}))) == 2 * 2 * 3  # fmt: skip


def test_bounds_are_the_evaluations_and_are_said(tmp_path: Path) -> None:
    grid = made_up(tmp_path, {("a", "IPM"): [0.7] * 3}, changes={"bounds": Bounds(loss=0.25, success=0.2)})
    assert finding(grid, "a", 3.0, "Plain").word == "holds"
    page = render(grid)
    assert "lose more than 25 points" in page
    assert "succeeds over 20 points" in page
    with pytest.raises(ValueError, match="bounds are shares"):
        Bounds(loss=0)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_backdoor_is_shown_at_its_last_poisoned_round_at_its_peak_and_at_the_end(tmp_path: Path) -> None:
    """Before: ten rounds after the attack had ended, .36 where it had been .92."""
    grid = made_up(tmp_path, {("a", "BadNets"): [0.9] * 2}, success={("a", "BadNets"): [0.92, 0.9]})
    (row,) = backdoor_courses(grid)
    assert (row["round"], row["last_poisoned"].split()[0], row["peak"].split()[0], row["mean"].split()[0]) == (
        "19", "91.0", "99.0", "30.0",
    )  # fmt: skip
    assert (row["decay"], row["half"]) == ("61.0", "2")
    (one,) = [row["found"] for row in defences(grid, "Plain")]
    assert one["backdoor"] == "BadNets"
    assert [*one["rates"]][:2] == [("last poisoned round", "91.0 (90.0 and 92.0)"), ("last round of all", "30.0")]
    assert "Course of every backdoor" in render(grid)


def test_the_terminal_and_json_say_what_the_page_says(tmp_path: Path) -> None:
    grid = made_up(tmp_path, {("a", "IPM"): [0.2] * 3, ("b", "IPM"): [0.9] * 3}, limits={"a": 2, "b": 3})
    cells = [[*column.cells] for column in grid_table(grid, "Plain").columns]
    assert [*zip(*cells, strict=True)] == [
        ("a", "3", "90.0 / 90.0", "IPM", "20.0 ±0.0", "\u2013", "breaks (beyond)"),
        ("b", "3", "90.0 / 90.0", "IPM", "90.0 ±0.0", "\u2013", "holds"),
    ]
    found = grid_json(grid)["found"]
    assert [(one["finding"], one["within"], one["built_for"]) for one in found] == [("breaks", False, 2), ("holds", True, 3)]
    assert found[0]["harm"]["lost"]["mean"] == pytest.approx(0.7)
    assert found[0]["harm"]["against"] == "the lower of the runs without attack and without the attackers' data"


def test_short_runs_are_judged_by_their_last_quarter() -> None:
    """Before: by their last ten evaluations, which of ten rounds are all, those before anything was learned included."""
    learning = [0.1, 0.3, 0.5, 0.7, 0.8, 0.85, 0.88, 0.9, 0.9, 0.9]
    assert course(learning).late == pytest.approx(0.9)
    assert [late_count(n) for n in (1, 4, 5, 30, 40, 400)] == [1, 1, 2, 8, 10, 10]
    hidden = [0.9] * 9 + [0.1]
    assert course(hidden).late < 0.65


def test_the_page_says_of_how_many_evaluations_a_run_is_judged(tmp_path: Path) -> None:
    assert late_words(made_up(tmp_path, {("a", "IPM"): [0.9] * 2})) == ": the last 8 of 30 here"


def test_a_folder_that_was_judged_otherwise_is_refused_in_words(tmp_path: Path) -> None:
    made_up(tmp_path, {("a", "IPM"): [0.9] * 2})
    text = (tmp_path / "evaluation.json").read_text()
    (tmp_path / "evaluation.json").write_text(text.replace('"bounds"', '"before"'))
    with pytest.raises(ValueError, match="earlier version, which judged otherwise"):
        read_grid(tmp_path)


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gap", "values"), [(0.01, (0.0, 0.02, 0.05)), (0.002, (0.1, 0.11)), (0.05, (0.2, 0.3, 0.1, 0.22))])
def test_seeds_needed_are_the_least_whose_interval_is_shorter_than_the_gap(gap: float, values: Values) -> None:
    of = spread(values)
    assert of is not None
    n = seeds_needed(gap, of)
    half = [stats.t.ppf(0.975, k - 1) * of.deviation / sqrt(k) for k in (int(n), int(n) - 1)]
    assert half[0] < gap <= half[1]
    assert seeds_needed(1e-9, of) == inf


def test_harm_needs_every_seed_and_the_interval_below_the_bound() -> None:
    states = [harm_of("a", values, 0.05) for values in ([0.01, 0.01], [0.01, 0.04], [0.04, 0.06], [0.01], [])]
    assert [None if h is None else h.state for h in states] == [
        State.HOLDS, State.UNDECIDED, State.BREAKS, State.UNDECIDED, None,
    ]  # fmt: skip
    above = harm_of("a", [0.06], 0.05)
    assert above is not None
    assert (above.state, above.needs) == (State.BREAKS, None)


@pytest.mark.parametrize(
    ("algorithm", "f"),
    [
        (FedAvg(), 0),
        (RobustFedAvg(rule=Mean()), 0),
        (RobustFedAvg(rule=MultiKrum(6)), 6),
        (RobustFedAvg(rule=TrimmedMean(4)), 4),
        (RobustFedAvg(rule=Bulyan(3)), 3),
        (RobustFedAvg(rule=Median()), 9),
        (RobustFedAvg(rule=GeometricMedian()), 9),
        (RobustFedAvg(rule=Mixed((ARC(6), NNM(5)), TrimmedMean(7))), 5),
        (RobustFedAvg(rule=Mixed((Bucketing(2),), NormBound(1.0))), None),
        (RobustFedAvg(rule=Mixed((NNM(5),), RFA())), 5),
        (RobustFedAvg(rule=RFA()), None),
        (FLIC(rounds_before=5), None),
        (HardenedFLIC(rounds_before=5, every=5), 9),
    ],
    ids=repr,
)
def test_what_a_defence_is_built_for_is_what_it_says(algorithm: Any, f: int | None) -> None:
    assert built_for(algorithm, 20) == f


def test_limits_of_nobody_are_refused() -> None:
    with pytest.raises(ValueError, match="limits names defences that are not there: nobody"):
        replace(sample.evaluation, limits={"nobody": 3})


def test_the_run_without_the_attackers_data_is_of_the_members_that_attacks_share() -> None:
    evaluation = replace(sample.evaluation, absent=True)
    cells = [cell for cell in all_cells(evaluation) if cell.attack == ABSENT]
    assert len(cells) == 2 * 2 * 2
    about = description(evaluation)
    assert about["absent"] == {"1": True, "3": True}
    other = replace(evaluation, attacks={"minus": sample.minus, "two": lambda count: sample.minus(2)})
    assert description(other)["absent"] == {"1": False, "3": False}
    assert not [cell for cell in all_cells(other) if cell.attack == ABSENT]


@pytest.mark.trains
def test_a_rule_is_told_that_the_absent_are_of_those_that_it_is_built_for() -> None:
    """A trimmed mean of 3 of 8 that drops 3 at either end of the 5 who are left has no result: it would flatter every attack."""
    evaluation = replace(
        sample.evaluation, absent=True, defences={"trimmed": RobustFedAvg(rule=TrimmedMean(3)), "mean": FedAvg()}
    )
    silent = resolved(evaluation, Cell(ABSENT, "mean", 3.0, "Plain", 0))
    told = resolved(evaluation, Cell(ABSENT, "trimmed", 3.0, "Plain", 0))
    assert (0 in silent.adversary.silent, 0 in told.adversary.silent) == (True, False)  # type: ignore[union-attr]
    one, other = (played(scenario, None, None) for scenario in (silent, told))
    assert other.unmoved == (0, "")
    for a, b in zip(one.simulation.vectors().values(), other.simulation.vectors().values(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)  # what is left of the trimmed mean is a mean


def test_what_was_doubted_before_it_was_played_is_said_of_what_came_out(tmp_path: Path) -> None:
    """A backdoor's success on a model that takes test records together: the line on stderr was gone when the page was read."""
    grid = made_up(tmp_path, {("median", "IPM"): [0.9, 0.91, 0.9]})
    told = replace(grid, about={**grid.about, "doubts": ["the model predicts for many records together"]})
    assert "The model predicts for many records together." in verdict(told)
    assert "records together" not in verdict(grid)


def test_what_is_without_attack_is_of_the_same_loyal_clients_as_what_is_left(tmp_path: Path) -> None:
    """Of all clients it was 65 % beside a reference of 68.8, "the lower of both", and more attackers looked better."""
    grid = made_up(tmp_path, {("median", "IPM"): [0.5, 0.5, 0.5]}, clean=0.71, absent=0.69)
    own = {
        spot: [{**row, "accuracy": {"late": 0.65}} for row in rows] for spot, rows in grid.cells.items() if spot.attack is None
    }
    grid = replace(grid, cells={**grid.cells, **own})
    (one,) = findings(grid, "Plain")
    assert grid.clean("median", "Plain").mean == pytest.approx(0.65)
    assert clean_of(grid, one).mean == pytest.approx(0.71)
    assert one.held.mean == pytest.approx(0.69)
    table = markdown(grid)
    assert " 71.0" in table
    assert " 65.0" not in table
    assert [row["clean"] for row in defences(grid, "Plain")] == [clean_words(grid, "median", "Plain", clean_of(grid, one))]
