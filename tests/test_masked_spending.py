"""Noise is the client's own affair: it finds what was agreed on, keeps its ledger, and takes part on no other terms."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Masked
from cloister.protocol.core.link import Frame
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.roles import Deadline, Persist, Received, Send
from cloister.protocol.masked import masking
from cloister.protocol.masked.cohorts import Cohorts
from cloister.protocol.masked.masking import MaskedSessions
from cloister.protocol.masked.messages import Survivors
from cloister.protocol.masked.noise import Noise
from cloister.protocol.masked.noisy_sums import NoisySums
from cloister.protocol.masked.spending import LEDGER, SumSpending
from cloister.protocol.masked.sums import MaskedSums
from cloister.protocol.masked.terms import SumTerms
from cloister.protocol.masked.transcript import restored
from cloister.protocol.messages import decode
from cloister.protocol.privacy.ledger import Ledger
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.protocol.wire.codec import Envelope, encode

from . import sides

D, MEMBERS = 24, tuple(range(1, 9))
NOISE = Noise(epsilon=6.0, delta=1e-4, rounds=3, l2=0.5)
START = Assignment(Model("init"), MEMBERS, MEMBERS)
MEAN = Weights(dict.fromkeys(MEMBERS, 1.0))


def work(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
    for job in jobs:
        yield job.client, LocalWork(np.full(D, job.client / 100, np.float32), 10)


def opened(noise: Noise | None = NOISE, tap: Any = None, workers: Any = work) -> Any:
    return Masked(noise=noise).open(Setup(bytes(16), np.zeros(D, np.float32), MEMBERS, workers, SimulatedEntropy(1), tap))


def summed(view: Any, round: int, streamed: bool = True) -> Sum | BelowFloor:
    if streamed:
        return view.train_and_sum(round, {"root": START}, {"root": MEAN})["root"]
    return view.sums(view.train(round, {"root": START})["root"], {"root": MEAN})["root"]


def own(view: Any) -> dict[int, Ledger]:
    """What each client keeps itself."""
    return {i: member.state.spending.ledger for i, member in sides.maskers(view).items()}


def account(view: Any) -> dict[int, Ledger]:
    """What the server thinks."""
    return {i: view.record.ledgers[i, "client"] for i in MEMBERS}


def spent(ledgers: dict[int, Ledger]) -> dict[int, tuple[Any, ...]]:
    return {i: (ledger.releases, ledger.spent, ledger.budget, ledger.delta) for i, ledger in ledgers.items()}


def noisy(view: Any) -> NoisySums:
    found = sides.part(view, MaskedSums)._noisy
    assert isinstance(found, NoisySums)
    return found


def losing(kind: str, *clients: int, to: bool = False) -> Any:
    """A network that loses what these clients send of this kind, or are sent."""
    return lambda frame: [] if frame.kind == kind and (frame.receiver if to else frame.sender) in clients else [frame]


def refused(view: Any, reason: str) -> set[int]:
    """How many clients blamed the server for this; they are not told apart."""
    told = [fault for fault in view.record.faults if reason in fault.reason]
    assert {fault.blame for fault in told} <= {SERVER}
    return {len(told)}


# --- one account, kept twice ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [True, False])
def test_clients_and_server_account_alike(streamed: bool) -> None:
    view = opened()
    for round in range(3):
        assert isinstance(summed(view, round, streamed), Sum)
    assert spent(own(view)) == spent(account(view))
    assert {len(ledger.releases) for ledger in own(view).values()} == {3}
    assert all(member.state.spending.place is None for member in sides.maskers(view).values())


@pytest.mark.parametrize(
    ("kind", "clients"),
    [
        ("MaskKeys", (2,)),
        ("MaskKeys", (1, 2, 3)),
        ("SealedShares", (2, 3)),
        ("Accepted", (3,)),
        ("MaskedInput", (2, 3)),
        ("MaskedInput", (1, 2, 3)),
    ],
)
def test_they_account_alike_whoever_drops_out(kind: str, clients: tuple[int, ...]) -> None:
    view = opened(tap=losing(kind, *clients))
    for round in range(2):
        summed(view, round)
    assert spent(own(view)) == spent(account(view))


def test_who_sent_an_input_and_signed_nothing_keeps_what_it_reserved() -> None:
    """It does not see whether its sum was opened, nor of how many."""
    view = opened(tap=losing("Survivors", 3, to=True))
    assert isinstance(summed(view, 0), Sum)
    least = noisy(view)._cohorts.parameters(8).release(6, "zero out")
    assert own(view)[3].releases == account(view)[3].releases == (least,)
    assert own(view)[4].releases == (noisy(view)._cohorts.parameters(8).release(8, "zero out"),)


def test_who_sent_no_input_pays_nothing_and_nobody_knows_better_than_the_client() -> None:
    view = opened(tap=losing("MaskWith", 3, to=True))
    assert isinstance(summed(view, 0), Sum)
    assert own(view)[3].spent == 0
    assert account(view)[3].spent > own(view)[4].spent, "it was asked, and did not sign: the account is the higher"


def test_where_a_signature_is_lost_both_keep_the_worst() -> None:
    """Nobody shows the client that others signed the same."""
    view = opened(tap=losing("SurvivorSignature", 3))
    assert isinstance(summed(view, 0), Sum)
    assert own(view)[4].spent == account(view)[4].spent < own(view)[3].spent == account(view)[3].spent


@pytest.mark.parametrize("clients", [(4,), MEMBERS])
def test_an_answer_that_is_lost_is_on_the_account_at_the_worst(clients: tuple[int, ...]) -> None:
    view = opened(tap=losing("Reveal", *clients))
    summed(view, 0)
    for i in MEMBERS:
        assert (own(view)[i].spent < account(view)[i].spent) == (i in clients)
        assert own(view)[i].spent == own(view)[1].spent


def test_survivors_that_one_client_alone_is_shown_do_not_make_its_sum_cheaper() -> None:
    """The sum is opened of seven; the server shows one client all eight: its signature is of no use then, but its input is in."""

    def tap(frame: Frame) -> list[Frame]:
        if frame.kind == "Survivors" and frame.receiver == 3:
            envelope = decode(frame.data, frame.sender, 1 << 30)
            return [replace(frame, data=encode(replace(envelope, message=Survivors(MEMBERS))))]
        return [] if frame.kind == "MaskedInput" and frame.sender == 8 else [frame]

    view = opened(tap=tap)
    answer = summed(view, 0)
    assert isinstance(answer, Sum)
    assert 3 in answer.clients
    assert own(view)[3].spent > own(view)[4].spent
    assert own(view)[3].spent == account(view)[3].spent


def test_who_declines_when_its_work_is_done_pays_nothing() -> None:
    def broken(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
        for client, done in work(jobs):
            yield client, replace(done, vector=np.full(D, np.nan, np.float32)) if client == 5 else done

    view = opened(workers=broken)
    answer = summed(view, 0)
    assert isinstance(answer, Sum)
    assert 5 not in answer.clients
    assert own(view)[5].spent == account(view)[5].spent == 0
    assert spent(own(view)) == spent(account(view))


def test_a_restored_run_goes_on_with_what_each_client_stored() -> None:
    view, again = opened(tap=losing("MaskedInput", 2)), opened(tap=losing("MaskedInput", 2))
    summed(view, 0)
    again.harness.restore(view.harness.save(), [])
    assert own(again) == own(view)
    for each in (view, again):
        summed(each, 1)
    assert spent(own(again)) == spent(account(again)) == spent(own(view))


# --- what a client stores -------------------------------------------------------------------------------------------------------


def test_a_reservation_is_stored_before_the_first_key_and_settled_before_the_signature() -> None:
    view = opened()
    updates = view.train(0, {"root": START})["root"]
    sessions = sides.part(view, MaskedSessions)
    plan = sessions.plan(updates, noisy(view).shape("root", MEMBERS))
    member = sides.maskers(view)[1]
    first, *_, last = member.handle(Received(Envelope(plan.session.digest, SERVER, 1, plan.proposal)))
    assert isinstance(first, Persist)
    assert isinstance(last, Send)
    assert first.key == LEDGER
    fresh = SumSpending.of(sessions.charter, 1)
    assert fresh is not None
    assert fresh.restored({first.key: first.value}).ledger == member.state.idle.spending.ledger
    assert member.state.idle.spending.ledger.spent > 0
    (left,) = member.handle(Deadline())
    assert fresh.restored({left.key: left.value}).ledger.spent == 0
    assert member.state.spending.ledger.spent == 0

    other = opened()
    summed(other, 0)
    for i, ledger in own(other).items():
        stored = sides.network(other).persisted[i, LEDGER]
        assert Ledger.from_dict(json.loads(stored)) == ledger


def test_a_ledger_that_is_not_the_clients_own_is_not_gone_on_from() -> None:
    view = opened()
    summed(view, 0)
    kept, again = view.harness.save(), opened()
    plain = json.loads(kept.clients[1].stored[LEDGER])
    twice = json.dumps({**plain, "releases": plain["releases"] * 99}).encode()
    forged = [{}, {LEDGER: kept.clients[2].stored[LEDGER]}, {LEDGER: twice}, {LEDGER: b"[]"}, {LEDGER: b"\xff"}]
    forged += [
        {LEDGER: json.dumps({**plain, **c}).encode()} for c in ({"budget": 60.0}, {"delta": 0.1}, {"adjacency": "replace"})
    ]
    for entries in forged:
        with pytest.raises(ValueError):
            again.harness.restore(replace(kept, clients={**kept.clients, 1: replace(kept.clients[1], stored=entries)}), [])
    spending = sides.maskers(view)[1].state.spending
    with pytest.raises(ValueError, match="not the ledger that this client stored"):
        spending.restored(kept.clients[1].stored, given=2)
    assert spending.restored(kept.clients[1].stored, given=1).ledger == spending.ledger


def test_a_client_that_restarts_goes_on_from_its_journal_and_from_no_older_ledger() -> None:
    view = opened(tap=losing("Survivors", 3, to=True))
    stored: list[dict[tuple[int, str], bytes]] = []
    for round in range(2):
        summed(view, round)
        stored.append(dict(sides.network(view).persisted))
    charter = sides.part(view, MaskedSessions).charter
    before, now = ({i: {key: e for (j, key), e in each.items() if j == i} for i in MEMBERS} for each in stored)
    for i in MEMBERS:
        _, transcript = restored(now[i], charter, i)
        fresh = SumSpending.of(charter, i)
        assert fresh is not None
        assert fresh.restored(now[i], transcript.sums).ledger == own(view)[i]
        assert len(own(view)[i].releases) == transcript.sums == 2
        with pytest.raises(ValueError, match="not the ledger that this client stored"):
            fresh.restored({**now[i], LEDGER: before[i][LEDGER]}, transcript.sums)


def test_a_client_has_a_ledger_if_and_only_if_its_charter_has_noise() -> None:
    with_noise, without = (sides.maskers(opened(noise))[1].state for noise in (NOISE, None))
    assert without.spending is None
    for state, spending in ((with_noise, None), (without, with_noise.spending)):
        with pytest.raises(ValueError, match="if its charter has noise"):
            replace(state, spending=spending)


@pytest.mark.parametrize(
    "changes",
    [{"epsilon": 60.0}, {"delta": 1e-2}, {"rounds": 4}, {"l2": 5.0}, {"adjacency": "replace"}, {"overflow": 1e-5}, None],
)
def test_a_charter_with_other_noise_is_another_charter(changes: Any) -> None:
    """So nobody masks or signs with a client that was told of other noise."""
    charter = sides.part(opened(), MaskedSessions).charter
    noise = None if changes is None else replace(charter.numbers.noise, **changes)
    assert replace(charter, numbers=replace(charter.numbers, noise=noise)).digest != charter.digest
    with pytest.raises(ValueError, match="a charter with noise names it"):
        replace(charter, dropped=None)


# --- a server that lies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"clip": lambda x: 2 * x},
        {"ring_bits": lambda _: 64},
        {"length": lambda n: n - 1},
        {"bits": lambda n: n - 1},
        {"max_weight": lambda n: n + 1},
        {"times_samples": lambda _: 1},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_terms_of_other_noise_are_refused(changes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(*fields: Any) -> SumTerms:
        terms = SumTerms(*fields)
        return replace(terms, **{name: change(getattr(terms, name)) for name, change in changes.items()})

    view = opened()
    monkeypatch.setattr(masking, "SumTerms", other)
    assert isinstance(summed(view, 0), BelowFloor)
    reason = "against its name" if "times_samples" in changes else "do not belong to the noise that was agreed on"
    assert refused(view, reason) == {len(MEMBERS)}
    assert all(ledger.spent == 0 for ledger in own(view).values())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"threshold": 5}, "do not belong to the noise"),
        ({"threshold": 7}, "do not belong to the noise"),
        ({"row": dict.fromkeys(MEMBERS, 1.0) | {1: 1.5}}, "weights that are not equal"),
        ({"row": dict.fromkeys(MEMBERS, 1.0) | {1: 0.0}}, "weights that are not equal"),
    ],
    ids=["a lower threshold", "a higher one", "a larger weight", "a weight of none"],
)
def test_sums_of_other_clients_than_the_noise_is_for_are_refused(
    changes: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = opened()
    kept = NoisySums.shape
    monkeypatch.setattr(NoisySums, "shape", lambda *asked: replace(kept(*asked), **changes))
    assert isinstance(summed(view, 0), BelowFloor)
    assert refused(view, reason) == {len(MEMBERS)}
    assert all(ledger.spent == 0 for ledger in own(view).values())


@pytest.mark.parametrize(
    "changes",
    [{"epsilon": 60.0}, {"delta": 1e-2}, {"rounds": 1}, {"l2": 5.0}, {"adjacency": "replace"}],
    ids=lambda changes: next(iter(changes)),
)
def test_less_noise_than_the_charter_says_is_refused(changes: Any) -> None:
    """A server whose noise would suffice for another budget."""
    view = opened()
    server = noisy(view)
    c = server._cohorts
    server._cohorts = Cohorts(replace(c.noise, **changes), c.rules, c.dropped, c.d, c.ring_bits)
    server.ledgers = {(i, "client"): server._cohorts.ledger(i) for i in MEMBERS}
    assert isinstance(summed(view, 0), BelowFloor)
    assert refused(view, "do not belong to the noise that was agreed on") == {len(MEMBERS)}
    assert all(ledger.spent == 0 for ledger in own(view).values())


def test_a_second_sum_in_a_round_is_refused_whatever_the_work() -> None:
    view = opened()
    updates, gradients = (view.train(0, {"root": START}, kind)["root"] for kind in ("update", "gradient"))
    assert isinstance(view.sums(updates, {"root": MEAN})["root"], Sum)
    sessions, before = sides.part(view, MaskedSessions), own(view)
    fewer = MEMBERS[:-1]  # of other parameters, hence of another name
    plan = sessions.plan(gradients, noisy(view).shape("again", fewer))
    assert sessions.mask({"again": plan}) == {"again": None}
    assert refused(view, "a sum of other work") == {len(fewer)}
    assert own(view) == before


def test_a_client_with_no_budget_left_declines_whatever_the_server_thinks() -> None:
    view = opened(tap=losing("MaskedInput", 2, 3))
    for round in range(3):
        summed(view, round)
    before = own(view)
    noisy(view).ledgers = {(i, "client"): noisy(view)._cohorts.ledger(i) for i in MEMBERS}
    assert isinstance(summed(view, 3), BelowFloor)
    told = {fault.blame for fault in view.record.faults if fault.rejected and "past its budget of 6" in fault.reason}
    assert told == set(MEMBERS)
    assert own(view) == before
    assert all(5.9 < ledger.spent <= 6 for ledger in own(view).values())


def test_nobody_makes_noise_for_a_client_and_no_client_forgets_it() -> None:
    """An input is a fresh draw about the client's own work: not that work, and not what another client's would be."""
    view = opened(Noise(epsilon=1e5, delta=1e-4, rounds=1, l2=0.5))
    updates = view.train(0, {"root": START})["root"]
    sessions = sides.part(view, MaskedSessions)
    plan = sessions.plan(updates, noisy(view).shape("root", MEMBERS))
    member = sides.maskers(view)[1]
    spending = member.state.spending.joining(plan, {})
    assert isinstance(spending, SumSpending)
    assert spending.place is not None
    held = LocalWork(np.full(D, 0.01, np.float32), 10)
    one, other = (spending.put_in(held, SimulatedEntropy(seed)) for seed in (1, 2))
    assert isinstance(one, np.ndarray)
    assert not np.array_equal(one, other)
    assert one.shape == (plan.terms.length,)
    assert "without the noise" in str(member.state.spending.put_in(held, SimulatedEntropy(1)))
    assert "not finite" in str(spending.put_in(replace(held, vector=np.full(D, np.inf, np.float32)), SimulatedEntropy(1)))
