"""The second server of the two-server protocol: it holds keys, and answers only what the floor allows.

Spec: specs/two_servers.md. What it holds is in second_state.py, how Gram questions are answered in second_gram.py; it expands one
share at a time. What it is asked is checked against everything it answered about the same updates: a lone first server gets no
sum under the floor and no two that differ in few, and nothing of updates that started from unlike models.
"""

from dataclasses import replace
from itertools import chain
from typing import Any

from ...crypto.additive import keyed_share
from ..core.errors import RESTARTED, ProtocolError
from ..core.session import SERVER
from ..drivers.roles import Deadline, Effect, Event, Persist, Received, Refusal
from ..wire.codec import Envelope
from ..wire.messages import Task
from .messages import (
    Agreed,
    GramQuestion,
    Held,
    Keep,
    KeyedTriple,
    KeyShare,
    Opening,
    SumAnswer,
    SumQuestion,
)
from .one_model import another_model, of_one_model
from .questions import (
    keep_question,
    rows_of,
    slot_question,
    sum_question,
    weighted,
)
from .second_gram import take_opening, take_triple, toss
from .second_state import CollectingKeys, HoldingKeys, Second, closing, kept_keys, number_spent, to_server
from .slot_messages import SlotKey, SlotQuestion, SlotsAgreed
from .slot_sums import SlotHolding, commitment_of, open_slots, to_bytes
from .upload import admitted, is_old, slots_of, to_words

OTHER_WORK = "a sum of other work of some client than was summed: both have much of it in common"


def second_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The second server's role. Raises ProtocolError blaming the sender of what is misplaced, repeated, or must be refused."""
    match state, event:
        case Second(), Received(Envelope(message=KeyShare() | SlotKey() as share, sender=client, session=digest)):
            return _take_key(state, digest, client, share), ()
        case Second(), Received(Envelope(message=KeyedTriple() as triple, sender=sender, session=question)):
            return take_triple(state, sender, question, triple)
        case Second(), Received(Envelope(sender=sender)) if sender != SERVER:
            raise ProtocolError("a message that is not the server's", sender)
        case Second(), Received(Envelope(message=Task() as task, sender=sender)) if is_old(
            task, sender, state.run, state.next_round
        ):
            return state, ()
        case Second(), Received(Envelope(message=Task() as task) as envelope):
            return _open(state, envelope, task)
        case Second(), Received(Envelope(message=Held(clients=clients), session=digest)):
            return _agree(state, digest, clients)
        case Second(), Received(Envelope(message=GramQuestion() as request, session=question)):
            return toss(state, question, request)
        case Second(), Received(Envelope(message=Opening() as opening, session=question)):
            return take_opening(state, question, opening)
        case Second(), Received(Envelope(message=SumQuestion() as request, session=question)):
            return _sum(state, question, request)
        case Second(), Received(Envelope(message=SlotQuestion() as request, session=question)):
            return _slots(state, question, request)
        case Second(), Received(Envelope(message=Keep() as keep, session=question)):
            return _keep(state, question, keep)
        case Second(), Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at the second server", envelope.sender)
        case Second(), Deadline():
            return state, ()
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at the second server")


# --- uploads ---------------------------------------------------------------------------------------------------------------


def _open(state: Second, envelope: Envelope, task: Task) -> tuple[Second, tuple[Effect, ...]]:
    """Take keys for a session, and store that its round is spent: after a crash there is nothing left to ask about it."""
    session = admitted(envelope, task, state.run, state.policy, state.next_round)
    if session.digest in state.sessions:
        raise ProtocolError("a session that is already open", SERVER)
    opened = {**state.opened, task.work: max(task.round + 1, state.opened.get(task.work, 0))}
    sessions = {**state.sessions, session.digest: CollectingKeys(session, slots=slots_of(task, state.terms))}
    stored = Persist(f"next round {task.work}", opened[task.work].to_bytes(4, "big"))
    return replace(state, sessions=sessions, opened=opened), (stored,)


def _take_key(state: Second, digest: bytes, client: int, share: KeyShare | SlotKey) -> Second:
    held = state.sessions.get(digest)
    if not isinstance(held, CollectingKeys):
        raise ProtocolError("a key for a session that is not open for keys", client)
    if client not in held.session.roster or client in held.keys:
        raise ProtocolError("a key from outside the roster, or a second one", client)
    if share.binding != (held.slots or state.terms).binding(held.session):
        raise ProtocolError("a key of another session or of other terms", client)
    if isinstance(share, SlotKey) != (held.slots is not None):
        raise ProtocolError("a key with a commitment where none belongs, or without one", client)
    taken = replace(held, keys={**held.keys, client: share.key}, models={**held.models, client: share.model})
    if isinstance(share, SlotKey):
        taken = replace(taken, commitments={**held.commitments, client: commitment_of(share.commitment, client)})
    return replace(state, sessions={**state.sessions, digest: taken})


