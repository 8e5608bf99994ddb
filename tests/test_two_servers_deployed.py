"""Two servers and a dealer over links: the models of a simulation, crashes, parties that are away, and certificates of others."""

import json
import random
import subprocess
import sys
import time
from dataclasses import replace

import pytest

import cloister
from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.fedavg import Local
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.runs.experiment import run
from cloister.fl.runs.joining import join
from cloister.fl.runs.listening import Listening as Served
from cloister.fl.runs.lost_round import NothingLearned
from cloister.fl.runs.serving import serve
from cloister.protocol import Masked, TwoServer
from cloister.protocol.core.errors import RESTARTED, Refused
from cloister.protocol.core.session import DEALER, SECOND_SERVER, SERVER
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import LinkRefused, grpc_or_words
from cloister.protocol.two_servers.aside import Aside
from cloister.protocol.two_servers.deployed import ListeningAside, dealer, second_server
from cloister.protocol.wire.codec import first_items
from cloister.reporting.report import write_report

from .deployed import authority as authority_of_one
from .deployed import standing
from .deployed_two import LIMITS, Playing, apart, authority, deployment, scenario
from .example_files import EXAMPLES
from .served import Served as Played
from .served import check_same, one_at_a_time, simulated

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


def watched(rounds, at, then=lambda done: None):
    """Play them; `at` says which is over."""
    for done in rounds:
        at["round"] = done.round
        then(done)


def faults(folder):
    return [line["reason"] for line in lines(folder, "faults.jsonl")]


