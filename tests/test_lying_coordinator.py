"""A coordinator that says of others what is not so: it reads a client's update where it is believed, and is refused where not."""

from collections import deque
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cbor2
import numpy as np
import pytest

from cloister.crypto.entropy import KeptEntropy, OsEntropy
from cloister.fl.runs.joining import join
from cloister.fl.runs.listening import greeting_of
from cloister.fl.runs.parties import Parties
from cloister.protocol.core.errors import Refused
from cloister.protocol.drivers.journal import InFile, InMemory
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import grpc_or_words
from cloister.protocol.masked.clients import masking_clients
from cloister.protocol.pki import office
from cloister.protocol.pki.certificates import Untrusted
from cloister.protocol.pki.names import CLIENT_USES
from cloister.protocol.view.answers import Assignment, Model, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.work.driving import Driven
from cloister.protocol.work.linked import Linked
from cloister.protocol.work.said import said

from .deployed import DRAWN, HOW, INITIAL, D, authority, driven_by, greeting, nobody, of, standing, update_of
from .deployed_scenario import scenario

grpc_or_words()
CLIENTS, VICTIM = (0, 1, 2, 3), 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return authority(tmp_path_factory.mktemp("lying") / "pki", 6)


@dataclass
class Told:
    client: int
    number: int
    data: bytes
    late: bool = False


class Direct:
    """A link whose clients are here. said: what each made of its words."""

    def __init__(self, driven):
        self.driven, self.waiting, self.said = driven, deque(), {i: [] for i in driven}

    def post(self, client, data):
        found = said(self.driven[client], data)
        self.said[client].append(found)
        self.waiting.append(Told(client, len(self.said[client]), found.data))
        return len(self.said[client])

    def heard(self):
        return self.waiting.popleft()

    def heard_already(self):
        return self.waiting.popleft() if self.waiting else None

    def done_with(self, answer):
        pass


def puppet(client, run):
    """Of the coordinator's own making: its update is known, and so are its secrets."""

    def work(jobs):
        for job in jobs:
            yield job.client, LocalWork(np.zeros(D, np.float32), 10)

    return Driven(client, Setup(run, INITIAL, CLIENTS, work, KeptEntropy()), masking_clients(HOW), InMemory())


def attacked(own):
    """The coordinator is everybody but the victim. What its sum makes of the victim's update, and what the victim did."""
    victim = driven_by(greeting(DRAWN, CLIENTS, VICTIM), own)
    run = victim._setup.run
    link = Direct({i: victim if i == VICTIM else puppet(i, run) for i in CLIENTS})
    known = {i: dict(one.client.public) for i, one in link.driven.items()}  # of others, the puppets' identities
    hosts = Linked(link, CLIENTS, {use: {i: known[i].get(use, bytes(31) + bytes([i])) for i in CLIENTS} for use in CLIENT_USES})
    view = HOW.open(Setup(run, INITIAL, CLIENTS, nobody, OsEntropy(), hosts=hosts))
    updates = view.train(0, {"root": Assignment(Model("init"), CLIENTS, CLIENTS)})["root"]
    mean = view.sums(updates, {"m": Weights(dict.fromkeys(updates.clients, 1.0))})["m"]
    found = view.harness.observe(view.advance(Model("init"), mean))
    return len(mean.clients) * found, link.said[VICTIM]


def test_who_believes_the_coordinator_of_others_is_read():
    """As clients without certificates do, and as all did before there was a directory."""
    found, did = attacked(None)
    assert "MaskedInput" in [kind for one in did for kind, _ in one.sent]
    assert np.allclose(found, update_of(VICTIM, 0), atol=1e-3)


def test_who_has_a_directory_leaves_before_it_has_said_anything(folder):
    found, did = attacked(standing(folder, VICTIM))
    (refused,) = next(one.refused for one in did if one.word == "enrol")
    assert refused[0] == -1
    assert refused[1].startswith("the coordinator shows an identity of client 0 for 'pair seed' that is not in the directory")
    assert not any(one.sent for one in did)
    assert np.allclose(found, 0, atol=1e-3)
    assert not (of(folder, VICTIM) / "runs").exists()


