"""A client's transcript: servers that tell clients different things open nothing, and no client contradicts what it signed."""

import hashlib
from dataclasses import replace

import cbor2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Masked
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Deadline, Party, Perform, Persist, Received, Send, Worked
from cloister.protocol.masked.client import Idle, client_step
from cloister.protocol.masked.joined import update_of
from cloister.protocol.masked.messages import MaskWith, Survivors, SurvivorSignature, UnmaskRequest
from cloister.protocol.masked.server import Advertising, NoSum, Unmasked, propose, server_step
from cloister.protocol.masked.sum import Plan, masked_sum, parties_of
from cloister.protocol.masked.terms import SumPolicy, encode_weights, survivors_and_head
from cloister.protocol.masked.transcript import KEY, Transcript, log_of, restored, verify_transcript
from cloister.protocol.parts.gate import Rules
from cloister.protocol.parts.leverage import MOST_ROWS, span
from cloister.protocol.view.answers import Assignment, Model, Sum, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import Envelope

from . import sides
from .masked_sum_session import KINDS, MODEL, RUN, UNHELD, Play, changing, charter_of, losing, terms

ALL = (1, 3, 5, 7, 9, 11)
HELD, OTHER = bytes(range(32, 64)), bytes(31) + b"\x01"
FLOOR = 3
POLICY = SumPolicy(min_survivors=FLOOR, unheld=UNHELD)
ADDED = ("did not mask with", "tells other sums", "charter allows", "not signed by it", "did not sign", "another model, than")
"""Reasons of refusals that no honest run has."""


class Run:
    """Six clients that keep what they store, and a server that plays sums of one update after another."""

    def __init__(self, n=6, **charter):
        self.play = Play(n, policy=POLICY, charter=charter)
        self.parties = self.play.parties
        self.journals = {i: {} for i in self.parties}
        self.entries = {i: [] for i in self.parties}
        self.count, self.plans = 0, []
        for i, party in self.parties.items():
            party.state = replace(party.state, updates={HELD: 0, OTHER: 1})
            party.handle = self.keeping(i, party.handle)

    def keeping(self, i, handle):
        def kept(event):
            effects = handle(event)
            for effect in effects:
                if isinstance(effect, Persist):
                    self.journals[i][effect.key] = effect.value
                    self.entries[i] += [effect.value] if effect.key == KEY else []
            return effects

        return kept

    def plan(self, weights=None, name=None, round=0, **changes):
        self.count += 1
        session = Session(f"masked sum/{name or f'update/{self.count}'}", RUN, round, "root", self.play.roster, FLOOR)
        encoded = b"" if weights is None else encode_weights(self.play.roster, dict(zip(self.play.roster, weights, strict=True)))
        what = terms(len(self.play.roster), **{"update": HELD, "weights": encoded} | changes)
        self.plans.append(Plan.of(session, what, self.play.charter))
        return self.plans[-1]

    def sum(self, weights=None, lost=None, tap=None, **changes):
        plan = self.plan(weights, **changes)
        return masked_sum(plan, self.parties, self.play.vectors.__getitem__, tap or losing(lost or {}))

    def log(self, i):
        return log_of(self.entries[i])


class Table:
    """A session played by hand, so that a server that cheats can say anything."""

    def __init__(self, run, plan):
        self.run, self.plan = run, plan
        self.server = Party(SERVER, Advertising(plan), server_step)
        self.sent = list(propose(plan))

    def stage(self, answering):
        for effect in self.sent:
            if isinstance(effect, Send) and effect.envelope.receiver in answering:
                for answer in self.deliver(effect.envelope):
                    self.server.handle(Received(answer))
        self.sent = self.server.handle(Deadline())

    def deliver(self, envelope):
        party = self.run.parties[envelope.receiver]
        effects = party.handle(Received(envelope))
        if any(isinstance(effect, Perform) for effect in effects):
            effects = party.handle(Worked(self.run.play.vectors[party.id], 0))
        return [effect.envelope for effect in effects if isinstance(effect, Send)]

    def tell(self, client, message):
        return self.deliver(Envelope(self.plan.session.digest, SERVER, client, message))


# --- two halves ---------------------------------------------------------------------------------------------------------------


