"""The two liars against a robust rule: under Masked the poison gets into the sum, under TwoServer it is left out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloister.crypto.dense_projection import Dense
from cloister.crypto.projection import TwoStage
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.data.partition import Iid
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Masked, Plain, TwoServer
from cloister.protocol.core.link import Frame
from cloister.protocol.messages import decode
from cloister.protocol.two_servers.messages import Coin, Opening
from cloister.protocol.two_servers.questions import projection_key
from cloister.protocol.two_servers.sharing import HeldShares
from cloister.protocol.view.protection import Protection
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.attack import LoneAttack
from cloister.threat_models.liars import KernelPoison, kernel_poison
from cloister.threat_models.membership import Fixed
from cloister.threat_models.simple_attacks import Honest, MinusGradient

from . import sides
from .coalition_sample import SMALL

LIARS = (0, 1, 2)
K = 256
"""Of the 610 coordinates of the small model."""
STRENGTH = 8.0


def simulated(protection: Protection, adversary: Adversary | None, tap: Any = None) -> Simulation:
    """Multi-Krum that leaves out three of ten."""
    algorithm = RobustFedAvg(rule=MultiKrum(3, m=6))
    return Simulation(replace(SMALL, algorithm=algorithm, protection=protection, adversary=adversary, faults=tap), None)


def played(protection: Protection, adversary: Adversary | None) -> tuple[set[int], np.ndarray[Any, Any]]:
    """Whose updates are in the sum of the first round, and the model after it."""
    simulation = simulated(protection, adversary)
    simulation.step()
    return chosen(simulation), simulation.vectors()[0]


def chosen(simulation: Simulation) -> set[int]:
    return {i for i, w in simulation.state.outcome.weights.items() if w != 0}


def liars(attack: LoneAttack, shown: LoneAttack | None = None) -> Adversary:
    return Adversary(members=Fixed(LIARS), upload=attack, shown=shown)


def knowing(held: list[Any]) -> Adversary:
    """A coalition that knows a projection, and hides a poison in its kernel."""
    return liars(KernelPoison(MinusGradient(STRENGTH), lambda known: held[0]))


def direction() -> np.ndarray[Any, Any]:
    """Where the poison moves the model, if nothing leaves it out: from the honest mean."""
    clean, poisoned = open_model(None), open_model(liars(MinusGradient(STRENGTH)))
    return np.asarray(poisoned - clean)


def open_model(adversary: Adversary | None) -> np.ndarray[Any, Any]:
    simulation = Simulation(replace(SMALL, protection=Plain(), adversary=adversary), None)
    simulation.step()
    return simulation.vectors()[0]


@pytest.mark.trains
@pytest.mark.parametrize(
    "protection", [Plain(), TwoServer(k=K), TwoServer(), Masked(sketch=K)], ids=["plain", "k", "all", "masked"]
)
def test_an_open_poison_is_left_out_everywhere(protection: Protection) -> None:
    found, _ = played(protection, liars(MinusGradient(STRENGTH)))
    assert len(found) == 6
    assert found.isdisjoint(LIARS)


@pytest.mark.trains
def test_a_two_faced_client_gets_its_poison_summed_under_masked_and_has_one_face_under_two_servers() -> None:
    two_faced = liars(MinusGradient(STRENGTH), Honest())
    honest, clean = played(Masked(sketch=K), None)
    found, poisoned = played(Masked(sketch=K), two_faced)
    assert found == honest  # the server saw what it would have seen without attack
    assert found & set(LIARS)
    share = len(found & set(LIARS)) / 6 / 0.3  # of the poison that a plain mean lets through
    along = direction()
    assert (poisoned - clean) @ along > 0.5 * share * (along @ along)
    found, model = played(TwoServer(k=K), two_faced)
    _, plain = played(Plain(), two_faced)
    assert found.isdisjoint(LIARS)
    assert abs((model - plain) @ along) < 0.05 * (along @ along)


@pytest.mark.trains
def test_a_poison_in_the_kernel_is_summed_under_masked() -> None:
    found, poisoned = played(Masked(sketch=K), liars(KernelPoison(MinusGradient(STRENGTH))))
    honest, clean = played(Masked(sketch=K), None)
    assert found == honest
    assert honest & set(LIARS)
    along = direction()
    moved = poisoned - clean
    assert moved @ along > 0.2 * (along @ along)  # 1 - 256 / 610 of it, from those that were chosen


@pytest.mark.trains
def test_under_two_servers_there_is_no_kernel_to_hide_in() -> None:
    """No client is told a projection before it uploads: what is left of the attack is an open poison."""
    hidden, openly = (liars(a) for a in (KernelPoison(MinusGradient(STRENGTH)), MinusGradient(STRENGTH)))
    found, model = played(TwoServer(k=K), hidden)
    other, also = played(TwoServer(k=K), openly)
    assert found == other
    assert found.isdisjoint(LIARS)
    assert np.array_equal(model, also)


@pytest.mark.trains
def test_under_two_servers_a_guessed_kernel_hides_nothing() -> None:
    guess = TwoStage.draw(b"g" * 32, b"h" * 32, 610, K)
    found, model = played(TwoServer(k=K), knowing([guess]))
    assert len(found) == 6
    assert found.isdisjoint(LIARS)
    _, plain = played(Plain(), knowing([guess]))
    assert np.linalg.norm(model - plain) < 0.05 * np.linalg.norm(direction())


@pytest.mark.trains
def test_the_projection_of_the_last_round_is_of_no_use_either() -> None:
    """Told by the server, after the round, what it was projected with, the liars aim at it in the next."""
    seen: dict[str, list[tuple[bytes, Any]]] = {"Coin": [], "Opening": []}

    def watching(frame: Frame) -> list[Frame]:
        if frame.kind in seen:
            envelope = decode(frame.data, frame.sender, 1 << 26)
            seen[frame.kind].append((envelope.session, envelope.message))
        return [frame]

    held: list[Any] = [TwoStage.draw(b"g" * 32, b"h" * 32, 610, K)]
    simulation = simulated(TwoServer(k=K), knowing(held), watching)
    simulation.step()
    view: Any = simulation.view
    ((question, coin),), ((_, opening),) = seen["Coin"], seen["Opening"]
    assert isinstance(coin, Coin)
    assert isinstance(opening, Opening)
    projection = sides.part(view, HeldShares).terms.project(projection_key(question, opening.coin, coin.coin))
    units = np.eye(610, dtype=np.uint64)
    matrix = np.stack([projection.apply(unit).view(np.int64) for unit in units], axis=1).astype(np.float64)
    held[0] = Dense(matrix)
    aimed = kernel_poison(held[0], np.zeros(610, np.float32), np.ones(610, np.float32))
    assert np.linalg.norm(matrix @ aimed) < 1e-5 * np.linalg.norm(matrix @ np.ones(610))  # it would have hidden in the last round
    simulation.step()
    assert len(seen["Coin"]) == 2
    assert len(chosen(simulation)) == 6
    assert chosen(simulation).isdisjoint(LIARS)


@pytest.mark.trains
@pytest.mark.long
def test_under_encryption_a_two_faced_client_is_not_seen_either() -> None:
    """Robustness under Encrypted is claimed against open poisons alone."""
    algorithm = RobustFedAvg(rule=MultiKrum(1, m=3))
    scenario = replace(SMALL, partition=Iid(clients=5, samples=60), algorithm=algorithm, protection=Encrypted(k=K))

    def summed(adversary: Adversary | None) -> set[int]:
        simulation = Simulation(replace(scenario, adversary=adversary), None)
        simulation.step()
        return chosen(simulation)

    honest = summed(None)
    liar = Fixed((min(honest),))
    openly = Adversary(members=liar, upload=MinusGradient(STRENGTH))
    assert min(honest) not in summed(openly)
    assert summed(replace(openly, shown=Honest())) == honest
