"""Links between processes: what they carry, what they survive, and whom they refuse."""

import asyncio
import atexit
import logging
import os
import random
import socket
import ssl
import tempfile
import threading
import time
import tracemalloc
import weakref
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import cbor2
import pytest

from cloister.protocol.core.session import SECOND_SERVER
from cloister.protocol.links import listener as listener_of_links
from cloister.protocol.links import streams
from cloister.protocol.links.attendance import Attendance
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.flow import HEAD, PIECE_BYTES, SMALL_BYTES, Flow, Misplaced
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.owing import Owing
from cloister.protocol.links.terms import (
    ClientRun,
    CoordinatorRun,
    Limits,
    LinkRefused,
    channel_credentials,
    grpc_or_words,
    hello,
    hello_of,
)
from cloister.protocol.links.words import ANSWER
from cloister.protocol.pki.standing import Standing

from .deployed import authority, of, standing, unlisted

grpc_or_words()

QUICK = Limits(greeting=1.0, patience=2.5, at_most=4.0, back=1.0)


@cache
def folder_of(name="ours"):
    """Of an authority with a coordinator and three clients."""
    place = tempfile.TemporaryDirectory()
    atexit.register(place.cleanup)
    return authority(Path(place.name) / name, 3)


class Shown(Standing):
    """A party that shows another certificate than its own."""

    def __init__(self, folder, shown):
        super().__init__(folder)
        self.shown = shown

    def credentials(self):
        return self.shown


def ours(party):
    return standing(folder_of(), party)


@contextmanager
def listening(clients=(0, 1), limits=QUICK, own=None):
    found = Listener("127.0.0.1:0", clients, lambda i: b"hello %d" % i, own or ours(-1), limits)
    found.start()
    try:
        yield found
    finally:
        found.stop()


def dialled(listener, client=0, patience=5.0, own=None):
    return Dialled(f"127.0.0.1:{listener.port}", own or ours(client), patience=patience)


def answering(link, wait=lambda data: None):
    """A client that answers every word with what it was told, twice."""

    def talk():
        try:
            for number, data in link.words():
                wait(data)
                link.answer(number, bytes(data) * 2)
        except ConnectionError:
            pass

    thread = threading.Thread(target=talk, daemon=True)
    thread.start()
    return thread


def test_long_words_wait_for_answers_to_those_before(monkeypatch):
    monkeypatch.setattr(listener_of_links, "_STILL", 20.0)
    go, posted = threading.Event(), []
    with listening(limits=replace(QUICK, patience=20.0, at_most=20.0, held=100_000)) as listener:
        for i in (0, 1):
            link = dialled(listener, i)
            link.start()
            answering(link, lambda data: go.wait())
        words = [os.urandom(90_000) for _ in range(3)]
        posting = threading.Thread(target=lambda: posted.extend(listener.post(k % 2, word) for k, word in enumerate(words)))
        posting.start()
        posting.join(0.3)
        assert posting.is_alive()  # the third, as the first two are 180 kB
        go.set()
        posting.join(10)
        heard = [listener.heard() for _ in words]
        assert not posting.is_alive()
        assert {bytes(one.data[:90_000]) for one in heard} == set(words)


def test_words_wait_for_no_answers_that_do_not_come_and_not_for_what_they_have_in_common(monkeypatch):
    monkeypatch.setattr(listener_of_links, "_STILL", 1.0)
    with listening(limits=replace(QUICK, patience=20.0, at_most=20.0, held=100_000)) as listener:
        for i in (0, 1):
            link = dialled(listener, i)
            link.start()
            answering(link, lambda data: threading.Event().wait(20))
        same = os.urandom(1_000_000)
        listener.post(0, same)
        before = listener._owing.held
        listener.post(1, same)
        assert before == listener._owing.held == len(same)
        begun = time.monotonic()
        for word in [os.urandom(90_000) for _ in range(20)]:
            listener.post(0, word)
        assert time.monotonic() - begun < 10  # one wait for all; a wait for each would be 20