def test_a_survivor_that_never_masked_is_none():
    """The second sum is of all but client 11, and the server says that it is of all: the difference would be client 11's."""
    run = Run()
    first, network = run.sum()
    assert isinstance(first, Unmasked)
    assert not network.faults
    table, there = Table(run, run.plan()), ALL[:5]
    for _ in range(4):
        table.stage(there)
    assert table.server.state.alive == there
    said = {}
    for i in there:
        with pytest.raises(ProtocolError, match="did not mask with") as failure:
            said[i] = table.tell(i, Survivors(ALL))
        assert failure.value.blame == SERVER
    assert not said
    for i in there:
        with pytest.raises(ProtocolError, match="another survivor set"):
            table.tell(i, Survivors(there))


@pytest.mark.long
def test_on_a_sparse_graph_too_few_sign_for_a_survivor_that_never_masked():
    """Its neighbours do not; so that one of their own secrets stays closed, and with it the sum."""
    run = Run(40)
    graph = {"neighbours": 16, "threshold": 9}
    assert isinstance(run.sum(**graph)[0], Unmasked)
    table, absent = Table(run, run.plan(**graph)), 11
    roster = table.plan.session.roster
    there = tuple(i for i in roster if i != absent)
    for _ in range(4):
        table.stage(there)
    near = table.plan.graph.neighbours
    signed = set(there) - set(near(absent))
    for i in there:
        if i in signed:
            assert table.tell(i, Survivors(roster))
        else:
            with pytest.raises(ProtocolError, match="did not mask with"):
                table.tell(i, Survivors(roster))
    assert min(len(signed & set(near(i))) for i in there) == 1 < table.plan.terms.threshold


def test_a_survivor_whose_masks_the_server_kept_from_some_is_signed_by_none_of_them():
    run = Run()
    table = Table(run, run.plan())
    for _ in range(3):
        table.stage(ALL)
    for at, effect in enumerate(table.sent):
        if isinstance(effect, Send) and effect.envelope.receiver != 11:
            others = tuple(i for i in effect.envelope.message.neighbours if i != 11)
            table.sent = (*table.sent[:at], Send(replace(effect.envelope, message=MaskWith(others))), *table.sent[at + 1 :])
    table.stage(ALL)
    for i in ALL[:5]:
        with pytest.raises(ProtocolError, match="did not mask with"):
            table.tell(i, Survivors(ALL))


STRICTER = {"rules": Rules(4), "d": 6, "clip": 2.0, "ring_bits": 64, "max_samples": 7}
CHARTERS = {
    "a floor": {"numbers": "rules"},
    "a size": {"numbers": "d"},
    "a clip": {"numbers": "clip"},
    "a ring": {"numbers": "ring_bits"},
    "a largest count": {"numbers": "max_samples"},
    "an initial model": {"initial": bytes(32)},
    "a share of dropouts": {"dropped": 0.5},
    "a span": {"span": 2},
    "a number of sums": {"sums": 3},
    "starts beside the public model": {"starts_apart": True},
    "a directory": {"enrolled": {}},
}


def other_charter(charter, change):
    match change:
        case {"numbers": name}:
            return replace(charter, numbers=replace(charter.numbers, **{name: STRICTER[name]}))
        case {"enrolled": _}:
            return replace(charter, enrolled={**charter.enrolled, 99: bytes(32)})
    return replace(charter, **change)


@pytest.mark.parametrize("change", CHARTERS.values(), ids=CHARTERS)
@pytest.mark.parametrize("checking", [True, False], ids=["honest", "lying"])
def test_clients_that_were_given_two_charters_open_nothing_together(change, checking, monkeypatch):
    """The server proposes what both halves accept. A lying one relays keys whatever they are signed under."""
    run = Run()
    other = other_charter(run.play.charter, change)
    if not checking:
        for stage in ("server_setup", "server_opening"):
            monkeypatch.setattr(f"cloister.protocol.masked.{stage}.check_signature", lambda *_: None)
    for i in ALL[3:]:
        state = run.parties[i].state
        policy = replace(POLICY, min_survivors=4) if change == {"numbers": "rules"} else replace(POLICY, dropped=other.dropped)
        run.parties[i].state = replace(state, transcript=Transcript(other, i), policy=policy)
    session = Session("masked sum/update", RUN, 0, "root", ALL, 4)
    end, network = masked_sum(
        Plan.of(session, terms(6, update=HELD), run.play.charter), run.parties, run.play.vectors.__getitem__
    )
    assert isinstance(end, NoSum)
    assert network.faults
    if not checking:
        reasons = {fault.reason for fault in network.faults}
        assert all(
            "not signed by it" in reason or "to survive the dropouts" in reason or "are found for" in reason for reason in reasons
        )


