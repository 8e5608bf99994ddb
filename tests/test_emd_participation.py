"""EMD-CFL where only some clients take part, at the paper's scale (table 6): 40 clients, 4 groups, 10 rounds, no edge is wrong.

Statistics over seeds of the algorithm itself; only training and distances are left out. The paper: ARI 0.93, 1.00, 1.00.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cloister.fl.algorithms.algorithm import Start
from cloister.fl.algorithms.emd_cfl import EMDCFL, State
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Rotation
from cloister.fl.data.source import Digits
from cloister.fl.emd.clusters import adjacency, components, majorities, neighbourhoods
from cloister.fl.emd.record import undecided
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked
from cloister.protocol.view.answers import Model

from .scripted_pairs import Scripted, never

CLIENTS, GROUPS, ROUNDS = 40, 4, 10
TRUTH = {i: i % GROUPS for i in range(CLIENTS)}


def played(seed: int, share: float, rounds: int = ROUNDS, loses: Callable[[int, int, int], bool] = never, **how: Any) -> State:
    algorithm, view = EMDCFL(eps=0.1, participation=share, **how), Scripted(groups=GROUPS, loses=loses)
    rng = np.random.default_rng(seed)
    state = algorithm.init(Start(tuple(range(CLIENTS)), {}, Model("init")))
    for _ in range(rounds):
        state = algorithm.round(state, view, rng)
    return state


def ari(state: State) -> float:
    return adjusted_rand_index([c.members for c in state.clusters.values()], TRUTH)


def expectations(share: float, seeds: int = 12, lost: float = 0.0) -> tuple[float, float]:
    """Means over seeds of the ARI of the algorithm's own clusters, and of those that the printed rule makes of the same pairs."""
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 1])
        state = played(seed, share, loses=lambda *_, rng=rng: bool(rng.random() < lost), sampling="random")
        printed = neighbourhoods(adjacency(state.accepts, state.clients), state.clients)
        found.append((ari(state), adjusted_rand_index(printed, TRUTH)))
    own, as_printed = np.mean(found, axis=0).tolist()
    return own, as_printed


@pytest.mark.long
def test_pairs_that_have_not_met_do_not_part_a_group() -> None:
    """The printed rule takes them for refused; means of twelve draws have standard errors of at most 0.03."""
    own, printed = expectations(0.25)
    assert 0.80 <= own <= 0.95
    assert printed <= 0.1
    own, printed = expectations(0.5)
    assert own >= 0.98
    assert 0.45 <= printed <= 0.8
    assert expectations(0.75)[0] >= 0.999


@pytest.mark.long
@pytest.mark.trains
def test_clusters_below_the_floor_are_no_reason_to_end_while_pairs_are_undecided() -> None:
    """In the first rounds of few clients nobody is in a cluster of three yet."""
    scenario = Scenario(
        name="few", data=Digits(), partition=Rotation(12, (0, 180), samples=60), model=Mlp(hidden=(16,)),
        training=Training(epochs=2, batch=10, lr=0.2), algorithm=EMDCFL(eps=0.01, participation=0.25, by_samples=False),
        protection=Masked(floor=3), rounds=12, validation=0.2,
    )  # fmt: skip
    simulation = Simulation(scenario, None)
    for _ in range(12):
        simulation.step()
    assert simulation.state.round == 12


@pytest.mark.parametrize("lost", [0.05, 0.1])
def test_answers_that_are_lost_are_asked_for_again(lost: float) -> None:
    """With all clients each round all pairs are decided in the end, by the printed rule too."""
    assert expectations(1.0, seeds=2, lost=lost) == (1.0, 1.0)
    assert expectations(0.75, seeds=5, lost=lost)[0] >= 0.999
    assert expectations(0.5, seeds=5, lost=lost)[0] >= 0.98


@pytest.mark.parametrize("grouping", [majorities, components])
def test_pairs_that_never_answer_part_nobody(grouping: Any) -> None:
    """One pair in ten is lost for good, the same ones whenever they are asked."""
    for seed in range(4):
        gone = np.random.default_rng(seed).random((CLIENTS, CLIENTS)) < 0.1
        assert ari(played(seed, 1.0, 2, lambda _, a, b, gone=gone: bool(gone[a, b]), grouping=grouping)) == 1.0
        printed = played(seed, 1.0, 2, lambda _, a, b, gone=gone: bool(gone[a, b]), grouping=neighbourhoods)
        assert ari(printed) < 0.5


def test_what_is_undecided_is_counted() -> None:
    state = played(0, 0.25)
    found = undecided(state)
    assert found is not None
    assert found["pairs"] == 780
    assert found["decided"] == len(state.accepts) // 2
    assert 0.5 < 1 - found["decided"] / 780 < 0.62  # (1 - (10 * 9) / (40 * 39)) ** 10 = 0.55
    homes = [cluster.members for cluster in state.clusters.values()]
    apart = sum(
        not any((a, b) in state.accepts for a in first for b in second) for k, first in enumerate(homes) for second in homes[:k]
    )
    assert found["apart"] == apart > 0
    assert undecided(played(0, 1.0)) == {"pairs": 780, "decided": 780, "lost": 0, "apart": 0}
    assert undecided(object()) is None
