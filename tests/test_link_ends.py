"""A client whose stream comes while the coordinator ends is told so: it does not wait for a coordinator that will not be back."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from cloister.protocol.links import dialled
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import Limits, grpc_or_words
from cloister.protocol.links.words import WORD

grpc_or_words()


def test_who_comes_when_the_others_have_been_told_is_told_that_it_is_over():
    def greeting(party):  # in the loop: the run ends between a stream's entering and its first word
        listener._ending.over = True
        listener._ending.begun.set()
        return b"hello"

    listener = Listener("127.0.0.1:0", (0,), greeting, None, Limits())
    link = Dialled(f"127.0.0.1:{listener.start()}", None, 0, patience=1.0)
    try:
        assert link.start() == b"hello"
        assert list(link.words()) == []
        assert link.over
    finally:
        link.stop()
        listener.stop()


def test_a_link_that_is_stopped_before_or_while_it_waits_for_its_first_word_says_so():
    for stopped_first in (True, False):
        link = Dialled("127.0.0.1:1", None, 0, patience=600.0)
        if stopped_first:
            link.stop()
        else:
            threading.Timer(0.5, link.stop).start()
        with pytest.raises(ConnectionError, match="was ended before it was there") as caught:
            link.start()
        assert stopped_first or "nobody listens there" in str(caught.value)
        assert link.ended.wait(10)
        assert not link.over


def test_a_port_in_use_is_said_in_words_and_nothing_beside_them(capfd: pytest.CaptureFixture[str]) -> None:
    """gRPC wrote lines of its own to stderr, of a kind that no operator can use."""
    there = Listener("127.0.0.1:0", (0,), lambda client: b"", None, Limits())
    port = there.start()
    try:
        with pytest.raises(OSError, match=rf"cannot listen on 127.0.0.1:{port}: another process listens there"):
            Listener(f"127.0.0.1:{port}", (0,), lambda client: b"", None, Limits()).start()
    finally:
        there.stop()
    assert capfd.readouterr().err == ""


def test_words_that_wait_are_bounded_in_bytes_and_one_is_taken_however_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: a coordinator had a client take 64 words of a gigabyte each while it worked on the first."""
    monkeypatch.setattr(dialled, "MOST_BYTES_WAITING", 100)
    link = Dialled("127.0.0.1:1", None, 0)

    async def play() -> None:
        await link._take(WORD.pack(1, 0) + bytes(500))  # one at least
        second = asyncio.create_task(link._take(WORD.pack(2, 0) + bytes(50)))
        await asyncio.sleep(0.2)
        assert not second.done()
        assert next(link.words())[0] == 1
        await asyncio.wait_for(second, 5)
        assert next(link.words())[0] == 2

    asyncio.run(play())


def test_an_answer_that_is_asked_for_again_and_again_is_said_once_while_nobody_takes_it() -> None:
    """Before: each question began to send the answer anew, and a coordinator that took none filled a client's memory."""
    link, begun, may_end = Dialled("127.0.0.1:1", None, 0), list[int](), asyncio.Event()

    async def send(*parts: bytes) -> None:
        begun.append(len(parts))
        await may_end.wait()

    async def play() -> None:
        await link._take(WORD.pack(1, 0) + b"word")
        link._taken.answered(1, bytes(1000))
        link._flow = SimpleNamespace(send=send)
        for _ in range(50):
            await link._take(WORD.pack(1, 0) + b"word")
        await asyncio.sleep(0)
        assert len(begun) == 1
        may_end.set()
        await asyncio.sleep(0.05)
        await link._take(WORD.pack(1, 0) + b"word")
        await asyncio.sleep(0.05)
        assert len(begun) == 2

    asyncio.run(play())
