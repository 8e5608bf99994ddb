"""The breakdown search on curves that are known, its intervals against their definitions, and many searches side by side."""

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace
from itertools import combinations
from math import ceil, inf, log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from cloister.evaluating.breaking import breakdown_json, current_rows, steps_of
from cloister.evaluating.over_seeds import broke_words, median_words, summed_up
from cloister.evaluating.run import Ledger
from cloister.evaluating.searches import Searched, broken_by, play_searches
from cloister.evaluating.tables import breakdown_words
from cloister.evaluating.workers import Task
from cloister.fl.runs.results_folder import Row
from cloister.grids.spread import DASH
from cloister.grids.workers import Crew
from cloister.threat_models.breakdown import Steps, median_interval, searched
from cloister.threat_models.broken import Bounds
from cloister.threat_models.evaluation import ABSENT, Cell, Evaluation, description
from cloister.threat_models.evaluation_folder import EvaluationFolder

from . import evaluation_sample as sample


@pytest.mark.parametrize("threshold", [*range(1, 22)])
def test_a_monotone_curve_gives_its_threshold_in_a_logarithm_of_tries(threshold: int) -> None:
    steps = Steps(least=1, most=20)
    asked: list[float] = []

    def breaks(strength: float) -> bool:
        asked.append(strength)
        return strength >= threshold

    found = searched(steps, breaks)
    assert len(asked) == len(set(asked))
    assert found.single
    if threshold > 20:
        assert (found.breaks, found.holds) == (None, 20)
        assert len(asked) == 1 + steps.probes
        return
    assert found.breaks == threshold
    assert found.holds == (threshold - 1 if threshold > 1 else None)
    assert len(asked) <= 2 + ceil(log2(20)) + 2 * steps.neighbours
    assert found.tried == tuple((s, s >= threshold) for s in sorted(asked))


def test_steps_need_not_be_whole() -> None:
    found = searched(Steps(least=0.1, most=0.5, step=0.1), lambda strength: strength > 0.25)
    assert (found.holds, found.breaks) == (0.2, 0.3)
    assert Steps(least=0.1, most=0.3, step=0.1).at(2) == 0.3


def test_a_strong_attack_that_is_noticed_does_not_hide_a_weak_one_that_is_not() -> None:
    """Broken at 4..8 only, so the strongest of 16 holds: a probe between finds it, and the search says it is not monotone."""
    found = searched(Steps(least=1, most=16, probes=3), lambda strength: 4 <= strength <= 8)
    assert (found.holds, found.breaks, found.single) == (3, 4, False)


def test_the_search_goes_on_below_a_neighbour_that_breaks() -> None:
    """Broken at 5 and from 8 on: bisection tries 8, 4, 6 and 7 and falls on the crossing at 8; two neighbours on, 5 is broken."""
    broken = {5, *range(8, 17)}
    found = searched(Steps(least=1, most=16, neighbours=2), lambda strength: strength in broken)
    assert (found.holds, found.breaks, found.single) == (4, 5, False)


def test_without_neighbours_the_same_curve_is_taken_for_monotone_which_is_why_they_are_looked_at() -> None:
    broken = {5, *range(8, 17)}
    found = searched(Steps(least=1, most=16, neighbours=0), lambda strength: strength in broken)
    assert (found.breaks, found.single) == (8, True)


@settings(max_examples=200)
@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 3), st.integers(0, 5))
def test_whatever_the_curve_a_crossing_that_was_seen_is_reported(curve: list[bool], neighbours: int, probes: int) -> None:
    steps = Steps(least=0, most=len(curve) - 1, neighbours=neighbours, probes=probes)
    found = searched(steps, lambda strength: curve[int(strength)])
    assert found.tried
    assert all(curve[int(strength)] == broke for strength, broke in found.tried)
    tried = dict(found.tried)
    if found.breaks is None:
        assert not any(tried.values())
        assert not curve[-1]
        return
    assert tried[found.breaks]
    assert found.breaks == min(strength for strength, broke in tried.items() if broke)
    assert found.holds == (found.breaks - 1 if found.breaks > 0 else None)
    assert found.holds is None or not tried[found.holds]
    assert found.single == all(broke == (strength >= found.breaks) for strength, broke in tried.items())
    if curve == sorted(curve):
        assert found.single
        assert found.breaks == curve.index(True)


