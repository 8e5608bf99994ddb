"""What is misspelt on a command line is named with what was perhaps meant."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cloister
from cloister.comparing.workers import Origin
from cloister.fl.functions import Unfit
from cloister.fl.near_names import in_short
from cloister.fl.runs.lost_round import NothingLearned
from cloister.scenario_file import load, load_comparison, load_evaluation, with_settings
from cloister.threat_models.knowledge import Colluding
from cloister.threat_models.privacy.faults import FAULTS
from cloister.threat_models.privacy.self_test import named

TESTS = Path(__file__).parent


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("roundns=3", r"no field 'roundns' in Scenario; did you mean rounds; it has: name, "),
        ("training.eposhs=3", r"no field 'eposhs' in Training; did you mean epochs; it has: "),
        ("training.learning_rate=0.1", r"no field 'learning_rate' in Training; did you mean lr; it has: "),
        ("lr=0.1", r"no field 'lr' in Scenario; did you mean training\.lr; it has: "),
        ("protection=Maksed()", r"did you mean 'Masked'"),
        ("data=MNIST()", r"data: there is no 'MNIST'; did you mean 'Mnist'"),
        ("zebra=1", r"no field 'zebra' in Scenario; it has: "),
    ],
)
def test_a_field_of_a_setting(setting: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        with_settings(load("cloister:quickstart"), [setting])


class Mine(Exception):
    """Of a user's own code."""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Unfit("it returned\n3"), "it returned 3"),
        (NothingLearned("no sum"), "no sum"),
        (Unfit(), "Unfit"),
        (Mine("no sum"), "Mine: no sum"),
        (RuntimeError("no sum"), "RuntimeError: no sum"),
    ],
)
def test_an_error_of_ours_is_its_words_and_another_begins_with_its_kind(error: Exception, words: str) -> None:
    assert in_short(error) == words


def test_a_mechanism() -> None:
    with pytest.raises(ValueError, match=r"there is no mechanism 'gauss'; did you mean '.*[Gg]auss.*'; there are "):
        named(["gauss"], FAULTS)
    with pytest.raises(ValueError, match=r"there is no mechanism 'zebra'; there are "):
        named(["zebra"], FAULTS)
    with pytest.raises(ValueError, match=r"did you mean 'distributed discrete Gaussian, two sums' or 'noise of a trusted server"):
        named(["noisy sums"], FAULTS)


def test_a_misspelt_mechanism_is_refused_before_anything_that_computes_is_imported() -> None:
    """The names are written down for it; that they are those of the mechanisms is tested where these are built."""
    asked = "import sys; from cloister.cli import main; sys.argv = ['cloister', 'audit', '--self-test', '--mechanism', 'cloud']"
    code = f"{asked}\ntry:\n    main()\nexcept SystemExit as end:\n    print(end.code, 'torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "there is no mechanism 'cloud'; did you mean 'clouds of four clients'; there are " in found.stderr
    assert found.stdout == "1 False\n"


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


@pytest.mark.parametrize(
    ("where", "elsewhere", "here"),
    [
        ("rules", "TrMean", "TrimmedMean"),
        ("rules", "CoordinateWiseMedian", "Median"),
        ("attacks", "ALittleIsEnough", "ALIE"),
        ("attacks", "BadNets", "Backdoor"),
        ("protections", "SecAggPlus", "Masked"),
        ("protections", "DifferentialPrivacy", "RecordPrivacy"),
    ],
)
def test_what_is_called_otherwise_elsewhere_is_known_by_that_name(where: str, elsewhere: str, here: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(getattr(cloister, where), elsewhere)
    assert str(raised.value).endswith(f"; did you mean {here!r}")


@pytest.mark.parametrize("read", [load_evaluation, load_comparison])
def test_a_name_that_a_file_has_not_is_said_whatever_is_to_be_played(read: Callable[[str], object]) -> None:
    with pytest.raises(
        ValueError, match=r"^cloister:quickstart holds nothing named scenaro; did you mean 'scenario'; there are: sc"
    ):
        read("cloister:quickstart:scenaro")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("FedOpt", ": the server steps by the mean alone, as algorithms.FedAvg()"),
        ("FedAvgM", ": the server steps by the mean alone, as algorithms.FedAvg()"),
        ("FedAdam", ": the server steps by the mean alone, as algorithms.FedAvg()"),
        ("SCAFFOLD", ": of what counters clients' drift there is algorithms.FedProx"),
        ("Ditto", ": of personal models there are algorithms.PerFedAvg"),
        ("Krum", ": give it in algorithms.RobustFedAvg(rule=...)"),
        ("fedavg", "; did you mean 'FedAvg'"),
    ],
)
def test_of_an_algorithm_that_is_not_here_is_said_what_takes_its_place(name: str, words: str) -> None:
    with pytest.raises(AttributeError) as raised:
        getattr(cloister.algorithms, name)
    assert words in str(raised.value)
