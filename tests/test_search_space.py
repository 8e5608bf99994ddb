"""The space of a search: what types, defaults and names of fields say, and that every attack is in it or left out."""

import json
import re
from dataclasses import dataclass, field, replace
from math import inf, pi
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.data.partition import Dirichlet, Iid
from cloister.fl.data.population import Examples
from cloister.fl.robust.averages import Mean
from cloister.fl.robust.coordinates import Median
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.mixing import NNM, Mixed
from cloister.fl.robust.weiszfeld import CenteredClipping
from cloister.protocol import Masked
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.backdoors import EdgeCase
from cloister.threat_models.collusion import IPM
from cloister.threat_models.critical_layers import layers_of
from cloister.threat_models.evaluation import backdoor_of
from cloister.threat_models.knowledge import Level
from cloister.threat_models.label_attacks import LabelFlip, SwappedLabels
from cloister.threat_models.line_search import WithExtra
from cloister.threat_models.magnified import Diminished, Magnified
from cloister.threat_models.membership import Fixed, Pool, Schedule
from cloister.threat_models.partial import InLayer, LoneInLayer
from cloister.threat_models.search.catalogue import ASIDE, AT_REQUEST, ATTACKS, PARTS
from cloister.threat_models.search.choosing import Given, Partly, Usual
from cloister.threat_models.search.fields import NotSearched, made
from cloister.threat_models.search.forms import usual_forms
from cloister.threat_models.search.space import HONEST, Space, chosen_which, rule_of, slot_of
from cloister.threat_models.search.who import differ, members, oddness, population_of
from cloister.threat_models.simple_attacks import MinusGradient

from . import evaluation_sample as sample
from .coalition_sample import coalition, own, situation
from .test_attacks_listed import ROWS, attacks

HARDENED = replace(sample.scenario, algorithm=HardenedFLIC(rounds_before=1, every=2, by_samples=True))
KRUM = replace(sample.scenario, algorithm=RobustFedAvg(rule=MultiKrum(2)))


@dataclass(frozen=True)
class Toy:
    strength: float
    share: float = 0.3
    angle: float = 1.0
    bound: float = inf
    z: float | None = None
    aim: Literal["here", "there"] = "there"
    sure: bool = False
    turn: int = 3
    steps: int = 7
    names: tuple[str, ...] = ("a",)
    needs: ClassVar[int] = 0
    made: int = field(init=False, default=0)


