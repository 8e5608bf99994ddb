"""What a server asks of pairs and what it gets: questions, answers, and the client computers that embed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..view.answers import Vector
from .choices import Choice
from .terms import ONCE, PairTerms

Rows = NDArray[np.float32]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """What a client answers: float32 (rows, p) twice, the second None where the first serves for both; and tau."""

    own: Rows = field(repr=False)
    other: Rows | None = field(repr=False)
    reference: float


@dataclass(frozen=True, slots=True)
class Reported:
    """What a client answers that measures for itself: W of the pair, of its own data to the other's, and tau."""

    distance: float
    reference: float


Answered = TypeVar("Answered", Released, Reported)


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """Does `client` accept `other`? At the server: both clouds under one embedding model, the client's, and one projection.

    source: of the client's own data. target: of the other's. reference: tau, as the client reports it.
    """

    client: int
    other: int
    source: Rows = field(repr=False)
    target: Rows = field(repr=False)
    reference: float


@dataclass(frozen=True, slots=True)
class MeasuredDirection:
    """Does `client` accept `other`? At the server: nothing but what the client reports, the distance and tau."""

    client: int
    other: int
    distance: float
    reference: float


Judge = Callable[[Iterable[Direction | MeasuredDirection]], Mapping[tuple[int, int], bool]]
"""The server's decision: of every direction, by (client, other), whether the client accepts the other. Takes them one by one."""


class Reference(Protocol):
    """How clients measure tau: the distance that the server compares clouds by."""

    @property
    def span(self) -> float:
        """Largest distance that there can be; infinite if it has no bound."""
        ...

    @property
    def samples(self) -> int:
        """How many samples of validation data a client has for it: it takes number j mod samples for client j."""
        ...

    def moved(self, rows: int, /) -> float:
        """How far the distance of two samples of so many rows moves, at most, if one row of one of them is replaced.

        Raises Refused where no bound is known.
        """
        ...

    def __call__(self, source: NDArray[Any], target: NDArray[Any], /) -> float: ...


def held_out_for(reference: Reference, terms: PairTerms, client: int) -> str:
    """The part of its data on which a client measures its reference distance for this other client, as `Embedders` names it."""
    if reference.samples == 1:
        return "validation"
    return f"validation {0 if terms.session.protocol == ONCE else terms.peer(client) % reference.samples}"


@dataclass(frozen=True, slots=True)
class Comparing:
    """What clients know beforehand of the questions of a run: what they release, and how they measure tau."""

    choice: Choice
    reference: Reference


@dataclass(frozen=True, slots=True)
class PairQuestion:
    """Which pairs are to be compared, (smaller id, larger id) each, by what, and who decides.

    shown, decided: what clients show of their data, and what the server computes of it, in words for the disclosure log; empty
    where that is embeddings, and distances above reference distances.
    """

    pairs: tuple[tuple[int, int], ...]
    choice: Choice
    reference: Reference
    judge: Judge
    shown: str = ""
    decided: str = ""


@dataclass(frozen=True, slots=True)
class PairAnswers:
    """accepts: of (client, other), of pairs of which both answered. lost: pairs that stay undecided for the rest of the run, as
    one of the two answered what cannot be used, or may have answered as often as it will. Pairs that are in neither may be asked
    again.
    """

    accepts: Mapping[tuple[int, int], bool]
    lost: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Occasion:
    """What a client knows when it answers: the terms, R (None where there is none), its own embedding model and the other's
    (None for the public one), and how tau is measured."""

    terms: PairTerms
    projection: Matrix | None = field(repr=False)
    own: Vector | None = field(repr=False)
    others: Vector | None = field(repr=False)
    reference: Reference


class Unusable(ValueError):
    """The other's embedding model turns examples into what is not finite."""


class Embedders(Protocol):
    """The clients' computers, for embeddings of their own data, which stay there. All clients take as many examples.

    An embedding model is a float32 vector, or None for the public one.
    """

    @property
    def d(self) -> int:
        """Coordinates of an embedding."""
        ...

    @property
    def inputs(self) -> int:
        """Coordinates of an example."""
        ...

    @property
    def rows(self) -> int:
        """Examples in a sample."""
        ...

    @property
    def by_position(self) -> bool:
        """Whether a sample's examples were drawn by their positions alone, so that replacing one record changes one row at most.

        Labels, contents and other records have no say then. Without it no release has noise: its epsilon would be false.
        """
        ...

    def weights_of(self, model: Vector, /) -> Vector:
        """The part of a model, float32 (d,), that embeds."""
        ...

    def embed(self, client: int, part: str, weights: Vector | None, /) -> Rows:
        """The client's sample of its "train" or "validation" data: float32 (rows, d). The same examples every time.

        Of several samples of validation data the parts are "validation 0", "validation 1" and so on.
        """
        ...

    def examples(self, client: int, part: str, /) -> Rows:
        """The same sample as it is: float32 (rows, inputs)."""
        ...

    def embed_examples(self, examples: Rows, weights: Vector | None, /) -> Rows:
        """Examples from wherever: what a server that was handed some computes."""
        ...

    def sent(self, client: int, occasion: Occasion, honest: Answered, /) -> Answered:
        """What the client's computer sends in place of the honest answer: one in its owner's hands sends that."""
        ...
