"""The plan of a search on made-up defences whose breaks are known: what it finds, and that a kill loses nothing."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.runs.results_folder import Row
from cloister.threat_models.broken import Bounds
from cloister.threat_models.membership import Pool
from cloister.threat_models.search.choosing import Usual
from cloister.threat_models.search.fields import Numbers
from cloister.threat_models.search.forms import usual_forms
from cloister.threat_models.search.found import Point, cheapest, cost_of, points_of, strength_of, worst
from cloister.threat_models.search.plan import BATCH, Plan, hunt, settled
from cloister.threat_models.search.play import Harm, Sought, Try, harm, last_rounds
from cloister.threat_models.search.space import Space

from . import evaluation_sample as sample

pytest.importorskip("optuna")

FEW = ("MinusGradient", "IPM", "ALIE", "MinMax", "LabelFlip")
KRUM = Space(replace(sample.scenario, algorithm=RobustFedAvg(rule=MultiKrum(2))), only=FEW)
HARDENED = Space(replace(sample.scenario, rounds=40, algorithm=HardenedFLIC(rounds_before=10, every=5)))
Loss = Callable[[Numbers, int, int], float]
"""Of a made-up defence: of a point, a number of attackers and a seed."""


def line(one: Try, loss: Loss, success: float | None = None) -> Row:
    """The line of a run of a defence that keeps .9 of accuracy where nobody attacks, with two loyal clients."""
    accuracy = 0.9 if one.is_clean or one.is_absent else 0.9 - loss(one.numbers, one.attackers, one.seed)
    return {
        "key": repr((sorted(one.numbers.items()), one.attackers, one.seed)),
        "numbers": dict(one.numbers),
        "attackers": one.attackers,
        "seed": one.seed,
        "status": "done",
        "reason": "",
        "accuracy": accuracy,
        "of": {"0": accuracy + 0.005, "1": accuracy - 0.005},
        "success": None if success is None else {"last_poisoned": success, "worst": success, "clean_mean": 0.1},
        "unmoved": 0,
        "lost": 0,
        "cost": {"seconds": 0.5},
    }


def played(space: Space, plan: Plan, loss: Loss, known: Mapping[str, Row] | None = None, stop: int = 10**9) -> list[Row]:
    """Every line of a search, up to `stop` new ones, after which it is killed."""
    known, rows, new = dict(known or {}), dict[str, Row](), 0
    hunted = hunt(space, plan)
    try:
        asked = next(hunted)
        while True:
            answers = []
            for one in asked:
                row = line(one, loss)
                if row["key"] not in known:
                    new += 1
                    if new > stop:
                        return list(rows.values())
                assert row["key"] not in rows, "a run that is known was asked for again"
                rows[row["key"]] = row
                answers.append(row)
            asked = hunted.send(answers)
    except StopIteration:
        return list(rows.values())


def found(space: Space, plan: Plan, rows: list[Row]) -> Point | None:
    return cheapest(space, points_of(rows, plan.seeds, plan.held_out, plan.sought), plan.held_out)


def weak_ipm(numbers: Numbers, attackers: int, seed: int) -> float:
    """Broken by inner product manipulation that is weak enough, from 5 attackers on."""
    return 0.4 if numbers["attack"] == "IPM" and float(numbers["IPM.eps"]) < 0.3 and attackers >= 5 else 0.01


@pytest.mark.long
def test_a_break_at_a_strength_that_no_default_has_is_found_and_made_as_cheap_as_it_can_be() -> None:
    plan = Plan(least=1, most=9, seeds=(0,), held_out=(1, 2), runs=250)
    rows = played(KRUM, plan, weak_ipm)
    point = found(KRUM, plan, rows)
    assert point is not None
    assert (point.attackers, point.numbers["attack"]) == (5, "IPM")
    assert 0.01 <= float(point.numbers["IPM.eps"]) < 0.02  # a quarter of a decade from the weakest that there is
    assert set(point.held_out) == {1, 2}
    assert len(rows) <= 250


@pytest.mark.parametrize("space", [KRUM, HARDENED], ids=["krum", "hardened"])
@pytest.mark.long
def test_where_nothing_breaks_the_whole_budget_is_spent_and_the_worst_is_told(space: Space) -> None:
    plan = Plan(least=1, most=8, seeds=(0,), held_out=(1,), runs=90)
    rows = played(space, plan, lambda numbers, attackers, seed: attackers / 1000)
    assert len(rows) == 90
    assert found(space, plan, rows) is None
    most = worst(points_of(rows, plan.seeds, plan.held_out, plan.sought).values())
    assert most is not None
    assert (most.attackers, round(most.loss, 6)) == (8, 0.008)
    assert len({row["attackers"] for row in rows}) >= 3  # how harm grows is known at more than one number


def test_with_a_small_budget_defaults_come_before_fewer_attackers_and_what_is_left_of_them_after() -> None:
    """A budget of 40 ended with attacks that were never played, one of which broke the defence, while points were drawn."""
    plan = Plan(least=1, most=8, seeds=(0,), held_out=(1,), runs=40, exhaust=True)
    rows = played(HARDENED, plan, lambda numbers, attackers, seed: attackers / 1000)
    first = next(k for k, row in enumerate(rows) if row["attackers"] not in (0, 8))
    assert first >= 0.7 * len(rows)
    known = {repr(row["numbers"]) for row in rows[:first]}
    late = {repr(row["numbers"]) for row in rows[first:] if row["attackers"] == 8}
    assert late
    assert not late & known
    assert late <= {repr(numbers) for numbers in usual_forms(HARDENED)}


@pytest.mark.parametrize("all_break", [True, False])
def test_attacks_that_are_named_are_each_played_as_they_are_before_anything_else(all_break: bool) -> None:
    """Before: of three, all 14 runs of a budget were of the first, which broke the defence and was made weaker."""
    only = ("MinusGradient", "LabelFlip", "Scaled", "GradientAscent", "WorstModel", "IPM")
    space = Space(HARDENED.scenario, only=only)
    plan = Plan(least=1, most=3, seeds=(0,), held_out=(1, 2), runs=20)
    rows = played(space, plan, lambda *_: 0.5 if all_break else 0.01)
    tried = [row for row in rows if "attack" in row["numbers"] and row["seed"] == 0]
    first = [Usual({"attack": name}) for name in ("MinusGradient", "LabelFlip", "Scaled", "IPM", "GradientAscent")]
    first += [Usual({"attack": "Honest", "votes": "WorstModel"})]
    for choose in first:
        space.adversary(choose, Pool(1))
    assert sorted(repr(choose.chosen) for choose in first) == sorted(repr(row["numbers"]) for row in tried[:6])
    assert {row["attackers"] for row in tried[:6]} == {3}
    assert (found(space, plan, rows) is not None) == all_break


def test_of_more_named_attacks_than_the_budget_is_for_a_break_can_still_be_held() -> None:
    plan = Plan(least=1, most=3, seeds=(0,), held_out=(1, 2), runs=11)
    rows = played(KRUM, plan, weak_ipm)
    assert {row["numbers"]["attack"] for row in rows if "attack" in row["numbers"]} == set(FEW)
    rows = played(KRUM, plan, lambda *_: 0.5)
    point = found(KRUM, plan, rows)
    assert point is not None
    assert (point.attackers, len(rows)) == (3, 11)


@pytest.mark.long
def test_what_breaks_on_the_searched_seed_alone_is_no_break() -> None:
    plan = Plan(least=1, most=4, seeds=(7,), held_out=(8, 9), runs=120)
    rows = played(KRUM, plan, lambda numbers, attackers, seed: 0.5 if seed in (7, 8) else 0.0)
    assert found(KRUM, plan, rows) is None
    points = points_of(rows, plan.seeds, plan.held_out, plan.sought)
    refuted = [point for point in points.values() if point.refuted()]
    assert refuted
    assert all(set(point.held_out) <= {8, 9} for point in refuted)
    assert not any(point.breaks(plan.held_out) for point in points.values())


@pytest.mark.parametrize(("there", "seeds"), [(0.5, [3, 1]), (0.0, [3])])
def test_what_an_earlier_budget_left_open_is_played_on_every_seed_searched_first(there: float, seeds: list[int]) -> None:
    """Before, on those held out alone, so that a break "on the seeds searched" was one on the first of them."""
    plan = Plan(least=1, most=2, seeds=(0, 3), held_out=(1,), runs=9)
    point = Point({"attack": "IPM", "IPM.eps": 0.5}, 2, {0: Harm(1.6, 0.08, 0.1, None, None)})
    driven, asked = settled(plan, [point]), list[int]()
    with suppress(StopIteration):
        (one,) = next(driven)
        while True:
            asked += [] if one.is_clean or one.is_absent else [one.seed]
            row = line(one, lambda _, __, seed: there if seed == 3 else 0.5)
            (one,) = driven.send([row])
    assert asked == seeds


@pytest.mark.parametrize("seed", [3, 1])
def test_a_point_without_a_result_on_a_seed_is_no_break(seed: int) -> None:
    harms = {s: Harm(4.0, 0.2, 0.3, None, None) for s in (0, 1, 3)}
    whole = Point({"attack": "IPM"}, 2, {s: harms[s] for s in (0, 3)}, {1: harms[1]})
    assert whole.breaks([1])
    kept = [{s: h for s, h in of.items() if s != seed} for of in (whole.searched, whole.held_out)]
    assert not Point(whole.numbers, 2, *kept, {seed: "RuntimeError: no"}).breaks([1])


@pytest.mark.long
def test_pulses_and_votes_are_tried_without_a_hint() -> None:
    def pulsed(numbers: Numbers, attackers: int, seed: int) -> float:
        return 0.5 if numbers["schedule"] == "pulses" and attackers >= 3 else 0.0

    def voted(numbers: Numbers, attackers: int, seed: int) -> float:
        return 0.5 if numbers["votes"] == "WorstModel" and numbers["attack"] == "Honest" else 0.0

    plan = Plan(least=1, most=8, seeds=(0,), held_out=(1,), runs=100)
    for loss, attackers in ((pulsed, 3), (voted, 1)):
        point = found(HARDENED, plan, played(HARDENED, plan, loss))
        assert point is not None
        assert point.attackers == attackers


@pytest.mark.long
@settings(max_examples=4, deadline=None)
@given(stop=st.integers(1, 60))
def test_a_search_that_is_killed_goes_on_as_if_it_had_not_been(stop: int) -> None:
    plan = Plan(least=2, most=6, seeds=(0, 3), held_out=(1,), runs=60)
    whole = played(KRUM, plan, weak_ipm)
    part = played(KRUM, plan, weak_ipm, stop=stop)
    assert part == whole[: len(part)]
    again = played(KRUM, plan, weak_ipm, {row["key"]: row for row in part})
    assert again == whole


def test_a_second_seed_is_played_only_of_what_is_promising() -> None:
    plan = Plan(least=3, most=3, seeds=(0, 1), held_out=(2,), runs=80)
    rows = played(KRUM, plan, lambda numbers, attackers, seed: 0.09 if numbers["attack"] == "ALIE" else 0.0)
    tried = [row for row in rows if "attack" in row["numbers"]]
    second = {row["numbers"]["attack"] for row in tried if row["seed"] == 1}
    assert "ALIE" in second
    assert "MinMax" not in second


def test_the_first_of_cheap_breaks_ends_the_search_unless_it_is_to_go_on() -> None:
    def all_break(numbers: Numbers, attackers: int, seed: int) -> float:
        return 0.3

    plan = Plan(least=1, most=1, seeds=(0,), held_out=(1,), runs=70)
    brief, long = played(KRUM, plan, all_break), played(KRUM, replace(plan, exhaust=True), all_break)
    assert len(brief) < 30
    assert len(long) == 70
    assert {row["numbers"].get("attack") for row in long} == {None, *FEW}


def sent(numbers: Numbers) -> float:
    """How many times minus the gradient a point of `MEAN` sends; 0 of another attack."""
    factors = (float(value) for name, value in numbers.items() if name.endswith((".strength", ".factor")))
    return prod(factors) if numbers["attack"] == "MinusGradient" else 0.0


MEAN = Space(sample.scenario, only=("MinusGradient", "LabelFlip"))


def test_a_hundredth_of_an_attack_that_is_sent_a_million_times_is_not_the_weakest() -> None:
    """Before: "MinusGradient(strength 0.01), what each sends times 1,000,000" of a mean that three times the gradient breaks."""
    plan = Plan(least=1, most=1, seeds=(0,), held_out=(1, 2), runs=150)
    rows = played(MEAN, plan, lambda numbers, *_: 0.5 if sent(numbers) > 3 else 0.0)
    point = found(MEAN, plan, rows)
    assert point is not None
    assert 3 < sent(point.numbers) < 6
    assert cost_of(MEAN, point) == (1, pytest.approx(sent(point.numbers)))
    assert len(rows) < 150


def test_what_costs_less_than_the_break_is_held_before_anything_is_made_weaker() -> None:
    """Before: the plain attack, known to break the seed searched, was left "others not tried", with budget left."""
    plan = Plan(least=1, most=1, seeds=(0,), held_out=(1, 2), runs=150)
    rows = played(Space(sample.scenario), plan, lambda numbers, *_: min(0.9, sent(numbers) / 10))
    tried = [row for row in rows if "attack" in row["numbers"]]
    held = [sent(row["numbers"]) for row in tried if row["seed"] == 1]
    assert held[:2] == [1e6, 1]
    point = found(MEAN, plan, rows)
    assert point is not None
    assert 0.5 < sent(point.numbers) < 1
    assert len(rows) < 60


def test_a_run_that_ends_ruined_breaks_a_defence_whatever_it_has_late() -> None:
    one = Try({"attack": "IPM"}, 3, 0)
    clean, absent, row = ({**line(t, lambda *_: 0.02), "final": {"0": 0.9, "1": 0.9}} for t in (one.clean, one.absent, one))
    ruined = {**row, "final": {"0": 0.3, "1": 0.2}}
    assert harm(row, clean, absent, Sought()).end is None
    of = harm(ruined, clean, absent, Sought())
    assert (round(of.loss, 9), round(of.end or 0, 9), round(of.severity, 9)) == (0.02, 0.65, 13)
    assert harm(ruined, clean, {**absent, "final": {"0": 0.25, "1": 0.25}}, Sought()).severity < 1
    earlier = {name: value for name, value in clean.items() if name != "final"}
    assert harm(ruined, earlier, absent, Sought()).end is None


def test_a_strength_that_is_set_below_0_is_not_weakened() -> None:
    """Before: "math domain error", and no report of the break that was found."""
    space = Space(KRUM.scenario, only=("Scaled",), fixed={"Scaled.factor": -5.0})
    plan = Plan(least=3, most=3, seeds=(0,), held_out=(1,), runs=40)
    rows = played(space, plan, lambda numbers, attackers, seed: 0.4)
    point = found(space, plan, rows)
    assert point is not None
    assert point.numbers["Scaled.factor"] == -5.0


def test_cpu_time_is_a_budget_too() -> None:
    plan = Plan(least=1, most=8, seeds=(0,), held_out=(1,), seconds=20.0)
    rows = played(KRUM, plan, lambda *_: 0.0)
    assert 40 <= len(rows) <= 40 + BATCH  # half a second each


def test_a_defence_without_a_run_of_its_own_ends_the_search() -> None:
    hunted = hunt(KRUM, Plan(least=1, most=8, seeds=(0,), held_out=(1,), runs=50))
    (one,) = next(hunted)
    with pytest.raises(ValueError, match="no run without attack: too few"):
        hunted.send([{**line(one, weak_ipm), "status": "failed", "reason": "too few"}])


def test_plans_that_make_no_sense_are_refused() -> None:
    known: dict[str, Any] = {"least": 1, "most": 2, "seeds": (0,), "held_out": (1,), "runs": 5}
    for wrong, words in (
        ({"least": 0}, "from 1 on"),
        ({"least": 3}, "at most the most"),
        ({"held_out": (0,)}, "others to hold out"),
        ({"held_out": ()}, "others to hold out"),
        ({"runs": float("inf")}, "needs a budget"),
        ({"runs": 0}, "needs a budget"),
    ):
        with pytest.raises(ValueError, match=words):
            Plan(**{**known, **wrong})


def test_harm_is_in_units_of_the_bound_that_is_nearest() -> None:
    one = Try({"attack": "IPM"}, 3, 0)
    clean, absent = line(one.clean, weak_ipm), line(one.absent, weak_ipm)
    sought = Sought(bounds=Bounds(loss=0.1, success=0.2))
    lost = harm(line(one, lambda *_: 0.25), clean, absent, sought)
    assert (round(lost.severity, 9), round(lost.loss, 9), round(lost.client, 9)) == (2.5, 0.25, 0.25)
    taken_in = harm(line(one, lambda *_: 0.0, success=0.8), clean, absent, sought)
    assert (taken_in.severity, taken_in.success, taken_in.clean) == (pytest.approx(3.5), 0.8, 0.1)
    by_accuracy = harm(line(one, lambda *_: 0.05, success=0.8), clean, absent, replace(sought, goal="accuracy"))
    assert by_accuracy.severity == pytest.approx(0.5)
    assert harm(line(one, lambda *_: 0.5), clean, absent, replace(sought, goal="backdoor")).severity == 0
    failed = {**line(one, lambda *_: 0.5), "status": "failed"}
    assert harm(failed, clean, absent, sought).severity < 0
    with pytest.raises(ValueError, match="loss is above 0"):
        Bounds(loss=0)
    with pytest.raises(ValueError, match="the goal is any, accuracy, backdoor, not 'all'"):
        Sought(goal="all")  # type: ignore[arg-type]


def test_loss_is_against_the_lower_of_two_runs_as_in_an_evaluation() -> None:
    """What the missing data are worth is not the attack's doing; a run without them that came to nothing says nothing of it."""
    one, sought = Try({"attack": "IPM"}, 3, 0), Sought()
    clean, attacked = line(one.clean, weak_ipm), line(one, lambda *_: 0.3)
    absent = line(one.absent, weak_ipm) | {"accuracy": 0.62, "of": {"0": 0.625, "1": 0.615}}
    assert harm(attacked, clean, absent, sought).loss == pytest.approx(0.02)
    assert harm(attacked, clean, absent, sought).client == pytest.approx(0.02)
    higher = {**absent, "accuracy": 0.99, "of": {"0": 0.99, "1": 0.99}}
    for beside in (higher, {**absent, "lost": 1}, {**absent, "unmoved": 2}, {**absent, "status": "failed"}, None):
        assert harm(attacked, clean, beside, sought).loss == pytest.approx(0.3)


