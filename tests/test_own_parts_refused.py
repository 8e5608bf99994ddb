"""Rules of one's own whose numbers are not finite, and attacks without a type, are refused by name, file and line."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from cloister import algorithms, attacks, rules
from cloister.fl.functions import Unfit
from cloister.fl.robust.aggregate import aggregate
from cloister.fl.robust.function import as_rule
from cloister.fl.runs.simulation import Simulation
from cloister.threat_models.search.space import Space

from . import evaluation_sample as sample

UPDATES = [np.full(6, k, dtype=np.float32) for k in range(1, 5)]


def nan_rule(updates: Any) -> Any:
    found = updates.mean(axis=0)
    found[0] = np.nan
    return found


@dataclass(frozen=True, slots=True)
class NanWeights:
    sees: ClassVar = rules.Sight.GRAM
    shift_invariant: ClassVar = False

    def weights(self, gram: Any, rng: Any, /) -> Any:
        return np.array([np.inf, *[0.25] * (len(gram) - 1)])


@dataclass(frozen=True, slots=True)
class NanCoordinates:
    sees: ClassVar = rules.Sight.COORDINATES

    def combine(self, block: Any, /) -> Any:
        return block.mean(axis=0) * np.float32(np.nan)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (nan_rule, r"nan_rule \(test_own_parts_refused\.py, line \d+\) returned numbers that are not finite: 1 of 6"),
        (NanWeights(), r"NanWeights \(test_own_parts_refused\.py, line \d+\) gave weights, numbers that are not finite: 1 of 4"),
        (rules.Mixed((rules.NNM(1),), NanWeights()), r"NanWeights \(test_own_parts_refused\.py, line \d+\) gave weights"),
        (NanCoordinates(), r"NanCoordinates \(test_own_parts_refused\.py, line \d+\) returned numbers that are not finite"),
    ],
    ids=["function", "weights", "weights after a step", "coordinates"],
)
def test_a_rule_whose_numbers_are_not_finite_is_refused_by_its_line(rule: Any, words: str) -> None:
    with pytest.raises(Unfit, match=words):
        aggregate(as_rule(rule), UPDATES, np.random.default_rng(0))


@pytest.mark.trains
@pytest.mark.parametrize("rule", [nan_rule, NanWeights()], ids=["function", "weights"])
def test_a_run_blames_the_rule_and_not_the_learning_rate(rule: Any) -> None:
    simulation = Simulation(replace(sample.scenario, algorithm=algorithms.RobustFedAvg(rule=rule)), None)
    with pytest.raises(Unfit, match="not finite"):
        simulation.step()


def no_type(known):  # type: ignore[no-untyped-def]
    return -known.update


def with_type(own: attacks.Own) -> Any:
    return -own.update


def test_an_attack_without_a_type_is_told_what_to_write() -> None:
    with pytest.raises(
        ValueError, match=r"no_type \(test_own_parts_refused\.py, line \d+\).*write `known: attacks\.Own`"
    ) as caught:
        Space(sample.scenario, only=("no_type",), own={"no_type": no_type})
    assert "AttributeError" not in str(caught.value)
    assert Space(sample.scenario, only=("with_type",), own={"with_type": with_type}).attacks == ["with_type"]


def test_a_function_of_a_strength_that_raises_says_its_own_error() -> None:
    def made(count: float) -> Any:
        raise KeyError("mine")

    with pytest.raises(ValueError, match="KeyError: 'mine'"):
        Space(sample.scenario, only=("made",), own={"made": made})


@dataclass(frozen=True, slots=True)
class OfNoLevel:
    needs: ClassVar = "own"

    def __call__(self, own: Any, /) -> Any:
        return own.update


@dataclass(frozen=True, slots=True)
class NoStamp:
    value: float = 1.0


def test_an_attack_that_needs_no_level_is_refused_by_name_before_anything_is_played() -> None:
    """Before: every cell failed, as "'>' not supported between instances of 'Level' and 'str'"."""
    words = r"OfNoLevel \(test_own_parts_refused\.py, line \d+\): it says that it needs 'own'; that is one of Level\.OWN, "
    with pytest.raises(ValueError, match=words):
        replace(sample.evaluation, attacks={"mine": OfNoLevel()})
    for field in ("upload", "choice"):
        with pytest.raises(Unfit, match=words):
            attacks.Adversary(members=attacks.Pool(1), **{field: OfNoLevel()})


def test_what_makes_no_backdoor_is_refused_by_its_field() -> None:
    trigger: Any
    wrong: Any
    label: Any = np.int64(1)
    for trigger in (NoStamp(), NoStamp):
        with pytest.raises(Unfit, match=r"NoStamp \(test_own_parts_refused\.py, line \d+\)"):
            attacks.Backdoor(trigger, target=1)
    for wrong in ("1", 1.0, True):
        with pytest.raises(ValueError, match=f"target is the number of a class, from 0, not {wrong!r}"):
            attacks.Backdoor(attacks.Patch(), target=wrong)
    with pytest.raises(ValueError, match="source is the number of a class"):
        attacks.Backdoor(attacks.Patch(), source=wrong)
    assert attacks.Backdoor(attacks.Patch(), target=label).target == 1


def test_a_target_by_which_nothing_is_measured_is_refused() -> None:
    target: Any
    for target, words in ((NoStamp(), r"has none"), (NoStamp, r"itself; make one of it: NoStamp\(")):
        with pytest.raises(Unfit, match=rf"NoStamp \(test_own_parts_refused\.py, line \d+\).* {words}"):
            replace(sample.evaluation, targets={"minus": target})
