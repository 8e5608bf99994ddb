"""Who is corrupt in an audit: up to what the protection withstands, or named; and no coalition is weaker than a member."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.auditing.audited import audited
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet, LabelSwap
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.session import DEALER, SECOND_SERVER, SERVER
from cloister.threat_models.audit.experiment import QUICK, Anchor, Budget, Evidence, Finding
from cloister.threat_models.audit.experiments import observers_of
from cloister.threat_models.audit.observer import NETWORK, SERVER_ALONE, Observer, named, server_and
from cloister.threat_models.audit.recovery import UpdateRecovery
from cloister.threat_models.audit.stage import Stage, stages
from cloister.threat_models.audit.table import Row, rows
from cloister.threat_models.audit.tries import ALIKE, members_first, strongest

scenario = Scenario(
    name="small",
    data=Digits(),
    partition=Dirichlet(clients=6, alpha=0.5, shared_test=True),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=50, lr=0.2),
    algorithm=CFL(thresholds=ScaleFree(eps1=0.4, eps2=0.74), similarities="every round", remember=False),
    protection=Masked(corrupt=2, sketch=256),
    rounds=3,
)


# --- who is tried -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protection", [Masked(), TwoServer(), Encrypted(), Plain(), Permuted()], ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("corrupt", [0, 1, 2, 3, 5])
def test_the_largest_coalition_that_the_protection_reckons_with_is_tried(protection: Any, corrupt: int) -> None:
    how = replace(protection, corrupt=corrupt) if hasattr(protection, "corrupt") else protection
    found = observers_of(how, range(24))
    assert len(set(found)) == len(found)
    assert {SERVER_ALONE, server_and(0), Observer(clients=frozenset({0})), NETWORK} <= set(found)
    if hasattr(protection, "corrupt") and corrupt:
        assert server_and(*range(corrupt)) in found
    if isinstance(how, Encrypted) and corrupt > 1:
        assert Observer(clients=frozenset(range(corrupt + 1))) in found


def test_the_quickstarts_server_is_tried_with_both_of_its_corrupt_clients() -> None:
    assert "server and clients 0, 1" in [observer.name for observer in observers_of(Masked(corrupt=2), range(24))]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_somebody_honest_is_left(count: int) -> None:
    for protection in (Masked(corrupt=5), TwoServer(corrupt=2), Encrypted(corrupt=2), Plain()):
        assert all(len(observer.clients) < count for observer in observers_of(protection, range(count)))


@pytest.mark.parametrize(
    ("text", "observer"),
    [
        ("server", SERVER_ALONE),
        ("server+client:0,3", server_and(0, 3)),
        ("server + clients:3,0", server_and(0, 3)),
        ("Client:2", Observer(clients=frozenset({2}))),
        ("clients 1, 2", Observer(clients=frozenset({1, 2}))),
        ("second-server", Observer(frozenset({SECOND_SERVER}))),
        ("second server", Observer(frozenset({SECOND_SERVER}))),
        ("dealer+client:1", Observer(frozenset({DEALER}), frozenset({1}))),
        ("server+second server", Observer(frozenset({SERVER, SECOND_SERVER}))),
        ("network", NETWORK),
    ],
)
def test_an_observer_is_named(text: str, observer: Observer) -> None:
    assert named(text) == observer


@given(st.sets(st.sampled_from([SERVER, SECOND_SERVER, DEALER])), st.sets(st.integers(0, 99), max_size=4))
def test_an_observer_is_named_as_reports_name_it(servers: set[int], clients: set[int]) -> None:
    if servers or clients:
        observer = Observer(frozenset(servers), frozenset(clients))
        assert named(observer.name) == observer
    assert named(NETWORK.name) == NETWORK


@pytest.mark.parametrize(
    "text",
    ["", "servers", "server+", "client", "client:", "client:x", "client:-1", "client:3,3", "server,client:0", "server+network"],
)
def test_a_name_of_nobody_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        named(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("whom", "words"),
    [
        ((server_and(9),), "there is no client 9; there are 0 to 5"),
        ((server_and(*range(6)),), "nobody is left"),
        ((named("dealer"),), "there is no dealer"),
    ],
)
def test_clients_that_there_are_not_are_found_out_before_anything_is_played(whom: Sequence[Observer], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        audited(scenario, QUICK, (0,), None, quiet=True, against=whom)


# --- how strong it is -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MadeUp:
    """Finds as much of every victim as a table says, by observer; of anybody else nothing, in clear everything."""

    table: dict[str, list[float]]
    name: str = "made up"
    unit: str = "share"
    side: str = "nothing"
    source: str = "a test"
    anchor: Anchor = "sums alone"
    seen: list[str] = field(default_factory=list)

    def applies(self, evidence: Evidence, /) -> str:
        return ""

    def __call__(self, evidence: Evidence, truth: Any, budget: Budget, rng: np.random.Generator, /) -> Finding:
        observer = evidence.view.observer
        victims = tuple(i for i in evidence.view.public.clients if i not in observer.clients)
        if evidence.pooled is not None or evidence.released == {}:  # an anchor
            return Finding(victims, np.full(len(victims), float(evidence.pooled is not None)))
        self.seen.append(observer.name)
        return Finding(victims, np.array([self.table[observer.name][i] for i in victims]))


@cache
def played() -> Stage:
    return next(one for one in stages(scenario, [0], None) if isinstance(one, Stage))


TRIED = (SERVER_ALONE, server_and(0), server_and(0, 1), Observer(clients=frozenset({0, 1})), NETWORK)
NAMES = [observer.name for observer in members_first(TRIED)]


def tried(table: dict[str, list[float]], observers: Sequence[Observer] = TRIED) -> dict[str, Row]:
    return {row.observer: row for row in rows([played()], observers, [MadeUp(table)], (), QUICK)}


@pytest.mark.trains
@settings(max_examples=25)
@given(st.lists(st.lists(st.floats(0, 1), min_size=6, max_size=6), min_size=len(NAMES), max_size=len(NAMES)))
@pytest.mark.long
def test_no_coalition_is_measured_weaker_than_its_members(values: list[list[float]]) -> None:
    table = dict(zip(NAMES, values, strict=True))
    found = tried(table)
    assert set(found) == {observer.name for observer in TRIED}
    for coalition in TRIED[:-1]:
        row = found[coalition.name]
        honest = [i for i in range(6) if i not in coalition.clients]
        inside = [o.name for o in members_first(TRIED) if o.parties and o.parties < coalition.parties]
        best = max(np.mean([table[name][i] for i in honest]) for name in (coalition.name, *inside))
        assert row.leakage is not None
        assert row.leakage.here == pytest.approx(best)
        assert (
            row.by in inside if row.by else abs(row.leakage.here - np.mean([table[coalition.name][i] for i in honest])) <= ALIKE
        )
    assert found["network"].by == ""


@pytest.mark.trains
def test_whose_guess_stands_in_a_row_is_said() -> None:
    table = {name: [0.1] * 6 for name in NAMES} | {"client 1": [0.6] * 6}
    found = tried(table, (server_and(0, 1), SERVER_ALONE))
    assert found["server and clients 0, 1"].by == "client 1"
    assert found["server and clients 0, 1"].as_dict()["by"] == "client 1"
    assert found["server"].by == ""


def test_of_equals_the_coalitions_own_guess_stands_and_nobody_is_needed() -> None:
    one = (Finding((1, 2), np.array([0.2, 0.4])),)
    assert strongest(one, {"server": one}) == (one, "")
    assert strongest((Finding((), np.zeros(0)),), {"server": one})[1] == ""
    nothing = (Finding((1, 2), np.full(2, np.nan)),)
    assert strongest(one, {"server": nothing})[1] == ""
    assert strongest(one, {"client 3": (Finding((2, 3), np.array([0.9, 0.0])),)})[0][0].values.tolist() == [0.2, 0.9]


@pytest.mark.long
@pytest.mark.trains
def test_a_server_that_compares_about_the_origin_is_not_weakened_by_a_client() -> None:
    """Measured: alone .14 of the updates, by its own attack with a client .05, as long as the latter was all that was tried."""
    swapped = LabelSwap(clients=9, groups=3, pairs=((1, 7), (3, 8), (4, 9)), shared_test=True)
    weak = replace(scenario, partition=swapped, training=Training(epochs=3, batch=10, lr=0.1), protection=Masked(sketch=8))
    stage = next(one for one in stages(weak, [0], None) if isinstance(one, Stage))
    found = {row.observer: row for row in rows([stage], [SERVER_ALONE, server_and(0)], [UpdateRecovery()], (), QUICK)}
    alone, both = found["server"], found["server and client 0"]
    victims = [i for i in alone.findings[0].victims if i != 0]
    of = dict(zip(alone.findings[0].victims, alone.findings[0].values, strict=True))
    assert both.leakage is not None
    assert both.leakage.here >= np.mean([of[i] for i in victims]) - 1e-12


def test_of_a_victim_of_whom_a_coalition_read_more_it_has_what_it_read_whoever_finds_more_in_the_mean():
    """Before: the server's guess was better in the mean, and a client that three others knew wholly had its guess alone."""
    mine = Finding((1, 2, 9), np.array([0.0, 0.0, 0.5]), records={1: (0, 30), 2: (0, 30), 9: (24, 30)})
    server = Finding((1, 2, 9), np.array([0.4, 0.4, 0.2]), records={1: (0, 30), 2: (0, 30), 9: (0, 30)})
    (best,), by = strongest((mine,), {"server": (server,)})
    assert (best.values.tolist(), best.records, by) == ([0.4, 0.4, 0.5], {1: (0, 30), 2: (0, 30), 9: (24, 30)}, "")
    (best,), by = strongest((server,), {"clients 3, 4": (mine,)})
    assert (best.values.tolist(), best.records[9], by) == ([0.4, 0.4, 0.5], (24, 30), "")
