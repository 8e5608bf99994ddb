"""One client that chooses: its role, and the models of an offer as they came to it, or as it holds them."""

from dataclasses import replace
from typing import Any

from ..drivers.roles import Effect, Event, Judge, Party
from ..view.answers import Memory
from ..view.work import LocalOffer
from ..work.maker import Mine
from ..work.participant import Participant
from .client import ChoosingPolicy, IdleChooser, client_step


class Chooser:
    """A client. role: of choosing. client: who it is and what it holds."""

    def __init__(self, role: Party, client: Participant) -> None:
        self.id = role.id
        self.role = role
        self._client = client

    @property
    def state(self) -> Any:
        """Of its role."""
        return self.role.state

    def save(self) -> Memory:
        """Between rounds."""
        return Memory(self.state.next_round)

    def restore(self, memory: Memory) -> None:
        """Go on from what it kept."""
        self.role.restart(replace(self.state, next_round=memory.since))

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Advance by one event and return the effects. Raises ProtocolError."""
        return tuple(Judge(self._opened(e.offer)) if isinstance(e, Judge) else e for e in self.role.handle(event))

    def _opened(self, offer: Any) -> LocalOffer:
        return LocalOffer(self.id, offer.round, offer.roster, self._client.models(offer.names, offer.vectors))


def chooser_of(mine: Mine, client: Participant) -> Chooser:
    """A client of a run, as it chooses among models: those of an offer, or those that it holds, where clients own them."""
    held = None if client.owned.served else client.owned.holds
    idle = IdleChooser(mine.id, mine.setup.run, ChoosingPolicy(), len(mine.setup.initial), held)
    return Chooser(Party(mine.id, idle, client_step), client)
