"""Whether the sums that were published in a run keep the floor of its scenario, whatever the code that published them thinks.

Attacks are measured from what published sums alone tell, so a sum of too few clients is part of what they may find. It is held
against the floor here: of all sums of one round and kind of work, by what their rows span (cards/masked_sum.md).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...protocol.encrypted.protection import Encrypted
from ...protocol.masked.protection import Masked
from ...protocol.two_servers.protection import TwoServer
from .experiment import Anchor, Budget, Evidence, Examined, Finding
from .observer import SERVER_ALONE
from .truth import Truth
from .view import PublishedSum

CLOSE = 1e-3
"""Of a leverage: weights that count samples are rounded before they are held against the floor."""
NONE = 1e-9
"""Of the largest singular value, those that are as small are rounding."""


NAMED = 3
"""Rounds that are named of those whose sums tell too much; the rest are counted."""


@dataclass(frozen=True, slots=True)
class FloorKept:
    """1 where sums of one round and kind of work tell more of a client than the scenario's floor allows: an exact test of rows.

    Not looked at are sums that a single client opens, and sums into slots: a run that publishes no other is not covered.
    """

    name: str = "floor"
    unit: str = "1 if published sums tell more of a client than the floor allows"
    side: str = "none; who is in which sum with what weight is public, sample counts are the scorer's"
    source: str = "protocol/specs/masked_sum.md"
    anchor: Anchor = "chance"

    def applies(self, evidence: Evidence, /) -> str:
        if not isinstance(evidence.view.public.protection, Masked | TwoServer | Encrypted):
            return "no floor is kept from who publishes sums: it has the updates"
        return "" if evidence.view.observer == SERVER_ALONE else "sums are looked at once, as the server alone has their rows"

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view, how = evidence.view, evidence.view.public.protection
        told = [*below_floor(view.sums, truth, how.floor, how.corrupt)]
        more = f"; and {len(told) - NAMED} more" if len(told) > NAMED else ""
        looked = [s for s in view.sums if not isinstance(s.to, int)]
        words = f"{len(looked)} published sums of {len({s.round for s in looked})} rounds"
        missed = "" if looked else "no sum was published that more than one client or a server opens"
        return Finding((), np.zeros(0), examined=Examined("; ".join(told[:NAMED]) + more, words, missed))


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
