"""What stands in a scenario where another kind of part is to be is refused when it is built, in one line with what to write."""

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
    ],
)
def test_a_part_of_another_kind_is_refused_with_what_to_write(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        scenario(**parts)


def test_parts_of_the_right_kind_are_taken() -> None:
    adversary = attacks.Adversary(members=attacks.Pool(2), upload=attacks.MinusGradient())
    assert scenario(adversary=adversary, faults=None, arrivals={}).adversary is adversary
