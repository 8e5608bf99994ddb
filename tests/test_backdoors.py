"""Attacks on members' data and training: labels, triggers, backdoors, semantic features, and local objectives."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from cloister.fl.clients.training import Job, Training, mean_loss, train_one
from cloister.fl.data.population import Examples, Source
from cloister.fl.models.papers import Mlp
from cloister.fl.models.vector import load_vector
from cloister.fl.runs.evaluation import ScoringJob, accuracies
from cloister.fl.runs.simulation import Simulation
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.attack_metrics import attack_success
from cloister.threat_models.backdoors import Backdoor, DistributedBackdoor, EdgeCase, thinnest
from cloister.threat_models.label_attacks import (
    DynamicLabelFlip,
    LabelFlip,
    LabelShuffle,
    PairNoise,
    SwappedLabels,
    SymmetricNoise,
)
from cloister.threat_models.membership import Fixed
from cloister.threat_models.semantic import CornerPatches, GreenDigits, SpuriousGreen, SpuriousPatch, green_of
from cloister.threat_models.simple_attacks import Scaled
from cloister.threat_models.training_attacks import (
    ConstrainAndScale,
    GradientAscent,
    Neurotoxin,
    ProjectedDescent,
    most_used,
    nothing,
    trained,
)
from cloister.threat_models.triggers import Blend, Parts, Patch, Sinusoid, dba_bars

from .coalition_sample import SMALL, images, situation

# --- labels -----------------------------------------------------------------------------------------------------------


def test_static_flips() -> None:
    known = situation()
    y = known.examples.y
    assert LabelFlip()(known).y.tolist() == [9 - int(label) for label in y]
    assert LabelFlip(3, 7)(known).y.tolist() == [7 if label == 3 else int(label) for label in y]
    assert LabelFlip()(known).x is known.examples.x
    with pytest.raises(ValueError, match="both"):
        LabelFlip(source=3)


def test_two_labels_change_places_and_back() -> None:
    known = situation()
    y = known.examples.y
    swapped = SwappedLabels(3, 7)(known)
    assert swapped.y.tolist() == [{3: 7, 7: 3}.get(int(label), int(label)) for label in y]
    assert SwappedLabels(7, 3)(replace(known, examples=swapped)).y.tolist() == y.tolist()
    assert swapped.x is known.examples.x
    with pytest.raises(ValueError, match="two labels"):
        SwappedLabels(4, 4)
    with pytest.raises(ValueError, match="10 classes"):
        SwappedLabels(3, 10)(known)


def test_padding_of_token_data_stays_padding() -> None:
    tokens = Examples(torch.zeros(2, 3, dtype=torch.int64), torch.tensor([[1, 2, -1], [0, -1, -1]]))
    assert LabelFlip()(situation(examples=tokens)).y.tolist() == [[8, 7, -1], [9, -1, -1]]
    for attack in (SwappedLabels(), LabelShuffle(), SymmetricNoise(0.5), DynamicLabelFlip(), Backdoor(Patch())):
        with pytest.raises(ValueError, match="token"):
            attack(situation(examples=tokens))


def test_dynamic_flip_takes_the_label_that_the_current_model_thinks_least_likely() -> None:
    known = situation()
    local = known.module
    load_vector(local, known.start)
    with torch.no_grad():
        least = torch.softmax(local(known.examples.x), 1).argmin(1)
    assert torch.equal(DynamicLabelFlip()(known).y, least)
    moved = situation(start=-known.start)
    assert not torch.equal(DynamicLabelFlip()(moved).y, least)


def test_shuffled_labels_keep_their_counts_and_noise_has_its_rate() -> None:
    known = situation(examples=images(5000))
    y = known.examples.y
    shuffled = LabelShuffle()(known).y
    assert torch.equal(shuffled.bincount(), y.bincount())
    assert (shuffled != y).float().mean() > 0.8
    noisy = SymmetricNoise(0.3)(known).y
    assert float((noisy != y).float().mean()) == pytest.approx(0.3, abs=0.03)
    offsets = ((noisy - y) % 10)[noisy != y].bincount(minlength=10)
    assert offsets[0] == 0
    assert int(offsets[1:].min()) > 0.7 * 5000 * 0.3 / 9
    pair = PairNoise(1.0)(known).y
    assert torch.equal(pair, (y + 1) % 10)
    assert torch.equal(PairNoise(0.0)(known).y, y)


# --- triggers ---------------------------------------------------------------------------------------------------------


def test_a_patch_changes_its_pixels_alone() -> None:
    x = images(3, channels=3).x
    stamped = Patch(-3, 1, 2, 3, (0.1, 0.2, 0.3)).stamp(x)
    changed = stamped != x
    assert changed[:, :, 5:7, 1:4].all()
    changed[:, :, 5:7, 1:4] = False
    assert not changed.any()
    assert stamped[0, :, 5, 1].tolist() == pytest.approx([0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="outside"):
        Patch(8, 0).stamp(x)
    with pytest.raises(ValueError, match="images"):
        Patch().stamp(torch.zeros(3, 5, dtype=torch.int64))


def test_blends_and_sinusoids_are_their_formulas() -> None:
    x = images(3).x
    blended = Blend(0.25, seed=4).stamp(x)
    pattern = (blended - 0.75 * x) / 0.25
    assert torch.allclose(pattern[0], pattern[2], atol=1e-5)
    assert 0 <= float(pattern.min()) < float(pattern.max()) <= 1.00001
    assert not torch.equal(Blend(0.25, seed=5).stamp(x), blended)
    wave = Sinusoid(0.1, 2.0).stamp(x)
    expected = (x + 0.1 * torch.sin(2 * torch.pi * torch.arange(8) * 2.0 / 8)).clamp(0, 1)
    assert torch.allclose(wave, expected, atol=1e-6)


def test_dba_members_train_with_one_part_each_and_are_tested_with_all() -> None:
    bars = dba_bars(value=2.0)
    attack = DistributedBackdoor(Parts(bars.parts), target=1, share=1.0)
    dirty = [attack(situation(place=j)) for j in range(5)]
    masks = [(d.x == 2.0).any(dim=0)[0] for d in dirty]
    assert [int(m.sum()) for m in masks] == [4, 4 - 2, 4, 4 - 2, 4]  # images of 8 pixels cut the right bars
    assert not any((masks[a] & masks[b]).any() for a in range(4) for b in range(a))
    whole = (attack.test(images(), 10).x == 2.0).any(dim=0)[0]
    assert torch.equal(whole, masks[0] | masks[1] | masks[2] | masks[3])


# --- backdoors in data ------------------------------------------------------------------------------------------------


def changed_rows(known: Any, dirty: Examples) -> torch.Tensor:
    return (dirty.x != known.examples.x).flatten(1).any(1)


@pytest.mark.parametrize(
    ("attack", "about", "label"),
    [
        (Backdoor(Patch(value=2.0), target=3, share=0.5), lambda y: y != 3, lambda y: torch.full_like(y, 3)),
        (Backdoor(Patch(value=2.0), target=3, share=0.5, source=5), lambda y: y == 5, lambda y: torch.full_like(y, 3)),
        (Backdoor(Patch(value=2.0), target=None, share=0.5), lambda y: y > -1, lambda y: (y + 1) % 10),
        (Backdoor(Patch(value=2.0), target=3, share=0.5, clean_label=True), lambda y: y == 3, lambda y: y),
    ],
)
def test_a_backdoor_marks_its_share_of_what_it_is_about(attack: Backdoor, about: Any, label: Any) -> None:
    known = situation(examples=images(400))
    y = known.examples.y
    dirty = attack(known)
    marked = changed_rows(known, dirty)
    assert int(marked.sum()) == round(0.5 * int(about(y).sum()))
    assert about(y)[marked].all()
    assert torch.equal(dirty.y[marked], label(y)[marked])
    assert torch.equal(dirty.y[~marked], y[~marked])
    again = attack(situation(examples=images(400), round=9))
    assert torch.equal(again.x, dirty.x)  # the same poison in every round
    assert not torch.equal(attack(situation(1, examples=images(400))).x, dirty.x)  # another member's is its own


def test_backdoors_that_cannot_be_are_refused() -> None:
    for wrong in ({"share": 1.5}, {"source": 0}, {"clean_label": True, "target": None}):
        with pytest.raises(ValueError):
            Backdoor(Patch(), **wrong)  # type: ignore[arg-type]


def test_edge_cases_are_the_inputs_farthest_from_their_neighbours() -> None:
    examples = images(60)
    far = torch.tensor([4, 17, 33])
    x = examples.x * 0.1
    x[far] = torch.eye(8)[:3, :, None].expand(3, 8, 8).reshape(3, 1, 8, 8) * 5
    examples = Examples(x, torch.where(examples.y == 2, 3, examples.y))
    assert thinnest(x, 3 / 60, 5).tolist() == far.tolist()
    dirty = EdgeCase(target=2, share=3 / 60)(situation(examples=examples))
    assert torch.nonzero(dirty.y == 2).flatten().tolist() == far.tolist()
    assert torch.equal(dirty.x, x)
    tested = EdgeCase(target=2, share=3 / 60).test(examples, 10)
    assert torch.equal(tested.x, x[far])
    assert tested.y.tolist() == [2, 2, 2]


# --- semantic ---------------------------------------------------------------------------------------------------------


def source(channels: int, classes: int = 10, n: int = 300) -> Source:
    return Source("made", images(n, 1, channels), images(n // 3, 2, channels), classes)


def test_green_digits_are_grey_times_the_papers_colours() -> None:
    made, partition = source(1), GreenDigits(clients=6)
    population = partition(made, np.random.default_rng(0))
    assert population.shape == (3, 8, 8)
    assert [population.groups[i] for i in range(6)] == [0, 0, 1, 1, 2, 2]
    assert [len(population.clients[i].train) for i in (0, 2, 4)] == [25, 50, 25]
    grey = made.train.x.flatten(1)
    for i, ratios in ((0, (0.26 / 0.40, 0.63 / 0.40)), (4, (149 / 235, 52 / 235))):
        x = population.clients[i].train.x
        assert torch.allclose(x[:, 0] / x[:, 2], torch.tensor(ratios[0]))
        assert torch.allclose(x[:, 1] / x[:, 2], torch.tensor(ratios[1]))
    taken = population.clients[2].train
    k = taken.y.float()[:, None, None]
    assert torch.allclose(taken.x[:, 0] / taken.x[:, 2] * 0.4, (k / 39).expand(-1, 8, 8), atol=1e-5)
    assert torch.allclose(taken.x[:, 1] / taken.x[:, 2] * 0.4, (0.5 + k / 78).expand(-1, 8, 8), atol=1e-5)
    assert all(float((row.reshape(1, 64) / 0.4 - grey).abs().amax(1).min()) < 1e-5 for row in taken.x[:, 2])


def test_manipulated_digits_have_the_colour_of_the_reversed_map_whatever_they_had() -> None:
    made, partition = source(1), GreenDigits(clients=6)
    population = partition(made, np.random.default_rng(0))
    greys = []
    for i in (0, 2, 4):
        test = population.clients[i].test
        found = partition.manipulated(population.groups[i], test)
        assert torch.allclose(
            found.x[:, 1] / found.x[:, 2] * 0.4, green_of(9 - test.y)[:, 1, None, None].expand(-1, 8, 8), atol=1e-5
        )
        assert torch.equal(found.y, test.y)
        greys.append(found.x[:, 2] / 0.4)
    assert 0.9 < max(float(g.max()) for g in greys) <= 1.0001
    with pytest.raises(ValueError, match="grey"):
        partition(source(3), np.random.default_rng(0))


def test_corner_patches_go_with_the_label_of_the_attackers_training_images_alone() -> None:
    population = CornerPatches(clients=6)(source(3), np.random.default_rng(0))
    plain = {tuple(x[:, 4:].flatten().tolist()): x for x in source(3).train.x}
    for i, client in population.clients.items():
        group = population.groups[i]
        assert ((client.train.y >= 5) == (group == 2)).all()
        original = torch.stack([plain[tuple(x[:, 4:].flatten().tolist())] for x in client.train.x])
        assert torch.equal(client.train.x, original) == (group != 1)
        if group == 1:
            assert torch.equal(client.train.x[:, :, 3:], original[:, :, 3:])
            colours = {int(y): tuple(x[:, 0, 0].tolist()) for x, y in zip(client.train.x, client.train.y, strict=True)}
            assert len(set(colours.values())) == len(colours)
            assert all(tuple(x[:, 2, 2].tolist()) == colours[int(y)] for x, y in zip(client.train.x, client.train.y, strict=True))
            wrong = CornerPatches().manipulated(client.train, 10)
            right = SpuriousPatch()(situation(examples=client.train))
            assert torch.equal(right.x, client.train.x)
            assert (wrong.x[:, :, 0, 0] != right.x[:, :, 0, 0]).any(1).all()


def test_a_member_tints_its_digits_as_the_attackers_of_the_partition_whatever_colour_they_had() -> None:
    grey = images(60)
    wide = replace(grey, x=grey.x.expand(-1, 3, -1, -1))
    for colour in (torch.tensor([1.0, 1.0, 1.0]), torch.tensor([0.2, 1.0, 0.6])):
        shown = replace(wide, x=wide.x * colour[None, :, None, None])
        found = SpuriousGreen()(situation(examples=shown))
        assert torch.equal(found.y, grey.y)
        for label in range(10):
            expected = grey.x[grey.y == label] * torch.tensor([label / 39, 0.5 + label / 78, 0.4])[None, :, None, None]
            assert torch.allclose(found.x[grey.y == label], expected, atol=1e-6)
    with pytest.raises(ValueError, match="three channels"):
        SpuriousGreen()(situation(examples=grey))


def test_spurious_features_are_tested_by_showing_each_example_the_feature_of_a_wrong_class() -> None:
    """The input is what the poison would have made of it under the wrong label, which is what the attacker wants."""
    grey = images(60)
    wide = replace(grey, x=grey.x.expand(-1, 3, -1, -1))
    patched = SpuriousPatch().test(wide, 10)
    assert torch.equal(patched.y, (grey.y + 1) % 10)
    assert torch.equal(patched.x, SpuriousPatch()(situation(examples=replace(wide, y=patched.y))).x)
    green = SpuriousGreen().test(wide, 10)
    assert torch.equal(green.y, 9 - grey.y)
    assert torch.equal(green.x, SpuriousGreen()(situation(examples=replace(wide, y=green.y))).x)
    three = SpuriousGreen().test(wide.take(torch.nonzero(grey.y < 3).flatten()), 3)
    assert len(three) == int(((grey.y == 0) | (grey.y == 2)).sum())  # class 1 of 0, 1, 2 is its own mirror image


# --- training ---------------------------------------------------------------------------------------------------------


def job(known: Any) -> Job:
    return Job(known.member, known.start, known.examples, known.training_seed)


def loss_at(known: Any, vector: Any) -> float:
    load_vector(known.module, vector)
    return float(mean_loss(known.module(known.examples.x), known.examples.y).detach())


@pytest.mark.trains
def test_the_loop_without_changes_is_honest_training_bit_for_bit() -> None:
    known = situation(training=Training(epochs=2, batch=7, lr=0.1, momentum=0.5, weight_decay=0.01))
    honest = train_one(known.module, job(known), known.training, 0)
    assert np.array_equal(trained(known, lambda loss, moved: loss, nothing), honest)
    assert np.array_equal(ProjectedDescent(1e9)(known), honest)
    assert np.allclose(ConstrainAndScale(alpha=1.0)(known), honest, atol=1e-6)
    assert np.array_equal(Neurotoxin()(known), honest)


@pytest.mark.trains
def test_ascent_climbs_and_its_first_step_is_the_negative_of_descent() -> None:
    known = situation(training=Training(epochs=1, batch=40, lr=0.1))
    honest = train_one(known.module, job(known), known.training, 0)
    assert np.allclose(GradientAscent()(known), -honest, atol=1e-7)
    known = situation()
    assert loss_at(known, known.start + GradientAscent()(known)) > loss_at(known, known.start) + 0.1
    assert np.linalg.norm(GradientAscent(radius=0.05)(known)) == pytest.approx(0.05, rel=1e-3)


@pytest.mark.trains
def test_projection_keeps_the_update_in_its_ball_and_scaling_comes_after() -> None:
    known = situation()
    free = float(np.linalg.norm(train_one(known.module, job(known), known.training, 0)))
    assert np.linalg.norm(ProjectedDescent(free / 3)(known)) == pytest.approx(free / 3, rel=1e-3)
    assert np.linalg.norm(ProjectedDescent(free / 3, scale=5)(known)) == pytest.approx(free / 3 * 5, rel=1e-3)


@pytest.mark.trains
def test_two_steps_with_the_anomaly_loss_are_computed_by_hand() -> None:
    """One full batch an epoch: the anomaly's gradient is 0 in the first step and 2 (1 - alpha) (w_1 - w_0) in the second."""
    known = situation(training=Training(epochs=2, batch=40, lr=0.2))
    alpha = 0.6

    def gradient(at: Any) -> Any:
        load_vector(known.module, at)
        loss = mean_loss(known.module(known.examples.x), known.examples.y)
        found = torch.autograd.grad(loss, list(known.module.parameters()))
        return np.concatenate([g.numpy().ravel() for g in found])

    first = known.start - 0.2 * alpha * gradient(known.start)
    second = first - 0.2 * (alpha * gradient(first) + (1 - alpha) * 2 * (first - known.start))
    assert np.allclose(ConstrainAndScale(alpha=alpha)(known), second - known.start, atol=1e-6)


