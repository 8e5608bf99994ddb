"""The two sides of a simulated run over uploads, kept apart: what the server holds and what the clients hold."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..crypto.orthonormal import Transform
from .drivers.roles import Party
from .parts.gate import Rules
from .parts.participant import Conduct, Opening, Participant
from .uploaded.uploads import Collected, Idle, Policy, client_step
from .view.answers import Model, Owner, Vector
from .view.asks import Setup

SharedTransform = Callable[[bytes], Transform]
"""The transform of a session, by the session's digest. Clients hold it; the server does not."""


class ServerSide:
    """What the server holds: uploads of the current round, remembered uploads, published means; models if it owns them."""

    def __init__(self) -> None:
        self.uploads: dict[str, Collected] = {}
        self.receivers: dict[str, set[int]] = {}  # of personal sums, by the updates' handle
        self.served: dict[int, int] = {}  # the round of the last personal sum, by its receiver
        self.started: dict[str, tuple[Model, frozenset[int]]] = {}  # the public model, and who started from its own instead
        self.means: dict[str, Vector] = {}
        self.remembered: dict[str, dict[int, Vector]] = {}  # by handle and client
        self.models: dict[str, Vector] = {}


class ClientSide:
    """The clients of a run, each an object of its own; what they have in common; and the models if they own them (one copy for
    all). owners: of models that are one client's own.
    """

    def __init__(self, roles: Iterable[Party], conduct: Conduct, transform: SharedTransform | None = None) -> None:
        self.transform = transform
        self.models: dict[str, Vector] = {}
        self.means: dict[str, Vector] = {}
        self.owners: dict[str, int] = {}
        opening = Opening()
        self.parties = {role.id: Participant(role, conduct, opening, self.models) for role in roles}

    def break_promises(self) -> None:
        """No client works for tasks that are over."""
        for party in self.parties.values():
            party.promised.clear()

    def forget(self, names: set[str] | None = None) -> None:
        """Every client its work under these names; all of it if none are given."""
        for party in self.parties.values():
            party.forget(names)


def upload_roles(setup: Setup, policy: Policy, transform: SharedTransform | None) -> list[Party]:
    """The clients' roles in uploads. transform: None where they keep their work."""
    return [Party(i, Idle(i, setup.run, policy, transform), client_step) for i in setup.clients]


@dataclass(frozen=True, slots=True)
class Answering:
    """How one protection answers over uploads. seen: what the server learns of one upload, in words."""

    owner: Owner
    rules: Rules
    transform: SharedTransform
    length: int
    tolerance: float
    seen: str
    across_rounds: bool
    coordinatewise: bool
