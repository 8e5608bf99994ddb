"""How far one client moves a mean within all bounds, as SECURITY.md says it."""

from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Masked, TwoServer
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalWork

CLIENTS, D, LIAR = tuple(range(9)), 30, 4
INIT = Model("init")


def mean_with(protection: Protection, vector: np.ndarray, samples: int, counted: bool) -> np.ndarray | None:
    """The mean of eight zeros of one sample each and one client's vector; None where nothing is published."""

    def work(jobs: Any) -> Any:
        for job in jobs:
            liar = job.client == LIAR
            yield job.client, LocalWork(vector if liar else np.zeros(D, np.float32), samples if liar else 1)

    view = protection.open(Setup(bytes(16), np.zeros(D, np.float32), CLIENTS, work, SimulatedEntropy(1)))
    updates = view.train(0, {"all": Assignment(INIT, CLIENTS, CLIENTS)})["all"]
    answer = view.sums(updates, {"m": Weights(dict.fromkeys(CLIENTS, 1.0), times_samples=counted)})["m"]
    if not isinstance(answer, Sum) or LIAR not in answer.clients:
        return None
    found: np.ndarray = view.harness.observe(view.advance(INIT, answer))
    return found


@pytest.mark.parametrize("clip", [0.5, 4.0])
def test_under_masks_a_coordinate_moves_by_the_clip_times_the_share(clip: float) -> None:
    protection = Masked(floor=3, clip=clip)
    moved = mean_with(protection, np.full(D, clip, np.float32), 1, False)
    assert moved is not None
    assert np.abs(moved).max() == pytest.approx(clip / len(CLIENTS), rel=1e-3)
    assert mean_with(protection, np.full(D, 1.01 * clip, np.float32), 1, False) is None, "beyond the clip it sits out"


@pytest.mark.parametrize("samples", [2, 3, 4, 5, 8, 20, 100, 10_000])
@pytest.mark.parametrize("floor", [2, 3, 5])
def test_whatever_it_claims_its_share_is_at_most_one_in_the_floor(samples: int, floor: int) -> None:
    moved = mean_with(Masked(floor=floor, clip=1.0), np.full(D, 1.0, np.float32), samples, True)
    if moved is not None:
        assert np.abs(moved).max() <= 1 / floor + 1e-3
        assert np.abs(moved).max() == pytest.approx(samples / (samples + len(CLIENTS) - 1), rel=1e-2)
    else:
        assert samples**2 / (samples**2 + len(CLIENTS) - 1) > 0.9 / floor, "what is within the rule is answered"


@pytest.mark.parametrize("samples", [1, 3, 100])
def test_under_two_servers_the_mean_moves_by_the_norm_times_the_share(samples: int) -> None:
    protection, vector = TwoServer(floor=2, max_norm=4.0, k=30), np.full(D, 4.0 / np.sqrt(D), np.float32) * np.float32(0.999)
    moved = mean_with(protection, vector, samples, True)
    if moved is not None:
        assert np.linalg.norm(moved) <= 4.0 / 2 + 1e-3
