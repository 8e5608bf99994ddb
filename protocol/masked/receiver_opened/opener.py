"""One client in receiver-opened sums: its role, and what it sends of its own work, by the offers that it took.

Spec: specs/receiver_opened.md. An offer names the work, and its terms are those of the run, or the client refuses it; the masked
sum under it takes what the client's role blinds, on the offer's terms alone.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ....crypto.fixed_point import Nearest
from ...core.errors import ProtocolError
from ...core.session import SERVER
from ...drivers.roles import Effect, Event, Learned, Party, Received
from ...parts.charter import Numbers
from ...view.answers import Memory
from ...view.work import LocalWork
from ...wire.codec import Envelope
from ...work.participant import Participant
from ...work.uploads import Vector, from_bytes, to_bytes
from ..input import beyond
from ..joined import WITHOUT_NOISE, works_held
from ..terms import Plan, Ring
from .client import AwaitingSum, Blinding, blinded_input, old
from .messages import OpenedTotal, OpeningOffer
from .terms import ReceiverSum, most_bits

NO_OFFER = "a sum for a receiver that belongs to no offer that it took"


class Opener:
    """A client. role: its openings. client: who it is and what it holds. numbers: that it knows before the run."""

    def __init__(self, role: Party, client: Participant, numbers: Numbers) -> None:
        self.id = role.id
        self.role = role
        self._client = client
        self._numbers = numbers

    @property
    def state(self) -> Any:
        """Of its role."""
        return self.role.state

    def save(self) -> Memory:
        """Between rounds."""
        return Memory(max(self.state.next_round.values(), default=self.state.since))

    def restore(self, memory: Memory) -> None:
        """Go on from what it kept."""
        self.role.restart(replace(self.state, next_round={}, since=memory.since, taken=(), phases={}))

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Advance by one event and return the effects. Raises ProtocolError."""
        match event:
            case Received(Envelope(message=OpenedTotal() as opened, session=digest)):
                phase = self.state.phases.get(digest)
                effects = self.role.handle(event)
                if isinstance(phase, AwaitingSum) and (total := next((e for e in effects if isinstance(e, Learned)), None)):
                    self._open(phase.opening, opened.survivors, total)
                return effects
            case Received(Envelope(message=OpeningOffer() as offer)) if not (self.role.took(event) or old(self.state, offer)):
                if (reason := self._against(offer)) is not None:
                    raise ProtocolError(reason, SERVER)
                held = {session: (taken.round, taken.model) for session, taken in works_held(self._client).items()}
                self.role.state = replace(self.role.state, updates=held)
        return self.role.handle(event)

    def _open(self, opening: ReceiverSum, survivors: tuple[int, ...], total: Learned) -> None:
        """Put its own update to the sum, and hold the mean of both; of weight 0 there is none."""
        if (weight := opening.weight(survivors)) == 0:
            return
        found = opening.largest * from_bytes(total.vector).astype(np.float64)
        own = self._own(opening) if opening.own else None
        if opening.own and own is None:
            return  # it forgot its work in between
        if own is not None:
            found += opening.own * own.astype(np.float64)
        self._client.owned.learn(total.session.hex(), total.session, to_bytes((found / weight).astype(np.float32)))

    def _own(self, opening: ReceiverSum) -> Vector | None:
        """Its own update, of the work that the opening is of; None if it holds none."""
        held, taken = self._client.held, self._client.taken
        return next((held[n].vector for n in held if n in taken and taken[n].session == opening.update), None)

    def update_of(self, protocol: str) -> bytes:
        """Digest of the work session whose updates the masked sum of this name is of; empty for none that it is ready for."""
        opening = self._opening(protocol)
        return b"" if opening is None else opening.update

    def put_in(self, plan: Plan, work: LocalWork) -> Ring | str:
        """Its input to the masked sum under an opening, which only the receiver can read; or why there is none."""
        opening, terms = self._opening(plan.session.protocol), plan.terms
        if opening is None:
            return NO_OFFER
        if terms != opening.sum_terms(terms.neighbours, terms.threshold, terms.graph_seed):
            return "terms that do not belong to the offer that it took"
        try:
            return beyond(work.vector, opening.clip) or blinded_input(self.state, plan.session, work.vector, Nearest())
        except ValueError as error:
            return str(error)

    def _opening(self, protocol: str) -> ReceiverSum | None:
        phases = self.state.phases.values()
        return next((p.opening for p in phases if isinstance(p, Blinding) and p.sum_protocol == protocol), None)

    def _against(self, offer: OpeningOffer) -> str | None:
        """Why an offer is not one of this run, or None."""
        n = self._numbers
        if n.noise is not None:
            return WITHOUT_NOISE
        try:
            opening = ReceiverSum.offered(offer)
        except ValueError as error:
            return f"an offer that cannot be: {error}"
        own = (n.d, n.clip, n.ring_bits, most_bits(n.ring_bits, len(offer.roster)))
        if (opening.d, opening.clip, opening.ring_bits, opening.bits) != own:
            return "an offer on terms that do not belong to an update of this run"
        if opening.own and opening.receiver == self.id and self._own(opening) is None:
            return "an offer with a weight for an update that this client does not hold"
        return None