@pytest.mark.long
def test_the_words_of_a_stage_do_not_wait_for_ever_though_answers_come_steadily(monkeypatch):
    monkeypatch.setattr(listener_of_links, "_IN_ALL", 1.0)
    with listening(limits=replace(QUICK, patience=20.0, at_most=20.0, held=1_000)) as listener:
        listener._may_wait = 1.0
        link = dialled(listener)
        link.start()
        answering(link, lambda data: threading.Event().wait(0.7))
        for _ in range(2):  # the second one may wait again
            begun = time.monotonic()
            for _ in range(8):
                listener.post(0, os.urandom(2_000))
            assert 0.9 < time.monotonic() - begun < 4  # one after the other it would be 4.9
            for _ in range(8):
                listener.heard()
            assert listener._owing.held == listener._owing.unsent == 0


def test_words_are_carried_and_answered_whatever_their_length():
    with listening() as listener:
        links = [dialled(listener, i) for i in (0, 1)]
        for link in links:
            assert link.start().startswith(b"hello ")
            answering(link)
        words = {}
        for size in (0, 1, SMALL_BYTES - 16, SMALL_BYTES, PIECE_BYTES - 16, PIECE_BYTES, 5 * PIECE_BYTES + 7):
            for client in (0, 1):
                data = os.urandom(size)
                words[client, listener.post(client, data)] = data
        for _ in range(len(words)):
            heard = listener.heard()
            assert heard.data == words.pop((heard.client, heard.number)) * 2
            listener.done_with(heard)
        assert not words
        assert listener.counted["refused"] == listener.counted["slow"] == listener.counted["displaced"] == 0
        for link in links:
            link.stop()


def test_the_coordinator_ends_and_clients_are_told():
    with listening() as listener:
        link = dialled(listener)
        link.start()
        talking = answering(link)
        assert listener.wait_for(1, 5) == (0,)
    talking.join(5)
    assert not talking.is_alive()


def of_another_authority(party=0):
    return replace(standing(folder_of("theirs"), party).credentials(), authority=ours(0).credentials().authority)


REFUSED = {
    "of another authority": (of_another_authority, ""),
    "expired": (lambda: unlisted(folder_of(), 0, int(time.time()) - 10 * 86_400), ""),
    "never listed": (lambda: unlisted(folder_of(), 0, int(time.time())), "the certificate is not in the directory"),
    "nobody of the run": (lambda: ours(2).credentials(), "nobody of this run"),
    "the coordinator's own": (lambda: ours(-1).credentials(), "nobody of this run"),
}


@pytest.mark.parametrize(("shown", "why"), REFUSED.values(), ids=REFUSED)
def test_who_has_no_certificate_of_the_run_gets_nothing(shown, why, caplog):
    """TLS ends where the certificate is none; where it is one and not of this run, the log says why."""
    with listening() as listener:
        link = dialled(listener, own=Shown(of(folder_of(), 0), shown()), patience=0.5)
        with pytest.raises(ConnectionError):
            link.start()
        link.stop()
        assert listener.present() == ()
        assert listener.counted["bytes_out"] == 0
        refused = [record for record in caplog.records if record.message == "refused"]
        assert all(record.why.startswith(why) for record in refused)
        assert bool(refused) == bool(why) == bool(listener.counted["refused"])


@pytest.mark.long
def test_a_client_refuses_a_coordinator_that_is_none():
    """Also another client of the same authority cannot pass for it."""
    for shown in (of_another_authority(-1), ours(1).credentials()):
        with listening(own=Shown(of(folder_of(), -1), shown)) as listener:
            link = dialled(listener, patience=0.5)
            with pytest.raises(ConnectionError):
                link.start()
            link.stop()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_of_an_older_version_is_refused(version):
    folder = of(folder_of(), 0)
    with listening() as listener:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = context.maximum_version = version
        context.load_verify_locations(folder / "authority.pem")
        context.load_cert_chain(folder / "link.pem", folder / "link.key")
        context.set_alpn_protocols(["h2"])

        def connect():
            with (
                socket.create_connection(("127.0.0.1", listener.port)) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as wrapped,
            ):
                return wrapped.version()

        if version == ssl.TLSVersion.TLSv1_3:
            assert connect() == "TLSv1.3"
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                connect()


