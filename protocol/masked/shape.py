"""What the server decides of a masked sum, before it is planned."""

from dataclasses import dataclass

from ..parts.leverage import Row


@dataclass(frozen=True, slots=True)
class Shape:
    """What a view asks for. size: ring_bits, length, bits, clip and max_weight, as in `SumTerms`. row: the public
    weights, over the roster."""

    label: str
    protocol: str
    threshold: int
    size: tuple[int, int, int, float, int]
    row: Row
    times_samples: bool = False
    purpose: bytes = b""
    """Of several sums of one kind of work whose inputs are not the same: what sets this one's apart."""

    @property
    def roster(self) -> tuple[int, ...]:
        return tuple(sorted(self.row))
