"""Differential privacy through the whole pipeline: one record moves no more than the ledger was told, and the noise is all there.

Held-out data, subsample, embedding, clip, projection, mean and grid are the shipped ones. Each audit is shown faults that it must
flag: an audit that passes them would say nothing.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cloister.fl.algorithms.emd_cfl import EMDCFL
from cloister.fl.emd import Euclidean, MeanDistance, Size, positions
from cloister.protocol import Masked
from cloister.protocol.core.errors import Refused
from cloister.protocol.pairs import compute
from cloister.protocol.pairs.choices import Distances, MeanSketch, PerClient, PerPair
from cloister.protocol.pairs.compute import Respondent
from cloister.protocol.pairs.noise import Noise, noised

from . import neighbours, sides
from .neighbours import embedders_of, flagged, network, residuals, shifts
from .pairs_sample import Small, ask, opened

NOISE = Noise(clip=1.0, multiplier=3.0, reference_multiplier=3.0, budget=1e9, delta=1e-5)
CHOICES = {
    "mean": MeanSketch(noise=NOISE),
    "once": PerClient(noise=NOISE),
    "once, validation": PerClient(noise=NOISE, target="validation"),
    "pairs": PerPair(embedding="public", noise=NOISE),
    "distances": Distances(embedding="public", noise=NOISE),
}


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CHOICES)
def test_no_neighbour_moves_what_is_released_farther_than_the_ledger_was_told(name: str, count: int) -> None:
    found = list(shifts(CHOICES[name], count, seed=count))
    assert len(found) >= count
    worst = max(found, key=lambda shift: shift.ratio)
    assert worst.ratio <= 1.0, worst
    assert worst.ratio > (0.02 if name == "distances" else 0.3)  # or nothing would have been tried


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.long
def test_the_noise_is_that_of_the_ledger_and_every_clients_own(name: str) -> None:
    found, again = residuals(CHOICES[name], 7), residuals(CHOICES[name], 8)
    assert flagged(found) == []
    assert not any(np.array_equal(found[i], again[i]) for i in found)


# --- faults that the audits must see ------------------------------------------------------------------------------------------


def by_label(monkeypatch: Any) -> None:
    monkeypatch.setattr(Size, "by_position", lambda self, noisy: False)


def unclipped(monkeypatch: Any) -> None:
    monkeypatch.setattr(Noise, "clipped", lambda self, rows: np.asarray(rows, np.float64))


def halfway_clipped(monkeypatch: Any) -> None:
    whole = Noise.clipped
    monkeypatch.setattr(Noise, "clipped", lambda self, rows: whole(replace(self, clip=2 * self.clip), rows))


@pytest.mark.long
@pytest.mark.parametrize("fault", [by_label, unclipped, halfway_clipped])
@pytest.mark.parametrize("name", ["mean", "once"])
def test_shifts_beyond_the_claim_are_seen(monkeypatch: Any, fault: Any, name: str) -> None:
    fault(monkeypatch)
    assert max(shift.ratio for shift in shifts(CHOICES[name], 30, seed=3)) > 1.2


def divided_by_rows(monkeypatch: Any) -> None:
    monkeypatch.setattr(compute, "noised", lambda values, deviation, key: noised(values, deviation / 20, key))


def a_tenth_less(monkeypatch: Any) -> None:
    monkeypatch.setattr(compute, "noised", lambda values, deviation, key: noised(values, 0.85 * deviation, key))


def no_noise(monkeypatch: Any) -> None:
    monkeypatch.setattr(compute, "noised", lambda values, deviation, key: values)


def one_key_for_all(monkeypatch: Any) -> None:
    monkeypatch.setattr(Respondent, "deviate", lambda self, label: bytes(32))


def uniform(monkeypatch: Any) -> None:
    def flat(values: Any, deviation: float, key: bytes) -> Any:
        rng = np.random.default_rng(list(key))
        return values + deviation * np.sqrt(12) * (rng.random(values.shape) - 0.5)

    monkeypatch.setattr(compute, "noised", flat)


@pytest.mark.long
@pytest.mark.parametrize("fault", [unclipped, divided_by_rows, a_tenth_less, no_noise, one_key_for_all, uniform])
@pytest.mark.parametrize("name", ["mean", "once"])
def test_noise_that_is_not_what_the_ledger_says_is_flagged(monkeypatch: Any, fault: Any, name: str) -> None:
    fault(monkeypatch)
    assert flagged(residuals(CHOICES[name], 7))


# --- what depends on other records -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "count"), [(5, 5), (40, 1), (300, 77)])
def test_positions_depend_on_nothing_but_the_draw(rows: int, count: int) -> None:
    found = [positions(rows, count, np.random.default_rng(seed)) for seed in range(200)]
    assert all(len(set(p.tolist())) == count and (np.diff(p) > 0).all() and p.max() < rows for p in found)
    share = np.bincount(np.concatenate(found), minlength=rows) / 200
    assert abs(share - count / rows).max() < 5 * np.sqrt(0.25 / 200)
    with pytest.raises(ValueError, match="cannot be drawn"):
        positions(rows, rows + 1, np.random.default_rng(0))


def test_relabelling_or_replacing_a_record_changes_one_row_at_most() -> None:
    rng = np.random.default_rng(0)
    own = neighbours.data(rng, 80, 5)
    for _ in range(20):
        changed = neighbours.neighbour(own, rng, 5)
        rows = [embedders_of({1: e}, 0.5, Size(30), 3, 9).embed(1, "train", None) for e in (own, changed)]
        assert (rows[0] != rows[1]).any(axis=1).sum() <= 1


def test_stratified_samples_and_noise_are_refused_in_one_line() -> None:
    stratified = Size(stratified=True)
    for choice in (MeanSketch(noise=NOISE), PerClient(noise=NOISE)):
        distance = {"distance": MeanDistance(Euclidean())} if isinstance(choice, MeanSketch) else {}
        with pytest.raises(Refused, match="stratified") as refused:
            EMDCFL(eps=0.2, choice=choice, size=stratified, **distance)
        assert "\n" not in str(refused.value)
        assert EMDCFL(eps=0.2, choice=choice, **distance).size.by_position(noisy=True)
    EMDCFL(eps=0.2, choice=PerClient(), size=stratified)
    assert not Size().by_position(noisy=False)
    assert Size(stratified=False).by_position(noisy=False)
    view = opened(Masked(floor=2, sketch=8), embedders=replace(Small(), by_position=False))
    with pytest.raises(Refused, match="draw them by position"):
        ask(view, PerClient(noise=NOISE))
    assert not sides.pair_ledgers(view)
    ask(view, PerClient(), round=1)


def test_an_embedding_that_mixes_records_is_refused_under_noise(monkeypatch: Any) -> None:
    mixing = nn.Sequential(nn.BatchNorm2d(1, track_running_stats=False), nn.Flatten())
    monkeypatch.setattr(neighbours, "network", lambda kind, seed: mixing if kind == 0 else network(kind, seed))
    own = neighbours.data(np.random.default_rng(1), 40, 3)
    with pytest.raises(Refused, match="depends on the others"):
        embedders_of({1: own}, 0.5, Size(10), 0, 1)
    softmax = nn.Sequential(nn.Flatten(), nn.Softmax(dim=0))
    monkeypatch.setattr(neighbours, "network", lambda kind, seed: softmax if kind == 0 else network(kind, seed))
    with pytest.raises(Refused, match="depends on the others"):
        embedders_of({1: own}, 0.5, Size(10), 0, 1)
    assert torch.is_tensor(own.x)
