"""What a client or the dealer has for the second server: given when it is there; what the first server says in their place."""

import queue
import threading
from contextlib import nullcontext
from types import SimpleNamespace

import cbor2
import numpy as np
import pytest

from cloister.crypto.entropy import KeptEntropy, OsEntropy
from cloister.fl.runs.joining import _start
from cloister.protocol.core.errors import ProtocolError, Refused
from cloister.protocol.core.session import DEALER, SECOND_SERVER, SERVER, Session
from cloister.protocol.drivers.journal import InMemory
from cloister.protocol.drivers.roles import Party
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.two_servers.aside import MOST, Aside
from cloister.protocol.two_servers.clients import sharing_clients
from cloister.protocol.two_servers.helper import Helper, Welcome, frame_in
from cloister.protocol.two_servers.messages import KeyedTriple, KeyShare
from cloister.protocol.two_servers.protection import TwoServer
from cloister.protocol.two_servers.second import second_step
from cloister.protocol.two_servers.second_state import Second
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import Envelope, encode
from cloister.protocol.wire.messages import Task
from cloister.protocol.work.driving import TWICE, Driven, Followed
from cloister.protocol.work.said import said
from cloister.protocol.work.uploads import Policy

RUN = bytes(range(16))
HOW = TwoServer(k=4)
TERMS = HOW.terms(6)


class Link:
    """A link to the second server that is played here. answers: by the number of the question."""

    def __init__(self, drawn=RUN):
        self.drawn, self.answers, self._words = drawn, {}, queue.SimpleQueue()

    def start(self):
        return self.drawn

    def ask(self, number, session):
        self._words.put((number, session))

    def words(self):
        while (word := self._words.get()) is not None:
            if isinstance(word, Exception):
                raise word
            yield word

    def answer(self, number, data):
        assert number not in self.answers
        self.answers[number] = data

    def stop(self):
        self._words.put(None)


@pytest.fixture
def aside():
    """Whose thread is the test's own: `asked` hands it questions."""
    found = Aside(Link())

    def asked(*questions):
        for number, session in questions:
            found.link.ask(number, session)
        found.link.stop()
        found._play()
        return found.link.answers

    found.asked = asked
    return found


def session(round, roster=(0, 1, 2)):
    return Session("two servers/update", RUN, round, "root", roster, 1)


def key_of(client, of, to=SECOND_SERVER):
    share = KeyShare(TERMS.binding(of), bytes(32), bytes(32))
    return encode(Envelope(of.digest, client, to, share))


def task_of(of, to):
    return encode(Envelope(of.digest, SERVER, to, Task(*of.fields, "update", ("init",), b"")))


def test_a_question_is_answered_whether_it_comes_before_the_frame_or_after(aside):
    first, second = session(0), session(1)
    assert aside.asked((1, first.digest)) == {}
    aside.followed(task_of(first, 0), [key_of(0, first)])
    assert aside.link.answers == {1: key_of(0, first)}
    aside.followed(task_of(second, 0), [key_of(0, second)])
    assert aside.asked((2, second.digest))[2] == key_of(0, second)


def test_where_there_is_nothing_the_answer_is_empty_and_so_is_that_to_older_questions(aside):
    lost, declined, other = session(0), session(1), session(2)
    aside.asked((1, lost.digest), (2, declined.digest))
    aside.followed(task_of(declined, 0), [])
    assert aside.link.answers == {1: b"", 2: b""}
    assert aside.asked((3, b"no session")) == {1: b"", 2: b"", 3: b""}
    aside.asked((4, other.digest))
    aside.followed(b"no frame", [])
    assert 4 not in aside.link.answers
    aside.followed(task_of(other, 0), [key_of(0, other)])
    aside.followed(task_of(other, 0), [])  # once more: what there is stays
    assert aside.asked((5, other.digest))[5] == key_of(0, other)


def test_questions_that_never_end_do_not_pile_up(aside):
    answers = aside.asked(*((n, session(n).digest) for n in range(1, 3 * MOST)))
    assert len(answers) == 2 * MOST - 1
    assert set(answers.values()) == {b""}


def test_a_link_that_fails_is_found_out_and_another_run_is_refused():
    aside = Aside(Link())
    aside.link._words.put(ConnectionError("gone"))
    aside._play()
    with pytest.raises(ConnectionError, match="gone"):
        aside.check()
    with pytest.raises(Refused, match="another run"):
        Aside(Link(bytes(16))).start(RUN)


def test_a_client_that_does_not_reach_the_second_server_says_so_where_the_coordinator_ends_meanwhile():
    """Before: "the link was ended before it was there", of which nobody could say whose it was."""
    ended = threading.Event()
    threading.Timer(0.5, ended.set).start()
    beside = SimpleNamespace(waiting=nullcontext, ended=ended, over=False, words=lambda: iter(()))
    words = "^the link to the second-server at 127.0.0.1:1 was ended before it was there: nobody listens there"
    with pytest.raises(ConnectionError, match=words):
        _start(Aside(Dialled("127.0.0.1:1", None, 0, server=SECOND_SERVER)), beside, RUN)


