"""What an algorithm is: hyper-parameters with `init` and `round`, and a state that names clusters and their models."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from ...protocol.core.errors import NobodyAnswered
from ...protocol.view.answers import BelowFloor, Model, Remembered, Sum, Weights, Work
from ...protocol.view.asks import MovesModels, Trains
from ...protocol.view.functionality import Functionality
from ..clients.training import Training
from ..clustering.bipartition import Bipartition
from .parameter_tree import Node


@dataclass(frozen=True, slots=True)
class Start:
    """What a run begins with. groups: the planted truth, for Oracle alone. seed: what cohorts are drawn by.

    others: further models, where the algorithm begins with several (`starts`).
    """

    clients: tuple[int, ...]
    groups: Mapping[int, int]
    model: Model
    seed: int = 0
    others: tuple[Model, ...] = ()


@dataclass(frozen=True, slots=True)
class Few:
    """A cluster that was too small for a sum: its members, and the floor that it would have to reach."""

    members: tuple[int, ...]
    floor: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """Clients that share a model. members: ascending ids. born: the round from which the cluster trains. seed: as in `Start`.

    alone: of a single client that trains by itself the cluster that it was of; the model is its own then. least: fewest members
    that are invited to a round. within: cohorts that its members were left in when it was parted from others (`cohorts.divided`).
    """

    members: tuple[int, ...]
    model: Model
    born: int = 0
    seed: int = 0
    alone: Few | None = None
    least: int = 1
    within: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What the server saw of one cluster in one round: norms, cosines in the order of `clients`, and the split it made.

    mean: norm of the mean update; largest: of the longest update; rms: root mean square of the norms. None where it did not see
    them. similarity: cosines of updates, or, where `centred`, of their deviations from their mean; None where it did not ask.
    communities: what it found among the clients, where it looked. known: bool (m, m), which cosines it has; None for all.
    left_out: clients whose updates were not summed, and why. distances: in the place of cosines, where clients are compared by
    how far apart they are; joins: up to which they belong together, where one number says it. turned_down: in words, a cut that
    was not made as sums need more clients than a side has.
    """

    mean: float | None
    largest: float | None
    clients: tuple[int, ...]
    similarity: NDArray[np.float64] | None = field(default=None, repr=False)
    split: Bipartition | None = None
    communities: tuple[tuple[int, ...], ...] = ()
    known: NDArray[np.bool_] | None = field(default=None, repr=False)
    left_out: Mapping[int, str] = field(default_factory=dict)
    rms: float | None = None
    centred: bool = False
    distances: NDArray[np.float64] | None = field(default=None, repr=False)
    joins: float | None = None
    turned_down: str = ""


class State(Protocol):
    """What every algorithm's state shows: a frozen dataclass that serialises, made of ids, numbers and handles."""

    @property
    def round(self) -> int:
        """The round that comes next."""
        ...

    @property
    def clusters(self) -> Mapping[str, Cluster]: ...

    @property
    def tree(self) -> Mapping[str, Node]:
        """The clusters that were split; empty where nothing ever is."""
        ...

    @property
    def measured(self) -> Mapping[str, Measured]:
        """What the last round measured, for the record."""
        ...

    @property
    def models(self) -> Sequence[Model]:
        """Every model that the state still needs."""
        ...

    @property
    def remembered(self) -> Sequence[Remembered]:
        """Every set of stored updates that the state still needs."""
        ...


class Flat:
    """What a state shows in which no cluster is ever split, nothing is measured and nothing stored; states say what differs."""

    __slots__ = ()

    @property
    def tree(self) -> Mapping[str, Node]:
        return {}

    @property
    def measured(self) -> Mapping[str, Measured]:
        return {}

    @property
    def remembered(self) -> Sequence[Remembered]:
        return []


V = TypeVar("V", contravariant=True, default=Any)
"""The type of view that an algorithm asks: the asks that it needs, and no other."""


class Algorithm(Protocol[V]):
    """A federated algorithm. `round` asks the view and returns the next state; the state before it stays valid.

    One that begins with several models says so by `starts`, a number; one whose clients work for slots brings `in_slots`, what
    they do (`clients.slots.InSlots`), and where numbers go with each model that are no parameters `beside`, of the number of
    labels: how many, and what they say, in words that follow others in the disclosure log. A state whose clients choose among its
    models for themselves names them in `open_to`.
    One whose clients train in another way than by SGD brings it as `executes`, an `Executor` in the place of the scenario's; one
    whose clients make a model their own before they use it brings `adapt`, (module, job) to a vector. One that asks for gradients
    over all records of a client says so by `full_gradients`; one whose clients start from models beside the public one, or are
    pulled to them (`Assignment.own`, `toward`), by `starts_apart`, which clients agree on before the run; one
    that asks for other kinds of work than `works_of` says by itself names all of them as `works`, and one that recalls what
    clients keep more than once in a run says how often at most as `recalls`; one that says how many independent sums, at most, it
    asks for that one client's updates of a work session are in, says so as `span`; one whose clients train alone where their
    group is too small for a sum, as `alone_if_few`. One
    whose clients are compared by something else than embeddings of examples brings `embedders`, of a population and the module
    that clients train, as initialised. One whose convergence is proved under conditions brings `conditions`, (training, sizes,
    smoothness or None) to what the report says of each (`clustering.fusion_theory.Condition`).
    """

    @property
    def needs(self) -> frozenset[Functionality]:
        """What a view must give for this algorithm to run."""
        ...

    def local(self, training: Training, /) -> Training:
        """The local training that clients do under this algorithm."""
        ...

    def init(self, start: Start, /) -> Any: ...

    def round(self, state: Any, view: V, rng: np.random.Generator, /) -> Any: ...


