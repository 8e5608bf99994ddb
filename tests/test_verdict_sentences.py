"""Sentences of a verdict beside those of `test_verdicts`, each on a made-up table in which less would have flattered."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cloister.evaluating.data import Grid, read_grid
from cloister.evaluating.panels import defences
from cloister.evaluating.summaries import defence_rows
from cloister.evaluating.verdict import _fewer, verdict
from cloister.fl.data.partition import Dirichlet, Iid
from cloister.protocol import Permuted, Plain
from cloister.threat_models.evaluation import ABSENT

from .test_verdicts import made_up


def edited(path: Path, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> Grid:
    """The grid of a folder whose lines are changed."""
    file = path / "results.jsonl"
    file.write_text("".join(json.dumps(edit(json.loads(line))) + "\n" for line in file.read_text().splitlines()))
    return read_grid(path)


def without(attack: str, defence: str, strength: float, seeds: tuple[int, ...] = (0, 1, 2)) -> Callable[[Any], dict[str, Any]]:
    def edit(row: dict[str, Any]) -> dict[str, Any]:
        here = (row["attack"], row["defence"], row["strength"]) == (attack, defence, strength) and row["seed"] in seeds
        return row | {"status": "failed", "reason": "RuntimeError: no"} if here else row

    return edit


UNDECIDED = (
    "Undecided: no defence breaks with as many attackers as it is built for, and none is known to hold against every attack"
    " played."
)
BY_STRENGTH = {("a", "IPM", 2.0): [0.89] * 3, ("a", "IPM", 4.0): [0.89] * 3}


def test_who_has_no_result_with_as_many_attackers_as_it_is_built_for_is_not_said_to_hold_there(tmp_path: Path) -> None:
    """Before: "with as many attackers as it is built for, a holds", of one that is built for 4 and fails in every cell with 4."""
    made_up(tmp_path, {}, strengths=(2, 4), by_strength=BY_STRENGTH, limits={"a": 4})
    words = verdict(edited(tmp_path, without("IPM", "a", 4.0)))
    assert words.startswith(UNDECIDED)
    assert "2 attackers, within what they are built for: a holds." in words
    assert words.endswith("Left out, as without a result: a under Plain with 4 attackers.")


def test_what_has_no_result_beyond_what_it_is_built_for_takes_nothing_from_what_holds_within(tmp_path: Path) -> None:
    made_up(tmp_path, {}, strengths=(2, 4), by_strength=BY_STRENGTH, limits={"a": 3})
    words = verdict(edited(tmp_path, without("IPM", "a", 4.0)))
    assert words.startswith("With no more attackers than it is built for (a with 2 of 3), a holds")
    assert "Left out, as without a result: a under Plain with 4 attackers." in words


def test_a_strength_in_other_words_is_within_by_the_attackers_that_others_meet_at_it(tmp_path: Path) -> None:
    """At a share of .4 there are 4 attackers by b's lines, and a is built for 4 in one table, and for 3 in the other."""
    by = {(d, "IPM", s): [0.89] * 3 for d in "ab" for s in (2.0, 4.0)}
    for limit, opening in (
        (4, "With as many attackers as it is built for, b holds"),
        (3, "With no more attackers than they are"),
    ):
        path = tmp_path / str(limit)
        made_up(path, {}, strengths=(2, 4), by_strength=by, limits={"a": limit, "b": 4}, changes={"strength": "tenths"})
        assert verdict(edited(path, without("IPM", "a", 4.0))).startswith(opening)


def test_nothing_that_has_no_result_is_judged(tmp_path: Path) -> None:
    """All cells are there, and every one under attack failed."""
    grid = made_up(tmp_path, {("a", "IPM"): [0.9] * 3}, not_done={"IPM": "RuntimeError: no"})
    said = "No verdict: no defence has a result under attack, first a under Plain: failed: RuntimeError: no."
    assert verdict(grid) == said


def test_an_attack_whose_updates_nobody_could_use_is_named(tmp_path: Path) -> None:
    """It costs nothing then, and without a word a defence would seem to stand it."""
    made_up(tmp_path, {("a", "IPM"): [0.9] * 3, ("a", "ALIE"): [0.9] * 3})
    refused = {"rejected": {"loyal": 0, "members": 6}}
    words = verdict(edited(tmp_path, lambda row: row | (refused if row["attack"] == "IPM" and row["seed"] else {})))
    assert "In 2 of 3 runs updates that IPM made were refused, as not finite or too large" in words
    assert "ALIE made" not in words


