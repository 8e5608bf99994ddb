"""The gate: what may be published about the same updates, in one place.

`Rules` say what holds; a `Gate` remembers what was published, and holds the next rows against it. A server's view has one, and
so has whoever else must not rely on the server: each client holds `Rules` of its own against the sums that it is in.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..core.errors import Refused
from .leverage import MOST_ROWS, Row, largest

TOLERANCE = 1e-9
"""On a leverage, so that as many equal weights as there must be at least pass. Beside `leverage.ERROR`."""


@dataclass(frozen=True, slots=True)
class Rules:
    """floor: fewest honest clients that anything published rests on. corrupt: clients of the run that pool what they know with
    the one who sees the sums; 0: that one alone.

    Of the rows about the same updates no leverage exceeds 1 / (floor + corrupt). Then, with the columns of any `corrupt` clients
    taken away, none exceeds 1 / floor: no combination rests on fewer than `floor` of the others, and none of them outweighs the
    rest. A floor of 1 or less asks for nothing.
    """

    floor: int
    corrupt: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.corrupt, int) or self.corrupt < 0:
            raise ValueError(f"corrupt is a number of clients, counted from 0, not {self.corrupt}")

    @property
    def least(self) -> int:
        """Fewest clients in a sum, the corrupt included."""
        return max(self.floor, 1) + self.corrupt

    def enough(self, clients: int) -> bool:
        return clients >= self.least

    def fit(self, row: Row) -> bool:
        """Whether a sum with these weights, alone, may be published."""
        return self.enough(sum(a != 0 for a in row.values())) and not self.reveals([row])

    def reveals(self, rows: Sequence[Row]) -> bool:
        """Whether sums with these weights, known together, would show too much of somebody."""
        return self.floor > 1 and largest(rows) > 1 / self.least + TOLERANCE


ANYTHING = Rules(1)


@dataclass(slots=True)
class Gate:
    """published: the rows so far, by the name of the updates that they are about."""

    rules: Rules
    published: dict[str, list[Row]] = field(default_factory=dict)

    def begin(self, name: str) -> None:
        """Updates of this name are new: nothing was published about them."""
        self.published[name] = []

    def forget(self, names: Iterable[str] | None = None) -> None:
        """Updates that are gone; all of them if none are named."""
        for name in list(self.published if names is None else names):
            self.published.pop(name, None)

    def admit(self, name: str, rows: Mapping[str, Row]) -> list[str]:
        """The names of the rows that may be published, which count as published from now on.

        A row that is not fit by itself is left out: it ends below the floor. Raises Refused, and nothing is published, if the
        rest, with what was published before, would show too much.
        """
        fit = {label: row for label, row in rows.items() if self.rules.fit(row)}
        if self.rules.reveals([*self.published[name], *fit.values()]):
            raise Refused(
                f"sums {', '.join(fit)} of {name} are refused: together with what was published about the same updates they"
                f" would show a combination of fewer than {self.rules.least} clients, or one in which a client outweighs the"
                f" others, or they are more than {MOST_ROWS} sums with common clients"
            )
        self.published[name].extend(fit.values())
        return list(fit)

    def replace(self, name: str, row: Row, came: Sequence[Row]) -> None:
        """Put what came true of a row, as its survivors, in its place: the row itself and not an equal one."""
        self.published[name] = [*(other for other in self.published[name] if other is not row), *came]
