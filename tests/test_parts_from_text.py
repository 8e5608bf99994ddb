"""`--set PATH=VALUE` where the value makes a part: calls of public names, and nothing else."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister import Training, algorithms, attacks, models, partitions, protections, rules
from cloister.fl.runs.scenario import described
from cloister.parts_from_text import MOST, made, names, tree_of
from cloister.scenario_file import load, with_fitting_settings, with_settings

scenario = load("cloister:quickstart")


@pytest.mark.parametrize(
    ("setting", "field", "value"),
    [
        ("protection=Plain()", "protection", protections.Plain()),
        ("protection=protections.Masked(floor=5)", "protection", protections.Masked(floor=5)),
        ("protection=Permuted(SignedPermutation)", "protection", protections.Permuted(protections.SignedPermutation)),
        ("partition=Iid(6, samples=20)", "partition", partitions.Iid(6, samples=20)),
        ("model=Mlp(hidden=(8, 4))", "model", models.Mlp(hidden=(8, 4))),
        ("training=Training(epochs=2, batch=5, lr=1e-2)", "training", Training(epochs=2, batch=5, lr=0.01)),
        ("adversary=Adversary(members=Share(.4), upload=Scaled(-3))", "adversary",
         attacks.Adversary(members=attacks.Share(0.4), upload=attacks.Scaled(-3))),
        ("algorithm=RobustFedAvg(rule=Mixed((NNM(f=2),), MultiKrum(f=2)))", "algorithm",
         algorithms.RobustFedAvg(rule=rules.Mixed((rules.NNM(f=2),), rules.MultiKrum(f=2)))),
        ("algorithm.thresholds=ScaleFree(0.3, 0.6)", "algorithm", None),
        ("name=Plain()", "name", "Plain()"),
        ("device=cuda", "device", "cuda"),
        ("adversary=None", "adversary", None),
        ("rounds=7", "rounds", 7),
    ],
)  # fmt: skip
def test_a_part_is_made_of_text(setting, field, value):
    found = getattr(with_settings(scenario, [setting]), field)
    if setting.startswith("algorithm.thresholds"):
        found, value = found.thresholds, algorithms.ScaleFree(0.3, 0.6)
    assert described(found) == described(value)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("protection=Maskd()", "protection: there is no 'Maskd'; did you mean 'Masked'"),
        ("protection=Masked(flor=3)", "Masked takes no 'flor'; did you mean 'floor'; it takes sketch, keys, floor, "),
        ("partition=Iid()", "partition: Iid missing 1 required .*argument: 'clients'; it takes clients, sizes, samples"),
        ("protection=Masked(floor=1 + 1)", r"protection: 1 \+ 1 is no number, text or call"),
        ("protection=__import__('os').system('true')", "protection: .* is no name of a part"),
        ("protection=open('x', 'w')", "there is no 'open'"),
        ("protection=protections.__dict__()", "there is no 'protections.__dict__'"),
        ("protection=(lambda: 1)()", "is no name of a part"),
        ("protection=[x for x in 'a'][0]", "is no number, text or call"),
        ("protection=Masked(**{})", "is not read; give each by its name"),
        ("protection=f'{Plain()}'", "is no number, text or call"),
        ("protection=Plain", "protection is the class Plain itself; make one of it: Plain()"),
        ("protection=Masked(floor=-1)", "protection: "),
        ("training=Training(epochs=0, batch=1, lr=1)", "training: Training.epochs is a whole number, 1 or more, not 0"),
        ("protectoin=Plain()", "no field 'protectoin' in Scenario"),
        ("algorithm=FedAvg(", "algorithm"),
        ("protection=" + "(" * MOST + "(", "at most"),
    ],
)  # fmt: skip
def test_everything_else_is_one_line_and_nothing_is_run(setting, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=words) as caught:
        with_settings(scenario, [setting])
    assert "\n" not in str(caught.value)
    assert not list(Path.cwd().iterdir())


def test_a_grid_leaves_out_what_a_scenario_has_no_field_for():
    assert with_fitting_settings(scenario, ["algorithm.rule=Krum(1)", "protection=Plain()"]).protection == protections.Plain()


@given(st.text(alphabet="PlainMsked(),=.3'\"[]{}*:_ lambda", max_size=40))
def test_no_text_does_more_than_make_parts(text):
    """Whatever the text: a value, or a ValueError of one line."""
    before = set(sys.modules)
    try:
        tree = tree_of(text)
        if tree is not None:
            made(tree, "x")
    except ValueError as error:
        assert not re.search("Traceback|\n", str(error))  # noqa: PT017
    assert {name for name in set(sys.modules) - before if not name.startswith("cloister")} <= set(sys.modules)


def test_names_are_those_that_a_user_may_use_and_no_two_are_one():
    plain = [name for name in names() if "." not in name]
    dotted = [name for name in names() if name.partition(".")[0].islower() and name.count(".") == 1]
    assert len(plain) == len(dotted) + 1
    assert not any(part.startswith("_") for name in names() for part in name.split("."))


@pytest.mark.long
def test_a_part_is_made_in_its_other_ways_too_and_who_asks_one_for_what_the_other_takes_is_told():
    """The README names `RecordPrivacy.for_epsilon`."""
    ways = "for_epsilon(3, delta=1e-5, clip=1.0, records=32, batch=8, epochs=1, rounds=2)"
    found = {made(tree_of(f"{of}.{ways}"), "x") for of in ("RecordPrivacy", "protections.RecordPrivacy")}
    assert {(one.budget, one.clip) for one in found} == {(3, 1.0)}
    with pytest.raises(ValueError, match=re.escape("x: RecordPrivacy takes no 'epsilon', and RecordPrivacy.for_epsilon does")):
        made(tree_of("RecordPrivacy(epsilon=3)"), "x")
    with pytest.raises(ValueError, match=r"no .Masked\.__init__."):
        made(tree_of("Masked.__init__()"), "x")
    with pytest.raises(ValueError, match=r"no .RecordPrivacy\.for_epsilon\.__func__\.__globals__."):
        made(tree_of("RecordPrivacy.for_epsilon.__func__.__globals__"), "x")