class TakesNewcomers(Protocol):
    """An algorithm whose clients may come late."""

    def join(self, state: Any, newcomers: Sequence[int], /) -> Any:
        """The state with these clients, who are not in it yet."""
        ...


def mean_of(members: Sequence[int], by_samples: bool) -> Weights:
    """The weights of a mean over these clients: uniform, or by their numbers of samples."""
    return Weights(dict.fromkeys(members, 1.0), times_samples=by_samples)


def moved(view: MovesModels, model: Model, answer: object, step: float = 1.0) -> Model | None:
    """The model moved by the answered mean; None where nothing was published, or none of those whom it was told says so."""
    if not isinstance(answer, Sum):
        return None
    try:
        return view.advance(model, answer, step=step) if step != 1 else view.advance(model, answer)
    except NobodyAnswered:
        return None


def advanced(view: MovesModels, cluster: Cluster, answer: object, step: float = 1.0) -> Cluster:
    """The cluster with its model moved by the answered mean; unchanged where nothing came of it."""
    model = moved(view, cluster.model, answer, step)
    return cluster if model is None else replace(cluster, model=model)


def left_alone(clusters: Mapping[str, Cluster], answers: Mapping[str, object]) -> dict[str, Cluster]:
    """The clusters, those that have fewer members than their sum's floor parted into clients that train alone, from its model.

    Such a cluster would keep the model that it began with for good. Of one that is large enough more members are invited from
    now on, where fewer than the floor took part.
    """
    found: dict[str, Cluster] = {}
    for name, cluster in clusters.items():
        answer = answers.get(name)
        if isinstance(answer, BelowFloor) and len(cluster.members) < answer.floor:
            few = Few(cluster.members, answer.floor)
            found |= {f"client {i}": replace(cluster, members=(i,), alone=few) for i in cluster.members}
        elif isinstance(answer, BelowFloor) and len(answer.clients) < answer.floor:
            found[name] = replace(cluster, least=answer.floor)
        else:
            found[name] = cluster
    return found


def trained_alone(view: Trains, round: int, clusters: Mapping[str, Cluster], resting: Container[int] = ()) -> dict[str, Cluster]:
    """The clusters, after a round of those that are alone. resting: clients that have none."""
    own = {c.members[0]: c.model for c in clusters.values() if c.alone and c.members[0] not in resting}
    trained = view.train_alone(round, own) if own else {}
    return {name: replace(c, model=trained.get(c.members[0], c.model)) if c.alone else c for name, c in clusters.items()}


def resting(clusters: Mapping[str, Cluster], round: int, participation: float) -> set[int]:
    """Who is alone and has no work in this round: such clients work in as many rounds as others."""
    every = max(1, int(np.floor(1 / participation + 0.5)))
    return {c.members[0] for c in clusters.values() if c.alone and (round + c.members[0]) % every}


def check_counts(**counts: object) -> None:
    """Raise ValueError unless these are whole numbers of at least 1."""
    for name, value in counts.items():
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} is a whole number of at least 1, not {value!r}")


def works_of(algorithm: Any) -> frozenset[Work]:
    """Kinds of work that clients' computers are asked for by it, which clients agree on before the run, and refuse others."""
    if (named := getattr(algorithm, "works", None)) is not None:
        return frozenset(named)
    if hasattr(algorithm, "in_slots"):
        return frozenset({"slots"})
    return frozenset({"update", "gradient"} if getattr(algorithm, "full_gradients", False) else {"update"})


def recalls_of(algorithm: Any) -> int:
    """How often a client answers for what it keeps, at most, which clients agree on before the run, and refuse more."""
    return int(getattr(algorithm, "recalls", Functionality.GRAM_RECALL in algorithm.needs))


def span_of(algorithm: Any) -> int | None:
    """Most independent sums about a client's updates of one work session, which clients agree on, to refuse more; None: any."""
    found: int | None = getattr(algorithm, "span", None)
    return found