def _agree(state: Second, digest: bytes, clients: tuple[int, ...]) -> tuple[Second, tuple[Effect, ...]]:
    """Fix the survivors: clients whose shares both servers hold, and that started from one model. Other keys are forgotten."""
    held = state.sessions.get(digest)
    if not isinstance(held, CollectingKeys):
        raise ProtocolError(f"survivors of a session that is not open, {RESTARTED}, or a second time", SERVER)
    if not set(clients) <= set(held.session.roster):
        raise ProtocolError("survivors from outside the roster", SERVER)
    both = {i: held.models[i] for i in clients if i in held.keys}
    alike = of_one_model(both)
    keys = {i: held.keys[i] for i in alike}
    holding: HoldingKeys | SlotHolding = HoldingKeys(keys, round=held.session.round)
    agreed: Agreed | SlotsAgreed = Agreed(alike)
    if held.slots is not None:
        holding = SlotHolding(held.slots, keys, {i: held.commitments[i] for i in alike}, held.session.round)
        agreed = SlotsAgreed(alike, to_bytes(holding.commitments.values()))
    others = (Refusal(i, another_model(i)) for i in both if i not in keys)
    return replace(state, sessions={**state.sessions, digest: holding}), (to_server(digest, agreed), *others)


# --- sums, and forgetting --------------------------------------------------------------------------------------------------


def _sum(state: Second, question: bytes, request: SumQuestion) -> tuple[Second, tuple[Effect, ...]]:
    """Answer with the share of a weighted sum, if all sums of these updates together are within the rules."""
    numbered, stored = number_spent(state, request.number, question, sum_question(state.run, request))
    held, rules = state.sessions.get(request.source), state.terms.rules
    if not isinstance(held, HoldingKeys) or held.sums is None or not set(request.clients) <= set(held.keys):
        raise ProtocolError(f"a sum of updates that are not held, {RESTARTED}, or no longer for sums", SERVER)
    row = dict(zip(request.clients, request.weights, strict=True))
    if not rules.enough(len(row)):
        raise ProtocolError(f"a sum of {len(row)} clients where {rules.least} are the fewest", SERVER)
    if sum(abs(q) for q in row.values()) > state.terms.most_weight:
        raise ProtocolError("weights whose sum could wrap around", SERVER)
    if rules.reveals([*held.sums, row]):
        raise ProtocolError(f"a sum that, with those before, would show fewer than {rules.least} clients", SERVER)
    if not row.keys().isdisjoint(_summed_beside(state, request.source, held.round)):
        raise ProtocolError(OTHER_WORK, SERVER)
    shares = (keyed_share(held.keys[i], (state.terms.length,)).values for i in row)
    total = weighted(row.values(), shares, state.terms.length)
    sessions = {**state.sessions, request.source: replace(held, sums=(*held.sums, row))}
    return replace(numbered, sessions=sessions), (stored, to_server(question, SumAnswer(to_words(total))))


def _summed_beside(state: Second, source: bytes, round: int) -> set[int]:
    """Whose work of other sessions of this round went into sums, or into slots."""
    found: set[int] = set()
    for digest, held in state.sessions.items():
        if digest == source or isinstance(held, CollectingKeys) or held.round != round:
            continue
        found.update(held.summed if isinstance(held, SlotHolding) else chain.from_iterable(held.sums or ()))
    return found


def _slots(state: Second, question: bytes, request: SlotQuestion) -> tuple[Second, tuple[Effect, ...]]:
    """Answer with the shares of counts and of open slots, once for a session."""
    numbered, stored = number_spent(state, request.number, question, slot_question(state.run, request))
    held = state.sessions.get(request.source)
    if not isinstance(held, SlotHolding):
        raise ProtocolError(f"a question about slots that are not held, {RESTARTED}", SERVER)
    opened, answer = open_slots(held, request)
    if not opened.summed.isdisjoint(_summed_beside(state, request.source, held.round)):
        raise ProtocolError(OTHER_WORK, SERVER)
    return replace(numbered, sessions={**state.sessions, request.source: opened}), (stored, to_server(question, answer))


def _keep(state: Second, question: bytes, keep: Keep) -> tuple[Second, tuple[Effect, ...]]:
    """Forget all but these clients' keys, as far as they are held, and take no more sessions of the rounds so far."""
    numbered, stored = number_spent(state, keep.number, question, keep_question(state.run, keep))
    kept: dict[bytes, HoldingKeys] = {}
    for digest, client in rows_of(keep):
        held = state.sessions.get(digest)
        if not isinstance(held, HoldingKeys) or client not in held.keys:
            continue  # lost in a crash: the first server finds out when it asks
        before = kept.get(digest, HoldingKeys({}, None))
        products = {**before.products, client: held.products.get(client, 0)}
        kept[digest] = HoldingKeys({**before.keys, client: held.keys[client]}, None, products)
    closed = closing((*state.next_round.values(), *state.opened.values()))
    return replace(numbered, sessions=kept, questions={}, next_round=closed), (stored, kept_keys(kept))
