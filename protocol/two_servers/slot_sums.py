"""The one question about slots, both sides: counts are opened to both servers, sums of slots that reach the floor to the first.

Spec: specs/slots.md. Both steps are about one upload and the survivors that the servers agreed on, so nobody can be lost in
between. The second server takes the first one's share of the counts only if it opens the product of the clients' commitments.
First server: AskingSlots -> SlotsAnswered or Unanswered.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...crypto.additive import keyed_share
from ...crypto.pedersen import COMMITMENT_BYTES, PRIME, combined, pedersen
from ..core.errors import ProtocolError
from ..core.session import SECOND_SERVER, SERVER
from ..drivers.roles import Deadline, Effect, Event, Received, Send
from ..wire.codec import Envelope
from .asking import Unanswered
from .questions import slot_question, weighted
from .slot_messages import BLINDINGS_BYTES, COUNT_BYTES, SlotAnswer, SlotQuestion
from .slot_terms import SharedSlots
from .terms import Integers, Words
from .upload import from_words, to_words
from .upload_server import SharesCollected


@dataclass(frozen=True, slots=True)
class AskingSlots:
    """Waiting for the second server's shares. total: the sum of this server's, uint64 (K (d + 2),), of so many clients."""

    slots: SharedSlots
    question: bytes
    clients: int
    total: Words = field(repr=False)


@dataclass(frozen=True, slots=True)
class SlotsAnswered:
    """The end. counts: None where no clients can have counted themselves so. rows: int64 (d + 1,), of each open slot."""

    question: bytes
    counts: tuple[int, ...] | None
    rows: Mapping[int, Integers] = field(repr=False)


def ask_slots(slots: SharedSlots, run: bytes, number: int, collected: SharesCollected) -> tuple[AskingSlots, tuple[Effect, ...]]:
    """Ask to open what was collected. number: not used for a question before."""
    shares = [words for words, _ in collected.received.values()]
    counts, blinding = _opening(slots, collected, collected.received)
    request = SlotQuestion(
        number,
        collected.session.digest,
        b"".join(count.to_bytes(COUNT_BYTES, "big") for count in counts),
        blinding.to_bytes(BLINDINGS_BYTES, "big"),
        collected.without,
    )
    question = slot_question(run, request)
    total = weighted([1] * len(shares), shares, slots.terms.length)
    return AskingSlots(slots, question, len(shares), total), (Send(Envelope(question, SERVER, SECOND_SERVER, request)),)


def checked(slots: SharedSlots, collected: SharesCollected) -> SharesCollected:
    """What was collected, but of survivors whose commitment, which the second server shows, is not to what they sent.

    Honest clients' commitments follow from what they sent and tell nothing new.
    """
    lying = _lying(slots, collected, tuple(sorted(collected.received)))
    received = {i: share for i, share in collected.received.items() if i not in lying}
    return replace(collected, received=received, without=lying)


def _lying(slots: SharedSlots, collected: SharesCollected, clients: tuple[int, ...]) -> tuple[int, ...]:
    """Of these clients those that lie, found by halves: one check of a product if nobody does, 2 log2 n for one of n."""
    if pedersen(*_opening(slots, collected, clients)) == combined(collected.commitments[i] for i in clients):
        return ()
    half = len(clients) // 2
    return _lying(slots, collected, clients[:half]) + _lying(slots, collected, clients[half:]) if half else clients


def _opening(slots: SharedSlots, collected: SharesCollected, clients: Collection[int]) -> tuple[list[int], int]:
    """What the product of these clients' commitments opens to: the sums of what they committed to, and of the blindings."""
    of = [slots.committed(collected.received[i][0][: slots.count].tolist(), collected.blindings[i]) for i in clients]
    sums = [sum(values[k] for values in of) for k in range(slots.count)]
    return sums, sum(int.from_bytes(collected.blindings[i], "big") for i in clients)


