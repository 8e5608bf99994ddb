"""Members that lie about which model serves them best, through the harness: what they are told, when, and what it brings them."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pytest
import torch

from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelSwap
from cloister.fl.models.vector import to_vector
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Permuted, Plain
from cloister.protocol.view.work import LocalOffer
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.cluster_timing import late_assignment
from cloister.threat_models.forged_choices import Pretended, SameAs, WorstModel, losses
from cloister.threat_models.knowledge import Level
from cloister.threat_models.label_attacks import LabelFlip
from cloister.threat_models.membership import Fixed, Schedule
from cloister.threat_models.offers import Offered, OfferedTogether
from cloister.threat_models.simple_attacks import Honest

from .coalition_sample import SMALL, images, situation
from .test_adversary import Log, computers

MODELS = tuple(np.full(4, k, np.float32) for k in range(3))
"""The computers of `test_adversary` choose model i mod 3 honestly."""


@dataclass
class Heard:
    """A choice attack that keeps what it was handed, and chooses the first model."""

    needs: Level = Level.OWN
    known: list[Any] = field(default_factory=list)

    def __call__(self, offered: Offered) -> int:
        self.known.append(offered)
        return 0


def offers(clients: Any, round: int = 0) -> list[LocalOffer]:
    return [LocalOffer(i, round, tuple(clients), MODELS) for i in clients]


def said(adversary: Adversary, clients: Any = range(10), round: int = 0) -> dict[int, int | None]:
    corrupted = adversary.corrupt(computers(Log()))
    return {offer.client: corrupted.judge(offer) for offer in offers(clients, round)}


HONEST = {i: i % 3 for i in range(10)}


# --- the harness ------------------------------------------------------------------------------------------------------


def test_members_alone_say_something_else_and_only_in_the_rounds_of_the_attack() -> None:
    adversary = Adversary(members=Fixed((1, 5)), choice=Heard(), when=Schedule(start=3))
    assert said(adversary, round=2) == HONEST
    assert said(adversary, round=3) == HONEST | {1: 0, 5: 0}
    assert said(Adversary(members=Fixed((1, 5)))) == HONEST


def test_silent_members_choose_nothing() -> None:
    adversary = Adversary(members=Fixed((1, 5)), choice=Heard(), silent=Schedule(stop=2))
    assert said(adversary, round=1) == HONEST | {1: None, 5: None}
    assert said(adversary, round=2) == HONEST | {1: 0, 5: 0}


def test_alone_a_member_is_told_its_own_data_the_models_and_its_own_honest_choice() -> None:
    attack = Heard()
    said(Adversary(members=Fixed((1, 5)), choice=attack, knows=Level.OMNISCIENT))  # whatever the adversary knows
    assert [type(k) for k in attack.known] == [Offered, Offered]
    for known in attack.known:
        assert known.honest == known.member % 3
        assert (known.roster, known.round, known.place) == (tuple(range(10)), 0, (1, 5).index(known.member))
        assert np.array_equal(known.examples.x, images(seed=known.member).x)
        assert np.array_equal(known.models, MODELS)
        assert not hasattr(known, "chosen")
        assert not hasattr(known, "__dict__")
    assert {f.name for f in fields(Offered)} == {name for name in dir(Offered) if not name.startswith("_")}


@pytest.mark.parametrize(("knows", "others"), [(Level.COLLUDING, {1: 1, 5: 2}), (Level.OMNISCIENT, {i: i % 3 for i in range(8)})])
def test_together_members_are_told_the_honest_choices_that_their_level_allows(knows: Level, others: dict[int, int]) -> None:
    attack = Heard(Level.COLLUDING)
    said(Adversary(members=Fixed((1, 5, 9)), choice=attack, knows=knows), clients=range(8))
    assert [known.chosen for known in attack.known] == [others, others]


@pytest.mark.parametrize(("needs", "knows"), [(Level.COLLUDING, Level.OWN), (Level.OMNISCIENT, Level.COLLUDING)])
def test_an_attack_on_choices_that_needs_more_than_the_adversary_knows_is_refused(needs: Level, knows: Level) -> None:
    with pytest.raises(ValueError, match=f"Heard needs level {needs.name}; this adversary knows {knows.name}"):
        Adversary(members=Fixed((1,)), choice=Heard(needs), knows=knows)


def test_nobody_judges_twice_and_a_resumed_adversary_draws_the_same_numbers() -> None:
    asked: list[int] = []
    base = computers(Log())

    def judge(offer: LocalOffer) -> int:
        asked.append(offer.client)
        return offer.client % 3

    adversary = Adversary(members=Fixed((1, 5)), choice=SameAs(4), knows=Level.OMNISCIENT)
    corrupted = adversary.corrupt(replace(base, judge=judge))
    assert {o.client: corrupted.judge(o) for o in offers(range(10))} == HONEST | {1: 1, 5: 1}
    assert sorted(asked) == list(range(10))
    draws = []
    for _ in range(2):
        attack = Heard()
        said(Adversary(members=Fixed((1, 5)), choice=attack))
        draws.append([(known.rng.random(), known.agreed.random()) for known in attack.known])
    assert draws[0] == draws[1]
    assert draws[0][0][0] != draws[0][1][0]
    assert draws[0][0][1] == draws[0][1][1]


# --- the lies ---------------------------------------------------------------------------------------------------------


def offered(models: tuple[Any, ...], kind: type[Offered] = Offered, **others: Any) -> Offered:
    known = situation()
    names = ("member", "place", "members", "roster", "round", "examples", "classes", "module", "rng", "agreed")
    return kind(**{name: getattr(known, name) for name in names}, models=models, honest=1, **others)


def trained_on(examples: Any) -> Any:
    """A model that has some of these examples by heart."""
    torch.manual_seed(0)
    known = situation()
    module = known.module
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    for _ in range(60):
        optimizer.zero_grad()
        torch.autograd.backward(torch.nn.functional.cross_entropy(module(examples.x), examples.y))
        optimizer.step()
    return to_vector(module)


@pytest.mark.trains
def test_the_worst_model_and_the_best_for_forged_data() -> None:
    known = situation()
    own, swapped = trained_on(known.examples), trained_on(LabelFlip()(known))
    asked = offered((swapped, own, np.full_like(own, np.nan)))
    found = losses(asked, asked.examples)
    assert found[1] < found[0] < found[2] == np.inf
    assert WorstModel()(asked) == 2
    assert WorstModel()(offered((own, swapped))) == 1
    assert Pretended(LabelFlip())(asked) == 0  # the model of those whose labels are flipped
    assert Pretended(lambda situation: situation.examples)(asked) == 1


def test_same_as_is_what_the_client_says_or_the_truth_where_it_is_not_asked() -> None:
    models = (MODELS[0],) * 3
    assert SameAs(7)(offered(models, OfferedTogether, chosen={7: 2, 3: 0})) == 2
    assert SameAs(8)(offered(models, OfferedTogether, chosen={7: 2, 3: 0})) == 1
    with pytest.raises(ValueError, match="choices"):
        SameAs(8)(offered(models))


# --- in a run ---------------------------------------------------------------------------------------------------------

SWAPPED = replace(SMALL, partition=LabelSwap(clients=8, groups=2, pairs=((0, 1), (2, 3)), samples=60))
"""Clients 0 to 3 swap labels 0 and 1, clients 4 to 7 labels 2 and 3."""
AS_OTHERS = Pretended(lambda situation: replace(situation.examples, y=exchanged(situation.examples.y)))


def exchanged(y: Any) -> Any:
    """The labels of a client of group 0 as group 1 has them."""
    table = np.arange(10)
    table[[0, 1, 2, 3]] = [1, 0, 3, 2]
    return torch.from_numpy(table)[y]


@pytest.mark.slow
@pytest.mark.trains
@pytest.mark.parametrize("protection", [Plain(), Permuted(), Masked(floor=2)], ids=repr)
def test_a_late_member_enters_the_cluster_that_it_wants_by_a_forged_report(protection: Any) -> None:
    training = Training(epochs=3, batch=10, lr=0.1)
    scenario = replace(SWAPPED, rounds=16, algorithm=FLIC(rounds_before=12, settle=2), training=training, protection=protection)

    def home(adversary: Adversary) -> dict[int, set[int]]:
        simulation = Simulation(replace(scenario, adversary=adversary), None)
        for _ in range(14):
            simulation.step()
        return {i: set(c.members) for c in simulation.state.clusters.values() for i in c.members}

    truthful = home(late_assignment(Fixed((0,)), until=12, attack=Honest()))
    forged = home(late_assignment(Fixed((0,)), until=12, attack=Honest(), choice=AS_OTHERS))
    assert truthful[0] == {0, 1, 2, 3}
    assert forged[0] == {0, 4, 5, 6, 7}


def chosen_by(adversary: Adversary | None, judge: Callable[[LocalOffer], int] | None = None) -> Simulation:
    algorithm = HardenedFLIC(rounds_before=4, every=2)
    simulation = Simulation(replace(SWAPPED, rounds=6, algorithm=algorithm, adversary=adversary), None)
    for _ in range(6):
        simulation.step()
    return simulation


@pytest.mark.trains
def test_votes_for_the_worst_model_change_nobody_elses_model() -> None:
    """A minority that votes for what is worst: loyal clients are served by what they chose."""
    honest, attacked = chosen_by(None), chosen_by(Adversary(members=Fixed((0, 4)), choice=WorstModel()))
    before, after = honest.evaluate(), attacked.evaluate()
    loyal = [i for i in before if i not in (0, 4)]
    assert np.mean([before[i].accuracy for i in loyal]) == pytest.approx(np.mean([after[i].accuracy for i in loyal]), abs=0.03)
