"""What a view is asked with and answers with: typed values, and opaque handles on models and updates."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from math import isfinite
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
Owner = Literal["server", "clients"]
Offset = Literal[
    "update offset sketch", "gradient offset sketch", "head offset sketch", "edge offset sketch", "recalled offset sketch"
]
Work = Literal["update", "gradient", "head", "slots", "update sketch", "gradient sketch", "head sketch", Offset]
COMPUTED: tuple[Work, ...] = ("update", "gradient", "head")
"""Work whose result is one vector: the update, the full gradient, or of an update the last layer, and 0 at all other coordinates.
The client makes it so: where uploads are transformed no slice of one is the last layer."""
SKETCHES: Mapping[Work, Work] = MappingProxyType(
    {"update sketch": "update", "gradient sketch": "gradient", "head sketch": "head"}
)
OFFSET_SKETCHES: Mapping[Work, Work] = MappingProxyType(
    {
        "update offset sketch": "update",
        "gradient offset sketch": "gradient",
        "head offset sketch": "head",
        "edge offset sketch": "update",
        "recalled offset sketch": "update",
    }
)
"""Work that is a sketch of other work, which the client holds: about the origin, or behind an offset (`OFFSET_SKETCHES`)."""
SKETCHED_AS: Mapping[Work, Work] = MappingProxyType({work: sketch for sketch, work in SKETCHES.items()})
OFFSET_AS: Mapping[Work, Work] = MappingProxyType(
    {work: sketch for sketch, work in OFFSET_SKETCHES.items() if sketch.startswith(work)}
)
"""What a sketch of this work is called, about the origin and behind an offset."""
MOST_WEIGHT = 2.0**200
ENERGY = 1e-5
"""Relative error of a published mean squared norm."""


@dataclass(frozen=True, slots=True)
class Model:
    """A handle on a model. Only its owner (server or clients, by the view) can open it."""

    name: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """Work for one cluster in one round: its participants start from its model. All `members` receive what is published.

    participants is a subset of members; both are ascending client ids. others: further models, of work for slots.
    own: models that are one client's own, or public ones; these participants start from theirs instead. All updates are still
    differences from `model`, which is public to the cluster: what such a client ends up with, minus `model`. So a weighted sum
    of updates with weights that add up to 1 moves `model` to the weighted mean of what clients end up with, and a Gram matrix
    compares those.
    toward: models that are one client's own, which the local objective of these participants pulls to; others are pulled to their
    start.
    """

    model: Model
    participants: tuple[int, ...]
    members: tuple[int, ...]
    others: tuple[Model, ...] = ()
    own: Mapping[int, Model] = field(default_factory=dict)
    toward: Mapping[int, Model] = field(default_factory=dict)

    @property
    def models(self) -> tuple[Model, ...]:
        """The models of all slots; of other work one."""
        return (self.model, *self.others)


@dataclass(frozen=True, slots=True)
class Updates:
    """A handle on the updates of one cluster's session. clients: the survivors, ascending."""

    name: str
    cluster: str
    round: int
    clients: tuple[int, ...]
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Remembered:
    """A handle on updates that the view keeps beyond their round, or on sums of them. clients: whose, ascending.

    A handle of the same name with fewer clients is a handle on those; a view that is told to keep it forgets the others.
    together: one vector, a weighted sum over all these clients, in the place of one for each. of: how many updates the handle
    was made on.
    """

    name: str
    clients: tuple[int, ...]
    together: bool = False
    of: int = 0

    @property
    def rows(self) -> tuple[int, ...]:
        """What the vectors are kept under: the clients, or for a sum over all the first of them."""
        return self.clients[:1] if self.together else self.clients


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights a_i of one published sum over clients i; times n_i where `times_samples`.

    The largest is 0 or within 1 / MOST_WEIGHT and MOST_WEIGHT: then totals of them are numbers that every protocol can hold.
    energy: also publish the sum of a_i |delta_i|^2, one number, where the protection can; of weights that are not negative.
    complete: publish only if everybody with a weight is in it; else it ends below the floor.
    """

    of: Mapping[int, float]
    times_samples: bool = False
    members: tuple[int, ...] = ()
    """Who receives the sum; empty for all members of the updates' cluster."""
    energy: bool = False
    complete: bool = False

    def __post_init__(self) -> None:
        if not all(isfinite(a) for a in self.of.values()):
            raise ValueError("the weights of a sum are finite numbers")
        largest = max(map(abs, self.of.values()), default=0.0)
        if largest and not 1 / MOST_WEIGHT <= largest <= MOST_WEIGHT:
            raise ValueError(f"the largest weight of a sum is within {1 / MOST_WEIGHT:.1e} and {MOST_WEIGHT:.1e}, not {largest}")
        if self.energy and min(self.of.values(), default=0.0) < 0:
            raise ValueError("a sum with its energy has weights of 0 or more")

    @property
    def fewest(self) -> int:
        """Clients that the sum must have, beside what the floor asks for."""
        return sum(a != 0 for a in self.of.values()) if self.complete else 0


