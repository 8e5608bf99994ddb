"""A plain function, or another library's object, as an attack, a rule or a data set; what is said of one that does not fit."""

import importlib
import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from cloister import attacks, rules
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.data.population import Examples, Source
from cloister.fl.functions import Unfit, called
from cloister.fl.own_code import digest_of
from cloister.fl.robust.aggregate import aggregate
from cloister.fl.robust.coordinates import Median
from cloister.fl.robust.function import FunctionRule, as_rule
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.mixing import NNM, Mixed
from cloister.fl.robust.rule import Matrix, Sight
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import Scenario, described
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked
from cloister.protocol.core.errors import Refused
from cloister.reporting.report import write_report
from cloister.summary import summary_rows
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.collusion import ALIE, IPM
from cloister.threat_models.design_limit import built_for
from cloister.threat_models.evaluation import Cell, Evaluation, attacked_cells, clean_cells, key_of, resolved
from cloister.threat_models.forged_choices import WorstModel
from cloister.threat_models.functions import DataFunction, OfHonest, UploadFunction, as_poison, as_upload, place_of
from cloister.threat_models.geometry import mean_of
from cloister.threat_models.knowledge import Colluding, Level, Omniscient, Own, Situation
from cloister.threat_models.label_attacks import LabelFlip
from cloister.threat_models.line_search import LineSearched
from cloister.threat_models.membership import Fixed, Pool
from cloister.threat_models.simple_attacks import MinusGradient
from cloister.threat_models.training_attacks import GradientAscent

from . import evaluation_sample as sample

MEMBERS = Fixed((1, 2))


def models(scenario: Scenario, rounds: int = 2) -> list[np.ndarray[Any, Any]]:
    """What clients have after some rounds."""
    simulation = Simulation(replace(scenario, rounds=rounds), None)
    for _ in range(rounds):
        simulation.step()
    return [vector for _, vector in sorted(simulation.vectors().items())]


def same(one: Scenario, other: Scenario) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(models(one), models(other), strict=True))


def under(**attack: Any) -> Scenario:
    return replace(sample.scenario, adversary=Adversary(members=MEMBERS, **attack))


# --- attacks ----------------------------------------------------------------------------------------------------------


def turned(own: Own) -> Any:
    return -own.update


def opposed(coalition: Omniscient) -> Any:
    return {i: -0.5 * mean_of(coalition.seen) for i in coalition.own}


def opposed_by_one_vector(coalition: Omniscient) -> Any:
    return (-np.float32(0.5) * mean_of(coalition.seen)).tolist()


def flipped(situation: Situation) -> Examples:
    return replace(situation.examples, y=situation.classes - 1 - situation.examples.y)


@pytest.mark.trains
def test_a_plain_function_does_what_the_attack_of_the_same_formula_does() -> None:
    omniscient = under(upload=IPM(0.5), knows=Level.OMNISCIENT)
    assert same(under(upload=turned), under(upload=MinusGradient()))
    assert same(under(upload=lambda own: torch.from_numpy(-own.update)), under(upload=MinusGradient()))
    for function in (opposed, opposed_by_one_vector):
        assert same(under(upload=function, knows=Level.OMNISCIENT), omniscient)
    assert same(under(data=flipped), under(data=LabelFlip()))
    assert same(under(local=lambda situation: np.zeros_like(situation.start)), under(upload=lambda own: 0 * own.update))


def test_a_function_needs_what_its_parameter_says_or_what_the_adversary_knows() -> None:
    def together(coalition: Colluding) -> Any: ...

    assert Adversary(members=MEMBERS, upload=turned, knows=Level.INSIDER, rule=Median()).upload == UploadFunction(
        turned, Level.OWN
    )
    with pytest.raises(ValueError, match="together needs level COLLUDING; this adversary knows OWN"):
        Adversary(members=MEMBERS, upload=together)
    untyped: Any = lambda known: known  # noqa: E731
    assert Adversary(members=MEMBERS, upload=untyped, knows=Level.COLLUDING).upload == UploadFunction(untyped, Level.COLLUDING)
    assert replace(Adversary(members=MEMBERS, upload=turned), samples=2.0).upload == UploadFunction(turned, Level.OWN)