def test_to_hold_against_nobody_is_not_to_hold(tmp_path: Path) -> None:
    """The mean, built for nobody, keeps all of its accuracy at strength 0."""
    by = {("mean", "IPM", 0.0): [0.9] * 3, ("mean", "IPM", 3.0): [0.2] * 3}
    words = verdict(made_up(tmp_path, {}, strengths=(0, 3), by_strength=by, limits={"mean": 0}))
    assert words.startswith("No number of attackers was played that a defence says it is built for.")
    assert "0 attackers" not in words
    assert "3 attackers, beyond what they are built for: mean breaks" in words


def test_who_loses_least_says_what_backdoors_gain_of_it(tmp_path: Path) -> None:
    """It loses nothing, and backdoors succeed 8 points more often, below the bound of 10."""
    table = {(d, a): [0.9] * 3 if d == "a" else [0.88] * 3 for d in "ab" for a in ("BadNets", "IPM")}
    grid = made_up(tmp_path, table, success={("a", "BadNets"): [0.09] * 3, ("b", "BadNets"): [0.01] * 3})
    words = verdict(grid)
    assert "With 3 attackers a loses least of these: nothing, and backdoors gain at most 8.0 points of success." in words


def test_the_least_loss_is_at_a_strength_that_all_who_hold_are_built_for(tmp_path: Path) -> None:
    """With 4, for which b alone is built, it loses more than a with 2: it is not said to lose least there, nor a here."""
    by = {
        ("a", "IPM", 2.0): [0.88] * 3,
        ("a", "IPM", 4.0): [0.2] * 3,
        ("b", "IPM", 2.0): [0.89] * 3,
        ("b", "IPM", 4.0): [0.87] * 3,
    }
    words = verdict(made_up(tmp_path, {}, strengths=(2, 4), by_strength=by, limits={"a": 2, "b": 4}))
    assert (
        "a and b hold against every attack played. With 2 attackers b loses least of these: 1.0 points of accuracy to IPM, from"
        in words
    )
    missing = verdict(edited(tmp_path, without("IPM", "b", 2.0)))
    assert missing.startswith("With as many attackers as it is built for, a holds")
    assert "loses least" not in missing


def test_both_ways_of_breaking_are_said_with_the_worst_of_all_who_break_so(tmp_path: Path) -> None:
    table = {("a", "BadNets"): [0.5] * 3, ("b", "BadNets"): [0.6] * 3}
    rates = {("a", "BadNets"): [0.5] * 3, ("b", "BadNets"): [0.9] * 3}
    words = verdict(made_up(tmp_path, table, success=rates))
    assert (
        "a and b break and let a backdoor through (a loses most: 40.0 points of accuracy to BadNets, from 90.0 to 50.0 %;"
        " most through b: BadNets succeeds 89.0 points more often than without it, in its last poisoned round)"
    ) in words


def test_a_backdoor_that_succeeds_on_one_seed_is_let_through_and_not_averaged_away(tmp_path: Path) -> None:
    """.25, .01 and .01: in the mean 8 points more often, below the bound of 10."""
    words = verdict(made_up(tmp_path, {("a", "BadNets"): [0.9] * 3}, success={("a", "BadNets"): [0.25, 0.01, 0.01]}))
    assert words.startswith("No defence holds")
    assert (
        "BadNets succeeds 8.0 points in the mean more often than without it, in its last poisoned round,"
        " above the bound in 1 of 3 seeds" in words
    )


def test_which_results_are_not_there_is_said_as_far_as_it_is_one_thing(tmp_path: Path) -> None:
    table = {("a", attack): [0.89] * 3 for attack in ("ALIE", "IPM", "mimic")}

    def words(name: str, *missing: tuple[str, tuple[int, ...]]) -> str:
        made_up(tmp_path / name, table)
        for attack, seeds in missing:
            edited(tmp_path / name, without(attack, "a", 3.0, seeds))
        return verdict(read_grid(tmp_path / name))

    assert "a is undecided (no result on 1 of 3 seeds against ALIE with a)" in words("one", ("ALIE", (1,)))
    alike = words("alike", ("ALIE", (1,)), ("IPM", (2,)))
    assert "a is undecided (no result on 1 of 3 seeds against some attacks with a)" in alike
    unlike = words("unlike", ("ALIE", (1,)), ("IPM", (0, 2)))
    assert "a is undecided (no result on some seeds against some attacks with a)" in unlike
    assert "hold" not in alike.replace(UNDECIDED, "")