@pytest.mark.parametrize("given", [True, False], ids=["the key was given", "it was not"])
def test_a_client_that_is_killed_before_its_journal_has_the_word_gives_no_second_key(given, aside):
    """Its round is spent by then. The first server has no share of it, and so neither counts it: no sum is of other updates."""
    of, journal = session(0), InMemory()
    task = Task(*of.fields, "update", ("init",), bytes(4 * 6))
    word = cbor2.dumps(["frame", SERVER, encode(Envelope(of.digest, SERVER, 0, task))])

    def life():
        setup = Setup(RUN, np.zeros(6, np.float32), of.roster, trained, KeptEntropy())
        return Driven(0, setup, sharing_clients(HOW), journal)

    first = life()
    assert not said(first, cbor2.dumps(["enrol", {}])).refused
    once = said(first, word)
    assert [kind for kind, _ in once.aside] == ["KeyShare"]
    assert [kind for kind, _ in once.sent] == ["ExplicitShare"]
    if given:
        aside.followed(once.told, [frame for _, frame in once.aside])
        assert aside.asked((1, of.digest)) == {1: once.aside[0][1]}
    # It is killed here: its journal says nothing of the word, which is said again.
    again = said(life(), word)
    assert (again.aside, again.sent) == ((), ())
    assert again.refused == ((SERVER, TWICE),), "it did not answer; that it is spent is why"
    back = Aside(Link())
    back.followed(again.told, [])
    back.link.ask(2, of.digest)
    back.link.stop()
    back._play()
    assert back.link.answers == {2: b""}, "there is nothing: the second server waits for none"


def trained(jobs):
    for job in jobs:
        yield job.client, LocalWork(np.ones(6, np.float32), 1)


# --- what the first server might say -----------------------------------------------------------------------------------------


@pytest.fixture
def second():
    return Helper(Party(SECOND_SERVER, Second(RUN, TERMS, Policy(min_cohort=1), OsEntropy()), second_step), InMemory())


def taken(helper, sender, frame):
    found = Followed()
    helper.take(sender, frame, found)
    return found


def test_the_first_server_speaks_for_no_client_and_no_dealer(second):
    """Nor does a client for another one, or for the dealer."""
    of = session(0)
    assert not taken(second, SERVER, task_of(of, SECOND_SERVER)).refused
    triple = encode(Envelope(of.digest, DEALER, SECOND_SERVER, KeyedTriple(bytes(32), bytes(32))))
    for link, frame in [(SERVER, key_of(1, of)), (0, key_of(1, of)), (SERVER, triple), (0, triple), (DEALER, key_of(1, of))]:
        assert taken(second, link, frame).refused == [(link, "a message that names other parties than its link")]
    assert not second.role.state.sessions[of.digest].keys
    assert not taken(second, 1, key_of(1, of)).refused
    assert set(second.role.state.sessions[of.digest].keys) == {1}


def test_a_key_that_is_sent_again_is_not_taken_for_another_session(second):
    """Nor after a crash, when its session is closed: its binding is that of one session of one run."""
    first, other = session(0), session(1)
    for of in (first, other):
        taken(second, SERVER, task_of(of, SECOND_SERVER))
    again = encode(Envelope(other.digest, 1, SECOND_SERVER, KeyShare(TERMS.binding(first), bytes(32), bytes(32))))
    assert taken(second, 1, again).refused == [(1, "a key of another session or of other terms")]


WORDS = [b"\xff", cbor2.dumps(["frame", 3, b"x"]), cbor2.dumps(["public"]), cbor2.dumps(["frame", -1, 7])]


@pytest.mark.parametrize("word", WORDS, ids=["no word", "of a client", "not a frame", "no bytes"])
def test_words_that_are_none_are_refused(word):
    with pytest.raises(ProtocolError) as refused:
        frame_in(word)
    assert refused.value.blame == SERVER


def test_a_greeting_is_of_this_party_and_these_terms():
    welcome = Welcome(SECOND_SERVER, RUN, (0, 1, 4), 6, repr(HOW))
    assert Welcome.of(welcome.data) == welcome
    welcome.check(SECOND_SERVER, HOW)
    with pytest.raises(Refused, match="takes dealer for another party"):
        welcome.check(DEALER, HOW)
    with pytest.raises(Refused, match="where this party agrees to"):
        welcome.check(SECOND_SERVER, TwoServer(k=4, floor=4))
    for data in (b"", cbor2.dumps([SECOND_SERVER, RUN, [1, 0], 6, ""]), cbor2.dumps([SECOND_SERVER, b"", [0], 6, ""])):
        with pytest.raises(Refused, match="what the coordinator says first"):
            Welcome.of(data)
