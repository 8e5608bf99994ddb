"""One client in masked sums: its role, and the work that it puts in, which is its own and about the model that came to it."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..core.errors import ProtocolError
from ..core.session import SERVER
from ..drivers.roles import Compute, Computed, Deadline, Effect, Event, Party, Perform, Received, Send, Worked
from ..view.answers import Memory
from ..view.work import LocalWork, Unwilling
from ..wire.codec import Envelope
from ..wire.messages import MOST_REASON, Declined
from ..work.participant import Participant
from .client_inputs import Inputs
from .client_phases import Idle
from .joined import COUNTED, is_name, kind_of, rounds_held, works_held
from .messages import Proposal
from .transcript import KEY, Transcript
from .weighing import WEIGHTS

if TYPE_CHECKING:
    from ..privacy.ledger import Ledger


class MaskingClient:
    """A client. masker: its role. client: who it is and what it holds. inputs: what it makes of that."""

    def __init__(self, masker: Party, client: Participant, inputs: Inputs) -> None:
        self.id = masker.id
        self.masker = masker
        self._client = client
        self._inputs = inputs
        self._once: set[str] = set()  # work that was done for one sum, whose weights are summed first

    @property
    def state(self) -> Any:
        """Of its role."""
        return self.masker.state

    @state.setter
    def state(self, state: Any) -> None:
        self.masker.state = state

    @property
    def of_sums(self) -> "Ledger | None":
        """What it spent on noisy sums; None under a charter without noise."""
        idle = self.state if isinstance(self.state, Idle) else self.state.idle
        return None if idle.spending is None else idle.spending.ledger

    def save(self) -> Memory:
        """Between rounds."""
        idle = self.state if isinstance(self.state, Idle) else self.state.idle
        stored = {KEY: idle.transcript.entry} if idle.transcript.steps else {}
        stored |= {} if idle.spending is None else {idle.spending.stored.key: idle.spending.entry}
        return Memory(max(idle.next_round.values(), default=idle.round), stored)

    def restore(self, memory: Memory) -> None:
        """Go on from what it kept. Raises ValueError for a transcript or a ledger that is not its own, or behind the other."""
        idle = self.state if isinstance(self.state, Idle) else self.state.idle
        transcript = Transcript(idle.charter, self.id)
        if KEY in memory.stored:
            transcript = Transcript.decode(idle.charter, self.id, memory.stored[KEY])
        spending = None if idle.spending is None else idle.spending.restored(memory.stored, transcript.sums)
        transcript = transcript.at(memory.since)
        self.masker.restart(replace(idle, transcript=transcript, next_round={}, updates={}, spending=spending))

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Advance by one event and return the effects. Raises ProtocolError."""
        match event:
            case Computed(work=work):
                return self._computed(work)
            case Received(Envelope(message=Proposal() as proposal)) if isinstance(self.state, Idle) and not self.masker.took(
                event
            ):
                if against_its_name(proposal):
                    raise ProtocolError("a sum that counts samples, or does not, against its name", SERVER)
                taken = self._client.taken.get(self._name(proposal.protocol, proposal.update))
                known = self.state.given, self.state.next_round
                if taken is not None and (reason := self._inputs.against(proposal.protocol, taken, *known)):
                    raise ProtocolError(reason, SERVER)
                model = b"" if taken is None else taken.model
                updates = {held: taken.round for held, taken in works_held(self._client).items()}
                self.state = replace(self.state, model=model, updates=updates)
        found: list[Effect] = []
        for effect in self.masker.handle(event):
            found += self._begun() if isinstance(effect, Perform) else (effect,)
        return tuple(found)

    def _name(self, protocol: str, update: bytes) -> str:
        """What the updates are called that go into this session; empty if this client took no task that they are from."""
        update = self._inputs.update_of(protocol, update)
        for name, taken in self._client.taken.items() if is_name(protocol) else ():
            if update in rounds_held(protocol, {taken.session: taken.round}):
                return name
        return ""

    def _begun(self) -> tuple[Effect, ...]:
        """Its masks stand: put its work in, or do it now where that was promised."""
        plan = self.state.plan
        name = self._name(plan.session.protocol, plan.terms.update)
        if name in self._client.promised:
            return (Compute(self._client.job(self._client.promised[name])),)
        if name not in self._client.held:
            return self._declined("no work that this sum would be of")
        last = name in self._once and not plan.session.protocol.startswith(f"{WEIGHTS}/")
        return self._put_in(name, self._client.held.pop(name) if last else self._client.held[name])

    def _computed(self, work: LocalWork | Unwilling) -> tuple[Effect, ...]:
        if isinstance(self.state, Idle):
            return ()  # the session was over before
        plan = self.state.plan
        name = self._name(plan.session.protocol, plan.terms.update)
        if (doing := self._client.promised.pop(name, None)) is None:
            return self._declined("a promise that is over")
        found = self._client.checked(doing, work)
        if isinstance(found, str):
            return self._declined(found)
        if plan.session.protocol.startswith(f"{WEIGHTS}/"):  # the sum that these weights are for takes the same work
            self._client.held[name] = found
            self._once = {name, *(self._once & self._client.held.keys())}
        return self._put_in(name, found)

    def _put_in(self, name: str, work: LocalWork) -> tuple[Effect, ...]:
        plan = self.state.plan
        idle = self.state.idle
        if (spending := idle.spending) is not None:
            ring = spending.put_in(work, idle.entropy)
        else:
            ring = self._inputs.put_in(plan, work, self._client.taken[name], idle.given, idle.next_round)
        return self._declined(ring) if isinstance(ring, str) else self.masker.handle(Worked(ring, 1))

    def _declined(self, reason: str) -> tuple[Effect, ...]:
        word = Send(Envelope(self.state.plan.session.digest, self.id, SERVER, Declined(reason[:MOST_REASON])))
        return (*self.masker.handle(Deadline()), word)


def against_its_name(proposal: Proposal) -> bool:
    """Whether a sum counts samples under a name of sums that do not, which nobody weighs before, or the other way about."""
    return bool(proposal.times_samples) != (kind_of(proposal.protocol) in COUNTED)
