"""The second server of the two-server protocol: it holds keys, and answers only what the floor allows.

Spec: specs/two_servers.md. It keeps 32 bytes per update and expands one share at a time. What it is asked is checked against
everything it answered about the same updates: a lone first server gets no sum under the floor and no two that differ in few,
and nothing of updates that started from unlike models.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import cbor2

from ...crypto.additive import AdditiveShare, difference, gram_share, keyed_share, keyed_square, keyed_triple, reveal
from ...crypto.commitment import BadCommitment, open_commitment
from ...crypto.entropy import Entropy
from ..core.errors import ProtocolError
from ..core.session import DEALER, SECOND_SERVER, SERVER, Session
from ..drivers.roles import Deadline, Effect, Event, Persist, Received, Refusal, Send
from ..wire.codec import Envelope
from ..wire.messages import Task
from ..work.uploads import Policy
from .messages import (
    Agreed,
    Coin,
    GramAnswer,
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
    Row,
    gram_question,
    keep_question,
    projected,
    projection_key,
    rows_of,
    slot_question,
    sum_question,
    weighted,
)
from .slot_messages import SlotKey, SlotQuestion, SlotsAgreed
from .slot_sums import SlotHolding, commitment_of, open_slots, to_bytes
from .slot_terms import SLOTS, SharedSlots
from .terms import ShareTerms, Words
from .upload import KINDS, admitted, from_words, is_old, slots_of, to_words

KEPT = "kept"
"""In its journal: keys that are listed to be kept. The other entries are rounds and numbers that are spent."""
OTHER_WORK = "a sum of other work of some client than was summed: both have much of it in common"


@dataclass(frozen=True, slots=True)
class CollectingKeys:
    """A session while keys arrive; if it is about slots, with commitments. models: what each client says that it started from."""

    session: Session
    keys: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    models: Mapping[int, bytes] = field(default_factory=dict)
    slots: SharedSlots | None = None
    commitments: Mapping[int, int] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class HoldingKeys:
    """A session's survivors. sums: the weight rows answered, None once only Gram questions are. products: entered by client.

    round: of the session.
    """

    keys: Mapping[int, bytes] = field(repr=False)
    sums: tuple[Mapping[int, int], ...] | None = ()
    products: Mapping[int, int] = field(default_factory=dict)
    round: int = 0


@dataclass(frozen=True, slots=True)
class Tossed:
    """A Gram question after the second server's half of the coin, until the server's opening and the triple are both here."""

    rows: tuple[Row, ...]
    commitment: bytes
    coin: bytes
    triple: KeyedTriple | None = None
    opening: Opening | None = None


@dataclass(frozen=True, slots=True)
class Second:
    """The second server. next_round, next_question: what it still takes. opened: the round after each that it opened, as
    persisted, which `restored` and Keep close for all kinds (`closing`). Keys are stored when Keep lists them, and not before.
    About sessions of slots nothing else is answered.
    """

    run: bytes
    terms: ShareTerms
    policy: Policy
    entropy: Entropy = field(repr=False)
    next_round: Mapping[str, int] = field(default_factory=dict)
    next_question: int = 0
    sessions: Mapping[bytes, CollectingKeys | HoldingKeys | SlotHolding] = field(default_factory=dict)
    questions: Mapping[bytes, Tossed] = field(default_factory=dict)
    opened: Mapping[str, int] = field(default_factory=dict)


def restored(fresh: Second, journal: Mapping[str, bytes]) -> Second:
    """The second server after a crash. fresh: with nothing held or spent. journal: all that it persisted.

    Updates that Keep did not list are lost with their keys, so every round that was opened is closed, and every number that was
    used stays so.
    """
    spent = {key: int.from_bytes(value, "big") for key, value in journal.items() if key != KEPT}
    sessions: dict[bytes, CollectingKeys | HoldingKeys | SlotHolding] = {}
    for digest, client, key, products in cbor2.loads(journal[KEPT]) if KEPT in journal else ():
        held = sessions.get(digest)
        before = held if isinstance(held, HoldingKeys) else HoldingKeys({}, None)
        sessions[digest] = HoldingKeys({**before.keys, client: key}, None, {**before.products, client: products})
    closed = closing(number for key, number in spent.items() if key.startswith("next round "))
    return replace(fresh, next_round=closed, next_question=spent.get("next question", 0), sessions=sessions)


def closing(opened: Iterable[int]) -> dict[str, int]:
    """The next round of every kind, once what was answered of these is forgotten. opened: the round after each that was opened.

    All kinds are closed up to the latest: of one round's work another kind must not be summed than was.
    """
    after = max(opened, default=0)
    return dict.fromkeys((*KINDS, SLOTS), after) if after else {}


def _kept(sessions: Mapping[bytes, CollectingKeys | HoldingKeys | SlotHolding]) -> Persist:
    """The keys that Keep listed, and the products that their updates entered, in the place of those before."""
    held = {digest: found for digest, found in sessions.items() if isinstance(found, HoldingKeys) and found.sums is None}
    rows = [[digest, i, key, of.products.get(i, 0)] for digest, of in held.items() for i, key in of.keys.items()]
    return Persist(KEPT, cbor2.dumps(rows))


def second_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The second server's role. Raises ProtocolError blaming the sender of what is misplaced, repeated, or must be refused."""
    match state, event:
        case Second(), Received(Envelope(message=KeyShare() | SlotKey() as share, sender=client, session=digest)):
            return _take_key(state, digest, client, share), ()
        case Second(), Received(Envelope(message=KeyedTriple() as triple, sender=sender, session=question)):
            if sender != DEALER or question not in state.questions or state.questions[question].triple is not None:
                raise ProtocolError("a triple that is not the dealer's, or that no question waits for", sender)
            return _answer(state, question, replace(state.questions[question], triple=triple))
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
            return _toss(state, question, request)
        case Second(), Received(Envelope(message=Opening() as opening, session=question)):
            return _opened(state, question, opening)
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


