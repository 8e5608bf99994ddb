"""Defects that were found in other toolkits' attacks and their evaluation, each as a test that ours does not have it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cloister.fl.clients.training import Training
from cloister.fl.runs.simulation import Simulation
from cloister.protocol.view.work import LocalJob
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.attack_metrics import attack_success, course
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.cluster_attacks import Bridge, CloakedCollusion, Hider, Tilted, VictimCapture
from cloister.threat_models.collusion import ALIE, IPM, FangKrum, FangTrim, MinMax, MinSum
from cloister.threat_models.knowledge import Level
from cloister.threat_models.line_search import optimal_alie
from cloister.threat_models.membership import Fixed, PerRound, Pool
from cloister.threat_models.simple_attacks import GaussianNoise, MinusGradient, RandomVector, SignFlip
from cloister.threat_models.targeted_uploads import ArbitraryTarget, Mimic, back_to_zero
from cloister.threat_models.training_attacks import ConstrainAndScale, Neurotoxin, most_used
from cloister.threat_models.triggers import Patch
from cloister.threat_models.variants import Jittered, SignBalanced

from .coalition_sample import SMALL, coalition, gaussian, images, own, situation


class MeanOfAll:
    """A rule of the Gram matrix: the mean."""

    shift_invariant = True

    def weights(self, gram: Any, rng: Any) -> Any:
        return np.full(len(gram), 1 / len(gram))


COLLUSIVE = [
    ALIE(),
    IPM(0.5),
    SignFlip(),
    MinMax(),
    MinSum(),
    FangKrum(),
    FangTrim(),
    Mimic(),
    ArbitraryTarget(back_to_zero),
    optimal_alie(),
    Hider(),
    Bridge(),
    VictimCapture(7, 0),
    SignBalanced(MinMax()),
    *(Jittered(attack, 0.1) for attack in (ALIE(), MinMax(), Mimic())),
]


@pytest.mark.parametrize("attack", COLLUSIVE, ids=lambda value: repr(value).split(" at 0x")[0])
def test_all_attackers_send_one_object(attack: Any) -> None:
    """ByzFL: f attackers always send the same object, a Sybil cluster at distance 0 whatever the attack says."""
    updates = gaussian(9, 610)  # as long as the model of the sample
    known = coalition(updates, 3, Level.INSIDER, MeanOfAll())
    if hasattr(attack, "learn"):
        known = coalition(updates, 3, Level.INSIDER, MeanOfAll(), memory=attack.learn(known))
    vectors = list(attack(known).values())
    assert not any(np.shares_memory(a, b) for i, a in enumerate(vectors) for b in vectors[:i])
    alike = [np.array_equal(a, b) for i, a in enumerate(vectors) for b in vectors[:i]]
    assert all(alike) if attack.identical else not any(alike)


def test_jitter_has_its_size_and_leaves_the_mean_of_many_members_alone() -> None:
    updates = gaussian(40, 2_000)
    known = coalition(updates, 30, Level.OMNISCIENT)
    bare = ALIE(1.0)(known)[0]
    found = Jittered(ALIE(1.0), 0.2)(known)
    sizes = [np.linalg.norm(v - bare) / np.linalg.norm(bare) for v in found.values()]
    assert sizes == pytest.approx([0.2] * 30, rel=1e-3)
    assert np.linalg.norm(np.mean(list(found.values()), axis=0) - bare) < 0.06 * np.linalg.norm(bare)


@pytest.mark.parametrize(
    "attack",
    [RandomVector(), GaussianNoise(0.1), Tilted(0.5), CloakedCollusion()],
    ids=lambda value: repr(value).split(" at 0x")[0],
)
def test_gaussian_attackers_are_copies_of_each_other(attack: Any) -> None:
    """ByzFL: the Gaussian attack is f copies of one vector."""
    update = gaussian(1, 200)[0]
    first, second = attack(own(update, 0)), attack(own(update, 1))
    assert np.array_equal(first, second) == isinstance(attack, Tilted)  # the only one that draws nothing of its own


@pytest.mark.trains
@pytest.mark.parametrize("anomaly", ["distance", "cosine"])
def test_the_anomaly_term_of_model_replacement_has_no_gradient(anomaly: Any) -> None:
    """FLPoison: the anomaly is computed on detached arrays, so that constrain-and-scale only scales."""
    known = situation(training=Training(epochs=6, batch=10, lr=0.1))
    free = ConstrainAndScale(alpha=1.0, anomaly=anomaly)(known)
    held = ConstrainAndScale(alpha=0.05, anomaly=anomaly)(known)
    rescaled = ConstrainAndScale(alpha=1.0, anomaly=anomaly)(replace(known, training=replace(known.training, lr=0.1 * 0.05)))

    def cosine_to_start(update: Any) -> float:
        moved = known.start + update
        return float(moved @ known.start / np.linalg.norm(moved) / np.linalg.norm(known.start))

    if anomaly == "distance":
        assert np.linalg.norm(held) < 0.98 * np.linalg.norm(rescaled)  # closer than a smaller step alone would be
    else:
        assert cosine_to_start(held) > cosine_to_start(rescaled)
    assert not np.allclose(held / np.linalg.norm(held), free / np.linalg.norm(free), atol=1e-3)


@pytest.mark.trains
def test_neurotoxin_takes_the_most_negative_coordinates_for_the_least_used() -> None:
    """FLPoison: the smallest signed gradients are chosen instead of the smallest absolute ones."""
    aggregate = np.array([-9.0, 0.1, 5.0, -0.2, 0.0, -7.0, 0.3, 0.2, -0.1, 0.05], np.float32)
    assert most_used(aggregate, 0.3).tolist() == [True, False, True, False, False, True, False, False, False, False]
    known = situation()
    change = np.zeros_like(known.start)
    change[:20], change[20:40] = -5.0, 5.0
    update = Neurotoxin(ratio=40 / len(change))(replace(known, previous=known.start - change))
    assert not update[:40].any()
    assert update[40:].any()


def test_a_clean_model_has_ten_percent_success_by_images_of_the_target_class() -> None:
    """FLPoison: all-to-one success counts images that already are of the target class."""
    tests, backdoor = images(200), Backdoor(Patch(), target=4)
    assert 0 < int((tests.y == 4).sum()) < 200
    triggered = backdoor.test(tests, 10)
    assert len(triggered) == int((tests.y != 4).sum())
    assert (triggered.y == 4).all()

    class Perfect(nn.Module):
        """Knows every image's label by its first pixel, trigger or not."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            known = {float(image[0, 0, 0]): int(label) for image, label in zip(tests.x, tests.y, strict=True)}
            labels = torch.tensor([known[float(image[0, 0, 0])] for image in x])
            return nn.functional.one_hot(labels, 10).float() + self.weight

    assert attack_success(Perfect(), {0: np.zeros(1, np.float32)}, {0: tests}, backdoor, 10).mean == 0.0


