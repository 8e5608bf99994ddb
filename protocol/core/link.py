"""What a network carries between parties, and what it may do to it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Frame:
    """Bytes on a link. number: order of sending in the run. kind: the message's name. late: arrives after the deadline."""

    number: int
    sender: int
    receiver: int
    kind: str
    data: bytes = field(repr=False)
    late: bool = False


Tap = Callable[[Frame], Iterable[Frame]]
"""What the network does with a frame: pass it on as it is, [] to drop it, twice to replay it, altered, or made late."""
