"""A property of clients' data, from their first updates, by clients that the attacker makes up."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet
from cloister.fl.data.population import Examples
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Masked
from cloister.scenario_file import load_attack
from cloister.threat_models.audit.experiment import QUICK
from cloister.threat_models.audit.made_up import made_up
from cloister.threat_models.audit.observer import SERVER_ALONE
from cloister.threat_models.audit.properties import MoreOf, PropertyInference, even_split, moves, placements
from cloister.threat_models.audit.scoring import auc, auc_within, leakage
from cloister.threat_models.audit.stage import Stage, stages

uneven = Scenario(
    name="uneven",
    data=Digits(),
    partition=Dirichlet(clients=12, alpha=0.5),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=3, batch=32, lr=0.1),
    algorithm=FedAvg(by_samples=False),
    protection=Masked(),
    rounds=1,
)


@cache
def played() -> Stage:
    return next(one for one in stages(uneven, [0], None) if isinstance(one, Stage))


def mean_value(experiment, evidence, truth):
    return float(experiment(evidence, truth, QUICK, np.random.default_rng(0)).values.mean())


def few_kinds(examples: Examples, public: Examples) -> bool:
    """A property of one's own: two labels make up most of the data."""
    counts = np.sort(np.bincount(examples.y.numpy(), minlength=10))
    return bool(counts[-2:].sum() > counts.sum() * 0.55)


@pytest.mark.trains
@pytest.mark.long
def test_a_property_is_read_in_clear_and_not_from_sums():
    stage = played()
    clear = mean_value(PropertyInference(), stage.plain, stage.clear.truth)
    alone = mean_value(PropertyInference(), stage.aggregate, stage.audited.truth)
    assert clear > 0.5
    assert alone == 0
    assert mean_value(PropertyInference(), stage.evidence(SERVER_ALONE), stage.audited.truth) == alone


@pytest.mark.long
@pytest.mark.trains
def test_a_property_of_ones_own_is_asked_of_examples():
    stage, asked = played(), []

    def holds(examples, public):
        asked.append(public)
        return few_kinds(examples, public)

    found = PropertyInference(holds=holds)(stage.plain, stage.clear.truth, QUICK, np.random.default_rng(0))
    clients = stage.clear.truth.population.clients
    assert len(found.members) == sum(few_kinds(c.train, c.train) for c in clients.values())
    assert len(found.members) + len(found.others) == len(clients) == len(found.victims)
    assert all(public is stage.clear.public.auxiliary for public in asked)


@pytest.mark.trains
def test_there_is_nobody_to_try_what_all_clients_have_on():
    stage = played()
    found = PropertyInference(holds=lambda examples, public: True)(
        stage.plain, stage.clear.truth, QUICK, np.random.default_rng(0)
    )
    assert found.victims == ()


@pytest.mark.trains
def test_made_up_clients_are_of_public_examples_and_made_once():
    stage = played()
    public = stage.audited.public
    made = made_up(public, (7, 30), 50, np.random.default_rng(1), rounds=2)
    known = {x.numpy().tobytes() for x in public.auxiliary.x}
    assert made.updates.shape == (2, 50, len(public.initial))
    assert {len(part) for part in made.parts} == {7, 30}
    assert all(x.numpy().tobytes() in known for part in made.parts for x in part.x)
    assert np.allclose(made.histograms.sum(axis=1), 1)
    assert not np.array_equal(made.updates[0], made.updates[1])
    rng = np.random.default_rng(0)
    one, other = stage.evidence(SERVER_ALONE), stage.aggregate
    assert one.taught(40, rng) is other.taught(40, rng)
    assert stage.plain.taught(40, rng) is not one.taught(40, rng)


def test_placements_are_shares_of_the_other_side():
    scores, truly = np.array([3.0, 1.0, 2.0, 0.0, 1.0]), np.array([True, True, False, False, False])
    assert placements(scores, truly).tolist() == pytest.approx([1.0, 0.0, 0.0, 1.0, 0.5])
    assert not placements(np.zeros(5), truly).any()


@pytest.mark.trains
def test_the_default_property_splits_the_attackers_own_clients_most_evenly():
    known, public = played().shadow.truth, played().audited.public.auxiliary
    chosen = even_split(known, public)

    def off(label):
        return abs(np.mean([MoreOf(label)(c.train, public) for c in known.population.clients.values()]) - 0.5)

    assert off(chosen.label) == min(map(off, range(10)))
    assert MoreOf(3)(Examples(public.x[:2], torch.tensor([3, 3])), public)
    assert not MoreOf(3)(Examples(public.x[:2], torch.tensor([4, 4])), public)
    assert replace(chosen, label=3) == MoreOf(3)


@pytest.mark.parametrize("sides", [(12, 12), (6, 18)])
@pytest.mark.long
def test_the_interval_of_placements_covers_what_two_sides_drawn_by_chance_have(sides: tuple[int, int]) -> None:
    """As independent values they would be drawn as if one of the two sides were known: half the spread, and "is above chance" in
    a sixth of all cases in which nothing is known, where it may be in a fortieth.
    """
    rng = np.random.default_rng(0)
    truly, ends = np.repeat([True, False], sides), (np.zeros(sum(sides)), np.ones(sum(sides)))
    above = {"placements": 0, "moves": 0}
    for _ in range(200):
        values = placements(rng.standard_normal(len(truly)), truly)
        assert moves(values, truly).mean() == pytest.approx(values.mean())
        for name, moved in (("placements", None), ("moves", [moves(values, truly), *ends])):
            above[name] += leakage(values, *ends, np.random.default_rng(1), moves=moved).low > 0
    assert above["placements"] > 20
    assert above["moves"] < 14


def test_a_property_of_ones_own_is_read_from_a_file_as_an_attack_is(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from cloister.threats import Attack, Experiment, PropertyInference\n\n"
        "attack = PropertyInference(lambda examples, public: bool(examples.y[0]), 'first of 1')\n"
        "other = Attack('none', lambda evidence, client, records, rng: {}, 'updates')\n"
    )
    assert load_attack(str(file)).name == "first of 1"
    assert load_attack(f"{file}:other").name == "none"
    for name in ("PropertyInference", "Experiment"):
        with pytest.raises(ValueError, match=rf"{name} is .*; give Attack\(...\); name it: .*mine.py:attack|{name}"):
            load_attack(f"{file}:{name}")


def test_areas_are_of_members_and_others_of_one_run():
    """What is the same for all of a run, and another number in another, tells nothing."""
    low, high = np.zeros(3), np.ones(9)
    found = auc_within([(low[:1], low[1:]), (high[:6], high[6:])])
    assert (found.value, auc(np.concatenate([low[:1], high[:6]]), np.concatenate([low[1:], high[6:]])).value) != (0.5, 0.5)
    assert found.value == 0.5
    alone, one = auc(np.arange(5.0), np.arange(7.0)), auc_within([(np.arange(5.0), np.arange(7.0))])
    assert (one.low, one.value, one.high) == pytest.approx((alone.low, alone.value, alone.high))
    assert auc_within([(high, low), (low[:0], high)]).value == 1.0
