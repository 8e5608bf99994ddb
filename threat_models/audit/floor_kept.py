"""Whether the sums that were published in a run keep the floor of its scenario, whatever the code that published them thinks.

Attacks are measured from what published sums alone tell, so a sum of too few clients is part of what they may find. It is held
against the floor here: of all sums of one round and kind of work, by what their rows span (cards/masked_sum.md).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from .truth import Truth
from .view import PublishedSum

CLOSE = 1e-3
"""Of a leverage: weights that count samples are rounded before they are held against the floor."""
NONE = 1e-9
"""Of the largest singular value, those that are as small are rounding."""


def below_floor(sums: Sequence[PublishedSum], truth: Truth, floor: int, corrupt: int) -> Iterator[str]:
    """What is told too much, in words. floor: fewest honest clients that a sum rests on, and none outweighs the others;
    corrupt: others that may be in it.

    Sums that a single client opened, and rows of sums into slots, of which nobody knows who is in which, are left out.
    """
    if floor <= 1:
        return
    rounds = defaultdict[tuple[int, str], list[PublishedSum]](list)
    for s in sums:
        if not isinstance(s.to, int) and any(s.row.values()):
            rounds[s.round, s.kind].append(s)
    most = 1 / (floor + corrupt)
    for (t, kind), of in sorted(rounds.items()):
        clients = sorted({i for s in of for i, a in s.row.items() if a})
        largest, client = max((float(one), i) for one, i in zip(_leverages(of, truth, clients), clients, strict=True))
        if largest > most + CLOSE:
            told = f"client {client} has {largest:.2f} of what the {len(of)} sums of {kind}s of round {t} tell of it"
            yield f"{told}, where {most:.2f} keeps the floor of {floor}" + (f" with {corrupt} corrupt" if corrupt else "")


def _leverages(of: Sequence[PublishedSum], truth: Truth, clients: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Of each of these clients, how much of it is in what the rows span: 1 for one whose vector they tell."""
    sizes = {i: len(truth.population.clients[i].train) for i in clients}
    rows = np.array([[s.row.get(i, 0.0) * (sizes[i] if s.times_samples else 1) for i in clients] for s in of], np.float64)
    rows /= np.abs(rows).max(axis=1, keepdims=True)
    _, values, basis = np.linalg.svd(rows, full_matrices=False)
    found: np.ndarray[tuple[int], np.dtype[np.float64]] = np.square(basis[values > NONE * values[0]]).sum(axis=0)
    return found
