"""A misspelt name or field in a notebook is answered with what was perhaps meant."""

import inspect
import pickle
import re
import traceback
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cloister
from cloister import Training, algorithms, attacks, data, models, partitions, protections, rules
from cloister.fl.robust.aggregate import aggregate

from . import evaluation_sample

MODULES = [algorithms, attacks, data, models, partitions, protections, rules]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_module_names_what_is_like_what_it_has_not(module: Any) -> None:
    first = next(name for name in module.__all__ if len(name) > 4)
    with pytest.raises(AttributeError, match=f"has no attribute '{first}x'; did you mean '"):
        getattr(module, f"{first}x")
    with pytest.raises(AttributeError, match=f"'zzzzzz'; it has .*{first}"):
        _ = module.zzzzzz
    with pytest.raises(AttributeError, match=r"has no attribute .__wrapped__.$"):
        _ = module.__wrapped__
    assert all(hasattr(module, name) for name in module.__all__)


def test_the_hint_stands_alone() -> None:
    with pytest.raises(AttributeError) as found:
        _ = rules.TrMean
    said = "".join(traceback.format_exception(found.value))
    assert said.rstrip().endswith("module 'cloister.rules' has no attribute 'TrMean'; did you mean 'TrimmedMean'")


@pytest.mark.parametrize(
    ("make", "note"),
    [
        (lambda: Training(epochs=1, batch_size=10, lr=0.1), "did you mean 'batch'; Training takes epochs, batch, lr"),
        (lambda: rules.TrimmedMean(f=1), "did you mean 'b'; TrimmedMean takes b"),
        (lambda: rules.TrimmedMean(), "TrimmedMean takes b"),
        (lambda: rules.TrimmedMean(1, 2), "name what you give: TrimmedMean(b=...)"),
        (lambda: models.Mlp(hiden=(4,)), "did you mean 'hidden'"),
        (lambda: cloister.Scenario(lr=0.1), "it belongs to the training, Training(lr=...)"),
        (lambda: algorithms.CFL(eps1=0.4), "algorithms.ScaleFree(eps1=..."),
    ],
)
def test_a_part_says_which_fields_it_takes(make: Any, note: str) -> None:
    with pytest.raises(TypeError) as found:
        make()
    (said,) = found.value.__notes__
    assert note in said


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rules.Krum(f="1"), "Krum.f is '1'; give a whole number"),
        (lambda: rules.Krum(f=1.5), "Krum.f is 1.5; give a whole number"),
        (lambda: rules.MultiKrum(f=None), "MultiKrum.f is None; give a whole number"),
        (lambda: rules.MultiKrum(f=1, m="3"), "MultiKrum.m is '3'; give a whole number"),
        (lambda: rules.TrimmedMean(b="2"), "TrimmedMean.b is '2'; give a whole number"),
        (lambda: rules.Bucketing(s="2"), "Bucketing.s is '2'; give a whole number"),
        (lambda: rules.KrumOfShare(share="a"), "KrumOfShare.share is 'a'; give a number"),
        (lambda: replace(evaluation_sample.evaluation, strengths=(1, "2")), "strengths[1] is '2'; give a number"),
    ],
)
def test_a_number_of_another_type_is_refused_in_one_line_when_it_is_given(make: Any, words: str) -> None:
    """Before: "'<' not supported between instances of 'str' and 'int'", and half a client failed cell by cell."""
    with pytest.raises(ValueError, match=re.escape(words) + "$"):
        make()


def test_numpys_whole_numbers_are_whole() -> None:
    assert rules.Krum(f=np.int64(1)) == rules.Krum(f=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (rules.TrimmedMean(b=3), "needs at least 7 updates, got 6; lower b or wait for more clients"),
        (rules.Krum(f=2), "needs at least 7 updates, got 6; lower f or wait for more clients"),
        (rules.MultiKrum(f=1, m=7), "needs at least 7 updates, got 6; lower m or wait for more clients"),
        (rules.Bulyan(f=1), "needs at least 7 updates, got 6; lower f or wait for more clients"),
    ],
)
def test_a_rule_that_needs_more_updates_names_its_own_field(rule: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        aggregate(rule, np.ones((6, 3), np.float32), np.random.default_rng(0))


def test_who_makes_it_right_sees_no_difference() -> None:
    rule = rules.TrimmedMean(b=1)
    assert replace(rule, b=2) == rules.TrimmedMean(2)
    assert pickle.loads(pickle.dumps(rule)) == rule  # noqa: S301
    assert list(inspect.signature(rules.TrimmedMean).parameters) == ["b"]
    with pytest.raises(ValueError, match="b counts faulty updates") as found:
        rules.TrimmedMean(b=-1)
    assert not hasattr(found.value, "__notes__")


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        (rules, "CFL", r"module 'cloister\.rules' has no attribute 'CFL'; it is cloister\.algorithms\.CFL$"),
        (attacks, "FLIC", r"; it is cloister\.algorithms\.FLIC$"),
        (data, "Mlp", r"; it is cloister\.models\.Mlp$"),
    ],
)
def test_a_name_of_another_module_is_said_to_be_there(module: Any, name: str, words: str) -> None:
    """Before what is like it here: of `rules.CFL` CRFL was said to be meant."""
    with pytest.raises(AttributeError, match=words):
        getattr(module, name)


def test_a_value_of_another_kind_is_said_by_its_field_and_a_call_that_fails_before_it_has_any_is_not() -> None:
    with pytest.raises(TypeError) as found:
        algorithms.HardenedFLIC(rounds_before=1, every=1, share="a")  # type: ignore[arg-type]
    assert found.value.__notes__ == ["HardenedFLIC.share is 'a'; give a number"]
    with pytest.raises(TypeError, match="multiple values") as found:
        rules.Krum(1, f=1)  # type: ignore[misc]
    assert not hasattr(found.value, "__notes__")