@pytest.mark.parametrize(
    "wrong",
    [{"most": 0}, {"most": inf}, {"most": 2, "step": 0}, {"most": 2, "probes": -1}, {"most": 1e9}],
)
def test_steps_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="search"):
        Steps(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", range(1, 26))
def test_the_interval_is_the_narrowest_of_order_statistics_that_covers(n: int) -> None:
    """By the definition: the median lies between the r-th and s-th of n draws if r <= heads < s of n fair coins."""

    def coverage(r: int, s: int) -> float:
        return float(sum(binom.pmf(k, n, 0.5) for k in range(r, s)))

    found = median_interval([float(v) for v in range(1, n + 1)], 0.95)
    r, s = int(found.low), int(found.high)
    assert r + s == n + 1
    assert found.coverage == pytest.approx(coverage(r, s))
    fits = [r_ for r_ in range(1, n // 2 + 1) if coverage(r_, n + 1 - r_) >= 0.95]
    assert r == max(fits, default=1)
    assert (found.median + found.upper) / 2 == np.median(np.arange(1, n + 1))
    assert found.upper - found.median == (n + 1) % 2


@pytest.mark.parametrize(
    ("breaks", "median", "broke"),
    [
        ([1, 2], "1 to 2", "2 of 2 seeds"),
        ([2, None], "2 to over 5", "1 of 2 seeds"),
        ([None, None], "over 5", "0 of 2 seeds"),
        ([3, 1, 1], "1", "3 of 3 seeds"),
        ([4], "4", "1 of 1 seed"),
    ],
)
def test_the_median_is_of_strengths_that_were_tried_and_says_with_how_many_seeds(
    breaks: list[int | None], median: str, broke: str
) -> None:
    """Before: "1.5 attackers"; and of two seeds, of which one broke at 2, "over 5"."""
    seeds = [{"seed": k, "breaks": b, "holds": 5 if b is None else None, "by": "", "reason": ""} for k, b in enumerate(breaks)]
    failed = {"seed": 9, "breaks": None, "holds": None, "by": "", "reason": "at strength 5: no such thing"}
    one = {"seeds": [*seeds, failed], "median": {"median": 1.5}}  # as an earlier version wrote it
    (read,) = summed_up({"results": [one]})["results"]
    assert (median_words(read, 5), broke_words(read)) == (median, broke)


def test_five_seeds_cover_ninety_four_per_cent_and_the_interval_says_so() -> None:
    found = median_interval([3, 5, inf, 4, inf])
    assert (found.median, found.low, found.high, found.coverage) == (5, 3, inf, 0.9375)
    with pytest.raises(ValueError, match="at least one"):
        median_interval([])


# --- many searches side by side ---------------------------------------------------------------------------------------

THRESHOLDS = {("minus", "fedavg"): 3, ("minus", "multikrum"): 6, ("backdoor", "fedavg"): 1, ("backdoor", "multikrum"): 99}


def crew_of(played: list[tuple[Any, ...]], count: int) -> Crew:
    """Plays cells whose harm is known: the seed shifts the threshold."""

    def submit(task: Task) -> "Future[Row]":
        cell, _ = task
        row: dict[str, Any] = {"key": str(cell), "status": "done", "reason": "", **{n: getattr(cell, n) for n in cell.__slots__}}
        if cell.attack is None or cell.strength is None:
            row["clean_sha256"] = ""
        else:
            played.append((cell.attack, cell.defence, cell.seed, cell.strength))
            threshold = THRESHOLDS[cell.attack, cell.defence] + cell.seed
            row |= {"clean": {"late": 0.9}, "accuracy": {"late": 0.5 if cell.strength >= threshold else 0.87}}
            if cell.defence == "multikrum" and cell.seed == 2:
                row |= {"status": "failed", "reason": "no such thing"}
        future: Future[Row] = Future()
        future.set_result(row)
        return future

    return Crew(submit, count)


class Known(Ledger):
    """Cells by name, so that made-up lines can be found again."""

    __slots__ = ()

    def key(self, cell: Any) -> str:
        return str(cell)

    def known(self, cell: Any) -> Row | None:
        return self.rows.get(str(cell))


@pytest.mark.parametrize("count", [1, 5])
def test_searches_side_by_side_find_each_its_own_threshold_and_play_no_cell_twice(tmp_path: Path, count: int) -> None:
    evaluation = replace(sample.evaluation, seeds=(0, 1, 2))
    folder = EvaluationFolder(tmp_path / str(count))
    played: list[tuple[Any, ...]] = []
    steps = Steps(most=8)

    def everything(ledger: Ledger) -> list[Searched]:
        return list(
            play_searches(ledger, crew_of(played, count), steps, ["minus", "backdoor"], ["fedavg", "multikrum"], ["Plain"])
        )

    found = everything(Known(evaluation, folder, folder.open(description(evaluation), resume=False)))
    assert len(found) == 12
    assert len(played) == len(set(played))
    for one in found:
        if one.defence == "multikrum" and one.seed == 2:
            assert (one.found, one.reason) == (None, "at strength 8: no such thing")
            continue
        assert one.found is not None
        threshold = THRESHOLDS[one.attack, one.defence] + one.seed
        assert one.found.breaks == (threshold if threshold <= 8 else None)
    again = len(played)
    rows = folder.open(description(evaluation), resume=True)
    resumed = everything(Known(evaluation, folder, rows))
    assert len(played) == again
    assert sorted(map(str, resumed)) == sorted(map(str, found))
    check_summary(evaluation, steps, found)


def test_a_defence_that_does_not_work_without_attack_is_not_searched_and_not_called_unbreakable(tmp_path: Path) -> None:
    """Its run without attack has no result in any of 4 rounds, so no attack takes anything from it; in 3 of 4 it is searched."""
    evaluation = replace(sample.evaluation, seeds=(0,))
    played: list[tuple[Any, ...]] = []
    usual = crew_of(played, 1)
    for rounds, searches in ((4, False), (3, True)):

        def submit(task: Task, rounds: int = rounds) -> "Future[Row]":
            future: Future[Row] = Future()
            stuck = {"rounds": [0, 1, 2, 3], "unmoved": {"rounds": rounds, "reason": "too few updates"}}
            future.set_result({**usual.submit(task).result(), **(stuck if task[0].attack is None else {})})
            return future

        played.clear()
        folder = EvaluationFolder(tmp_path / str(rounds))
        ledger = Known(evaluation, folder, folder.open(description(evaluation), resume=False))
        (one,) = play_searches(ledger, Crew(submit, 1), Steps(most=8), ["minus"], ["fedavg"], ["Plain"])
        assert bool(played) == (one.found is not None) == searches
        (result,) = breakdown_json(evaluation, Steps(most=8), Bounds(), [one])["results"]
        assert (result["median"] is not None) == searches
        assert searches or one.reason == "it does not work without attack either: too few updates"


@pytest.mark.parametrize(("late", "said"), [(0.106, "learned nothing without attack (10.6 %, as chance is 10.0 %)"), (0.5, None)])
def test_a_search_on_a_defence_that_learned_nothing_says_that_and_no_strength(late: float, said: str | None) -> None:
    evaluation = replace(sample.evaluation, seeds=(0,))
    held = Searched("minus", "fedavg", "Plain", 0, searched(Steps(least=1, most=3), lambda strength: False))
    clean = {"attack": None, "defence": "fedavg", "protection": "Plain", "partition": "", "status": "done", "classes": 10}
    rows = [{**clean, "accuracy": {"late": late}}]
    found = breakdown_json(evaluation, Steps(least=1, most=3), Bounds(), [held], rows)
    (one,) = found["results"]
    assert one.get("nothing") == said
    assert breakdown_words(one, 3)[0] == ("over 3" if said is None else DASH)


@pytest.mark.parametrize(("limit", "strength", "said"), [(2, "attackers", True), (3, "attackers", False), (2, "boost", False)])
def test_a_break_beyond_what_a_defence_is_built_for_says_so(limit: int, strength: str, said: bool) -> None:
    evaluation = replace(sample.evaluation, seeds=(0,), strength=strength)
    broken = Searched("minus", "fedavg", "Plain", 0, searched(Steps(least=1, most=5), lambda strength: strength >= 3))
    row = {"attack": "minus", "defence": "fedavg", "protection": "Plain", "partition": "", "status": "done", "built_for": limit}
    row |= {"strength": 3.0, "attackers": 3}
    other = {**row, "defence": "median", "built_for": 0}
    steps = Steps(least=1, most=5)
    (one,) = breakdown_json(evaluation, steps, Bounds(), [broken], [row, other])["results"]
    assert breakdown_words(one, 5)[0] == "3"
    assert breakdown_words(one, 5)[2] == (f"beyond the {limit} that it is built for" if said else "")
    (of_cohorts,) = breakdown_json(evaluation, steps, Bounds(), [broken], [row | {"attackers": 2}, other])["results"]
    assert not breakdown_words(of_cohorts, 5)[2], "of three attackers two at most are at work in one round"
    limited = replace(evaluation, limits={"fedavg": 5})
    assert not breakdown_words(breakdown_json(limited, steps, Bounds(), [broken], [row])["results"][0], 5)[2]


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        ((2, 3, 3), "within the 2 that it is built for on 1 of 3 seeds"),  # before: beyond the 2 that it is built for
        ((3, 3, None), "beyond the 2 that it is built for"),
        ((2, None, None), "within the 2 that it is built for on 1 of 3 seeds"),  # before: nothing
        ((2, 2, 3), ""),  # the median says it
        ((3, None, None), ""),
    ],
)
def test_a_break_is_beyond_what_a_defence_is_built_for_only_if_no_seed_breaks_within(
    breaks: tuple[int | None, ...], said: str
) -> None:
    evaluation, steps = replace(sample.evaluation, seeds=(0, 1, 2), limits={"fedavg": 2}), Steps(least=1, most=3)
    found = [
        Searched("minus", "fedavg", "Plain", seed, searched(steps, lambda strength, first=first or 9: strength >= first))
        for seed, first in enumerate(breaks)
    ]
    (one,) = breakdown_json(evaluation, steps, Bounds(), found)["results"]
    assert breakdown_words(one, 3)[2] == said


def test_what_a_defence_is_built_for_is_of_the_clients_under_attack() -> None:
    """Before: "beyond the 2 that it is built for", of a median of ten clients, as six are left without the attackers' data."""
    evaluation, steps = replace(sample.evaluation, seeds=(0,)), Steps(least=1, most=4)
    broken = Searched("minus", "fedavg", "Plain", 0, searched(steps, lambda strength: strength >= 3))
    row = {"defence": "fedavg", "protection": "Plain", "partition": "", "status": "done", "strength": 3.0}
    under_attack = row | {"attack": "minus", "built_for": 4, "attackers": 3}
    without = row | {"attack": ABSENT, "built_for": 2, "attackers": 0}
    (one,) = breakdown_json(evaluation, steps, Bounds(), [broken], [under_attack, without])["results"]
    assert one["built_for"] == 4
    assert not breakdown_words(one, 4)[2]


def test_what_is_taken_of_the_accuracy_without_attack_is_said_where_the_missing_data_hide_it() -> None:
    """Before: "0 of 3 seeds, over 5" and no more, of a rule that is as bad once somebody is missing."""
    evaluation, steps = replace(sample.evaluation, seeds=(0,)), Steps(least=1, most=5)
    whole = Searched("minus", "fedavg", "Plain", 0, searched(steps, lambda strength: False))
    row = {"attack": "minus", "defence": "fedavg", "protection": "Plain", "partition": "", "status": "done", "seed": 0}
    of = {1.0: 0.88, 3.0: 0.5, 5.0: 0.4}
    rows = [row | {"strength": k, "clean": {"late": 0.9}, "accuracy": {"late": v}} for k, v in of.items()]
    (one,) = breakdown_json(evaluation, steps, Bounds(), [whole], rows)["results"]
    words = "on 1 of 1 seed more than the bound is taken of the accuracy without attack at 3;"
    assert breakdown_words(one, 5)[2].startswith(words)
    (little,) = breakdown_json(evaluation, steps, Bounds(), [whole], rows[:1])["results"]
    assert not breakdown_words(little, 5)[2]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"attackers": 0}, "in 1 of 1 runs no attacker was at work in any round"),
        ({"attackers": 2, "rejected": {"members": 8}}, "in 1 of 1 runs updates of attackers were refused"),
        ({"attackers": 2, "same_models": True}, "in 1 of 1 runs every loyal client ended with the very model"),
        (
            {"attackers": 2, "success": {"last_poisoned": 1.0, "clean_mean": 0.99}},
            "its trigger works on the models without attack",
        ),
        ({"attackers": 2}, ""),
    ],
)
def test_a_search_says_where_the_attack_did_nothing(row: dict[str, Any], words: str) -> None:
    """Before: "over 3", and not a word, of an attack that begins after the last round."""
    evaluation, steps = replace(sample.evaluation, seeds=(0,)), Steps(least=1, most=3)
    whole = Searched("minus", "fedavg", "Plain", 0, searched(steps, lambda strength: False))
    line = {"attack": "minus", "defence": "fedavg", "protection": "Plain", "partition": "", "status": "done", "strength": 3.0}
    (one,) = breakdown_json(evaluation, steps, Bounds(), [whole], [line | row])["results"]
    assert words in breakdown_words(one, 3)[2]
    assert bool(words) == bool(one.get("in_vain"))


