"""Clients that go away while the run's secret seed is agreed on: it begins again when enough are there, or says why not."""

import re
import threading
from collections import Counter
from dataclasses import replace

import pytest

from cloister.fl.runs import attempts, serving
from cloister.fl.runs.attempts import Attempts
from cloister.fl.runs.joining import join
from cloister.fl.runs.listening import Listening, wait_for_more
from cloister.fl.runs.member import Member
from cloister.fl.runs.serving import serve
from cloister.protocol.links.dialled import Dialled
from cloister.protocol.links.listener import Listener
from cloister.protocol.links.terms import IN_VAIN, Limits, LinkRefused, grpc_or_words

from .served import SMALL, one_at_a_time

grpc_or_words()
LEAVERS = (2, 3)
ONE = replace(SMALL, rounds=1)


class Crowd:
    """Four clients, of which three must hold the seed, in threads. ended: what each ended with; None: the run was over for it."""

    def __init__(self, folder):
        self.folder, self.ended, self.threads = folder, {}, {}

    def come(self, client, port):
        if client in self.threads:
            self.threads[client].join(20)  # its folder is free then
        self.threads[client] = threading.Thread(target=self._join, args=(client, port), daemon=True)
        self.threads[client].start()

    def come_all(self, port):
        for client in range(4):
            self.come(client, port)

    def come_again(self, port):
        for client in LEAVERS:
            self.come(client, port)

    def _join(self, client, port):
        try:
            link = Dialled(f"127.0.0.1:{port}", None, client, patience=60.0)
            for _ in join(ONE, link, self.folder / f"client {client}"):
                pass
            self.ended[client] = None
        except Exception as error:
            self.ended[client] = error

    def gone(self):
        for thread in self.threads.values():
            thread.join(20)


def leaving_at(monkeypatch, kind):
    """The leavers' disks are full, once, when they are told this; who has left."""
    left, said = set(), Member.said

    def failing(member, data):
        if (client := member._driven.client.id) in LEAVERS and client not in left and kind in bytes(data[:60]):
            left.add(client)
            raise OSError("no room")
        return said(member, data)

    monkeypatch.setattr(Member, "said", failing)
    return left


STAGES = pytest.mark.parametrize("kind", [b"hello", b"frame"], ids=["before anybody leads", "when others signed"])


@pytest.mark.long
@STAGES
@pytest.mark.trains
def test_an_exchange_that_lacked_a_client_is_begun_again_when_it_is_back(kind, tmp_path, monkeypatch):
    left, crowd, port = leaving_at(monkeypatch, kind), Crowd(tmp_path), []

    def told(where):
        port.append(where)
        crowd.come_all(where)

    def more(listener, clients, seconds):
        assert left == set(LEAVERS)
        crowd.come_again(port[0])
        wait_for_more(listener, clients, seconds)

    monkeypatch.setattr(serving, "wait_for_more", more)
    with one_at_a_time():
        (done,) = serve(ONE, tmp_path / "run", Listening("127.0.0.1:0", None, Limits(), 60.0, told=told))
        crowd.gone()
    assert done.round == 1
    assert crowd.ended == dict.fromkeys(range(4)), "the run is over for all, with a model"
    for i in range(4):
        assert (tmp_path / f"client {i}/model.safetensors").exists()
        assert '"refused"' not in (tmp_path / f"client {i}/join.jsonl").read_text(), "nobody is told twice who is who"


@pytest.mark.trains
@pytest.mark.long
def test_attempts_go_on_while_enough_are_there_though_many_came_to_nothing(tmp_path, monkeypatch):
    """Disks are full again and again, when a client is to seal or is sealed to. Three attempts were all that there were."""
    left, said = Counter(), Member.said

    def failing(member, data):
        client = member._driven.client.id
        if client in LEAVERS and left[client] < 4 and b"frame" in bytes(data[:60]):
            left[client] += 1
            raise OSError("no room")
        return said(member, data)

    monkeypatch.setattr(Member, "said", failing)
    monkeypatch.setattr(attempts, "SECOND_PAUSE", 0.01)
    crowd, port = Crowd(tmp_path), []

    def told(where):
        port.append(where)
        crowd.come_all(where)

    def more(listener, clients, seconds):
        crowd.come_again(port[0])
        wait_for_more(listener, 4, seconds)

    monkeypatch.setattr(serving, "wait_for_more", more)
    with one_at_a_time():
        (done,) = serve(ONE, tmp_path / "run", Listening("127.0.0.1:0", None, Limits(), 60.0, told=told))
        crowd.gone()
    assert done.round == 1
    assert left == {2: 4, 3: 4}
    assert crowd.ended == dict.fromkeys(range(4))


