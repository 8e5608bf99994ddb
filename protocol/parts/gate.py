"""The gate: what may be published about the same updates, in one place.

`Rules` say what holds; a `Gate` remembers what was published, and holds the next rows against it. A server's view has one, and
so has whoever else must not rely on the server: each client holds `Rules` of its own against the sums that it is in.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Literal

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
    rest. A floor of 1 asks for nothing.
    """

    floor: int
    corrupt: int = 0

    def __post_init__(self) -> None:
        for name, least in (("floor", 1), ("corrupt", 0)):
            if not isinstance(value := getattr(self, name), Integral) or value < least:
                raise ValueError(f"{name} is a whole number of clients, {least} or more, not {value!r}")

    @property
    def least(self) -> int:
        """Fewest clients in a sum, the corrupt included."""
        return self.floor + self.corrupt

    def enough(self, clients: int) -> bool:
        return clients >= self.least

    def fit(self, row: Row) -> bool:
        """Whether a sum with these weights, alone, may be published."""
        return self.enough(sum(a != 0 for a in row.values())) and not self.reveals([row])

    def reveals(self, rows: Sequence[Row]) -> bool:
        """Whether sums with these weights, known together, would show too much of somebody."""
        return self.floor > 1 and largest(rows) > 1 / self.least + TOLERANCE


ANYTHING = Rules(1)


Form = Literal["differences", "origin"]
"""How updates are compared: by deviations from their mean, or about the origin."""


@dataclass(slots=True)
class KnownOfUpdates:
    """What is known about one session's updates. rows: of published sums. counted: by client, whether its sums count samples.

    form: in which way they were compared. split: the handle of the split that they were compared with. receivers: who had a
    personal sum of them.
    """

    rows: list[Row] = field(default_factory=list)
    counted: dict[int, bool] = field(default_factory=dict)
    form: Form | None = None
    split: str = ""
    receivers: set[int] = field(default_factory=set)


