"""What is misspelt on a command line is named with what was perhaps meant."""

from pathlib import Path

import pytest

from cloister.comparing.workers import Origin
from cloister.fl.near_names import in_short
from cloister.scenario_file import load, with_settings
from cloister.threat_models.knowledge import Colluding
from cloister.threat_models.privacy.faults import FAULTS
from cloister.threat_models.privacy.self_test import named

TESTS = Path(__file__).parent


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("roundns=3", r"no field 'roundns' in Scenario; did you mean rounds; it has: name, "),
        ("training.eposhs=3", r"no field 'eposhs' in Training; did you mean epochs; it has: "),
        ("lr=0.1", r"no field 'lr' in Scenario; did you mean training\.lr; it has: "),
        ("protection=Maksed()", r"did you mean 'Masked'"),
        ("data=MNIST()", r"data: there is no 'MNIST'; did you mean 'Mnist'"),
        ("zebra=1", r"no field 'zebra' in Scenario; it has: "),
    ],
)
def test_a_field_of_a_setting(setting: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        with_settings(load("cloister:quickstart"), [setting])


def test_a_mechanism() -> None:
    with pytest.raises(ValueError, match=r"there is no mechanism 'gauss'; did you mean '.*[Gg]auss.*'; there are "):
        named(["gauss"], FAULTS)
    with pytest.raises(ValueError, match=r"there is no mechanism 'zebra'; there are "):
        named(["zebra"], FAULTS)


def test_data_of_a_comparison() -> None:
    file = f"{TESTS / 'comparison_sample.py'}:tiny"
    with pytest.raises(
        ValueError, match=r"^--set data\.idd\.rounds=2: no data are named 'idd'; did you mean 'iid'; there are: iid;"
    ):
        Origin(file, ("data.idd.rounds=2",)).load()
    with pytest.raises(ValueError, match=r"no data are named 'moon'; there are: iid; else no field 'moon' in Digits"):
        Origin(file, ("data.moon.rounds=2",)).load()
    with pytest.raises(ValueError, match=r"^no field 'roundns' in Scenario; did you mean rounds"):
        Origin(file, ("data.iid.roundns=2",)).load()


@pytest.mark.parametrize(
    ("name", "words"), [("updates", "it has faulty, memory, own, roster, round, seen"), ("rosters", "did you mean 'roster'")]
)
def test_an_attribute_of_what_an_attack_is_told(name: str, words: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(Colluding(round=0, roster=(1,), own={}, memory={}), name)
    assert in_short(caught.value).endswith(f"; {words}")
