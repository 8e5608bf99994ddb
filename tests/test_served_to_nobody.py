"""A coordinator whom all of its clients have left at once, by its own fault: its clock is wrong, and it lets nobody in."""

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cloister.fl.algorithms.fpfc import FPFC
from cloister.fl.runs.listening import wait_for_helpers, wait_for_somebody
from cloister.fl.runs.member import Member
from cloister.protocol import TwoServer
from cloister.protocol.links import attendance
from cloister.protocol.links.pauses import LONGEST_PAUSE
from cloister.protocol.links.terms import Limits, grpc_or_words

from .served import SMALL, played

pytestmark = [pytest.mark.trains]
grpc_or_words()
ROUNDS = 12


class Clock:
    """A coordinator's, which jumps a day back after a round, and is put right a while later."""

    def __init__(self):
        self.away = 0.0
        self.jumped = False

    def __call__(self):
        return time.time() + self.away

    def jump(self, done):
        if done.round == 2 and not self.jumped:
            self.jumped, self.away = True, -86_400.0
            time.sleep(0.3)  # until it looks who may stay
            threading.Timer(0.7, self.right).start()

    def right(self):
        self.away = 0.0


@pytest.mark.long
def test_rounds_are_not_played_to_nobody_while_a_coordinators_clock_is_wrong(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(attendance, "_ANEW", 0.1)
    monkeypatch.setattr(attendance, "_NEWS", 0.05)
    clock = Clock()
    found = played(replace(SMALL, rounds=ROUNDS), tmp_path, clock=clock, after=clock.jump)
    assert "sent away" in caplog.messages
    assert "nobody is there" in caplog.messages
    lost = {line["round"] for line in found.read("metrics.jsonl") if line["below_floor"]} | {
        line["round"] for line in found.read("faults.jsonl")
    }
    assert len(lost) <= 2  # that it was in


@pytest.mark.long
def test_a_run_whose_clients_are_all_slow_in_its_first_round_goes_on_with_them(tmp_path, monkeypatch, caplog):
    """Before: all rounds were over before the first of them had answered, and none of them had learned anything."""
    works, slow = Member._works, set()

    def slowly(member, workers, client, jobs):
        if client not in slow:
            slow.add(client)
            time.sleep(4.0)
        yield from works(member, workers, client, jobs)

    monkeypatch.setattr(Member, "_works", slowly)
    found = played(replace(SMALL, algorithm=FPFC(rounds=4), rounds=4), tmp_path, limits=Limits(at_most=1.5))
    assert "all are behind with their answers" in caplog.messages
    assert {entry["round"] for entry in found.read("disclosure.jsonl")} >= {1, 2, 3}


class Links:
    """Of a coordinator."""

    def __init__(self, there=(), revoked=(), come=(), behind=()):
        self.there, self.revoked, self.come, self.behind = there, revoked, come, behind
        self.waited, self.paused, self.left = [], [], dict

    def present(self):
        return self.there

    def ready(self):
        return tuple(i for i in self.there if i not in self.behind)

    def barred(self):
        return self.revoked

    def pause(self, seconds):
        self.paused.append(seconds)

    def wait_for(self, clients, seconds):
        self.waited.append((clients, seconds))
        self.there, self.behind = (*self.there, *self.come), tuple(i for i in self.behind if i not in self.come)
        return self.there


@pytest.mark.parametrize("lost", [True, False])
def test_a_second_server_that_lost_its_journal_is_not_waited_for_again(lost):
    """Before: "start what is missing, then this again", which could never help."""
    why = "the journal of second-server is an older copy, or was lost"
    links = SimpleNamespace(left=dict, wait_for=lambda *_: (0, 1), lost=lambda: {-2: why, 4: "another"} if lost else {})
    words = f"{why}; with that folder the same commands go on, and without it this run cannot: begin another" if lost else (
        "after 9 s second-server not there; start what is missing, then this again"
    )  # fmt: skip
    with pytest.raises(ConnectionError, match=f"^{words}"):
        wait_for_helpers(replace(SMALL, protection=TwoServer()), links, 9.0)


def test_nobody_is_waited_for_where_all_were_revoked_or_somebody_is_there():
    for links in (Links(there=(-2, 3)), Links(revoked=(0, 1, 2, 3))):
        wait_for_somebody(links, 4, 9.0)
        assert not links.waited
    links = Links(there=(-2,), revoked=(3,), come=(-2, 0))
    wait_for_somebody(links, 4, 90.0)
    assert links.waited == [(1, 90.0), (3, LONGEST_PAUSE + 5.0)]
    with pytest.raises(ConnectionError, match=r"after 9 s no client is there.*start this again"):
        wait_for_somebody(Links(there=(-2,), come=(-2,)), 4, 9.0)


def test_rounds_are_not_played_to_clients_that_are_all_behind_with_their_answers(caplog):
    """Before: one slow answer of each, and all rounds were over in seconds, while the clients were there and answered later."""
    links = Links(there=(0, 1), behind=(0, 1), come=(1,))
    wait_for_somebody(links, 2, 9.0)
    assert links.waited == [(1, 9.0), (2, 9.0)]
    assert "all are behind with their answers" in caplog.messages
    with pytest.raises(ConnectionError, match=r"after 9 s none of the 2 that are there has answered.*with more --patience"):
        wait_for_somebody(Links(there=(0, 1), behind=(0, 1)), 2, 9.0)
    links = Links(there=(0, 1), behind=(0,))
    wait_for_somebody(links, 2, 9.0)
    assert not links.waited