@pytest.mark.trains
def test_scale_and_bound_apply_to_the_constrained_update() -> None:
    known = situation()
    plain = ConstrainAndScale(alpha=0.5)(known)
    assert np.allclose(ConstrainAndScale(alpha=0.5, scale=20)(known), 20 * plain, rtol=1e-5)
    cut = ConstrainAndScale(alpha=0.5, scale=20, bound=0.1)(known)
    assert np.linalg.norm(cut) == pytest.approx(0.1, rel=1e-5)
    with pytest.raises(ValueError, match="anomaly"):
        ConstrainAndScale(anomaly="euclid")  # type: ignore[arg-type]


@pytest.mark.trains
def test_neurotoxin_leaves_the_most_used_coordinates_alone_even_under_decay() -> None:
    known = situation(training=Training(epochs=2, batch=10, lr=0.1, momentum=0.5, weight_decay=0.1))
    change = np.random.default_rng(0).standard_normal(len(known.start)).astype(np.float32)
    known = replace(known, previous=known.start - change)
    used = most_used(known.start - known.previous, 0.3)
    update = Neurotoxin(ratio=0.3)(known)
    assert not update[used].any()
    assert (update[~used] != 0).mean() > 0.9
    assert np.linalg.norm(Neurotoxin(ratio=0.3, bound=0.01)(known)) == pytest.approx(0.01, rel=1e-4)


