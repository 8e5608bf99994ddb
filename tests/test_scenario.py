"""Scenarios: fields set from text, what is written down of them, and runs that depend on nothing else."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cloister.fl.algorithms.cfl import CFL, Absolute, ScaleFree
from cloister.fl.algorithms.emd_cfl import AS_PUBLISHED
from cloister.fl.algorithms.fedavg import FedAvg, Local, Oracle
from cloister.fl.algorithms.fedem import FedEM
from cloister.fl.algorithms.fedsoft import FedSoft
from cloister.fl.algorithms.fpfc import FPFC
from cloister.fl.algorithms.pacfl import PACFL
from cloister.fl.clients.fast import Fast
from cloister.fl.clients.training import Job, PlainLoop, Training
from cloister.fl.data.partition import LabelSwap, LogNormal
from cloister.fl.data.population import Client, Population, Source
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.lost_round import NothingLearned
from cloister.fl.runs.scenario import Scenario, changed, described
from cloister.fl.runs.simulation import Simulation, held_out, seed_of
from cloister.protocol import Encrypted, Masked, Permuted, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.link import Frame
from cloister.scenario_file import load, with_settings

SMALL = Scenario(
    name="small",
    data=Digits(),
    partition=LabelSwap(clients=8, groups=2, samples=60, sizes=LogNormal(0.4)),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=2, batch=10, lr=0.1),
    algorithm=CFL(thresholds=ScaleFree(eps1=0.9, eps2=0.1), patience=3, participation=0.75, sampling="random"),
    protection=Permuted(floor=2),
    rounds=7,
)


def trained(scenario: Scenario, rounds: int | None = None) -> Simulation:
    simulation = Simulation(scenario, None)
    for _ in range(rounds or scenario.rounds):
        simulation.step()
    return simulation


# --- fields from text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("rounds", "9", 9),
        ("name", "3 words here", "3 words here"),
        ("training.lr", "0.05", 0.05),
        ("training.lr", "1e-2", 0.01),
        ("training.momentum", "0", 0.0),
        ("algorithm.thresholds.eps1", ".3", 0.3),
        ("algorithm.remember", "False", False),
        ("algorithm.similarity", "gradient", "gradient"),
        ("protection.keys", "run", "run"),
        ("partition.samples", "None", None),
        ("partition.samples", "30", 30),
        ("partition.pairs", "((1, 2), (3, 4))", ((1, 2), (3, 4))),
        ("partition.pairs", "(1,2),(3,4)", ((1, 2), (3, 4))),
        ("partition.sizes.sigma", "1", 1.0),
        ("model.hidden", "64,32", (64, 32)),
        ("model.hidden", "(64, 32)", (64, 32)),
        ("model.hidden", "64", (64,)),
        ("model.hidden", "()", ()),
        ("execution.workers", "2", 2),
    ],
)
def test_set_reads_text_as_the_declared_type(path: str, text: str, value: object) -> None:
    found: Any = changed(SMALL, path, text)
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("training.rate", "1", "Training; it has: epochs, batch, lr, momentum"),
        ("nothing", "1", "Scenario; it has: name, data, partition"),
        ("lr", "1", "no field 'lr' in Scenario; did you mean training.lr; it has: name"),
        ("training.lr.x", "1", "float; it has: none"),
        ("training.lr", "fast", "Training.lr cannot be set to 'fast'"),
        ("training.lr", "-1", "Training.lr is a finite number above 0, not -1"),
        ("rounds", "2.5", "Scenario.rounds cannot be set"),
        ("rounds", "0", "rounds"),
        ("algorithm.remember", "maybe", "CFL.remember cannot be set"),
        ("algorithm", "FedAvg", "set one of its fields: thresholds"),
        ("algorithm.similarity", "cosine", "similarity"),
        ("model.hidden", "64,wide", "Mlp.hidden cannot be set"),
        ("model.hidden", "64.5", "Mlp.hidden cannot be set"),
        ("partition.pairs", "((1,), (3, 4))", "LabelSwap.pairs cannot be set"),
        ("partition.pairs", "(1, 2)", "LabelSwap.pairs cannot be set"),
        ("protection.keys", "session", "CFL needs gram(edge)"),
    ],
)
def test_set_says_in_one_line_what_is_wrong(path: str, text: str, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        changed(SMALL, path, text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_apply_in_order_and_leave_the_scenario_as_it_was() -> None:
    before = described(SMALL)
    found = with_settings(SMALL, ["training.lr=0.5", "training.lr = 0.7", "rounds=3"])
    assert (found.training.lr, found.rounds) == (0.7, 3)
    assert described(SMALL) == before
    with pytest.raises(ValueError, match="PATH=VALUE"):
        with_settings(SMALL, ["training.lr"])


def test_a_setting_that_fits_with_others_alone_waits_for_them() -> None:
    plain = replace(SMALL, algorithm=FedAvg())
    encrypted = ["protection=Encrypted()", "rounds=4", "algorithm=FedAvg(by_samples=False)", "rounds=5"]
    found = with_settings(plain, encrypted)
    assert (found.rounds, found.protection, found.algorithm) == (5, Encrypted(), FedAvg(by_samples=False))
    with pytest.raises(Refused, match="FedAvg weighs clients by their samples"):
        with_settings(plain, encrypted[:2])
    with pytest.raises(ValueError, match="rounds"):
        with_settings(plain, ["rounds=x", "rounds=5"])
    with pytest.raises(Refused, match="RobustFedAvg needs coordinates, which Encrypted does not give"):  # and no word of FedAvg
        with_settings(plain, ["protection=Encrypted()", "algorithm=RobustFedAvg(rule=Median())"])


# --- construction -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [{"rounds": 0}, {"evaluate_every": 0}, {"validation": 1.0}, {"validation": -0.1}, {"validation": float("nan")}]
)
def test_wrong_fields_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        replace(SMALL, **wrong)


@pytest.mark.parametrize("algorithm", [FedAvg(), Oracle(), Local()])
def test_arrivals_need_an_algorithm_that_takes_them_in(algorithm: Any) -> None:
    with pytest.raises(ValueError, match=f"{type(algorithm).__name__}.*arrivals"):
        replace(SMALL, algorithm=algorithm, arrivals={3: 2})
    replace(SMALL, algorithm=algorithm, arrivals={3: 0})


def test_arrivals_of_clients_that_are_not_there_are_named() -> None:
    with pytest.raises(ValueError, match=r"\[99\]"):
        Simulation(replace(SMALL, arrivals={99: 2}), None)


def test_the_description_is_json_and_tells_scenarios_apart() -> None:
    assert json.loads(json.dumps(described(SMALL))) == described(SMALL)
    assert described(SMALL)["algorithm"]["type"] == "CFL"
    assert described(replace(SMALL, seed=1)) != described(SMALL)
    assert described(replace(SMALL, algorithm=replace(SMALL.algorithm, gamma_max=0.1))) != described(SMALL)  # type: ignore[type-var]
    assert described(replace(SMALL, protection=Plain())) != described(SMALL)


# --- loading ----------------------------------------------------------------------------------------------------------

TWO = """
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.data.partition import Iid
from cloister.fl.runs.scenario import Scenario
from cloister.fl.clients.training import Training
from cloister.protocol import Plain
def make(name):
    return Scenario(name=name, data=Digits(), partition=Iid(clients=2), model=Mlp(), algorithm=FedAvg(),
                    training=Training(epochs=1, batch=50, lr=0.1), protection=Plain(), rounds=1)
