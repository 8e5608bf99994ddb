"""Whether the sums that were published in a run keep the floor of its scenario, whatever the code that published them thinks.

Attacks are measured from what published sums alone tell, so a sum of too few clients is part of what they may find. It is held
against the floor here: of all sums of one round and kind of work, by what their rows span (cards/masked_sum.md), as they were
answered and as frames say that they were opened; and the mean of each against the updates of its row, as one that is of others
would tell more than its row says.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...protocol.encrypted.protection import Encrypted
from ...protocol.encrypted.scaling import VALUE_ERROR
from ...protocol.masked.protection import Masked
from ...protocol.two_servers.protection import TwoServer
from .experiment import Anchor, Budget, Evidence, Examined, Finding
from .observer import SERVER_ALONE
from .opened_rows import opened_rows
from .truth import Truth
from .unread import unread
from .view import PublishedSum

CLOSE = 1e-3
"""Of a leverage: weights that count samples are rounded before they are held against the floor."""
NONE = 1e-9
"""Of the largest singular value, those that are as small are rounding."""


ALIKE = 1e-3
"""Of the largest of a sum's updates, by how much its mean may be another, beside rounding: a float32 of weights, a CKKS error."""
NAMED = 3
"""Rounds that are named of those whose sums tell too much; the rest are counted."""


@dataclass(frozen=True, slots=True)
class FloorKept:
    """1 where sums of one round and kind of work tell more of a client than the scenario's floor allows, or are not of the
    updates that their rows say: exact tests of rows and means. Not held against updates are means with noise, and of clients that
    go on from models of their own.

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
        opened, looked = [*opened_rows(view)], [s for s in view.sums if not isinstance(s.to, int)]
        told = [w for sums in (view.sums, opened) for w in below_floor(sums, truth, how.floor, how.corrupt)]
        if not (unheld := "they have noise" if getattr(how, "noise", None) is not None else unread(evidence)):
            told += other_sums(evidence.sums.sums, truth, how)
        told = [*dict.fromkeys(told)]
        more = f"; and {len(told) - NAMED} more" if len(told) > NAMED else ""
        words = f"{len(looked)} published sums of {len({s.round for s in looked})} rounds"
        words += f"; their means were not held against updates: {unheld}" * bool(unheld)
        missed = "" if looked else "no sum was published that more than one client or a server opens"
        nothing = not (looked or opened or told)
        return Finding((), np.zeros(0), examined=Examined("; ".join(told[:NAMED]) + more, words, missed, nothing))


def other_sums(sums: Sequence[PublishedSum], truth: Truth, how: Masked | TwoServer | Encrypted) -> Iterator[str]:
    """Means that are not of their clients' updates with their weights, in words."""
    for s in sums:
        updates = [truth.updates.get((s.round, s.kind, i)) for i in s.row]
        if s.mean is None or any(x is None or len(x) != len(s.mean) for x in updates):
            continue
        sizes = [truth.samples(s.round, s.kind, i) if s.times_samples else 1 for i in s.row]
        weights, x = np.array([*s.row.values()], np.float64) * sizes, np.stack(updates).astype(np.float64)  # type: ignore[arg-type]
        if not (total := float(weights.sum())):
            continue
        off, largest = s.mean - weights @ x / total, float(np.linalg.norm(x, axis=1).max())
        spread = float(np.abs(weights).sum()) / abs(total)
        if float(np.linalg.norm(off)) > spread * (ALIKE * largest) + _rounding(how, s, total, len(s.mean)):
            share = float(np.linalg.norm(off)) / max(largest, 1e-300)
            which = f"the sum of {s.kind}s {s.cluster} of round {s.round}"
            yield f"{which} is off by {share:.2f} of the largest of its {len(x)} updates"


def _rounding(how: Masked | TwoServer | Encrypted, s: PublishedSum, total: float, d: int) -> float:
    """Bound on the norm of a mean's error by fixed point, in about."""
    n, largest = len(s.row), max(abs(a) for a in s.row.values())
    if isinstance(how, TwoServer):
        return 2 * how.terms(d).rounding
    if isinstance(how, Encrypted):
        return float(np.sqrt(d)) * n * largest / abs(total) * VALUE_ERROR
    counted = how.max_samples if s.times_samples else 1
    return float(np.sqrt(d) * 4 * how.clip * n**2 / 2.0**how.ring_bits * largest * counted / abs(total))


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
    sizes = {i: truth.samples(of[0].round, of[0].kind, i) for i in clients}
    rows = np.array([[s.row.get(i, 0.0) * (sizes[i] if s.times_samples else 1) for i in clients] for s in of], np.float64)
    rows /= np.abs(rows).max(axis=1, keepdims=True)
    _, values, basis = np.linalg.svd(rows, full_matrices=False)
    found: np.ndarray[tuple[int], np.dtype[np.float64]] = np.square(basis[values > NONE * values[0]]).sum(axis=0)
    return found
