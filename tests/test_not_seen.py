"""What the numbers of a verdict do not show is said: on made-up tables, and of attacks that do nothing."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cloister.evaluating.panels import defences
from cloister.evaluating.searches import broken_by
from cloister.evaluating.summaries import defence_rows
from cloister.evaluating.texts import cell_rows
from cloister.evaluating.verdict import verdict
from cloister.fl.data.population import Examples
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.backdoors import Backdoor, misfit
from cloister.threat_models.broken import Bounds
from cloister.threat_models.cell import play_cell
from cloister.threat_models.evaluation import Cell, Evaluation, description
from cloister.threat_models.evaluation_folder import EvaluationFolder
from cloister.threat_models.membership import Pool, Schedule
from cloister.threat_models.search.play import Sought, harm
from cloister.threat_models.simple_attacks import Scaled
from cloister.threat_models.triggers import Patch

from . import evaluation_sample as sample
from .test_verdict_sentences import edited
from .test_verdicts import made_up


def test_a_break_within_is_not_moved_beyond_by_another_attack_with_more_attackers(tmp_path: Path) -> None:
    """Before: "with as many attackers as it is built for, a holds against every attack played"."""
    held, broke = [0.89] * 3, [0.2] * 3
    by = {("a", "IPM", 2.0): held, ("a", "two each", 2.0): held, ("a", "IPM", 4.0): broke, ("a", "two each", 4.0): held}
    made_up(tmp_path, {}, strengths=(2, 4), by_strength=by, limits={"a": 4})

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"attackers": int(2 * row["strength"])} if row["attack"] == "two each" else row

    grid = edited(tmp_path, edit)
    words = verdict(grid)
    assert words.startswith("No defence holds against every attack played with as many attackers as it is built for.")
    assert "4 attackers, within what they are built for: a breaks (loses 70.0 points" in words
    assert "4 attackers (8 in a round), beyond what they are built for: a holds." in words
    assert [(row["strength"], row["attackers"], row["finding"]) for row in defence_rows(grid)] == [
        (2.0, 4, "holds"),
        (4.0, 4, "breaks"),
        (4.0, 8, "holds"),
    ]
    assert [row["found"]["word"] for row in defences(grid, "Plain")] == ["holds", "breaks", "holds"]
    of = {(row["attack"], row["strength"]): row["finding"] for row in cell_rows(grid) if row["attack"] in ("IPM", "two each")}
    assert of[("IPM", 4.0)] == "breaks"
    assert of[("two each", 4.0)] == "holds"


def test_a_break_within_on_two_seeds_counts_though_a_third_has_more_attackers(tmp_path: Path) -> None:
    made_up(tmp_path, {("a", "IPM"): [0.2] * 3}, limits={"a": 3})
    grid = edited(tmp_path, lambda row: row | {"attackers": 5} if (row["attack"], row["seed"]) == ("IPM", 2) else row)
    assert "3 attackers, within what they are built for: a breaks (loses 70.0 points" in verdict(grid)


def test_a_trigger_that_works_without_attack_proves_nothing(tmp_path: Path) -> None:
    made_up(tmp_path, {("a", "BadNets"): [0.89] * 3}, success={("a", "BadNets"): [1.0] * 3})

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"success": row["success"] | {"clean_mean": 0.92}} if row.get("success") else row

    words = verdict(edited(tmp_path, edit))
    assert words.startswith("Undecided")
    assert "In 3 of 3 runs of BadNets its trigger works on the models without attack already" in words


def test_one_client_that_a_backdoor_takes_wholly_is_named_where_the_mean_holds(tmp_path: Path) -> None:
    made_up(tmp_path, {("a", "BadNets"): [0.89] * 3}, success={("a", "BadNets"): [0.06] * 3})

    def of(worst: float) -> str:
        def edit(row: dict[str, Any]) -> dict[str, Any]:
            return row | {"success": row["success"] | {"worst": worst, "clean_worst": 0.02}} if row.get("success") else row

        return verdict(edited(tmp_path, edit))

    said = "taken most, a with 3 attackers 100.0 % of BadNets, the worst of 3 seeds (at most 2.0 % of any client without it)"
    assert said in of(1.0)
    assert "whom a backdoor takes" not in of(0.2)


def test_one_client_that_loses_everything_is_named_where_the_mean_holds(tmp_path: Path) -> None:
    made_up(tmp_path, {("a", "IPM"): [0.86] * 3})

    def edit(worst: float) -> Any:
        def change(row: dict[str, Any]) -> dict[str, Any]:
            ends = {"accuracy": row["accuracy"] | {"worst": worst}, "clean": row["clean"] | {"worst": 0.8}}
            return row | ends if row["attack"] == "IPM" else row

        return change

    said = (
        "the worst off at the end: a with 3 attackers 0.0 % under IPM, the worst of 3 seeds (the worst has 80.0 % without attack)"
    )
    assert said in verdict(edited(tmp_path, edit(0.0)))
    assert "Means hide" not in verdict(edited(tmp_path, edit(0.75)))


def test_a_backdoor_that_had_succeeded_before_its_last_round_is_named_where_a_defence_holds(tmp_path: Path) -> None:
    grid = made_up(tmp_path, {("a", "BadNets"): [0.89] * 3}, success={("a", "BadNets"): [0.02] * 3})
    said = "highest success from the middle of the attack on: a with 3 attackers 99.0 % of BadNets, the worst of 3 seeds"
    assert said in verdict(grid)
    for k, (accuracy, rates) in enumerate(
        (([0.5] * 3, [0.02] * 3), ([0.9] * 3, [0.01, 0.05, 0.11]))
    ):  # broken by accuracy; undecided
        other = made_up(tmp_path / f"other {k}", {("a", "BadNets"): accuracy}, success={("a", "BadNets"): rates})
        assert "a with 3 attackers 99.0 % of BadNets" in verdict(other)
    through = made_up(tmp_path / "through", {("a", "BadNets"): [0.9] * 3}, success={("a", "BadNets"): [0.9] * 3})
    assert "highest success" not in verdict(through), "it is said already that it succeeds"
    low = edited(tmp_path, lambda row: row | {"success": row["success"] | {"peak": 0.05}} if row.get("success") else row)
    assert "highest success" not in verdict(low)


def test_who_is_hidden_on_one_seed_of_three_is_named_with_what_it_has_there(tmp_path: Path) -> None:
    """Before: the mean of the three seeds, in which one client that loses 58 points on one of them was not told at all."""
    made_up(tmp_path, {("a", "IPM"): [0.89] * 3, ("a", "BadNets"): [0.89] * 3}, success={("a", "BadNets"): [0.02] * 3})

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        there = row["seed"] == 1
        if row["attack"] == "BadNets":
            return row | {"success": row["success"] | {"peak": 0.3 if there else 0.02}}
        ends = {"accuracy": row["accuracy"] | {"worst": 0.36 if there else 0.94}, "clean": row["clean"] | {"worst": 0.92}}
        return row | ends if row["attack"] == "IPM" else row

    said = verdict(edited(tmp_path, edit))
    assert "a with 3 attackers 36.0 % under IPM on 1 of 3 seeds (the worst has 92.0 % without attack)" in said
    assert "attack on: a with 3 attackers 30.0 % of BadNets on 1 of 3 seeds" in said


def test_who_is_hidden_on_some_seeds_is_named_by_the_worst(tmp_path: Path) -> None:
    made_up(tmp_path, {("a", "IPM"): [0.89] * 3})

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        worst = [0.5, 0.94, 0.1][row["seed"]]
        ends = {"accuracy": row["accuracy"] | {"worst": worst}, "clean": row["clean"] | {"worst": 0.9}}
        return row | ends if row["attack"] == "IPM" else row

    said = "10.0 % under IPM, the worst of 2 such seeds of 3 (the worst has 90.0 % without attack)"
    assert said in verdict(edited(tmp_path, edit))


def test_runs_in_which_nobody_was_loyal_are_named(tmp_path: Path) -> None:
    grid = made_up(tmp_path, {("a", "IPM"): [0.89] * 3})
    assert "every client was an attacker" not in verdict(grid)
    grid = edited(tmp_path, lambda row: row | {"loyal": 0} if row["attack"] == "IPM" else row)
    assert (
        "In 3 of 3 runs of IPM every client was an attacker in some round, or may have been drawn as one: accuracies"
        in verdict(grid)
    )


def test_an_attack_under_which_nothing_changed_is_named(tmp_path: Path) -> None:
    made_up(tmp_path, {("a", "IPM"): [0.9] * 3})
    grid = edited(tmp_path, lambda row: row | {"same_models": True} if row["attack"] == "IPM" else row)
    assert "In 3 of 3 runs of IPM every loyal client ended with the very model that it has without attack" in verdict(grid)


def test_who_could_lose_no_more_than_twice_the_bound_is_said_to_have_had_little(tmp_path: Path) -> None:
    made_up(tmp_path, {("a", "IPM"): [0.54] * 3}, clean=0.58, absent=0.58)
    assert "there was little to lose" in verdict(edited(tmp_path, lambda row: row | {"classes": 2}))
    made_up(tmp_path / "b", {("a", "IPM"): [0.64] * 3}, clean=0.68, absent=0.68)
    assert "there was little to lose" not in verdict(edited(tmp_path / "b", lambda row: row | {"classes": 2}))


# --- attacks that do nothing ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Same:
    """A trigger that changes nothing, and says so of no record."""

    def stamp(self, x: torch.Tensor, /) -> torch.Tensor:
        return x.clone()


def nothing(count: float) -> Adversary:
    harmless = Backdoor(Same(), 0, share=1.0, clean_label=True)
    return Adversary(members=Pool(int(count)), data=harmless, when=Schedule(stop=2))


def as_is(count: float) -> Adversary:
    return Adversary(members=Pool(int(count)), upload=Scaled(1.0))


@pytest.mark.trains
def test_a_backdoor_that_changes_nothing_gains_nothing_whenever_it_stops(tmp_path: Path) -> None:
    """Before: it was held against models of another round, and an attack that did nothing "gained" up to half of all."""
    base = replace(sample.evaluation.scenario, rounds=6)
    evaluation: Evaluation = replace(
        sample.evaluation, scenario=base, attacks={"nothing": nothing, "as is": as_is, "minus": sample.minus}, seeds=(0,)
    )
    folder = EvaluationFolder(tmp_path)
    folder.open(description(evaluation), resume=False)
    defence, protection = next(iter(evaluation.defences)), next(iter(evaluation.named_protections))
    clean_cell = Cell(None, defence, None, protection, 0, "")
    clean = play_cell(evaluation, clean_cell, None, folder, None)
    assert clean["status"] == "done", clean["reason"]
    found = folder.read_clean(clean["key"], clean["clean_sha256"])
    assert found is not None
    assert [*found.earlier] == [1]
    assert found.after(0) is found.after(1) is found.earlier[1]
    assert found.after(2) is found.models
    rows = {
        name: play_cell(evaluation, replace(clean_cell, attack=name, strength=2.0), clean, folder, None)
        for name in evaluation.attacks
    }
    assert {name: row["status"] for name, row in rows.items()} == dict.fromkeys(rows, "done")
    success = rows["nothing"]["success"]
    assert success["last_poisoned_round"] == 1
    assert success["last_poisoned"] == success["clean_mean"]
    assert {name: row["same_models"] for name, row in rows.items()} == {"nothing": True, "as is": True, "minus": False}


def test_a_trigger_that_changes_no_record_does_not_fit() -> None:
    few = Examples(torch.ones(10, 1, 8, 8), torch.arange(10) % 4)
    patch = Patch(row=0, column=0, height=2, width=2)
    assert misfit(Backdoor(patch, target=0), few, 4).endswith("changes none of 10 records")
    assert misfit(Backdoor(patch, target=0), replace(few, x=few.x * 0), 4) == ""


# --- defences that give up --------------------------------------------------------------------------------------------


def test_a_defence_that_gives_up_without_the_attackers_data_is_held_against_the_run_without_attack_by_all_that_judge(
    tmp_path: Path,
) -> None:
    """Before: what moves nothing once somebody is missing could lose nothing, as its reference was at chance."""
    made_up(tmp_path, {("a", "IPM"): [0.1] * 3}, absent=0.1)
    grid = edited(tmp_path, lambda row: row | {"classes": 10})
    assert "a breaks (loses 80.0 points of accuracy to IPM, from 90.0 to 10.0 %)" in verdict(grid)
    attacked, absent = ({"status": "done", "accuracy": {"late": 0.1}, "clean": {"late": 0.9}} for _ in range(2))
    assert broken_by(attacked, absent, Bounds(), 0.1) == "accuracy"
    assert broken_by(attacked, absent, Bounds(), None) == broken_by(attacked, absent, Bounds(), 0.01) == ""
    line = {"status": "done", "unmoved": 0, "lost": 0, "success": None}
    clean, low = line | {"accuracy": 0.9, "of": {"0": 0.9}, "classes": 10}, line | {"accuracy": 0.1, "of": {"0": 0.1}}
    assert harm(low, clean, low, Sought()).loss == pytest.approx(0.8)
    assert harm(low, clean | {"classes": 100}, low, Sought()).loss == 0.0


def test_a_break_on_one_seed_of_many_that_costs_nothing_in_the_mean_may_be_chance(tmp_path: Path) -> None:
    """Before: of an attack that does nothing a defence "breaks", the likelier the more attacks and seeds are played."""
    noisy = made_up(tmp_path / "a", {("a", "IPM"): [0.84, 0.92, 0.9, 0.93, 0.88]})
    words = verdict(noisy)
    assert "Where the mean may be none a break may be chance" in words
    assert "by IPM on 1 of 5 seeds" in words
    assert "single seeds" not in verdict(made_up(tmp_path / "c", {("a", "IPM"): [0.84, 0.84, 0.7]}))
    every = made_up(tmp_path / "d", {("a", "IPM"): [0.8, 0.75, 0.3]})  # on all seeds, however far apart: no chance
    assert "may be chance" not in verdict(every)
    another = {("a", "IPM"): [0.89, 0.3, 0.9], ("a", "X"): [0.82, 0.81, 0.82]}
    assert "may be chance" not in verdict(made_up(tmp_path / "e", another))
    plain = made_up(tmp_path / "b", {("a", "IPM"): [0.5, 0.52, 0.55, 0.5, 0.51]})
    assert "may be chance" not in verdict(plain)


def test_an_attack_that_ends_runs_in_an_error_is_named(tmp_path: Path) -> None:
    """Before: undecided, and nothing of what stopped every run under attack."""
    made_up(tmp_path, {("a", "IPM"): [0.89] * 3, ("a", "long"): [0.9] * 3})

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        failed = {"status": "failed", "reason": "ValueError: update too long"}
        return {**{k: row[k] for k in row if k not in ("accuracy", "clean")}, **failed} if row["attack"] == "long" else row

    words = verdict(edited(tmp_path, edit))
    assert "An error ended 3 runs of long (ValueError: update too long): where it is the defence's" in words


def test_cells_that_show_nothing_are_not_said_to_hold(tmp_path: Path) -> None:
    made_up(tmp_path, {("a", "late"): [0.9] * 3})
    grid = edited(tmp_path, lambda row: row | {"attackers": 0} if row["attack"] == "late" else row)
    assert {row["verdict"] for row in cell_rows(grid) if row["attack"] == "late"} == {"no attacker at work"}
