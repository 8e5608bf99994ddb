"""The two sides of a simulated run over uploads, kept apart: what the server holds and what the clients hold."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..crypto.orthonormal import Transform
from .answers import Model, Owner, Vector
from .gate import Rules
from .messages import Task
from .roles import Party
from .uploads import Collected, Idle, Policy, client_step
from .view import LocalWork, Setup

SharedTransform = Callable[[bytes], Transform]
"""The transform of a session, by the session's digest. Clients hold it; the server does not."""


class ServerSide:
    """What the server holds: uploads of the current round, remembered uploads, published means; models if it owns them."""

    def __init__(self) -> None:
        self.uploads: dict[str, Collected] = {}
        self.receivers: dict[str, set[int]] = {}  # of personal sums, by the updates' handle
        self.started: dict[str, tuple[Model, frozenset[int]]] = {}  # the public model, and who started from its own instead
        self.means: dict[str, Vector] = {}
        self.remembered: dict[str, dict[int, Vector]] = {}  # by handle and client
        self.models: dict[str, Vector] = {}


class ClientSide:
    """What the clients hold: their roles, the shared transform, the models if they own them (one copy for all), and, where the
    server does not get them, their own updates: by the updates' handle, each client's own. started: by the same, SHA-256 of the
    models that each client received, which its update is from. owners: of models that are one client's own.
    """

    def __init__(self, setup: Setup, policy: Policy, transform: SharedTransform | None) -> None:
        self.transform = transform
        self.parties = {i: Party(i, Idle(i, setup.run, policy, transform), client_step) for i in setup.clients}
        self.models: dict[str, Vector] = {}
        self.means: dict[str, Vector] = {}
        self.held: dict[str, dict[int, LocalWork]] = {}
        self.started: dict[str, dict[int, bytes]] = {}
        self.owners: dict[str, int] = {}

    def received(self, name: str, tasks: Sequence[tuple[int, Task]]) -> None:
        """Clients take note of the models in their tasks, of updates with this handle: each of the bytes that came to it."""
        known = {vector: hashlib.sha256(vector).digest() for vector in {task.vector for _, task in tasks}}
        self.started.setdefault(name, {}).update((client, known[task.vector]) for client, task in tasks)


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
