"""Members where clients choose inside their work: whom they join by a lie, what they send there, and what they are told."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.population import Examples
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.view.work import LocalJob, LocalWork, Unwilling
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.forged_choices import SameAs
from cloister.threat_models.knowledge import Level
from cloister.threat_models.label_attacks import LabelFlip
from cloister.threat_models.membership import Fixed, Schedule
from cloister.threat_models.offers import Offered
from cloister.threat_models.simple_attacks import GaussianNoise, MinusGradient
from cloister.threat_models.training_attacks import GradientAscent

from .coalition_sample import SMALL, situation
from .test_adversary import computers
from .test_forged_choices import Heard

D = len(situation().start)
BESIDE = 2
"""Numbers beside each model."""
MODELS = tuple(np.full(D + BESIDE, k, np.float32) for k in range(3))


@dataclass
class InSlots:
    """Computers whose client i takes to slot i mod 3, and whose work from a model of k's is k + 1, in all coordinates."""

    unwilling: frozenset[int] = frozenset()
    asked: list[int] = field(default_factory=list)
    instead: dict[int, Examples] = field(default_factory=dict)

    def __call__(self, jobs: Sequence[LocalJob], instead: Mapping[int, Examples]) -> Iterator[tuple[int, LocalWork | Unwilling]]:
        self.instead.update(instead)
        for job in jobs:
            self.asked.append(job.client)
            if job.work == "slots":
                rows = np.zeros((3, D + BESIDE), np.float32)
                rows[job.client % 3] = job.client % 3 + 1
                yield job.client, LocalWork(rows, 10, tuple(5 * (k == job.client % 3) for k in range(3)))
            elif job.client in self.unwilling:
                yield job.client, Unwilling("no more")
            else:
                assert len(job.start) == D
                yield job.client, LocalWork(job.start + 1, 10)


class Beyond:
    """A choice attack that says a slot that is not there."""

    needs = Level.OWN

    def __call__(self, offered: Offered, /) -> int:
        return len(offered.models)


def played(adversary: Adversary, log: InSlots | None = None, round: int = 0) -> dict[int, Any]:
    of = computers(InSlots() if log is None else log, clients=6)
    jobs = [LocalJob(i, round, "slots", MODELS[0], MODELS) for i in range(6)]
    return dict(adversary.corrupt(of)(jobs))


def slot(work: LocalWork) -> tuple[int, float, float]:
    """The only slot that is not 0, its first number, and its last, which is beside the model."""
    (k,) = np.flatnonzero(work.shares)
    assert not np.delete(work.vector, k, axis=0).any()
    assert work.shares[k] == 5
    return int(k), float(work.vector[k, 0]), float(work.vector[k, -1])


HONEST = {i: (i % 3, i % 3 + 1, i % 3 + 1) for i in range(6)}


def test_members_alone_are_in_the_slot_that_they_say_with_work_from_its_model() -> None:
    """`Heard` says the first slot; numbers beside a model stay as they came."""
    found = played(Adversary(members=Fixed((0, 1, 5)), choice=Heard()))
    assert {i: slot(work) for i, work in found.items()} == HONEST | {1: (0, 1, 0), 5: (0, 1, 0)}
    paused = played(Adversary(members=Fixed((0, 1, 5)), choice=Heard(), when=Schedule(start=1)))
    assert {i: slot(work) for i, work in paused.items()} == HONEST


def test_a_member_that_says_its_own_slot_works_once_and_others_are_asked_nothing_more() -> None:
    log = InSlots()
    played(Adversary(members=Fixed((0, 1)), choice=Heard()), log)
    assert sorted(log.asked) == [0, 1, 1, 2, 3, 4, 5]


def test_what_a_member_sends_in_the_slot_that_it_says_is_changed_there() -> None:
    log = InSlots()
    found = played(Adversary(members=Fixed((1,)), choice=Heard(), upload=MinusGradient(2), data=LabelFlip(), samples=3), log)
    assert slot(found[1])[:2] == (0, -2)
    assert found[1].samples == 30
    assert set(log.instead) == {1}
    assert {i: slot(work) for i, work in found.items() if i != 1} == {i: at for i, at in HONEST.items() if i != 1}


