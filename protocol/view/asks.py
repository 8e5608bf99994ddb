"""The server view: everything that an algorithm may ask about the clients' updates, and the types it is answered with.

An algorithm never touches an update. It starts work (`train`), asks for functionalities (`gram`, `sums`, ...) and holds
models as opaque handles. A protection is a value that opens a view; each view answers the same functionalities by another
protocol and enters every answer in the disclosure log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from .answers import (
    Assignment,
    BelowFloor,
    Gram,
    Model,
    Owner,
    Remembered,
    Sum,
    Updates,
    Vector,
    Weights,
    Work,
)
from .functionality import Functionality
from .fusion import Fuses
from .record import Plays, Recorded

if TYPE_CHECKING:
    from ..pairs.question import PairAnswers, PairQuestion


class Trains(Protocol):
    """Has clients work."""

    def train(self, round: int, work: Mapping[str, Assignment], kind: Work = "update", /) -> Mapping[str, Updates]:
        """Run one session per cluster; the server now holds whatever this protection lets it hold of the updates.

        Clusters of which fewer clients than their session's threshold answered are left out.
        """
        ...

    def train_alone(self, round: int, models: Mapping[int, Model], /) -> Mapping[int, Model]:
        """Each client trains its own model and tells nobody; the new models are the clients'."""
        ...


class HasFloor(Protocol):
    """Says how many clients a sum needs."""

    @property
    def least(self) -> int:
        """Fewest clients in a sum, the corrupt included, from which on any number will do. 1 where nothing is asked for.

        Of fewer none is published, but where masks by chance allow it; algorithms invite as many, and part no group below it.
        """
        ...


class Sums(HasFloor, Protocol):
    """Publishes weighted sums of updates, each to a cluster."""

    @property
    def tells_energy(self) -> bool:
        """Whether a sum comes with its norm and, where that is asked for, the mean squared norm (`Weights.energy`)."""
        ...

    def train_and_sum(
        self, round: int, work: Mapping[str, Assignment], weights: Mapping[str, Weights], /
    ) -> Mapping[str, Sum | BelowFloor]:
        """One session per cluster whose updates are added as they arrive and forgotten: memory for one sum per cluster."""
        ...

    def sums(self, updates: Updates, weights: Mapping[str, Weights], /) -> Mapping[str, Sum | BelowFloor]:
        """Publish weighted sums of these updates, one per name, each to its members.

        Raises Refused if, with what was published before about these updates, fewer than `floor` clients would show.
        """
        ...


class Similarities(Protocol):
    """Tells inner products of the updates of a round."""

    def gram(self, updates: Updates, /, *, origin: bool = False) -> Gram:
        """Inner products of these updates' deviations from their mean; about the origin, of the updates themselves.

        Differences are enough for distances, bipartitions and rules that are shift invariant. Beside a published sum the products
        of the updates themselves tell each update's component along that sum. Raises Refused for both of one update where
        the protection hides updates.
        """
        ...


