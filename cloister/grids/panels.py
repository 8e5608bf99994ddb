"""What pages of grids have in common."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the headline."""

    label: str
    value: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A verdict in its sentences. places: for each protection, and partition, what is found first and then in detail. notes: what
    the numbers are, what is left out, and how much so few seeds decide.
    """

    places: tuple[tuple[str, tuple[str, ...]], ...]
    notes: tuple[str, ...] = ()
