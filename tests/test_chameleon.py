"""Chameleon: the contrastive loss by brute force, its two stages, and that its backdoor succeeds and lasts."""

from dataclasses import replace
from math import exp, log
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cloister.fl.clients.training import Training
from cloister.fl.models.papers import EmbeddingAndHead, Mlp
from cloister.fl.models.vector import dimension, load_vector, to_vector
from cloister.fl.runs.simulation import Simulation, seed_of
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.attack_metrics import attack_success
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.chameleon import Chameleon, all_but, contrastive_loss, features, head_of
from cloister.threat_models.membership import Fixed
from cloister.threat_models.training_attacks import nothing, trained
from cloister.threat_models.triggers import Patch

from .coalition_sample import SMALL, images, situation

BACKDOOR = Backdoor(Patch(0, 0, 2, 2, 1.0), target=7, share=0.5)
ENCODER = 64 * 8 + 8  # of the 8 hidden units; the head comes after


def by_formula(rows: Any, y: list[int], temperature: float, target: int, weight: float) -> float:
    """The definition, one pair at a time."""
    z = [row / np.linalg.norm(row) for row in rows]
    total = 0.0
    for i in range(len(y)):
        peers = [p for p in range(len(y)) if p != i and y[p] == y[i]]
        below = sum(exp(float(z[i] @ z[a]) / temperature) for a in range(len(y)) if a != i)
        for p in peers:
            share = exp(float(z[i] @ z[p]) / temperature) / below
            total -= (weight if y[i] == target else 1.0) * log(share) / len(peers)
    return total / len(y)


@pytest.mark.parametrize("target", [0, 2, 9])
def test_the_contrastive_loss_is_its_formula(target: int) -> None:
    rows = np.random.default_rng(0).standard_normal((7, 4))
    y = [0, 2, 0, 1, 2, 2, 3]  # 1 and 3 have no peers
    found = contrastive_loss(torch.from_numpy(rows), torch.tensor(y), 0.5, target, 6.0)
    assert float(found) == pytest.approx(by_formula(rows, y, 0.5, target, 6.0), rel=1e-10)
    assert (by_formula(rows, y, 0.5, target, 6.0) != by_formula(rows, y, 0.5, target, 5.0)) == (target != 9)


@pytest.mark.trains
def test_examples_without_peers_cost_nothing_and_leave_finite_gradients() -> None:
    for y in ([4], [0, 1, 2]):
        rows = torch.randn(len(y), 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
        loss = contrastive_loss(rows, torch.tensor(y), 0.07, 0, 6.0)
        assert loss.item() == 0
        torch.autograd.backward(loss)
        assert rows.grad is not None
        assert float(rows.grad.abs().max()) == 0


def test_features_are_the_input_of_the_last_linear_layer() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 10))
    x = images(6).x
    assert head_of(plain) == "3"
    assert torch.equal(features(plain, "3", x), plain[:3](x))
    cut = EmbeddingAndHead(plain[:3], plain[3])
    assert head_of(cut) == "head"
    assert torch.equal(features(cut, "head", x), plain[:3](x))
    assert not plain[3]._forward_pre_hooks


@pytest.mark.trains
def test_stage_one_moves_the_encoder_and_stage_two_the_classifier_alone() -> None:
    known = situation(examples=BACKDOOR(situation()))
    attack = Chameleon(7, weight=3.0, contrastive_epochs=2, encoder_lr=0.05, classifier_epochs=1)
    found = attack(known)

    def contrastive(module: nn.Module, x: Any, y: Any) -> Any:
        return contrastive_loss(features(module, "head", x), y, 0.07, 7, 3.0)

    one = replace(
        known, training=replace(known.training, epochs=2, lr=0.05), training_seed=seed_of(known.training_seed, "encoder")
    )
    encoder = trained(one, lambda loss, moved: loss, nothing, contrastive)
    assert np.array_equal(encoder[ENCODER:], np.zeros(10 * 8 + 10))
    assert float(np.abs(encoder[:ENCODER]).max()) > 0.01
    assert np.array_equal(found[:ENCODER], encoder[:ENCODER])
    assert float(np.abs(found[ENCODER:]).max()) > 0.001
    assert found.dtype == np.float32