def test_few_seeds_are_said_to_decide_nothing_but_a_break(tmp_path: Path) -> None:
    """Two seeds that agree would else look as sure as five."""
    ending = "With {} nothing but a break is decided: play 3 or more."
    for values, named in (([0.89], "1 seed"), ([0.89, 0.86], "2 seeds")):
        assert verdict(made_up(tmp_path / named, {("a", "IPM"): values})).endswith(ending.format(named))
    held = verdict(made_up(tmp_path / "held", {("a", "IPM"): [0.89] * 2}))  # which is decided, by what there is
    assert "a holds" in held
    assert held.endswith("2 seeds are few, and what holds here may yet break on a third: play 3 or more.")
    assert "nothing but a break" not in verdict(made_up(tmp_path / "3", {("a", "IPM"): [0.89] * 3}))


def test_what_is_only_undecided_is_not_said_to_fail(tmp_path: Path) -> None:
    """Before: "No defence holds", of defences of which none breaks."""
    both = verdict(made_up(tmp_path / "both", {("a", "IPM"): [0.89], ("b", "IPM"): [0.88]}))
    assert both.startswith(UNDECIDED)
    one = verdict(made_up(tmp_path / "one", {("a", "IPM"): [0.89], ("b", "IPM"): [0.2], ("c", "IPM"): [0.3]}))
    assert one.startswith("No defence is known to hold against every attack played with as many attackers as it is built for; a")
    none = verdict(made_up(tmp_path / "none", {("a", "IPM"): [0.2], ("b", "IPM"): [0.2]}))
    assert none.startswith("No defence holds")


def test_a_tie_is_undecided_by_any_number_of_seeds_in_reach(tmp_path: Path) -> None:
    """That the one is named first is the order of the file alone."""
    words = verdict(made_up(tmp_path, {("a", "IPM"): [0.89] * 3, ("b", "IPM"): [0.89] * 3}))
    assert "With 3 attackers a loses least of these: 1.0 points of accuracy to IPM, from 90.0 to 89.0 %." in words
    assert "Whether b loses more is undecided, more than 1000 seeds needed." in words


def test_what_is_lost_is_the_difference_of_two_figures_that_stand_beside_it(tmp_path: Path) -> None:
    """Of each seed the lower counts: 80 % without attack here, 80 % without the attackers' data there. Both means are 85 %, of
    which 78 % under attack is 7 points short, and 2 points are lost.
    """
    made_up(tmp_path, {("a", "IPM"): [0.78, 0.78]})
    late = {(None, 0): 0.8, (None, 1): 0.9, (ABSENT, 0): 0.9, (ABSENT, 1): 0.8}

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        own = {"accuracy": {**row["accuracy"], "late": late.get((row["attack"], row["seed"]), 0.78)}}
        return row | own | {"clean": {"late": late[None, row["seed"]]}}

    grid = edited(tmp_path, edit)
    assert "a breaks" not in verdict(grid)
    low = replace(grid, about={**grid.about, "bounds": {"loss": 0.01, "success": 0.1}})
    assert "a breaks (loses 2.0 points of accuracy to IPM, from 80.0 to 78.0 %)" in verdict(low)
    (row,) = defence_rows(grid)
    figures = [row[name] for name in ("clean", "absent", "held_against", "attacked", "lost")]
    assert figures == pytest.approx([0.85, 0.85, 0.8, 0.78, 0.02])
    (shown,) = defences(grid, "Plain")
    assert [shown["found"][name].partition(" ")[0] for name in ("held", "under", "lost")] == ["80.0", "78.0", "2.0"]


def test_what_is_taken_of_the_accuracy_without_attack_is_said_where_the_missing_data_hide_it(tmp_path: Path) -> None:
    """Before: "holds", of a rule that takes small steps once a client is missing, which an attack takes 12 points of."""
    words = verdict(made_up(tmp_path / "a", {("a", "IPM"): [0.78] * 3}, absent=0.45))
    assert (
        "a with 3 attackers 45.0 % (IPM takes 12.0 points of the 90.0 % without attack: a break, if the defence gives up without"
        " them)" in words
    )
    assert "if the defence gives up" not in verdict(made_up(tmp_path / "b", {("a", "IPM"): [0.87] * 3}, absent=0.45))


def test_one_seed_on_which_a_defence_gives_up_leaves_the_others_their_measure(tmp_path: Path) -> None:
    """`breakdown` and `attack` judged by seed, and the table by all or none."""
    made_up(tmp_path, {("a", "IPM"): [0.81] * 3}, absent=0.82)

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        at_chance = row["attack"] == ABSENT and row["seed"] == 1
        return row | {"classes": 10} | ({"accuracy": {"late": 0.1}} if at_chance else {})

    grid = edited(tmp_path, edit)
    assert grid.absent("a", 3.0, "Plain") == {0: 0.82, 2: 0.82}
    words = verdict(grid)
    assert "a breaks (loses 3.7 points of accuracy in the mean to IPM" in words
    assert "above the bound in 1 of 3 seeds" in words