@pytest.mark.trains
def test_every_client_takes_part_in_every_round_and_attackers_per_round_are_fixed() -> None:
    """FLPoison, FLAME: the number of attackers of a round does not vary, which hides that a median falls below one half."""
    algorithm = replace(SMALL.algorithm, participation=0.4, sampling="random")  # type: ignore[type-var]
    simulation = Simulation(replace(SMALL, algorithm=algorithm, adversary=Adversary(members=Pool(4))), None)
    assert simulation.corrupted is not None
    counts = []
    for _ in range(12):
        before = len(simulation.view.record.log)
        simulation.step()
        about = {i for entry in simulation.view.record.log[before:] for i in entry.about}
        assert len(about) == 4
        counts.append(len(about & simulation.corrupted.members))
    assert len(set(counts)) > 1
    assert {len(PerRound(2).among(range(10), (1, 4, 5, 8), t, 0)) for t in range(12)} == {2}  # offered beside it, and named so


def test_omniscience_cannot_be_turned_off() -> None:
    """FLPoison: attacks always read all benign updates. Here the same attack runs on colluders' updates alone."""
    updates = gaussian(12, 300)
    partial, full = (ALIE(1.0)(coalition(updates, 4, level))[0] for level in (Level.COLLUDING, Level.OMNISCIENT))
    changed = [*updates[:4], *gaussian(8, 300, 99, 3.0)]
    assert np.array_equal(partial, ALIE(1.0)(coalition(changed, 4, Level.COLLUDING))[0])
    assert not np.array_equal(full, ALIE(1.0)(coalition(changed, 4, Level.OMNISCIENT))[0])


@pytest.mark.parametrize("d", [10, 11, 2_000])
def test_the_first_half_of_the_coordinates_is_negated_instead_of_a_random_half(d: int) -> None:
    """Blades, against SignGuard: sampling k of k positions negates a fixed set."""
    updates = gaussian(9, d)
    mean = np.mean(updates[3:], axis=0)

    def turned(round: int) -> Any:
        known = coalition(updates, 3, Level.OMNISCIENT, round=round)
        plain, found = ALIE(1.0)(known)[0] - mean, SignBalanced(ALIE(1.0))(known)[0] - mean
        assert np.allclose(abs(found), abs(plain), atol=1e-4)
        return np.sign(found) != np.sign(plain)

    sets = [turned(t) for t in range(6)]
    assert {int(s.sum()) for s in sets} == {d // 2}
    assert len({tuple(s) for s in sets}) > 1
    assert any(not s[: d // 2].all() for s in sets)


@pytest.mark.trains
def test_an_update_is_assigned_to_the_models_parameters() -> None:
    """MarsFL's LIE puts an update where parameters belong. Attacks here never touch the model or another client's update."""
    adversary = Adversary(members=Fixed((0, 1, 2)), upload=MinMax(), knows=Level.OMNISCIENT)
    simulation = Simulation(replace(SMALL, adversary=adversary), None)
    assert simulation.corrupted is not None
    start = simulation.vectors()[0]
    weights = [p.detach().clone() for p in simulation.module.parameters()]
    before = start.copy()
    jobs = [LocalJob(i, 0, "update", start) for i in range(10)]
    honest = dict(simulation._work(jobs))
    for i, work in simulation.corrupted(jobs):
        if i > 2:
            assert np.array_equal(work.vector, honest[i].vector)
    assert np.array_equal(start, before)
    assert all(torch.equal(a, b) for a, b in zip(weights, simulation.module.parameters(), strict=True))


def test_peak_accuracy_is_all_that_is_reported() -> None:
    """ByzFL's heat maps take the maximum over steps: a run that collapses looks well."""
    collapsed = [0.2, 0.95, 0.4, *[0.1] * 20]
    assert course(collapsed).final == pytest.approx(0.1)
    assert course(collapsed).late == pytest.approx(0.1)
    assert course(collapsed).best_of_last_50 == 0.95


def test_attacks_leave_what_they_are_given_as_it_was() -> None:
    """ByzFL's clipping changes its caller's arrays in place."""
    updates = gaussian(9, 610)  # as long as the model of the sample
    copies = [u.copy() for u in updates]
    for attack in COLLUSIVE:
        known = coalition(updates, 3, Level.INSIDER, MeanOfAll())
        memory = attack.learn(known) if hasattr(attack, "learn") else {}
        attack(coalition(updates, 3, Level.INSIDER, MeanOfAll(), memory=memory))
    MinusGradient()(own(updates[0]))
    assert all(np.array_equal(a, b) for a, b in zip(updates, copies, strict=True))