def test_what_could_not_be_played_is_not_the_worst() -> None:
    rows = [line(Try({}, 0, 0), weak_ipm), line(Try({"which": "any"}, 3, 0), weak_ipm)]
    rows.append(line(Try({"attack": "ALIE"}, 3, 0), lambda *_: -0.3))
    rows.append({**line(Try({"attack": "IPM"}, 3, 0), lambda *_: 0.0), "status": "failed", "reason": "it would not"})
    points = points_of(rows, (0,), (1,), Sought())
    found = worst(points.values())
    assert found is not None
    assert found.numbers["attack"] == "ALIE"
    assert [p.failed for p in points.values()] == ["", "it would not"]


def test_of_points_that_do_no_harm_the_worst_is_that_which_loses_most() -> None:
    points = []
    for name, loss in (("ALIE", -0.08), ("IPM", -0.05), ("Mimic", -0.06)):
        points.append(Point({"attack": name}, 3, {0: Harm(0.0, loss, loss, None, None)}))
    found = worst(points)
    assert found is not None
    assert found.numbers["attack"] == "IPM"


def test_cost_is_attackers_then_strength() -> None:
    forms = usual_forms(KRUM)
    ipm = next(form for form in forms if form["attack"] == "IPM")
    flip = next(form for form in forms if form["attack"] == "LabelFlip")
    assert strength_of(KRUM, ipm) == "IPM.eps"
    assert strength_of(KRUM, flip) is None
    boosted = Usual({"attack": "LabelFlip", "boost": "Scaled"})
    KRUM.adversary(boosted, Pool(1))
    assert strength_of(KRUM, boosted.chosen) == "Scaled.factor"
    assert cost_of(KRUM, Point({**ipm, "IPM.eps": 0.2}, 4)) == (4, 0.2)
    assert cost_of(KRUM, Point(flip, 4)) == (4, 1.0)
    for variant, factor in (("Magnified", 1e6), ("Diminished", 1e-6)):
        around = Usual({"attack": "MinusGradient", "variant": variant})
        KRUM.adversary(around, Pool(1))
        assert cost_of(KRUM, Point({**around.chosen, "MinusGradient.strength": 0.5}, 4)) == (4, pytest.approx(0.5 * factor))


def test_the_rounds_that_are_judged_are_a_share_of_the_evaluations() -> None:
    assert last_rounds(40, 1) == list(range(30, 40))
    assert last_rounds(100, 1) == list(range(90, 100))
    assert last_rounds(4, 1) == [3]
    assert last_rounds(16, 4) == [15]