def asking_slots_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The first server's role. Raises ProtocolError blaming the sender of what is misplaced, repeated or malformed."""
    match state, event:
        case AskingSlots(), Received(Envelope(message=SlotAnswer() as answer, sender=sender)):
            if sender != SECOND_SERVER:
                raise ProtocolError("an answer from a party that was not asked", sender)
            return _answered(state, answer), ()
        case AskingSlots(), Deadline():
            return Unanswered(state.question, SECOND_SERVER), ()
        case ((SlotsAnswered() | Unanswered()), Deadline()):
            return state, ()
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def _answered(state: AskingSlots, answer: SlotAnswer) -> SlotsAnswered:
    slots = state.slots
    if len(answer.counts) != 8 * slots.count:
        raise ProtocolError(f"a share of counts of {len(answer.counts)} bytes where {8 * slots.count} belong", SECOND_SERVER)
    counts = slots.counts((state.total[: slots.count] + from_words(answer.counts)).view(np.int64), state.clients)
    opened = slots.opened(counts)
    if len(answer.rows) != 8 * len(opened) * (slots.d + 1):
        raise ProtocolError(f"shares of {len(answer.rows)} bytes where {len(opened)} slots are open", SECOND_SERVER)
    rows = slots.rows(state.total, opened) + from_words(answer.rows).reshape(len(opened), slots.d + 1)
    return SlotsAnswered(state.question, counts, dict(zip(opened, rows.view(np.int64), strict=True)))


# --- the second server ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SlotHolding:
    """The survivors of a session about slots: their keys and commitments, until they are opened, once.

    round: of the session. summed: whose work was opened; nobody's before.
    """

    slots: SharedSlots
    keys: Mapping[int, bytes] = field(repr=False)
    commitments: Mapping[int, int] = field(repr=False)
    round: int = 0
    summed: frozenset[int] = frozenset()


def commitment_of(data: bytes, client: int) -> int:
    """A client's commitment. Raises ProtocolError blaming it for what is none."""
    number = int.from_bytes(data, "big")
    if not 0 < number < PRIME:
        raise ProtocolError("a commitment out of the group", client)
    return number


def to_bytes(commitments: Iterable[int]) -> bytes:
    """Commitments one after the other, big-endian."""
    return b"".join(commitment.to_bytes(COMMITMENT_BYTES, "big") for commitment in commitments)


def open_slots(held: SlotHolding, request: SlotQuestion) -> tuple[SlotHolding, SlotAnswer]:
    """Both counts and sums, of one set of survivors: a slot that fewer of them chose than the floor stays shut.

    The first server may leave clients out, as it may before it is told who survives: once, and before it learns anything. Raises
    ProtocolError blaming it for a share of the counts that the clients did not commit to.
    """
    slots = held.slots
    keys = {i: key for i, key in held.keys.items() if i not in request.without}
    clients = len(keys)
    if held.summed:
        raise ProtocolError("slots that were opened before", SERVER)
    if not set(request.without) <= set(held.keys):
        raise ProtocolError("slots without clients that are not there", SERVER)
    if clients < max(slots.floor, 2):
        raise ProtocolError(f"slots of {clients} clients where {max(slots.floor, 2)} are the fewest", SERVER)
    if len(request.counts) != COUNT_BYTES * slots.count:
        raise ProtocolError(f"{len(request.counts)} bytes of counts where {COUNT_BYTES * slots.count} belong", SERVER)
    parts = (request.counts[at : at + COUNT_BYTES] for at in range(0, len(request.counts), COUNT_BYTES))
    theirs = [int.from_bytes(part, "big") for part in parts]
    blinding = int.from_bytes(request.blinding, "big")
    if pedersen(theirs, blinding) != combined(held.commitments[i] for i in keys):
        raise ProtocolError("a share of counts that is not what the clients committed to", SERVER)
    length = slots.terms.length
    mine = weighted([1] * clients, (keyed_share(key, (length,)).values for key in keys.values()), length)
    total = np.array([count % 2**64 for count in theirs], np.uint64) + mine[: slots.count]
    opened = slots.opened(slots.counts(total.view(np.int64), clients))
    answer = SlotAnswer(to_words(mine[: slots.count]), to_words(slots.rows(mine, opened)))
    return replace(held, summed=frozenset(keys)), answer
