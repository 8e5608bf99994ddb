"""What the server keeps of updates beyond their round: the updates as it holds them, or weighted sums of each client's.

A view adds what it holds of an update, a vector whose inner products are those of updates, in every round alike: the update,
a transform of it, a sketch. All of these are linear, so that sums of them are what the server would hold of the sums.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from ..core.errors import Refused
from ..view.answers import Remembered, Snapshot, Traffic, Updates, Vector
from ..view.functionality import Functionality
from .gram import gram_matrix
from .models import unused
from .run import Run

KEPT, EDGE = "/kept", "/edge"
"""What handles are named for: updates to compare any later ones with, and the updates of a split."""
Lasting = Callable[[Updates, Sequence[int]], Mapping[int, Vector]]
"""What the server holds of these clients' updates, comparable across rounds, of those of whom it holds any. Raises Refused if
there is no such thing.
"""


def apart(kept: Sequence[Remembered]) -> list[tuple[int, ...]]:
    """The sets of clients whose kept updates are compared about a mean of their own, each of two clients at least.

    All updates of one session are such a set, because their sum is published: two known sums in one set would give their
    difference a known sketch. What is left of sessions whose clients have sent something since is one more set.
    """
    whole = [handle.clients for handle in kept if len(handle.clients) == handle.of]
    rest = tuple(sorted(i for handle in kept if len(handle.clients) != handle.of for i in handle.clients))
    return [part for part in (*whole, rest) if len(part) > 1]


def parted(kept: Sequence[Remembered]) -> tuple[tuple[int, ...], list[list[int]]]:
    """The clients of `apart`, ascending, and the positions of each set among them."""
    sets = apart(kept)
    clients = tuple(sorted(i for part in sets for i in part))
    return clients, [[clients.index(i) for i in part] for part in sets]


def of_split(remembered: Remembered) -> bool:
    """Whether the handle is on the updates of a split (`edge`)."""
    return EDGE in remembered.name


class History:
    """Answers `remember`, `keep`, `edge`, `accumulate` and `gram_with` from vectors that the server holds.

    rows: what it keeps, by handle and client.
    """

    def __init__(self, run: Run, lasting: Lasting) -> None:
        self.rows: dict[str, dict[int, Vector]] = {}
        self._run = run
        self._lasting = lasting

    def remember(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """See `Recalls`."""
        self._run.allow(Functionality.GRAM_REMEMBER, Functionality.GRAM_HISTORY)
        return self._chosen(updates, clients, KEPT)

    def keep(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """See `Recalls`."""
        self._run.allow(Functionality.GRAM_RECALL)
        return self._chosen(updates, clients, KEPT)

    def edge(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        """See `Recalls`."""
        self._run.allow(Functionality.GRAM_EDGE)
        return self._chosen(updates, clients, EDGE)

    def accumulate(
        self,
        updates: Updates,
        weights: Mapping[int, float],
        earlier: Remembered | None = None,
        /,
        *,
        decay: float = 1.0,
        together: bool = False,
    ) -> Remembered:
        """See `Histories`."""
        self._run.allow(Functionality.GRAM_HISTORY)
        if not (isfinite(decay) and all(map(isfinite, weights.values()))):
            raise ValueError("the weights and the decay of an accumulation are finite numbers")
        if earlier is not None and earlier.clients and earlier.together != together:
            raise ValueError("a sum over all clients and sums of each are not added to each other")
        clients = sorted(weights)
        about = tuple(sorted({*clients, *(() if earlier is None else earlier.clients)}))
        parts: dict[int, list[tuple[float, Vector]]] = {i: [] for i in (about[:1] if together else about)}
        if earlier is not None:
            for i, row in zip(earlier.rows, self.recalled(earlier), strict=True):
                parts[about[0] if together else i].append((decay, row))
        for i, row in zip(clients, self._all(updates, clients), strict=True):
            parts[about[0] if together else i].append((weights[i], row))
        with self._run.timed(), np.errstate(over="ignore", invalid="ignore"):
            rows = {i: _sum(of) for i, of in parts.items()}
        return replace(self._keep(updates, rows, KEPT), clients=about, together=together)

    def gram_with(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        """See `Histories`."""
        self._run.allow(Functionality.GRAM_HISTORY)
        rows = [*self._all(updates, updates.clients), *self.recalled(remembered)]
        about = tuple(sorted({*updates.clients, *remembered.clients}))
        words = "inner products, as of the updates, of these and of weighted sums of earlier ones"
        self._run.record.disclose(updates.round, "server", "gram(history)", about, len(rows) * (len(rows) + 1) // 2, words)
        with self._run.timed(), np.errstate(over="ignore", invalid="ignore"):
            return gram_matrix(rows)

    def recalled(self, remembered: Remembered) -> list[Vector]:
        """The handle's kept rows, in its order. Raises Refused if they are gone."""
        rows = self.rows.get(remembered.name, {})
        if any(i not in rows for i in remembered.rows):
            raise Refused(f"the remembered updates {remembered.name} are gone; keep their handle when retiring")
        return [rows[i] for i in remembered.rows]

    def _chosen(self, updates: Updates, clients: Sequence[int], purpose: str) -> Remembered:
        return self._keep(updates, self._lasting(updates, clients), purpose)

    def _all(self, updates: Updates, clients: Sequence[int]) -> list[Vector]:
        held = self._lasting(updates, clients)
        if missing := [i for i in clients if i not in held]:
            raise Refused(f"no sketch of client {missing[0]} in {updates.name}; ask about the clients of its Gram matrix")
        return [held[i] for i in clients]

    def _keep(self, updates: Updates, rows: Mapping[int, Vector], purpose: str) -> Remembered:
        name = unused(f"{updates.name}{purpose}", self.rows)
        self.rows[name] = dict(sorted(rows.items()))
        return Remembered(name, tuple(sorted(rows)), of=len(updates.clients))

    # --- keeping ------------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""
        kept = {name: set(handle.rows) for name, handle in remembered.items()}
        self.rows = {n: {i: row for i, row in rows.items() if i in kept[n]} for n, rows in self.rows.items() if n in kept}

    def save(self) -> Snapshot:
        """See `Part`."""
        return Snapshot({}, {name: np.stack(list(rows.values())) for name, rows in self.rows.items() if rows}, {}, Traffic())

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        handles = [handle for handle in remembered if handle.rows and handle.name in snapshot.remembered]
        self.rows = {h.name: dict(zip(h.rows, snapshot.remembered[h.name], strict=True)) for h in handles}


def _sum(parts: Sequence[tuple[float, Vector]]) -> Vector:
    """The weighted sum of these vectors, rounded to float32 once."""
    total = np.zeros(len(parts[0][1]))
    for weight, vector in parts:
        total += weight * vector.astype(np.float64)
    return total.astype(np.float32)
