"""A client whose stream comes while the coordinator ends is told so: it does not wait for a coordinator that will not be back."""

import threading

import pytest

from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import Limits, grpc_or_words

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
        with pytest.raises(ConnectionError, match="was ended before it was there"):
            link.start()
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
