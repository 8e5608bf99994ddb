"""What a network sends twice, at once or long after, changes nothing and is nobody's fault; another message is for the role."""

import re
from dataclasses import replace

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.fl.algorithms.algorithm import Start
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.pacfl import PACFL
from cloister.fl.algorithms.pfed_graph import PFedGraph
from cloister.protocol import Encrypted, Masked, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import FRAMES, SESSIONS, Party, Received, Send
from cloister.protocol.messages import MESSAGES
from cloister.protocol.view.answers import Assignment, Model, Weights
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import Envelope
from cloister.protocol.wire.messages import Mean, Ready

from . import sides
from .golden_runs import Embedding, judge, vector
from .golden_runs import work as whole_work
from .masked_sum_session import Play as MaskedPlay
from .test_group_seed import Exchange, seed
from .two_server_session import Play as TwoServerPlay

D = 12
MEMBERS = tuple(range(1, 6))
ONES = dict.fromkeys(MEMBERS, 1.0)
PROTECTIONS = (Plain(floor=2), Permuted(floor=2), Masked(floor=2), Encrypted(floor=2), TwoServer(floor=2))


class Haunted:
    """A network that delivers every frame twice, and after each of them some of all that it ever carried."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.frames = []

    def __call__(self, frame):
        self.frames.append(frame)
        ghosts = self.rng.integers(len(self.frames), size=3)
        return [frame, frame, *(self.frames[k] for k in ghosts)]


def work(jobs):
    for job in jobs:
        vector = np.random.default_rng([job.client, job.round]).standard_normal(D).astype(np.float32) / 8
        yield job.client, LocalWork(vector, 10 + job.client)


def two_rounds(protection, tap, name="root"):
    view = protection.open(Setup(bytes(16), np.zeros(D, np.float32), MEMBERS, work, SimulatedEntropy(1), tap))
    model, rows = Model("init"), []
    for round in (0, 1):
        updates = view.train(round, {name: Assignment(model, MEMBERS, MEMBERS)})[name]
        view.gram(updates)
        answer = view.sums(updates, {name: Weights(ONES)})[name]
        rows.append((answer.clients, answer.weight))
        model = view.advance(model, answer)
    return view, view.harness.observe(model), rows


@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda p: type(p).__name__)
@pytest.mark.long
def test_a_haunted_network_changes_nothing_in_any_protection(protection):
    _, expected, whole = two_rounds(protection, None)
    view, found, rows = two_rounds(protection, Haunted())
    assert not view.record.faults
    assert rows == whole
    np.testing.assert_allclose(found, expected, atol=1e-4)


RUNS = {
    "keys that are forgotten": (FedAvg(by_samples=False), TwoServer(max_norm=128.0, k=64), 12),
    "what is discarded": (FLIC(rounds_before=2, similarities="recalled", by_samples=False), Masked(clip=64.0), 8),
    "sums for single clients": (PFedGraph(), Masked(clip=64.0), 9),
    "a seed in the middle": (PACFL(beta=10.0), Permuted(floor=2), 8),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.long
def test_a_haunted_network_blames_nobody_over_the_rounds_of_an_algorithm(run):
    algorithm, protection, count = run

    def played(tap):
        pairs = Embedding() if Functionality.PAIRS in algorithm.needs else None
        clients, initial = tuple(range(count)), np.zeros(len(vector(0, 0, "update")), np.float32)
        apart = getattr(algorithm, "starts_apart", False)
        setup = Setup(bytes(16), initial, clients, whole_work, SimulatedEntropy(1), tap, judge, pairs, starts_apart=apart)
        view, state = protection.open(setup), algorithm.init(Start(clients, {}, Model("init"), 3))
        for t in range(4):
            state = algorithm.round(state, view, np.random.default_rng(t))
            view.harness.retire(state.models, state.remembered)
        return view

    expected, view = played(None), played(Haunted())
    assert not expected.record.faults
    assert not view.record.faults
    assert view.record.log == expected.record.log


@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda p: type(p).__name__)
@pytest.mark.long
def test_nothing_that_a_party_stores_is_under_a_key_that_the_server_named(protection):
    view, *_ = two_rounds(protection, None, name="../../x0")
    keys = {key for _, key in sides.network(view).persisted}
    assert keys
    assert all(re.fullmatch("[A-Za-z0-9 ]{1,120}", key) for key in keys)


def test_a_haunted_masked_sum_is_right_and_blames_nobody():
    play = MaskedPlay(5, Haunted())
    play.run()
    assert play.right()
    assert play.end.clients == play.roster
    assert not play.network.faults


def test_a_haunted_seed_exchange_agrees_and_blames_nobody():
    exchange = Exchange(Haunted())
    assert set(exchange.seeds().values()) == {seed(2)}
    assert not exchange.network.faults


def test_haunted_servers_answer_once_and_blame_nobody():
    play = TwoServerPlay(4, Haunted())
    for round in (0, 1):
        assert play.upload(round) == play.roster
        rows = play.rows(round=round)
        assert play.gram(rows).gram.shape == (4, 4)
        total = play.sum(dict.fromkeys(play.roster, 1), round).total
        assert (total == play.whole(play.roster).sum(axis=0)).all()
        play.forget()
    assert not play.network.faults


class Echo:
    """A role that counts what it takes, and takes nothing that is named so."""

    def step(self, state, event):
        if event.envelope.message == Mean("bad", bytes(4)):
            raise ProtocolError("bad", event.envelope.sender)
        return state + 1, ()


def said(session=0, sender=SERVER, word="good"):
    return Received(Envelope(session.to_bytes(32, "big"), sender, 1, Mean(word, bytes(4))))


def test_only_what_was_taken_from_the_same_sender_in_the_same_session_is_a_duplicate():
    party = Party(1, 0, Echo().step)
    for event in (said(), said(), said(sender=2), said(session=1), said(word="other"), said(sender=2)):
        party.handle(event)
    assert party.state == 4
    for _ in range(2):
        with pytest.raises(ProtocolError, match="bad"):
            party.handle(said(word="bad"))
    party.restart(0)
    party.handle(said())
    assert party.state == 1


def test_a_party_remembers_no_more_than_a_bounded_part_of_what_it_took():
    party = Party(1, 0, Echo().step)
    party.handle(said(sender=2, word="first"))
    for n in range(FRAMES + 1):
        party.handle(said(word=str(n)))
    taken = party.state
    party.handle(said(word="0"))  # forgotten
    party.handle(said(sender=2, word="first"))  # no other sender crowds this out
    assert party.state == taken + 1
    for n in range(SESSIONS):
        party.handle(said(session=1 + n))
    assert len(party._taken) == SESSIONS
    party.handle(said(session=SESSIONS))
    assert party.state == taken + 1 + SESSIONS


def test_what_arrives_for_a_session_that_is_over_is_old_and_for_one_that_never_was_a_fault():
    network = InProcess(kinds=MESSAGES, max_bytes=1 << 16)
    server = Party(SERVER, 0, lambda state, event: (state, ()))
    ready = Envelope(bytes(32), 1, SERVER, Ready())
    clients = {1: Party(1, 0, lambda state, event: (state, ()))}

    def play(sessions, envelope):
        network.run(clients, sessions, [(1, Send(envelope))], lambda _: iter(()), lambda *_: None)

    play({}, ready)
    assert [f.blame for f in network.faults] == [1]
    play({bytes(32): server}, ready)
    play({}, ready)
    assert len(network.faults) == 1
    play({}, replace(ready, session=b"\x01" * 32))
    assert len(network.faults) == 2
