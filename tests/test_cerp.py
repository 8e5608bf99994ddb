"""CerP: each of its parts does what the paper says of it, and together they put a backdoor into a mean."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.robust.krum import MultiKrum
from cloister.threat_models.a3fl import A3FL, PIXELS, fixed
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.backdoors import Backdoor
from cloister.threat_models.cerp import CerP, TunedTrigger, damped_cosine
from cloister.threat_models.knowledge import Level
from cloister.threat_models.membership import Fixed
from cloister.threat_models.training_attacks import nothing, trained
from cloister.threat_models.trial import played, success_of
from cloister.threat_models.triggers import Patch

from .coalition_sample import SMALL, coalition, situation

PATCH = Backdoor(Patch(0, 0, 3, 3), 0, 0.5)
QUICK = A3FL(0, 0, 3, 3, share=0.5, epochs=3, alpha=0.1, lambda0=0, initial=1.0)


def together(attack: CerP) -> dict[int, Any]:
    honest = trained(situation(), lambda loss, moved: loss, nothing)
    known = coalition([honest + np.float32(0.001 * k) for k in range(6)], 3, Level.COLLUDING)
    return dict(attack(known)) | {-1: known.own[0].update}


def cosines(sent: dict[int, Any]) -> float:
    """The mean over pairs of members."""
    units = [sent[i] / np.linalg.norm(sent[i]) for i in range(3)]
    return float(np.mean([units[a] @ units[b] for a, b in ((0, 1), (0, 2), (1, 2))]))


@pytest.mark.trains
def test_closeness_draws_poisoned_training_to_clean_work_and_diversity_members_apart() -> None:
    plain, close, apart = (together(CerP(PATCH, c, d)) for c, d in ((0, 0), (1, 0), (0, 3)))
    assert sorted(plain) == [-1, 0, 1, 2]
    far = [float(np.mean([np.linalg.norm(sent[i] - sent[-1]) for i in range(3)])) for sent in (plain, close)]
    assert far[1] < 0.7 * far[0]
    assert cosines(apart) < cosines(plain) - 0.1
    np.testing.assert_array_equal(apart[0], plain[0])  # the first has nobody to be unlike


@pytest.mark.trains
def test_without_penalties_it_is_training_on_poisoned_data() -> None:
    own = situation(place=0)
    by_hand = trained(replace(own, examples=PATCH(own)), lambda loss, moved: loss, nothing)
    np.testing.assert_array_equal(together(CerP(PATCH, 0, 0))[0], by_hand)


def test_a_cosine_with_nothing_has_a_slope_that_is_not_huge() -> None:
    moved = torch.zeros(4, requires_grad=True)
    other = torch.tensor([3.0, 0, 0, 4])
    value = damped_cosine(moved, other)
    (slope,) = torch.autograd.grad(value, moved)
    assert value.item() == 0
    assert slope.norm() == pytest.approx(2.0)  # 1 over a tenth of 5
    assert float(damped_cosine(torch.tensor([6.0, 0, 0, 8]), other)) == pytest.approx(1)


@pytest.mark.trains
def test_a_trigger_is_tuned_against_the_opened_model_within_its_ball() -> None:
    own = situation()
    opened = fixed(own.module, own.start)
    free, held = (TunedTrigger(QUICK, radius).learn(own)[PIXELS] for radius in (100, 0.3))
    assert float(np.linalg.norm(held - 1)) == pytest.approx(0.3, rel=1e-5)
    assert float(np.linalg.norm(free - 1)) > 0.3
    losses = []
    for pixels in (np.ones(9, np.float32), held, free):
        stamped = torch.from_numpy(pixels.reshape(1, 3, 3))
        losses.append(float(QUICK.objective([(1.0, opened)], own.examples.x, stamped)))
    assert losses[0] > losses[1] > losses[2]
    again = TunedTrigger(QUICK, 0.3).learn(replace(own, learned={PIXELS: held}))[PIXELS]
    assert float(np.linalg.norm(again - 1)) <= 0.3 + 1e-5  # of where it began, not of the round before
    assert TunedTrigger(QUICK)(own) is own.examples


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TunedTrigger(A3FL(lambda0=0.1)), "lambda0 is 0"),
        (lambda: TunedTrigger(radius=0), "radius is above 0"),
        (lambda: CerP(PATCH, -1), "not negative"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.trains
@pytest.mark.long
def test_it_puts_a_backdoor_into_a_mean_and_fails_where_few_are_taken() -> None:
    trigger = TunedTrigger(replace(QUICK, epochs=2))
    attack = Adversary(members=Fixed((0, 1, 2)), data=trigger, upload=CerP(trigger, 0.01, 0.01), knows=Level.COLLUDING)
    base = replace(SMALL, partition=Iid(clients=10, samples=100), training=Training(epochs=2, batch=10, lr=0.2), rounds=5)
    found, clean = [], []
    for scenario in (base, replace(base, algorithm=RobustFedAvg(rule=MultiKrum(3, 1)))):
        clean.append(played(scenario, None, None).clean())
        found.append(success_of(played(replace(scenario, adversary=attack), trigger, None), trigger, clean[-1]))
    assert min(float(of.accuracy[-1].mean()) for of in clean) > 0.5
    assert found[0].mean > found[0].clean_mean + 0.3
    assert found[1].mean < found[1].clean_mean + 0.2
