"""Attacks on clustering by similarity: angles and mixtures in closed form, timing, forged reports, fragmentation."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from math import acos, cos, pi, sin
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from cloister.fl.models.vector import load_vector
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.view.work import LocalJob
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.cluster_attacks import (
    Bridge,
    CloakedCollusion,
    Hider,
    Tilted,
    VictimCapture,
    agreed_direction,
    hiding_angle,
    typical_cosine,
)
from cloister.threat_models.cluster_timing import (
    Fragmentation,
    coherence,
    forged_embeddings,
    forged_report,
    last_impression,
    late_assignment,
    mimic_then_flip,
)
from cloister.threat_models.geometry import unit
from cloister.threat_models.knowledge import Level
from cloister.threat_models.membership import Fixed
from cloister.threat_models.simple_attacks import MinusGradient

from .coalition_sample import SMALL, coalition, gaussian, own, situation

Vector = np.ndarray[Any, np.dtype[np.float32]]


def cosine(a: Vector, b: Vector) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def norm(a: Vector) -> float:
    return float(np.linalg.norm(a))


# --- hider ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("angle", [0.0, 0.4, pi / 2, 2.0])
def test_a_tilted_upload_has_its_angle_to_the_own_update_and_its_norm(angle: float) -> None:
    update = gaussian(1, 500)[0]
    found = Tilted(angle, scale=3.0)(own(update))
    assert cosine(found, update) == pytest.approx(cos(angle), abs=1e-5)
    assert norm(found) == pytest.approx(3 * norm(update), rel=1e-5)
    direction = agreed_direction(own(update))
    assert found @ direction / norm(found) == pytest.approx(
        cos(angle) * cosine(update, direction) + sin(angle) * np.sqrt(1 - cosine(update, direction) ** 2), abs=1e-5
    )


@pytest.mark.parametrize(("along", "across", "bound"), [(0.5, -0.5, 0.3), (0.5, 0.2, 0.1), (0.2, -0.6, 0.5), (-0.4, -0.1, 0.2)])
def test_the_hiding_angle_is_the_largest_that_a_fine_grid_finds(along: float, across: float, bound: float) -> None:
    grid = np.linspace(0, pi, 200_001)
    fits = grid[np.cos(grid) * along + np.sin(grid) * across >= bound]
    expected = fits.max() if len(fits) else grid[np.argmax(np.cos(grid) * along + np.sin(grid) * across)]
    assert hiding_angle(along, across, bound) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("aim", ["agreed", "against"])
@pytest.mark.parametrize("quantile", [0.05, 0.5])
def test_hiders_look_as_alike_to_the_cluster_as_the_quantile_and_no_more(aim: Any, quantile: float) -> None:
    updates = gaussian(20, 2_000)
    seen = updates[4:]
    found = Hider(quantile, aim)(coalition(updates, 4, Level.OMNISCIENT))
    mutual = [np.mean([cosine(a, b) for b in seen if b is not a]) for a in seen]
    bound = np.quantile(mutual, quantile)
    assert typical_cosine([unit(v) for v in seen], quantile) == pytest.approx(bound, abs=1e-5)
    for i, vector in found.items():
        mean = np.mean([cosine(vector, b) for b in seen])
        own_mean = np.mean([cosine(updates[i], b) for b in seen])
        assert mean == pytest.approx(bound, abs=1e-4) or own_mean < bound
        assert norm(vector) == pytest.approx(norm(updates[i]), rel=1e-4)


def test_who_hides_in_the_mean_turns_from_it_as_far_as_the_quantile_lets() -> None:
    updates = gaussian(20, 2_000)
    seen = updates[4:]
    centre = np.mean([unit(v) for v in seen], axis=0)
    for i, vector in Hider(0.1, "agreed", hide_in="mean")(coalition(updates, 4, Level.OMNISCIENT)).items():
        assert np.mean([cosine(vector, b) for b in seen]) == pytest.approx(typical_cosine([unit(v) for v in seen], 0.1), abs=1e-4)
        assert norm(vector) == pytest.approx(norm(updates[i]), rel=1e-4)
        away = vector - (vector @ unit(centre)) * unit(centre)
        assert abs(cosine(away, agreed_direction(own(updates[i], i)))) > 0.99
    with pytest.raises(ValueError, match="agreed"):
        Hider(hide_in="mean")


# --- cloaked collusion ------------------------------------------------------------------------------------------------


def test_cloaked_uploads_are_the_stated_mixture_whose_noise_averages_out() -> None:
    d, f = 20_000, 30
    updates = gaussian(f, d)
    attack = CloakedCollusion(k=0.8, a=0.3, rho=5.0)
    found = [attack(own(u, i)) for i, u in enumerate(updates)]
    poison = agreed_direction(own(updates[0]))
    assert np.array_equal(poison, agreed_direction(own(updates[1], 1)))
    for u, x in zip(found, updates, strict=True):
        assert norm(u) == pytest.approx(5 * norm(x), rel=0.02)
        assert cosine(u, x) == pytest.approx(0.8, abs=0.03)
        assert cosine(u, poison) == pytest.approx(0.3, abs=0.03)
    rest = [u / norm(u) - 0.8 * unit(x) - 0.3 * poison for u, x in zip(found, updates, strict=True)]
    assert norm(rest[0]) == pytest.approx(np.sqrt(1 - 0.73), abs=0.02)
    assert norm(np.mean(rest, axis=0)) == pytest.approx(np.sqrt(0.27 / f), rel=0.2)
    with pytest.raises(ValueError, match="at most 1"):
        CloakedCollusion(k=0.9, a=0.9)


def test_cloaked_members_resemble_each_other_less_than_without_private_noise() -> None:
    updates = gaussian(10, 5_000, mean=0.3)
    bare, cloaked = ([CloakedCollusion(k, a)(own(u, i)) for i, u in enumerate(updates)] for k, a in ((0.6, 0.8), (0.6, 0.2)))
    assert cosine(cloaked[0], cloaked[1]) < cosine(bare[0], bare[1]) - 0.3


def loyal_only_communities(uploads: list[Vector], faulty: int, seed: int) -> int:
    """How many of Louvain's communities on 1 + cosine hold no member, as FLIC clusters."""
    rows = np.stack([unit(u) for u in uploads]).astype(np.float64)
    similarity = 1 + rows @ rows.T
    np.fill_diagonal(similarity, 0.0)
    found = nx.community.louvain_communities(nx.from_numpy_array(similarity), seed=seed)
    return sum(min(community) >= faulty for community in found)