def test_lines_of_what_was_edited_since_are_in_no_remark(tmp_path: Path) -> None:
    """Before, a search counted what an attack of the same name had done before it was edited, and other seeds'."""
    evaluation = replace(sample.evaluation, seeds=(0,))
    folder = EvaluationFolder(tmp_path)
    ledger = Ledger(evaluation, folder, folder.open(description(evaluation), resume=False))
    for seed, key in ((0, None), (0, "as it was"), (7, None)):
        cell = Cell("minus", "fedavg", 3.0, "Plain", seed)
        row = {"key": key or ledger.key(cell), **{name: getattr(cell, name) for name in cell.__slots__}, "status": "done"}
        ledger.rows[row["key"]] = row
    (row,) = current_rows(evaluation, ledger)
    assert (row["seed"], row["key"]) == (0, ledger.key(Cell("minus", "fedavg", 3.0, "Plain", 0)))


def attacked(cell: Cell, late: float, success: float | None = None) -> dict[str, Any]:
    """A made-up line under attack, of a defence with .9 without attack."""
    gain = None if success is None else {"last_poisoned": success, "clean_mean": 0.1}
    place = {name: getattr(cell, name) for name in cell.__slots__}
    done = {"key": str(cell), "status": "done", "reason": "", **place}
    return done | {"clean": {"late": 0.9}, "accuracy": {"late": late}, "success": gain}