class Random:
    """Chooses at random, and keeps what was asked."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.chosen: dict[str, Any] = {}
        self.ranges: dict[str, Any] = {}

    def one_of(self, name: str, options: Any, /) -> str:
        self.ranges[name] = list(options)
        self.chosen[name] = str(options[int(self.rng.integers(len(options)))])
        return str(self.chosen[name])

    def number(self, name: str, least: float, most: float, logarithmic: bool, usual: float, /) -> float:
        assert least <= usual <= most
        self.ranges[name] = (least, most, logarithmic, usual)
        self.chosen[name] = float(self.rng.uniform(least, most))
        return float(self.chosen[name])

    def whole(self, name: str, least: int, most: int, usual: int, /) -> int:
        assert least <= usual <= most
        self.ranges[name] = (least, most, usual)
        self.chosen[name] = int(self.rng.integers(least, most + 1))
        return int(self.chosen[name])


def test_the_type_the_default_and_the_name_of_a_field_say_what_it_may_be() -> None:
    choose = Random(np.random.default_rng(3))
    toy = made(Toy, choose, {}, 20)
    ranges = choose.ranges
    assert ranges["Toy.strength"] == (0.01, 100.0, True, 1.0)
    assert ranges["Toy.share"] == (0.0, 1.0, False, 0.3)
    assert ranges["Toy.angle"] == (0.0, pi, False, 1.0)
    assert ranges["Toy.aim"] == ["there", "here"]
    assert ranges["Toy.sure"] == ["false", "true"]
    assert ranges["Toy.turn"] == (0, 19, 5)
    assert ranges["Toy.z?"] == ranges["Toy.bound?"] == ["usual", "set"]
    assert (toy.steps, toy.names) == (7, ("a",))
    assert not ranges.keys() & {"Toy.steps", "Toy.names", "Toy.needs", "Toy.made"}
    usual = made(Toy, Usual(), {}, 20)
    assert usual == Toy(1.0, turn=5)
    assert made(Toy, Usual({"Toy.z?": "set", "Toy.z": 2.5}), {}, 20).z == 2.5


def test_what_has_no_default_and_no_range_is_not_searched() -> None:
    @dataclass(frozen=True)
    class Odd:
        target: bytes

    with pytest.raises(NotSearched, match=r"Odd\.target, a bytes, has no default"):
        made(Odd, Usual(), {}, 5)


def test_a_default_outside_of_the_usual_range_is_in_it() -> None:
    @dataclass(frozen=True)
    class Far:
        least: float = 1e-3
        most: float = 1e4

    choose = Random(np.random.default_rng(0))
    made(Far, choose, {}, 5)
    assert choose.ranges["Far.least"] == (1e-3, 100.0, True, 1e-3)
    assert choose.ranges["Far.most"] == (0.01, 1e4, True, 1e4)


def test_every_attack_is_searched_or_left_out_with_a_reason() -> None:
    """One that somebody adds fails here until it is in the catalogue."""
    known = {kind.__name__ for kind in ATTACKS}
    assert not known & (PARTS.keys() | ASIDE.keys())
    assert attacks().keys() - {"ForgedEmbeddings"} == known | PARTS.keys() | ASIDE.keys()
    space = Space(HARDENED)
    for name in known - {HONEST}:
        assert name in [*space.attacks, *space.votes] or space.left_out[name], name
    assert AT_REQUEST.keys() <= space.left_out.keys()
    assert "A3FL" in Space(HARDENED, only=("A3FL",)).attacks


@pytest.mark.parametrize("kind", ATTACKS, ids=lambda kind: kind.__name__)
def test_what_an_attack_replaces_follows_from_its_call(kind: type) -> None:
    """As the table of the package says."""
    (place,) = {row[0].split(", ")[0] for row in ROWS if re.search(rf"\b{kind.__name__}\b", row[1])}
    assert slot_of(kind).split()[0] == place


@pytest.mark.parametrize("scenario", [HARDENED, KRUM], ids=["hardened", "krum"])
def test_every_usual_form_is_an_adversary_and_no_two_are_alike(scenario: Any) -> None:
    space = Space(scenario, distinct=True)
    forms = usual_forms(space)
    built = []
    for numbers in forms:
        assert json.loads(json.dumps(numbers)) == numbers
        built.append((repr(space.adversary(Given(numbers), Pool(3))), numbers["which"]))
    assert len(set(built)) == len(built) > 60
    assert {form["attack"] for form in forms} == set(space.attacks) - (set() if space.votes else {HONEST})
    assert {form.get("schedule") for form in forms} == {"always", "from", "pulses"}
    assert {form["which"] for form in forms} == {"any", "most", "fewest", "oddest", "holders"}
    assert [f for f in forms if f["attack"] == "SwappedLabels" and f["which"] == "holders"]
    held = [f["which"] for f in forms[:20] if f["attack"] == "SwappedLabels"]
    assert held == ["holders"], "number 113 of 126, so that usual budgets ended before it"
    assert "SwappedLabels" not in {f["attack"] for f in usual_forms(Space(scenario))[:20]}, "clients are alike"
    assert [f for f in forms if f["attack"] == "LineSearched" and f["LineSearched.perturbation"] == "mean"]
    defaults = {form["attack"]: space.adversary(Given(form), Pool(3)) for form in reversed(forms)}
    assert defaults["MinusGradient"] == Adversary(members=Pool(3), upload=MinusGradient())
    assert defaults["LabelFlip"] == Adversary(members=Pool(3), data=LabelFlip())


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_point_is_the_same_adversary_when_it_is_read_back(seed: int) -> None:
    space = Space(HARDENED, distinct=True)
    choose = Random(np.random.default_rng(seed))
    try:
        first = space.adversary(choose, Pool(2))
    except ValueError:  # numbers that do not go together
        return
    chosen_which(space, choose)
    numbers = json.loads(json.dumps(choose.chosen))
    assert space.adversary(Given(numbers), Pool(2)) == first


def test_numbers_that_are_missing_or_out_of_range_are_refused() -> None:
    space = Space(KRUM)
    numbers = dict(next(form for form in usual_forms(space) if form["attack"] == "IPM"))
    less = {k: v for k, v in numbers.items() if k != "IPM.eps"}
    for wrong in ({**numbers, "IPM.eps": 1e6}, {**numbers, "schedule": "never"}, less):
        with pytest.raises(ValueError, match=r"IPM\.eps|schedule"):
            space.adversary(Given(wrong), Pool(1))


def test_schedules_are_by_the_defences_own_rounds() -> None:
    """Pulses are pauses: honest in the round before each grouping, which is where FLIC and its kin look."""
    scenario = replace(sample.scenario, rounds=40, algorithm=HardenedFLIC(rounds_before=10, every=5))
    space = Space(scenario)
    assert space.own_rounds == [10, 5]
    pulses = next(form for form in usual_forms(space) if form["schedule"] == "pulses")
    when = space.adversary(Given(pulses), Pool(1)).when
    assert [t for t in range(22) if t in when] == [10, 11, 12, 13, 15, 16, 17, 18, 20, 21]
    assert Space(replace(scenario, algorithm=FLIC(rounds_before=8))).own_rounds == [8]


def test_who_knows_less_has_fewer_attacks() -> None:
    lone, colluding = Space(KRUM, Level.OWN), Space(KRUM, Level.COLLUDING)
    assert lone.left_out["ALIE"] == "it needs level COLLUDING"
    assert "LineSearched" in colluding.left_out
    assert "MinusGradient" in lone.attacks
    numbers = next(form for form in usual_forms(colluding) if form["attack"] == "ALIE")
    assert colluding.adversary(Given(numbers), Pool(2)).knows == Level.COLLUDING
    insider = Space(KRUM)
    assert insider.adversary(Given(numbers), Pool(2)).knows == Level.OMNISCIENT
    found = next(form for form in usual_forms(insider) if form["attack"] == "LineSearched")
    assert insider.adversary(Given(found), Pool(2)).rule == MultiKrum(2)
    with pytest.raises(ValueError, match="none of ALIE can be searched here: it needs"):
        Space(KRUM, Level.OWN, only=("ALIE",))
    with pytest.raises(ValueError, match=r"no attack 'Alie'; did you mean 'ALIE'; there are: .*ALIE"):
        Space(KRUM, only=("Alie",))


def test_where_backdoors_alone_are_sought_every_point_has_one() -> None:
    for scenario in (KRUM, HARDENED):
        space = Space(scenario, backdoors=True)
        assert "no `test`" in space.left_out["ALIE"]
        assert "Backdoor" in space.attacks
        assert all(backdoor_of(space.adversary(Given(form), Pool(2))) is not None for form in usual_forms(space))
    with pytest.raises(ValueError, match="none of ALIE can be searched here: backdoors alone are sought"):
        Space(KRUM, only=("ALIE",), backdoors=True)
    with pytest.raises(ValueError, match="none of WorstModel can be searched here"):
        Space(HARDENED, only=("WorstModel",), backdoors=True)


def test_backdoors_that_do_not_fit_the_records_are_left_out() -> None:
    """Of a table: triggers are put into images. What trains with a poison does so with one that fits."""
    table, images = ((Examples(torch.zeros(shape), torch.arange(4) % 2), 2) for shape in ((4, 8), (4, 1, 8, 8)))
    space = Space(KRUM, records=table)
    assert "into images" in space.left_out["Backdoor"]
    assert {"Backdoor", "DistributedBackdoor", "SpuriousPatch"}.isdisjoint(space.attacks)
    assert {"EdgeCase", "ConstrainAndScale"} <= set(space.attacks)
    sought = [backdoor_of(space.adversary(Given(form), Pool(2))) for form in usual_forms(space)]
    assert {type(one) for one in sought} == {EdgeCase, type(None)}
    assert Space(KRUM, records=images).attacks == Space(KRUM).attacks
    alone = Space(KRUM, records=table, backdoors=True)
    assert all(backdoor_of(alone.adversary(Given(form), Pool(2))) is not None for form in usual_forms(alone))
    with pytest.raises(ValueError, match=r"none of Backdoor can be searched here: .*into images"):
        Space(KRUM, records=table, only=("Backdoor",))


def test_votes_and_counts_are_searched_only_where_the_defence_asks_for_them() -> None:
    assert Space(KRUM).votes == []
    assert Space(KRUM).left_out["WorstModel"] == "the defence asks for no choices"
    asked = Usual()
    Space(HARDENED).adversary(asked, Pool(1))
    assert {"votes", "samples"} <= asked.options.keys()
    asked = Usual()
    Space(KRUM).adversary(asked, Pool(1))
    assert not asked.options.keys() & {"votes", "samples"}
    inside = Space(replace(sample.scenario, algorithm=IFCA(models=2)))
    assert inside.votes == Space(HARDENED).votes, "clients of IFCA choose inside their work"


def test_a_sketch_is_passed_only_where_there_is_one() -> None:
    masked = replace(sample.scenario, algorithm=FedAvg(), protection=Masked(floor=3))
    for scenario, there in ((masked, True), (KRUM, False)):
        asked = Usual({"attack": "MinusGradient"})
        Space(scenario).adversary(asked, Pool(1))
        assert ("KernelPoison" in asked.options.get("variant", ())) == there


def test_fixed_numbers_are_not_searched() -> None:
    space = Space(HARDENED, fixed={"samples": "true", "schedule": "from", "schedule.start": 2})
    choose = Random(np.random.default_rng(0))
    adversary = space.adversary(choose, Pool(1))
    assert choose.ranges["samples"] == ["true"]
    assert adversary.when.start == 2
    with pytest.raises(ValueError, match="schedule is one of always, from, pulses, not never"):
        Partly(Usual(), {"schedule": "never"}).one_of("schedule", ["always", "from", "pulses"])


def test_an_insider_is_told_the_rule() -> None:
    assert rule_of(FedAvg()) == Mean()
    assert rule_of(RobustFedAvg(rule=Median())) == Median()
    mixed = Mixed((NNM(2),), Median())
    assert rule_of(RobustFedAvg(rule=mixed)) == mixed
    assert rule_of(HardenedFLIC(rounds_before=1, every=1, inner=MultiKrum(2))) == MultiKrum(2)
    clipping = rule_of(RobustFedAvg(rule=CenteredClipping(tau=1.0)))
    assert clipping == CenteredClipping(tau=1.0) or isinstance(clipping, WithExtra)


def test_attackers_are_chosen_by_what_they_hold() -> None:
    skewed = replace(sample.scenario, partition=Dirichlet(clients=6, alpha=0.3))
    clients = population_of(skewed, None).clients
    sizes = {i: len(c.train) for i, c in clients.items()}
    most, fewest = members("most", 2, clients), members("fewest", 2, clients)
    assert isinstance(most, Fixed)
    assert isinstance(fewest, Fixed)
    assert min(sizes[i] for i in most.ids) >= max(sizes[i] for i in sizes if i not in most.ids)
    assert max(sizes[i] for i in fewest.ids) <= min(sizes[i] for i in sizes if i not in fewest.ids)
    odd = dict(zip(sorted(clients), oddness(clients).tolist(), strict=True))
    oddest = members("oddest", 1, clients)
    assert isinstance(oddest, Fixed)
    assert odd[oddest.ids[0]] == max(odd.values())
    held = {i: int((c.train.y < 2).sum()) for i, c in clients.items()}
    holders = members("holders", 2, clients)
    assert isinstance(holders, Fixed)
    assert sorted(held[i] for i in holders.ids) == sorted(held.values())[-2:]
    assert members("any", 3, {}) == Pool(3)
    assert differ(clients)
    assert not differ(population_of(replace(sample.scenario, partition=Iid(clients=8, samples=80)), None).clients)
    with pytest.raises(ValueError, match="not 'best'"):
        members("best", 1, clients)


def test_an_attack_in_one_layer_leaves_the_others_honest() -> None:
    """Of a network of two layers: weights and biases of one are the attack's, all else is the member's own work."""
    first, last = layers_of(situation().module).values()
    update = np.arange(1, last.stop + 1, dtype=np.float32)
    for layer, at, other in (("first", first, last), ("last", last, first)):
        sent = made(LoneInLayer, Usual({"LoneInLayer.layer": layer}), {}, 1, attack=MinusGradient(2.0))(own(update))
        np.testing.assert_array_equal(sent[at], -2 * update[at])
        np.testing.assert_array_equal(sent[other], update[other])
    np.testing.assert_array_equal(Magnified(MinusGradient(2.0), 10.0)(own(update)), -20 * update)
    np.testing.assert_allclose(Diminished(MinusGradient(2.0))(own(update)), -2e-6 * update, rtol=1e-6)
    together = InLayer(IPM(1.0), "last")(coalition([update, 3 * update, update], 2, Level.COLLUDING))
    for i, honest in ((0, update), (1, 3 * update)):
        np.testing.assert_array_equal(together[i][last], -2 * update[last])
        np.testing.assert_array_equal(together[i][first], honest[first])


def test_labels_that_no_search_swaps_are_said_to_be_left_out() -> None:
    """Before: nothing, of data on which other labels are held by few."""
    assert "labels 0 and 1 alone" in Space(KRUM, distinct=True).left_out["SwappedLabels of other labels"]
    assert "SwappedLabels of other labels" not in Space(KRUM, only=("IPM",)).left_out
    others = Space(KRUM, only=("swap",), distinct=True, own={"swap": SwappedLabels(5, 6)})
    assert not others.left_out
    assert {others.adversary(Given(form), Pool(2)).data for form in usual_forms(others)} == {SwappedLabels(5, 6)}


def test_of_cloisters_own_attacks_that_are_left_out_no_default_is_asked_for() -> None:
    left_out = Space(HARDENED).left_out
    assert any("has no default" in reason for reason in left_out.values())
    assert not any("give it" in reason for reason in left_out.values())


def test_attacks_may_begin_in_the_last_round_and_forms_begin_late() -> None:
    """Before: never after three quarters of the rounds, so that a rule that trusts after eight of ten had no break."""
    space = Space(replace(KRUM, rounds=20))
    starts = {form["schedule.start"] for form in usual_forms(space) if form.get("schedule") == "from"}
    assert {16, 18} <= starts
    last = Usual({"attack": space.attacks[0], "schedule": "from", "schedule.start": 19})
    assert space.adversary(last, Pool(1)).when == Schedule(start=19)