@pytest.mark.long
@pytest.mark.parametrize("cosine_of_clients", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("seed", range(2))
def test_flic_separates_open_collusion_and_minus_gradient_but_not_cloaked_collusion(cosine_of_clients: float, seed: int) -> None:
    n, faulty, d = 100, 30, 4_000
    rng = np.random.default_rng(seed)
    common, *private = (unit(v) for v in rng.standard_normal((n + 1, d)).astype(np.float32))
    c = cosine_of_clients
    honest = [np.float32(np.sqrt(c)) * common + np.float32(np.sqrt(1 - c)) * p for p in private]
    cloaked, open_collusion = CloakedCollusion(k=0.8, a=0.2), CloakedCollusion(k=0.8, a=0.6)  # the second has no private noise
    found = {
        attack: loyal_only_communities([attack(own(u, i)) if i < faulty else u for i, u in enumerate(honest)], faulty, seed)
        for attack in (MinusGradient(), open_collusion, cloaked)
    }
    assert found == {MinusGradient(): 1, open_collusion: 1, cloaked: 0}


# --- bridge and capture -----------------------------------------------------------------------------------------------


def two_groups(d: int = 3_000) -> list[Vector]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, d))
    centres = [a] * 3 + [b] * 4
    return [(c + 0.2 * rng.standard_normal(d)).astype(np.float32) for c in [a, a, b, *centres]]


