"""A protection from outside plays the project's algorithms, and the ideal functionality holds it to its word."""

from pathlib import Path

import numpy as np
import pytest

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.robust.weiszfeld import GeometricMedian
from cloister.protocol import messages
from cloister.protocol.core.errors import Refused
from cloister.protocol.view.protection import Protection, check_composition

from . import third_party
from .ideal_functionality import Case, Drive
from .third_party import EightBits

STAGES = (("Task",), ("Coarse",))


def eighth(rng: np.random.Generator) -> float:
    """A weight that is above 0."""
    return float(rng.integers(1, 9)) / 8


def test_it_is_short_inherits_nothing_and_no_file_of_ours_knows_of_it() -> None:
    text = Path(third_party.__file__).read_text(encoding="utf-8")
    assert text.count("\n") < 200
    own = [kind for kind in vars(third_party).values() if isinstance(kind, type) and kind.__module__ == third_party.__name__]
    assert all(kind.__bases__ == (object,) for kind in own)
    assert third_party.Coarse.kind not in messages.MESSAGES


def test_it_answers_what_plain_answers_whatever_is_lost() -> None:
    case = Case(EightBits(), STAGES, draw=eighth, length=24)
    Drive(case, (1, 3, 5, 7), seed=1).some_rounds(25)


def test_it_is_refused_what_it_does_not_give() -> None:
    protection: Protection = EightBits()
    check_composition("FedAvg", FedAvg().needs, protection, [])
    with pytest.raises(Refused, match="gram"):
        check_composition("a robust rule", RobustFedAvg(rule=GeometricMedian()).needs, protection, [])
