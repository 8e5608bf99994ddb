"""CFL, FLIC, FedAvg and robust rules under every protection: the same clusters, and models within bounds."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.algorithm import Algorithm, Start
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.link import Frame
from cloister.protocol.drivers.dropouts import Dropouts
from cloister.protocol.messages import decode
from cloister.protocol.view.answers import Model
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import encode
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.membership import Fixed
from cloister.threat_models.simple_attacks import MinusGradient

SPLITTING = CFL(thresholds=ScaleFree(eps1=0.9, eps2=0.3), patience=3)
ROUNDS = 5
SMALL = Scenario(
    name="five views",
    data=Digits(),
    partition=LabelSwap(clients=8, groups=2, pairs=((1, 7), (3, 8)), shared_test=True),
    model=Mlp(hidden=(16,)),
    training=Training(epochs=3, batch=10, lr=0.1),
    algorithm=SPLITTING,
    protection=Plain(floor=2),
    rounds=ROUNDS,
)
PROTECTIONS: dict[str, Protection] = {
    "Permuted": Permuted(floor=2),
    "Masked": Masked(floor=2, sketch=512),
    "Encrypted": Encrypted(k=512, floor=2),
    "TwoServer": TwoServer(floor=2),
}
TOLERANCE = {"Permuted": 1e-5, "Masked": 1e-4, "Encrypted": 1e-5, "TwoServer": 1e-5}
"""Of a model's coordinate, against Plain's: training multiplies the rounding of the rounds before."""
SKETCHES = ("Upload", "OffsetSketched")
"""Messages that hold a sketch under Masked: about the origin, or behind an offset."""
SLOWLY = [pytest.param(name, marks=pytest.mark.slow if name == "Encrypted" else ()) for name in PROTECTIONS]
CLUSTERS = {(0, 1, 2, 3), (4, 5, 6, 7)}


def played(protection: Protection, algorithm: Algorithm = SPLITTING, rounds: int = ROUNDS, tap: Any = None) -> Simulation:
    simulation = Simulation(replace(SMALL, protection=protection, algorithm=algorithm, faults=tap), None)
    for _ in range(rounds):
        simulation.step()
    return simulation


def clusters(simulation: Simulation) -> set[tuple[int, ...]]:
    return {cluster.members for cluster in simulation.state.clusters.values()}


def farthest(ours: Simulation, others: Simulation) -> float:
    """The largest difference of a coordinate of a client's model."""
    mine, theirs = ours.vectors(), others.vectors()
    assert mine.keys() == theirs.keys()
    return max(float(np.abs(mine[i] - theirs[i]).max()) for i in mine)


SLOWLY = [pytest.param(n, marks=pytest.mark.slow if isinstance(p, Encrypted) else ()) for n, p in PROTECTIONS.items()]


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("name", SLOWLY)
def test_cfl_finds_the_clusters_and_models_of_plain(name: str) -> None:
    ours, plain = played(PROTECTIONS[name]), played(Plain(floor=2))
    assert clusters(ours) == clusters(plain) == CLUSTERS
    assert ours.state.tree.keys() == plain.state.tree.keys()
    assert farthest(ours, plain) < TOLERANCE[name]
    assert not ours.view.record.faults


@pytest.mark.trains
def test_cfl_finds_the_clusters_from_small_sketches() -> None:
    """What is shipped; a split may take another look, so models are those of another round."""
    assert clusters(played(Masked(floor=2), rounds=ROUNDS + 1)) == CLUSTERS


@pytest.mark.trains
@pytest.mark.parametrize("by_samples", [True, False])
@pytest.mark.parametrize("name", PROTECTIONS)
@pytest.mark.long
def test_fedavg_has_the_models_of_plain(name: str, by_samples: bool) -> None:
    algorithm = FedAvg(by_samples=by_samples)
    if by_samples and name == "Encrypted":
        with pytest.raises(Refused, match="by_samples=False"):
            replace(SMALL, protection=PROTECTIONS[name], algorithm=algorithm)
        return
    ours, plain = (played(protection, algorithm, 2) for protection in (PROTECTIONS[name], Plain(floor=2)))
    assert farthest(ours, plain) < TOLERANCE[name]
    start = ours.view.harness.observe(Model("init")) if Model("init") in ours.state.models else ours.vectors()[0] * 0
    assert np.linalg.norm(ours.vectors()[0] - start) > 1.0


