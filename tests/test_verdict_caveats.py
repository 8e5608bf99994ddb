"""Where less was played, or measured, than a verdict's "holds" would say: made-up tables in which it flattered."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cloister.evaluating.heat import heat_maps
from cloister.evaluating.judging import State
from cloister.evaluating.verdict import verdict
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.robust.coordinates import Median
from cloister.protocol import Plain
from cloister.threat_models.broken import CLEAN, LOWER
from cloister.threat_models.evaluation import ABSENT

from . import evaluation_sample as sample
from .judged import finding
from .test_verdict_sentences import edited
from .test_verdicts import made_up

GOOD = {("a", "IPM"): [0.89] * 3, ("a", "ALIE"): [0.9] * 3}
UNMEASURED = {"accuracy": {"late": "nan", "final": "nan"}}


@pytest.mark.parametrize(("seeds", "words"), [((0, 1, 2), "no result"), ((1,), "no result on 1 of 3 seeds")])
def test_an_attack_of_which_nothing_was_measured_is_none_that_a_defence_holds_against(
    tmp_path: Path, seeds: tuple[int, ...], words: str
) -> None:
    """Before: "holds against every attack played", though no client has an accuracy under ALIE."""
    made_up(tmp_path, GOOD)
    grid = edited(tmp_path, lambda row: row | (UNMEASURED if row["attack"] == "ALIE" and row["seed"] in seeds else {}))
    assert finding(grid, "a", 3.0, "Plain").without == {"ALIE": len(seeds)}
    assert verdict(grid).startswith("Undecided: ")
    assert f"a is undecided ({words} against " in verdict(grid)


def test_a_backdoor_whose_success_was_not_measured_is_not_kept_out(tmp_path: Path) -> None:
    made_up(tmp_path, GOOD | {("a", "BadNets"): [0.9] * 3}, success={("a", "BadNets"): [0.01] * 3})

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        success = row.get("success")
        return row | ({"success": success | {"last_poisoned": "nan"}} if success and row["seed"] else {})

    grid = edited(tmp_path, edit)
    assert finding(grid, "a", 3.0, "Plain").without == {"BadNets": 2}
    assert verdict(grid).startswith("Undecided: ")


def test_a_break_on_a_seed_without_a_run_without_the_attackers_data_is_one(tmp_path: Path) -> None:
    """Before: "holds", by the two seeds on which that run came to an end; it is held against the run without attack there."""
    made_up(tmp_path, {("a", "IPM"): [0.89, 0.89, 0.2], ("a", "ALIE"): [0.9] * 3})

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        return row | ({"status": "failed", "reason": "no"} if row["attack"] == ABSENT and row["seed"] == 2 else {})

    grid = edited(tmp_path, edit)
    found = finding(grid, "a", 3.0, "Plain")
    assert found.harm is not None
    assert (found.state, found.harm.broke, found.harm.lost.count) == (State.BREAKS, 1, 3)
    assert found.reference == f"{LOWER} or, where that is no measure, {CLEAN}"
    assert f"below that of {found.reference}, of the same seed" in verdict(grid)


def test_an_attack_that_nobody_carried_out_is_named(tmp_path: Path) -> None:
    """Its schedule begins after the last round: it costs nothing anybody."""
    made_up(tmp_path, GOOD)
    words = verdict(edited(tmp_path, lambda row: row | ({"attackers": 0} if row["attack"] == "ALIE" else {})))
    assert "In 3 of 3 runs of ALIE no attacker was at work in any round: there it did nothing." in words
    assert "runs of IPM" not in words


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"a": 8}, "With no more attackers than it is built for (a with 3 of 8), a holds against every attack played. Acc"),
        (
            {"a": 8, "b": 3},
            "With no more attackers than they are built for (a with 3 of 8), a and b hold against every attack played. With 3",
        ),
        ({"a": 3, "b": 3}, "With as many attackers as they are built for, a and b hold against every attack played. With 3"),
    ],
)
def test_who_was_played_with_fewer_attackers_than_it_is_built_for_is_not_said_to_stand_as_many(
    tmp_path: Path, limits: Mapping[str, int], words: str
) -> None:
    table = {(name, "IPM"): [0.89 - 0.01 * (name == "b")] * 3 for name in limits}
    assert verdict(made_up(tmp_path, table, limits=limits)).startswith(words)


def test_who_loses_nothing_since_the_data_alone_cost_it_all_says_what_it_has(tmp_path: Path) -> None:
    """Before: "a loses least of these: nothing. Accuracy without attack: a 90.0 %", of one that has 50.0 % under every attack."""
    words = verdict(made_up(tmp_path, {("a", "IPM"): [0.5] * 3, ("b", "IPM"): [0.52] * 3}, absent=0.5))
    assert "Nothing is lost to an attack that is missing without the attackers' data, too: a with 3 attackers 50.0 %" in words
    assert "data, too" not in verdict(made_up(tmp_path / "b", {("a", "IPM"): [0.86] * 3}, absent=0.86))


def test_groups_that_were_not_parted_without_the_attackers_data_are_said(tmp_path: Path) -> None:
    """Before: 95 % clean, 62 % without the attackers' data and under attack, and no word of why absence alone costs that."""
    made_up(tmp_path, GOOD)

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"clusters": {"count": 1 if row["attack"] == ABSENT and row["seed"] else 2}}

    words = verdict(edited(tmp_path, edit))
    assert "stayed in one cluster, where there were several without attack: a with 3 attackers on 2 of 3 seeds. What" in words
    assert "floor" not in words, "Plain has none"
    made_up(tmp_path / "floor", GOOD, changes={"protections": {"Plain": Plain(floor=3)}})
    assert "(the protection's floor)" in verdict(edited(tmp_path / "floor", edit))
    assert "one cluster" not in verdict(edited(tmp_path, lambda row: row | {"clusters": {"count": 2}}))
    assert "one cluster" not in verdict(edited(tmp_path, lambda row: row | {"clusters": {"count": 1}}))