LIES = {
    "another identity of one other": lambda map: map["sums"].update({1: bytes(32)}),
    "another identity of one's own": lambda map: map["sums"].update({VICTIM: bytes(32)}),
    "of another use": lambda map: map["seed"].update({1: map["sums"][1]}),
    "two that are exchanged": lambda map: map["sums"].update({0: map["sums"][1], 1: map["sums"][0]}),
    "one client less": lambda map: map["seed"].pop(1),
    "one client more": lambda map: map["pairs"].update({5: bytes(32)}),
    "a use less": lambda map: map.pop("sums"),
    "a use more": lambda map: map.update({"more": map["sums"]}),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_each_lie_is_refused_with_the_liars_name(folder, lie):
    own = standing(folder, VICTIM)
    driven = driven_by(greeting(DRAWN, CLIENTS, VICTIM), own)
    shown = {use: dict(one) for use, one in own.directory.enrolled(CLIENTS).items()}
    lie(shown)
    ((blame, reason),) = said(driven, cbor2.dumps(["enrol", shown])).refused
    assert blame == -1
    assert reason.startswith("the coordinator shows")
    assert not driven.client.roles


@pytest.mark.parametrize("shown", [7, None, {}, [], {"sums": 7}, {"sums": {}}, {use: {0: b""} for use in CLIENT_USES}])
def test_what_is_no_map_is_refused_likewise(folder, shown):
    driven = driven_by(greeting(DRAWN, CLIENTS, VICTIM), standing(folder, VICTIM))
    assert said(driven, cbor2.dumps(["enrol", shown])).refused[0][1].startswith("the coordinator shows")


def test_clients_that_are_not_listed_and_a_client_that_is_taken_for_another(folder):
    own = standing(folder, VICTIM)
    for clients, words in (((0, 2, 7), "client-7 is not in the directory"), ((0, 2, 7, 8), "client-7, client-8 are not")):
        with pytest.raises(Untrusted, match=words):
            driven_by(greeting(DRAWN, clients, VICTIM), own)
    with pytest.raises(ValueError, match="no party's id"):
        driven_by(greeting(DRAWN, (-9, 2), VICTIM), own)
    newest = r"of version 1 here: take the authority's newest with `cloister keys accept KEYS public --authority FINGERPRINT`"
    with pytest.raises(Untrusted, match=newest):
        driven_by(greeting(DRAWN, (0, 2, 7), VICTIM), own)
    with pytest.raises(Untrusted, match="coordinator is not in the directory"):
        driven_by(greeting(DRAWN, (-1, 2), VICTIM), own)
    with pytest.raises(Refused, match="takes client-2 for another client"):
        driven_by(greeting(DRAWN, CLIENTS, 1), own)


def test_the_runs_name_is_of_the_directory_whatever_is_drawn(folder, tmp_path):
    """So no coordinator gives the name of a run of another authority, or of another name."""
    own, other = standing(folder, 0).directory, standing(authority(tmp_path / "other", 1), 0).directory
    names = {found.run_of(drawn) for found in (own, other) for drawn in (DRAWN, bytes(16))}
    assert len(names | {own.run, other.run, DRAWN}) == 7
    assert driven_by(greeting(DRAWN, CLIENTS, 0), standing(folder, 0))._setup.run == own.run_of(DRAWN)
    with pytest.raises(ValueError, match="16 bytes"):
        own.run_of(b"short")


def enrolled(driven, own):
    return said(driven, cbor2.dumps(["enrol", {use: dict(one) for use, one in own.directory.enrolled(CLIENTS).items()}]))


def test_a_run_that_is_played_again_finds_no_client_but_one_that_goes_on_from_its_journal(tmp_path):
    """A coordinator that draws what it drew before would have clients sign twice in one session."""
    own = standing(authority(tmp_path / "pki", 4), 1)
    mine = partial(driven_by, greeting(DRAWN, CLIENTS, 1), own)
    driven = mine(InFile(tmp_path / "journal"))
    assert not enrolled(driven, own).refused
    driven.begun()
    again = mine(InMemory())
    assert (
        enrolled(again, own).refused[0][1].startswith("client-1 took part in this run before, and what it kept of it is not here")
    )
    assert not again.client.roles
    gone_on = mine(InFile(tmp_path / "journal"))
    assert gone_on.client.roles
    assert gone_on.client.public == driven.client.public
    fresh = driven_by(greeting(bytes(16), CLIENTS, 1), own)
    assert not enrolled(fresh, own).refused


def test_identities_are_the_directorys_and_are_in_no_journal(tmp_path):
    keys = authority(tmp_path / "pki", 4)
    own = standing(keys, 1)
    driven = driven_by(greeting(DRAWN, CLIENTS, 1), own, InFile(tmp_path / "journal"))
    assert driven.client.public == own.directory.entries[1].identities
    enrolled(driven, own)
    driven.begun()
    stored = b"".join(InFile(tmp_path / "journal").read().values())
    assert len(stored) > 500
    assert not any(identity.secret in stored for identity in own.identities.values())
    office.rotate(keys, 0, None, identities=True, now=own._now)
    with pytest.raises(ValueError, match="began with other identities than the directory has now"):
        driven_by(greeting(DRAWN, CLIENTS, 1), standing(keys, 1), InFile(tmp_path / "journal"))


def test_the_command_ends_with_one_line_and_the_coordinator_hears_why(folder, tmp_path):
    """All of `join`, over gRPC, with a coordinator that puts its own key in the place of client 4's."""
    parties, own = Parties(scenario, None), standing(folder, -1)
    clients = parties.setup.clients
    listener = Listener("127.0.0.1:0", clients, greeting_of(parties, DRAWN), own)
    forged = {use: dict(one) for use, one in own.directory.enrolled(clients).items()}
    forged["sums"][4] = bytes(32)
    port = listener.start()
    linked = Linked(listener, clients, forged)
    try:
        joined = join(scenario, Dialled(f"127.0.0.1:{port}", standing(folder, 0), patience=10), tmp_path / "client 0")
        heard = []

        def tell():
            listener.wait_for(1, 20)
            heard.append(linked.ask(0, "enrol", forged))
            listener.stop()  # a client that stayed would wait

        import threading

        telling = threading.Thread(target=tell, daemon=True)
        telling.start()
        next(joined)
        with pytest.raises(
            Refused, match="this client leaves: the coordinator shows an identity of client 4 for 'sums'"
        ) as ended:
            next(joined)
        telling.join(10)
        assert "\n" not in str(ended.value)
        assert heard[0][2][0][1].startswith("the coordinator shows an identity of client 4")
    finally:
        listener.stop()