@pytest.mark.trains
@pytest.mark.parametrize(
    ("attack", "words"),
    [
        ({"upload": lambda own: own.update[:5]}, r"<lambda> .* returned numbers of shape \(5,\), where shape \(\d+,\) is taken"),
        ({"upload": lambda own: "nothing"}, "returned 'nothing', which are no numbers"), ({"upload": lambda known: {1:
        known.own[1].update}, "knows": Level.COLLUDING}, r"returned vectors for \[1\]; the members at work are \[1, 2\]"),
        ({"data": lambda situation: situation.examples.x}, r"a poison returns Examples\(x, y\)"), ({"local": lambda situation:
        3}, r"returned numbers of shape \(\), where"),
        ({"local": lambda situation: situation.examples}, "of a poison its type says so: write `-> data.Examples`"),
    ],
    ids=["shape", "text", "members", "data", "training", "a poison"],
)  # fmt: skip
def test_what_a_function_returns_is_checked_and_said_by_its_name(attack: Any, words: str) -> None:
    with pytest.raises(Unfit, match=words):
        models(under(**attack), 1)


def test_a_choice_is_a_position() -> None:
    offered = SimpleNamespace(models=(1, 2, 3))
    for said in (3, -1, 1.5, True, None):
        chosen: Any = Adversary(members=MEMBERS, choice=lambda offered, said=said: said).choice
        with pytest.raises(Unfit, match="a choice is a whole number from 0 to 2"):
            chosen(offered)
    fine: Any = Adversary(members=MEMBERS, choice=lambda offered: np.int64(2)).choice
    assert fine(offered) == 2


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        ({"members": 6, "upload": MinusGradient()}, r"members are 6; say who they are, for example members=Pool\(6\)"),
        ({"members": MEMBERS, "upload": MinusGradient}, r"MinusGradient is a class; make one of it: MinusGradient"),
        ({"members": MEMBERS, "upload": 3}, "3 is no attack: it has neither `needs` nor can it be called"),
    ],
)
def test_what_is_no_attack_is_said_when_the_adversary_is_made(attack: Any, words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        Adversary(**attack)


def evaluated(**named: Any) -> Evaluation:
    return replace(sample.evaluation, attacks=named)


def first(evaluation: Evaluation, strength: float = 3.0) -> Any:
    cell = attacked_cells(evaluation, clean_cells(evaluation)[0])[0]
    return resolved(evaluation, replace(cell, strength=strength)).adversary


def test_an_evaluation_takes_what_members_do_in_the_place_of_an_adversary() -> None:
    assert first(evaluated(a=ALIE(1.5))) == Adversary(members=Pool(3), upload=ALIE(1.5), knows=Level.OMNISCIENT)
    assert first(evaluated(a=MinusGradient())) == Adversary(members=Pool(3), upload=MinusGradient())
    assert first(evaluated(a=turned)) == Adversary(members=Pool(3), upload=turned)
    assert first(evaluated(a=opposed)) == Adversary(members=Pool(3), upload=opposed, knows=Level.OMNISCIENT)
    assert first(evaluated(a=LabelFlip())) == Adversary(members=Pool(3), data=LabelFlip())
    assert first(evaluated(a=flipped)) == Adversary(members=Pool(3), data=flipped)
    assert first(evaluated(a=GradientAscent())) == Adversary(members=Pool(3), local=GradientAscent())
    assert first(evaluated(a=WorstModel())) == Adversary(members=Pool(3), choice=WorstModel())
    insider = first(replace(evaluated(a=LineSearched()), defences={"median": RobustFedAvg(rule=Median())}))
    assert (insider.knows, insider.rule) == (Level.INSIDER, Median())
    assert place_of(sample.minus) is None


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        (lambda count: None, "attack 'a' gave None for the strength 1; it is taken for a function from a strength"),
        (lambda count: np.zeros(3), "attack 'a' gave array.* unless its first parameter has a type: own: attacks.Own"),
        (
            "ALIE",
            r"attack 'a' is 'ALIE'; give an attack, for example attacks\.MinusGradient\(\), or a function from a strength to",
        ),
    ],
)
def test_an_attack_that_is_none_is_said_by_its_name(attack: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        evaluated(a=attack)


def test_attacks_are_named() -> None:
    with pytest.raises(ValueError, match="attacks are a dict by name, not"):
        replace(sample.evaluation, attacks=(MinusGradient(),))


# --- rules ------------------------------------------------------------------------------------------------------------


def median(updates: Any) -> Any:
    return np.median(updates, axis=0)


def test_a_plain_function_is_a_rule() -> None:
    updates = np.random.default_rng(0).standard_normal((7, 30)).astype(np.float32)
    rng = np.random.default_rng(1)
    expected = aggregate(Median(), updates, rng).vector
    for function in (median, lambda rows: torch.from_numpy(rows).median(0).values):
        np.testing.assert_allclose(aggregate(function, updates, rng).vector, expected, atol=1e-6)
    mixed, ours = Mixed((NNM(2),), median), Mixed((NNM(2),), Median())  # type: ignore[arg-type]
    np.testing.assert_allclose(aggregate(mixed, updates, rng).vector, aggregate(ours, updates, rng).vector, atol=1e-6)
    lost = updates.copy()
    lost[3] = np.nan
    np.testing.assert_allclose(aggregate(median, lost, rng).vector, np.median(np.delete(lost, 3, 0), axis=0), atol=1e-6)


@pytest.mark.trains
def test_a_plain_function_is_a_rule_of_a_run_where_the_server_sees_updates() -> None:
    ours, theirs = (replace(sample.scenario, algorithm=RobustFedAvg(rule=rule)) for rule in (Median(), median))
    for one, other in zip(models(ours), models(theirs), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    with pytest.raises(Refused, match="needs coordinates, which Masked"):
        replace(theirs, protection=Masked(floor=3))


@dataclass(frozen=True)
class OwnRule:
    """The mean, by whoever writes a rule in a file."""

    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = True

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        return np.full(len(gram), 1 / len(gram))


@pytest.mark.trains
def test_a_dataclass_is_a_rule_under_secure_aggregation() -> None:
    models(replace(sample.scenario, algorithm=RobustFedAvg(rule=OwnRule()), protection=Masked(floor=3)), 1)


class Lacking:
    """A rule without something."""

    def __init__(self, **has: Any) -> None:
        self.__dict__.update(has)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Median, r"rule is the class Median itself; make one of it: Median\(\)"),
        ("median", "rule is 'median', which is none; give one, for example rules.Median"),
        (Lacking(sees=Sight.GRAM), r"Lacking \(test_functions.py, line \d+\) .* sees GRAM, and has no weights\(gram, rng\)"),
        (Lacking(sees=Sight.COORDINATES), r"sees COORDINATES, and has no combine\(block\)"),
        (Lacking(weights=median, shift_invariant=True), "Lacking has no sees: name the least that it must see"),
        (Lacking(weights=median, sees=Sight.GRAM), "Lacking has no shift_invariant: say whether its weights sum to 1"),
    ],
)
def test_a_rule_that_lacks_something_is_told_what(rule: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RobustFedAvg(rule=rule)


def short_weights(gram: Any, rng: Any) -> Any:
    return np.ones(3)


@pytest.mark.trains
@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda updates: updates[0][:4], r"<lambda> .* returned numbers of shape \(4,\)"), (Lacking(sees=Sight.GRAM,
        weights=short_weights, shift_invariant=True), r"Lacking .* gave weights of shape \(3,\), for 8 updates"),
        (Lacking(sees=Sight.COORDINATES, combine=lambda block: block), r"Lacking .* returned numbers of shape \(8, \d+\)"),
    ],
    ids=["function", "weights", "coordinates"],
)  # fmt: skip
def test_what_a_rule_gives_is_checked_and_ends_the_run(rule: Any, words: str) -> None:
    """As a mistake of its author, and not as a round in which nothing could be learned."""
    with pytest.raises(Unfit, match=words):
        models(replace(sample.scenario, algorithm=RobustFedAvg(rule=rule)), 1)