def test_a_policy_is_no_weaker_than_its_charter():
    play = Play(6, policy=POLICY)
    charter = charter_of(play.members.enrolled, POLICY)
    for weaker in (replace(POLICY, min_survivors=2), replace(POLICY, dropped=0.5)):
        strict = replace(charter, dropped=0.25)
        with pytest.raises(ValueError, match="less than the charter"):
            parties_of(play.members, strict, MODEL, weaker, play.entropy)
    assert SumPolicy.of(charter).rules == charter.rules


HALVES = {
    "models": {"model": bytes(32)},
    "weights": {"weights": encode_weights(ALL, dict.fromkeys(ALL, 2.0))},
    "thresholds of shares": {"threshold": 4},
    "updates": {"update": OTHER},
    "graphs": {"graph_seed": bytes(31) + b"\x01"},
}


@pytest.mark.parametrize("change", HALVES.values(), ids=HALVES)
def test_clients_that_were_told_two_sets_of_terms_open_nothing_together(change):
    """Half of them hold the other model, or an update of the other name; each is told what it accepts."""
    run = Run()
    plan = run.plan(round=0)
    second = Plan.of(plan.session, replace(plan.terms, **change), run.play.charter).proposal
    for i in ALL[3:]:
        run.parties[i].state = replace(run.parties[i].state, model=change.get("model", MODEL), updates={HELD: 0, OTHER: 0})
    tap = changing("Proposal", lambda m, f: second, receivers=set(ALL[3:]))
    end, network = masked_sum(plan, run.parties, run.play.vectors.__getitem__, tap)
    assert isinstance(end, NoSum)
    assert all("not the client's in this session" in fault.reason for fault in network.faults)
    assert len(network.faults) == 3


def test_a_signature_under_another_charter_weights_or_survivors_counts_for_nothing():
    run = Run()
    table = Table(run, plan := run.plan())
    for _ in range(4):
        table.stage(ALL)
    for i in ALL:
        table.tell(i, Survivors(ALL))
    near = (3, 5, 7)

    def signed(plan, alive):
        content = survivors_and_head(alive, bytes(32))
        one = [run.play.members.identities[i].sign("masked sum survivors", plan.binding, content) for i in near]
        return UnmaskRequest(near, tuple(one), (bytes(32),) * 3)

    other = replace(run.play.charter, span=2)
    for wrong in (
        signed(Plan.of(plan.session, plan.terms, other), ALL),
        signed(Plan.of(plan.session, replace(plan.terms, weights=HALVES["weights"]["weights"]), run.play.charter), ALL),
        signed(plan, ALL[:5]),
    ):
        with pytest.raises(ProtocolError, match="did not sign this survivor set"):
            table.tell(1, wrong)
    assert table.tell(1, signed(plan, ALL))


# --- against its own chain ----------------------------------------------------------------------------------------------------


def test_one_update_is_about_one_model():
    run = Run()
    assert isinstance(run.sum()[0], Unmasked)
    for party in run.parties.values():
        party.state = replace(party.state, model=bytes(32))
    end, network = run.sum(model=bytes(32))
    assert isinstance(end, NoSum)
    assert all("another model, than an earlier one" in fault.reason for fault in network.faults)


@pytest.mark.parametrize("kind", ["by {:016x} {:032x}", "slots {:x} {:030x}"])
def test_sums_that_were_opened_before_are_told_of_once(kind):
    """Sums of weights, or which slots are opened: what the name of the next session says of them."""
    run = Run()
    what = {"update": update_of(HELD, b"sums"), "times_samples": 0} if kind.startswith("slots") else {"times_samples": 1}
    assert isinstance(run.sum(name=kind.format(7, 1), **what)[0], Unmasked)
    assert isinstance(run.sum(name=kind.format(7, 2), **what)[0], Unmasked)
    end, network = run.sum(name=kind.format(8, 1), **what)
    assert isinstance(end, NoSum)
    assert {fault.blame for fault in network.faults} == {SERVER}
    assert all("tells other sums" in fault.reason for fault in network.faults)


def test_no_more_sums_than_the_charter_allows():
    run = Run(sums=2)
    assert isinstance(run.sum()[0], Unmasked)
    assert isinstance(run.sum(round=1, update=OTHER)[0], Unmasked)
    end, network = run.sum(round=1, update=OTHER)
    assert isinstance(end, NoSum)
    assert all("more than the 2 that the charter allows" in fault.reason for fault in network.faults)


