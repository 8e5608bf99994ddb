"""Triggers, targets and attacks of a user's own that do not fit are refused by their names, in the user's words and lines."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from cloister import attacks
from cloister.fl.data.population import Examples
from cloister.fl.field_types import wrong_types
from cloister.fl.fields_at_fault import field_of
from cloister.fl.functions import Unfit
from cloister.fl.runs.simulation import Simulation
from cloister.threat_models.attack_metrics import attack_success
from cloister.threat_models.backdoors import check_target
from cloister.threat_models.functions import DataFunction, UploadFunction
from cloister.threat_models.handing import handed

from . import coalition_sample as known
from . import evaluation_sample as sample

IMAGES = Examples(torch.rand(6, 1, 4, 4), torch.tensor([1, 2, 3, 1, 2, 3]))
HERE = r"\(test_own_triggers\.py, line \d+\)"


@dataclass(frozen=True)
class Mine:
    gives: Any

    def stamp(self, x: Any, /) -> Any:
        return self.gives(x)


def test_a_function_of_images_is_a_trigger_wherever_one_may_stand() -> None:
    """Before: every cell of an evaluation with one failed, "give Patch() or Pixels(...)"."""
    adversary = attacks.Adversary(members=attacks.Pool(1), data=attacks.Backdoor(lambda x: x.clone().fill_(1), 0))
    assert not [*wrong_types(adversary, "adversary")]


@pytest.mark.parametrize(
    ("gives", "words"),
    [
        (lambda x: None, "returned None"),
        (lambda x: x.numpy(), "returned an? ndarray"),
        (lambda x: x[:, :, 1:], r"returned images of shape \(6, 1, 3, 4\)"),
        (lambda x: x.double(), "returned images of torch.float64"),
        (lambda x: x / 0, "returned numbers that are not finite: 96 of 96"),
    ],
    ids=["nothing", "numpy", "shape", "type", "infinite"],
)
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "a part"])
def test_a_trigger_that_returns_something_else(gives: Any, words: str, inside: bool) -> None:
    trigger: Any = attacks.Parts((Mine(gives),)) if inside else Mine(gives)
    with pytest.raises(Unfit, match=rf"trigger Mine {HERE} {words}"):
        attacks.Backdoor(trigger, target=0).test(IMAGES, 4)


def test_a_function_is_a_trigger_and_what_is_none_is_refused_when_the_backdoor_is_built() -> None:
    def white(x: Any) -> Any:
        return torch.ones_like(x)

    assert attacks.Backdoor(white, target=0).test(IMAGES, 4).x.min() == 1  # type: ignore[arg-type]
    for trigger, words in (
        (Mine, rf"trigger is the class Mine {HERE} itself"),
        (3, r"trigger .*3, has no stamp.*a Patch"),
        (lambda: None, rf"trigger <lambda> {HERE} does not fit: it takes nothing"),
    ):
        with pytest.raises(Unfit, match=words):
            attacks.Backdoor(trigger)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["dog", -1, 1.5, True])
def test_a_target_is_the_number_of_a_class(target: Any) -> None:
    patch = attacks.Patch()
    for make in (
        lambda: attacks.Backdoor(patch, target=target),
        lambda: attacks.Backdoor(patch, source=target),
        lambda: attacks.EdgeCase(target=target),
        lambda: attacks.LabelFlip(source=1, target=target),
        lambda: attacks.DistributedBackdoor(attacks.Parts((patch,)), target=target),
        lambda: attacks.A3FL(target=target),
        lambda: attacks.Chameleon(target=target),
    ):
        with pytest.raises(ValueError, match=r"(target|source) is the number of a class, from 0, not "):
            make()


@pytest.mark.parametrize(
    "part",
    [
        {"data": attacks.Backdoor(attacks.Patch(), target=10)},
        {"data": attacks.LabelFlip(source=1, target=10)},
        {"upload": attacks.CerP(attacks.Backdoor(attacks.Patch(), target=10)), "knows": attacks.Level.COLLUDING},
    ],
    ids=["backdoor", "flip", "inside"],
)
def test_a_target_that_is_no_class_of_the_data_is_refused_before_the_first_round(part: Any) -> None:
    adversary = attacks.Adversary(members=attacks.Pool(2), **part)
    with pytest.raises(ValueError, match=r"target=10\): the data have 10 classes, 0 to 9") as caught:
        Simulation(replace(sample.scenario, adversary=adversary), None)
    assert field_of(caught.value) == "adversary"
    with pytest.raises(ValueError, match=r"Backdoor\(target=4\): the data have 4 classes"):
        attacks.Backdoor(attacks.Patch(), target=4).test(IMAGES, 4)


@dataclass(frozen=True)
class Measured:
    gives: Any

    def test(self, examples: Examples, classes: int, /) -> Any:
        return self.gives(examples)


def test_a_target_of_ones_own_is_looked_at_before_models_are_tested_with_what_it_gives() -> None:
    for gives, words in (
        (lambda e: None, "returned None, where Examples"),
        (lambda e: replace(e, x=e.x.double()), "returned inputs of torch.float64"),
        (lambda e: replace(e, y=e.y + 9), "returned labels from 10 to 12; there are 4, from 0"),
    ):
        with pytest.raises(Unfit, match=rf"Measured {HERE}(\.test)? {words}"):
            attack_success(torch.nn.Flatten(), {0: np.zeros(0)}, {0: IMAGES}, Measured(gives), 4)
    with pytest.raises(Unfit, match=r"a target is the class Measured"):
        check_target(Measured)
    with pytest.raises(Unfit, match=r"a target has test\(examples, classes\)"):
        check_target(attacks.Patch())


def test_a_poison_of_tokens_keeps_their_padding() -> None:
    tokens = Examples(torch.ones(2, 3, dtype=torch.int64), torch.tensor([[1, 2, -1], [0, 1, -1]]))
    situation = replace(known.own(np.zeros(3, np.float32)), examples=tokens, classes=3)
    found = DataFunction(lambda situation: situation.examples)(situation)
    assert torch.equal(found.x, tokens.x)
    assert torch.equal(found.y, tokens.y)


def test_a_poison_that_is_an_object_is_looked_at_as_a_function_is() -> None:
    class Poison:
        def __call__(self, situation: Any, /) -> Any:
            return None

    adversary = attacks.Adversary(members=attacks.Pool(8), data=Poison())
    simulation = Simulation(replace(sample.scenario, adversary=adversary), None)
    with pytest.raises(Unfit, match=rf"Poison {HERE} returned None; a poison returns Examples"):
        simulation.step()


VECTORS = [np.full(3, k, np.float32) for k in range(4)]
OMNISCIENT = known.coalition(VECTORS, 2, attacks.Level.OMNISCIENT)
ALONE = known.own(VECTORS[0])


def untyped(known):  # type: ignore[no-untyped-def]
    return -known.update


def looks_at_others(known):  # type: ignore[no-untyped-def]
    return -known.seen[0]


@dataclass(frozen=True)
class Sees:
    needs: ClassVar = attacks.Level.COLLUDING

    def __call__(self, known: Any, /) -> Any:
        return known.update


@dataclass(frozen=True)
class Lone:
    def __call__(self, mine: Any, /) -> Any:
        return mine.honest


@pytest.mark.parametrize(
    ("attack", "given", "words"),
    [
        (
            UploadFunction(untyped, attacks.Level.OMNISCIENT),
            OMNISCIENT,
            rf"untyped {HERE} asks for 'update' in test_own_triggers\.py, line \d+, and was given attacks\.Omniscient, which has "
            r"faulty, honest, memory, own, roster, round, seen; attacks\.Own has it: write `known: attacks\.Own`$",
        ),
        (
            UploadFunction(looks_at_others, attacks.Level.OWN),
            ALONE,
            r"was given attacks\.Own, .*; attacks\.Colluding has it: write `known: attacks\.Colluding`, and in an Adversary "
            r"knows=attacks\.Level\.COLLUDING$",
        ),
        (Sees(), OMNISCIENT, rf"Sees {HERE} asks for 'update' .*: give it needs = attacks\.Level\.OWN$"),
        (
            UploadFunction(Lone(), attacks.Level.OWN),
            ALONE,
            r"write `mine: attacks\.Omniscient`, and in an Adversary knows=attacks\.Level\.OMNISCIENT$",
        ),
        (lambda own: own.models, ALONE, r"attacks\.Offered has it: give the attack as Adversary\(choice=\.\.\.\)$"),
    ],
    ids=["function above", "function below", "class", "object", "choice"],
)
def test_an_attack_that_was_handed_other_knowledge_is_told_which_and_how_to_say_otherwise(
    attack: Any, given: Any, words: str
) -> None:
    with pytest.raises(Unfit, match=words):
        handed(attack, given)


def test_a_misspelt_name_of_what_an_attack_knows_stays_what_it_is() -> None:
    with pytest.raises(AttributeError, match="updat"):
        handed(lambda own: own.updat, ALONE)
    with pytest.raises(AttributeError, match="update"):
        handed(lambda own: own.rng.update, ALONE)  # of something else