def test_metrics_that_judge_nothing_are_said(tmp_path: Path) -> None:
    """Before: not a word of them, in verdict or tables."""
    training = replace(sample.scenario.training, metrics=("macro F1",))
    changes = {"scenario": replace(sample.scenario, training=training)}
    words = "Verdicts are by accuracy alone, and by what backdoors gain: macro F1, which the scenario measures too"
    assert words in verdict(made_up(tmp_path / "more", GOOD, changes=changes))
    assert "by accuracy alone" not in verdict(made_up(tmp_path / "none", GOOD))


def test_who_learned_next_to_nothing_on_a_seed_says_so(tmp_path: Path) -> None:
    """Before: "a loses least of these: nothing", of one that has .1 on the third seed whether it is attacked or not."""
    made_up(tmp_path, {("a", "IPM"): [0.9, 0.9, 0.1], ("b", "IPM"): [0.9] * 3}, absent=None)

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        return row | ({"accuracy": {"late": 0.1}, "clean": {"late": 0.1}} if (row["defence"], row["seed"]) == ("a", 2) else {})

    words = verdict(edited(tmp_path, edit))
    assert "Next to nothing was learned without attack, so that little could be lost: by a on 1 of 3 seeds." in words
    assert "Next to nothing" not in verdict(made_up(tmp_path / "b", GOOD))


def stopped(row: dict[str, Any]) -> dict[str, Any]:
    """Rounds 0 to 29; of ALIE half of the rounds come to nothing, with a sum withheld in 15, and a few of all others."""
    attacked = row["attack"] == "ALIE"
    return row | {"stood": [0.02, 0.5][attacked] + 0.01 * row["seed"], "withheld": 15 if attacked else 0}


def test_rounds_that_an_attack_makes_come_to_nothing_are_said_where_no_accuracy_is_lost(tmp_path: Path) -> None:
    """Before: "a holds against every attack played", and nothing of half of the rounds, in which nobody learned."""
    made_up(tmp_path, GOOD)
    words = verdict(edited(tmp_path, stopped))
    assert "a holds against every attack played" in words
    assert (
        "Points lost do not show rounds that came to nothing: a against ALIE with 3 attackers, where loyal clients' models "
        "stayed as they were in 51 % of the rounds (3 % without attack); a against ALIE with 3 attackers, where sums were "
        "withheld in 50 % of the rounds (0 % without attack)."
    ) in words
    assert "against IPM" not in words


