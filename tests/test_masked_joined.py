"""What a client remembers of the sums that it joined is bounded, and is stored under keys that no server chose."""

import re
from dataclasses import replace

import pytest

from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Deadline, Persist, Received
from cloister.protocol.masked.client import Idle
from cloister.protocol.masked.joined import MOST_JOINED, is_name, join, joined_before
from cloister.protocol.masked.server import propose
from cloister.protocol.masked.slots import COUNTING
from cloister.protocol.masked.sum import Plan
from cloister.protocol.masked.weighing import WEIGHTS, second_protocol

from .masked_sum_session import LOOSE, RUN, Play

INVENTED = ("masked sum/../../x0", "masked sum/x0", "masked sum/", "masked sum/update/", "masked sum/update/1/2", "masked sum")
INVENTED += (
    "masked sum/update/\N{ARABIC-INDIC DIGIT ONE}",
    "masked sum/by 00 11",
    "masked sum/opened ../a",
    "masked sum/update\n",
)
KEY = re.compile("masked sum joined [0-9]{1,4}")


class Server:
    """A server that proposes what it likes to client 1. stored: all that the client persisted, over what was there before."""

    def __init__(self):
        self.play = Play(3, policy=replace(LOOSE, unheld=frozenset({"update", "gradient"})))
        self.party = self.play.parties[1]
        self.stored = {}

    def proposes(self, protocol, round=0):
        """Raises what the client raises; a client that joins hears of nothing more, and is idle again."""
        plan = Plan.of(Session(protocol, RUN, round, "root", self.play.roster, 2), self.play.terms, self.play.charter)
        effects = self.party.handle(Received(propose(plan)[0].envelope))
        self.party.handle(Deadline())
        self.stored |= {e.key: e.value for e in effects if isinstance(e, Persist)}


def test_names_that_no_protocol_uses_are_not_joined_and_leave_nothing():
    server = Server()
    before = server.party.state
    for protocol in (*INVENTED, *(f"masked sum/x{n}" for n in range(300))):
        with pytest.raises(ProtocolError, match="another protocol") as failure:
            server.proposes(protocol)
        assert failure.value.blame == SERVER
    assert server.party.state == before
    assert server.stored == {}


def test_the_names_of_all_protocols_over_masked_sums_are_names():
    counting = Session(f"{WEIGHTS}/update/12", RUN, 3, "root", (1, 2, 3), 2)
    opened = f"masked sum/opened {bytes(range(20)).hex()}"  # as `ReceiverSum.sum_protocol` has it
    made = (counting.protocol, second_protocol(counting, (0.5, 0.25)), COUNTING, opened)
    assert all(map(is_name, (*made, "masked sum/update", "masked sum/update/0", "masked sum/gradient/151")))
    assert not any(map(is_name, INVENTED))


def test_one_round_has_a_limit_of_sums():
    server = Server()
    full = {f"masked sum/update/{n}": 8 for n in range(MOST_JOINED)}
    server.party.state = replace(server.party.state, next_round=full)
    with pytest.raises(ProtocolError, match="more sums than one round has") as failure:
        server.proposes("masked sum/gradient", round=7)
    assert failure.value.blame == SERVER
    assert server.party.state == replace(server.party.state, next_round=full)
    server.proposes("masked sum/gradient", round=8)
    assert server.party.state.next_round == {"masked sum/gradient": 9}


def test_state_and_store_hold_one_round_under_keys_that_no_server_chose():
    server = Server()
    for round in range(6):
        for number in range(4):
            server.proposes(f"masked sum/update/{number + round}", round)
    latest = {f"masked sum/update/{number + 5}": 6 for number in range(4)}
    assert server.party.state.next_round == latest
    assert len(server.stored) == 4
    assert all(map(KEY.fullmatch, server.stored))
    assert joined_before(server.stored) == latest


def test_a_client_that_restarts_joins_nothing_that_it_had_joined():
    server = Server()
    for number in range(3):
        server.proposes(f"masked sum/update/{number}", 4)
    server.proposes("masked sum/update/9", 5)
    fresh = Server()
    fresh.party.state = replace(fresh.party.state, next_round=joined_before({"masked sum transcript": b"", **server.stored}))
    before = fresh.party.state
    for number in (0, 7):
        fresh.proposes(f"masked sum/update/{number}", 4)  # old: nothing happens
    assert (fresh.party.state, fresh.stored) == (before, {})
    with pytest.raises(ProtocolError, match="already taken"):
        fresh.proposes("masked sum/update/9", 5)
    fresh.proposes("masked sum/update/8", 5)
    assert isinstance(fresh.party.state, Idle)


def test_what_the_client_did_not_store_is_refused():
    assert joined_before({}) == {}
    _, stored = join({}, "masked sum/update", 3, 0)
    for wrong in (b"", b"\x01", stored.value[:-1], b"\x83\x63abc\x01\x00", b"\x83\x01\x02\x00", b"\x82\x01\x61a"):
        with pytest.raises(ValueError, match="not what a client stored"):
            joined_before({stored.key: wrong})
