"""The disclosure log: what each party learned, about whom, and how much of it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Party = Literal["server", "clients", "second server", "dealer"]

_ALWAYS: tuple[Party, ...] = ("server", "clients")


@dataclass(frozen=True, slots=True)
class Disclosure:
    """One answer of a view, from the side of whoever received it.

    round: counted from 0. recipient: the server, the clients of a cluster, or a helper. what: name of the functionality.
    about: client ids that the answer depends on. scalars: numbers disclosed. bytes: their size on the wire or in memory.
    words: one sentence for a reader.
    """

    round: int
    recipient: Party
    what: str
    about: tuple[int, ...]
    scalars: int
    bytes: int
    words: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def totals(log: Iterable[Disclosure]) -> Mapping[Party, list[dict[str, Any]]]:
    """What each party learned in all: one entry per kind of answer, with its scalars, bytes and number of times."""
    sums: dict[tuple[Party, str, str], dict[str, Any]] = {}
    for entry in log:
        key = (entry.recipient, entry.what, entry.words)
        row = sums.setdefault(key, {"what": entry.what, "words": entry.words, "scalars": 0, "bytes": 0, "times": 0})
        row["scalars"] += entry.scalars
        row["bytes"] += entry.bytes
        row["times"] += 1
    parties: list[Party] = [*dict.fromkeys([*_ALWAYS, *(entry for entry, _, _ in sums)])]
    return {party: [row for (who, _, _), row in sums.items() if who == party] for party in parties}
