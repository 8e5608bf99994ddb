"""What a comparison is built of is refused by its field where it is of another kind, with what to give instead."""

from dataclasses import replace

import pytest

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.runs.comparison import Method, Search
from cloister.protocol import Masked

from .comparison_sample import comparison

METHOD = Method(algorithm=FedAvg())


@pytest.mark.parametrize(
    ("field", "given", "said"),
    [
        ("methods", {"A": FedAvg()}, r"methods\['A'\] is a Method, not a FedAvg: give Method\(algorithm=FedAvg\(...\)\)"),
        ("methods", {"A": FedAvg}, r"methods\['A'\] is a Method, .*: give Method\(algorithm=FedAvg\(\)\)"),
        ("methods", [METHOD], r'methods go by name, methods=\{"FedAvg": Method'),
        (
            "methods",
            {"A": Method(algorithm="FedAvg")},
            r"methods\['A'\].algorithm is an algorithm, for example FedAvg\(\), not 'FedAvg'",
        ),
        ("methods", {"A": replace(METHOD, fits="turned")}, r"methods\['A'\].fits are names of data, .*\('turned',\)"),
        (
            "methods",
            {"A": replace(METHOD, grid={"training.lr": 0.1})},
            r"the grid of A has values to try for training.lr: \(0.1,\)",
        ),
        ("data", {"d": 3}, r"data\['d'\] is a Scenario, not 3"),
        ("data", 3, r'data go by name, data=\{"digits": scenario\}, and not 3'),
        ("seeds", 3, r"seeds are whole numbers, .*\(3,\), not 3"),
        ("seeds", (0, "1"), r"seeds are whole numbers, and '1' is none"),
        ("protections", Masked(), r'protections go by name, protections=\{"Masked": Masked\(\)\}'),
        ("protections", {"M": "Masked"}, r"protections\['M'\] is the text 'Masked'; give an object, for example protection=prot"),
        ("protections", {"M": Masked}, r"protections\['M'\] is the class Masked itself; make one of it: Masked\(\)"),
        ("data", {"d": {"name": "x"}}, r"data\['d'\] is a Scenario, not \{'name': 'x'\}: it says which"),
        (
            "methods",
            {"a": FedAvg},
            r"methods\['a'\] is a Method, not the class FedAvg itself: give Method\(algorithm=FedAvg\(\)\)",
        ),
        ("methods", {"a": Method}, r"not the class Method itself: give Method\(algorithm=\.\.\.\)"),
        (
            "search",
            Search(seeds=(5,), configurations=1, protection=Masked),
            r"search.protection is the class Masked itself; make",
        ),
        (
            "yardstick",
            "LOCL",
            r"yardstick names a method that is not there: LOCL; did you mean 'LOCAL'; there are: LOCAL",
        ),
        ("yardstick", 3, "yardstick names a method that is not there: 3; there are"),
        ("attacked", ("Maskd",), r"attacked names protections that are not there: Maskd; did you mean 'Masked'; there"),
        ("attacked", "Plain", r"attacked are names of protections, with a comma even after one alone: \('Plain',\)"),
        ("attacks", {"a": 3}, r"attacks\['a'\] is an Adversary\(members=..., upload=...\), not 3"),
        ("attacks", 3, r"attacks go by name, attacks=\{"),
        ("measures", {"a": 3}, r"measures\['a'\] is a function of a simulation, not 3"),
        ("measures", 3, r"measures go by name, measures=\{"),
        ("margin", "x", "margin is a number between 0 and 1, not 'x'"),
        ("name", 3, 'name is a text, for example name="digits", not 3'),
        (
            "methods",
            {"A": replace(METHOD, fits=("turnd",))},
            "A fits data that are not there: turnd; did you mean 'turned'",
        ),
        ("search", 3, r"search is a Search\(.*\) or None, not 3"),
    ],
)
def test_a_part_of_another_kind_is_refused_by_its_field(field, given, said):
    with pytest.raises(ValueError, match=said):
        replace(comparison, **{field: given})


def test_a_comparison_without_the_usual_yardstick_has_none() -> None:
    assert replace(comparison, methods={"A": METHOD}).yardstick == "LOCAL"