class Paused:
    """A listener, of whose pauses it is known how long they were."""

    def __init__(self):
        self.pauses = []

    def pause(self, seconds):
        self.pauses.append(seconds)


def test_attempts_of_one_life_have_growing_pauses_and_an_end_that_says_why():
    tried, listener = Attempts(), Paused()
    for _ in range(11):
        tried.failed("0 of 4 clients hold it")
        tried.pause(listener)
    assert listener.pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    why = "12 attempts came to nothing, of which the last: client 3: a second tag; those that are there wait"
    with pytest.raises(ConnectionError, match=f"^{why}.*give the same command again$"):
        tried.failed("client 3: a second tag")


@STAGES
@pytest.mark.trains
@pytest.mark.long
def test_a_coordinator_that_was_left_by_too_many_ends_and_goes_on_when_they_are_there(kind, tmp_path, monkeypatch):
    """With nobody's record lost: the clients that are there wait for its next life."""
    left, crowd, port = leaving_at(monkeypatch, kind), Crowd(tmp_path), []

    def told(where):
        port.append(where)
        crowd.come_all(where)

    def soon(listener, clients, seconds):
        wait_for_more(listener, clients, 0.1)

    with one_at_a_time():
        monkeypatch.setattr(serving, "wait_for_more", soon)
        with pytest.raises(ConnectionError) as ended:
            list(serve(ONE, tmp_path / "run", Listening("127.0.0.1:0", None, Limits(), 60.0, told=told)))
        why = "after 0.1 s 2 clients are there, and 3 must be for the run's secret seed; client-2 left: "
        assert str(ended.value).startswith(why)
        assert str(ended.value).endswith("those that are there wait; bring more, and give the same command again")
        assert left == set(LEAVERS)
        monkeypatch.setattr(serving, "wait_for_more", wait_for_more)
        crowd.come_again(port[0])
        (done,) = serve(ONE, tmp_path / "run", Listening(f"127.0.0.1:{port[0]}", None, Limits(), 60.0))
        crowd.gone()
    assert done.round == 1
    assert crowd.ended == dict.fromkeys(range(4))


@pytest.mark.long
def test_a_run_that_ends_before_its_first_round_is_not_over_for_clients(tmp_path, monkeypatch):
    """As who was not enrolled at first takes no part when the exchange is begun again. Without certificates the others know
    nothing of it: they would hold its signatures, and it theirs, for false ones. So it ends at once where too few are.
    """
    leaving_at(monkeypatch, b"public")
    crowd = Crowd(tmp_path)
    why = (
        "the run did not begin: 0 of 4 clients hold the group seed, 3 must: "
        "clients [2, 3] were not there when all were told who is who, and cannot take part"
    )
    with one_at_a_time(), pytest.raises(ValueError, match=re.escape(why) + ".*; give the same command"):
        list(serve(ONE, tmp_path / "run", Listening("127.0.0.1:0", None, Limits(), 60.0, told=crowd.come_all)))
    crowd.gone()
    for client in {0, 1, 2, 3} - set(LEAVERS):
        assert isinstance(crowd.ended[client], LinkRefused)
        assert re.fullmatch(f"{IN_VAIN}; when it begins anew, join it with another --folder", str(crowd.ended[client]))
    assert not (tmp_path / "run/journal").exists(), "the same command begins another run"


def test_who_is_behind_with_its_answers_is_not_there_yet():
    """Without an answer it is sent no words: attempts would follow one another, and end, while it catches up."""
    listener = Listener("127.0.0.1:0", (0,), lambda client: b"hello", None, Limits(patience=60.0, at_most=1.0))
    link = Dialled(f"127.0.0.1:{listener.start()}", None, 0, patience=5.0)
    try:
        link.start()
        number = listener.post(0, b"a word")
        words = link.words()
        assert next(words)[0] == number
        assert listener.heard().data is None
        assert (listener.present(), listener.ready()) == ((0,), ())
        with pytest.raises(ConnectionError, match="0 clients are there, and 1 must be for the run's secret seed"):
            wait_for_more(listener, 1, 0.1)
        link.answer(number, b"an answer")
        wait_for_more(listener, 1, 60.0)
        assert listener.heard().late
        assert listener.ready() == (0,)
    finally:
        link.stop()
        listener.stop()
