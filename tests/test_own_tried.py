"""Attacks and defences of one's own that fail are said before a grid is played; those that work, and ours, are not."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from cloister import algorithms, attacks, rules
from cloister.evaluating.play import opened
from cloister.evaluating.tried import failures, has_own
from cloister.fl.runs.feasibility import Doubt

from . import evaluation_sample as sample


@dataclass(frozen=True)
class Typo:
    needs: ClassVar = attacks.Level.OWN

    def __call__(self, own: attacks.Own, /) -> Any:
        return -own.updates  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Fine:
    needs: ClassVar = attacks.Level.OWN

    def __call__(self, own: attacks.Own, /) -> Any:
        return -own.update


def misspelt(updates: Any) -> Any:
    return upates.mean(axis=0)  # type: ignore[name-defined]  # noqa: F821


def mean(updates: Any) -> Any:
    return updates.mean(axis=0)


def ruled(rule: Any) -> Any:
    return algorithms.RobustFedAvg(rule=rule)


def said(**changed: Any) -> list[str]:
    made = replace(sample.evaluation, **changed)
    return [*failures(made, made.scenario.data(None))]


@pytest.mark.trains
def test_what_fails_is_said_with_its_name_and_line() -> None:
    attacked = said(attacks={"minus": sample.minus, "fine": Fine(), "typo": Typo(), "broken": sample.broken})
    assert len(attacked) == 2
    assert attacked[0].startswith("attack 'typo' fails, as one round with few records showed: AttributeError: 'Own' object")
    assert "did you mean 'update' (test_own_tried.py, line " in attacked[0]
    assert attacked[1].startswith("attack 'broken' fails, as one round with few records showed: RuntimeError: no such adversary")
    (defended,) = said(defences={"misspelt": ruled(misspelt), "mean": ruled(mean), "ours": algorithms.FedAvg()})
    assert defended.startswith("defence 'misspelt' fails")
    assert "did you mean 'updates' (test_own_tried.py, line " in defended
    assert defended.partition(" (test_own")[2].partition(";")[0].endswith(", in misspelt)")
    assert ", in Typo.__call__)" in attacked[0]


@pytest.mark.trains
def test_what_works_is_not_said() -> None:
    fine = {
        "minus": sample.minus,
        "fine": Fine(),
        "made": lambda k: attacks.Adversary(members=attacks.Pool(int(k)), upload=Fine()),
    }
    assert said(attacks=fine, defences={"mean": ruled(mean), "changed": lambda of: replace(of, algorithm=ruled(mean))}) == []


@pytest.mark.trains
def test_the_folder_is_opened_all_the_same_and_data_that_are_not_read_are_said(tmp_path: Path) -> None:
    made = replace(sample.evaluation, attacks={"typo": Typo()})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", Doubt)
        folder, ledger = opened(made, tmp_path, tmp_path / "out", False, {})
    words = [str(one.message) for one in seen if one.category is Doubt]
    assert words[0] == f"the folder of data sets {tmp_path} is not read: the digits come with scikit-learn"
    assert words[1].startswith("attack 'typo' fails")
    assert len(words) == 2
    assert {one.filename for one in seen if one.category is Doubt} == {__file__}  # and not a line of ours
    assert (folder / "evaluation.json").is_file()
    assert not ledger.rows


def test_what_is_of_ones_own() -> None:
    pool = attacks.Pool(2)
    assert not has_own(attacks.Adversary(members=pool, upload=attacks.MinusGradient()))
    assert has_own(attacks.Adversary(members=pool, upload=Fine()))
    assert not has_own(ruled(rules.Median()))
    assert has_own(ruled(mean))


def heavy(gram: Any) -> Any:
    return [5.0] * len(gram)


def backwards(gram: Any) -> Any:
    return [-1 / len(gram)] * len(gram)


def even(gram: Any) -> Any:
    return [1 / len(gram)] * len(gram)


@pytest.mark.trains
def test_weights_that_sum_to_what_no_mean_has_are_said_and_not_refused() -> None:
    """Before: taken without a word, and models blew up or went backwards."""
    rules_of = {f.__name__: ruled(rules.OfGram(f)) for f in (heavy, backwards, even)}
    first, second = said(defences=rules_of)
    assert first.startswith("defence 'heavy': weights of heavy (test_own_tried.py, line ")
    assert "sum to 40, as one round" in first
    assert "sum to -1, as one round" in second
    assert "away from them" in second


@dataclass(frozen=True)
class Weighing:
    """A rule by a class, whose weights sum to what it is made with."""

    total: float
    shift_invariant: bool
    sees: ClassVar = rules.Sight.GRAM

    def weights(self, gram: Any, rng: Any, /) -> Any:
        return np.full(len(gram), self.total / len(gram))


@pytest.mark.trains
def test_weights_of_a_class_are_summed_as_those_of_a_function_are() -> None:
    """Before: six times the mean, or its opposite, was played without a word, though the rule says that its weights sum to 1."""
    made = {"six": (6.0, True), "neg": (-6.0, True), "half": (0.5, True), "mean": (1.0, True), "step": (0.5, False)}
    six, neg, half = said(defences={name: ruled(Weighing(*of)) for name, of in made.items()})
    assert six.startswith("defence 'six': weights of Weighing (test_own_tried.py, line ")
    assert "sum to 6, as one round with few records showed, so that models go 6 times as far as their mean" in six
    assert six.endswith("of a mean they sum to 1, as shift_invariant=True says that they do")
    assert "sum to -6" in neg
    assert "go 0.5 times as far as their mean" in half
    (far,) = said(defences={"far": ruled(Weighing(6.0, False))})
    assert far.endswith("of a mean they sum to 1")


@pytest.mark.trains
def test_what_is_not_played_is_not_tried() -> None:
    """Before: a search of one attack printed notes of all."""
    made = replace(sample.evaluation, attacks={"fine": Fine(), "typo": Typo()})
    assert [*failures(made, made.scenario.data(None), (["fine"], ["fedavg"]))] == []
    assert len([*failures(made, made.scenario.data(None), (["typo"], ["fedavg"]))]) == 1