"""


def test_a_file_may_hold_several_scenarios(tmp_path: Path) -> None:
    file = tmp_path / "two.py"
    file.write_text(TWO + "scenario, other = make('first'), make('second')")
    assert load(str(file)).name == "first"
    assert load(f"{file}:other").name == "second"
    with pytest.raises(ValueError, match="scenario, other"):
        load(f"{file}:third")
    file.write_text(TWO + "only = make('only')")
    with pytest.raises(ValueError, match="no scenario named 'scenario'; it has: only"):
        load(str(file))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scenario = (", "SyntaxError"),
        ("import nothing_of_this_name", "line 1: No module named 'nothing_of_this_name'"),
        ("x = 1\n1 / 0", "line 2: ZeroDivisionError"),
        ("{}['key']", "KeyError"),
        ("raise ValueError", "ValueError"),
        ("scenario = 3", "line 1: scenario is 3; give Scenario(...)"),
        ("x = 3", "it has: none"),
    ],
)
def test_a_file_that_does_not_load_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(text)
    with pytest.raises(ValueError) as caught:
        load(str(file))
    assert words in str(caught.value)
    assert "broken.py" in str(caught.value)
    assert "\n" not in str(caught.value)


# --- a run depends on the scenario and on nothing else ----------------------------------------------------------------


@dataclass(frozen=True)
class Reordered:
    """A partition whose clients are listed in another order and under ids that are not contiguous."""

    order: Callable[[list[int]], Sequence[int]]
    inner: LabelSwap

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        made = self.inner(source, rng)
        named = {100 - 7 * i: replace(c, id=100 - 7 * i) for i, c in made.clients.items()}
        order = self.order(sorted(named))
        groups = {i: made.groups[(100 - i) // 7] for i in reversed(order)}
        return Population({i: named[i] for i in order}, groups, made.classes, made.shape)


def shuffled(ids: list[int]) -> list[int]:
    return [ids[k] for k in (3, 0, 7, 5, 1, 6, 2, 4)]


@pytest.mark.trains
@pytest.mark.parametrize("protection", [Plain(), Permuted(floor=2)], ids=["plain", "permuted"])
@pytest.mark.parametrize("order", [lambda ids: ids[::-1], shuffled], ids=["reversed", "shuffled"])
def test_the_order_of_clients_changes_nothing(order: Callable[[list[int]], list[int]], protection: Any) -> None:
    assert isinstance(SMALL.partition, LabelSwap)
    one, other = (
        trained(replace(SMALL, protection=protection, validation=0.2, partition=Reordered(o, SMALL.partition)))
        for o in (lambda ids: ids, order)
    )
    assert list(one.population.clients) != list(other.population.clients)
    assert len(one.state.clusters) > 1
    assert one.state == other.state
    assert one.view.record.log == other.view.record.log
    assert one.view.record.traffic == other.view.record.traffic
    assert one.evaluate() == other.evaluate()
    for model in one.state.models:
        assert np.array_equal(one.view.harness.observe(model), other.view.harness.observe(model))


@pytest.mark.trains
def test_the_executor_changes_no_model_beyond_rounding() -> None:
    scenario = replace(SMALL, algorithm=FedAvg(), rounds=3)
    one, other = trained(scenario), trained(replace(scenario, execution=PlainLoop()))
    np.testing.assert_allclose(one.vectors()[0], other.vectors()[0], rtol=0, atol=1e-5)


def test_seeds_of_purposes_differ_and_are_stable() -> None:
    assert seed_of(0, "model") != seed_of(1, "model") != seed_of(1, "partition")
    assert seed_of(0, "local", 1, 2) != seed_of(0, "local", 2, 1)
    assert seed_of(0, "local", 12, 3) != seed_of(0, "local", 1, 23)
    assert all(0 <= seed_of(seed, "x") < 2**63 for seed in (-1, 0, 10**30))


def test_validation_holds_out_of_the_training_data() -> None:
    client = next(iter(Simulation(SMALL, None).population.clients.values()))
    kept, out = held_out(client, 0.25, 3)
    assert len(out.train) == round(0.25 * len(client.train))
    assert len(kept.train) + len(out.train) == len(client.train)
    rows = lambda c: sorted(x.numpy().tobytes() for x in c.train.x)  # noqa: E731
    assert sorted(rows(kept) + rows(out)) == rows(client)
    with pytest.raises(ValueError, match="too few"):
        held_out(replace(client, train=client.train.take(torch.tensor([0]))), 0.5, 0)


@dataclass(frozen=True, kw_only=True)
class Recording(Fast):
    """The fast path, telling on which device it was to train."""

    told: list[str] = field(default_factory=list)

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int
    ) -> Iterator[tuple[int, np.ndarray[Any, np.dtype[np.float32]]]]:
        self.told.append(self.device)
        return PlainLoop()(module, jobs, training, round)


@pytest.mark.trains
def test_clients_train_on_the_scenarios_device() -> None:
    execution = Recording()
    trained(replace(SMALL, execution=execution, device="cpu:0"), rounds=1)
    assert execution.told == ["cpu:0"]


# --- updates that cannot be used --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Poisoned:
    """An executor under which some clients send NaN in one round, or, without one, in all."""

    clients: frozenset[int]
    round: int | None = None

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int
    ) -> Iterator[tuple[int, np.ndarray[Any, np.dtype[np.float32]]]]:
        for client, update in Fast()(module, jobs, training, round):
            bad = self.round in (None, round) and client in self.clients
            yield client, np.full_like(update, np.nan) if bad else update


ALGORITHMS = [FedAvg(), Oracle(), CFL(thresholds=Absolute(eps1=0.0, eps2=0.0))]


@pytest.mark.trains
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
def test_one_bad_client_is_recorded_and_the_others_go_on(algorithm: Any) -> None:
    scenario = replace(SMALL, algorithm=algorithm, execution=Poisoned(frozenset({5}), 1), rounds=3)
    simulation = trained(scenario)
    assert [(fault.blame, fault.rejected) for fault in simulation.view.record.faults] == [(5, True)]
    assert all(np.isfinite(v).all() for v in simulation.vectors().values())
    clean = trained(replace(scenario, execution=Fast()))
    assert not np.array_equal(simulation.vectors()[5], clean.vectors()[5])


@pytest.mark.trains
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
def test_a_round_in_which_no_update_can_be_used_is_an_error_of_one_line(algorithm: Any) -> None:
    simulation = Simulation(replace(SMALL, algorithm=algorithm, execution=Poisoned(frozenset(range(8)), 1)), None)
    simulation.step()
    with pytest.raises(NothingLearned, match=r"round 1.*not finite.*lr") as caught:
        simulation.step()
    assert "\n" not in str(caught.value)


@pytest.mark.trains
def test_a_sample_that_teaches_nothing_does_not_end_the_run() -> None:
    """One client a round, and one of the eight is always bad: its rounds are lost, and no others."""
    scenario = replace(SMALL, algorithm=FedAvg(participation=1 / 8, sampling="random"), protection=Plain(floor=1), rounds=24)
    simulation = Simulation(replace(scenario, execution=Poisoned(frozenset({5}))), None)
    lost = []
    for _ in range(24):
        known = len(simulation.view.record.faults)
        simulation.step()
        assert bool(simulation.lost) == (len(simulation.view.record.faults) > known)
        lost.append(bool(simulation.lost))
    assert 0 < sum(lost) < 24


@pytest.mark.trains
def test_first_rounds_below_the_floor_may_be_followed_by_others() -> None:
    """In the first round all updates but two are bad, and two are too few for the floor; the second makes a model."""
    few = Poisoned(frozenset(range(2, 8)), 0)
    scenario = replace(SMALL, algorithm=FedAvg(), protection=Plain(floor=3), execution=few, rounds=2)
    simulation = Simulation(scenario, None)
    simulation.step()
    assert "the updates of 6 clients could not be used (" in simulation.lost
    assert (
        "and a sum of the others is below the floor of 3; inputs of one scale, a smaller training.lr may help" in simulation.lost
    )
    simulation.step()
    assert not simulation.lost
    with pytest.raises(NothingLearned, match="below the floor of 3"):
        trained(replace(scenario, execution=Poisoned(frozenset(range(2, 8))), rounds=2))


@dataclass(frozen=True)
class OneHasMost:
    """Eight clients, of whom the last has nearly all examples."""

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        places = [torch.arange(10 * i, 10 * i + (10 if i < 7 else 200)) for i in range(8)]
        clients = {i: Client(i, source.train.take(at), source.test.take(torch.arange(10))) for i, at in enumerate(places)}
        return Population(clients, {}, source.classes, source.shape)


@pytest.mark.trains
@pytest.mark.parametrize(
    ("algorithm", "protection", "helps"),
    [
        (FedAvg(), Masked(), "more clients, algorithm.by_samples=False or a lower protection.floor"),
        (FedAvg(), Masked(floor=2), "more clients or algorithm.by_samples=False may help"),
        (FedAvg(), Plain(floor=3), "more clients, algorithm.by_samples=False or a lower protection.floor"),
        (FedEM(models=2), Plain(floor=3), "more clients, algorithm.most=1 or a lower protection.floor"),
    ],
    ids=["Masked", "the least floor", "Plain", "slots"],
)
def test_what_would_help_a_sum_that_one_client_outweighs_is_said_in_the_algorithms_own_fields(
    algorithm: Any, protection: Any, helps: str
) -> None:
    """And said, where K models stay at their starts, of which a run never spoke."""
    scenario = replace(SMALL, partition=OneHasMost(), algorithm=algorithm, protection=protection, rounds=2)
    with pytest.raises(NothingLearned, match=f"the floor of {protection.floor}") as caught:
        trained(scenario)
    assert helps in str(caught.value)
    assert "training.lr" not in str(caught.value)


@pytest.mark.trains
@pytest.mark.parametrize("protection", [Plain(floor=8), Masked(floor=8)], ids=["shown", "hidden"])
def test_clients_with_models_of_their_own_go_on_though_no_slot_is_opened(protection: Any) -> None:
    scenario = replace(SMALL, partition=OneHasMost(), algorithm=FedSoft(models=2), protection=protection, rounds=2)
    before, after = (Simulation(scenario, None).vectors(), trained(scenario).vectors())
    assert all(not np.array_equal(before[i], after[i]) for i in range(8))


@pytest.mark.trains
def test_a_run_that_is_ruined_ends_after_ten_lost_rounds_though_other_clients_could_be_asked() -> None:
    scenario = replace(SMALL, algorithm=FedAvg(participation=0.5, sampling="random"), protection=Plain(), rounds=30)
    simulation = Simulation(replace(scenario, execution=Poisoned(frozenset(range(8)))), None)
    for _ in range(9):
        simulation.step()
    with pytest.raises(NothingLearned, match="round 9"):
        simulation.step()


@pytest.mark.trains
def test_a_run_that_never_learned_anything_ends_so_whatever_its_other_lives_counted() -> None:
    """Before: killed once it ended well, and handed everybody the initial model."""
    scenario = replace(SMALL, algorithm=FedAvg(participation=0.5, sampling="random"), protection=Plain(), rounds=6)
    simulation = Simulation(replace(scenario, execution=Poisoned(frozenset(range(8)))), None)
    for _ in range(5):
        simulation.step()
    simulation.in_vain = 0  # as a coordinator begins that goes on
    with pytest.raises(NothingLearned, match="round 5"):
        simulation.step()


@dataclass(frozen=True)
class PoisonedFrom:
    """An executor under which all clients send NaN from a round on."""

    round: int

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int
    ) -> Iterator[tuple[int, np.ndarray[Any, np.dtype[np.float32]]]]:
        for client, update in Fast()(module, jobs, training, round):
            yield client, np.full_like(update, np.nan) if round >= self.round else update


@pytest.mark.trains
def test_a_run_that_learned_something_is_not_ended_by_lost_rounds_and_keeps_what_it_learned() -> None:
    """Before: after ten of them, and nobody had the model."""
    scenario = replace(SMALL, algorithm=FedAvg(participation=0.5, sampling="random"), protection=Plain(), rounds=14)
    simulation = trained(replace(scenario, execution=PoisonedFrom(2)))
    assert simulation.in_vain == 12
    assert "not finite" in simulation.lost
    learned = trained(replace(scenario, rounds=2, execution=Fast()))
    assert all(np.array_equal(v, learned.vectors()[i]) for i, v in simulation.vectors().items())


@pytest.mark.trains
def test_clients_that_are_still_to_come_are_waited_for() -> None:
    """Two clients are too few for the floor; six more arrive in the third round."""
    arrivals = dict.fromkeys(range(2, 8), 2)
    simulation = Simulation(replace(SMALL, protection=Plain(floor=3), arrivals=arrivals), None)
    for _ in range(2):
        simulation.step()
        assert "below the floor of 3" in simulation.lost
    simulation.step()
    assert not simulation.lost


@pytest.mark.trains
def test_the_reason_of_one_round_is_not_that_of_another() -> None:
    """In the first round two updates are too few; in the second nobody is heard, and nobody says that sums were too small."""
    silent = [False]
    few = Poisoned(frozenset(range(2, 8)), 0)
    scenario = replace(SMALL, protection=Plain(floor=3), execution=few, rounds=3)
    simulation = Simulation(replace(scenario, faults=lambda frame: [] if silent[0] else [frame]), None)
    simulation.step()
    assert "below the floor" in simulation.lost
    silent[0] = True
    simulation.step()
    assert "below the floor" not in simulation.lost


# --- accounting -------------------------------------------------------------------------------------------------------


@pytest.mark.trains
@pytest.mark.parametrize("algorithm", [FedAvg(), SMALL.algorithm], ids=["fedavg", "cfl"])
@pytest.mark.parametrize("protection", [Plain(), Permuted(floor=2)], ids=["plain", "permuted"])
def test_traffic_is_the_bytes_of_the_frames(algorithm: Any, protection: Any) -> None:
    frames: list[Frame] = []

    def tap(frame: Frame) -> list[Frame]:
        frames.append(frame)
        return [frame]

    simulation = trained(replace(SMALL, algorithm=algorithm, protection=protection, faults=tap))
    traffic = simulation.view.record.traffic
    assert traffic.messages == len(frames)
    assert traffic.bytes_up == sum(len(f.data) for f in frames if f.sender != -1)
    assert traffic.bytes_down == sum(len(f.data) for f in frames if f.sender == -1)
    exchange = [f for f in frames if f.kind in ("Advertise", "Roster", "SealedSeed", "SeedTag", "SeedQuorum")]
    assert bool(exchange) == isinstance(protection, Permuted)


@pytest.mark.trains
def test_clients_that_arrive_late_are_evaluated_once_they_have_a_cluster() -> None:
    algorithm = CFL(thresholds=ScaleFree(eps1=0.9, eps2=0.1), patience=2)
    simulation = Simulation(replace(SMALL, algorithm=algorithm, arrivals={0: 1, 7: 5}, rounds=8), None)
    simulation.step()
    assert sorted(simulation.evaluate()) == [1, 2, 3, 4, 5, 6]
    simulation.step()
    assert 0 in simulation.evaluate()
    while simulation.state.round < 5:
        simulation.step()
    assert simulation.state.tree
    simulation.step()
    assert 7 in {*simulation.state.waiting, *simulation.vectors()}


def test_a_client_without_training_examples_is_named() -> None:
    whole = Simulation(SMALL, None).population
    empty: Client = replace(whole.clients[2], train=whole.clients[2].train.take(torch.tensor([], dtype=int)))
    with pytest.raises(ValueError, match="client 2 has no training examples"):
        replace(whole, clients={**whole.clients, 2: empty})


def test_overlapping_means_are_refused_under_masks_when_the_scenario_is_built() -> None:
    """Before: without samples they were accepted, and refused in the first round in words that did not say what to do."""
    for by_samples in (True, False):
        with pytest.raises(Refused, match=r'means over neighbourhoods overlap.*set algorithm\.over="members"'):
            replace(SMALL, algorithm=replace(AS_PUBLISHED, by_samples=by_samples), protection=Masked(), validation=0.1)
    replace(SMALL, algorithm=replace(AS_PUBLISHED, over="members"), protection=Masked(), validation=0.1)


def test_a_rule_that_remembers_updates_about_the_origin_is_told_what_to_leave_out() -> None:
    """Masks keep no sketch over rounds, so the table of protections has this rule without its memory."""
    printed = CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), similarities="every round")
    with pytest.raises(
        Refused, match=r"needs gram\(remember\), which .*; or algorithm.remember=False, with which no client joins"
    ):
        replace(SMALL, algorithm=printed, protection=Masked())
    replace(SMALL, algorithm=replace(printed, remember=False), protection=Masked())


@pytest.mark.parametrize(("algorithm", "lacks"), [(FPFC(rounds=3), "fusion"), (PACFL(beta=5.0), "pairs")], ids=["FPFC", "PACFL"])
def test_what_a_protection_lacks_is_said_before_what_could_be_set(algorithm: Any, lacks: str) -> None:
    """Weights by samples can be left out; what is lacking then cannot."""
    with pytest.raises(Refused, match=rf"needs {lacks}, which Encrypted\(\) does not give; these would: Plain"):
        replace(SMALL, algorithm=algorithm, protection=Encrypted())
    with pytest.raises(Refused, match=r"set algorithm\.by_samples=False"):
        replace(SMALL, algorithm=FedAvg(), protection=Encrypted())
