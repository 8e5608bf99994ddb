"""What a view says of what can be pieced together: which updates were sketched under which key, and which sums were opened.

Both are facts that the server of the protocol knows. What they add up to, over all rounds, is for whoever measures a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from .answers import COMPUTED, Owner, Work

Form = Literal["raw", "offset"]
"""Of the updates themselves, or of each plus a secret that all of one set have in common, so that differences alone are known."""


@dataclass(frozen=True, slots=True)
class Sketched:
    """One set of updates of which the server can compare sketches, or was told all inner products.

    key: names the sketch; sets under one key can be compared with each other, in the offset form by differences inside of each
    set. kind: of `COMPUTED`. clients: whose. rounds: of each one's update, where not all were made in `round`.
    numbers: linear measurements of each update that whoever has the clients' secret opens; 0 where that opens none, or all.
    """

    key: bytes
    form: Form
    kind: Work
    round: int
    cluster: str
    clients: tuple[int, ...]
    rounds: tuple[int, ...] = ()
    numbers: int = 0

    def __post_init__(self) -> None:
        if self.rounds and len(self.rounds) != len(self.clients):
            raise ValueError("the rounds of sketched updates are one for each client")

    @property
    def made(self) -> tuple[int, ...]:
        """The round in which each client's update was made."""
        return self.rounds or (self.round,) * len(self.clients)


def source_of(handle: str) -> tuple[str, int, Work]:
    """Cluster, round and kind of the updates that a handle's name begins with, `cluster@round/kind`."""
    cluster, _, rest = handle.rpartition("@")
    round, _, kind = rest.partition("/")
    return cluster, int(round), kind_of(kind)


def kind_of(words: str) -> Work:
    """What updates of work that is called so are updates of; of slots, of the models."""
    return next((work for work in COMPUTED if words.startswith(work)), "update")


@dataclass(frozen=True, slots=True)
class Asked:
    """Clients of a cluster whom the server asked for work in a round, and those of them who answered. kind: of `COMPUTED`."""

    round: int
    cluster: str
    kind: Work
    clients: tuple[int, ...]
    answered: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """One published sum. row: its weights other than 0, of the clients that are in it; times their samples if `times_samples`.

    to: who can open it: the server, the clients of the cluster, or of a personal sum the one client. slot: of a sum into a slot,
    its number; then the row has a 1 for everybody who may be in it, and only whoever measures a run knows the shares. lost: who
    was to be in it, and is not.
    """

    round: int
    cluster: str
    kind: Work
    row: Mapping[int, float]
    times_samples: bool = False
    to: Owner | int = "server"
    slot: int | None = None
    lost: tuple[int, ...] = ()