class Recalls(Protocol):
    """Compares updates of different rounds."""

    def remember(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """Keep these clients' updates beyond the round, to compare updates of any later round with (gram(remember))."""
        ...

    def edge(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """Keep these clients' updates, of a cluster that is split, to place later clients by (gram(edge)).

        As with `remember` and `keep`, of those of them who answered what that needs: the handle names them.

        They are compared about their own mean. A key of their own serves them and nothing else, as long as the handle is kept.
        """
        ...

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        """Cosine similarity of new updates (rows) to remembered ones (columns): float64, 0 where a norm is 0.

        To the updates of a split (`edge`): of all these updates' deviations from the mean of those of the split. A row is NaN
        where the client answered nothing that could be compared. Where sketches are behind offsets, raises Refused for updates
        that were summed, compared otherwise or with another split: distances to two published means are a component of each.
        """
        ...

    def keep(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """Have these clients' updates kept for `recall` (gram(recall)).

        Where updates are hidden each client keeps its own, and nothing is sent.
        """
        ...

    def recall(self, round: int, kept: Sequence[Remembered], /) -> Gram:
        """Inner products of kept updates' deviations from their mean, each client in one handle: of those that answer.

        Raises Refused for what is gone, and where a client would have to answer twice in a round.
        """
        ...


class Histories(Protocol):
    """Compares weighted sums of each client's updates over rounds."""

    def accumulate(
        self,
        updates: Updates,
        weights: Mapping[int, float],
        earlier: Remembered | None = None,
        /,
        *,
        decay: float = 1.0,
        together: bool = False,
    ) -> Remembered:
        """Keep of each client a weighted sum of its updates: decay times what `earlier` keeps, plus its weight times the new one.

        weights: of clients among those of the updates, finite. together: one sum over all clients, as `earlier` is one, in the
        place of one for each. The handle is on these clients and those of `earlier`. A sum may grow beyond float32; it is
        infinite then. Raises ValueError for what cannot be added, Refused where a view does not give gram(history).
        """
        ...

    def gram_with(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        """Inner products of these updates and of what is remembered, together: float64 (n + m, n + m), updates first.

        The updates' handle may be on none of their clients: then what is remembered alone is compared. Not finite where a sum is
        too large. Raises Refused where a view does not give gram(history), and for handles that are gone.
        """
        ...


class Coordinates(Protocol):
    """Publishes order statistics."""

    def coordinates(
        self, updates: Updates, name: str, rule: Callable[[NDArray[np.float32]], NDArray[np.float32]], /
    ) -> Sum | BelowFloor:
        """Publish rule(rows), a coordinate-wise order statistic of the updates, to the cluster.

        rule: float32 (clients, length) to float32 (length,), commuting with permutations and sign flips of coordinates.
        """
        ...


class Slots(HasFloor, Protocol):
    """Publishes sums into slots that clients choose, and not who chose which."""

    def slots(self, round: int, name: str, work: Assignment, most: int = 1, /) -> Sequence[Sum | BelowFloor]:
        """One session in which each client is given K models and chooses; publishes of each slot k the sum of w_ik x_ik.

        work: its models are the slots'. most: largest share w_ik of a client in a slot; whoever exceeds it sits out. Weights of
        sums are those of the survivors. Raises Refused where there is no such sum; a client is in one such session a round.
        """
        ...


class PersonalSums(HasFloor, Protocol):
    """Tells single clients sums of their own, and keeps models that are one client's own."""

    def personal_sums(self, updates: Updates, weights: Mapping[int, Weights], /) -> Mapping[int, Sum | BelowFloor]:
        """For each client named, a weighted sum of these updates that it alone learns; its own counts if it has a weight.

        weights: of each receiver, public, without sample counts. Below the floor are fewer clients than `floor` beside the
        receiver, or weights that add up to 0. Raises Refused for a receiver's second sum in a round, and for updates of which
        something was published: a client's update goes into sums for clusters or into sums for single clients.
        """
        ...

    def own_models(self, updates: Updates, /) -> Mapping[int, Model]:
        """What clients that started from models of their own (`Assignment.own`) ended up with, before any sum; it is theirs.

        Of those that say that they hold it.
        """
        ...


class Choices(Protocol):
    """Asks clients which model serves them best."""

    def choose(self, round: int, models: Mapping[str, Model], clients: Sequence[int], /) -> Mapping[int, str]:
        """Offer these models to the clients; of each that answers, the name of the one that serves it best by its own account.

        At most once per client and round. Raises Refused where clients have been given no way to judge.
        """
        ...


class ComparesPairs(Protocol):
    """Compares clients by embeddings of their data."""

    def pairs(
        self, round: int, work: Mapping[str, Assignment], updates: Mapping[str, Updates], question: PairQuestion, /
    ) -> PairAnswers:
        """Compare clients by embeddings of their data. work, updates: of this round, where their embedding models come from; no
        updates where nobody trained, and what embeds is public.

        A client answers a pair once in a run, or in a round, as the choice is; whoever is lost leaves the pair undecided.
        """
        ...


class MovesModels(Protocol):
    """Moves models at their owner."""

    @property
    def owner(self) -> Owner:
        """Who owns the models."""
        ...

    def advance(self, model: Model, mean: Sum, /, step: float = 1.0) -> Model:
        """The model moved by step times the published mean (sum / weight), at its owner; step = weight moves it by the sum.

        Moved by a personal sum, at its recipient: the new model is that client's own.
        """
        ...

    def merge(self, models: Mapping[Model, float], /) -> Model:
        """The mean of these models with these weights, at their owner. Weights are above 0 in sum, none is negative."""
        ...

    def extrapolate(self, model: Model, before: Model, factor: float, /) -> Model:
        """The model moved on by factor times its way from `before`, model + factor (model - before), at its owner."""
        ...


class Revises(Protocol):
    """Measures and changes models, where the server owns them."""

    def revise(self, model: Model, change: Callable[[Vector], Vector], /) -> Model:
        """The model as its owner, the server, changes it: float32 (d,) to float32 (d,). It asks nobody and shows nothing new.

        Raises Refused where clients own the model.
        """
        ...

    def norm(self, model: Model, /) -> float:
        """The l2 norm of a model that its owner, the server, holds. Raises Refused where clients own the model."""
        ...


class View(Protocol):
    """What the server of one run can see, opened by a protection, whose docstring says who learns what.

    An algorithm names what it asks for as the type of its view: the protocols above that it needs, and no other.
    """

    @property
    def record(self) -> Recorded: ...

    @property
    def harness(self) -> Plays: ...


class ServerView(
    Trains,
    Sums,
    Similarities,
    Recalls,
    Histories,
    Coordinates,
    Slots,
    PersonalSums,
    Fuses,
    Choices,
    ComparesPairs,
    MovesModels,
    Revises,
    View,
    Protocol,
):
    """A view that answers everything."""


ASKED_BY: Mapping[type, frozenset[Functionality]] = MappingProxyType(
    {
        Sums: frozenset({Functionality.SUMS}),
        Similarities: frozenset({Functionality.GRAM, Functionality.GRAM_ORIGIN}),
        Recalls: frozenset({Functionality.GRAM_EDGE, Functionality.GRAM_RECALL, Functionality.GRAM_REMEMBER}),
        Histories: frozenset({Functionality.GRAM_HISTORY}),
        Coordinates: frozenset({Functionality.COORDINATES}),
        Slots: frozenset({Functionality.SLOTS}),
        PersonalSums: frozenset({Functionality.PERSONAL_SUMS}),
        Fuses: frozenset({Functionality.FUSION}),
        Choices: frozenset({Functionality.CHOICE}),
        ComparesPairs: frozenset({Functionality.PAIRS}),
        Revises: frozenset({Functionality.REVISION}),
    }
)
"""What can be asked by each protocol. Of these an algorithm needs what its numbers ask for; a protection gives what its do."""


def functionalities(view: type) -> frozenset[Functionality]:
    """What can be asked of a view of this type."""
    return frozenset().union(*(asked for ask, asked in ASKED_BY.items() if ask in view.__mro__))