@dataclass(frozen=True, slots=True)
class Sum:
    """sum_i a_i delta_i over the surviving clients, as a handle; `weight` is sum_i a_i (n_i) over the same clients.

    clients: whom the answer is about; of a slot whose choice is hidden, all who may be in it.
    recipient: who can open it; of a personal sum the one client. tolerance: bound on |error of the sum| / sum_i |a_i| |delta_i|,
    beside one rounding to float32. error: bound on the l2 norm of a further error of the mean sum / weight, from fixed point.
    norm: norm of the mean where the server can tell (it holds the mean, or an orthonormal transform of it), else None.
    noise: standard deviation of what was added, on purpose, to each coordinate of the mean of the updates (each scaled down to
    the norm that the noise was made for): beside tolerance and error, which do not count it.
    energy: sum_i a_i |delta_i|^2 / weight, the mean squared norm with the sum's own weights, where it was asked for and the
    server can tell, else None; within ENERGY of itself and 1e-9 beside.
    """

    name: str
    recipient: Owner | int
    clients: tuple[int, ...]
    weight: float
    tolerance: float
    norm: float | None = None
    error: float = 0.0
    noise: float = 0.0
    energy: float | None = None


@dataclass(frozen=True, slots=True)
class BelowFloor:
    """The sum would have rested on fewer clients than the floor, or some of them had more of it than the floor allows, or it
    was lost on the way: nothing was published.

    floor: fewest clients, the corrupt ones included. clients: empty for a slot whose choice is hidden, or that nobody chose.
    shut: of such a slot, why. alike: whether all weigh as much, so that nobody can have more of it than another.
    """

    name: str
    clients: tuple[int, ...]
    floor: int
    shut: str = ""
    alike: bool = False

    @property
    def words(self) -> str:
        """As an error says it."""
        few = len(self.clients)
        over = f"a sum over {few} client{'s' * (few != 1)}"
        if self.shut:
            return self.shut
        if few < self.floor:
            return f"{over} is below the floor of {self.floor}"
        if self.alike:
            return f"{over} could not be opened, as when one of them is lost in the middle of a round"
        why = f"one of them has more of it than the floor of {self.floor} allows, or it could not be opened"
        return f"{over} was withheld: {why}"


@dataclass(frozen=True, slots=True, eq=False)
class Gram:
    """Inner products of the survivors' updates: float64, shape (clients, clients), rows in the order of `clients`.

    Of deviations from the mean of these clients' updates, which tell their differences and nothing else, or of the updates
    themselves where the question was about the origin. tolerance: bound on |error of entry i, j| / (s_i s_j); of sketches, six
    standard deviations of it. s_i is the norm of update i; of deviations, that plus the mean norm of these updates.
    """

    clients: tuple[int, ...]
    matrix: NDArray[np.float64]
    tolerance: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages and bytes since the view was opened."""

    messages: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one party has spent, of what was put on the links, lost or not.

    messages: that it sent. bytes_up: from clients to servers; bytes_down: to clients. Both count at either end of a link, so
    those of the clients alone add up to the run's traffic. bytes_between: sent to another server or dealer. cpu_seconds: its
    own computation, without a client's training.
    """

    messages: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    bytes_between: int = 0
    cpu_seconds: float = 0.0

    def __sub__(self, before: "Cost") -> "Cost":
        return Cost(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))


@dataclass(frozen=True, slots=True)
class Memory:
    """What one client keeps between rounds, of its own. since: the earliest round in which it still takes part in anything.

    stored: by key, what its roles stored. vectors: float32, by what they are: its models, and updates that it retains.
    """

    since: int = 0
    stored: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    vectors: Mapping[str, Vector] = field(default_factory=dict, repr=False)

    def __or__(self, other: "Memory") -> "Memory":
        """Both together, of different roles of one client."""
        since = max(self.since, other.since)
        return Memory(since, {**self.stored, **other.stored}, {**self.vectors, **other.vectors})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Of a simulation: the servers', and beside it each client's. models: the server's, float32 (d,) by name. remembered: by
    name, float32 (clients, length), shares and keys as uint64, or ciphertexts as uint8.

    next_round: per server and kind of work. ledgers: the clients' privacy ledgers, and pairs: what was spent and released to
    compare clients, both as plain JSON values. own: of models that one client alone holds, that client. known: of models that
    clients hold, whom the server takes to hold them. clients: what each client keeps, by id. secrets: what the parties of a run
    on `KeptEntropy` drew to last, by label.
    """

    models: Mapping[str, Vector]
    remembered: Mapping[str, NDArray[Any]]
    next_round: Mapping[int, Mapping[str, int]]
    traffic: Traffic
    ledgers: Sequence[Mapping[str, Any]] = ()
    pairs: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, int] = field(default_factory=dict)
    known: Mapping[str, Sequence[int]] = field(default_factory=dict)
    clients: Mapping[int, Memory] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def __or__(self, other: "Snapshot") -> "Snapshot":
        """Both together, of different parts of one run; the traffic is this one's."""
        parties = dict.fromkeys((*self.next_round, *other.next_round))
        return Snapshot(
            {**self.models, **other.models},
            {**self.remembered, **other.remembered},
            {i: {**self.next_round.get(i, {}), **other.next_round.get(i, {})} for i in parties},
            self.traffic,
            (*self.ledgers, *other.ledgers),
            {**self.pairs, **other.pairs},
            {**self.own, **other.own},
            {**self.known, **other.known},
            {**self.clients, **other.clients},
            {**self.secrets, **other.secrets},
        )
