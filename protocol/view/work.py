"""What clients compute, and whom they are asked for it by: jobs and offers as a client's own computer takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...crypto.projection import TwoStage
from .answers import Vector, Work


@dataclass(frozen=True, slots=True)
class LocalWork:
    """What a client computed: a float32 vector, shape (d,), from `samples` examples.

    For K slots the vector has shape (K, d), and shares are its K weights, whole numbers: 0 where the client did not choose, so
    all but one are 0 for a hard choice. Soft ones are rounded by the client (`masked.slots.integer_shares`).
    """

    vector: Vector = field(repr=False)
    samples: int
    shares: tuple[int, ...] = ()

    @property
    def sketched(self) -> Vector:
        """What the client sketches, where the protocol asks for a sketch: the same vector, if the client is honest."""
        return self.vector


@dataclass(frozen=True, slots=True)
class Unwilling:
    """In the place of its work: that a client does not do it, and why. The server is told."""

    reason: str


@dataclass(frozen=True, slots=True)
class LocalJob:
    """What a client is asked to compute, from the model that it opened; of work for slots, from the models `starts`.

    sketch: draws the secret sketch of this work, which every client of the run can draw and the server cannot; None where there
    is none that a client knows before it uploads. toward: what its objective pulls to; None for the start.
    """

    client: int
    round: int
    work: Work
    start: Vector = field(repr=False)
    starts: tuple[Vector, ...] = field(default=(), repr=False)
    sketch: Callable[[], TwoStage] | None = field(default=None, repr=False, compare=False)
    toward: Vector | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class LocalOffer:
    """What a client is asked to choose among: models, each float32 (d,). roster: the clients that are asked."""

    client: int
    round: int
    roster: tuple[int, ...]
    models: tuple[Vector, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class LocalScore:
    """How well a client predicts on its own test records. targets: how many there are. right: how many of them it predicts.

    loss: the mean cross entropy in nats. which: the place of the model that it goes by most.
    """

    targets: int
    right: int
    loss: float
    which: int = 0


class Scorer(Protocol):
    """How clients measure themselves, on their own computers and test records."""

    def __call__(self, client: int, rounds: int, models: tuple[Vector, ...], /) -> LocalScore | None:
        """By these models, when so many rounds are over; None of a client that does not tell."""
        ...


class Workers(Protocol):
    """The clients' own computers. Yields (client, result) for every job, in any order, as results come."""

    def __call__(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork | Unwilling]]: ...


class Judgement(Protocol):
    """The clients' own opinion of models, formed on their own computers and data."""

    def __call__(self, offer: LocalOffer, /) -> int | None:
        """The position of the model that serves the client best, by its own account; None if it does not answer."""
        ...