def test_a_second_stream_of_a_client_takes_the_place_of_the_first():
    with listening(limits=Limits()) as listener:
        first, second = dialled(listener), dialled(listener)
        first.start()
        second.start()
        with pytest.raises(LinkRefused, match="took its place"):
            next(iter(first.words()))
        answering(second)
        listener.post(0, b"a")
        assert listener.heard().data == b"aa"
        assert listener.counted["displaced"] == 1
        second.stop()
        first.stop()


@pytest.mark.long
def test_who_moves_nothing_is_absent_and_is_back_when_it_has_answered():
    with listening() as listener:
        slow, quick = dialled(listener, 0), dialled(listener, 1)
        go = threading.Event()
        for link, wait in ((slow, lambda data: go.wait(20)), (quick, lambda data: None)):
            link.start()
            answering(link, wait)
        asked = [listener.post(0, b"a"), listener.post(0, b"b")]
        listener.post(1, b"c")
        heard = [listener.heard() for _ in range(3)]
        assert heard[0].data == b"cc"
        assert [(h.client, h.number, h.data) for h in heard[1:]] == [(0, asked[0], None), (0, asked[1], None)]
        assert listener.counted["slow"] == 1  # it says that it works, which is good for `at_most` and no longer
        listener.post(0, b"d")
        assert listener.heard().data is None  # at once: it still owes what was given up
        go.set()
        late = [listener.heard(), listener.heard()]
        assert [(h.late, h.data) for h in late] == [(True, b"aa"), (True, b"bb")]
        listener.post(0, b"e")
        assert listener.heard().data == b"ee"
        slow.stop()
        quick.stop()


@pytest.mark.long
def test_a_late_answer_is_taken_once_however_often_it_comes():
    """Else who was given up on could fill the coordinator's memory, and its journal."""
    with listening() as listener:
        link, go = dialled(listener), threading.Event()
        link.start()
        answering(link, lambda data: go.wait(20))
        asked = [listener.post(0, data) for data in (b"a", b"b")]
        assert [listener.heard().data for _ in asked] == [None, None]
        for number in (asked[0], asked[0], asked[0] + 7, asked[0]):
            link._background.result(link._flow.send(ANSWER.pack(number) + b"early"))
        go.set()
        assert [(h.number, h.data) for h in (listener.heard(), listener.heard())] == [(asked[0], b"early"), (asked[1], b"bb")]
        listener.post(0, b"c")
        assert listener.heard().data == b"cc"
        link.stop()


@pytest.mark.parametrize("version", [1 << 30_000, -1, 6.0, "6", None, [6]], ids=lambda version: str(type(version)))
def test_a_version_that_is_none_is_no_first_message(version):
    with pytest.raises(LinkRefused, match="not a client's first message"):
        hello_of(cbor2.dumps([version, 1, bytes(16), b"", b"", 0, 0]))


def test_who_was_slow_and_lost_its_connection_is_asked_again():
    """What it answers then has no way to go, and nobody asks for it once more."""
    with listening(limits=Limits(patience=1, at_most=1, back=10)) as listener:
        link, go = dialled(listener), threading.Event()
        link.start()
        answering(link, lambda data: go.wait(20))
        listener.wait_for(1, 5)
        listener.post(0, b"a")
        assert listener.heard().data is None
        flow = listener._owing.peers[0].flow
        listener._background.soon(partial(setattr, flow, "over", True))
        with suppress(Exception):  # it may be over already
            link._background.result(link._flow.working())
        while listener._owing.peers[0].flow is flow:
            time.sleep(0.01)
        go.set()
        while listener.present() == ():
            time.sleep(0.01)
        number = listener.post(0, b"b")
        while (heard := listener.heard()).number != number:
            assert heard.late
        assert heard.data == b"bb"
        link.stop()


