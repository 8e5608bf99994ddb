"""One client that chooses: its role, and the models of an offer as they came to it, or as it holds them."""

from typing import Any

from ..drivers.roles import Effect, Event, Judge, Party
from ..view.work import LocalOffer
from ..work.participant import Participant


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

    def restart(self, state: Any) -> None:
        """Go on from an earlier state of its role."""
        self.role.restart(state)

    def handle(self, event: Event) -> tuple[Effect, ...]:
        """Advance by one event and return the effects. Raises ProtocolError."""
        return tuple(Judge(self._opened(e.offer)) if isinstance(e, Judge) else e for e in self.role.handle(event))

    def _opened(self, offer: Any) -> LocalOffer:
        return LocalOffer(self.id, offer.round, offer.roster, self._client.models(offer.names, offer.vectors))