def _send(session: bytes, message: Any) -> Send:
    return Send(Envelope(session, SECOND_SERVER, SERVER, message))


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
        raise ProtocolError("survivors of a session that is not open, or a second time", SERVER)
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
    return replace(state, sessions={**state.sessions, digest: holding}), (_send(digest, agreed), *others)


# --- Gram questions --------------------------------------------------------------------------------------------------------


def _numbered(state: Second, number: int, question: bytes, expected: bytes) -> tuple[Second, Persist]:
    """The state after a question's number is spent."""
    if number < state.next_question:
        raise ProtocolError("a question whose number was used before", SERVER)
    if question != expected:
        raise ProtocolError("a question under another question's digest", SERVER)
    return replace(state, next_question=number + 1), Persist("next question", (number + 1).to_bytes(8, "big"))


def _toss(state: Second, question: bytes, request: GramQuestion) -> tuple[Second, tuple[Effect, ...]]:
    """Check the rows, count them against the limit of products, and say the second half of the coin."""
    numbered, stored = _numbered(state, request.number, question, gram_question(state.run, request))
    rows = rows_of(request)
    if len(set(rows)) < len(rows):
        raise ProtocolError("a Gram question with a row twice", SERVER)
    sessions = dict(state.sessions)
    for digest, client in rows:
        held = sessions.get(digest)
        if isinstance(held, SlotHolding):  # inner products of choices would show who chose alike
            raise ProtocolError("a Gram question about slots", SERVER)
        if not isinstance(held, HoldingKeys) or client not in held.keys:
            raise ProtocolError("a Gram question about an update that is not held", SERVER)
        products = held.products.get(client, 0) + len(rows)
        if 0 < state.terms.most_products < products:
            raise ProtocolError(f"a question too many: {state.terms.most_products} products of one update are the most", SERVER)
        sessions[digest] = replace(held, products={**held.products, client: products})
    coin = state.entropy.secret(f"two servers coin 2 {question.hex()}", 32)
    tossed = Tossed(rows, request.commitment, coin)
    entered = {digest for digest, _ in rows}
    counted = any(isinstance(held := sessions[digest], HoldingKeys) and held.sums is None for digest in entered)
    return replace(numbered, sessions=sessions, questions={**state.questions, question: tossed}), (
        stored,
        *([_kept(sessions)] if counted else ()),
        _send(question, Coin(coin)),
    )


