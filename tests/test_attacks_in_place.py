"""Attacks and aggregators of other libraries, and attacks in another field than theirs: what is said where they are given."""

from dataclasses import replace

import numpy as np
import pytest

from cloister import attacks, data
from cloister.fl.functions import Unfit
from cloister.protocol import Plain

from . import evaluation_sample as sample


class SignFlip:
    """As ByzFL's attacks are."""

    def __call__(self, honest_vectors):
        return -np.mean(honest_vectors, axis=0)


def flip(honest_vectors):
    return -np.mean(honest_vectors, axis=0)


class Median:
    """As ByzFL's aggregators are."""

    def __call__(self, vectors):
        return np.median(vectors, axis=0)


@pytest.mark.parametrize(("attack", "made"), [(SignFlip(), r"SignFlip\(\.\.\.\)"), (flip, "flip")])
def test_an_attack_of_the_honest_updates_is_told_of_its_adapter(attack, made):
    words = rf"\(test_attacks_in_place.py, line \d+\).*takes honest_vectors, as attacks of ByzFL do.*attacks\.OfHonest\({made}\)"
    with pytest.raises(ValueError, match=f"attack 'mine': .*{words}"):
        replace(sample.evaluation, attacks={"mine": attack}, targets={})
    with pytest.raises(Unfit, match=words):
        attacks.Adversary(members=attacks.Pool(1), upload=attack)
    adapted = attacks.OfHonest(attack)
    assert replace(sample.evaluation, attacks={"mine": adapted}, targets={}).attacks == {"mine": adapted}


def test_an_aggregator_is_told_where_it_stands():
    with pytest.raises(ValueError, match=r"algorithm=algorithms\.RobustFedAvg\(rule=Median\(\.\.\.\)\) of an aggregator"):
        replace(sample.scenario, algorithm=Median(), protection=Plain())
    with pytest.raises(ValueError, match=r"'m': .*RobustFedAvg\(rule=Median\(\.\.\.\)\), and so does an aggregator of ByzFL"):
        replace(sample.evaluation, defences={"m": Median()}, limits={})


def typed(own: attacks.Own):
    return own.update


@pytest.mark.parametrize(
    ("field", "attack", "place"),
    [
        ("data", attacks.MinusGradient(), "uploads: give it as upload"),
        ("local", attacks.LabelFlip(), "data: give it as data"),
        ("upload", attacks.LabelFlip(), "data: give it as data"),
        ("choice", attacks.LabelFlip(), "data: give it as data"),
        ("data", typed, "uploads: give it as upload"),
    ],
)
def test_an_attack_in_another_field_is_told_of_its_own(field, attack, place):
    with pytest.raises(ValueError, match=f"{field} is .*, an attack on {place}=..."):
        attacks.Adversary(members=attacks.Pool(1), **{field: attack})


def test_a_function_of_a_situation_may_be_of_data_or_of_training():
    def of(situation: attacks.Situation):
        return situation.examples

    def says(situation: attacks.Situation) -> data.Examples:
        return situation.examples

    for one in (of, says):
        assert attacks.Adversary(members=attacks.Pool(1), data=one).data is not None
        assert attacks.Adversary(members=attacks.Pool(1), local=one).local is not None
