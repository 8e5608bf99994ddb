"""Who attacks is searched by id, too: a defence that trusts one client is broken by that one, whom no seed may draw."""

from dataclasses import replace
from pathlib import Path

import pytest

from cloister import attack
from cloister.scenario_file import load
from cloister.threat_models.membership import Fixed, Pool
from cloister.threat_models.search.choosing import Given, Usual
from cloister.threat_models.search.fields import Numbers
from cloister.threat_models.search.forms import usual_forms
from cloister.threat_models.search.found import key_of, points_of
from cloister.threat_models.search.plan import Plan
from cloister.threat_models.search.play import Sought, Try, scenario_of
from cloister.threat_models.search.probing import afforded, at_place, blocks, loud
from cloister.threat_models.search.space import Space, chosen_which
from cloister.threat_models.search.tpe import proposed
from cloister.threat_models.search.who import members, population_of, who

from . import evaluation_sample as sample
from .test_search_plan import FEW, KRUM, Loss, found, line, played

pytest.importorskip("optuna")


def among(trusted: int, clients: int, *, loud_alone: bool = False) -> Loss:
    """Of a defence that one client breaks, by the attacks that are known or by enormous uploads alone."""

    def loss(numbers: Numbers, attackers: int, seed: int) -> float:
        places = {(int(numbers["which.first"]) + k) % clients for k in range(attackers)} if numbers["which"] == "from" else set()
        return (
            0.4 if trusted in places and (numbers.get("variant") == "Magnified" or not loud_alone) else 0.01 * attackers / clients
        )

    return loss


@pytest.mark.parametrize("loud_alone", [False, True])
@pytest.mark.parametrize(("clients", "most", "trusted", "runs"), [(8, 3, 5, 80), (40, 4, 13, 120), (100, 49, 99, 160)])
def test_the_one_client_that_a_defence_trusts_is_found(
    clients: int, most: int, trusted: int, runs: int, loud_alone: bool
) -> None:
    """Before: members were drawn by the seed alone where clients are alike, and with one attacker it was never this one."""
    space = replace(KRUM, clients=clients)
    plan = Plan(least=1, most=most, seeds=(0,), held_out=(1, 2), runs=runs)
    rows = played(space, plan, among(trusted, clients, loud_alone=loud_alone))
    point = found(space, plan, rows)
    assert point is not None
    assert (point.attackers, point.numbers["which"], point.numbers["which.first"]) == (1, "from", trusted)
    assert len(rows) <= runs


@pytest.mark.long
def test_where_nobody_is_trusted_blocks_take_a_part_of_the_budget_alone() -> None:
    space, plan = replace(KRUM, clients=100), Plan(least=1, most=49, seeds=(0,), held_out=(1,), runs=100)
    rows = played(space, plan, lambda *_: 0.0)
    blocks_of = [row for row in rows if row["attackers"] == 49 and row["numbers"].get("which") == "from"]
    assert 0 < len(blocks_of) < 0.6 * len(rows)
    assert {row["numbers"]["attack"] for row in rows if "attack" in row["numbers"]} == set(FEW)
    brief = played(space, replace(plan, runs=12), lambda *_: 0.0)
    assert not [row for row in brief[:9] if row["numbers"].get("which") == "from"]  # attacks as they are come first


def test_blocks_are_of_all_clients_and_parts_of_a_block_stay_in_it() -> None:
    for clients, size in ((8, 3), (12, 4), (7, 7), (5, 1)):
        seen = {(start + k) % clients for start in blocks(0, clients, size, clients) for k in range(size)}
        assert seen == set(range(clients))
    assert blocks(6, 4, 2, 8) == [6, 0]
    assert blocks(2, 5, 2, 8) == [2, 4, 5]
    assert afforded([0, 1, 2], 9) == [0, 1, 2]
    assert afforded([*range(20)], 15) == [0, 5, 10, 14, 19]
    assert afforded([*range(20)], 11) == []


def test_what_is_enormous_is_the_first_upload_that_can_be() -> None:
    (form,) = loud(KRUM, {})
    assert (form["attack"], form["variant"]) == ("MinusGradient", "Magnified")
    KRUM.adversary(Given(form), Pool(1))
    assert loud(KRUM, form) == loud(Space(KRUM.scenario, only=("LabelFlip",)), {}) == []
    assert loud(Space(KRUM.scenario, only=FEW, fixed={"variant": "as it is"}), {}) == []