@pytest.mark.long
@pytest.mark.trains
@pytest.mark.parametrize("changes", [{}, CLUSTERED], ids=["sums", "inner products"])
def test_models_are_those_of_a_simulation(keys, tmp_path, changes):
    with deployment(keys, tmp_path, **changes) as played:
        rounds = list(played.serve())
        assert {party: found.wait() for party, found in played.parties.items()} == dict.fromkeys(played.parties, True)
    assert len(rounds) == scenario.rounds
    simulated = list(run(played.scenario, tmp_path / "simulated"))
    assert [done.clusters for done in rounds] == [done.clusters for done in simulated]
    assert apart(tmp_path / "served", tmp_path / "simulated") < 1e-5
    assert summed(tmp_path / "served") == summed(tmp_path / "simulated")
    assert not faults(tmp_path / "served")
    for client in range(6):
        told = {
            (one["what"], line["to"])
            for line in lines(tmp_path / f"client {client}", "join.jsonl")
            for one in line.get("revealed", [])
        }
        assert told == {("ExplicitShare", "coordinator"), ("KeyShare", "second server")}
        beside = [line["second"] for line in lines(tmp_path / f"client {client}", "join.jsonl") if "second" in line]
        assert beside[-1:] == [{"back": True}]  # its link to the second server is on record too
    said = [kind for word in played.parties[DEALER].said for _, kind, _ in word.followed.sent]
    assert said.count("KeyedTriple") == said.count("ExplicitTriple") == (len(said) // 2)
    assert bool(said) == bool(changes)


@pytest.mark.trains
@pytest.mark.long
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
@pytest.mark.long
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
    assert f"a sum of updates that are not held, {RESTARTED}, or no longer for sums" in refused
    assert "a question whose number was used before" in refused
    assert not any(kind == "SumAnswer" for word in played.parties[SECOND_SERVER].said[:4] for _, kind, _ in word.followed.sent)


@pytest.mark.trains
@pytest.mark.long
def test_a_second_server_that_is_killed_was_not_there_and_did_not_answer_amiss(keys, tmp_path):
    """A board read that one that was killed did not answer as it should, as if it had cheated."""

    def fate(frame):
        if (frame.kind, at["round"]) == ("SumQuestion", 1):
            played.stop(SECOND_SERVER)
        return [frame]

    def back(done):
        if done.round == 2:
            assert played.parties[SECOND_SERVER].wait()
            played.second(played.ports[SECOND_SERVER])

    at = {"round": 0}
    with deployment(keys, tmp_path, faults=fate, rounds=3) as played:
        watched(played.serve(), at, back)
    said = [line.get("unanswered") for line in lines(tmp_path / "served", "metrics.jsonl")]
    assert said == [None, "the second server was not there", None]


@pytest.mark.trains
@pytest.mark.long
def test_a_second_server_that_lost_its_journal_takes_no_further_part(keys, tmp_path):
    with deployment(keys, tmp_path, rounds=2) as played:
        rounds = played.serve()
        next(rounds)
        played.stop(SECOND_SERVER)
        played.parties[SECOND_SERVER].wait()
        played.folder = tmp_path / "elsewhere"
        with pytest.raises(AssertionError, match=r"took part in this run before|is an older copy, or was lost"):
            played.second(played.ports[SECOND_SERVER])
        rounds.close()


@pytest.mark.trains
@pytest.mark.long
def test_a_coordinator_that_dies_goes_on_from_its_journal_with_both_helpers(keys, tmp_path):
    def fate(frame):
        if (frame.kind, at["round"]) == ("GramAnswer", 1) and at["alive"]:
            at["alive"] = False
            raise OSError("the machine is gone")
        return [frame]

    at = {"round": 0, "alive": True}
    with deployment(keys, tmp_path, faults=fate, **CLUSTERED) as played:
        with pytest.raises(OSError, match="the machine is gone"):
            watched(played.serve(), at)
        rounds = list(played.serve(lambda port: None, port=played.ports[SERVER]))
        assert {party: found.wait() for party, found in played.parties.items()} == dict.fromkeys(played.parties, True)
    assert [done.round for done in rounds] == [2, 3]
    list(run(played.scenario, tmp_path / "simulated"))
    assert apart(tmp_path / "served", tmp_path / "simulated") < 1e-5
    asked = [word.what for word in played.parties[SECOND_SERVER].said]
    assert (
        asked.count("SumQuestion") == [line["what"] for line in lines(tmp_path / "served", "disclosure.jsonl")].count("sums") // 3
    )


@pytest.mark.trains
@pytest.mark.long
def test_without_a_dealer_there_are_sums_and_no_inner_products(keys, tmp_path):
    with deployment(keys, tmp_path) as played:
        assert len(list(played.serve(played.but(DEALER)))) == scenario.rounds
    assert summed(tmp_path / "served").keys() == set(range(scenario.rounds))
    with (
        deployment(keys, tmp_path / "clustered", **CLUSTERED) as played,
        pytest.raises(ConnectionError, match="after 3 s dealer not there; start what is missing"),
    ):
        list(played.serve(played.but(DEALER), wait=3.0))


@pytest.mark.trains
@pytest.mark.long
def test_a_dealer_that_dies_loses_a_round_and_is_waited_for(keys, tmp_path):
    def fate(frame):
        if frame.kind == "TripleRequest" and at["round"] in (1, 3):
            played.stop(DEALER)
        return [frame]

    at = {"round": 0}

    def back(done):
        if done.round == 2:
            assert played.parties[DEALER].wait()
            played.dealer()

    words = "after 4 s dealer not there; start what is missing, then this again"
    with (
        deployment(keys, tmp_path, faults=fate, rounds=5, **CLUSTERED) as played,
        pytest.raises(ConnectionError, match=words),
    ):
        watched(played.serve(wait=4.0), at, back)
    assert at["round"] == 4
    assert summed(tmp_path / "served").keys() == {0, 2}
    assert faults(tmp_path / "served")[0] == "gram of round 1 was not answered"


@pytest.mark.trains
@pytest.mark.long
def test_who_is_left_out_though_its_key_is_there_is_in_the_second_servers_log(keys, tmp_path, caplog):
    def lost(frame):
        return [] if (frame.sender, frame.kind) == (4, "ExplicitShare") else [frame]

    with deployment(keys, tmp_path, faults=lost, rounds=1) as played:
        list(played.serve())
        assert played.parties[SECOND_SERVER].wait()
    (line,) = [entry for entry in caplog.records if entry.msg == "left out by the coordinator"]
    assert (line.clients, line.round) == ([4], 0)
    assert summed(tmp_path / "served") == {0: set(range(6)) - {4}}


# --- who may be whom ------------------------------------------------------------------------------------------------------


def refused(link, seconds=4.0):
    """What a link ends with that finds nobody at its address whom it may talk to."""
    with pytest.raises((ConnectionError, LinkRefused)) as ended:
        link.start()
    assert link.connections == 0
    return str(ended.value)


@pytest.mark.long
@pytest.mark.parametrize("poser", [SERVER, DEALER, 3], ids=["the coordinator", "the dealer", "a client"])
def test_a_client_gives_its_key_to_nobody_but_the_second_server(keys, poser):
    """TLS ends before anything is said: the name of the certificate is another, and a client's is for no server at all."""
    listener = Listener("127.0.0.1:0", (0,), lambda party: b"x", standing(keys, poser), LIMITS)
    port = listener.start()
    try:
        assert "the second-server at" in refused(
            Dialled(f"127.0.0.1:{port}", standing(keys, 0), patience=1.0, server=SECOND_SERVER)
        )
    finally:
        listener.stop()


@pytest.mark.parametrize("caller", [SERVER, SECOND_SERVER], ids=["the coordinator", "itself"])
def test_the_second_server_takes_keys_and_triples_from_clients_and_the_dealer_alone(keys, caller):
    listener = Listener("127.0.0.1:0", (0, DEALER), lambda party: b"x", standing(keys, SECOND_SERVER), LIMITS)
    port = listener.start()
    try:
        link = Dialled(f"127.0.0.1:{port}", standing(keys, caller), patience=1.0, server=SECOND_SERVER)
        assert "nobody that is known there" in refused(link)
        assert listener.counted["refused"] >= 1  # a slow machine calls again
    finally:
        listener.stop()


@pytest.mark.parametrize("party", [SERVER, DEALER, 3], ids=["the coordinator", "the dealer", "a client"])
def test_keys_of_another_party_play_no_second_server(keys, tmp_path, party):
    link = Dialled("127.0.0.1:1", standing(keys, party), patience=1.0)
    with pytest.raises(Refused, match="the keys are of another party"):
        list(second_server(scenario.protection, link, tmp_path, ListeningAside("127.0.0.1:0")))
    if party != DEALER:
        with pytest.raises(Refused, match="the keys are of another party"):
            list(dealer(scenario.protection, link, Aside(link), tmp_path))


def test_a_certificate_of_a_client_is_a_client_to_the_coordinator_too(keys):
    """Whatever it says of itself: the coordinator tells a second server by its certificate."""
    listener = Listener("127.0.0.1:0", (3, SECOND_SERVER), lambda party: b"%d" % party, standing(keys, SERVER), LIMITS)
    link = Dialled(f"127.0.0.1:{listener.start()}", standing(keys, 3), SECOND_SERVER, patience=1.0)
    try:
        assert link.start() == b"3"
        assert listener.wait_for(1, 10) == (3,)
    finally:
        link.stop()
        listener.stop()


@pytest.mark.long
def test_a_second_server_holds_the_coordinator_to_its_own_terms(keys, tmp_path):
    with deployment(keys, tmp_path) as played:

        def start(port):
            played.ports[SERVER] = port
            played.scenario = replace(played.scenario, protection=TwoServer(k=128, floor=4))
            with pytest.raises(AssertionError, match="where this party agrees to TwoServer"):
                played.second()

        left = r"clients \[0, 1, 2, 3, 4, 5\] are not there.*; second-server left: the coordinator plays .* this party agrees to"
        with pytest.raises(ValueError, match=left):
            list(played.serve(start, wait=1.0))


@pytest.mark.long
def test_what_two_servers_need_is_said_before_anything_is_played(keys, tmp_path):
    one = authority_of_one(tmp_path / "pki", 6)
    for own, why in [(None, "TwoServer is played with --keys alone"), (standing(one, SERVER), "no second-server and no dealer")]:
        with pytest.raises(Refused, match=why):
            list(serve(scenario, tmp_path / "served", Served("127.0.0.1:0", own)))
    link = Dialled("127.0.0.1:1", standing(keys, 0), patience=1.0)
    with pytest.raises(Refused, match="a link to a second server too: give --second HOST:PORT"):
        list(join(scenario, link, tmp_path / "client"))
    with pytest.raises(Refused, match=r"--second is for TwoServer alone: this scenario.s protection is Masked"):
        list(join(replace(scenario, protection=Masked()), link, tmp_path / "client", aside=Aside(link)))
    bare = Dialled("127.0.0.1:1", None, 0, patience=1.0)
    with pytest.raises(Refused, match="with --keys alone"):
        list(join(scenario, bare, tmp_path / "client", aside=Aside(bare)))


@pytest.mark.trains
@pytest.mark.parametrize(
    ("seed", "changes"),
    [
        pytest.param(22, {}, id="sums"),
        pytest.param(7, CLUSTERED, id="compared", marks=pytest.mark.slow),
        pytest.param(17, CLUSTERED, id="more", marks=pytest.mark.slow),
    ],
)
@pytest.mark.long
def test_whenever_a_helper_is_killed_nothing_is_answered_twice_and_all_end_in_order(keys, tmp_path, seed, changes):
    """Four times, at frames that chance names: the second server mostly, or the dealer; each is started again."""
    chance, seen, lives = random.Random(seed), [0], []
    due = sorted(chance.sample(range(10, 160), 4))

    def kill(party):
        played.stop(party)
        played.parties[party].wait()
        if party == SECOND_SERVER:
            lives.append(played.parties[party])
            played.second(played.ports[SECOND_SERVER])
        else:
            played.dealer()

    def fate(frame):
        seen[0] += 1
        if due and seen[0] >= due[0]:
            due.pop(0)
            kill(chance.choice([SECOND_SERVER, SECOND_SERVER, DEALER]))
        return [frame]

    with deployment(keys, tmp_path, faults=fate, rounds=6, **changes) as played:
        assert len(list(played.serve())) == 6
        assert {party: found.wait() for party, found in played.parties.items()} == dict.fromkeys(played.parties, True)
        lives.append(played.parties[SECOND_SERVER])
    said = [(kind, first_items(frame, 2)[1]) for life in lives for word in life.said for _, kind, frame in word.followed.sent]
    assert len(set(said)) == len(said) > 0
    assert summed(tmp_path / "served")


@pytest.mark.slow
@pytest.mark.trains
def test_nine_processes_of_which_two_are_killed_end_with_the_models_of_a_simulation():
    """The demo says so itself; a second server that is away for a part of a round alone is not played again."""
    command = [sys.executable, str(EXAMPLES / "two_servers_demo.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "second-server is killed" in done.stdout
    assert f"processes:      {[0] * 9}" in done.stdout


@pytest.mark.trains
@pytest.mark.parametrize("kind", ["GramQuestion", "TripleRequest"], ids=["of the second server", "of the dealer"])
def test_in_a_simulation_too_a_question_without_an_answer_loses_a_round_and_no_more(tmp_path, kind):
    def lost(frame):
        return [] if (frame.kind, at["round"]) == (kind, 1) else [frame]

    at = {"round": 0}
    watched(run(replace(scenario, faults=lost, rounds=4, **CLUSTERED), tmp_path / "run"), at)
    assert at["round"] == 4
    assert summed(tmp_path / "run") == {t: set(range(6)) for t in (0, 2, 3)}
    assert faults(tmp_path / "run") == ["gram of round 1 was not answered"]


@pytest.mark.trains
@pytest.mark.parametrize(
    "changes",
    [{"algorithm": IFCA(models=2), "protection": TwoServer(k=128, floor=2)}, {"algorithm": Local()}],
    ids=["slots", "alone"],
)
@pytest.mark.long
def test_slots_and_clients_that_train_alone_are_those_of_a_simulation(keys, tmp_path, changes):
    with deployment(keys, tmp_path, rounds=2, **changes) as played, one_at_a_time():
        list(played.serve())
        assert {party: found.wait() for party, found in played.parties.items()} == dict.fromkeys(played.parties, True)
    found = Played(tmp_path / "served", {i: tmp_path / f"client {i}" for i in range(6)})
    check_same(found, simulated(played.scenario, tmp_path))
    assert found.summary["scored"]["clients"] == 6
    assert not faults(tmp_path / "served")


@pytest.mark.long
@pytest.mark.trains
def test_a_second_server_that_answers_nothing_more_is_named_where_the_run_ends(tmp_path):
    """It was told as clients that are too few, and learning rates."""

    def lost(frame):
        return [] if at["round"] and SECOND_SERVER in (frame.sender, frame.receiver) else [frame]

    at = {"round": 0}
    with pytest.raises(NothingLearned, match="no update of round 10 could be summed: the second server did not answer as it"):
        watched(run(replace(scenario, faults=lost, rounds=14), tmp_path / "run"), at)
    found = cloister.load(tmp_path / "run")
    assert found.ended.startswith("no update of round 10 could be summed: the second server did not answer as it should; see")
    assert f"that ended early: {found.ended}" in str(found)
    with pytest.raises(ValueError, match="ended early: no update of round 10"):
        found.accuracy  # noqa: B018
    assert lines(tmp_path / "run", "metrics.jsonl")[-1]["unanswered"] == "the second server did not answer as it should"
    page = write_report(tmp_path / "run").read_text()
    assert "Ended early, after round 9: no update of round 10 could be summed" in page
    assert "learned nothing from round 1 on: the second server did not answer as it should." in page
    assert "below the floor" not in page


@pytest.mark.trains
@pytest.mark.parametrize("kind", ["SumQuestion", "SumAnswer"])
def test_a_second_server_that_falls_silent_when_it_has_the_keys_is_named_too(tmp_path, kind):
    """The sum has clients enough: it was told as one that a client has too much of."""

    def lost(frame):
        return [] if at["round"] and frame.kind == kind else [frame]

    at, told = {"round": 0}, []
    with pytest.raises(NothingLearned, match="could be summed: the second server did not answer as it should"):
        watched(run(replace(scenario, faults=lost, rounds=14), tmp_path / "run"), at, lambda done: told.extend(done.stopped))
    assert {one.words for one in told} == {"the second server did not answer as it should"}


# --- who does not reach the second server ---------------------------------------------------------------------------------


def cut_off(played, patience):
    """What begins everybody, of whom clients look for the second server where nobody listens; and their plays."""
    joins = {}

    def start(port):
        played.ports[SERVER] = port
        played.second()
        for i in range(6):
            aside = Aside(Dialled("127.0.0.1:1", standing(played.keys, i), patience=patience, server=SECOND_SERVER))
            played.links.setdefault(i, []).append(aside.link)
            joins[i] = Playing(join(played.scenario, played.dialled(i), played.folder / f"client {i}", aside=aside))

    return start, joins


@pytest.mark.trains
@pytest.mark.long
def test_a_run_waits_for_clients_that_do_not_reach_the_second_server_and_goes_on_when_they_do(keys, tmp_path):
    """It ended before its first round, with `no client is ready`, and clients had to begin anew whatever their patience was."""
    with deployment(keys, tmp_path, rounds=1) as played:
        played.limits = replace(LIMITS, patience=2.0)
        start, joins = cut_off(played, 60.0)
        lacking = r"after 4 s none of the 6 that are there has answered \(none answers before it reaches the second server"
        with pytest.raises(ConnectionError, match=lacking):
            list(played.serve(start, wait=4.0))
        assert [play.ended for play in joins.values()] == [None] * 6, "they try on"
        for i, play in joins.items():
            played.stop(i)
            assert str(play.wait()).startswith("the link to the second-server at 127.0.0.1:1 was ended before it was there: ")
        assert len(list(played.serve(lambda port: [played.client(i) for i in range(6)], port=played.ports[SERVER]))) == 1
    assert summed(tmp_path / "served") == {0: set(range(6))}


@pytest.mark.trains
@pytest.mark.long
def test_clients_that_give_up_on_the_second_server_say_so_to_the_coordinator(keys, tmp_path):
    """Its last line named clients alone, and theirs said that a link was ended before it was there."""
    with deployment(keys, tmp_path, rounds=1) as played:
        start, joins = cut_off(played, 1.0)
        with pytest.raises(
            ValueError, match="no client is ready for the run; client-0 left: it does not reach the second server"
        ):
            list(played.serve(start, wait=20.0))
        for play in joins.values():
            assert "the second-server at 127.0.0.1:1 cannot be reached: nobody listens there" in str(play.wait())