def attacked(protection: Protection, algorithm: Algorithm, members: tuple[int, ...]) -> Simulation:
    adversary = Adversary(members=Fixed(members), upload=MinusGradient())
    return Simulation(replace(SMALL, protection=protection, algorithm=algorithm, adversary=adversary), None)


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("algorithm", [FLIC(rounds_before=1), HardenedFLIC(rounds_before=1, every=1)], ids=["FLIC", "hardened"])
@pytest.mark.parametrize("name", SLOWLY)
def test_flic_finds_the_communities_and_models_of_plain(name: str, algorithm: FLIC | HardenedFLIC) -> None:
    algorithm = replace(algorithm, by_samples=name != "Encrypted")
    protection = PROTECTIONS[name]
    ours, plain = (attacked(one, algorithm, (0, 2, 5)) for one in (protection, Plain(floor=2)))
    for simulation in (ours, plain):
        simulation.step()
        simulation.step()
        assert clusters(simulation) == {(0, 2, 5), (1, 3, 4, 6, 7)}
    by_cosines = isinstance(algorithm, HardenedFLIC) and name in ("Masked", "Encrypted")  # its weights are of noisy ones
    assert farthest(ours, plain) < (0.05 if by_cosines else TOLERANCE[name])
    assert not ours.view.record.faults


@pytest.mark.trains
@pytest.mark.parametrize("name", PROTECTIONS)
@pytest.mark.long
def test_multi_krum_leaves_out_whom_it_leaves_out_in_clear(name: str) -> None:
    rule = RobustFedAvg(rule=MultiKrum(2))
    ours, plain = (attacked(protection, rule, (0, 5)) for protection in (PROTECTIONS[name], Plain(floor=2)))
    for simulation in (ours, plain):
        simulation.step()
        assert {i for i, w in simulation.state.outcome.weights.items() if w == 0} == {0, 5}
    assert farthest(ours, plain) < TOLERANCE[name]


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("name", ["Plain", *SLOWLY])
def test_cfl_finds_the_clusters_although_somebody_falls_silent_in_every_round(name: str) -> None:
    protection = PROTECTIONS.get(name, Plain(floor=2))
    lost: set[int] = set()
    dropouts = Dropouts(tuple(range(8)), 1, seed=3)

    def tap(frame: Frame) -> Iterable[Frame]:
        passed = tuple(dropouts(frame))
        lost.update(() if passed else (frame.sender,))
        return passed

    simulation = played(protection, rounds=7, tap=tap)
    assert lost  # it was not for nothing
    assert clusters(simulation) == CLUSTERS
    assert not simulation.state.waiting


@pytest.mark.trains
@pytest.mark.parametrize("name", SLOWLY)
@pytest.mark.long
def test_a_run_that_is_stopped_and_resumed_ends_as_if_it_had_not_been(name: str, tmp_path: Path) -> None:
    scenario = replace(SMALL, protection=PROTECTIONS[name])

    def play(folder: str, rounds: int | None = None, resume: bool = False) -> None:
        for k, _ in enumerate(run(scenario, tmp_path / folder, resume=resume)):
            if k + 1 == rounds:
                return

    play("straight")
    play("stopped", 2)
    play("stopped", 2, resume=True)  # the next round is after the split, with what was remembered of it
    play("stopped", resume=True)
    for path in sorted((tmp_path / "straight").rglob("*")):
        where = path.relative_to(tmp_path / "straight")
        again = tmp_path / "stopped" / where
        if where.parts[0] == "models" and where.suffix:
            mine, theirs = load_file(path), load_file(again)
            bound = 1e-5 if name == "Encrypted" else 0.0  # its library draws its own randomness
            assert mine.keys() == theirs.keys()
            assert all(np.abs(mine[k] - theirs[k]).max() <= bound for k in mine)
        elif where.name in ("disclosure.jsonl", "faults.jsonl", "splits.jsonl", "tree.json"):
            assert path.read_bytes() == again.read_bytes()
    assert (tmp_path / "straight" / "models" / "00.safetensors").exists()


# --- what a view cannot compare -----------------------------------------------------------------------------------------

D = 30


def honest(client: int) -> np.ndarray[Any, Any]:
    return (0.1 * (np.random.default_rng(client).standard_normal(D) + 1)).astype(np.float32)


