"""An attack of one's own that fails is said, and never passes for a robust defence; what attacks return is checked alike."""

import re
import sys
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from cloister import attacks, cli
from cloister.attacking.data import Search, curve, found_words
from cloister.attacking.points import _figures, with_interval
from cloister.attacking.tables import failed_words, verdict
from cloister.evaluating.judging import Harm
from cloister.evaluating.loss_words import success
from cloister.fl.functions import Unfit
from cloister.fl.near_names import in_short
from cloister.fl.runs.simulation import Simulation
from cloister.grids.spread import percent, spread
from cloister.threat_models.audit.tries import failure
from cloister.threat_models.cell import place_of, recorded
from cloister.threat_models.search.found import FAILURES, Point, given_up, key_of
from cloister.threat_models.search.plan import BATCH, Plan, hunt
from cloister.threat_models.search.play import Harm as Done
from cloister.threat_models.search.space import Space

from . import evaluation_sample as sample
from .test_search_plan import line

ROOT = Path(__file__).parent.parent
FAILING = """
from dataclasses import dataclass
from typing import ClassVar

from cloister import attacks


@dataclass(frozen=True)
class Lost:
    scale: float = 5.0
    needs: ClassVar = attacks.Level.OWN

    def __call__(self, own, /):
        return own.update[:4]
"""


@dataclass(frozen=True)
class Short:
    needs: ClassVar = attacks.Level.OWN

    def __call__(self, own: attacks.Own, /) -> Any:
        return None


@dataclass(frozen=True)
class Alike:
    needs: ClassVar = attacks.Level.OMNISCIENT
    identical: ClassVar[bool] = True

    def __call__(self, known: attacks.Omniscient, /) -> Any:
        return -np.mean(known.seen, axis=0)


@dataclass(frozen=True)
class Mapped(Alike):
    def __call__(self, known: attacks.Omniscient, /) -> Any:
        return attacks.forged(known, [-np.mean(known.seen, axis=0)] * known.faulty)


def of(points: list[Point], cheapest: Mapping[str, Any] | None = None) -> Search:
    about = {"name": "x", "defence": "y", "own": ["Lost"], "held_out": [1, 2], "seeds": [0], "least": 1, "most": 3, "clients": 8}
    about |= {"bounds": {"loss": 0.05, "success": 0.1}, "goal": "any"}
    found = {"cheapest": None if cheapest is None else dict(cheapest)}
    return Search("folder", about, [], 0, {key_of(p.numbers, p.attackers): p for p in points}, found)


def failing(k: int, why: str = "it returned 3", attack: str = "Lost") -> Point:
    return Point({"attack": attack, "k": k}, 2, without={0: f"{why}{k}"}, erred=True)


def test_points_that_failed_are_no_losses_and_no_robust_defence() -> None:
    search = of([failing(k) for k in range(6)])
    assert search.erred
    assert curve(search)[0]["loss"] is None
    assert found_words(curve(search)[0]) == "not played"
    assert "says nothing of the defence" in verdict(search)
    assert "Not played: 6 of 6 points; most often (1): it returned 3" in failed_words(search)
    assert "Given up, as its first points all failed alike: Lost." in failed_words(search)


def test_an_attack_is_given_up_where_its_first_points_fail_alike_and_else_not() -> None:
    assert given_up(failing(k) for k in range(FAILURES)) == {"Lost"}
    assert given_up(failing(k) for k in range(FAILURES - 1)) == frozenset()
    assert given_up(failing(k, "ab"[k % 2]) for k in range(FAILURES)) == frozenset()


def test_a_search_stops_with_the_only_attack_that_it_has() -> None:
    pytest.importorskip("optuna")
    plan = Plan(least=1, most=3, seeds=(0,), held_out=(1, 2), runs=200)
    hunted, rows = hunt(Space(sample.scenario, only=("MinusGradient",)), plan), 0
    asked, failed = next(hunted), {"status": "failed", "reason": "TypeError: no"}
    while asked:
        rows += sum("attack" in one.numbers for one in asked)
        answers = [line(one, lambda *_: 0.0) | (failed if "attack" in one.numbers else {}) for one in asked]
        try:
            asked = hunted.send(answers)
        except StopIteration:
            break
    assert rows <= 2 * BATCH