@pytest.mark.trains
def test_stage_two_is_training_of_the_head_on_fixed_features() -> None:
    """One full batch: the head's step is minus the rate times its gradient at the adapted encoder, by autograd."""
    known = situation(examples=BACKDOOR(situation()), training=Training(epochs=1, batch=40, lr=0.1, momentum=0.9))
    step = trained(known, lambda loss, moved: loss, all_but("head", known.module))
    load_vector(known.module, known.start)
    logits = known.module(known.examples.x)
    gradients = torch.autograd.grad(nn.functional.cross_entropy(logits, known.examples.y), list(known.module.parameters()))
    whole = np.concatenate([g.numpy().ravel() for g in gradients])
    assert not step[:ENCODER].any()
    np.testing.assert_allclose(step[ENCODER:], -0.1 * whole[ENCODER:], atol=1e-6)
    assert float(np.abs(whole[:ENCODER]).max()) > 1e-3


@pytest.mark.trains
def test_stage_one_lowers_its_loss_and_brings_triggered_images_to_the_target_class() -> None:
    known = situation(examples=BACKDOOR(situation(examples=images(120))), training=Training(epochs=1, batch=40, lr=0.1))
    module, poisoned = known.module, known.examples
    marked = (poisoned.x[:, 0, :2, :2] == 1).flatten(1).all(1)
    peers = (poisoned.y == 7) & ~marked

    def measured(vector: Any) -> tuple[float, float]:
        load_vector(module, vector)
        with torch.no_grad():
            rows = nn.functional.normalize(module.embedding(poisoned.x), dim=1)
            return float(contrastive_loss(rows, poisoned.y, 0.07, 7, 6.0)), float((rows[marked] @ rows[peers].T).mean())

    before = measured(known.start)
    after = measured(known.start + Chameleon(7, contrastive_epochs=20)(known))
    assert after[0] < 0.9 * before[0]
    assert after[1] > before[1]


@pytest.mark.trains
def test_scale_and_bound_are_of_the_update() -> None:
    known = situation(examples=BACKDOOR(situation()))
    plain = Chameleon(7, contrastive_epochs=1)(known)
    np.testing.assert_allclose(Chameleon(7, contrastive_epochs=1, scale=3.0)(known), 3 * plain, rtol=1e-6)
    short = Chameleon(7, contrastive_epochs=1, scale=3.0, bound=0.01)(known)
    assert float(np.linalg.norm(short)) == pytest.approx(0.01, rel=1e-5)
    np.testing.assert_allclose(short / 0.01, plain / np.linalg.norm(plain), atol=1e-5)


def test_what_cannot_be_is_refused() -> None:
    for wrong in ({"temperature": 0.0}, {"weight": -1.0}, {"bound": 0.0}, {"contrastive_epochs": 0}, {"encoder_lr": 0.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Chameleon(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="classifier_epochs"):
        Chameleon(classifier_epochs=0)
    convolution = nn.Sequential(nn.Conv2d(1, 10, 8), nn.Flatten())
    other = {"start": np.zeros(dimension(convolution), np.float32)}
    with pytest.raises(ValueError, match="linear"):
        Chameleon()(situation(module=convolution, **other))
    bare = EmbeddingAndHead(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), nn.Identity())
    with pytest.raises(ValueError, match="no linear layer"):
        Chameleon()(situation(module=bare, start=to_vector(bare)))


@pytest.mark.trains
def test_nothing_given_is_changed_and_the_global_generator_is_left_alone() -> None:
    known = situation(examples=BACKDOOR(situation()))
    start, weights = known.start.copy(), [p.detach().clone() for p in known.module.parameters()]
    before = torch.get_rng_state()
    first = Chameleon(7, contrastive_epochs=1)(known)
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(first, Chameleon(7, contrastive_epochs=1)(known))
    assert np.array_equal(known.start, start)
    assert all(torch.equal(a, b) for a, b in zip(weights, known.module.parameters(), strict=True))


@pytest.mark.trains
@pytest.mark.long
def test_the_backdoor_enters_the_model_of_loyal_clients() -> None:
    scenario = replace(SMALL, model=Mlp(hidden=(24,)), training=Training(epochs=2, batch=10, lr=0.1), rounds=8)
    adversary = Adversary(
        members=Fixed((0, 1)), data=BACKDOOR, local=Chameleon(7, encoder_lr=0.02, classifier_epochs=4, scale=2.5)
    )
    models = {}
    for name, value in (("clean", scenario), ("attacked", replace(scenario, adversary=adversary))):
        simulation = Simulation(value, None)
        for _ in range(scenario.rounds):
            simulation.step()
        models[name] = {i: v for i, v in simulation.vectors().items() if i >= 2}
    tests = {i: c.test for i, c in simulation.population.clients.items()}
    found = attack_success(simulation.module, models["attacked"], tests, BACKDOOR, 10, models["clean"])
    assert found.clean_mean is not None
    assert found.mean > found.clean_mean + 0.5