def test_no_more_independent_sums_than_the_charter_allows():
    halves = ([1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1])
    run = Run(span=1)
    assert isinstance(run.sum(halves[0])[0], Unmasked)
    assert isinstance(run.sum(halves[1])[0], Unmasked)  # says nothing of the same clients
    assert isinstance(run.sum([2, 2, 2, 0, 0, 0])[0], Unmasked)
    end, network = run.sum()  # a combination of the two, but the clients of each half counted in one of them only
    assert isinstance(end, NoSum)
    assert all("independent sums of one update than the 1" in fault.reason for fault in network.faults)
    run = Run(span=2)
    for weights in (*halves, None, [3, 3, 3, 5, 5, 5]):
        assert isinstance(run.sum(weights)[0], Unmasked)


def test_the_span_counts_what_is_independent():
    a, b = {1: 1.0, 2: 1.0, 3: 1.0}, {1: 1.0, 2: -1.0}
    assert span([]) == span([{}]) == 0
    assert span([a, a, {i: 3 * w for i, w in a.items()}]) == 1
    assert span([a, b, {1: 2.0, 3: 1.0}]) == 2
    assert span([a, {**a, 3: 1 + 2**-52}]) == 2  # in doubt
    assert span([{1: 1.0, 2: float(n)} for n in range(MOST_ROWS + 2)]) == MOST_ROWS + 2


# --- the chain ----------------------------------------------------------------------------------------------------------------


def test_heads_follow_from_the_charter_and_the_steps():
    run = Run()
    run.sum()
    steps, heads = run.log(1)
    assert len(steps) == 2
    head = run.play.charter.digest
    for step, found in zip(steps, heads, strict=True):
        head = hashlib.sha256(head + step).digest()
        assert head == found
    assert run.parties[1].state.transcript.head == head


def test_a_client_that_restarts_goes_on_with_its_chain():
    run = Run()
    run.sum()
    run.sum([1, 1, 1, 2, 2, 2])
    for i, party in run.parties.items():
        joined, transcript = restored(run.journals[i], run.play.charter, i)
        assert (joined, transcript) == (party.state.next_round, party.state.transcript)
        party.restart(replace(party.state, next_round=joined, transcript=transcript))
    assert isinstance(run.sum([1, 2, 3, 4, 5, 6])[0], NoSum)  # which no client gives beside the others
    assert isinstance(run.sum(lost={11: 3})[0], NoSum)
    assert isinstance(run.sum(round=1, update=OTHER)[0], Unmasked)
    for i, party in run.parties.items():
        assert verify_transcript(run.play.charter, i, *run.log(i)) == party.state.transcript


def test_what_is_stored_comes_before_what_is_sent_and_stays_small():
    run = Run()
    sizes = []
    for round in range(12):
        update = bytes([round]) * 32
        for party in run.parties.values():
            party.state = replace(party.state, updates={update: round})
        assert isinstance(run.sum(round=round, update=update)[0], Unmasked)
        sizes.append(len(run.journals[1][KEY]))
    assert max(sizes[1:]) - min(sizes[1:]) <= 16
    assert len(run.journals[1]) == 2


def test_a_journal_of_which_a_part_is_old_is_refused():
    run = Run()
    before = [dict(run.journals[1])]
    for round, update in ((0, HELD), (1, OTHER)):
        run.sum(round=round, update=update)
        before.append(dict(run.journals[1]))
        run.sum([1, 1, 1, 2, 2, 2], round=round, update=update)
        before.append(dict(run.journals[1]))
    latest, charter = before[-1], run.play.charter
    for old in before[:-2]:
        for mixed in ({**latest, KEY: old.get(KEY)}, {**old, KEY: latest[KEY]}):
            with pytest.raises(ValueError, match="older than the rest"):
                restored({key: value for key, value in mixed.items() if value is not None}, charter, 1)
    for foreign in (replace(charter, span=2), replace(charter, run=bytes(16))):
        with pytest.raises(ValueError, match="under this charter"):
            restored(latest, foreign, 1)
    with pytest.raises(ValueError, match="under this charter"):
        restored(latest, charter, 3)
    with pytest.raises(ValueError, match="under this charter"):
        restored({**latest, KEY: latest[KEY][:-1]}, charter, 1)


