"""The first server of an upload: it and the second one agree on whose update, of one model, both hold.

Spec: specs/two_servers.md, steps 1 to 5. Phases: CollectingShares -> AwaitingSurvivors -> SharesCollected. The second server's
side is in second.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...crypto.pedersen import COMMITMENT_BYTES
from ..core.errors import FEW_KEYS, Fault, ProtocolError
from ..core.session import SECOND_SERVER, SERVER, Session
from ..drivers.roles import Awaiting, Deadline, Effect, Event, Received, Send
from ..wire.codec import Envelope
from ..wire.messages import Task
from ..work.upload_server import invite
from .messages import Agreed, ExplicitShare, Held, Withheld
from .slot_messages import SlotsAgreed, SlotShare
from .slot_terms import SharedSlots
from .terms import ShareTerms
from .upload import Words, from_words


@dataclass(frozen=True, slots=True)
class CollectingShares:
    """The server while shares arrive: 8 d bytes and the number of samples of each client; of slots, blindings beside."""

    session: Session
    terms: ShareTerms
    received: Mapping[int, tuple[Words, int]] = field(default_factory=dict, repr=False)
    withheld: tuple[int, ...] = ()
    slots: SharedSlots | None = None
    blindings: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    @property
    def binding(self) -> bytes:
        return (self.slots or self.terms).binding(self.session)


@dataclass(frozen=True, slots=True)
class AwaitingSurvivors:
    """The server after the deadline of the shares. agreed: the survivors, once the second server has said whose keys it holds."""

    session: Session
    terms: ShareTerms
    received: Mapping[int, tuple[Words, int]] = field(repr=False)
    withheld: tuple[int, ...]
    agreed: tuple[int, ...] | None = None
    slots: bool = False
    blindings: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    commitments: Mapping[int, int] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class SharesCollected:
    """The end: the survivors' shares and sample counts, ascending. withheld: clients whose update was out of bounds.

    alone: the second server did not answer, so there are no survivors. heard: whose share arrived, survivors or not. without: who
    would be a survivor and committed to other counts of slots than it shared.
    """

    session: Session
    received: Mapping[int, tuple[Words, int]] = field(repr=False)
    withheld: tuple[int, ...]
    alone: bool = False
    heard: tuple[int, ...] = ()
    blindings: Mapping[int, bytes] = field(default_factory=dict, repr=False)
    commitments: Mapping[int, int] = field(default_factory=dict, repr=False)
    without: tuple[int, ...] = ()


def opening(session: Session, work: str, models: tuple[str, ...], vector: bytes, *, most: int = 0) -> tuple[Effect, ...]:
    """The server's first move: the session to the second server, then a task for every client on the roster."""
    task = Task(*session.fields, work, models, b"", most=most)
    return Send(Envelope(session.digest, SERVER, SECOND_SERVER, task)), *invite(session, work, models, vector, most=most)


def server_step(state: Any, event: Event) -> tuple[Any, tuple[Effect, ...]]:
    """The server's role in an upload. Raises ProtocolError blaming the sender of what is misplaced, repeated or malformed."""
    match state, event:
        case CollectingShares(slots=None), Received(Envelope(message=ExplicitShare() as upload, sender=client)):
            return _received(state, client, upload, upload.samples), ()
        case CollectingShares(slots=SharedSlots()), Received(Envelope(message=SlotShare() as upload, sender=client)):
            blindings = {**state.blindings, client: upload.blinding}
            return replace(_received(state, client, upload, 1), blindings=blindings), ()
        case CollectingShares(), Received(Envelope(message=Withheld(binding=binding), sender=client)):
            _expect(state, client, binding)
            return replace(state, withheld=(*state.withheld, client)), ()
        case CollectingShares(), Deadline():
            held = Send(Envelope(state.session.digest, SERVER, SECOND_SERVER, Held(tuple(sorted(state.received)))))
            agreeing = AwaitingSurvivors(state.session, state.terms, state.received, state.withheld, blindings=state.blindings)
            return replace(agreeing, slots=state.slots is not None), (Awaiting("agree", (SECOND_SERVER,)), held)
        case AwaitingSurvivors(agreed=None), Received(Envelope(message=Agreed() | SlotsAgreed() as agreed, sender=sender)):
            if sender != SECOND_SERVER or not set(agreed.clients) <= set(state.received):
                raise ProtocolError("survivors that are not the second server's, or whose shares are not here", sender)
            if isinstance(agreed, SlotsAgreed) != state.slots:
                raise ProtocolError("survivors with commitments where none belong, or without them", sender)
            commitments = _commitments(agreed) if isinstance(agreed, SlotsAgreed) else {}
            return replace(state, agreed=agreed.clients, commitments=commitments), ()
        case AwaitingSurvivors(), Deadline():
            survivors = {i: state.received[i] for i in state.agreed or ()}
            heard, openings = tuple(sorted(state.received)), (state.blindings, state.commitments)
            return SharesCollected(state.session, survivors, state.withheld, state.agreed is None, heard, *openings), ()
        case (
            (AwaitingSurvivors() | SharesCollected()),
            Received(Envelope(message=ExplicitShare() | SlotShare() | Withheld(), sender=client)),
        ):
            raise ProtocolError("a share after the deadline", client)
        case _, Received(envelope):
            raise ProtocolError(f"{type(envelope.message).__name__} is out of place at {type(state).__name__}", envelope.sender)
        case _:
            raise ValueError(f"{type(event).__name__} is out of place at {type(state).__name__}")


def holds_few(collected: SharesCollected, fewest: int, faults: Iterable[Fault]) -> str:
    """In words that the second server says that it has too few clients' keys for a sum, where as many as that sent their shares.

    Empty where it does not. It may be cut off from clients, or say what is not so; or clients sent it nothing. faults: since they
    were asked; who is at fault by these may be left out.
    """
    named = {f.blame for f in faults if f.by is None or f.by == SECOND_SERVER}
    sent, held = len({*collected.heard} - (named - collected.received.keys())), len(collected.received)
    if collected.alone or not held < fewest <= sent:
        return ""
    return f"it says that it has the keys of {held} of the {sent} {FEW_KEYS}"


def _commitments(agreed: SlotsAgreed) -> dict[int, int]:
    parts = (agreed.commitments[at : at + COMMITMENT_BYTES] for at in range(0, len(agreed.commitments), COMMITMENT_BYTES))
    return {i: int.from_bytes(part, "big") for i, part in zip(agreed.clients, parts, strict=True)}


def _received(state: CollectingShares, client: int, upload: ExplicitShare | SlotShare, samples: int) -> CollectingShares:
    _expect(state, client, upload.binding)
    if len(upload.vector) != 8 * state.terms.length:
        raise ProtocolError(f"a share of {len(upload.vector)} bytes where {8 * state.terms.length} belong", client)
    return replace(state, received={**state.received, client: (from_words(upload.vector), samples)})


def _expect(state: CollectingShares, client: int, binding: bytes) -> None:
    if client not in state.session.roster:
        raise ProtocolError("a share from outside the roster", client)
    if client in state.received or client in state.withheld:
        raise ProtocolError("a second share in one session", client)
    if binding != state.binding:
        raise ProtocolError("a share of another session or of other terms", client)
