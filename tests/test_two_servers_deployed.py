"""Two servers and a dealer over links: the models of a simulation, crashes, parties that are away, and certificates of others."""

import json
import time

import pytest

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.runs.experiment import run
from cloister.fl.runs.joining import join
from cloister.fl.runs.serving import Listening as Served
from cloister.fl.runs.serving import serve
from cloister.protocol import TwoServer
from cloister.protocol.core.errors import Refused
from cloister.protocol.core.session import DEALER, SECOND_SERVER, SERVER
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import LinkRefused, grpc_or_words
from cloister.protocol.two_servers.aside import Aside
from cloister.protocol.two_servers.deployed import Listening, dealer, second_server

from .deployed import standing
from .deployed_two import LIMITS, apart, authority, deployment, scenario

grpc_or_words()
CLUSTERED = {
    "algorithm": CFL(thresholds=ScaleFree(eps1=0.9, eps2=0.1), patience=1),
    "protection": TwoServer(k=610, floor=2),  # as many as coordinates: inner products are exact, and the same in both
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return authority(tmp_path_factory.mktemp("two") / "pki")


def lines(folder, name):
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def summed(folder):
    """Of each round, whom its sums were about."""
    found = {}
    for line in lines(folder, "disclosure.jsonl"):
        if (line["recipient"], line["what"]) == ("server", "sums"):
            found.setdefault(line["round"], set()).update(line["about"])
    return found


def faults(folder):
    return [line["reason"] for line in lines(folder, "faults.jsonl")]


@pytest.mark.trains
@pytest.mark.parametrize("changes", [{}, CLUSTERED], ids=["sums", "inner products"])
def test_models_are_those_of_a_simulation(keys, tmp_path, changes):
    with deployment(keys, tmp_path, **changes) as played:
        rounds = list(played.serve())
        assert {party: found.wait() for party, found in played.parties.items()} == dict.fromkeys(played.parties, True)
    assert len(rounds) == scenario.rounds
    assert rounds[-1].clusters == (2 if changes else 1)
    list(run(played.scenario, tmp_path / "simulated"))
    assert apart(tmp_path / "served", tmp_path / "simulated") < 1e-5
    assert summed(tmp_path / "served") == summed(tmp_path / "simulated")
    assert not faults(tmp_path / "served")
    for client in range(6):
        told = {(one["what"], line["to"]) for line in lines(tmp_path / f"client {client}", "join.jsonl") for one in line.get("revealed", [])}
        assert told == {("ExplicitShare", "coordinator"), ("KeyShare", "second server")}
    said = [kind for word in played.parties[DEALER].said for _, kind, _ in word.followed.sent]
    assert said.count("KeyedTriple") == said.count("ExplicitTriple") == (len(said) // 2)
    assert bool(said) == bool(changes)


@pytest.mark.trains
def test_a_client_that_dies_is_left_out_of_its_round_and_back_in_the_next(keys, tmp_path):
    def fate(frame):
        if (frame.kind, frame.receiver, at["round"]) == ("Task", 3, 1):
            played.stop(3)
        return [frame]

    at = {"round": 0}
    with deployment(keys, tmp_path, faults=fate, rounds=4) as played:
        for done in played.serve():
            at["round"] = done.round
            if done.round == 2:
                played.parties[3].wait()
                played.client(3)
                until = time.monotonic() + 20
                while len(played.links[3]) < 2 or not all(link.connections for link in played.links[3]):
                    assert time.monotonic() < until
                    time.sleep(0.05)
    everybody = set(range(6))
    assert summed(tmp_path / "served") == {0: everybody, 1: everybody - {3}, 2: everybody, 3: everybody}


@pytest.mark.trains
def test_a_second_server_that_dies_opens_nothing_of_the_round_again_and_the_run_goes_on(keys, tmp_path):
    """It dies when it holds the keys, is started again from its journal, and is asked once more for what it opened before."""
    at = {"round": 0}
    again = []

    def fate(frame):
        if (frame.kind, at["round"]) == ("SumQuestion", 1) and not again:
            again.append(frame)
            played.stop(SECOND_SERVER)
            played.parties[SECOND_SERVER].wait()
            played.second(played.ports[SECOND_SERVER])
            return [frame, *at["before"]]
        if frame.kind in ("Task", "SumQuestion") and frame.receiver == SECOND_SERVER:
            at.setdefault("before", []).append(frame)
        return [frame]

    with deployment(keys, tmp_path, faults=fate, rounds=4) as played:
        for done in played.serve():
            at["round"] = done.round
        assert {party: found.wait() for party, found in played.parties.items()} == dict.fromkeys(played.parties, True)
    everybody = set(range(6))
    found = summed(tmp_path / "served")
    assert {t: about for t, about in found.items() if t != 1} == dict.fromkeys((0, 2, 3), everybody)
    assert 1 not in found
    refused = [reason for word in played.parties[SECOND_SERVER].said for _, reason in word.followed.refused]
    assert "a sum of updates that are not held, or no longer for sums" in refused
    assert "a question whose number was used before" in refused
    assert not any(kind == "SumAnswer" for word in played.parties[SECOND_SERVER].said[:4] for _, kind, _ in word.followed.sent)


@pytest.mark.trains
def test_a_second_server_that_lost_its_journal_takes_no_further_part(keys, tmp_path):
    with deployment(keys, tmp_path, rounds=2) as played:
        rounds = played.serve()
        next(rounds)
        played.stop(SECOND_SERVER)
        played.parties[SECOND_SERVER].wait()
        played.folder = tmp_path / "elsewhere"
        with pytest.raises(AssertionError, match="took part in this run before|is an older copy, or was lost"):
            played.second(played.ports[SECOND_SERVER])
        rounds.close()