def test_a_journal_that_is_old_as_a_whole_is_known_by_what_others_saw_only():
    run = Run()
    run.sum()
    old = dict(run.journals[1])
    run.sum([1, 1, 1, 2, 2, 2])
    transcript, charter = run.parties[1].state.transcript, run.play.charter
    assert restored(old, charter, 1)[1].steps == 2  # the limit: nothing in it says that it is old
    for seen in ([(4, transcript.head)], [(2, bytes(32))]):
        with pytest.raises(ValueError, match="behind what others have seen"):
            restored(old, charter, 1, seen)
    assert restored(run.journals[1], charter, 1, [(4, transcript.head), (2, b"")])[1] == transcript
    assert restored({}, charter, 1) == ({}, Transcript(charter, 1))


def forged(charter, steps, me=1):
    """Heads of any steps, as a client that lies about its log would make them."""
    heads, head = [], charter.digest
    for step in steps:
        head = hashlib.sha256(head + step).digest()
        heads.append(head)
    return steps, heads


def test_heads_that_were_signed_tell_a_log_that_ends_early_or_is_another():
    run, said = Run(), list[SurvivorSignature]()
    heard = changing("SurvivorSignature", lambda m, f: said.append(m) or m, receivers={SERVER})
    for round in range(2):
        assert isinstance(run.sum(round=round, update=(HELD, OTHER)[round], tap=heard)[0], Unmasked)
    charter, (steps, heads) = run.play.charter, run.log(1)
    signed = [m.head for m in said if m.head in heads]
    assert len({m.head for m in said}) == len(said) == 2 * len(ALL)
    assert len(signed) == 2
    assert verify_transcript(charter, 1, steps, heads, signed) == run.parties[1].state.transcript
    for log in ((steps[:2], heads[:2]), run.log(ALL[1])):
        with pytest.raises(ValueError, match="signed for a head that is not in this log"):
            verify_transcript(charter, 1, *log, signed)


def test_an_auditor_finds_what_is_not_in_the_chain_or_against_it():
    run = Run()
    run.sum()
    run.sum([1, 1, 1, 2, 2, 2])
    run.sum(round=1, update=OTHER)
    charter, (steps, heads) = run.play.charter, run.log(1)
    assert verify_transcript(charter, 1, steps, heads).sums == 3
    assert verify_transcript(charter, 1, steps[:5], heads[:5]).steps == 5
    with pytest.raises(ValueError, match="as many heads"):
        verify_transcript(charter, 1, steps, heads[:5])
    for at in range(6):
        wrong = (*heads[:at], bytes(32), *heads[at + 1 :])
        with pytest.raises(ValueError, match=f"step {at} of client 1: a step that is not in the chain"):
            verify_transcript(charter, 1, steps, wrong)
    for at in range(5):  # without the last it is the shorter chain that it was: its length is known to who knows the latest head
        with pytest.raises(ValueError, match="of client 1"):
            verify_transcript(charter, 1, (*steps[:at], *steps[at + 1 :]), (*heads[:at], *heads[at + 1 :]))
    with pytest.raises(ValueError, match="not in the chain"):
        verify_transcript(replace(charter, span=2), 1, steps, heads)
    rules, again = Rules(1), Transcript(charter, 1)
    lies = {
        "another survivor set": [(run.plan(), ALL), (run.plan(), ALL[:5])],
        "what fewer than 3 clients": [(run.plan(), ALL), (run.plan([1, 2, 3, 4, 5, 6]), ALL)],
        "other peers": [(run.plan(), ALL), (run.plan(threshold=4), ALL)],
        "another model": [(run.plan(), ALL), (run.plan(model=bytes(32)), ALL)],
        "a second one of its name": [(run.plan(name="update"), ALL), (run.plan(name="update"), ALL)],
        "a round gone by": [(run.plan(round=1), ALL), (run.plan(), ALL)],
    }
    for reason, sums in lies.items():
        found, forger = [], again
        for plan, alive in sums:
            blank = replace(forger, given=type(forger.given)(plan.session.round))
            gave = blank.gave(plan, rules)
            forger = gave.signed(plan, alive, rules)
            found += [gave.step, forger.step]
        with pytest.raises(ValueError, match=reason):
            verify_transcript(charter, 1, *forged(charter, found))
    shown = forged(charter, [steps[0], cbor2.dumps([1, run.plans[0].binding, [1, 2**80]])])
    with pytest.raises(ValueError, match="step 1 of client 1"):
        verify_transcript(charter, 1, *shown)
    for rubbish in (b"", b"\x80", b"\x82\x00\x40", b"\x82\x00\x00", b"\x82\x02\x00", b"\x83\x01\x40\x80", bytes(40)):
        with pytest.raises(ValueError, match="step 0 of client 1"):
            verify_transcript(charter, 1, *forged(charter, [rubbish]))


# --- honest runs ----------------------------------------------------------------------------------------------------------------

