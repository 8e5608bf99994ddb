"""One client under encryption: its role, and the work that it encrypts, which is its own."""

from dataclasses import replace
from typing import Any

from ..core.session import SERVER
from ..drivers.roles import Compute, Computed, Deadline, Effect, Event, Learned, Party, Perform, Received, Send, Worked
from ..view.answers import Memory
from ..view.work import LocalWork, Unwilling
from ..wire.codec import Envelope
from ..wire.messages import MOST_REASON, Declined
from ..work.participant import Participant
from .client_phases import IdleEncryptor
from .messages import EncryptedSumRequest, SketchRequest
from .scaling import unsummable
from .slots import PROTOCOL as SLOTS

Request = EncryptedSumRequest | SketchRequest

OTHER_WORK = "a sum of other work than the work of this round that this client gave to sums: both have much of it in common"


class KeyHolder:
    """A client. role: of encryption. client: who it is and what it holds."""

    def __init__(self, role: Party, client: Participant) -> None:
        self.id = role.id
        self.role = role
        self._client = client
        self._doing: tuple[str, bytes, Request] | None = None
        self._summed = -1, b""  # the round of the work of its latest input to a sum, and that work's session

    @property
    def state(self) -> Any:
        """Of its role."""
        return self.role.state

    @state.setter
    def state(self, state: Any) -> None:
        self.role.state = state

    def save(self) -> Memory:
        """Between rounds."""
        idle = self.state if isinstance(self.state, IdleEncryptor) else self.state.idle
        return Memory(idle.round + bool(idle.spent))

    def restore(self, memory: Memory) -> None:
        """Go on from what it kept."""
        idle = self.state if isinstance(self.state, IdleEncryptor) else self.state.idle
        self.role.restart(replace(idle, round=memory.since, spent=frozenset(), slots=None, counted={}))

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Advance by one event and return the effects. Raises ProtocolError."""
        match event:
            case Computed(work=work):
                return self._computed(work)
            case Deadline():
                self._doing = None
            case Received(Envelope(message=EncryptedSumRequest() as asked)) if (
                isinstance(self.state, IdleEncryptor) and asked.protocol == SLOTS
            ):
                taken = next((taken for taken in self._client.taken.values() if taken.session == asked.work), None)
                slots = None if taken is None else self.state.slots_of(taken.models, taken.most)
                self.state = replace(self.state, slots=slots)
        found: list[Effect] = []
        for effect in self.role.handle(event):
            if isinstance(effect, Perform) and isinstance(event, Received):
                found += self._begun(event.envelope.session, event.envelope.message)
                continue
            if isinstance(effect, Learned):
                self._client.owned.learn(effect.name, effect.session, effect.vector)
            found.append(effect)
        return tuple(found)

    def _begun(self, session: bytes, asked: Request) -> tuple[Effect, ...]:
        """Give the work that is asked for, or do it now where that was promised."""
        client = self._client
        name = next((name for name, taken in client.taken.items() if taken.session == asked.work), "")
        if name and (client.taken[name].work == "slots") != (asked.protocol == SLOTS):
            return self._declined(session, "another kind of work than this would be of")
        if name and client.taken[name].round != asked.round:
            return self._declined(session, "work of another round than this is")
        if name in client.promised:
            self._doing = name, session, asked
            return (Compute(client.job(client.promised[name])),)
        if name not in client.held:
            return self._declined(session, "no work that this would be of")
        return self._given(session, asked, client.held[name])

    def _computed(self, work: LocalWork | Unwilling) -> tuple[Effect, ...]:
        doing, self._doing = self._doing, None
        if doing is None:
            return ()  # the session was over before
        name, session, asked = doing
        if (promised := self._client.promised.pop(name, None)) is None:
            return self._declined(session, "a promise that is over")
        found = self._client.checked(promised, work)
        return self._declined(session, found) if isinstance(found, str) else self._given(session, asked, found)

    def _given(self, session: bytes, asked: Request, work: LocalWork) -> tuple[Effect, ...]:
        if isinstance(asked, SketchRequest):
            return self.role.handle(Worked(work.sketched, 1))
        if self._summed[0] == asked.round and self._summed[1] != asked.work:
            return self._declined(session, OTHER_WORK)
        self._summed = asked.round, asked.work
        if asked.protocol == SLOTS:
            return self.role.handle(Worked(self.state.idle.slots.values(work), 1))
        counted = work.samples if asked.times_samples else 1
        if (reason := unsummable(work.vector, counted)) is not None:
            return self._declined(session, reason)
        return self.role.handle(Worked(work.vector, counted))

    def _declined(self, session: bytes, reason: str) -> tuple[Effect, ...]:
        word = Envelope(session, self.id, SERVER, Declined(reason[:MOST_REASON]))
        return (*self.role.handle(Deadline()), Send(word))