@pytest.mark.long
def test_who_is_from_a_place_on_is_a_number_of_the_space() -> None:
    alike, few = Space(KRUM.scenario, only=FEW), Space(KRUM.scenario, only=FEW, clients=8)
    asked = Usual({"which": "from"})
    assert chosen_which(few, asked) == "from"
    assert asked.options["which"] == ("any", "from")
    assert asked.chosen == {"which": "from", "which.first": 0}
    assert chosen_which(alike, Usual()) == "any"
    assert {form.get("which") for form in usual_forms(alike)} == {None}
    assert {form["which"] for form in usual_forms(few)} == {"any", "from"}
    points = proposed(lambda choose: _asked(few, choose), [], 40, 3)
    assert {int(p["which.first"]) for p in points if p["which"] == "from"} <= set(range(8))
    assert len({p.get("which.first") for p in points}) > 3
    held = Space(KRUM.scenario, only=FEW, clients=8, fixed={"which": "from", "which.first": "3"})
    assert {(form["which"], form["which.first"]) for form in usual_forms(held)} == {("from", 3)}
    with pytest.raises(ValueError, match=r"which\.first is from 0 to 7, not 8"):
        Space(KRUM.scenario, only=FEW, clients=8, fixed={"which.first": "8"})
    with pytest.raises(ValueError, match="no number 'which'"):
        Space(KRUM.scenario, only=FEW, fixed={"which": "any"})


def _asked(space: Space, choose: object) -> Numbers:
    asked: dict[str, object] = {}
    choose.one_of("attack", FEW[:1])  # type: ignore[attr-defined]
    chosen_which(space, choose)  # type: ignore[arg-type]
    asked |= choose.chosen if hasattr(choose, "chosen") else {}
    return asked  # type: ignore[return-value]


def test_members_from_a_place_on_go_round_and_are_those_that_are_missing_beside_them() -> None:
    clients = population_of(sample.scenario, None).clients
    assert members("from", 3, clients, 7) == Fixed((0, 1, 7))
    one = Try(at_place({"attack": "IPM", "which": "any"}, 7), 3, 0)
    assert one.absent == Try({"which": "from", "which.first": 7}, 3, 0)
    assert who({"attack": "IPM"}) == {"which": "any"}
    space = Space(KRUM.scenario, only=FEW, clients=8)
    numbers = next(form for form in usual_forms(space) if form["which"] == "from")
    for of in (Try(numbers, 2, 0), Try(numbers, 2, 0).absent):
        adversary: object = scenario_of(space, of, None).adversary
        assert adversary.members == Fixed((0, 1))  # type: ignore[attr-defined]
    old = {name: value for name, value in numbers.items() if not name.startswith("which")}
    assert scenario_of(space, Try(old, 2, 0), None).adversary.members == Pool(2)  # type: ignore[union-attr]


def test_a_point_is_held_against_the_run_without_its_own_members() -> None:
    tries = [Try(at_place({"attack": "IPM"}, first), 2, 0) for first in (0, 4)]
    rows = [line(tries[0].clean, lambda *_: 0.0), *(line(one, lambda *_: 0.3) for one in tries)]
    rows += [
        line(one.absent, lambda *_: 0.0) | {"accuracy": a, "of": {"0": a, "1": a}}
        for one, a in zip(tries, (0.9, 0.65), strict=True)
    ]
    points = points_of(rows, (0,), (1,), Sought())
    losses = [points[key_of(one.numbers, 2)].loss for one in tries]
    assert losses == [pytest.approx(0.3), pytest.approx(0.05)]


@pytest.mark.trains
@pytest.mark.long
def test_a_rule_that_trusts_a_client_is_broken_by_that_one_which_the_replay_names(tmp_path: Path) -> None:
    """Half of what client 4 sends, and half of the median: it lost 55 points to that client, and nothing was found of one."""
    (tmp_path / "trusting.py").write_text(TRUSTING)
    given = {"attacks": ["MinusGradient"], "attackers": 1, "budget": 60, "workers": 1, "quiet": True}
    result = attack(f"{tmp_path}/trusting.py:scenario", tmp_path / "out", **given)
    cheapest = result.summary["cheapest"]
    assert cheapest is not None, result.verdict
    assert cheapest["numbers"]["which.first"] == 4
    assert "by the clients from 4 on, by id" in result.verdict
    assert {row["members"] for row in result.points if row["verdict"] == "breaks"} == {"from 4"}
    replay = tmp_path / "out" / cheapest["file"]
    assert "members=Fixed(ids=(4,))" in replay.read_text()
    assert "The attackers are 4, by id." in replay.read_text()
    adversary: object = load(str(replay)).adversary
    assert adversary.members == Fixed((4,))  # type: ignore[attr-defined]


TRUSTING = """
import numpy as np
from cloister import Scenario, Training, algorithms, data, models, partitions, protections


def trusting(updates):
    return 0.5 * updates[4] + 0.5 * np.median(updates, axis=0)


scenario = Scenario(
    name="trusting",
    data=data.Digits(),
    partition=partitions.Iid(clients=6, samples=40, shared_test=True),
    model=models.Mlp(hidden=()),
    training=Training(epochs=1, batch=10, lr=0.5),
    algorithm=algorithms.RobustFedAvg(rule=trusting),
    protection=protections.Plain(),
    rounds=6,
)
"""