# --- data -------------------------------------------------------------------------------------------------------------


def spirals(folder: Path | None) -> Any:
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    return rng.standard_normal((400, 5)) + 2 * y[:, None], y


@pytest.mark.trains
def test_a_plain_function_is_a_data_set() -> None:
    scenario = replace(sample.scenario, data=spirals)
    source = scenario.data(None)
    assert isinstance(source, Source)
    assert (len(source.train), len(source.test), source.classes, source.name) == (320, 80, 2, "spirals")
    assert described(scenario)["data"] == {"type": "DataFunction", "function": f"spirals, code {digest_of(spirals)}"}
    assert len(models(scenario, 1)) == 8
    given = replace(sample.scenario, data=lambda folder: source)
    assert given.data(None) is source


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "returned None; a data set is a Source, or inputs and labels"),
        ((np.zeros((4, 2)), np.zeros(3, int)), r"inputs of shape \(4, 2\) and labels of shape \(3,\)"),
        ((np.zeros((4, 2)), np.zeros(4)), "labels of type float64; they are whole numbers from 0"),
        ((np.full((4, 2), np.nan), np.zeros(4, int)), "inputs that are not finite"),
        (([["a"]], np.zeros(1, int)), "inputs that are no numbers"),
    ],
)
def test_data_of_another_shape_are_refused_in_words(returned: Any, words: str) -> None:
    with pytest.raises(Unfit, match=words):
        replace(sample.scenario, data=lambda folder: returned).data(None)


