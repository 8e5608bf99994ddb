"""FedSoft: rounds are the paper's without selection, under every protection with slots; each client's model is its own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloister.fl.algorithms.fedavg import Local
from cloister.fl.algorithms.fedsoft import MODEL, FedSoft
from cloister.fl.runs.scenario import PROTECTIONS
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Noise, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.view.answers import BelowFloor
from cloister.protocol.view.protection import check_composition

from .example_files import load
from .slot_toy import LR, MODELS, STEPS, WITH_SLOTS, Toy, Values, check_a_pause, examples_of, losses_of

PULL, SIGMA = 0.4, 1e-4


def paper(centres: list[Values], own: dict[int, Values], counts: dict[int, Values], t: int, active: list[int]) -> list[Values]:
    """One round in float64, the proximal term as it is written: a pull to each centre; own and counts are moved in place."""
    for i in active:
        points = examples_of(i).x.double().numpy()
        if t % 2 == 0:
            nearest = losses_of(centres, points).argmin(axis=0)
            counts[i] = np.array([(nearest == s).sum() for s in range(len(centres))], np.float64)
        u = np.where(counts[i] == 0, SIGMA, counts[i] / len(points))
        w = own.get(i, np.average(centres, axis=0, weights=u))
        for _ in range(STEPS):
            w = w - LR * ((w - points).mean(axis=0) + PULL * sum(u[s] * (w - c) for s, c in enumerate(centres)))
        own[i] = w
    return [np.average([own[i] for i in active], axis=0, weights=[counts[i][s] for i in active]) for s in range(len(centres))]


@pytest.mark.parametrize(("protection", "bound", "rounds"), WITH_SLOTS, ids=repr)
@pytest.mark.long
def test_every_round_is_the_papers(protection: Any, bound: float, rounds: int) -> None:
    toy = Toy(FedSoft(pull=PULL), protection)
    centres, own, counts = [m.astype(np.float64) for m in MODELS], dict[int, Values](), dict[int, Values]()
    for t in range(rounds):
        toy.step()
        centres = paper(centres, own, counts, t, toy.active[t])
        assert max(np.abs(a - b).max() for a, b in zip(toy.models(), centres, strict=True)) < bound
    assert not toy.view.record.faults
    assert not toy.view.record.below_floor
    assert all(toy.kept.of(i)[MODEL] == pytest.approx(own[i], abs=bound) for i in own)
    assert toy.sent[0, 0].shares == tuple(counts[0].astype(int))
    assert sum(counts[0]) == len(examples_of(0))
    assert min(counts[0]) > 0, "clients are in both slots"


def test_where_the_server_sees_shares_it_is_not_told_sums_that_show_somebody() -> None:
    """Two slots of the same models, in parts that the server knows: from both, with a floor, one is answered."""
    toy = Toy(FedSoft(), Plain(floor=3))
    toy.step()
    assert [type(b) for b in toy.view.record.below_floor] == [BelowFloor]
    hidden = Toy(FedSoft(), Masked(floor=3, slot_spare=0))
    hidden.step()
    assert not hidden.view.record.below_floor, "hidden shares show nobody"


def test_of_many_samples_shares_are_scaled_down_together() -> None:
    toy = Toy(FedSoft(most=3), Plain())
    toy.step()
    assert {sum(work.shares) for work in toy.sent.values()} == {3}


def test_importance_is_counted_anew_every_interval() -> None:
    toy = Toy(FedSoft(interval=3), Plain())
    rounds = []
    for _ in range(7):
        toy.step()
        rounds.append(int(toy.kept.of(0)["since"][0]))
    assert rounds == [0, 0, 0, 3, 3, 3, 6]


def test_what_cannot_give_it() -> None:
    noisy = Masked(ring_bits=64, noise=Noise(epsilon=10.0, delta=1e-5, rounds=3, l2=1.0, acknowledge=("slots",)))
    with pytest.raises(Refused, match="FedSoft needs slots"):
        check_composition("FedSoft", FedSoft().needs, noisy, PROTECTIONS)
    for bad in ({"pull": -1.0}, {"interval": 0}, {"smoother": 0.0}, {"most": 0}):
        with pytest.raises(ValueError):
            FedSoft(**bad)


QUICK = replace(load("baselines_slots").mixed, algorithm=FedSoft())


@pytest.mark.trains
def test_without_a_pull_and_with_one_centre_every_client_is_alone() -> None:
    """Models that clients predict with are those of training alone from the common start, to rounding."""
    soft, alone = (Simulation(replace(QUICK, algorithm=a), None) for a in (FedSoft(models=1, pull=0.0), Local()))
    for _ in range(2):
        soft.step()
        alone.step()
    assert all(np.abs(v - alone.vectors()[i]).max() < 1e-5 for i, v in soft.vectors().items())
    (first, second) = (s.evaluate() for s in (soft, alone))
    assert np.mean([s.accuracy for s in first.values()]) == pytest.approx(
        np.mean([s.accuracy for s in second.values()]), abs=0.02
    )


@pytest.mark.long
@pytest.mark.trains
def test_a_run_goes_on_after_a_pause_with_what_clients_kept(tmp_path: Path) -> None:
    check_a_pause(replace(QUICK, rounds=4, algorithm=FedSoft(participation=0.5, interval=3)), tmp_path)
