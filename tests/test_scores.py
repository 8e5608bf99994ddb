"""Scores: what a client says of how well it predicts, once for as many rounds, and what a server takes of it."""

import struct

import cbor2
import numpy as np
import pytest

from cloister.crypto.entropy import KeptEntropy
from cloister.protocol import Plain
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.journal import InMemory
from cloister.protocol.drivers.roles import Deadline, Received
from cloister.protocol.messages import decode
from cloister.protocol.parts.models import Models
from cloister.protocol.parts.scores import Scores
from cloister.protocol.uploaded.clients import uploading_clients
from cloister.protocol.view.answers import Model
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalScore
from cloister.protocol.wire.codec import Envelope, encode
from cloister.protocol.wire.recipes import Lent
from cloister.protocol.wire.scores import Evaluate, Score
from cloister.protocol.work.driving import Driven
from cloister.protocol.work.said import said
from cloister.protocol.work.scoring import NOTHING, PROTOCOL, CollectingScores, ScoresCollected, score_of, server_step
from cloister.protocol.work.uploads import to_bytes

CLIENTS = (0, 2, 3)
MODEL = np.arange(6, dtype=np.float32)
SAID = Score(40, 30, struct.pack(">d", 0.5))


def nobody(jobs):
    raise AssertionError("nobody asked it to work")


def scorer(client, rounds, models):
    return None if client == 3 else LocalScore(40, 30 + client, float(models[0].sum()), len(models) - 1)


def setup_of(entropy, scores=scorer):
    return Setup(bytes(16), MODEL, CLIENTS, nobody, entropy, scorer=scores)


def driven(journal, client=2, scores=scorer):
    found = Driven(client, setup_of(KeptEntropy(), scores), uploading_clients(), journal)
    if not found.client.roles:
        found.met()
        found.enrol({})
    return found


def told(client, message, session=bytes(32)):
    frame = encode(Envelope(session, SERVER, client.client.id, message))
    return client.arrived(SERVER, frame)


def scores_in(followed):
    return [decode(data, 2, 1 << 20).message for _, _, data in followed.sent]


def test_a_client_says_it_once_for_as_many_rounds_also_after_it_was_killed():
    journal = InMemory()
    client = driven(journal)
    told(client, Lent("m", SERVER, b"", to_bytes(MODEL)))
    assert scores_in(told(client, Evaluate(4, ("m",)))) == [Score(40, 32, struct.pack(">d", 15.0))]
    for rounds in (4, 3, 1):
        again = told(client, Evaluate(rounds, ("m",)))
        assert not again.sent
        assert again.refused[0][0] == SERVER
    again = driven(journal)
    told(again, Lent("m", SERVER, b"", to_bytes(MODEL)))
    assert not told(again, Evaluate(4, ("m",))).sent
    assert scores_in(told(again, Evaluate(5, ("m", "m")))) == [Score(40, 32, struct.pack(">d", 15.0), 1)]


def test_a_score_is_of_the_round_that_is_over_whatever_the_last_task_was_of():
    """Before: of the last task, so that all scores of a client that trains by itself were of one round in its record."""
    client = driven(InMemory())
    told(client, Lent("m", SERVER, b"", to_bytes(MODEL)))
    client.asked = 1
    frame = encode(Envelope(bytes(32), SERVER, client.client.id, Evaluate(4, ("m",))))
    assert said(client, cbor2.dumps(["frame", SERVER, frame])).round == 3
    lent = encode(Envelope(bytes(32), SERVER, client.client.id, Lent("n", SERVER, b"", to_bytes(MODEL))))
    assert said(client, cbor2.dumps(["frame", SERVER, lent])).round == 1


@pytest.mark.parametrize("scores", [None, lambda *of: None])
def test_who_does_not_tell_says_so_and_nothing_else(scores):
    client = driven(InMemory(), scores=scores)
    told(client, Lent("m", SERVER, b"", to_bytes(MODEL)))
    assert scores_in(told(client, Evaluate(1, ("m",)))) == [NOTHING]


def test_a_client_without_the_model_says_nothing_of_it():
    assert scores_in(told(driven(InMemory()), Evaluate(1, ("another",)))) == [NOTHING]


@pytest.mark.parametrize("loss", [np.nan, np.inf, -np.inf, -1.0, -0.0, 0.0, 3.5])
def test_whatever_a_computer_finds_can_be_said(loss):
    said = score_of(LocalScore(4, 1, loss))
    assert said.nats == (np.inf if np.isnan(loss) else max(loss, 0.0))


def test_a_loss_above_what_float32_holds_is_infinite_so_that_no_mean_overflows():
    most = float(np.finfo(np.float32).max)
    assert [Score(1, 1, struct.pack(">d", loss)).nats for loss in (most, 1.01 * most, 1.7e308)] == [most, np.inf, np.inf]


@pytest.mark.parametrize(
    "of",
    [(-1,), (3, 4), (3, -1), (2**41, 0), (0, 0, bytes(8), 1), (3, 1, bytes(7)), (3, 1, bytes(8), 64), (True,)]
    + [(3, 1, struct.pack(">d", loss)) for loss in (np.nan, -1.0, -0.0)]
    + [(0, 0, struct.pack(">d", 1.0))],
)
def test_scores_that_cannot_be_are_refused(of):
    with pytest.raises(ValueError):
        Score(*of)


def test_a_server_takes_one_score_of_whom_it_asked_of_a_model_that_it_named():
    session = Session(PROTOCOL, bytes(16), 3, "all", CLIENTS, 1)
    state = CollectingScores(session, {0: 1, 2: 3})

    def said(score, sender):
        return Received(Envelope(session.digest, sender, SERVER, score))

    one_of_three = Score(1, 0, bytes(8), 2)
    state, _ = server_step(state, said(one_of_three, 2))
    for score, sender in ((one_of_three, 2), (SAID, 3), (Score(1, 0, bytes(8), 1), 0)):
        with pytest.raises(ProtocolError) as error:
            server_step(state, said(score, sender))
        assert error.value.blame == sender
    state, _ = server_step(state, Deadline())
    assert state == ScoresCollected(session, {2: one_of_three})
    with pytest.raises(ProtocolError):
        server_step(state, said(SAID, 0))


def test_who_told_is_in_the_disclosure_log_and_whom_nobody_told_is_not():
    view = Plain().open(setup_of(KeptEntropy()))
    scores = Scores(view.harness.run, view.harness.part(Models))
    found = scores.ask(3, dict.fromkeys(CLIENTS, (Model("init"),)))
    assert {i: (score.right, score.nats) for i, score in found.items()} == {0: (30, 15.0), 2: (32, 15.0)}
    (entry,) = view.record.log
    assert (entry.round, entry.recipient, entry.what, entry.about, entry.scalars) == (2, "server", "scores", (0, 2), 6)
    assert scores.ask(3, {0: (Model("init"),)}) == {}  # they have said it
    assert scores.ask(9, {}) == {}
