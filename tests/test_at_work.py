"""How many attackers were at work in a run: the silent too, and held against what a defence is built for round by round."""

from dataclasses import replace

import pytest

from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.robust.coordinates import Median
from cloister.fl.robust.krum import Krum, MultiKrum
from cloister.fl.runs.scenario import Scenario
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.cell_metrics import attacked_metrics
from cloister.threat_models.membership import Pool, Schedule
from cloister.threat_models.simple_attacks import Scaled
from cloister.threat_models.trial import played

from .evaluation_sample import scenario

pytestmark = pytest.mark.trains


def at_work(of: Scenario) -> tuple[int, int | None]:
    clean = played(replace(of, adversary=None), None, None).clean()
    found = attacked_metrics(played(of, None, None), clean, None)
    return found["attackers"], found["built_for"]


def test_who_keeps_silent_is_at_work() -> None:
    """Before: of three that never answer "no attacker was at work in any round: there it did nothing", whatever it cost."""
    assert at_work(replace(scenario, adversary=Adversary(members=Pool(3), silent=Schedule()))) == (3, 0)


def test_attackers_and_what_a_defence_is_built_for_are_of_one_round() -> None:
    """Before: a silent round, in which fewer answer, put three of eight beyond the limit of a median."""
    median = replace(scenario, algorithm=RobustFedAvg(rule=Median()))
    always = replace(median, adversary=Adversary(members=Pool(3), upload=Scaled(-8)))
    assert at_work(always) == (3, 3)
    assert at_work(replace(median, adversary=Adversary(members=Pool(3), upload=Scaled(-8), silent=Schedule(2, 3)))) == (3, 3)


def test_attackers_that_a_rule_did_not_take_are_at_work() -> None:
    """Before: Krum met one attacker of four where it took an attacker's update, and four where it took none."""
    for rule, members, strength in ((Krum(f=2), 4, -8), (Krum(f=2), 4, 1e-3), (MultiKrum(f=2), 3, -8)):
        of = replace(scenario, algorithm=RobustFedAvg(rule=rule))
        assert at_work(replace(of, adversary=Adversary(members=Pool(members), upload=Scaled(strength)))) == (members, 2)
