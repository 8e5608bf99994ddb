"""What stands in a scenario where another kind of part is to be is refused when it is built, in one line with what to write."""

from collections.abc import Callable
from typing import Any

import pytest

import cloister
from cloister import algorithms, attacks, data, models, partitions, protections, rules


def scenario(**parts: Any) -> cloister.Scenario:
    return cloister.Scenario(
        **{
            "name": "mine",
            "data": data.Digits(),
            "partition": partitions.Iid(clients=6),
            "model": models.Mlp(hidden=(8,)),
            "training": cloister.Training(epochs=1, batch=10, lr=0.1),
            "algorithm": algorithms.FedAvg(),
            "protection": protections.Plain(),
            "rounds": 1,
        }
        | parts
    )


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            {"adversary": attacks.MinusGradient()},
            r"adversary is MinusGradient\(.*\), .*none; .*adversary=attacks.Adversary\(",
        ),
        ({"adversary": {"members": 2}}, "adversary is .*, which is none"),
        ({"adversary": attacks.Adversary}, "adversary is the class Adversary itself; make one of it: Adversary"),
        ({"faults": 0.1}, "faults is 0.1, which is none"),
        ({"execution": "parallel"}, "execution is the text 'parallel'; give an object"),
        ({"arrivals": 3}, "arrivals is 3, which is none; .*client 3 from round 10"),
        ({"algorithm": rules.Krum(f=2)}, r"algorithm is Krum\(f=2\), .*RobustFedAvg\(rule=Krum\(f=2\)\): a robust rule stands"),
        (
            {"algorithm": algorithms.CFL(thresholds=(0.4, 0.7))},
            r"thresholds is \(0.4, 0.7\); give algorithms.ScaleFree\(eps1=0.4",
        ),
        (
            {"algorithm": algorithms.CFL(thresholds=algorithms.ScaleFree)},
            r"algorithm.thresholds is the class ScaleFree itself; make one of it: ScaleFree\(eps1=..., eps2=...\)",
        ),
        ({"protection": protections.Masked(noise=1.0)}, r"protection.noise is 1.0; give Noise\(epsilon=..., delta=..., rounds="),
        ({"partition": partitions.Iid(clients=6, sizes=[1, 2])}, r"partition.sizes is \[1, 2\]; give Equal\(\)"),
    ],
)
def test_a_part_of_another_kind_is_refused_with_what_to_write(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        scenario(**parts)


def test_parts_of_the_right_kind_are_taken() -> None:
    adversary = attacks.Adversary(members=attacks.Pool(2), upload=attacks.MinusGradient())
    assert scenario(adversary=adversary, faults=None, arrivals={}).adversary is adversary


@pytest.mark.parametrize(
    ("built", "words"),
    [
        (lambda: training(privacy=protections.RecordPrivacy), r"privacy is the class RecordPrivacy itself; make one of it: Rec"),
        (lambda: training(privacy=protections.Noise), r"privacy is the class Noise itself; give RecordPrivacy\(clip=..., mul"),
        (lambda: training(privacy=1.0), r"privacy is 1.0; give RecordPrivacy\(clip="),
        (lambda: training(metrics="f1"), r"metrics is 'f1'; give one or several, in brackets: \('f1',\)"),
        (lambda: training(metrics=of_all), r"metrics is of_all; give one or several, in brackets: \(of_all,\)"),
        (lambda: training(metrics=3), "metrics is 3; give a tuple, each a text or a function"),
        (lambda: training(metrics=("AUC", 3)), r"metrics\[1\] is 3; give a text or a function"),
        (lambda: training(metrics=("f1",)), "no metric 'f1'; did you mean 'macro F1'"),
        (lambda: training(metrics=("acc",)), "no metric 'acc'; accuracy is always measured, leave it out"),
        (lambda: training(metrics=("roc_auc",)), "no metric 'roc_auc'; did you mean 'AUC'"),
        (lambda: rules.Mixed((rules.NNM,), rules.Krum(1)), r"Mixed.steps\[0\] is the class NNM itself; make one of it: NNM\(f="),
        (lambda: rules.Mixed(rules.NNM, rules.Krum), r"rule is the class Krum itself; make one of it: Krum\(f=...\)"),
        (lambda: rules.Mixed(rules.NNM(1), rules.Krum(1)), r"steps is NNM\(f=1\); give one or several, in brackets: \(NNM\(f=1"),
        (lambda: rules.Mixed((rules.Krum(1),), rules.Krum(1)), r"steps\[0\] is Krum\(f=1\); give NNM\(f=...\) or Bucketing\(s="),
        (lambda: algorithms.RobustFedAvg(rule=rules.NNM), r"rule is the class NNM itself; make one of it: NNM\(f=...\)"),
        (lambda: algorithms.RobustFedAvg(rule=rules.NNM(1)), r"a step before a rule: write rules.Mixed\(\(NNM\(f=1\),\), "),
        (lambda: attacked(knows="omniscient"), "knows is 'omniscient'; give Level.OWN or Level.COLLUDING or Level.OMNISCIENT"),
        (lambda: attacked(when=5), r"adversary.when is 5; give Schedule\(\)"),
    ],
)
def test_what_stands_in_a_part_is_looked_at_as_well(built: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        built()


def of_all(outputs: Any, targets: Any) -> float:
    return 1.0


def training(**more: Any) -> cloister.Training:
    return cloister.Training(epochs=1, batch=10, lr=0.1, **more)


def attacked(**more: Any) -> attacks.Adversary:
    return attacks.Adversary(members=attacks.Pool(2), upload=attacks.MinusGradient(), **more)