def test_a_lost_connection_is_made_again_and_nothing_is_done_twice():
    with listening(limits=Limits(back=10, patience=10)) as listener:
        link, done = dialled(listener), []
        link.start()
        listener.wait_for(1, 5)

        def cut(data):
            done.append(data)
            if data in (b"1", b"3"):  # the stream ends under it
                peer, before = listener._owing.peers[0], link._flow
                flow = peer.flow
                listener._background.soon(partial(setattr, flow, "over", True))
                with suppress(Exception):  # it may be over already
                    link._background.result(before.working())
                while peer.flow in (None, flow) or link._flow in (None, before):
                    time.sleep(0.01)

        answering(link, cut)
        words = [b"%d" % k for k in range(6)]
        numbers = {listener.post(0, word): word for word in words}
        for _ in words:
            heard = listener.heard()
            assert heard.data == 2 * numbers.pop(heard.number)
        assert done == words
        assert link.connections >= 2
        link.stop()


def test_another_life_of_a_process_is_not_asked_what_the_one_before_was():
    with listening(limits=Limits(back=20, patience=20)) as listener:
        first = dialled(listener)
        first.start()
        listener.wait_for(1, 5)
        listener.post(0, b"a")
        next(first.words())
        first.stop()
        second = dialled(listener)
        second.start()
        assert listener.heard().data is None
        answering(second)
        listener.post(0, b"b")
        assert listener.heard().data == b"bb"
        second.stop()


def test_a_long_word_is_let_go_of_while_the_next_is_waited_for():
    with listening() as listener:
        link = dialled(listener)
        link.start()
        listener.post(0, bytes(2 * SMALL_BYTES))
        words = link.words()
        number, word = next(words)
        link.answer(number, b"")
        there = weakref.ref(word)
        del word
        waiting = threading.Thread(target=partial(next, words, None), daemon=True)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        assert there() is None
        link.stop()


def with_run(run, back=5.0, limits=Limits(), port=0):
    listener = Listener(f"127.0.0.1:{port}", (0, 1), lambda i: b"hello", ours(-1), limits, run, back)
    listener.start()
    return listener


def test_a_coordinator_that_was_started_again_is_answered_once_and_the_same():
    """What it has the answer of it does not ask; what it lost it asks again; the client does nothing twice."""
    done = []
    first = with_run(CoordinatorRun(b"run", 1, {0: 3}, {}, {0: 1}))
    link = dialled(first, patience=30.0)
    assert link.start() == b"hello"
    answering(link, done.append)
    for number, word in enumerate((b"a", b"b", b"c"), 1):
        first.post(0, word, number)
        assert first.heard().data == word * 2
    port = first.port
    first.stop(over=False)
    second = with_run(CoordinatorRun(b"run", 2, {0: 4}, {0: 1}, {0: 1}), port=port)
    for number, word in ((2, b"b"), (3, b"c"), (4, b"d")):
        second.post(0, word, number)
    assert sorted((h.number, h.data) for h in (second.heard() for _ in range(3))) == [(2, b"bb"), (3, b"cc"), (4, b"dd")]
    assert done == [b"a", b"b", b"c", b"d"]
    assert link.seen == ClientRun(b"run", 2, 0)
    link.stop()
    second.stop()


def test_another_life_of_a_client_says_that_it_kept_no_answer():
    listener = with_run(CoordinatorRun(b"run", 1, {0: 2}))
    link = dialled(listener)
    link.start(ClientRun(b"run", 1, 1))
    done = []
    answering(link, done.append)
    for number, word in ((1, b"a"), (2, b"b")):
        listener.post(0, word, number)
    assert sorted((h.number, h.data) for h in (listener.heard(), listener.heard())) == [(1, None), (2, b"bb")]
    assert done == [b"b"]
    link.stop()
    listener.stop()


