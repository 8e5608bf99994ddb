"""Cosines of the most recent update of every client, kept up to date round by round (FLIC, Algorithm 1, lines 7 and 11).

Only pairs with a client of the round in them change, so only those are asked for; the view keeps what comparison needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...protocol.view.answers import Gram, Remembered, Updates
from ...protocol.view.asks import Recalls
from ..clustering.separation import cosine_similarity


@dataclass(frozen=True, slots=True, eq=False)
class SimilarityMemory:
    """The matrix M of FLIC as handles, and the cosines of its rows.

    handles: on the stored updates, each client in one of them. clients: whose, ascending. cosines: float64 (m, m), symmetric, in
    [-1, 1], 1 on the diagonal and 0 where not known; a zero update has cosine 0 to all others. known: bool (m, m).
    """

    handles: tuple[Remembered, ...]
    clients: tuple[int, ...]
    cosines: NDArray[np.float64] = field(repr=False)
    known: NDArray[np.bool_] = field(repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SimilarityMemory):
            return NotImplemented
        same = self.handles == other.handles and self.clients == other.clients
        return same and np.array_equal(self.cosines, other.cosines) and np.array_equal(self.known, other.known)

    def __hash__(self) -> int:
        return hash((self.handles, self.clients))


EMPTY = SimilarityMemory((), (), np.zeros((0, 0)), np.zeros((0, 0), np.bool_))


def refreshed(memory: SimilarityMemory, view: Recalls, updates: Updates, gram: Gram, clients: Sequence[int]) -> SimilarityMemory:
    """The memory with these clients' updates of the round in the place of their older ones.

    gram: of the round, with at least these clients in it. Asks the view for the cosines to every other stored update.
    """
    chosen = tuple(sorted(clients))
    if not chosen:
        return memory
    fresh = replace(updates, clients=chosen)
    older = [_without(handle, chosen) for handle in memory.handles]
    older = [handle for handle in older if handle.clients]
    blocks = [view.cosines(fresh, handle) for handle in older]
    ids = tuple(sorted({*memory.clients, *chosen}))
    row = {client: k for k, client in enumerate(ids)}
    cosines, known = np.zeros((len(ids), len(ids))), np.zeros((len(ids), len(ids)), np.bool_)
    kept = [k for k, client in enumerate(memory.clients) if client not in set(chosen)]
    there = [row[memory.clients[k]] for k in kept]
    cosines[np.ix_(there, there)] = memory.cosines[np.ix_(kept, kept)]
    known[np.ix_(there, there)] = memory.known[np.ix_(kept, kept)]
    new = [row[client] for client in chosen]
    inside = [gram.clients.index(client) for client in chosen]
    _write(cosines, known, new, new, cosine_similarity(gram.matrix)[np.ix_(inside, inside)])
    for handle, block in zip(older, blocks, strict=True):
        _write(cosines, known, new, [row[client] for client in handle.clients], block)
    np.fill_diagonal(cosines, 1.0)
    return SimilarityMemory((*older, view.remember(updates, chosen)), ids, cosines, known)


def newest(kept: Sequence[Remembered], view: Recalls, updates: Updates) -> tuple[Remembered, ...]:
    """Handles on the last update of every client, once these updates are the last ones of their clients."""
    older = [_without(handle, updates.clients) for handle in kept]
    return (*(handle for handle in older if handle.clients), view.keep(updates, updates.clients))


def forgotten(memory: SimilarityMemory, clients: Sequence[int]) -> SimilarityMemory:
    """The memory without these clients."""
    gone = set(clients)
    keep = [k for k, client in enumerate(memory.clients) if client not in gone]
    handles = [_without(handle, clients) for handle in memory.handles]
    matrices = memory.cosines[np.ix_(keep, keep)], memory.known[np.ix_(keep, keep)]
    return SimilarityMemory(tuple(h for h in handles if h.clients), tuple(memory.clients[k] for k in keep), *matrices)


def _without(handle: Remembered, clients: Sequence[int]) -> Remembered:
    return replace(handle, clients=tuple(i for i in handle.clients if i not in set(clients)))


def _write(
    cosines: NDArray[np.float64], known: NDArray[np.bool_], rows: list[int], columns: list[int], block: NDArray[np.float64]
) -> None:
    """Enter a block and its mirror image; NaN is of what was not compared."""
    found, there = np.nan_to_num(block), ~np.isnan(block)
    cosines[np.ix_(rows, columns)], cosines[np.ix_(columns, rows)] = found, found.T
    known[np.ix_(rows, columns)], known[np.ix_(columns, rows)] = there, there.T
