"""The harness: who is corrupt and when, what an attack is told, and that runs repeat and resume."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.clients.corruption import Computers, HonestClients
from cloister.fl.data.population import Client, Examples
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import changed, described
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Permuted
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.collusion import ALIE, IPM, MinMax
from cloister.threat_models.knowledge import Colluding, Insider, Level, Omniscient, Own, Situation
from cloister.threat_models.label_attacks import LabelFlip
from cloister.threat_models.liars import KernelPoison
from cloister.threat_models.membership import ALWAYS, NEVER, Fixed, Members, PerRound, Pool, Schedule, Share, single_shot
from cloister.threat_models.simple_attacks import GaussianNoise, MinusGradient, Null, Overwritten, RandomVector, Stale
from cloister.threat_models.targeted_uploads import Mimic
from cloister.threat_models.training_attacks import Neurotoxin
from cloister.threat_models.variants import Jittered, SignBalanced

from .coalition_sample import SMALL, images, situation

Vector = np.ndarray[Any, np.dtype[np.float32]]

D = 6


@dataclass
class Heard:
    """An upload attack that keeps what it was handed."""

    needs: Level = Level.OWN
    identical: bool = False
    known: list[Any] = field(default_factory=list)

    def __call__(self, known: Any) -> Any:
        self.known.append(known)
        return {i: own.update for i, own in known.own.items()} if isinstance(known, Colluding) else known.update


def honest_update(client: int, round: int) -> Vector:
    return np.random.default_rng([client, round]).standard_normal(D).astype(np.float32)


@dataclass
class Log:
    """Computers that work without training, and say when each client was asked."""

    asked: list[int] = field(default_factory=list)
    instead: dict[int, Examples] = field(default_factory=dict)

    def __call__(self, jobs: Sequence[LocalJob], instead: Mapping[int, Examples]) -> Iterator[tuple[int, LocalWork]]:
        self.instead.update(instead)
        for job in jobs:
            self.asked.append(job.client)
            yield job.client, LocalWork(honest_update(job.client, job.round), 10 + job.client)


def computers(log: HonestClients, clients: int = 10, seed: int = 0) -> Computers:
    known = situation()
    people = {i: Client(i, images(seed=i), images(seed=100 + i)) for i in range(clients)}
    return Computers(people, 10, known.module, known.training, seed, log, lambda offer: offer.client % len(offer.models))


def jobs(clients: Sequence[int], round: int = 0, start: Vector | None = None, kind: Any = "update") -> list[LocalJob]:
    start = np.zeros(D, np.float32) if start is None else start
    return [LocalJob(i, round, kind, start) for i in clients]


def played(adversary: Adversary, round: int = 0, clients: Sequence[int] = range(10), seed: int = 0) -> dict[int, LocalWork]:
    return dict(adversary.corrupt(computers(Log(), seed=seed))(jobs(clients, round)))


# --- who and when -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "count"), [(Fixed((1, 4)), 2), (Pool(3), 3), (Share(0.4), 4), (Share(0), 0), (PerRound(2), 2)]
)
def test_as_many_uploads_are_corrupt_as_there_are_members(members: Members, count: int) -> None:
    for seed in range(3):
        found = played(Adversary(members=members, upload=MinusGradient()), round=5, seed=seed)
        assert sorted(found) == list(range(10))
        assert all(np.array_equal(abs(w.vector), abs(honest_update(i, 5))) for i, w in found.items())
        assert sum(not np.array_equal(w.vector, honest_update(i, 5)) for i, w in found.items()) == count


def test_a_pool_is_drawn_once_and_a_round_has_those_of_it_that_were_sampled() -> None:
    adversary = Adversary(members=Pool(5), upload=Null())
    corrupted = adversary.corrupt(computers(Log()))
    assert len(corrupted.members) == 5
    counts = set()
    for t in range(30):
        roster = np.random.default_rng(t).choice(10, 4, replace=False)
        found = dict(corrupted(jobs([int(i) for i in roster], t)))
        corrupt = {i for i, w in found.items() if not w.vector.any()}
        assert corrupt == corrupted.members & set(found)
        counts.add(len(corrupt))
    assert len(counts) > 2
    assert len({Pool(5).everyone(range(10), seed) for seed in range(10)}) > 1


def test_members_per_round_are_drawn_anew_and_counted_every_round() -> None:
    corrupted = Adversary(members=PerRound(3), upload=Null()).corrupt(computers(Log()))
    rounds = [frozenset(i for i, w in corrupted(jobs(range(8), t)) if not w.vector.any()) for t in range(10)]
    assert {len(r) for r in rounds} == {3}
    assert len(set(rounds)) > 1


@pytest.mark.parametrize(
    ("schedule", "rounds"),
    [
        (ALWAYS, set(range(12))),
        (NEVER, set()),
        (Schedule(start=4), set(range(4, 12))),
        (Schedule(start=2, stop=9, period=3), {2, 5, 8}),
        (single_shot(7), {7}),
        (Schedule(pauses=((3, 11),)), {0, 1, 2, 11}),
    ],
)
def test_attacks_keep_their_schedule(schedule: Schedule, rounds: set[int]) -> None:
    adversary = Adversary(members=Fixed((0,)), upload=MinusGradient(), data=LabelFlip(), when=schedule)
    log = Log()
    corrupted = adversary.corrupt(computers(log))
    for t in range(12):
        log.instead.clear()
        found = dict(corrupted(jobs(range(10), t)))
        assert (not np.array_equal(found[0].vector, honest_update(0, t))) == (t in rounds)
        assert set(log.instead) == ({0} if t in rounds else set())


def test_silent_members_neither_work_nor_answer() -> None:
    log = Log()
    adversary = Adversary(members=Fixed((2, 3)), upload=Null(), silent=Schedule(stop=2))
    corrupted = adversary.corrupt(computers(log))
    assert sorted(dict(corrupted(jobs(range(5), 1)))) == [0, 1, 4]
    assert log.asked == [0, 1, 4]
    assert sorted(dict(corrupted(jobs(range(5), 2)))) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "wrong",
    [
        {"upload": ALIE()},
        {"upload": Mimic(), "knows": Level.COLLUDING},
        {"knows": Level.INSIDER},
        {"samples": 0.0},
        {"samples": float("nan")},
        {"randomness": "some"},
    ],
)
def test_an_adversary_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Adversary(members=Fixed((0,)), **wrong)


@pytest.mark.parametrize("members", [Fixed((3, 99)), Pool(11)])
def test_members_that_are_not_there_are_refused_before_the_run(members: Members) -> None:
    with pytest.raises(ValueError, match="clients"):
        Simulation(replace(SMALL, adversary=Adversary(members=members)), None)


def test_a_strength_that_is_a_whole_float_is_a_number_of_members() -> None:
    """Evaluations hand strengths over as floats."""
    for members, same in ((Pool(3.0), Pool(3)), (PerRound(2.0), PerRound(2)), (Fixed((1.0, 4.0)), Fixed((1, 4)))):  # type: ignore[arg-type]
        assert repr(members) == repr(same)
        assert members.everyone(range(9), 0) == same.everyone(range(9), 0)
        assert members.among(range(9), range(9), 1, 0) == same.among(range(9), range(9), 1, 0)


@pytest.mark.parametrize("count", [2.5, -1, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", [Pool, PerRound, lambda count: Fixed((count,))])
def test_what_is_no_number_of_members_is_refused_in_one_line(kind: Any, count: float) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*0 or more, a whole number, not [^\n]*$"):
        kind(count)


# --- knowledge --------------------------------------------------------------------------------------------------------

PUBLIC = {name for name in dir(Own) if not name.startswith("_")}


def heard(needs: Level, knows: Level) -> Any:
    attack = Heard(needs)
    adversary = Adversary(
        members=Fixed((1, 4, 6)), upload=attack, knows=knows, rule="the rule" if knows == Level.INSIDER else None
    )
    played(adversary, clients=range(8))
    return attack.known


def test_alone_a_member_is_handed_its_own_data_update_and_model_and_nothing_of_others() -> None:
    known = heard(Level.OWN, Level.INSIDER)  # whatever the adversary knows: the attack asks for its own
    assert [k.member for k in known] == [1, 4, 6]
    for own in known:
        assert type(own) is Own
        assert np.array_equal(own.update, honest_update(own.member, 0))
        assert torch_equal(own.examples, images(seed=own.member))
        for name in ("own", "honest", "rule", "seen", "memory", "clients", "computers"):
            assert not hasattr(own, name)
        others = [honest_update(i, 0) for i in range(8) if i != own.member]
        assert not any(np.array_equal(v, o) for v in arrays(own) for o in others)
    assert {f.name for f in fields(Own)} == PUBLIC


def torch_equal(left: Examples, right: Examples) -> bool:
    return bool((left.x == right.x).all()) and bool((left.y == right.y).all())


def arrays(known: object) -> list[Vector]:
    return [v for f in fields(known) if isinstance(v := getattr(known, f.name), np.ndarray)]  # type: ignore[arg-type]


def test_colluders_are_handed_each_others_updates_and_no_honest_one() -> None:
    (known,) = heard(Level.COLLUDING, Level.COLLUDING)
    assert type(known) is Colluding
    assert sorted(known.own) == [1, 4, 6]
    assert [v.tolist() for v in known.seen] == [honest_update(i, 0).tolist() for i in (1, 4, 6)]
    assert not hasattr(known, "honest")
    assert not hasattr(known, "rule")
    assert not hasattr(known, "__dict__")


def test_the_omniscient_are_handed_all_honest_updates_and_counts_and_no_rule() -> None:
    (known,) = heard(Level.COLLUDING, Level.OMNISCIENT)
    assert type(known) is Omniscient
    assert {i: w.samples for i, w in known.honest.items()} == {i: 10 + i for i in (0, 2, 3, 5, 7)}
    assert [v.tolist() for v in known.seen] == [honest_update(i, 0).tolist() for i in (0, 2, 3, 5, 7)]
    assert not hasattr(known, "rule")


def test_an_insider_is_handed_the_rule_too() -> None:
    (known,) = heard(Level.INSIDER, Level.INSIDER)
    assert type(known) is Insider
    assert known.rule == "the rule"


def test_what_is_seen_is_of_the_own_session_alone() -> None:
    attack = Heard(Level.COLLUDING)
    adversary = Adversary(members=Fixed((1, 4, 6)), upload=attack, knows=Level.OMNISCIENT)
    corrupted = adversary.corrupt(computers(Log()))
    dict(corrupted(jobs(range(5), 0) + jobs(range(5, 10), 0, np.ones(D, np.float32))))
    first, second = attack.known
    assert (sorted(first.own), sorted(first.honest), first.roster) == ([1, 4], [0, 2, 3], (0, 1, 2, 3, 4))
    assert (sorted(second.own), sorted(second.honest)) == ([6], [5, 7, 8, 9])


def test_at_level_own_results_stream_one_at_a_time_and_colluders_answer_last() -> None:
    log = Log()
    stream = Adversary(members=Fixed((1,)), upload=Null()).corrupt(computers(log))(jobs(range(6)))
    for done in range(6):
        client, _ = next(stream)
        assert client == done
        assert log.asked == list(range(done + 1))
    adversary = Adversary(members=Fixed((1, 3)), upload=IPM(1.0), knows=Level.OMNISCIENT)
    order = [i for i, _ in adversary.corrupt(computers(Log()))(jobs(range(6)))]
    assert order == [0, 2, 4, 5, 1, 3]


# --- counts, randomness, values ---------------------------------------------------------------------------------------


def test_a_lie_about_samples_multiplies_the_members_counts_alone() -> None:
    found = played(Adversary(members=Fixed((1, 4)), samples=7.5))
    assert {i: w.samples for i, w in found.items()} == {i: round(7.5 * (10 + i)) if i in (1, 4) else 10 + i for i in range(10)}
    quiet = played(Adversary(members=Fixed((1, 4)), samples=7.5, when=NEVER))
    assert {i: w.samples for i, w in quiet.items()} == {i: 10 + i for i in range(10)}


def test_members_draw_their_own_numbers_unless_they_share() -> None:
    for randomness, alike in (("member", False), ("shared", True)):
        adversary = Adversary(members=Fixed((1, 4)), upload=RandomVector(s=1.0), randomness=randomness)  # type: ignore[arg-type]
        found = played(adversary)
        assert np.array_equal(found[1].vector, found[4].vector) == alike
        assert not np.array_equal(found[1].vector, played(adversary, round=1)[1].vector)
        assert np.array_equal(found[1].vector, played(adversary)[1].vector)
        assert not np.array_equal(found[1].vector, played(adversary, seed=1)[1].vector)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e30])
def test_what_is_not_finite_arrives_as_it_was_sent(value: float) -> None:
    found = played(Adversary(members=Fixed((2,)), upload=Overwritten(value, start=1, every=2)))[2].vector
    assert np.array_equal(found[1::2], np.full(D // 2, value, np.float32), equal_nan=True)
    assert np.array_equal(found[::2], honest_update(2, 0)[::2])


@pytest.mark.trains
def test_one_client_with_nan_is_recorded_and_the_run_goes_on() -> None:
    adversary = Adversary(members=Fixed((2,)), upload=Overwritten())
    simulation = Simulation(replace(SMALL, adversary=adversary), None)
    simulation.step()
    assert [(f.blame, f.rejected) for f in simulation.view.record.faults] == [(2, True)]
    assert all(np.isfinite(v).all() for v in simulation.vectors().values())


# --- in a simulation --------------------------------------------------------------------------------------------------


def models(adversary: Adversary | None, **others: Any) -> Vector:
    simulation = Simulation(replace(SMALL, adversary=adversary, **others), None)
    for _ in range(3):
        simulation.step()
    return simulation.vectors()[0]


@pytest.mark.trains
def test_an_adversary_without_members_or_attack_changes_nothing() -> None:
    clean = models(None)
    assert np.array_equal(clean, models(Adversary(members=Pool(0), upload=MinusGradient())))
    assert np.array_equal(clean, models(Adversary(members=Pool(4))))
    assert not np.array_equal(clean, models(Adversary(members=Pool(4), upload=MinusGradient())))


@pytest.mark.trains
def test_minus_gradient_from_half_of_equal_clients_leaves_the_mean_of_the_difference() -> None:
    clean = Simulation(SMALL, None)
    start = clean.vectors()[0]
    updates = {i: w.vector for i, w in clean._work([LocalJob(i, 0, "update", start) for i in range(10)])}
    attacked = Simulation(replace(SMALL, adversary=Adversary(members=Fixed((0, 1, 2)), upload=MinusGradient())), None)
    attacked.step()
    expected = start + (sum(updates[i] for i in range(3, 10)) - sum(updates[i] for i in range(3))) / 10
    assert np.allclose(attacked.vectors()[0], expected, atol=1e-6)


@pytest.mark.trains
def test_a_lie_about_samples_moves_the_weighted_mean_by_as_much() -> None:
    clean = Simulation(SMALL, None)
    start = clean.vectors()[0]
    works = dict(clean._work([LocalJob(i, 0, "update", start) for i in range(10)]))
    algorithm = replace(SMALL.algorithm, by_samples=True)  # type: ignore[type-var]
    adversary = Adversary(members=Fixed((0,)), upload=MinusGradient(), samples=20.0)
    attacked = Simulation(replace(SMALL, algorithm=algorithm, adversary=adversary), None)
    attacked.step()
    weights = {i: w.samples * (20 if i == 0 else 1) for i, w in works.items()}
    moved = sum(weights[i] * (-w.vector if i == 0 else w.vector) for i, w in works.items()) / sum(weights.values())
    assert np.allclose(attacked.vectors()[0], start + moved, atol=1e-6)


@pytest.mark.trains
def test_a_lie_beyond_what_secure_aggregation_admits_is_recorded() -> None:
    algorithm = replace(SMALL.algorithm, by_samples=True)  # type: ignore[type-var]
    adversary = Adversary(members=Fixed((0,)), samples=1e6)
    simulation = Simulation(replace(SMALL, algorithm=algorithm, adversary=adversary, protection=Masked()), None)
    simulation.step()
    assert [(f.blame, f.rejected) for f in simulation.view.record.faults] == [(0, True)]


@pytest.mark.trains
def test_what_replaces_updates_replaces_gradients_too() -> None:
    algorithm = CFL(thresholds=ScaleFree(0.01, 0.1), similarities="every round", similarity="gradient")
    seen = []
    for adversary in (None, Adversary(members=Fixed((0, 1)), upload=MinusGradient())):
        simulation = Simulation(replace(SMALL, algorithm=algorithm, adversary=adversary), None)
        simulation.step()
        seen.append(simulation.state.measured["0"].similarity)
    signs = np.ones(10)
    signs[:2] = -1
    assert np.allclose(seen[1], seen[0] * np.outer(signs, signs), atol=1e-6)


@pytest.mark.trains
@pytest.mark.parametrize("protection", [Permuted(), Masked()])
def test_attacks_run_under_other_protections(protection: Any) -> None:
    adversary = Adversary(members=Pool(3), upload=MinMax(), knows=Level.OMNISCIENT)
    close = models(adversary, protection=protection) - models(adversary)
    assert np.abs(close).max() < 1e-3


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize(
    "adversary",
    [
        Adversary(members=Pool(4), upload=Stale(), when=Schedule(start=1)),
        Adversary(members=Pool(4), upload=Mimic(), knows=Level.OMNISCIENT, when=Schedule(start=2)),
        Adversary(members=Pool(4), local=Neurotoxin(ratio=0.3)),
        Adversary(members=PerRound(2), upload=GaussianNoise(0.01), data=LabelFlip()),
    ],
)
def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(adversary: Adversary, tmp_path: Path) -> None:
    scenario = replace(
        SMALL, adversary=adversary, algorithm=replace(SMALL.algorithm, participation=0.5, sampling="random"), rounds=5
    )
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for _ in run(scenario, whole):
        pass
    stopped = run(scenario, parts)
    for _ in range(3):
        next(stopped)
    stopped.close()
    for _ in run(scenario, parts, resume=True):
        pass
    losses = [[json.loads(line)["loss"] for line in (f / "metrics.jsonl").read_text().splitlines()] for f in (whole, parts)]
    assert losses[0] == losses[1]
    corrupt = json.loads((parts / "summary.json").read_text())["corrupt"]
    assert corrupt == sorted(adversary.members.everyone(range(10), SMALL.seed))


def test_the_description_names_the_attack_and_its_fields_can_be_set() -> None:
    scenario = replace(SMALL, adversary=Adversary(members=Share(0.3), upload=MinusGradient()))
    assert described(scenario)["adversary"]["upload"] == {"type": "MinusGradient", "strength": 1.0}
    stronger = changed(changed(scenario, "adversary.upload.strength", "3"), "adversary.members.share", "0.5")
    assert described(stronger)["adversary"]["upload"]["strength"] == 3.0
    assert described(stronger)["adversary"]["members"] == {"type": "Share", "share": 0.5}
    assert json.loads(json.dumps(described(stronger))) == described(stronger)


@dataclass
class Opened:
    """A training attack that looks back and tells what it saw."""

    seen: list[Any] = field(default_factory=list)
    looks_back: ClassVar[bool] = True

    def __call__(self, known: Situation) -> Vector:
        self.seen.append((known.round, known.start, known.previous))
        return np.zeros_like(known.start)


def test_previous_is_the_model_of_an_earlier_round_and_of_the_same_cluster() -> None:
    attack = Opened()
    corrupted = Adversary(members=Fixed((0, 5)), local=attack).corrupt(computers(Log()))
    a, b = np.zeros(D, np.float32), np.full(D, 10, np.float32)
    for t in range(3):
        dict(corrupted(jobs(range(5), t, a + np.float32(t)) + jobs(range(5, 10), t, b + np.float32(t))))
        dict(corrupted(jobs(range(1, 4), t, a - 50)))  # a session without members tells them nothing
    assert [(t, s[0], None if p is None else p[0]) for t, s, p in attack.seen] == [
        (0, 0, None), (0, 10, None), (1, 1, 0), (1, 11, 10), (2, 2, 1), (2, 12, 11),
    ]  # fmt: skip


@dataclass
class Remembering:
    """An upload attack that looks back, on its own or together, and tells what it saw."""

    needs: Level
    seen: list[Any] = field(default_factory=list)
    looks_back: ClassVar[bool] = True
    identical: ClassVar[bool] = False

    def __call__(self, known: Any) -> Any:
        if self.needs == Level.OWN:
            self.seen.append(known.previous)
            return known.update
        self.seen += [own.previous for own in known.own.values()]
        return {i: own.update for i, own in known.own.items()}


@pytest.mark.parametrize(
    "wrapped", [KernelPoison, lambda a: Jittered(a, 0.1), SignBalanced, lambda a: Jittered(SignBalanced(a), 0)]
)
def test_an_attack_that_wraps_one_that_looks_back_lets_it(wrapped: Any) -> None:
    attack = Remembering(Level.OWN if wrapped is KernelPoison else Level.COLLUDING)
    corrupted = Adversary(members=Fixed((0,)), upload=wrapped(attack), knows=attack.needs).corrupt(computers(Log()))
    for t in range(2):
        dict(corrupted(jobs(range(5), t, np.full(D, t, np.float32))))
    assert [None if p is None else p[0] for p in attack.seen] == [None, 0]
    assert not wrapped(MinusGradient()).looks_back