# --- other libraries --------------------------------------------------------------------------------------------------


class Aggregator:
    """Of the shape of ByzFL's: parameters in the constructor, then a callable from all vectors to one."""

    def __init__(self, f: int) -> None:
        self.f = f

    def __call__(self, vectors: Any) -> Any:
        rows = np.sort(vectors, axis=0)
        return rows[self.f : len(rows) - self.f].mean(axis=0)


class Manipulation:
    """Of the shape of ByzFL's attacks: a callable from the honest vectors to one."""

    def __init__(self, tau: float) -> None:
        self.tau = tau

    def __call__(self, honest_vectors: Any) -> Any:
        return -self.tau * honest_vectors.mean(axis=0)


@pytest.mark.trains
def test_an_aggregator_and_an_attack_of_another_library_are_ours() -> None:
    evaluation = replace(
        sample.evaluation,
        attacks={"theirs": OfHonest(Manipulation(0.5)), "ours": IPM(0.5)},
        defences={"theirs": RobustFedAvg(rule=Aggregator(3)), "ours": RobustFedAvg(rule=rules.TrimmedMean(3))},  # type: ignore[arg-type]
    )
    found = {}
    for attack in ("theirs", "ours"):
        for defence in ("theirs", "ours"):
            found[attack, defence] = models(resolved(evaluation, Cell(attack, defence, 3.0, "Plain", 0)))
    for of in found.values():
        for one, other in zip(of, found["ours", "ours"], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)


def test_their_parameters_are_part_of_what_a_cell_is() -> None:
    keys = {
        key_of(evaluated(a=OfHonest(Manipulation(tau))), Cell("a", "fedavg", 3.0, "Plain", 0)) for tau in (0.5, 0.5, 2.0)
    } | {key_of(replace(sample.evaluation, defences={"fedavg": RobustFedAvg(rule=Aggregator(f))}), Cell(None, "fedavg", None,
    "Plain", 0))  # type: ignore[arg-type]
         for f in (1, 1, 2)}  # fmt: skip
    assert len(keys) == 4
    assert OfHonest(Manipulation(0.5)).told == "tau=0.5"
    assert FunctionRule(Aggregator(2)).told == "f=2"


def byzfl() -> tuple[Any, Any]:
    """ByzFL's aggregators and attacks, without what it brings to download data sets."""
    pytest.importorskip("byzfl.attacks.attacks", exc_type=ImportError)
    return importlib.import_module("byzfl.aggregators.aggregators"), importlib.import_module("byzfl.attacks.attacks")


