"""What functions of Python's say where they are given something else, or by another name."""

from pathlib import Path

import pytest

import cloister
from cloister import Scenario, Training, algorithms, attacks, data, models, partitions, protections, rules
from cloister.scenario_file import load
from cloister.threat_models.privacy.self_test import named

PLAIN = Scenario(
    name="plain",
    data=data.Digits(),
    partition=partitions.Iid(clients=4),
    model=models.Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=10, lr=0.1),
    algorithm=algorithms.FedAvg(),
    protection=protections.Plain(),
    rounds=1,
)


@pytest.mark.parametrize(
    ("function", "given", "words"),
    [
        ("run", Path("x.py"), 'give "x.py:NAME" as text'),
        ("iterate", Path("x.py"), 'give "x.py:NAME" as text'),
        ("iterate", 3, "cloister.iterate takes a Scenario, or the name of a file, not 3: make one with Scenario"),
        ("evaluate", Path("x.py"), 'give "x.py:NAME" as text'),
        ("evaluate", PLAIN, "a Scenario is played by cloister.run"),
        ("breakdown", 3, "cloister.breakdown takes an Evaluation, or the name of a file, not 3: make one with Evaluation"),
        ("compare", PLAIN, "a Scenario is played by cloister.run"),
        ("audit", 3, "cloister.audit takes a Scenario, or the name of a file, not 3"),
        ("attack", 3, "cloister.attack takes a Scenario or an Evaluation, or the name of a file"),
    ],
)
def test_what_is_none_is_refused_with_what_to_give(function, given, words, tmp_path):
    with pytest.raises(TypeError) as refused:
        getattr(cloister, function)(given, tmp_path / "out")
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"cloister.{function} takes ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("function", "given", "words"),
    [
        ("attack", {"against": rules.Krum(1)}, r'against is Krum\(f=1\); give the name of .* against="Krum\(f=1\)"$'),
        (
            "attack",
            {"against": rules.Krum},
            "against is the class Krum itself; give the name of one of the evaluation's defences",
        ),
        ("attack", {"attackers": "3"}, "attackers is '3'; give a whole number or"),
        ("attack", {"attacks": attacks.IPM(0.5)}, r"attacks is IPM\(.*\); give a dict or a list$"),
        ("attack", {"seeds": 2}, "seeds is 2; give a list, each a whole number"),
        (
            "audit",
            {"attacks": [attacks.MinusGradient()]},
            r"attacks is \[Minus.*give a list of threats.Attack\(...\) or PropertyInference\(...\), on privacy",
        ),
        (
            "audit",
            {"attacks": attacks.MinusGradient},
            r"attacks is the class MinusGradient itself; give a list of threats.Attack",
        ),
        ("audit", {"seed": 2}, "takes no 'seed'; did you mean 'seeds'; it takes scenario, out"),
        ("breakdown", {"against": rules.Krum(1)}, "against is .*; give a list of names of the evaluation's defences"),
        ("evaluate", {"seeds": 2}, "seeds is 2; give a list"),
        ("compare", {"workers": "all"}, "workers is 'all'; give a whole number"),
        ("run", {"seed": 2}, r"takes no 'seed': it is the scenario's; give dataclasses.replace\(scenario, seed=2\)"),
        ("iterate", {"num": 2}, "takes no 'num'; it takes scenario, out, data, resume"),
    ],
)
def test_other_arguments_are_refused_by_their_names_with_what_to_give(function, given, words):
    with pytest.raises(TypeError, match=rf"^cloister.{function}(: | ){words}"):
        getattr(cloister, function)(PLAIN, **given)


def test_a_misspelt_file_and_mechanism_say_what_is_near(tmp_path):
    (tmp_path / "quickstart.py").write_text("")
    with pytest.raises(ValueError, match=r"did you mean .*quickstart\.py"):
        load(str(tmp_path / "quickstrt.py"))
    with pytest.raises(ValueError, match="give the path") as far:
        load(str(tmp_path / "other.py"))
    assert "did you mean" not in str(far.value)
    with pytest.raises(ValueError, match="there is no mechanism"):
        named(["no such"], ())


def test_of_two_columns_that_are_not_there_the_misspelt_one_is_named(tmp_path):
    (tmp_path / "all.csv").write_text("x,hospital,diagnosis\n1,a,0\n")
    with pytest.raises(ValueError, match="no column 'hospitl'; did you mean 'hospital'"):
        data.from_csv(tmp_path / "all.csv", client="hospitl")(None)
