"""A coordinator that tells one client of a deployment otherwise than the rest, or otherwise than before."""

from dataclasses import replace

import cbor2
import numpy as np
import pytest

from cloister.crypto.entropy import OsEntropy
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.journal import InMemory
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import CoordinatorRun, LinkRefused, grpc_or_words
from cloister.protocol.messages import decode
from cloister.protocol.view.answers import Assignment, Model, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.wire.codec import encode
from cloister.protocol.wire.messages import Task
from cloister.protocol.work.linked import Linked
from cloister.protocol.work.said import said

from .deployed import DRAWN, HOW, INITIAL, QUICK, D, authority, driven_by, greeting, nobody, standing, update_of
from .test_lying_coordinator import Direct

grpc_or_words()
ALL, VICTIM = (0, 1, 2, 3), 3
TELLING = {"MaskedInput", "SurvivorSignature", "Reveal"}


@pytest.fixture
def folder(tmp_path):
    return authority(tmp_path / "pki", 5)


class Telling(Direct):
    """otherwise: what each is said of a word."""

    def __init__(self, driven, otherwise):
        super().__init__(driven)
        self.otherwise, self.words = otherwise, {i: [] for i in driven}

    def post(self, client, data):
        told = self.otherwise(client, data)
        self.words[client].append(told)
        return super().post(client, told)


def played(folder, rosters, otherwise, journals=None):
    """A round of masked sums; the link, and what the server makes of the sum: who is in it, and their mean."""
    own = {i: standing(folder, i) for i in ALL}
    journals = journals or {i: InMemory() for i in ALL}
    driven = {i: driven_by(greeting(DRAWN, rosters[i], i), own[i], journals[i]) for i in ALL}
    link = Telling(driven, otherwise)
    hosts = Linked(link, ALL, own[0].directory.enrolled(ALL))
    view = HOW.open(Setup(driven[0]._setup.run, INITIAL, ALL, nobody, OsEntropy(), hosts=hosts))
    updates = view.train(0, {"root": Assignment(Model("init"), ALL, ALL)})["root"]
    answer = view.sums(updates, {"m": Weights(dict.fromkeys(updates.clients, 1.0))})["m"]
    return link, view, answer


def as_before(_, word):
    return word


def sent(link, client):
    return {kind for one in link.said[client] for kind, _ in one.sent}


def check_without_victim(view, answer):
    """Nothing of the victim's is in what the server opened, if it opened anything."""
    if clients := getattr(answer, "clients", ()):
        found = view.harness.observe(view.advance(Model("init"), answer))
        assert np.allclose(found, np.mean([update_of(i, 0) for i in clients], 0), atol=1e-3)
    assert VICTIM not in clients


# --- to one, and not to the others ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("roster", [(0, 2, 3), (0, 1, 2, 3, 4)], ids=["one less", "one more"])
def test_who_is_told_of_other_clients_is_in_no_sum_with_those_who_are_not(folder, roster):
    """Each roster is of the directory, so each client enrols: that they differ shows when they sign for one another."""
    shown = {use: dict(one) for use, one in standing(folder, VICTIM).directory.enrolled(roster).items()}

    def otherwise(client, word):
        what, *_ = cbor2.loads(word)
        return cbor2.dumps(["enrol", shown]) if client == VICTIM and what == "enrol" else word

    link, view, answer = played(folder, {i: roster if i == VICTIM else ALL for i in ALL}, otherwise)
    assert link.driven[VICTIM].client.roles  # it took what it was told
    assert not sent(link, VICTIM) & TELLING
    check_without_victim(view, answer)


def test_who_is_given_another_model_is_in_no_sum_with_those_who_are_not(folder):
    def otherwise(client, word):
        what, *of = cbor2.loads(word)
        if client != VICTIM or what != "frame":
            return word
        envelope = decode(of[1], SERVER, 1 << 20)
        if not isinstance(envelope.message, Task):
            return word
        forged = replace(envelope.message, vector=np.full(D, 2.0, "<f4").tobytes())
        return cbor2.dumps([what, of[0], encode(replace(envelope, message=forged))])

    link, view, answer = played(folder, dict.fromkeys(ALL, ALL), otherwise)
    assert [reason for one in link.said[VICTIM] for reason in one.refused] == [
        (SERVER, "a proposal for another model than the one received")
    ]
    assert not sent(link, VICTIM) & TELLING
    check_without_victim(view, answer)


# --- and than before ------------------------------------------------------------------------------------------------------


def test_a_coordinator_that_is_back_and_greets_otherwise_is_left(folder):
    """Under the same name of a run: of another it is told in words of its own (tests/test_links.py)."""
    greets = [b"greeting"]

    def listening(port=0):
        about = CoordinatorRun(b"run")
        found = Listener(f"127.0.0.1:{port}", (0,), lambda _: greets[0], standing(folder, SERVER), QUICK, about)
        found.start()
        return found

    first = listening()
    link = Dialled(f"127.0.0.1:{first.port}", standing(folder, 0), patience=20)
    link.start()
    first.stop(over=False)
    greets[0] = b"otherwise"
    second = listening(first.port)
    try:
        with pytest.raises(LinkRefused, match="the coordinator says otherwise than before who is in this run, or by what terms"):
            next(link.words())
    finally:
        link.stop()
        second.stop()


def test_who_goes_on_from_its_journal_takes_no_other_clients_for_those_of_its_run(folder):
    journals = {i: InMemory() for i in ALL}
    played(folder, dict.fromkeys(ALL, ALL), as_before, journals)
    own = standing(folder, VICTIM)
    for roster in ((0, 2, 3), (0, 1, 2, 3, 4)):
        with pytest.raises(ValueError, match="names other clients of this run than when this one joined it"):
            driven_by(greeting(DRAWN, roster, VICTIM), own, journals[VICTIM])
    assert driven_by(greeting(DRAWN, ALL, VICTIM), own, journals[VICTIM]).client.roles


def test_a_round_that_is_played_again_finds_nobody_who_goes_on_from_its_journal(folder):
    """The coordinator says word for word what it said in the round before, after which the client was started again."""
    journals = {i: InMemory() for i in ALL}
    link, _, answer = played(folder, dict.fromkeys(ALL, ALL), as_before, journals)
    assert answer.clients == ALL
    assert sent(link, VICTIM) >= TELLING
    back = driven_by(greeting(DRAWN, ALL, VICTIM), standing(folder, VICTIM), journals[VICTIM])
    again = [said(back, word) for word in link.words[VICTIM]]
    assert not {kind for one in again for kind, _ in one.sent} & TELLING
