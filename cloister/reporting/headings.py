"""What stands first on a page: its numbers, and what they come to in sentences."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the headline: what it is, its value and a line of detail."""

    label: str
    value: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """A verdict in its sentences. places: for each protection, and partition, or paragraph, what is found first and then in
    detail. notes: what the numbers are, what is left out, and how much so few seeds decide.
    """

    places: tuple[tuple[str, tuple[str, ...]], ...]
    notes: tuple[str, ...] = ()