def test_rounds_that_come_to_nothing_without_attack_too_are_no_attacks(tmp_path: Path) -> None:
    """Nor is anything said of lines of before, which do not tell, or of a defence that fewer than a tenth of the rounds cost."""
    made_up(tmp_path, GOOD)
    assert "came to nothing" not in verdict(edited(tmp_path, lambda row: row | {"stood": 0.6, "withheld": 20}))
    assert "came to nothing" not in verdict(
        edited(tmp_path, lambda row: row | {"stood": 0.09 if row["attack"] == "ALIE" else 0.0, "withheld": 0})
    )
    assert "came to nothing" not in verdict(made_up(tmp_path / "b", GOOD))


@pytest.mark.parametrize("under", [[0.1, 0.14, 0.06], [0.1, 0.1, 0.1]])
def test_a_defence_at_chance_without_attack_learned_nothing_which_no_number_of_seeds_decides(
    tmp_path: Path, under: list[float]
) -> None:
    """Before: "undecided (about 6 seeds needed)", or "holds"."""
    made_up(tmp_path, GOOD | {("flat", "IPM"): under, ("flat", "ALIE"): [0.1] * 3})
    guess = {"late": 0.1, "final": 0.1}

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        flat = {"clean": guess} | ({"accuracy": guess} if row["attack"] in (None, ABSENT) else {})
        return row | {"classes": 10} | (flat if row["defence"] == "flat" else {})

    grid = edited(tmp_path, edit)
    found = finding(grid, "flat", 3.0, "Plain")
    assert (found.word, found.needs) == ("learned nothing without attack", None)
    assert "flat learned nothing without attack (10.0 %, as chance is 10.0 %)" in verdict(grid)
    assert "undecided" not in verdict(grid)


def test_a_defence_without_a_result_is_no_column_of_dashes_in_the_heat_map(tmp_path: Path) -> None:
    made_up(tmp_path, GOOD | {("b", "IPM"): [0.8] * 3, ("b", "ALIE"): [0.8] * 3})
    failed = {"status": "failed", "reason": "no"}
    grid = edited(tmp_path, lambda row: row | (failed if row["defence"] == "b" else {}))
    (found,) = heat_maps(grid)
    assert found.defences == ["a"]
    assert {len(cells) for _, cells in found.rows} == {1}


CHANCE = [0.89, 0.89, 0.7]
"""Accuracies of which one breaks, so that the interval of what is lost goes below nothing."""
MAY_BE = "break may be chance"


def test_what_breaks_at_the_end_or_by_a_backdoor_as_well_is_not_said_to_be_chance(tmp_path: Path) -> None:
    """Before: "by IPM on 1 of 3 seeds. More seeds of that attack alone tell", of one that others break on all seeds."""
    made_up(tmp_path / "alone", {("a", "IPM"): CHANCE, ("a", "ALIE"): [0.89] * 3})
    alone = "a with 3 attackers by IPM on 1 of 3 seeds (7.3 points in the mean). More seeds of that attack alone tell."
    assert alone in verdict(edited(tmp_path / "alone", lambda row: row))

    def ends(row: dict[str, Any]) -> dict[str, Any]:
        clean = {"clean": {"late": 0.9, "final": 0.9}}
        return row | (clean | {"accuracy": row["accuracy"] | {"final": 0.3}} if row["attack"] == "ALIE" else {})

    assert MAY_BE not in verdict(edited(tmp_path / "alone", ends))
    rates = {("a", "BadNets"): [0.9, 0.9, 0.9], ("a", "neurotoxin"): [0.99, 0.99, 0.02]}
    table = {("a", "IPM"): CHANCE} | {spot: [0.89] * 3 for spot in rates}
    assert MAY_BE not in verdict(made_up(tmp_path / "through", table, success=rates))


def test_all_attacks_whose_breaks_may_be_chance_are_named(tmp_path: Path) -> None:
    """Before: the one that costs most, of which alone more seeds were to tell; and a break that is none of chance beside it."""
    words = verdict(made_up(tmp_path / "two", {("a", "IPM"): CHANCE, ("a", "ALIE"): [0.8, 0.89, 0.89]}))
    two = "by ALIE on 1 of 3 seeds (4.0 points in the mean), by IPM on 1 of 3 seeds (7.3 points in the mean)"
    assert f"a with 3 attackers {two}. More seeds of these attacks alone tell." in words
    assert MAY_BE not in verdict(made_up(tmp_path / "sure", {("a", "IPM"): CHANCE, ("a", "ALIE"): [0.84, 0.851, 0.845]}))