@pytest.mark.parametrize("anchors", [None, (3, 9), (9, 3), (0, 77)])
def test_a_bridge_stands_at_equal_angles_between_the_groups(anchors: tuple[int, int] | None) -> None:
    updates = two_groups()
    found = list(Bridge(anchors)(coalition(updates, 3, Level.OMNISCIENT)).values())
    a, b = np.mean([unit(u) for u in updates[3:6]], axis=0), np.mean([unit(u) for u in updates[6:]], axis=0)
    between = acos(cosine(a, b))
    to_a = sorted(acos(cosine(u, a)) for u in found)
    assert to_a == pytest.approx([between * j / 4 for j in (1, 2, 3)], abs=1e-3)
    assert [acos(cosine(u, b)) for u in sorted(found, key=lambda u: -cosine(u, a))] == pytest.approx(
        [between * j / 4 for j in (3, 2, 1)], abs=1e-3
    )
    chain = [cosine(u, v) for u, v in pairwise(found)]
    assert min(chain) > cosine(a, b) + 0.5


def test_a_victim_is_copied_until_the_turn_even_when_it_is_away_and_then_flipped() -> None:
    updates = gaussian(8, 4_000)
    attack = VictimCapture(victim=6, turn=5, cosine=0.9)
    known = coalition(updates, 3, Level.OMNISCIENT, round=3)
    assert np.array_equal(attack(known)[0], updates[0])  # nothing to copy yet
    memory = attack.learn(known)
    away = coalition(updates[:6], 3, Level.OMNISCIENT, memory=memory, round=4)
    assert attack.learn(away) is away.memory
    copies = attack(away)
    for vector in copies.values():
        assert cosine(vector, updates[6]) == pytest.approx(0.9, abs=1e-3)
        assert norm(vector) == pytest.approx(norm(updates[6]), rel=1e-3)
    assert cosine(copies[0], copies[1]) == pytest.approx(0.81, abs=0.03)
    flipped = attack(coalition(updates, 3, Level.OMNISCIENT, memory=memory, round=5))
    assert all(np.array_equal(v, -updates[i]) for i, v in flipped.items())


# --- timing -----------------------------------------------------------------------------------------------------------


def corrupt_rounds(adversary: Adversary, rounds: int) -> tuple[set[int], set[int]]:
    """Rounds in which the member attacks, and in which it is silent."""
    return {t for t in range(rounds) if t in adversary.when}, {t for t in range(rounds) if t in adversary.silent}


def test_schedules_of_the_attacks_by_timing() -> None:
    members = Fixed((0,))
    assert corrupt_rounds(mimic_then_flip(members, 4), 6) == ({4, 5}, set())
    assert corrupt_rounds(last_impression(members, clustering=5, window=2), 8) == ({0, 1, 2, 5, 6, 7}, set())
    assert corrupt_rounds(late_assignment(members, until=3), 5) == ({3, 4}, {0, 1, 2})
    with pytest.raises(ValueError, match="window"):
        last_impression(members, clustering=5, window=6)


@pytest.mark.trains
def test_a_server_that_keeps_the_latest_update_holds_an_honest_one_after_a_last_impression() -> None:
    adversary = last_impression(Fixed((0, 1, 2)), clustering=3, window=1)
    clean, attacked = (Simulation(replace(SMALL, adversary=a), None) for a in (None, adversary))
    assert attacked.corrupted is not None
    start = clean.vectors()[0]
    for t in range(5):
        jobs = [LocalJob(i, t, "update", start) for i in range(10)]
        honest, sent = dict(clean._work(jobs)), dict(attacked.corrupted(jobs))
        differing = {i for i in range(10) if not np.array_equal(honest[i].vector, sent[i].vector)}
        assert differing == (set() if t == 2 else {0, 1, 2})


@pytest.mark.trains
@pytest.mark.parametrize("protection", [Plain(), Permuted(), Masked()])
def test_late_members_leave_no_trace_before_they_come(protection: Any) -> None:
    adversary = late_assignment(Fixed((0, 1)), until=1)
    simulation = Simulation(replace(SMALL, adversary=adversary, protection=protection), None)
    simulation.step()

    def answered() -> set[int]:
        """Under Masked they say that they take part, and then send nothing."""
        return {i for entry in simulation.view.record.log if entry.what not in ("participation", "roster") for i in entry.about}

    assert answered() == set(range(2, 10))
    simulation.step()
    assert answered() == set(range(10))


