"""The two messages of choosing: the server offers models, and each client names the one that serves it best."""

from dataclasses import dataclass, field
from typing import ClassVar

from ..wire.fields import SessionFields, by_kind, integer, text, words

PROTOCOL = "choosing"
KIND = "choice"
"""Under this name a client remembers the earliest round that it still chooses in."""
CHOICES = "choices"
"""Name of a client's role."""

MAX_OFFERED = 1024
"""Most models in one offer, whatever a client's policy allows."""


@dataclass(frozen=True, slots=True)
class Offer(SessionFields):
    """Server to client: say which of these models serves you best. The session's fields ride along, as in a task.

    names: of the models. vectors: the models as little-endian float32, in the order of the names; empty where clients own them.
    """

    kind: ClassVar[int] = 8
    names: tuple[str, ...]
    vectors: tuple[bytes, ...] = field(repr=False)

    def __post_init__(self) -> None:
        SessionFields.__post_init__(self)
        if not isinstance(self.names, tuple) or not 0 < len(self.names) <= MAX_OFFERED:
            raise ValueError(f"names is not a list of 1 to {MAX_OFFERED} models")
        for name in self.names:
            text(name, 256, "name")
        if not isinstance(self.vectors, tuple) or len(self.vectors) not in (0, len(self.names)):
            raise ValueError("vectors is neither empty nor one for each name")
        for vector in self.vectors:
            words(vector, 1, "vector")


@dataclass(frozen=True, slots=True)
class Choice:
    """Client to server: the position, in the offer, of the model that serves it best. A report: nothing proves it."""

    kind: ClassVar[int] = 9
    index: int

    def __post_init__(self) -> None:
        integer(self.index, 0, MAX_OFFERED - 1, "index")


MESSAGES = by_kind(Offer, Choice)