def test_what_the_missing_data_cost_is_no_break_and_such_runs_are_played_where_they_decide_and_once(tmp_path: Path) -> None:
    """Both attacks lose .3 against the run without attack from 3 on; from 5 on the data of so many are worth .28 of it."""
    evaluation = replace(sample.evaluation, seeds=(0,), absent=True, attacks=dict.fromkeys(("one", "two"), sample.minus))
    played: list[Cell] = []

    def submit(task: Task) -> "Future[Row]":
        cell, _ = task
        played.append(cell)
        late = 0.9 if cell.strength is None or cell.strength < 3 else 0.6
        if cell.attack == ABSENT:
            late = 0.9 if cell.strength < 5 else 0.62
        future: Future[Row] = Future()
        future.set_result({**attacked(cell, late), "clean_sha256": "", "rounds": [0]})
        return future

    folder = EvaluationFolder(tmp_path / "folder")
    ledger = Known(evaluation, folder, folder.open(description(evaluation), resume=False))
    found = list(play_searches(ledger, Crew(submit, 3), Steps(most=7), ["one", "two"], ["fedavg"], ["Plain"]))
    assert [(one.found.breaks, one.found.single, one.by) for one in found if one.found] == [
        (3, False, {3: "accuracy", 4: "accuracy"})
    ] * 2
    assert len(played) == len(set(played))
    absent = {cell.strength for cell in played if cell.attack == ABSENT}
    assert {3, 4, 7} <= absent
    assert not {1, 2} & absent


