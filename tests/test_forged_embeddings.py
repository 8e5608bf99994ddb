"""Forged embeddings: who joins whom, under which choice, protection and rule, measured through the harness of evaluations."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloister.fl.algorithms.emd_cfl import EMDCFL, Gap, Share
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Rotation
from cloister.fl.data.source import Digits
from cloister.fl.emd.clusters import components, majorities, neighbourhoods
from cloister.fl.emd.distances import Euclidean, MeanDistance
from cloister.fl.emd.subsample import Size
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.pairs.choices import DISTANCES, ONE_RELEASE, PER_PAIR, PUBLIC, Choice, MeanSketch, ServerSamples
from cloister.protocol.pairs.noise import Noise
from cloister.protocol.pairs.question import Rows
from cloister.protocol.view.work import LocalOffer
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.cell_metrics import attacked_metrics
from cloister.threat_models.evaluation import Cell, Evaluation, resolved
from cloister.threat_models.forged_choices import WorstModel
from cloister.threat_models.forged_embeddings import Copied, Disguised, ForgedEmbeddings, Joined, Undisguised, joined
from cloister.threat_models.knowledge import Level
from cloister.threat_models.label_attacks import LabelFlip
from cloister.threat_models.membership import Fixed, Pool
from cloister.threat_models.search.choosing import Usual
from cloister.threat_models.search.space import Space
from cloister.threat_models.suites.clusters import embeddings
from cloister.threat_models.trial import Trial, played

DIGITS = Scenario(
    name="rotated digits",
    data=Digits(),
    partition=Rotation(clients=8, angles=(0, 90)),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=8, batch=10, lr=0.1),
    algorithm=EMDCFL(eps=Gap(), choice=PER_PAIR, size=Size(30)),
    protection=Plain(),
    rounds=1,
    validation=0.3,
)
FORGER, OTHERS = frozenset({0}), frozenset({4, 5, 6, 7})
"""Client 0 sees upright digits, and wants to be joined with those who see them turned."""


def turned(rows: Rows) -> Rows:
    """Flattened 8 x 8 images turned by 90 degrees, as the other group sees them."""
    return np.rot90(rows.reshape(-1, 8, 8), 1, (1, 2)).reshape(len(rows), 64).copy()


def forger(pose: Any, **changes: Any) -> ForgedEmbeddings:
    return ForgedEmbeddings(members=Fixed((0,)), pose=pose, **changes)


def attacked(
    adversary: Any, choice: Choice = PER_PAIR, protection: Any = DIGITS.protection, **changes: Any
) -> tuple[Joined, Trial]:
    algorithm = replace(DIGITS.algorithm, choice=choice, **changes)
    trial = played(replace(DIGITS, adversary=adversary, algorithm=algorithm, protection=protection), None, None)
    return joined(trial.simulation.state, FORGER, OTHERS, trial.simulation.population.groups), trial


def clusters(trial: Trial) -> list[tuple[int, ...]]:
    return sorted(c.members for c in trial.simulation.state.clusters.values())


INSIDE, OUTSIDE = Joined(1.0, 1.0, 1.0, 0, 0), Joined(0.0, 0.0, 0.0, 0, 0)


def shown(value: Any) -> str:
    """Its name, without addresses, which differ between processes."""
    return repr(value).split(" at 0x")[0]


@pytest.mark.trains
@pytest.mark.parametrize("pose", [Copied(7), Disguised(turned)], ids=shown)
@pytest.mark.parametrize("choice", [PER_PAIR, PUBLIC, ONE_RELEASE, DISTANCES, ServerSamples(embedding="public")], ids=shown)
@pytest.mark.long
def test_with_data_like_the_targets_a_client_is_joined_under_every_choice(pose: Any, choice: Choice) -> None:
    found, trial = attacked(forger(pose), choice)
    assert found == INSIDE
    assert clusters(trial) == [(0, 4, 5, 6, 7), (1, 2, 3)]
    assert not trial.simulation.view.record.faults


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("protection", [Permuted(floor=2), Masked(floor=2, clip=8.0)], ids=lambda p: type(p).__name__)
def test_no_protection_stops_it(protection: Any) -> None:
    assert attacked(forger(Disguised(turned)), PER_PAIR, protection)[0] == INSIDE


@pytest.mark.trains
def test_noise_on_a_mean_that_keeps_the_groups_does_not_stop_it() -> None:
    noise = Noise(clip=4.0, multiplier=0.1, reference_multiplier=1.0, budget=1e9, delta=1e-5, acknowledge=("sums",))
    changes = {"distance": MeanDistance(Euclidean())}
    found, trial = attacked(forger(Disguised(turned)), MeanSketch(noise=noise), **changes)
    assert clusters(attacked(None, MeanSketch(noise=noise), **changes)[1]) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert found == INSIDE
    assert all(ledger.spent > 0 for ledger in trial.simulation.view.record.ledgers.values())


@pytest.mark.trains
@pytest.mark.parametrize("eps", [Gap(), Share(0.5)], ids=shown)
@pytest.mark.parametrize("spread", [1.0, 0.5, 0.0])
@pytest.mark.parametrize("choice", [PER_PAIR, ONE_RELEASE, DISTANCES], ids=shown)
@pytest.mark.long
def test_without_such_data_the_others_consent_is_missing(eps: Any, spread: float, choice: Choice) -> None:
    """It accepts everybody, by the largest reference there can be, and nobody accepts it: edges are mutual."""
    found, trial = attacked(forger(Undisguised(), reference="largest", spread=spread), choice, eps=eps)
    assert found == OUTSIDE
    assert all(trial.simulation.state.accepts[0, t] for t in OTHERS)
    assert (4, 5, 6, 7) in clusters(trial)


RULES: dict[str, tuple[Any, frozenset[int], Joined, list[tuple[int, ...]]]] = {
    "two groups, printed rule": (neighbourhoods, OTHERS, Joined(1.0, 1.0, 0.0, 0, 0), [(0,), (1, 2, 3), (4, 5, 6, 7)]),
    "two groups, components": (components, OTHERS, Joined(1.0, 1.0, 1.0, 0, 1), [tuple(range(8))]),
    "half a group, printed rule": (
        neighbourhoods,
        frozenset({4, 5}),
        Joined(0.5, 0.5, 0.0, 1, 0),
        [(0,), (1, 2, 3), (4, 5), (6, 7)],
    ),
    "two groups, majorities": (majorities, OTHERS, INSIDE, [(0, 4, 5, 6, 7), (1, 2, 3)]),
    "half a group, majorities": (majorities, frozenset({4, 5}), Joined(0.5, 0.5, 0.0, 0, 0), [(0, 1, 2, 3), (4, 5, 6, 7)]),
    "half a group, components": (components, frozenset({4, 5}), Joined(0.5, 0.5, 1.0, 0, 1), [tuple(range(8))]),
}


@pytest.mark.trains
@pytest.mark.parametrize("name", RULES)
@pytest.mark.long
def test_two_faces_tear_groups_or_merge_them_by_the_rule(name: str) -> None:
    grouping, targets, expected, parts = RULES[name]
    found, trial = attacked(forger(Disguised(turned), targets=targets), PER_PAIR, grouping=grouping)
    assert (found, clusters(trial)) == (expected, parts)


@pytest.mark.trains
@pytest.mark.parametrize("targets", [OTHERS, frozenset({4, 5})], ids=len)
def test_one_release_for_all_leaves_no_second_face(targets: frozenset[int]) -> None:
    found, trial = attacked(forger(Disguised(turned), targets=targets), ONE_RELEASE)
    assert (found, clusters(trial)) == (INSIDE, [(0, 4, 5, 6, 7), (1, 2, 3)])


@pytest.mark.trains
@pytest.mark.long
def test_a_member_that_is_joined_does_there_what_it_likes() -> None:
    poisoner = Adversary(members=Fixed((0,)), data=LabelFlip())
    _, honest = attacked(forger(Disguised(turned)))
    _, trial = attacked(forger(Disguised(turned), inner=poisoner))
    assert clusters(trial) == clusters(honest)
    vectors = [run.simulation.vectors() for run in (honest, trial)]
    assert not np.allclose(vectors[0][4], vectors[1][4])
    np.testing.assert_array_equal(vectors[0][1], vectors[1][1])


@pytest.mark.trains
def test_a_scenario_plays_it_and_members_choose_as_the_inner_adversary_says() -> None:
    worst = Adversary(members=Fixed((0,)), choice=WorstModel())
    simulation = Simulation(replace(DIGITS, adversary=forger(Disguised(turned), inner=worst)), None)
    simulation.step()
    assert any({0, 4} <= set(c.members) for c in simulation.state.clusters.values())
    models = tuple(simulation.vectors()[i] for i in (4, 1))
    corrupted: Any = simulation.corrupted
    member, loyal = (corrupted.judge(LocalOffer(i, 0, (0, 1), models)) for i in (0, 1))
    assert (member, loyal) == (0, 1)  # the model of the turned digits is the worst for either


@pytest.mark.long
@pytest.mark.trains
def test_it_is_an_attack_of_an_evaluation() -> None:
    evaluation = Evaluation(
        name="forged embeddings",
        scenario=DIGITS,
        attacks={"disguised": lambda count: ForgedEmbeddings(members=Fixed(tuple(range(int(count)))), pose=Disguised(turned))},
        defences={"EMD-CFL": DIGITS.algorithm},
        strengths=(1, 2),
        seeds=(0,),
    )
    clean = played(resolved(evaluation, Cell(None, "EMD-CFL", None, "Plain", 0)), None, None)
    trial = played(resolved(evaluation, Cell("disguised", "EMD-CFL", 2.0, "Plain", 0)), None, None)
    found = attacked_metrics(trial, clean.clean(), None)
    assert found["members"] == [0, 1]
    assert clusters(trial) == [(0, 1, 4, 5, 6, 7), (2, 3)]
    assert found["clusters"]["ari"] < 1.0
    assert found["rejected"] == {"loyal": 0, "members": 0}


def test_a_search_takes_it_as_a_whole_with_members_of_its_own() -> None:
    posing = embeddings()["a colluder's embeddings"]
    space = Space(DIGITS, only=("posing",), own={"posing": posing})
    assert space.attacks == ["posing"]
    adversary: Any = space.adversary(Usual(), Pool(2))
    assert isinstance(adversary, ForgedEmbeddings)
    assert (adversary.members, adversary.inner.members) == (Pool(2), Pool(2))
    assert adversary.knows == Level.OWN
    knowing = ForgedEmbeddings(members=Pool(1), pose=Copied(1), inner=Adversary(members=Pool(1), knows=Level.OMNISCIENT))
    assert knowing.knows == Level.OMNISCIENT


@pytest.mark.long
@pytest.mark.trains
def test_whom_nobody_can_be_joined_with_is_refused() -> None:
    with pytest.raises(ValueError, match="spread"):
        forger(Copied(7), spread=1.5)
    _, trial = attacked(forger(Copied(7)))
    with pytest.raises(ValueError, match="nobody"):
        joined(trial.simulation.state, FORGER, FORGER, trial.simulation.population.groups)