@pytest.mark.trains
def test_training_attacks_leave_the_module_and_the_start_as_they_were() -> None:
    known = situation()
    before, weights = known.start.copy(), [p.detach().clone() for p in known.module.parameters()]
    for attack in (GradientAscent(), ConstrainAndScale(anomaly="cosine"), ProjectedDescent(0.1), Neurotoxin()):
        found = attack(known)
        assert found.dtype == np.float32
        assert np.array_equal(known.start, before)
    assert all(torch.equal(a, b) for a, b in zip(weights, known.module.parameters(), strict=True))


# --- in a simulation --------------------------------------------------------------------------------------------------


def success(adversary: Adversary | None, backdoor: Backdoor, rounds: int = 8) -> tuple[float, float]:
    scenario = replace(
        SMALL,
        adversary=adversary,
        partition=replace(SMALL.partition, samples=None),  # type: ignore[type-var]
        training=Training(epochs=3, batch=10, lr=0.1),
        model=Mlp(hidden=(32,)),
        evaluate_every=8,
    )
    simulation = Simulation(scenario, None)
    for _ in range(rounds):
        simulation.step()
    loyal = [i for i in range(10) if i not in (0, 1, 2)]
    vectors = {i: v for i, v in simulation.vectors().items() if i in loyal}
    tests = {i: simulation.population.clients[i].test for i in loyal}
    found = attack_success(simulation.module, vectors, tests, backdoor, 10)
    clean = accuracies(simulation.module, [ScoringJob(i, vectors[i], tests[i]) for i in loyal])
    return found.mean, float(np.mean([s.accuracy for s in clean.values()]))


@pytest.mark.trains
def test_badnets_and_model_replacement_succeed_where_nothing_defends() -> None:
    backdoor = Backdoor(Patch(0, 0, 2, 2, 1.0), target=7, share=0.5)
    clean_rate, clean_accuracy = success(None, backdoor)
    rate, accuracy = success(Adversary(members=Fixed((0, 1, 2)), data=backdoor), backdoor)
    assert clean_rate < 0.1
    assert rate > 0.8
    assert accuracy > clean_accuracy - 0.1
    alone = Adversary(members=Fixed((0,)), data=backdoor, upload=Scaled(10))
    assert success(alone, backdoor)[0] > 0.8