def test_a_backdoor_that_leaves_accuracy_alone_breaks_and_it_is_said_that_it_was_the_backdoor() -> None:
    cell = Cell("backdoor", "fedavg", 2.0, "Plain", 0)
    assert broken_by(attacked(cell, 0.9, 0.75), None, Bounds()) == "backdoor"
    assert broken_by(attacked(cell, 0.9, 0.15), None, Bounds()) == ""
    assert broken_by(attacked(cell, 0.5, 0.75), None, Bounds()) == "accuracy and backdoor"
    assert broken_by(attacked(cell, 0.5, 0.75), {"status": "done", "accuracy": {"late": 0.52}}, Bounds()) == "backdoor"
    lost = {"status": "done", "accuracy": {"late": 0.52}, "unmoved": {"rounds": 1, "reason": "too few"}}
    assert broken_by(attacked(cell, 0.5), lost, Bounds()) == "accuracy"


def check_summary(evaluation: Evaluation, steps: Steps, found: Iterable[Searched]) -> None:
    results = {(r["attack"], r["defence"]): r for r in breakdown_json(evaluation, steps, Bounds(), list(found))["results"]}
    assert results["minus", "fedavg"]["median"] == {"median": 4, "upper": 4, "low": 3, "high": 5, "coverage": 0.75}
    nothing = {"median": None, "upper": None, "low": None, "high": None, "coverage": 0.5}
    assert results["backdoor", "multikrum"]["median"] == nothing
    assert [s["reason"] for s in results["minus", "multikrum"]["seeds"]] == ["", "", "at strength 8: no such thing"]
    assert [s["seed"] for s in results["minus", "fedavg"]["seeds"]] == [0, 1, 2]


def test_the_command_line_changes_the_steps_of_the_evaluation() -> None:
    with pytest.raises(ValueError, match="--most"):
        steps_of(sample.evaluation, {"step": 2, "most": None})
    assert steps_of(sample.evaluation, {"most": 7, "least": None}) == Steps(most=7)
    given_ = replace(sample.evaluation, breakdown=Steps(most=9, step=2))
    assert steps_of(given_, {"most": 5, "step": None}) == Steps(most=5, step=2)


def test_combinations_of_two_broken_ranges_never_report_a_strength_that_holds() -> None:
    for first, second in combinations(range(12), 2):
        broken = {first, second}
        found = searched(Steps(least=0, most=11, probes=11), lambda strength, broken=broken: strength in broken)
        assert found.breaks in broken


def test_no_attack_has_the_name_of_the_run_that_harm_is_held_against() -> None:
    """Before: it was played in the place of that run, and others were held against it."""
    with pytest.raises(ValueError, match="no attack is called 'absent', the name of the run without the attackers' data"):
        replace(sample.evaluation, attacks={"absent": sample.minus, "minus": sample.minus})