@pytest.mark.trains
def test_byzfls_own_objects_are_taken_as_they_are() -> None:
    theirs, of = byzfl()
    assert isinstance(
        Adversary(members=MEMBERS, upload=of.InnerProductManipulation(0.5), knows=Level.OMNISCIENT).upload, OfHonest
    )
    evaluation = replace(
        sample.evaluation,
        attacks={"theirs": of.InnerProductManipulation(tau=0.5), "ours": IPM(0.5)},
        defences={"theirs": RobustFedAvg(rule=theirs.TrMean(3)), "ours": RobustFedAvg(rule=rules.TrimmedMean(3))},
    )
    one, other = (models(resolved(evaluation, Cell(who, who, 3.0, "Plain", 0))) for who in ("theirs", "ours"))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_a_module_that_says_it_is_byzfl_is_taken_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed: an attack is known by its package, and is a function of the honest updates."""
    monkeypatch.setattr(Manipulation, "__module__", "byzfl.attacks.attacks")
    taken = first(evaluated(a=Manipulation(2.0)))
    assert taken == Adversary(members=Pool(3), upload=taken.upload, knows=Level.OMNISCIENT)
    assert taken.upload.told == "tau=2.0"
    assert "byzfl" not in sys.modules or importlib.util.find_spec("byzfl") is not None


def test_the_adapter_has_a_public_name() -> None:
    assert attacks.OfHonest is OfHonest


def scaled(known: Omniscient, scale: float = 1.0) -> Any:
    return scale * np.mean(known.seen, axis=0)


def relabelled(situation: Situation, to: int = 0) -> Examples:
    return Examples(situation.examples.x, torch.full_like(situation.examples.y, to))


def test_a_function_with_some_arguments_given_is_what_the_function_is() -> None:
    """Before: it was taken for a function of the strength, and handed that."""
    attack = partial(scaled, scale=2.0)
    assert place_of(attack) == "upload"
    taken = as_upload(attack, Level.OWN)
    assert taken.needs == Level.OMNISCIENT
    assert called(attack) == called(scaled)
    poison = partial(relabelled, to=1)
    assert place_of(poison) == "data"
    assert isinstance(as_poison(poison), DataFunction)
    rule = as_rule(partial(lambda updates, c: c * updates.mean(axis=0), c=2.0))
    assert np.allclose(rule.combine_all(np.ones((3, 2), np.float32)), 2.0)


def test_an_edited_function_is_another_and_the_same_one_is_the_same() -> None:
    """So that what is in a folder of before it was edited is not taken for its own."""

    def weak(own: Own) -> Any:
        return own.update * -0.1

    def made(wide: int) -> Any:
        def strong(own: Own, factor: float = -2.0) -> Any:
            return own.update * factor if wide else own.update

        return strong

    def other(own: Own, factor: float = -3.0) -> Any:
        return own.update * factor if made else own.update

    assert described(UploadFunction(made(1), Level.OWN)) == described(UploadFunction(made(1), Level.OWN))
    assert described(UploadFunction(made(1), Level.OWN)) != described(UploadFunction(made(2), Level.OWN))
    assert len({digest_of(one) for one in (weak, made(0), other)}) == 3
    assert "code" in str(described(UploadFunction(weak, Level.OWN)))
    assert "code" not in str(described(Scenario.__post_init__))


def nearest(gram):
    """All weight on the update that is nearest to the others."""
    squared = np.diag(gram)[:, None] + np.diag(gram)[None] - 2 * gram
    return np.arange(len(gram)) == squared.sum(axis=1).argmin()


def test_a_function_of_the_gram_matrix_is_a_rule_of_inner_products():
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 9.0]], dtype=np.float32)
    mine = rules.OfGram(nearest, f=1)
    assert aggregate(mine, rows, np.random.default_rng(0)).vector.tolist() == [1.0, 0.0]
    assert built_for(RobustFedAvg(rule=mine), 3) == 1
    RobustFedAvg(rule=mine)
    small = replace(sample.scenario, algorithm=RobustFedAvg(rule=mine), protection=Masked())
    assert small.protection == Masked()  # it is refused there where it needs more than inner products


def test_a_function_of_the_gram_matrix_in_the_place_of_one_of_updates_is_told_where_it_belongs():
    words = r"rule nearest \(test_functions.py, line \d+\) takes a Gram matrix.*say rule=rules.OfGram\(nearest\)"
    with pytest.raises(ValueError, match=words):
        RobustFedAvg(rule=nearest)
    with pytest.raises(Unfit, match=r"shape \(3,\), where shape \(2,\) is taken; .*rules.OfGram\(mine\)"):
        aggregate(RobustFedAvg(rule=lambda updates: np.ones(3)).rule, np.ones((3, 2), np.float32), np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"OfGram takes a function .*, not 3"):
        rules.OfGram(3)
    with pytest.raises(Unfit, match=r"returned numbers of shape \(2,\), where shape \(3,\) is taken; a weight for each update"):
        rules.OfGram(lambda gram: np.ones(2)).weights(np.eye(3), np.random.default_rng(0))


@dataclass(frozen=True)
class Crooked:
    """A rule with a mistake in it, of which numpy says a ValueError."""

    def __call__(self, rows):
        return np.linalg.norm(rows, axis=2)


@pytest.mark.trains
def test_a_mistake_in_a_function_of_ones_own_is_no_round_without_a_sum():
    """It was: the run went on to its end with the model that it began with, and said nothing."""
    words = r"^Crooked \(test_functions.py, line \d+\) raised AxisError: axis 2 is out of bounds"
    small = replace(sample.scenario, algorithm=RobustFedAvg(rule=Crooked()))
    with pytest.raises(Unfit, match=words):
        Simulation(small, None).step()
    with pytest.raises(Unfit, match=words):
        rules.OfGram(Crooked()).weights(np.eye(3), np.random.default_rng(0))


def test_a_place_in_a_library_is_no_place_of_the_users() -> None:
    assert called(nn.CrossEntropyLoss()) == "CrossEntropyLoss"
    assert called(spirals).startswith("spirals (test_functions.py, line ")


@pytest.mark.trains
def test_a_run_says_in_which_rounds_its_rule_had_no_result(tmp_path):
    small = replace(sample.scenario, algorithm=RobustFedAvg(rule=MultiKrum(f=50)), rounds=1)
    list(run(small, tmp_path))
    words = "In 1 of 1 round the rule had no result, and the model stayed as it was: MultiKrum(f=50, m=None) needs at least 103"
    said = dict(summary_rows(json.loads((tmp_path / "summary.json").read_text())))
    assert said["no result"].startswith(words)
    assert words in write_report(tmp_path).read_text()