def test_a_guess_is_that_of_the_ground_that_a_defence_was_played_on(tmp_path: Path) -> None:
    """A skewed partition in the same grid made 90 % on balanced labels "learned nothing, as chance is 94.7 %"."""
    of = {"IID": Iid(clients=8), "Dirichlet 0.1": Dirichlet(clients=8, alpha=0.1)}
    made_up(tmp_path, {("a", "IPM"): [0.9] * 3}, changes={"partitions": of})
    edit = lambda row: row | {"classes": 10, "one_label": 0.95 if row["partition"] != "IID" else 0.12}  # noqa: E731
    grid = edited(tmp_path, edit)
    assert [grid.chance(p) for p in grid.protections] == pytest.approx([0.12, 0.95])
    words = verdict(grid)
    assert "Under Plain on IID: with as many attackers as it is built for, a holds" in words
    assert "Under Plain on Dirichlet 0.1: no defence" in words


def test_two_references_are_both_named(tmp_path: Path) -> None:
    """b's run without the attackers' data lost rounds, so that its loss is against the run without attack alone."""
    made_up(tmp_path, {("a", "IPM"): [0.82] * 3, ("b", "IPM"): [0.82] * 3}, absent=0.82)

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        here = (row["attack"], row["defence"]) == (ABSENT, "b")
        return row | {"lost": {"rounds": 2, "reason": "too few"}} if here else row

    words = verdict(edited(tmp_path, edit))
    assert "a holds; b breaks (loses 8.0 points of accuracy to IPM, from " in words
    assert (
        "below that of the lower of the runs without attack and without the attackers' data or,"
        " where that is no measure, the run without attack, of the same seed"
    ) in words


@pytest.mark.parametrize("played", [0.5, 0.9])
def test_two_protections_are_judged_each_by_its_own_cells(tmp_path: Path, played: float) -> None:
    """What holds under one protection is not said of the other."""
    made_up(tmp_path, {("a", "IPM"): [0.9] * 3}, changes={"protections": {"Plain": Plain(), "Permuted": Permuted()}})

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        here = (row["attack"], row["protection"]) == ("IPM", "Permuted")
        return row | {"accuracy": row["accuracy"] | {"late": played}} if here else row

    words = verdict(edited(tmp_path, edit))
    assert "Under Plain: with as many attackers as it is built for, a holds" in words
    assert ("Under Permuted: no defence holds" in words) == (played < 0.8)


def test_a_worst_attack_that_was_played_on_one_seed_is_no_mean_of_three(tmp_path: Path) -> None:
    """In a merged table the headline took an attack of one seed for "the mean of 3 seeds"."""
    made_up(tmp_path, {("a", "IPM"): [0.70] * 3, ("b", "IPM"): [0.70] * 3, ("a", "ALIE"): [0.60] * 3})
    words = verdict(edited(tmp_path, without("ALIE", "a", 3.0, (1, 2))))
    assert "a and b break (a loses most: 30.0 points of accuracy to ALIE, played on 1 of 3 seeds, from 90.0 to 60.0 %)" in words
    assert "of the same seed, in the mean of 1 to 3 seeds." in words


def test_a_break_on_one_seed_is_no_loss_of_less_than_nothing(tmp_path: Path) -> None:
    """Before: "loses -2.7 points of accuracy in the mean to IPM, from 90.0 to 92.7 %, above the bound in 1 of 3 seeds"."""
    words = verdict(made_up(tmp_path, {("a", "IPM"): [0.84, 0.97, 0.97]}))
    assert "a breaks (loses up to 6.0 points of accuracy to IPM, nothing in the mean, above the bound in 1 of 3 seeds)." in words


def test_a_search_that_ended_in_an_error_on_one_seed_is_said_where_its_median_is() -> None:
    """Before: "over 3 by flip", of one of two seeds."""
    one: dict[str, Any] = {
        "seeds": [{"breaks": None, "holds": 3.0, "reason": ""}, {"breaks": None, "holds": None, "reason": "boom"}]
    }
    assert _fewer(one) == " (on 1 of 2 seeds; boom)"
    assert not _fewer({"seeds": one["seeds"][:1]})
    assert not _fewer({"seeds": one["seeds"][1:]}), "no result is said as such"