OLDER = {
    "a coordinator's, by its words": (
        CoordinatorRun(b"run", 2, {0: 4}),
        ClientRun(b"run", 1, 5),
        "coordinator's journal is an older copy",
    ),
    "a coordinator's, by its lives": (
        CoordinatorRun(b"run", 2, {0: 9}),
        ClientRun(b"run", 3, 5),
        "coordinator's journal is an older copy",
    ),
    "a client's": (CoordinatorRun(b"run", 2, {0: 9}, {0: 6}), ClientRun(b"run", 1, 5), "journal of client-0 is an older copy"),
    "a client's, all of it": (
        CoordinatorRun(b"run", 1, {0: 9}, {0: 6}),
        ClientRun(),
        "journal of client-0 is an older copy, or was lost",
    ),
    "another run's": (CoordinatorRun(b"run", 1, {0: 9}), ClientRun(b"another", 1, 5), "another run"),
}


@pytest.mark.parametrize(("run", "seen", "words"), OLDER.values(), ids=OLDER)
def test_an_older_copy_of_a_journal_is_noticed_and_refused_in_words(run, seen, words):
    listener = with_run(run)
    link = dialled(listener)
    with pytest.raises(LinkRefused, match=words):
        link.start(seen)
    link.stop()
    assert listener.counted["refused"] == 1
    assert [words in why for why in listener.lost().values()] == [True] * words.startswith("journal of client-0")
    listener.post(1, b"a", 10)  # others are served
    other = dialled(listener, 1)
    other.start()
    answering(other)
    assert listener.heard().data == b"aa"
    other.stop()
    listener.stop()


def test_a_client_tells_a_coordinator_of_another_run_at_the_same_address():
    first = with_run(CoordinatorRun(b"run"))
    link = dialled(first, patience=30.0)
    link.start()
    port = first.port
    first.stop(over=False)
    second = with_run(CoordinatorRun(b"another"), port=port)
    with pytest.raises(LinkRefused, match="another run"):
        next(iter(link.words()))
    link.stop()
    second.stop()


def test_other_versions_refuse_each_other_in_words(monkeypatch):
    first = bytes(hello(bytes(16))[:2])
    other = bytes([first[0], 9])
    monkeypatch.setattr("cloister.protocol.links.dialled.hello", lambda *of: hello(*of).replace(first, other, 1))
    with listening() as listener:
        link = dialled(listener)
        with pytest.raises(LinkRefused, match=r"all parties need the same release"):
            link.start()
        link.stop()
    boot, challenge = bytes(16), bytes(32)
    wrong = (
        hello(bytes(15)),
        hello(boot, bytes(31)),
        hello(boot, challenge, ClientRun(bytes(99))),
        hello(boot, b"", ClientRun(b"", -1)),
    )
    for first in (b"", b"\x80", b"\xff" * 90, *wrong, b"\x81" * 4096, os.urandom(200)):
        with pytest.raises(LinkRefused):
            hello_of(first)
    assert hello_of(hello(boot, challenge, ClientRun(b"run", 2, 3))) == (boot, challenge, ClientRun(b"run", 2, 3))


# --- the order of pieces ---------------------------------------------------------------------------------------------------


async def taken(pieces, most=1 << 30):
    """What one side takes of these pieces."""
    waiting = iter(pieces)

    async def read():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return next(waiting, None)

    async def write(piece):
        assert HEAD.unpack_from(piece)[0] == 4  # nothing but grants

    flow = Flow(read, write, most, asyncio.Semaphore(1), lambda: None)
    return [bytes(arrived.data) async for arrived in flow.messages()]


def piece(kind, number=0, index=0, of=1, total=0, content=b""):
    return HEAD.pack(kind, number, index, of, total) + content


