"""STAT-OPT and DYN-OPT: the largest step that the rule itself accepts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloister.fl.robust.clustering import ClippedClustering
from cloister.fl.robust.coordinates import Bulyan, Median, TrimmedMean
from cloister.fl.robust.krum import Krum, KrumPicks, MultiKrum
from cloister.fl.robust.mixing import NNM, Mixed
from cloister.fl.robust.weiszfeld import CenteredClipping
from cloister.fl.runs.simulation import Simulation
from cloister.protocol.view.work import LocalJob
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.alternating import AlternatingMinimisation
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.critical_layers import CriticalLayers
from cloister.threat_models.knowledge import Insider, Level
from cloister.threat_models.line_search import WithExtra, last_aggregate
from cloister.threat_models.membership import Fixed
from cloister.threat_models.similarity_attacks import Faker, LoneFaker
from cloister.threat_models.tailored import Tailored, dyn_opt, largest_accepted, stat_opt
from cloister.threat_models.triggers import Patch

from .coalition_sample import SMALL, coalition, gaussian, own

F, N, D = 3, 15, 400
MARKED = Backdoor(Patch(0, 0, 2, 2, 1.0), target=7, share=0.5)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def share_of(rule: Any, honest: list[Any], u: Any) -> float:
    """What the members get of the weight, over what the mean gives them, on the vectors themselves."""
    x = np.array([*honest, *[u] * F], dtype=np.float64)
    weights = KrumPicks(rule.f).mixing(x @ x.T, rng()).mean(axis=0) if isinstance(rule, Bulyan) else rule.weights(x @ x.T, rng())
    return float(weights[-F:].sum() / weights.sum() * N / F) if weights.sum() > 0 else 0.0


RULES = [Krum(F), MultiKrum(F), MultiKrum(F, m=N // 2), Mixed((NNM(F),), MultiKrum(F)), Bulyan(F), ClippedClustering()]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("attack", [stat_opt(), dyn_opt(), dyn_opt("deviation")], ids=["stat", "dyn", "dyn sd"])
def test_the_rule_accepts_the_vector_that_is_sent_and_none_much_farther(rule: Any, attack: Tailored) -> None:
    updates = gaussian(N, D, 1, mean=2.0)
    known = coalition(updates, F, Level.INSIDER, rule=rule)
    honest = updates[F:]
    sent = attack(known)
    assert sorted(sent) == [0, 1, 2]
    u = sent[0]
    mean, deviation = np.mean(honest, axis=0), np.std(honest, axis=0)
    p = {"mean": -mean, "sign": -np.sign(mean), "deviation": -deviation}[attack.perturbation]
    base = 0 * mean if attack.static else mean
    t = float((u - base) @ p / (p @ p))
    np.testing.assert_allclose(u, base + t * p, atol=1e-4)
    accepted = {k: share_of(rule, honest, (base + k * p).astype(np.float32)) >= 1 - 1e-9 for k in np.geomspace(1e-3, 100, 40)}
    beyond = [k for k, taken in accepted.items() if taken and k > 1.02 * t]
    assert not beyond
    if any(accepted.values()):
        assert share_of(rule, honest, u) >= 1 - 1e-9
        assert t >= max(k for k, taken in accepted.items() if taken) / 1.02
    else:
        assert t == pytest.approx(1e-3, rel=1e-2)


def test_a_dynamic_step_against_krum_is_far_from_least_and_from_most() -> None:
    """Otherwise the test above would pass on searches that never find the border."""
    updates = gaussian(N, D, 1, mean=2.0)
    mean = np.mean(updates[F:], axis=0)
    u = dyn_opt()(coalition(updates, F, Level.INSIDER, rule=MultiKrum(F)))[0]
    assert 0.1 < np.linalg.norm(u - mean) / np.linalg.norm(mean) < 10


def test_a_smaller_share_is_accepted_farther_out_by_centred_clipping() -> None:
    updates = gaussian(N, D, 2)
    start = {"start": updates[4], "previous": updates[5]}
    reach = []
    for share in (0.9, 0.5, 0.1):
        rule = WithExtra(CenteredClipping(tau=5.0), last_aggregate)
        known = coalition(updates, F, Level.INSIDER, rule=rule, **start)
        u = dyn_opt(share=share)(known)[0]
        reach.append(float(np.linalg.norm(u - np.mean(updates[F:], axis=0))))
        x = np.array([*updates[F:], *[u] * F, last_aggregate(own(updates[0], **start))], dtype=np.float64)
        weights = rule.rule.weights_with(x @ x.T, rng())[:-1]
        assert weights[-F:].sum() / weights.sum() * N / F == pytest.approx(share, rel=0.02)
    assert reach[0] < reach[1] < reach[2]


@pytest.mark.parametrize("rule", [Median(), TrimmedMean(F), lambda updates: updates[0]], ids=["median", "trimmed", "callable"])
def test_rules_that_accept_nobody_are_named(rule: Any) -> None:
    known = coalition(gaussian(N, D), F, Level.INSIDER, rule=rule)
    with pytest.raises(ValueError, match="use LineSearched"):
        dyn_opt()(known)


def test_it_takes_an_insider_and_bounds() -> None:
    known = coalition(gaussian(N, D), F, Level.OMNISCIENT)
    assert not isinstance(known, Insider)
    with pytest.raises(ValueError, match="insider"):
        stat_opt()(known)
    for wrong in ({"least": 0.0}, {"least": 2.0, "most": 1.0}, {"evaluations": 3}, {"share": 0.0}):
        with pytest.raises(ValueError, match=r"search|share"):
            Tailored(**wrong)  # type: ignore[arg-type]


def test_the_search_ends_at_the_border_or_at_an_end() -> None:
    assert largest_accepted(lambda t: t <= 2.7, 1e-3, 100, 40) == pytest.approx(2.7, rel=1e-4)
    assert largest_accepted(lambda t: True, 1e-3, 100, 40) == 100
    assert largest_accepted(lambda t: False, 1e-3, 100, 40) == 1e-3


@pytest.mark.trains
@pytest.mark.parametrize(
    ("adversary", "far"),
    [
        (Adversary(members=Fixed((0, 1)), upload=dyn_opt(), knows=Level.INSIDER, rule=MultiKrum(2)), 0),
        (Adversary(members=Fixed((0, 1)), upload=Faker(), knows=Level.COLLUDING), 0),
        (Adversary(members=Fixed((0, 1)), upload=LoneFaker()), 1),
        (Adversary(members=Fixed((0, 1)), local=AlternatingMinimisation(MARKED)), 0),
        (Adversary(members=Fixed((0, 1)), local=CriticalLayers(MARKED)), 0),
    ],
    ids=["dyn", "faker", "lone faker", "alternating", "layers"],
)
def test_the_harness_plays_it_from_the_round_in_which_it_can_and_touches_nobody_else(adversary: Adversary, far: int) -> None:
    simulation = Simulation(replace(SMALL, adversary=adversary), None)
    assert simulation.corrupted is not None
    for round in range(2):
        start = simulation.vectors()[0] + np.float32(0.01 * round)
        jobs = [LocalJob(i, round, "update", start) for i in range(10)]
        honest = dict(simulation._work(jobs))
        for i, work in simulation.corrupted(jobs):
            assert np.array_equal(work.vector, honest[i].vector) == (i > 1 or round < far)
