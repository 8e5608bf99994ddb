"""The disclosure log: what each party learned, about whom, and how much of it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from ..core.session import DEALER, SECOND_SERVER, SERVER

Party = Literal["server", "second server", "dealer", "key holder", "clients"]
"""A kind of party: the servers, who deals them randomness, who can decrypt, and the clients (of a cluster, or all)."""
COMPARED = ("gram", "sketches", "choice")
"""How the names of comparisons begin, and of a choice: of a server what came of none is nothing."""
ROSTER = "roster"
"""The name of what tells clients who is asked together with them."""
IN_CLUSTER = "which clients are in their own cluster"
TAKE_PART = "which clients take part"
"""The same in words, of clients of one cluster, and of all that work at once."""
PARTIES: tuple[Party, ...] = get_args(Party)


@dataclass(frozen=True, slots=True)
class Disclosure:
    """One answer of a view, from the side of whoever received it.

    round: counted from 0. recipient: a server, or the clients of a cluster. what: name of the functionality.
    about: client ids that the answer depends on. scalars: numbers disclosed. bytes: their size on the wire or in memory.
    words: one sentence for a reader. client: the one client that received it, where it was not all of a cluster.
    """

    round: int
    recipient: Party
    what: str
    about: tuple[int, ...]
    scalars: int
    bytes: int
    words: str
    client: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def party_of(id: int) -> Party:
    """What kind of party has this id. Raises ValueError for an id that none has."""
    named: dict[int, Party] = {SERVER: "server", SECOND_SERVER: "second server", DEALER: "dealer"}
    if id < 0 and id not in named:
        raise ValueError(f"no party has the id {id}")
    return named.get(id, "clients")


def is_unanswered(recipient: object, what: object, scalars: object) -> bool:
    """Whether a server compared nothing: whoever was asked for a sketch was not there, or declined."""
    return recipient == "server" and str(what).startswith(COMPARED) and not scalars


def totals(log: Iterable[Disclosure], present: Iterable[Party] = ()) -> Mapping[Party, list[dict[str, Any]]]:
    """What each party learned in all: one entry per kind of answer, with its scalars, bytes and number of times.

    Server, clients and whoever is `present` or in the log have a list; it is empty where nothing was learned. A comparison for
    which nobody sent anything is none.
    """
    sums: dict[tuple[Party, str, str], dict[str, Any]] = {}
    for entry in log:
        if is_unanswered(entry.recipient, entry.what, entry.scalars):
            continue
        key = (entry.recipient, entry.what, entry.words)
        row = sums.setdefault(key, {"what": entry.what, "words": entry.words, "scalars": 0, "bytes": 0, "times": 0})
        row["scalars"] += entry.scalars
        row["bytes"] += entry.bytes
        row["times"] += 1
    there = {"server", "clients", *present, *(who for who, _, _ in sums)}
    return {party: [row for (who, _, _), row in sums.items() if who == party] for party in PARTIES if party in there}