def one_round(
    protection: Protection, algorithm: Algorithm, tap: Callable[[Frame], Iterable[Frame]], rounds: int = 1
) -> tuple[Any, Any]:
    """The state after a round, or some, of eight clients, and the view."""

    def workers(jobs: Any) -> Any:
        return ((job.client, LocalWork(honest(job.client), 1 + job.client)) for job in jobs)

    clients = tuple(range(8))
    view = protection.open(Setup(bytes(16), np.zeros(D, np.float32), clients, workers, SimulatedEntropy(0), tap))
    state = algorithm.init(Start(clients, dict.fromkeys(clients, 0), Model("init")))
    for t in range(rounds):
        state = algorithm.round(state, view, np.random.default_rng(t))
        view.harness.retire(state.models, state.remembered)
    return state, view


def losing_a_sketch(client: int) -> Callable[[Frame], Iterable[Frame]]:
    """A network that loses the first encrypted input, or every upload of a sketch, of one client."""
    lost: list[int] = []

    def tap(frame: Frame) -> Iterable[Frame]:
        if frame.sender != client or frame.kind not in (*SKETCHES, "EncryptedInput") or lost:
            return [frame]
        lost.append(frame.number)
        return []

    return tap


def spoilt(frame: Frame) -> Iterable[Frame]:
    """Client 2 gives the second server another key than it used."""
    if frame.kind != "KeyShare" or frame.sender != 2:
        return [frame]
    envelope = decode(frame.data, frame.sender, 1 << 24)
    message: Any = envelope.message
    return [replace(frame, data=encode(replace(envelope, message=replace(message, key=bytes(32)))))]


UNCOMPARED = [(Masked(), losing_a_sketch), (Encrypted(), losing_a_sketch), (TwoServer(), lambda client: spoilt)]


@pytest.mark.parametrize(("protection", "tap"), UNCOMPARED, ids=["Masked", "Encrypted", "TwoServer"])
@pytest.mark.long
def test_who_cannot_be_compared_is_not_in_a_robust_sum(protection: Protection, tap: Any) -> None:
    state, view = one_round(protection, RobustFedAvg(rule=MultiKrum(1)), tap(2))
    assert state.outcome.unmoved == ""
    assert state.outcome.weights.keys() == {0, 1, 3, 4, 5, 6, 7}
    expected = sum(w * honest(i).astype(np.float64) for i, w in state.outcome.weights.items())
    assert np.allclose(view.harness.observe(state.clusters["0"].model), expected, atol=1e-5)
    assert state.measured["0"].clients == (0, 1, 3, 4, 5, 6, 7)


def test_a_robust_rule_without_any_sketch_leaves_the_model_and_says_why() -> None:
    state, _ = one_round(Masked(), RobustFedAvg(rule=MultiKrum(1)), lambda f: [] if f.kind in SKETCHES else [f])
    assert "could be compared" in state.outcome.unmoved
    assert state.clusters["0"].model == Model("init")


@pytest.mark.parametrize("similarities", ["when ripe", "every round"])
def test_cfl_without_any_sketch_trains_on_and_judges_nothing(similarities: Any) -> None:
    lost: list[str] = []

    def tap(frame: Frame) -> list[Frame]:
        lost.extend([frame.kind] if frame.kind in SKETCHES else [])
        return [] if frame.kind in SKETCHES else [frame]

    state, view = one_round(Masked(), replace(SPLITTING, similarities=similarities, patience=0), tap)
    assert lost == ["Upload" if similarities == "every round" else "OffsetSketched"] * 8
    assert all(seen.similarity is None for seen in state.measured.values())
    assert similarities == "when ripe" or not state.measured
    assert (state.clusters.keys(), state.tree) == ({"0"}, {})
    mean = np.mean([honest(i) for i in range(8)], axis=0)
    assert np.allclose(view.harness.observe(state.clusters["0"].model), mean, atol=1e-5)


@pytest.mark.parametrize("similarities", ["when ripe", "every round"])
def test_cfl_under_two_servers_is_not_stopped_by_a_client_whose_shares_are_of_no_update(similarities: Any) -> None:
    """A Gram question before the sum says whose, and the sum goes without."""
    state, view = one_round(TwoServer(), replace(SPLITTING, similarities=similarities), spoilt, 1)
    mean = np.mean([honest(i) for i in range(8) if i != 2], axis=0)
    assert np.allclose(view.harness.observe(state.clusters["0"].model), mean, atol=1e-5)
    assert [(fault.blame, fault.rejected) for fault in view.record.faults][-1] == (2, True)
    assert view.record.below_floor == []
