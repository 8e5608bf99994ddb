"""One client, driven by frames alone: what a server that lies gets of it, and what it is after a restart."""

import logging
import struct

import cbor2
import numpy as np
import pytest

from cloister.crypto.entropy import KeptEntropy
from cloister.crypto.orthonormal import Permutation
from cloister.fl.runs.declines import SINCE_SPLIT
from cloister.fl.runs.joining import _declined
from cloister.protocol import Encrypted, Masked
from cloister.protocol.core.errors import OF_SPLIT
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.journal import InMemory
from cloister.protocol.encrypted.clients import encrypting_clients
from cloister.protocol.encrypted.messages import EncryptedSumRequest
from cloister.protocol.masked.clients import masking_clients
from cloister.protocol.uploaded.clients import transforming_clients
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import Envelope, decode, encode
from cloister.protocol.wire.messages import Task
from cloister.protocol.wire.recipes import Recipe, RoundOver
from cloister.protocol.work.driving import BEGUN, Driven
from cloister.protocol.work.said import said

D, RUN, CLIENTS, ME = 64, bytes(range(16)), (0, 2, 3, 5), 3
INITIAL, OTHER = np.random.default_rng(0).standard_normal((2, D)).astype(np.float32)


def computer(jobs):
    for job in jobs:
        row = np.random.default_rng([job.round, 9]).standard_normal(D).astype(np.float32) / 4
        slots = np.stack([row, np.zeros(D, np.float32)])
        yield job.client, LocalWork(slots, 10, (1, 0)) if job.work == "slots" else LocalWork(row, 10)


def driven(maker, journal=None, entropy=None):
    """A client that holds a seed."""
    setup = Setup(RUN, INITIAL, CLIENTS, computer, entropy or KeptEntropy(), others=(OTHER,), starts_apart=True)
    found = Driven(ME, setup, maker, journal or InMemory())
    if not found.client.roles:
        enrolled = {use: dict.fromkeys(CLIENTS, public) for use, public in found.client.public.items()}
        found.client.rejoin(enrolled, bytes(range(32)))
        found.begun()
    return found


def task(work, round, models, **of):
    session = Session(f"uploads/{work}", RUN, round, "root", CLIENTS, 1)
    vector = of.pop("vector", b"")
    return session.digest, Task(*session.fields, work, models, vector, **of)


def sent(found, digest, message):
    """The kinds of what it sends, and the first message."""
    followed = found.arrived(SERVER, encode(Envelope(digest, SERVER, ME, message)))
    kinds = [kind for _, kind, _ in followed.sent]
    first = decode(followed.sent[0][2], ME, 1 << 26, found._kinds).message if followed.sent else None
    return kinds, first, followed.refused


@pytest.mark.parametrize(
    "words",
    [("deadline", "work"), ("deadline", "seed"), ("hello", "seed"), ("left out", "seed"), ("holds", "seed"), ("begin",),
     ("drop", "x"), ("alone", 0, "init", None, "x"),
     ("frame", SERVER, encode(Envelope(bytes(32), SERVER, ME, RoundOver(("init",)))))],
    ids=lambda words: words[0],
)  # fmt: skip
def test_who_came_in_the_middle_of_a_round_takes_no_notice_of_the_rest_of_it_and_blames_nobody(words):
    """Before: its data owner's record had "a word that this client could not take: KeyError"."""
    setup = Setup(RUN, INITIAL, CLIENTS, computer, KeptEntropy())
    client = Driven(ME, setup, masking_clients(Masked(floor=2)), InMemory())
    found = said(client, cbor2.dumps(words))
    assert found.refused == ()
    assert not found.sent
    assert cbor2.loads(found.data) in ([[], [], []], [], False)
    assert found.kind == ("RoundOver" if words[0] == "frame" else "")  # it is on its record what it was sent
    enrolled = {use: dict.fromkeys(CLIENTS, public) for use, public in client.client.public.items()}
    assert cbor2.loads(said(client, cbor2.dumps(["enrol", enrolled])).data) is True
    assert client.client.roles


def test_a_start_that_the_server_knows_does_not_sort_the_places_of_a_permutation():
    client = driven(transforming_clients(Permutation, "run"))
    weights = struct.pack(">dd", 1 - 1e5, 1e5)
    sent(client, bytes(32), Recipe("amplified", ("init", "init 1"), weights))
    for round, name in enumerate(("amplified", "init 1")):
        kinds, word, _ = sent(client, *task("update", round, ("init",), own=name))
        assert kinds == ["Declined"]
        assert "everybody knows" in word.reason
    client._journal.replace({}, but=frozenset({BEGUN}))
    client.keep()
    again = driven(transforming_clients(Permutation, "run"), client._journal, KeptEntropy())
    assert sent(again, *task("update", 3, ("init",), own="amplified"))[0] == ["Declined"]