HUGE = [piece(3, total=1 << 62)]
BAD = {
    "a huge length": HUGE,
    "a length over what is taken": [piece(3, total=1 << 31)],
    "an offer of what is short": [piece(3, total=10)],
    "a long message without an offer": [piece(2, 0, 0, 2, 2 * PIECE_BYTES, bytes(PIECE_BYTES))],
    "a length that is not the content's": [piece(2, 0, 0, 1, 10, bytes(9))],
    "a number that is not due": [piece(2, 1, 0, 1, 1, b"a")],
    "a piece twice": [piece(3, total=3 * PIECE_BYTES), piece(5), *[piece(2, 0, 0, 3, 3 * PIECE_BYTES, bytes(PIECE_BYTES))] * 2],
    "two offers": [piece(3, total=1 << 20), piece(3, total=1 << 20)],
    "a kind that is none": [piece(99)],
    "too short": [b"\x02"],
    "too long": [piece(2, 0, 0, 1, PIECE_BYTES + 1, bytes(PIECE_BYTES + 1))],
}


@pytest.mark.parametrize("pieces", BAD.values(), ids=BAD)
def test_pieces_out_of_order_end_a_stream(pieces):
    with pytest.raises(Misplaced):
        asyncio.run(taken(pieces))


def test_a_grant_of_a_message_that_is_over_admits_no_piece_of_the_next():
    """It did, and where no slot was free the receiver ended the stream of an honest client for good."""

    async def play():
        of, total = 3, 3 * PIECE_BYTES
        wrote, come = [], asyncio.Queue()

        async def write(said):
            wrote.append(HEAD.unpack_from(said)[:3])

        flow = Flow(come.get, write, 1 << 30, asyncio.Semaphore(1), lambda: None)
        hearing = asyncio.create_task(anext(flow.messages()))
        sending = [asyncio.create_task(flow.send(bytes(total))) for _ in range(2)]
        for grant in (piece(4, 0, of, 0, total), piece(4, 0, 2 * of, 0, total)):
            await asyncio.sleep(0.01)
            come.put_nowait(grant)
        await asyncio.sleep(0.01)
        assert wrote == [(3, 0, 0), *((2, 0, k) for k in range(of)), (3, 1, 0)]  # the second is offered, and waits
        come.put_nowait(piece(4, 1, of, 0, total))
        await asyncio.gather(*sending)
        assert wrote[-of:] == [(2, 1, k) for k in range(of)]
        hearing.cancel()

    asyncio.run(play())


def test_a_length_that_is_only_declared_reserves_nothing_until_it_is_admitted():
    async def play():
        offered = [piece(3, total=1 << 30)]

        async def read():
            await asyncio.sleep(0.01)
            return offered.pop() if offered else piece(5)

        async def write(_):
            pass

        taken = asyncio.Semaphore(0)  # all slots are
        flow = Flow(read, write, 1 << 30, taken, lambda: None)
        hearing = asyncio.create_task(anext(flow.messages()))
        await asyncio.sleep(0.3)
        assert flow.waits
        assert not hearing.done()
        hearing.cancel()

    tracemalloc.start()
    asyncio.run(play())
    assert tracemalloc.get_traced_memory()[1] < 10 << 20
    tracemalloc.stop()


def test_random_pieces_end_a_stream_and_nothing_else():
    draw = random.Random(0)

    def drawn():
        if draw.random() < 0.2:
            return draw.randbytes(draw.randrange(60))
        kind, total = draw.choice((2, 3, 4, 5, 6, draw.randrange(256))), draw.choice((0, 1, 5, 70_000, 1 << 40))
        return piece(kind, draw.randrange(3), draw.randrange(3), draw.randrange(4), total, draw.randbytes(draw.choice((0, 1, 5))))

    async def play():
        for _ in range(10_000):
            try:
                found = await taken([drawn() for _ in range(4)], 1 << 18)
            except Misplaced:
                continue
            assert all(len(data) <= SMALL_BYTES for data in found)

    asyncio.run(play())