def _opened(state: Second, question: bytes, opening: Opening) -> tuple[Second, tuple[Effect, ...]]:
    tossed = state.questions.get(question)
    if tossed is None or tossed.opening is not None:
        raise ProtocolError("an opening that no question waits for", SERVER)
    try:
        open_commitment(tossed.commitment, opening.coin, opening.salt, question)
    except BadCommitment:
        raise ProtocolError("a half of the coin that is not the one committed to", SERVER) from None
    if len(opening.difference) != 8 * len(tossed.rows) * state.terms.columns:
        raise ProtocolError(f"a difference of {len(opening.difference)} bytes", SERVER)
    return _answer(state, question, replace(tossed, opening=opening))


def _answer(state: Second, question: bytes, tossed: Tossed) -> tuple[Second, tuple[Effect, ...]]:
    """Project the shares and answer, once the triple and the opening are here; each triple once."""
    if tossed.triple is None or tossed.opening is None:
        return replace(state, questions={**state.questions, question: tossed}), ()
    projection = state.terms.project(projection_key(question, tossed.opening.coin, tossed.coin))
    share = AdditiveShare(1, projected(state.terms, projection, _expanded(state, tossed.rows), len(tossed.rows)))
    count = len(tossed.rows)
    triple = keyed_triple(1, tossed.triple.mask, keyed_square(tossed.triple.square, count), state.terms.columns)
    mine = difference(share, triple)
    theirs = AdditiveShare(0, from_words(tossed.opening.difference).reshape(count, -1))
    gram = gram_share(reveal(theirs, mine), triple)
    left = {q: t for q, t in state.questions.items() if q != question}
    return replace(state, questions=left), (_send(question, GramAnswer(to_words(mine.values), to_words(gram.values))),)


def _expanded(state: Second, rows: tuple[Row, ...]) -> Iterator[Words]:
    for digest, client in rows:
        held = state.sessions.get(digest)
        if not isinstance(held, HoldingKeys) or client not in held.keys:
            raise ProtocolError("a Gram question about an update that is no longer held", SERVER)
        yield keyed_share(held.keys[client], (state.terms.length,)).values


# --- sums, and forgetting --------------------------------------------------------------------------------------------------


def _sum(state: Second, question: bytes, request: SumQuestion) -> tuple[Second, tuple[Effect, ...]]:
    """Answer with the share of a weighted sum, if all sums of these updates together are within the rules."""
    numbered, stored = _numbered(state, request.number, question, sum_question(state.run, request))
    held, rules = state.sessions.get(request.source), state.terms.rules
    if not isinstance(held, HoldingKeys) or held.sums is None or not set(request.clients) <= set(held.keys):
        raise ProtocolError("a sum of updates that are not held, or no longer for sums", SERVER)
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
    return replace(numbered, sessions=sessions), (stored, _send(question, SumAnswer(to_words(total))))


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
    numbered, stored = _numbered(state, request.number, question, slot_question(state.run, request))
    held = state.sessions.get(request.source)
    if not isinstance(held, SlotHolding):
        raise ProtocolError("a question about slots that are not held", SERVER)
    opened, answer = open_slots(held, request)
    if not opened.summed.isdisjoint(_summed_beside(state, request.source, held.round)):
        raise ProtocolError(OTHER_WORK, SERVER)
    return replace(numbered, sessions={**state.sessions, request.source: opened}), (stored, _send(question, answer))


def _keep(state: Second, question: bytes, keep: Keep) -> tuple[Second, tuple[Effect, ...]]:
    """Forget all but these clients' keys, as far as they are held, and take no more sessions of the rounds so far."""
    numbered, stored = _numbered(state, keep.number, question, keep_question(state.run, keep))
    kept: dict[bytes, HoldingKeys] = {}
    for digest, client in rows_of(keep):
        held = state.sessions.get(digest)
        if not isinstance(held, HoldingKeys) or client not in held.keys:
            continue  # lost in a crash: the first server finds out when it asks
        before = kept.get(digest, HoldingKeys({}, None))
        products = {**before.products, client: held.products.get(client, 0)}
        kept[digest] = HoldingKeys({**before.keys, client: held.keys[client]}, None, products)
    closed = closing((*state.next_round.values(), *state.opened.values()))
    return replace(numbered, sessions=kept, questions={}, next_round=closed), (stored, _kept(kept))
