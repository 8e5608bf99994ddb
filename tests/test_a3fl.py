"""A3FL: its steps by hand, where its trigger may be, that it lowers its objective, and that its backdoor enters."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from cloister.fl.clients.training import Job, Training, train_one
from cloister.fl.models.papers import Mlp
from cloister.fl.models.vector import load_vector
from cloister.fl.runs.simulation import seed_of
from cloister.threat_models.a3fl import A3FL, PIXELS, cosine, fixed
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.critical_layers import CriticalLayers
from cloister.threat_models.knowledge import Level
from cloister.threat_models.membership import Fixed
from cloister.threat_models.trial import played, success_of
from cloister.threat_models.triggers import Patch, Pixels

from .coalition_sample import SMALL, images, situation

ATTACK = A3FL(1, 2, 3, 4, target=7, share=0.5, epochs=4, alpha=0.06, lambda0=0.5, adversarial_epochs=2, every=2)


def stamped(x: Any, pixels: Any) -> Any:
    """mask * delta + (1 - mask) * x, as the paper writes it."""
    mask = torch.zeros_like(x)
    mask[:, :, 1:4, 2:6] = 1
    whole = torch.zeros_like(x)
    whole[:, :, 1:4, 2:6] = pixels
    return mask * whole + (1 - mask) * x


@pytest.mark.trains
@pytest.mark.long
def test_two_passes_are_computed_by_hand() -> None:
    """Full batches: the adversarial model trained on triggered examples with their own labels, the weight, and the sign."""
    attack = replace(ATTACK, epochs=2, every=1, lambda0=1.0)
    known = situation(training=Training(epochs=3, batch=40, lr=3.0))
    known = replace(known, start=known.start / 4)  # so that the adversarial model points elsewhere
    found = attack.learn(known)[PIXELS]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, by_hand(known, lambda cosine: cosine), atol=1e-6)
    for other in (0.0, 1.0):  # the adversarial model decides the sign of some pixel, and the cosine that of another
        assert not np.allclose(found, by_hand(known, lambda cosine, fixed=other: fixed), atol=1e-3)


def by_hand(known: Any, weighted: Any) -> Any:
    """The trigger after two passes. weighted: lambda, from the cosine of the adversarial model and the one that was opened."""
    pixels, module = torch.full((1, 3, 4), 0.5), known.module
    for epoch in range(2):
        examples = replace(known.examples, x=stamped(known.examples.x, pixels))
        job = Job(0, known.start, examples, seed_of(known.training_seed, "unlearned", epoch))
        adversarial = known.start + train_one(module, job, replace(known.training, epochs=2), 0)
        angle = float(adversarial @ known.start) / float(np.linalg.norm(adversarial) * np.linalg.norm(known.start))
        gradient = torch.zeros(1, 3, 4)
        for model, share in ((known.start, 1.0), (adversarial, weighted(angle))):
            load_vector(module, model)
            variable = pixels.clone().requires_grad_()
            loss = functional.cross_entropy(module(stamped(known.examples.x, variable)), torch.full((40,), 7))
            gradient += share * torch.autograd.grad(loss, variable)[0]
        pixels = (pixels - 0.06 * gradient.sign()).clamp(0, 1)
    return pixels.flatten().numpy()


def test_without_lambda_there_is_no_adversarial_model_and_the_loss_falls() -> None:
    known = situation(examples=images(120), training=Training(epochs=1, batch=30, lr=0.1))
    model = fixed(known.module, known.start)
    attack = replace(ATTACK, lambda0=0.0, epochs=10)
    grey = torch.full((1, 3, 4), 0.5)
    found = torch.from_numpy(attack.learn(known)[PIXELS].reshape(1, 3, 4))
    before, after = (float(attack.objective([(1.0, model)], known.examples.x, p)) for p in (grey, found))
    assert after < before - 0.05
    every = [replace(attack, every=k).learn(known)[PIXELS] for k in (1, 10)]
    assert np.array_equal(every[0], every[1])


@pytest.mark.long
@pytest.mark.trains
def test_against_the_unlearned_model_the_trigger_is_better_with_lambda_than_without() -> None:
    known = situation(examples=images(120), training=Training(epochs=1, batch=30, lr=0.3))
    attack = replace(ATTACK, epochs=8, every=8, adversarial_epochs=5)
    grey = torch.full((1, 3, 4), 0.5)
    unlearned = fixed(known.module, attack._unlearned(known, grey, 0))
    losses = {}
    for lambda0 in (0.0, 50.0):
        found = torch.from_numpy(replace(attack, lambda0=lambda0).learn(known)[PIXELS].reshape(1, 3, 4))
        losses[lambda0] = float(attack.objective([(1.0, unlearned)], known.examples.x, found))
    assert losses[50.0] < losses[0.0]


@pytest.mark.long
@pytest.mark.trains
def test_learning_goes_on_from_the_round_before_and_stays_within_the_range_of_images() -> None:
    before = np.linspace(0, 1, 12, dtype=np.float32)
    known = situation(learned={PIXELS: before}, training=Training(epochs=1, batch=40, lr=0.1))
    once = replace(ATTACK, epochs=1).learn(known)[PIXELS]
    assert 0 < float(np.abs(once - before).max()) <= 0.06 + 1e-6
    assert not np.array_equal(once, replace(ATTACK, epochs=1).learn(replace(known, learned={}))[PIXELS])
    far = replace(ATTACK, epochs=5, alpha=0.4).learn(known)[PIXELS]
    assert far.shape == (12,)
    assert (float(far.min()), float(far.max())) == (0.0, 1.0)
    assert np.array_equal(known.learned[PIXELS], np.linspace(0, 1, 12, dtype=np.float32))


def test_the_learned_trigger_is_put_on_a_share_of_the_examples_and_only_into_its_rectangle() -> None:
    pixels = np.linspace(0, 1, 24, dtype=np.float32)
    known = situation(examples=images(60, channels=2), learned={PIXELS: pixels})
    poisoned = ATTACK(known)
    changed = (poisoned.x != known.examples.x).flatten(1).any(1)
    assert int(changed.sum()) == round(0.5 * int((known.examples.y != 7).sum()))
    assert set(poisoned.y[changed].tolist()) == {7}
    assert torch.equal(
        poisoned.x[changed][:, :, 1:4, 2:6], torch.from_numpy(pixels.reshape(1, 2, 3, 4)).expand(int(changed.sum()), -1, -1, -1)
    )
    outside = torch.ones(2, 8, 8, dtype=torch.bool)
    outside[:, 1:4, 2:6] = False
    assert torch.equal(poisoned.x[:, outside], known.examples.x[:, outside])
    again = ATTACK(replace(known, data_rng=np.random.default_rng([0, 1]), learned={PIXELS: 1 - pixels}))
    assert torch.equal(again.y, poisoned.y)  # the same examples in every round


def test_pixels_lie_in_the_image_and_fit_its_channels() -> None:
    x = images(3).x
    assert torch.equal(Pixels(6, 5, 2, 3, (0.25,) * 6).stamp(x), Patch(6, 5, 2, 3, 0.25).stamp(x))
    for row, column in ((7, 0), (0, 6)):
        with pytest.raises(ValueError, match="do not lie in images of 8 x 8"):
            Pixels(row, column, 2, 3, (0.0,) * 6).stamp(x)
    with pytest.raises(ValueError, match="6 values do not make 2 channels"):
        Pixels(0, 0, 2, 3, (0.0,) * 6).stamp(images(3, channels=2).x)


def test_the_cosine_is_of_whole_models() -> None:
    a, b = np.array([3, 4], np.float32), np.array([4, 3], np.float32)
    assert cosine(a, b) == pytest.approx(24 / 25)
    assert cosine(a, np.zeros(2, np.float32)) == 0


def test_what_cannot_be_is_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"share": 1.5}, "share"), ({"initial": -0.1}, "initial"), ({"row": -1}, "row"), ({"width": 0}, "width"),
        ({"epochs": 0}, "epochs"), ({"every": 0}, "every"), ({"alpha": 0.0}, "alpha"), ({"lambda0": float("inf")}, "lambda0"),
    ]  # fmt: skip
    for fields, words in wrong:
        with pytest.raises(ValueError, match=words):
            A3FL(**fields)
    with pytest.raises(ValueError, match="adversary's data"):
        ATTACK(situation())
    with pytest.raises(ValueError, match="adversary's data"):
        CriticalLayers(ATTACK)(situation())
    with pytest.raises(ValueError, match="do not lie"):
        replace(ATTACK, row=6).learn(situation())


@pytest.mark.trains
def test_nothing_given_is_changed_and_learning_repeats() -> None:
    known = situation()
    start, weights, x = known.start.copy(), [p.detach().clone() for p in known.module.parameters()], known.examples.x.clone()
    before = torch.get_rng_state()
    first, second = (ATTACK.learn(known)[PIXELS] for _ in range(2))
    assert np.array_equal(first, second)
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(known.start, start)
    assert torch.equal(known.examples.x, x)
    assert all(torch.equal(a, b) for a, b in zip(weights, known.module.parameters(), strict=True))
    assert all(p.requires_grad for p in known.module.parameters())


@pytest.mark.trains
def test_the_backdoor_enters_the_model_of_loyal_clients() -> None:
    scenario = replace(SMALL, model=Mlp(hidden=(24,)), training=Training(epochs=2, batch=10, lr=0.1), rounds=8, evaluate_every=8)
    attack = A3FL(0, 0, 3, 3, target=7, share=0.5, epochs=6, alpha=0.06, lambda0=0.1, adversarial_epochs=1, every=3)
    trial = played(
        replace(scenario, adversary=Adversary(members=Fixed((0, 1)), data=attack, knows=Level.COLLUDING)), attack, None
    )
    clean = played(scenario, None, None)
    learned = success_of(trial, attack, clean.clean())
    plain = success_of(clean, Backdoor(Patch(0, 0, 3, 3), target=7), None)
    assert learned.clean_mean is not None
    assert learned.mean > plain.mean + 0.4
    assert learned.mean > learned.clean_mean + 0.2  # more than a patch on a clean model