def test_who_says_nothing_is_let_go():
    """A stream that does not greet ends, and those that do are served."""
    import grpc

    with listening() as listener:
        target = (("grpc.ssl_target_name_override", "coordinator"),)
        credentials = channel_credentials(ours(0).credentials())
        with grpc.secure_channel(f"127.0.0.1:{listener.port}", credentials, options=target) as channel:
            silent = threading.Event()

            def nothing():
                silent.wait(20)
                yield b""

            call = channel.stream_stream("/cloister.Link/Stream")(nothing())
            with pytest.raises(grpc.RpcError) as ended:
                next(call)
            assert ended.value.code() == grpc.StatusCode.FAILED_PRECONDITION
            silent.set()
        assert listener.counted["refused"] == 1
        assert listener.present() == ()


@pytest.mark.long
def test_who_waits_for_another_party_before_it_reads_a_word_is_absent_and_not_at_work():
    """A client that a second server did not let in said for half an hour that it worked, and the run waited for it."""
    with listening(limits=Limits(patience=1.5, at_most=60.0)) as listener:
        link = dialled(listener)
        link.start()
        with link.waiting():
            listener.post(0, b"a")
            began = time.monotonic()
            assert listener.heard().data is None
            assert time.monotonic() - began < 20
        answering(link)
        late = listener.heard()
        assert (late.data, late.late) == (b"aa", True)
        listener.post(0, b"b")
        assert listener.heard().data == b"bb"
        link.stop()


def test_a_stream_that_is_cancelled_while_it_ends_leaves_nobody_who_seems_to_be_there(monkeypatch):
    """The end of a client's stream cancels what serves it, which may be in the middle of clearing up after it."""

    async def cancelled(*tasks, **_):
        await asyncio.gather(*tasks, return_exceptions=True)
        raise asyncio.CancelledError

    monkeypatch.setattr(streams, "asyncio", SimpleNamespace(**vars(asyncio) | {"gather": cancelled}))
    with listening() as listener:
        link = dialled(listener)
        link.start()
        answering(link)
        end = time.monotonic() + 30
        while listener.present() != (0,) and time.monotonic() < end:
            time.sleep(0.01)
        assert listener.present() == (0,)
        link.stop()
        while listener.present() and time.monotonic() < end:
            time.sleep(0.01)
        assert listener.present() == ()


def test_without_certificates_it_listens_on_this_machine_alone():
    with pytest.raises(ValueError, match="loopback"):
        Listener("0.0.0.0:0", (0,), lambda i: b"", None)


def test_a_word_to_who_was_greeted_a_moment_ago_is_to_one_who_is_there(monkeypatch):
    """A client hears that it is there before the coordinator's next step; a word lost in between was waited for without end."""
    begin = Flow.begin

    async def slowly(self, first):
        await begin(self, first)
        await asyncio.sleep(0.3)

    monkeypatch.setattr(Flow, "begin", slowly)
    with listening() as listener:
        link = dialled(listener)
        link.start()
        answering(link)
        listener.post(0, b"a")
        assert listener.heard().data == b"aa"
        link.stop()


def test_of_whom_nobody_knows_whether_they_are_back_is_named_once(caplog):
    """Before: after a coordinator's restart nothing was logged while it waited for one that was away."""
    caplog.set_level(logging.INFO)
    limits = Limits()
    owing = Owing((0, 1, SECOND_SERVER), limits, CoordinatorRun(), back=200.0)
    attendance = Attendance(owing, SimpleNamespace(), None, limits)
    for client in (1, SECOND_SERVER):
        asyncio.run(owing.posted(client, (b"word",), 4, None))
    now = time.monotonic()
    for later in (1.0, 20.0, 40.0):
        attendance.name_awaited(now + later)
    said = [record for record in caplog.records if record.msg == "waits for who may be back"]
    assert [(one.parties, one.seconds) for one in said] == [(["second-server", "client-1"], 180)]


def test_a_second_server_with_an_older_journal_is_named():
    """Before: "client -2"."""
    with pytest.raises(LinkRefused, match="the journal of second-server is an older copy"):
        CoordinatorRun(b"run", 2, {SECOND_SERVER: 9}, {SECOND_SERVER: 6}).check(SECOND_SERVER, ClientRun(b"run", 1, 5))
