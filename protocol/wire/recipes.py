"""How models that clients hold move: the server names what is to be made of what, and never sees it.

Spec: specs/owned_models.md.
"""

import math
import struct
from dataclasses import dataclass, field
from typing import ClassVar

from .fields import MAX_VECTOR_BYTES, by_kind, octets, text

MOST_PARTS = 1024
"""Models that one is made of, and names in one message."""
SALT_BYTES = 32


@dataclass(frozen=True, slots=True)
class Recipe:
    """Server to client: make the model `name`, and hold it.

    With neither mean nor update it is the sum of `models`, each times its weight. With a mean it is the one model, moved by
    `step` times that mean; with an update, moved by the client's own work of this name. weights, step: big-endian float64, one
    after the other.
    """

    kind: ClassVar[int] = 16
    name: str
    models: tuple[str, ...]
    weights: bytes
    mean: str = ""
    update: str = ""
    step: bytes = struct.pack(">d", 1.0)

    def __post_init__(self) -> None:
        names(self.models, "models")
        for name in (self.name, *(word for word in (self.mean, self.update) if word != "")):
            text(name, 256, "name")
        octets(self.weights, 8 * len(self.models), 8 * len(self.models), "weights")
        octets(self.step, 8, 8, "step")
        if not all(map(math.isfinite, (*self.of, self.times))):
            raise ValueError("weights and step are not all finite")
        if (self.mean or self.update) and (len(self.models) != 1 or (self.mean and self.update) or self.of != (1.0,)):
            raise ValueError("what moves is one model, by a mean or by an update")

    @property
    def of(self) -> tuple[float, ...]:
        """The weights."""
        return struct.unpack(f">{len(self.models)}d", self.weights)

    @property
    def times(self) -> float:
        """The step."""
        return float(struct.unpack(">d", self.step)[0])


@dataclass(frozen=True, slots=True)
class Holds:
    """Client to server: it holds these models, as it was told. Who does not say so is not counted on."""

    kind: ClassVar[int] = 17
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        names(self.names, "names")


@dataclass(frozen=True, slots=True)
class Lend:
    """Server to client: seal this model for those that lack it."""

    kind: ClassVar[int] = 18
    name: str

    def __post_init__(self) -> None:
        text(self.name, 256, "name")


@dataclass(frozen=True, slots=True)
class Lent:
    """A model, from the client that holds it to the server and on: little-endian float32 under a key of the clients' secret,
    `salt`, and both names. From a server that owns its models, in the clear: lender -1, no salt.
    """

    kind: ClassVar[int] = 19
    name: str
    lender: int
    salt: bytes
    content: bytes = field(repr=False)

    def __post_init__(self) -> None:
        text(self.name, 256, "name")
        if type(self.lender) is not int or not -1 <= self.lender < 1 << 31:
            raise ValueError("lender is no party")
        octets(self.salt, 0, SALT_BYTES, "salt")
        octets(self.content, 4, MAX_VECTOR_BYTES, "content")


@dataclass(frozen=True, slots=True)
class RoundOver:
    """Server to client: the round is over. Hold these models, and nothing else: no other models, no means and no work."""

    kind: ClassVar[int] = 32
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        names(self.names, "names", 0)


def names(value: object, what: str, least: int = 1) -> None:
    """`least` to MOST_PARTS names."""
    if not isinstance(value, tuple) or not least <= len(value) <= MOST_PARTS:
        raise ValueError(f"{what} are not a list of {least} to {MOST_PARTS} names")
    for name in value:
        text(name, 256, what)


MESSAGES = by_kind(Recipe, Holds, Lend, Lent, RoundOver)