def test_who_learned_nothing_is_not_counted_among_those_that_hold(tmp_path: Path) -> None:
    """Before: "what holds here may yet break", "held against the other attacks alone", of one at chance, and none other."""
    table = {(name, attack): [has] * 2 for name, has in (("a", 0.1), ("mean", 0.9)) for attack in ("IPM", "ALIE")}
    made_up(tmp_path, table,
            changes={"defences": {"a": RobustFedAvg(rule=Median()), "mean": FedAvg()}}, limits={"a": 3, "mean": 0})  # fmt: skip
    guess = {"late": 0.1, "final": 0.1}

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        own = {"accuracy": guess, "clean": guess, "same_models": row["attack"] == "ALIE"} if row["defence"] == "a" else {}
        return row | {"classes": 10} | own

    words = verdict(edited(tmp_path, edit))
    assert "a learned nothing without attack (10.0 %, as chance is 10.0 %)" in words
    assert "Held against the other attacks alone" not in words
    assert "No attack of this grid takes more than the bound" not in words
    none = verdict(edited(tmp_path, lambda row: row | ({"accuracy": guess, "clean": guess} if row["defence"] == "mean" else {})))
    assert "2 seeds are few" not in none
    assert "With 2 seeds nothing but a break is decided" in none


def test_who_met_nothing_is_said_to_have_been_played_with_fewer_than_it_is_built_for(tmp_path: Path) -> None:
    """Before: "with as many attackers as it is built for", of one that is built for 8 and met 3."""
    made_up(tmp_path, {("a", "IPM"): [0.9] * 3}, limits={"a": 8})
    words = verdict(edited(tmp_path, lambda row: row | {"same_models": row["attack"] == "IPM"}))
    assert words.startswith("With no more attackers than it is built for (a with 3 of 8), a held against nothing, as no attack")


def test_a_number_of_attackers_of_which_no_result_came_was_played(tmp_path: Path) -> None:
    """Before: "no number of attackers was played that a defence says it is built for": the other attack had nobody at work."""
    made_up(tmp_path, {("a", "IPM"): [0.9] * 3, ("a", "ALIE"): [0.9] * 3})
    failed = {"status": "failed", "reason": "no"}
    grid = edited(tmp_path, lambda row: row | {"IPM": failed, "ALIE": {"attackers": 0}}.get(str(row["attack"]), {}))
    assert verdict(grid).startswith("No defence has a result with as many attackers as it says it is built for.")


def test_attacks_with_fewer_attackers_than_a_defence_is_built_for_are_told_beside_one_with_as_many(tmp_path: Path) -> None:
    """Before: "with as many attackers as it is built for, a holds against every attack played", of which one had a single one."""
    made_up(tmp_path, GOOD)
    words = verdict(edited(tmp_path, lambda row: row | ({"attackers": 1} if row["attack"] == "ALIE" else {})))
    assert words.startswith("With no more attackers than it is built for (a with 1 to 3 of 3), a holds against every attack")


def test_an_attack_with_few_attackers_of_which_no_result_came_is_not_beyond_since_others_have_more(tmp_path: Path) -> None:
    """Before: "a holds", of one built for 3 whose cells all failed at strength 4, where ALIE has 2 attackers and IPM 4."""
    by = {(d, a, s): [0.89] * 3 for d in "ab" for a in ("ALIE", "IPM") for s in (3.0, 4.0)}
    made_up(tmp_path, {}, strengths=(3, 4), by_strength=by, limits={"a": 3, "b": 4})

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        if row["attack"] not in ("ALIE", "IPM") or row["strength"] == 3:
            return row
        return row | ({"status": "failed", "reason": "no"} if row["defence"] == "a" else {}) | (
            {"attackers": 2} if row["attack"] == "ALIE" else {})  # fmt: skip

    words = verdict(edited(tmp_path, edit))
    assert words.startswith("With no more attackers than it is built for (b with 3 to 4 of 4), b holds against every attack")