@dataclass
class Gate:
    """Every rule about what may be told of the same updates, and what was told so far. told: by the name of the updates.

    same_clients: sums that overlap are over the same clients, and one of them at most counts samples: clients answer no others.
    behind_offsets: differences are compared behind a secret offset. Then the server must not hold two known vectors of one
    session, whose sketches would tell the offset's differences: one way of comparing an update, and one sum beside differences.
    """

    rules: Rules
    same_clients: bool = False
    behind_offsets: bool = False
    one_kind: bool = False
    told: dict[str, KnownOfUpdates] = field(default_factory=dict)

    def begin(self, name: str) -> None:
        """Updates of this name are new: no sum of them was told. How others of the name were compared holds on."""
        before = self.told.get(name, KnownOfUpdates())
        self.told[name] = KnownOfUpdates(form=before.form, split=before.split)

    def forget(self, names: Iterable[str] | None = None) -> None:
        """Updates that are gone; all of them if none are named."""
        for name in list(self.told if names is None else names):
            self.told.pop(name, None)

    # --- sums -----------------------------------------------------------------------------------------------------------

    def check(self, name: str, rows: Mapping[str, Row], counting: Mapping[str, bool]) -> None:
        """Raises Refused for sums, by label, that no sum of these updates may stand beside. counting: which count samples.

        Positive counts scale the columns of the weights and change no span; between the two kinds, counts that the server does
        not know could cancel what the weights alone do not.
        """
        told = self.told[name]
        counted, large = dict(told.counted), [row for row in rows.values() if len(row) >= self.rules.least]
        for label, row in rows.items():
            if any(counted.setdefault(i, counting[label]) != counting[label] for i in row):
                raise Refused(f"sum {label} overlaps with another of its updates, and only one of the two counts samples")
            if told.split:
                raise Refused(f"{name} was compared with a split; sum {label} and it would tell more than either")
            if self.behind_offsets and told.form == "differences" and not one_direction([*told.rows, *large]):
                raise Refused(
                    f"sum {label} would be another of {name}, whose differences were compared; with several sums ask about the"
                    " origin, which says what it shows"
                )
            if self.same_clients:
                self._check_clients(label, row, told.rows, rows.values(), counting[label])

    def _check_clients(self, label: str, row: Row, before: Sequence[Row], now: Iterable[Row], times_samples: bool) -> None:
        """Clients give one update to sums among the same clients only, and to one that counts samples (masked/given.py)."""
        now = [other for other in now if other is not row and not other.keys().isdisjoint(row)]
        before = [other for other in before if not other.keys().isdisjoint(row)]
        if times_samples and any(other != row for other in (*before, *now)):
            raise Refused(f"sum {label} would be a second one that counts samples, of other weights: clients give theirs to one")
        summed = [other for other in now if min(len(row), len(other)) >= self.rules.least]
        if any(other.keys() != row.keys() for other in (*before, *summed)):
            raise Refused(f"sum {label} overlaps with a sum of the same updates over other clients; clients would not answer")

    def admit(self, name: str, rows: Mapping[str, Row]) -> list[str]:
        """The names of the rows that may be published, which count as published from now on.

        A row that is not fit by itself is left out: it ends below the floor. Raises Refused, and nothing is published, if the
        rest, with what was published before, would show too much.
        """
        told, fit = self.told[name], {label: row for label, row in rows.items() if self.rules.fit(row)}
        if told.receivers and any(len(row) >= self.rules.least for row in rows.values()):
            raise Refused(f"{name} gave personal sums; clients give an update to such sums or to published ones")
        self._check_kinds(name, fit.values())
        if self.rules.reveals([*told.rows, *fit.values()]):
            raise Refused(
                f"sums {', '.join(fit)} of {name} are refused: together with what was published about the same updates they"
                f" would show a combination of fewer than {self.rules.least} clients, or one in which a client outweighs the"
                f" others, or they are more than {MOST_ROWS} sums with common clients"
            )
        told.rows.extend(fit.values())
        return list(fit)

    def into_slots(self, name: str, clients: Iterable[int]) -> None:
        """Count sums into slots as published, from before they are asked for: anybody may be in each. Raises Refused."""
        row = dict.fromkeys(clients, 1.0)
        self._check_kinds(name, [row])
        self.told[name].rows.append(row)

    def _check_kinds(self, name: str, rows: Iterable[Row]) -> None:
        """An update and a gradient of one model have much in common, and so would their sums over other clients."""
        clients = {client for row in rows for client in row}
        beside = {other: told for other, told in self.told.items() if other != name and _round(other) == _round(name)}
        for other, told in beside.items() if self.one_kind else ():
            if any(not clients.isdisjoint(row) for row in told.rows):
                raise Refused(f"sums of {other} were published, of the same clients: one kind of a round's work goes to sums")

    def count(self, name: str, row: Row, times_samples: bool) -> None:
        """These clients' sums count samples, or do not, from now on."""
        self.told[name].counted.update(dict.fromkeys(row, times_samples))

    def replace(self, name: str, row: Row, came: Sequence[Row]) -> None:
        """Put what came true of a row, as its survivors, in its place: the row itself and not an equal one."""
        self.told[name].rows = [*(other for other in self.told[name].rows if other is not row), *came]

    def personal(self, name: str) -> None:
        """Raises Refused for personal sums of updates of which sums were published."""
        if self.told[name].rows:
            raise Refused(f"sums of {name} were published; clients give an update to such sums or to personal ones")

    def alone(self, name: str, everyone: Row) -> None:
        """Count a statistic of all that only stands alone. Raises Refused if something was published."""
        if self.told[name].rows or self.told[name].receivers:
            raise Refused(f"something was already published about the updates of {name}")
        self.told[name].rows.append(everyone)

    # --- comparisons ------------------------------------------------------------------------------------------------------

    def compare(self, name: str, form: Form) -> None:
        """Raises Refused for a second way of comparing updates, and for differences of which two sums are published."""
        told = self.told[name]
        if told.split:
            raise Refused(f"{name} was compared with a split; nothing else is told of these updates")
        if told.form not in (None, form):
            raise Refused(
                f"{name} was compared {'about the origin' if told.form == 'origin' else 'by differences'}; ask in one way"
            )
        if form == "differences" and not one_direction(told.rows):
            raise Refused(f"several sums of {name} are published; differences are compared of updates with one sum")
        told.form = form

    def place(self, name: str, split: str) -> None:
        """Raises Refused for updates that are compared with a split and of which anything else is told."""
        told = self.told[name]
        if told.form is not None or told.rows:
            raise Refused(f"{name} was summed or compared itself; a split is compared with updates of which nothing is told")
        if told.split not in ("", split):
            raise Refused(f"{name} was compared with another split; two of them tell more than either")
        told.split = split


def _round(name: str) -> str:
    """Of updates, as their name says it: `cluster@round/kind`."""
    return name.rpartition("@")[2].partition("/")[0]


def one_direction(rows: Sequence[Row]) -> bool:
    """Whether all rows are multiples of one."""
    first: Row = next(iter(rows), {})
    at = next(iter(first), 0)
    return all(row.keys() == first.keys() and all(row[i] * first[at] == first[i] * row[at] for i in row) for row in rows)
