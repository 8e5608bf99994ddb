"""What a client puts into a sum that a receiver opens is made of the work that the offer names, on the run's own terms."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Masked, Noise
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Received
from cloister.protocol.masked.given import GivenUpdates
from cloister.protocol.masked.masking import MaskedSessions
from cloister.protocol.masked.receiver_opened.opening import ReceiverOpened
from cloister.protocol.masked.receiver_opened.terms import PROTOCOL, ReceiverSum, most_bits
from cloister.protocol.masked.terms import Plan
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum, Updates, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.protocol.wire.codec import Envelope

from . import sides

CLIENTS, D, RUN = tuple(range(6)), 40, bytes(range(16))
START = Assignment(Model("init"), CLIENTS, CLIENTS)
ROW = Weights(dict.fromkeys(CLIENTS, 1.0))
SENDERS = CLIENTS[1:]


def vector(client: int, kind: str) -> np.ndarray:
    return np.random.default_rng([client, len(kind)]).uniform(-1, 1, D).astype(np.float32)


def work(jobs: Sequence[LocalJob]) -> Iterator[tuple[int, LocalWork]]:
    for job in jobs:
        if job.work == "slots":
            yield job.client, LocalWork(np.stack([vector(job.client, "slots")] * 2), 1, (1, 0))
        else:
            yield job.client, LocalWork(vector(job.client, job.work), 5)


def opened(**fields: Any) -> Any:
    return Masked(floor=2, **fields).open(Setup(RUN, np.zeros(D, np.float32), CLIENTS, work, SimulatedEntropy(3)))


def trained(view: Any, round: int = 0, kind: str = "update") -> Updates:
    found = view.train(round, {"all": START}, kind)["all"]
    assert isinstance(found, Updates)
    return found


def asked(view: Any, updates: Updates) -> Sum | BelowFloor:
    return view.personal_sums(updates, {0: ROW})[0]


def told(view: Any, reason: str) -> list[int]:
    return sorted(fault.blame for fault in view.record.faults if reason in fault.reason)


def offering(view: Any, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """The server offers something else than what belongs to the updates."""
    kept = ReceiverOpened._opening
    monkeypatch.setattr(ReceiverOpened, "_opening", lambda *given: replace(kept(*given), **changes))


@pytest.mark.parametrize("kind", ["update", "gradient"])
def test_senders_put_in_the_work_that_the_offer_names(kind: str) -> None:
    """Both are of one round and one model: only the offer's digest tells them apart."""
    view = opened()
    both = {other: trained(view, 0, other) for other in ("update", "gradient")}
    answer = view.personal_sums(both[kind], {0: ROW})[0]
    assert isinstance(answer, Sum)
    mean = view.harness.observe(view.advance(Model("init"), answer))
    plain = np.mean([vector(i, kind) for i in CLIENTS], axis=0)
    assert np.abs(mean - plain).max() <= answer.error + 1e-6
    assert not view.record.faults


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"clip": 8.0}, "terms that do not belong to an update of this run"),
        ({"d": D - 1}, "terms that do not belong to an update of this run"),
        ({"bits": 3}, "terms that do not belong to an update of this run"),
        ({"ring_bits": 64}, "terms that do not belong to an update of this run"),
        ({"update": bytes(32)}, "an update that this client does not hold"),
        ({"model": bytes(32)}, "another model than the one received"),
    ],
    ids=["a larger clip", "a shorter update", "fewer bits", "another ring", "another update", "another model"],
)
def test_an_offer_that_is_not_of_their_work_is_refused_by_every_sender(
    changes: Any, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = opened()
    updates = trained(view)
    offering(view, monkeypatch, **changes)
    assert isinstance(asked(view, updates), BelowFloor)
    assert told(view, reason) in ([SERVER] * len(CLIENTS), [SERVER] * len(SENDERS))
    assert all(not member.state.given.updates for member in sides.maskers(view).values())


def test_work_of_another_round_is_not_offered_as_this_rounds() -> None:
    view = opened()
    updates = trained(view)
    session = sides.part(view, ReceiverOpened)._held.known(updates).session
    opener = sides.part(view, ReceiverOpened).openers[1]
    own = (32, D, most_bits(32, len(SENDERS)), 4.0)
    digest = sides.part(view, MaskedSessions).model_digest(updates)
    for round, reason in ((1, "an update of another round"), (0, None)):
        asking = Session(PROTOCOL, RUN, round, "all for 0", SENDERS, 3)
        offer = ReceiverSum(asking, 0, (1.0,) * len(SENDERS), *own, digest, session)
        event = Received(Envelope(asking.digest, SERVER, 1, offer.offer))
        if reason is None:
            opener.handle(event)
            assert opener.state.phases
        else:
            with pytest.raises(ProtocolError, match=reason):
                opener.handle(event)
            assert not opener.state.phases


def test_work_for_slots_is_no_senders_input(monkeypatch: pytest.MonkeyPatch) -> None:
    view = opened()
    updates = trained(view)
    view.slots(0, "choice", replace(START, others=(Model("init"),)))
    (taken,) = (each for name, each in sides.clients(view).parties[1].taken.items() if name.endswith("/slots"))
    offering(view, monkeypatch, update=taken.session, model=taken.model)
    for member in sides.maskers(view).values():
        member._inputs.gave = (-1, b"", False)  # as if the slots had not been summed in this round
        member.state = replace(member.state, transcript=replace(member.state.transcript, given=GivenUpdates()))
    assert isinstance(asked(view, updates), BelowFloor)
    assert told(view, "another kind of work") == list(SENDERS)


def test_a_masked_sum_on_other_terms_than_the_offers_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    view = opened()
    updates, sessions = trained(view), sides.part(view, MaskedSessions)
    kept = sessions.mask

    def other(plans: Any) -> Any:
        changed = {
            label: Plan.of(p.session, replace(p.terms, bits=p.terms.bits - 1), sessions.charter) for label, p in plans.items()
        }
        return kept(changed)

    monkeypatch.setattr(sessions, "mask", other)
    assert isinstance(asked(view, updates), BelowFloor)
    assert told(view, "terms that do not belong to the offer that it took") == list(SENDERS)


def test_a_masked_sum_under_no_offer_gets_nothing() -> None:
    view = opened()
    updates, sessions = trained(view), sides.part(view, MaskedSessions)
    digest = sessions.model_digest(updates)
    session = Session(f"masked sum/opened {'0' * 40}", RUN, 0, "all", SENDERS, 3)
    own = Session(PROTOCOL, RUN, 0, "all for 0", SENDERS, 3)
    opening = ReceiverSum(own, 0, (1.0,) * len(SENDERS), 32, D, most_bits(32, len(SENDERS)), 4.0, digest, bytes(32))
    graph = sessions.graph_of(len(SENDERS))
    plan = Plan.of(session, opening.sum_terms(graph.neighbours, graph.threshold, bytes(32)), sessions.charter)
    assert sessions.mask({"made up": plan}) == {"made up": None}
    assert told(view, "another model than the one received") == [SERVER] * len(SENDERS)


def test_under_noise_clients_take_no_offer() -> None:
    view = Masked(noise=Noise(epsilon=6.0, delta=1e-4, rounds=3, l2=0.5)).open(
        Setup(RUN, np.zeros(D, np.float32), CLIENTS, work, SimulatedEntropy(3))
    )
    updates = trained(view)
    own = Session(PROTOCOL, RUN, 0, "all for 0", SENDERS, 4)
    digest = sides.part(view, MaskedSessions).model_digest(updates)
    session = sides.part(view, ReceiverOpened)._held.known(updates).session
    offer = ReceiverSum(own, 0, (1.0,) * len(SENDERS), 32, D, most_bits(32, len(SENDERS)), 4.0, digest, session).offer
    for opener in sides.part(view, ReceiverOpened).openers.values():
        with pytest.raises(ProtocolError, match="without the noise that was agreed on"):
            opener.handle(Received(Envelope(own.digest, SERVER, opener.id, offer)))


def test_a_receiver_that_holds_no_such_work_takes_no_weight_for_it() -> None:
    view = opened()
    updates = trained(view)
    del sides.clients(view).parties[0].held[updates.name]
    assert isinstance(view.personal_sums(updates, {0: ROW})[0], BelowFloor)
    assert told(view, "a weight for an update that this client does not hold") == [SERVER]


def test_the_receiver_alone_holds_the_mean_with_its_own_update_in_it() -> None:
    view = opened()
    updates = trained(view)
    answer = view.personal_sums(updates, {0: ROW})[0]
    held = {i: [mean.vector for mean in party.owned.means.values()] for i, party in sides.clients(view).parties.items()}
    assert {i for i, means in held.items() if means} == {0}
    plain = np.mean([vector(i, "update") for i in CLIENTS], axis=0)
    assert np.abs(held[0][0] - plain).max() <= answer.error + 1e-6
    assert answer.name not in sides.models(view).means