@pytest.mark.parametrize(("knows", "others"), [(Level.COLLUDING, {1: 1, 5: 2}), (Level.OMNISCIENT, {i: i % 3 for i in range(6)})])
def test_members_are_told_what_their_level_allows(knows: Level, others: dict[int, int]) -> None:
    attack = Heard(Level.COLLUDING)
    played(Adversary(members=Fixed((1, 5)), choice=attack, knows=knows))
    assert [(k.member, k.honest, k.chosen, k.roster) for k in attack.known] == [
        (1, 1, others, tuple(range(6))),
        (5, 2, others, tuple(range(6))),
    ]
    assert [[len(model) for model in k.models] for k in attack.known] == [[D] * 3] * 2
    same = played(Adversary(members=Fixed((1,)), choice=SameAs(5), knows=Level.OMNISCIENT))
    assert slot(same[1])[:2] == (2, 3)


def test_a_slot_that_is_not_there_and_work_that_is_not_done_are_said() -> None:
    log = InSlots(unwilling=frozenset({1}))
    found = played(Adversary(members=Fixed((1, 2)), choice=Heard()), log)
    assert found[1] == Unwilling("no more")
    assert slot(found[2])[:2] == (0, 1)
    with pytest.raises(ValueError, match="client 1 chose slot 3 of 3"):
        played(Adversary(members=Fixed((1,)), choice=Beyond()))
    for wrong in ({"local": GradientAscent()}, {"shown": GaussianNoise(1)}):
        with pytest.raises(Refused, match="their data, their slot and their own upload"):
            played(Adversary(members=Fixed((1,)), **wrong))


# --- in a run ---------------------------------------------------------------------------------------------------------

SWAPPED = replace(SMALL, partition=LabelSwap(clients=8, groups=2, pairs=((0, 1), (2, 3)), samples=60), rounds=1)


@pytest.mark.trains
@pytest.mark.parametrize("average", ["models", "gradients"])
def test_a_forged_slot_of_ifca_holds_what_its_model_would_have_been_trained_to(average: Any) -> None:

    def other(offered: Offered) -> int:
        assert offered.honest is not None
        return 1 - offered.honest

    adversary = Adversary(members=Fixed((0, 4)), choice=other)
    scenario = replace(SWAPPED, algorithm=IFCA(models=2, average=average))
    honest, forging = (Simulation(replace(scenario, adversary=of), None) for of in (None, adversary))
    models = [honest.view.harness.observe(model) for model in honest.state.models]
    jobs = [LocalJob(i, 0, "slots", models[0], tuple(models)) for i in range(8)]
    assert forging.corrupted is not None
    truth: dict[int, Any] = dict(honest._train(jobs, {}))
    lies: dict[int, Any] = dict(forging.corrupted(jobs))
    for i in range(8):
        work = truth[i]
        k = work.shares.index(1)
        if i not in (0, 4):
            np.testing.assert_allclose(lies[i].vector, work.vector, atol=1e-5)
            continue
        kind: Any = "update" if average == "models" else "gradient"
        alone: Any = dict(honest._train([LocalJob(i, 0, kind, models[1 - k])], {}))[i]
        assert lies[i].shares.index(1) == 1 - k
        assert not lies[i].vector[k].any()
        np.testing.assert_allclose(lies[i].vector[1 - k], alone.vector, atol=1e-5)


@pytest.mark.trains
@pytest.mark.parametrize("protection", [Plain(), Masked(floor=2)], ids=repr)
@pytest.mark.parametrize("said", [0, 1])
def test_only_the_model_of_the_slot_that_all_say_moves(protection: Any, said: int) -> None:

    def one(offered: Offered) -> int:
        return said

    adversary = Adversary(members=Fixed(tuple(range(8))), choice=one)
    simulation = Simulation(replace(SWAPPED, algorithm=IFCA(models=2), protection=protection, adversary=adversary), None)
    before = [simulation.view.harness.observe(model) for model in simulation.state.models]
    simulation.step()
    after = [simulation.view.harness.observe(model) for model in simulation.state.models]
    assert [not np.array_equal(a, b) for a, b in zip(before, after, strict=True)] == [said == 0, said == 1]
