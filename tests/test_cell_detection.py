"""Members told from loyal clients by clusters: right for every share of members, from one client in ten to nine."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cloister.fl.algorithms.flic import FLIC
from cloister.fl.runs.simulation import Simulation
from cloister.threat_models.cell_detection import detected
from cloister.threat_models.trial import Trial

from .coalition_sample import SMALL

N = 10
Clusters = Sequence[tuple[int, ...]]


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    """Of ten clients of one group under an algorithm that compares; it is never played."""
    return Simulation(replace(SMALL, algorithm=FLIC(rounds_before=1)), None)


def judged(simulation: Simulation, m: int, clusters: Clusters, rejected: Sequence[int] = ()) -> dict[str, Any]:
    """Detection where clients 0 .. m - 1 of ten are members."""
    clients, members = tuple(range(N)), frozenset(range(m))
    found = detected(Trial(simulation, clients, members, rejected=[(i, i in members) for i in rejected]), clusters)
    assert found is not None
    return found


def rates(found: dict[str, Any]) -> tuple[float, float, float]:
    return found["tpr"], found["fpr"], found["auc"]


every_share = pytest.mark.parametrize("m", range(1, N))


@every_share
def test_members_who_are_apart_are_found_whoever_is_more(simulation: Simulation, m: int) -> None:
    members, loyal = tuple(range(m)), tuple(range(m, N))
    alone = 0.5 if m == N - 1 else 1  # a single loyal client looks like a member that is alone
    assert rates(judged(simulation, m, [members, loyal])) == (1, 0, alone)
    assert rates(judged(simulation, m, [loyal, members])) == (1, 0, alone)
    assert rates(judged(simulation, m, [*((i,) for i in members), loyal])) == (1, 0, alone)


@every_share
def test_where_all_are_together_nobody_is_found(simulation: Simulation, m: int) -> None:
    assert rates(judged(simulation, m, [tuple(range(N))])) == (0, 0, 0.5)


@every_share
def test_where_all_are_alone_nothing_is_told(simulation: Simulation, m: int) -> None:
    found = judged(simulation, m, [(i,) for i in range(N)])
    assert rates(found) == (1, (N - m - 1) / (N - m), 0.5)
    assert found["loyal_lost"] == list(range(m + 1, N))


@every_share
def test_members_with_most_of_the_loyal_are_not_found(simulation: Simulation, m: int) -> None:
    """One loyal client escapes from where all others are."""
    found = judged(simulation, m, [tuple(range(N - 1)), (N - 1,)])
    if m == N - 1:
        assert rates(found) == (1, 0, 0.5)
    elif m == N - 2:
        assert rates(found) == (1, 0.5, 0.5)  # one on either side: the side without members is the loyal clients'
    else:
        assert rates(found)[:2] == (0, 1 / (N - m))
        assert found["auc"] < 0.5


@pytest.mark.parametrize("m", [3, 5, 6])
def test_who_is_captured_is_a_false_alarm_and_who_hides_is_missed(simulation: Simulation, m: int) -> None:
    """The first member is with the loyal clients, the last of those with the members."""
    inside, captured = (0, *range(m, N - 1)), (*range(1, m), N - 1)
    found = judged(simulation, m, [captured, inside])
    assert rates(found)[:2] == ((m - 1) / m, 1 / (N - m))
    assert found["loyal_lost"] == [N - 1]


@every_share
def test_what_was_rejected_is_flagged_wherever_it_is(simulation: Simulation, m: int) -> None:
    found = judged(simulation, m, [tuple(range(N))], rejected=[0])
    assert found["by"] == "outside of the loyal clients' cluster or rejected"
    assert rates(found)[:2] == (1 / m, 0)
    assert found["auc"] > 0.5
