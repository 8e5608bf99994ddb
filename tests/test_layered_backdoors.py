"""Alternating minimisation and layer-wise poisoning: by hand, by brute force, and that they do what they are for."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from cloister.fl.clients.training import Job, Training, mean_loss, train_one
from cloister.fl.models.vector import load_vector, names_and_shapes
from cloister.threat_models.alternating import AlternatingMinimisation, poisoned_part
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.critical_layers import CriticalLayers, critical, layers_of, success_on
from cloister.threat_models.label_attacks import LabelFlip
from cloister.threat_models.triggers import Patch

from .coalition_sample import images, situation

BACKDOOR = Backdoor(Patch(0, 0, 2, 2, 1.0), target=7, share=0.5)
NO_POISON = Backdoor(Patch(0, 0, 2, 2, 1.0), target=7, share=0.0)


def gradient(known: Any, at: Any, examples: Any) -> Any:
    load_vector(known.module, at)
    loss = mean_loss(known.module(examples.x), examples.y)
    return np.concatenate([g.numpy().ravel() for g in torch.autograd.grad(loss, list(known.module.parameters()))])


def drawn_again(known: Any) -> Any:
    """The same knowledge with a generator that has drawn nothing yet."""
    return replace(known, data_rng=np.random.default_rng([known.member, 1]))


def test_the_poisoned_part_is_what_the_poison_changed() -> None:
    known = situation()
    clean, poisoned = known.examples, BACKDOOR(known)
    part = poisoned_part(clean, poisoned)
    assert len(part) == round(0.5 * int((clean.y != 7).sum()))
    assert set(part.y.tolist()) == {7}
    assert bool((part.x[:, :, :2, :2] == 1).all())
    assert len(poisoned_part(clean, clean)) == 0
    assert len(poisoned_part(clean, LabelFlip(3, 4)(known))) == int((clean.y == 3).sum())


@pytest.mark.trains
@pytest.mark.parametrize("earlier", [False, True])
def test_two_epochs_of_alternation_are_computed_by_hand(earlier: bool) -> None:
    """Full batches: one step on the poisoned examples, times the boost, then one on the clean ones with the pull to u_last."""
    known = situation(training=Training(epochs=2, batch=40, lr=0.1))
    usual = np.zeros_like(known.start)
    if earlier:
        usual = np.random.default_rng(1).standard_normal(len(known.start)).astype(np.float32) / 10
        known = replace(known, previous=known.start - usual)
    marked = poisoned_part(known.examples, BACKDOOR(drawn_again(known)))
    w, boost, rho = known.start, 4.0, 0.3
    for _ in range(2):
        w = w - boost * 0.1 * gradient(known, w, marked)
        w = w - 0.1 * (gradient(known, w, known.examples) + 2 * rho * (w - known.start - usual))
    found = AlternatingMinimisation(BACKDOOR, boost, rho)(drawn_again(known))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, w - known.start, atol=2e-6)


@pytest.mark.trains
def test_boost_makes_the_backdoor_and_rho_draws_the_update_to_the_usual_one() -> None:
    known = situation(training=Training(epochs=6, batch=20, lr=0.1))
    rate = success_on(poisoned_part(known.examples, BACKDOOR(drawn_again(known))), known.module)
    weak, strong = (AlternatingMinimisation(BACKDOOR, boost, 0.0)(drawn_again(known)) for boost in (0.1, 10.0))
    assert rate(known.start + strong) > rate(known.start + weak) + 0.3
    held = AlternatingMinimisation(BACKDOOR, 10.0, 1.0)(drawn_again(known))
    assert np.linalg.norm(held) < 0.8 * np.linalg.norm(strong)


def test_layers_cover_the_vector_once_and_in_order() -> None:
    module = situation().module
    layers = layers_of(module)
    assert [(at.start, at.stop) for at in layers.values()] == [(0, 64 * 8 + 8), (64 * 8 + 8, 64 * 8 + 8 + 8 * 10 + 10)]
    assert set(layers) == {name.rpartition(".")[0] for name in names_and_shapes(module)}


def test_critical_layers_are_found_in_the_order_of_what_they_carry() -> None:
    """A success rate that is a known sum: the malicious layers 1 and 3 carry .6 and .3 of it, the others nothing."""
    layers = {str(k): slice(k, k + 1) for k in range(5)}
    carries = np.array([0.0, 0.6, 0.0, 0.3, 0.05], np.float32)
    benign, malicious = np.zeros(5, np.float32), np.ones(5, np.float32)

    def rate(model: Any) -> float:
        return float(model @ carries)

    assert critical(benign, malicious, layers, rate, 0.5) == ("1",)
    assert critical(benign, malicious, layers, rate, 0.9) == ("1", "3")
    assert critical(benign, malicious, layers, rate, 0.99) == ("1", "3", "4")
    assert critical(malicious, malicious, layers, rate, 1.0) == ()


@pytest.mark.trains
def test_the_upload_is_honest_outside_of_the_critical_layers_and_keeps_the_backdoor() -> None:
    known = situation(examples=images(80, 2), training=Training(epochs=20, batch=20, lr=0.3))
    honest = train_one(known.module, Job(known.member, known.start, known.examples, known.training_seed), known.training, 0)
    rate = success_on(poisoned_part(known.examples, BACKDOOR(drawn_again(known))), known.module)
    found = CriticalLayers(BACKDOOR, 0.8)(drawn_again(known))
    poisoned = [name for name, at in layers_of(known.module).items() if not np.array_equal(found[at], honest[at])]
    assert len(poisoned) == 1  # one of two layers suffices: the attack is no plain backdoor
    assert rate(known.start + honest) < 0.3
    assert rate(known.start + found) > 0.6
    np.testing.assert_array_equal(CriticalLayers(NO_POISON)(drawn_again(known)), honest)


@pytest.mark.trains
def test_what_cannot_be_is_refused_and_nothing_given_is_changed() -> None:
    with pytest.raises(ValueError, match="boost"):
        AlternatingMinimisation(BACKDOOR, boost=0.0)
    with pytest.raises(ValueError, match="share"):
        CriticalLayers(BACKDOOR, share=1.5)
    known = situation()
    start, weights = known.start.copy(), [p.detach().clone() for p in known.module.parameters()]
    for attack in (AlternatingMinimisation(BACKDOOR), CriticalLayers(BACKDOOR)):
        attack(drawn_again(known))
        assert np.array_equal(known.start, start)
    assert all(torch.equal(a, b) for a, b in zip(weights, known.module.parameters(), strict=True))