# --- reports ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("higher", "best"), [(True, max), (False, min)])
def test_a_forged_report_wins_the_wanted_cluster_with_values_that_were_there(higher: bool, best: Any) -> None:
    scores: Mapping[str, float] = {"a": 0.9, "b": 0.2, "c": 0.5}
    for wanted in scores:
        forged = forged_report(scores, wanted, higher)
        assert best(forged, key=forged.__getitem__) == wanted
        assert sorted(forged.values()) == sorted(scores.values())


def test_forged_embeddings_are_the_targets_up_to_the_jitter() -> None:
    rng = np.random.default_rng(0)
    target = rng.standard_normal((300, 4)).astype(np.float32) * [1, 2, 3, 4]
    copied = forged_embeddings(target, 50, 0.0, rng)
    assert copied.shape == (50, 4)
    assert all((row == target).all(axis=1).any() for row in copied)
    jittered = forged_embeddings(target, 5_000, 0.1, rng)
    assert jittered.std(axis=0) == pytest.approx(target.std(axis=0) * np.sqrt(1.01), rel=0.05)


# --- fragmentation ----------------------------------------------------------------------------------------------------


def coherence_at(known: Any, vector: Vector, pieces: int) -> float:
    load_vector(known.module, vector)
    return float(coherence(known.module, known, torch.chunk(torch.arange(len(known.examples)), pieces)).detach())


def test_coherence_is_one_for_one_gradient_and_by_its_definition_for_several() -> None:
    known = situation()
    assert coherence_at(known, known.start, 1) == pytest.approx(1.0)
    gradients = []
    for index in torch.chunk(torch.arange(40), 4):
        batch = known.examples.take(index)
        loss = torch.nn.functional.cross_entropy(known.module(batch.x), batch.y)
        gradients.append(np.concatenate([g.numpy().ravel() for g in torch.autograd.grad(loss, list(known.module.parameters()))]))
    stacked = np.stack(gradients)
    expected = (stacked.mean(axis=0) ** 2).sum() / (stacked**2).sum(axis=1).mean()
    assert coherence_at(known, known.start, 4) == pytest.approx(expected, rel=1e-4)


def test_fragmentation_moves_the_model_to_where_gradients_agree_less() -> None:
    known = situation()
    update = Fragmentation(pieces=4, steps=10, step=0.03)(known)
    assert norm(update) <= 10 * 0.03 * norm(known.start) * 1.001
    assert coherence_at(known, known.start + update, 4) < 0.8 * coherence_at(known, known.start, 4)
    assert np.allclose(Fragmentation(pieces=4, steps=10, step=0.03, scale=7.0)(known), 7 * update, rtol=1e-5)


def test_without_a_name_the_victim_is_the_first_honest_client_of_the_lowest_id_and_stays_it() -> None:
    attack = VictimCapture(victim=None, turn=5)
    vectors = gaussian(8, 300)
    known = attack.learn(coalition(vectors, 3, Level.OMNISCIENT))
    np.testing.assert_array_equal(known["victim"], vectors[3])
    alone = coalition(vectors[:3], 3, Level.OMNISCIENT, memory=known)
    assert attack.learn(alone) is alone.memory
    later = [-v for v in vectors]
    again = attack.learn(coalition(later, 2, Level.OMNISCIENT, memory=known))  # client 2 is honest now, and not the victim
    np.testing.assert_array_equal(again["victim"], later[3])
    copies = attack(coalition(vectors, 3, Level.OMNISCIENT, memory=known))
    for copy in copies.values():
        assert copy @ vectors[3] / np.linalg.norm(copy) / np.linalg.norm(vectors[3]) == pytest.approx(0.9, abs=1e-5)


def test_a_victim_that_is_a_member_is_refused() -> None:
    with pytest.raises(ValueError, match="client 1 is a member of the coalition; name an honest victim"):
        VictimCapture(victim=1, turn=5).learn(coalition(gaussian(8, 30), 3, Level.OMNISCIENT))