ROWS = (None, [1, 1, 1, 2, 2, 2], [1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [3, 3, 3, 1, 1, 1])


@pytest.mark.sweeps
@given(st.data())
@settings(max_examples=25, deadline=None)
@pytest.mark.long
def test_no_honest_run_is_refused_whoever_drops_out(data):
    """Sums of one update and of the next, with losses at all stages: what is refused is refused for what it was before."""
    run = Run()
    whole = True
    for round, update in ((0, HELD), (1, OTHER)):
        for weights in data.draw(st.lists(st.sampled_from(ROWS), min_size=1, max_size=3)):
            lost = data.draw(st.dictionaries(st.sampled_from(ALL), st.integers(0, len(KINDS) - 1), max_size=2))
            end, network = run.sum(weights, lost, round=round, update=update)
            whole = whole and not lost
            assert not [fault.reason for fault in network.faults if any(reason in fault.reason for reason in ADDED)]
            assert isinstance(end, Unmasked) or not whole
    for i, party in run.parties.items():
        assert isinstance(party.state, Idle)
        joined, transcript = restored(run.journals[i], run.play.charter, i)
        assert joined == party.state.next_round
        assert verify_transcript(run.play.charter, i, *run.log(i)) == transcript
        assert (transcript.steps, transcript.head) == (party.state.transcript.steps, party.state.transcript.head)


@pytest.mark.sweeps
@given(st.integers(0, 10**6))
@settings(max_examples=4, deadline=None)
@pytest.mark.long
def test_no_honest_run_on_a_sparse_graph_is_refused(seed):
    run = Run(40)
    lost = {i: 1 + (seed + i) % 5 for i in run.play.roster if (seed * i) % 7 == 1}
    end, network = run.sum(lost=lost, neighbours=16, threshold=9, graph_seed=seed.to_bytes(32, "big"))
    assert not network.faults
    assert isinstance(end, Unmasked | NoSum)


class Lossy:
    """A network that loses messages of some clients and kinds, and keeps nothing of any other."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, frame):
        return [] if frame.kind in KINDS and self.rng.random() < 0.02 else [frame]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_no_honest_run_of_a_whole_view_is_refused(seed):
    """Means, sums with counts, several sums of one update, personal sums and slots, while 2 % of the messages are lost."""
    clients, d, entropy = tuple(range(8)), 12, SimulatedEntropy(seed)

    def work(jobs):
        for job in jobs:
            size = (2, d) if job.work == "slots" else d
            vector = np.random.default_rng([job.client, job.round]).uniform(-1, 1, size).astype(np.float32)
            shares = tuple(int(k == job.client % 2) for k in range(2)) if job.work == "slots" else ()
            yield job.client, LocalWork(vector, 5 + job.client % 2, shares=shares)

    setup = Setup(entropy.secret("run", 16), np.zeros(d, np.float32), clients, work, entropy, tap=Lossy(seed) if seed else None)
    view = Masked(floor=2).open(setup)
    start = Assignment(Model("init"), clients, clients)
    halves = {name: Weights({i: float(i % 2 == at) for i in clients}) for at, name in enumerate(("even", "odd"))}
    found = [*view.sums(view.train(0, {"0": start})["0"], halves).values()]
    counted = Weights(dict.fromkeys(clients, 1.0), times_samples=True)
    found += [*view.sums(view.train(1, {"0": start})["0"], {"0": counted}).values()]
    own = {i: Weights({j: 2.0 if i == j else 1.0 for j in clients}) for i in (0, 5)}
    found += [*view.personal_sums(view.train(2, {"0": start})["0"], own).values()]
    found += view.slots(3, "0", replace(start, others=(Model("init"),)))
    assert not [fault.reason for fault in view.record.faults if any(reason in fault.reason for reason in ADDED)]
    transcripts = [member.state.transcript for member in sides.maskers(view).values()]
    assert len({transcript.charter.digest for transcript in transcripts}) == 1
    if not seed:
        assert not view.record.faults
        assert [isinstance(answer, Sum) for answer in found] == [True] * 7
        assert {transcript.sums for transcript in transcripts} == {6, 7}  # who receives a sum of its own gives nothing to it


def test_the_step_itself_changes_nothing_when_it_is_refused():
    run = Run(sums=1)
    run.sum()
    before = run.parties[1].state
    with pytest.raises(ProtocolError, match="charter allows"):
        client_step(before, Received(propose(run.plan())[0].envelope))
    assert run.parties[1].state is before