def test_who_came_after_a_split_says_so_in_its_log_and_once(caplog):
    """Its log said only at the end of the run that it was handed no model."""
    client, seen = driven(masking_clients(Masked(floor=2))), set()
    for round in (37, 38):
        digest, message = task("edge offset sketch", round, (f"root@{round}/update", "split 4"))
        work = task("update", round, ("init",), vector=INITIAL.tobytes())
        for about, asked in (work, (digest, message)):
            answer = said(client, cbor2.dumps(["frame", SERVER, encode(Envelope(about, SERVER, ME, asked))]))
            with caplog.at_level(logging.WARNING, "cloister.joining"):
                seen |= _declined(answer, seen)
        assert answer.declined == OF_SPLIT
    (line,) = [vars(of) for of in caplog.records if of.message == "declined"]
    assert (line["round"], line["why"]) == (37, f"{OF_SPLIT}: {SINCE_SPLIT}")


def test_one_work_is_sketched_one_way_whatever_rounds_the_server_names():
    client, vector = driven(masking_clients(Masked(floor=2))), INITIAL.tobytes()
    assert sent(client, *task("update", 3000, ("init",), vector=vector))[0] == ["Ready"]
    work = ("root@3000/update",)
    assert sent(client, *task("update offset sketch", 3000, work))[0] == ["OffsetSketched"]
    assert sent(client, *task("update sketch", 3000, work))[0] in ([], ["Declined"])
    for round in range(20):
        assert sent(client, *task("gradient", round, ("init",), vector=vector))[0] in ([], ["Declined"])
    assert sent(client, *task("update sketch", 2, work))[0] in ([], ["Declined"])
    assert sent(client, *task("recalled offset sketch", 3000, work))[0] == ["Declined"]
    assert len(client.client.roles["work"].held) == 1
    assert sent(client, *task("update", 2**31 - 1, ("init",), vector=vector))[0] == ["Declined"]


@pytest.mark.parametrize(
    ("maker", "frames"),
    [
        (transforming_clients(Permutation, "run"), [task("update", 0, ("init",), later=1)]),
        (
            encrypting_clients(Encrypted(floor=2)),
            [task("update", 0, ("init",)), ("encrypted sum/slots", "update")],
        ),
    ],
    ids=["later", "another kind of work"],
)
def test_no_frame_ends_a_clients_program(maker, frames):
    client = driven(maker)
    for frame in frames:
        if isinstance(frame[1], str):
            work = task("update", 0, ("init",))[0]
            session = Session(frame[0], RUN, 0, "root", CLIENTS, 2)
            weights = struct.pack(">d", 1.0) * len(CLIENTS)
            asked = EncryptedSumRequest(*session.fields, weights, 0, D, 0, bytes(32), bytes(32), bytes(64), work)
            frame = session.digest, asked
        sent(client, *frame)
    assert sent(client, *task("update", 1, ("init",)))[0] in (["Upload"], ["Ready"])


def test_a_client_that_is_restarted_before_anything_was_kept_holds_what_everybody_knows():
    of_permuted, of_masked = transforming_clients(Permutation, "run"), masking_clients(Masked(floor=2))
    for maker, vector in ((of_permuted, b""), (of_masked, INITIAL.tobytes())):
        journal, entropy = InMemory(), KeptEntropy()
        driven(maker, journal, entropy)
        again = driven(maker, journal, KeptEntropy())
        assert sent(again, *task("update", 0, ("init",), vector=vector))[0] in (["Upload"], ["Ready"])


def test_that_a_round_is_over_is_heard_once_however_often_it_is_said():
    client, vector = driven(masking_clients(Masked(floor=2))), INITIAL.tobytes()
    over, work = (bytes(31) + b"1", RoundOver(("init",))), client.client.roles["work"]
    for round in (0, 1):
        assert sent(client, *task("update", round, ("init",), vector=vector))[0] == ["Ready"]
        assert len(work.held) == 1
        sent(client, *over)
        assert len(work.held) == round  # the second time it comes in the middle of a round
    sent(client, bytes(32), RoundOver(("init",)))
    assert not work.held


def test_a_journal_whose_beginning_is_damaged_is_refused():
    journal = InMemory()
    journal.put({BEGUN: b"\x82\x01"})
    with pytest.raises(ValueError, match="not what a client stored"):
        driven(transforming_clients(Permutation, "run"), journal)