@pytest.mark.long
@pytest.mark.trains
def test_a_failing_attack_ends_the_command_with_three(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna")
    (tmp_path / "mine.py").write_text(FAILING)
    monkeypatch.chdir(tmp_path)
    words = ["attack", f"{ROOT}/tests/evaluation_sample.py:scenario", "--attack", "mine.py:Lost", "--budget", "14"]
    words += ["--attackers", "2", "--workers", "1", "--out", "here"]
    monkeypatch.setattr(sys, "argv", ["cloister", *words])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 3
    said = " ".join(capsys.readouterr().out.split())
    assert "returned numbers of shape (4,), where shape" in said
    assert "mine.py, line" in said
    assert "return one vector of that shape, as own.update is" in said
    assert "returned numbers of shape" in (tmp_path / "here" / "report.html").read_text()


@pytest.mark.trains
def test_a_dataclass_may_return_one_vector_for_all_and_what_is_none_is_refused_by_its_line() -> None:
    def model(attack: Any, level: attacks.Level) -> Any:
        who = attacks.Adversary(members=attacks.Pool(2), upload=attack, knows=level)
        simulation = Simulation(replace(sample.scenario, rounds=1, adversary=who), None)
        simulation.step()
        return simulation.vectors()

    one, each = (model(attack, attacks.Level.OMNISCIENT) for attack in (Alike(), Mapped()))
    assert all(np.array_equal(one[i], each[i]) for i in one)
    with pytest.raises(Unfit, match=r"Short \(test_own_failing\.py, line \d+\) returned None, .*return one vector of that shape"):
        model(Short(), attacks.Level.OWN)


def test_a_misspelt_field_of_what_an_attack_is_given_is_named() -> None:
    def broken() -> dict[str, Any]:
        return attacks.Own.updates  # type: ignore[attr-defined,no-any-return]

    line = recorded({}, broken)
    assert line["status"] == "failed"
    assert "has no attribute 'updates'; did you mean 'update' (test_own_failing.py, line" in line["reason"]


def test_a_misspelt_name_and_a_misspelt_import_are_named_too_and_a_strange_one_is_not() -> None:
    def misspelt() -> Any:
        strength = [1.0]
        return strength and strenght  # type: ignore[name-defined]  # noqa: F821

    def built_in() -> Any:
        return rangee(3)  # type: ignore[name-defined]  # noqa: F821

    def imported() -> Any:
        from cloister.attacks import MinusGradeint  # type: ignore[attr-defined]

        return MinusGradeint

    def strange() -> Any:
        return zzyzx  # type: ignore[name-defined]  # noqa: F821

    reasons = [recorded({}, each)["reason"] for each in (misspelt, built_in, imported, strange)]
    for reason, near in zip(reasons, ("'strength' (", "'range' (", "'MinusGradient' (", ""), strict=True):
        assert f"did you mean {near}" in reason if near else "did you mean" not in reason, reason
    with pytest.raises(NameError) as caught:
        misspelt()
    assert failure(caught.value).endswith("name 'strenght' is not defined; did you mean 'strength'")


def test_a_break_says_which_points_of_fewer_were_not_confirmed() -> None:
    bad = Done(2.0, 0.1, 0.1, None, None)
    fewer, best = (
        Point({"attack": "Lost", "k": 1}, 1, {0: bad}),
        Point({"attack": "Lost", "k": 2}, 3, {0: bad}, {1: bad, 2: bad}),
    )
    told = {"attackers": 3, "said": "x", "did": "y", "after_runs": 1, "after_seconds": 1.0, "fewer_tried": 1}
    search = of([fewer, best], told)
    words = "With fewer (1), 1 point was tried, of which 1 broke the seed searched and could not be tried on all others"
    assert words in verdict(search)
    assert [found_words(row) for row in curve(search)] == ["unconfirmed", "yes"]


def test_a_backdoor_above_the_bound_in_some_seeds_is_said_by_seeds() -> None:
    of = spread([0.05, 0.45])
    assert of is not None
    words = "patch succeeds 25.0 points in the mean more often than without it, in its last poisoned round,"
    words += " above the bound in 1 of 2 seeds"
    assert success(Harm("patch", of, 0.1, 1, None)) == words


def test_two_seeds_have_no_interval_and_are_both_shown() -> None:
    assert percent(spread([0.2, 0.9])) == "55.0 (20.0 and 90.0)"
    assert percent(spread([0.5])) == "50.0"
    assert percent(spread([0.5, 0.5, 0.5])) == "50.0 ±0.0"
    row = _figures("loss", spread([0.2, 0.9]))
    assert (row["loss_low"], row["loss_high"]) == (None, None)
    assert with_interval(row, "loss") == "55.0 (20.0 and 90.0)"


def test_an_update_that_is_changed_in_place_says_to_make_another_and_where() -> None:
    """Before: "FrozenInstanceError: cannot assign to field 'update'", and no line."""

    @dataclass(frozen=True)
    class Given:
        update: float

    def mine(own: Any) -> Any:
        own.update *= -1

    with pytest.raises(FrozenInstanceError) as caught:
        mine(Given(1.0))
    assert in_short(caught.value).endswith("make a new array of it, mine = -own.update, and return that")
    assert re.fullmatch(r" \(test_own_failing.py, line \d+\)", place_of(caught.value))
