"""What links of one process have in common: one event loop, and in memory one of what many words say."""

import threading
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.protocol.core.halt import Halt, Halted
from cloister.protocol.links import background, flow
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.flow import PIECE_BYTES, cut
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import Limits, grpc_or_words

grpc_or_words()


def test_threads_that_ask_at_once_have_one_loop(monkeypatch):
    """gRPC loses events where there are several."""
    together, found, made = threading.Barrier(16), [], []
    begun = background._begun.__wrapped__

    def slow():
        made.append(begun())
        time.sleep(0.1)
        return made[-1]

    def ask():
        together.wait()
        found.append(background._loop())

    monkeypatch.setattr(background, "_begun", background.cache(slow))
    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len(made) == 1


@given(st.lists(st.binary(max_size=9), max_size=6), st.integers(1, 8))
def test_parts_are_cut_as_what_they_are_together(parts, size):
    whole = b"".join(parts)
    assert [b"".join(piece) for piece in cut(parts, size)] == [whole[at : at + size] for at in range(0, len(whole), size)]


@pytest.mark.long
def test_a_model_for_many_clients_is_in_memory_once_while_they_owe_an_answer():
    clients = tuple(range(30))
    listener = Listener("127.0.0.1:0", clients, lambda client: b"", None, Limits(), back=60.0)
    listener.start()
    try:
        model = bytes(range(256)) * (3 * PIECE_BYTES // 256)
        words = {client: b"to %02d" % client + model + b"end %02d" % client for client in clients}
        for client, word in words.items():
            listener.post(client, word)
            listener.post(client, b"a short one in between")
        assert listener.owing().keys() == set(clients)
        owed = {client: listener._owing.peers[client].owed[1] for client in clients}
        assert {client: b"".join(of.parts) for client, of in owed.items()} == words
        held = {id(part): len(part) for of in owed.values() for part in of.parts}
        assert sum(held.values()) < 2 * len(model) + len(clients) * PIECE_BYTES
    finally:
        listener.stop()


def test_what_was_heard_is_in_memory_no_longer_than_it_is_used():
    """A client that says nothing more keeps no room of its last long answer."""
    clients, long = tuple(range(6)), 4 * PIECE_BYTES
    listener = Listener("127.0.0.1:0", clients, lambda client: b"", None, Limits(), back=60.0)
    port = listener.start()
    there = [Dialled(f"127.0.0.1:{port}", None, client) for client in clients]
    tracemalloc.start()
    try:
        for one in there:
            one.start()
        listener.wait_for(len(clients), 60)
        for client, one in zip(clients, there, strict=True):
            number = listener.post(client, bytes(long))
            one.answer(next(one.words())[0], bytes(long))
            heard = listener.heard()
            assert (heard.client, heard.number, len(heard.data)) == (client, number, long)
            listener.done_with(heard)
        del heard  # the last one's answer is where it was received
        kept = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, flow.__file__)])
        assert sum(trace.size for trace in kept.traces) < long
    finally:
        tracemalloc.stop()
        for one in there:
            one.stop()
        listener.stop()


def test_a_listener_that_is_halted_waits_for_nobody():
    halt = Halt(asked=True)
    listener = Listener("127.0.0.1:0", (0, 1), lambda client: b"", None, halt=halt)
    listener.start()
    try:
        with pytest.raises(Halted):
            listener.heard()
        with pytest.raises(Halted):
            listener.wait_for(2, 60.0)
    finally:
        listener.stop()
