"""What clients know of sums without the server: means that they are sent or that their models show, and the weights inside.

Clients pool their models. What one of them started from and what another did later, or ended with, are apart by the mean of the
sum between, whoever of them took part in it; and what all start from in the first round everybody knows.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...protocol.core.link import Frame
from ...protocol.core.session import SECOND_SERVER
from ...protocol.encrypted.protection import Encrypted
from ...protocol.masked.messages import Proposal
from ...protocol.masked.protection import Masked
from ...protocol.masked.weighing import WEIGHED
from ...protocol.two_servers.protection import TwoServer
from ...protocol.view.answers import Vector
from .observer import Observer
from .reading import messages
from .view import CorruptView, Public, PublishedSum

SHOWN = 1e-4
"""Of a difference between two models, relative to it, how much of it may not be a mean that it shows."""
ROUNDED = 1e-6
"""And relative to the model, for rounding to float32."""

Counted = Callable[[PublishedSum], Mapping[int, int]]
"""How many samples each client in a sum says that it has."""


@dataclass(frozen=True, slots=True, eq=False)
class Models:
    """Of all clients, float32 (d,): what they started from, by round and client, and what they ended with."""

    starts: Mapping[tuple[int, int], Vector] = field(repr=False)
    released: Mapping[int, Vector] = field(repr=False)


def shown_sums(
    sums: Sequence[PublishedSum],
    observer: Observer,
    public: Public,
    models: Models,
    counted: Counted,
    frames: Sequence[Frame] = (),
) -> Iterator[PublishedSum]:
    """Those whose mean an observer without the server knows, as far as it knows them; of the second server all.

    Weights inside are known to clients that are told them, and to the second server, which is told them times samples: counts up
    to one factor. Where they are not, all are taken to weigh as much. The sum of the weights is known to who opens the sum, where
    samples do not count, and to clients of masked sums, which are told it before they give. frames: that the observer has.
    """
    second = isinstance(public.protection, TwoServer) and SECOND_SERVER in observer.servers
    shown, totals = _shown_by(observer.clients, public.initial, models), _totals_told(observer, public, frames)
    for s in sums:
        told = s.to in observer.clients or (s.to == "clients" and not observer.clients.isdisjoint(s.row))
        mean = s.mean if told else shown(s)
        if mean is None and not second:
            continue
        asked = not observer.clients.isdisjoint(s.missing.union(s.row))
        weighed = second or (asked and isinstance(public.protection, Masked | Encrypted))
        opened = (told and isinstance(public.protection, Encrypted)) or (s.round, frozenset(s.row)) in totals
        counts = counted(s) if second and s.times_samples else {}
        yield replace(
            s,
            row=s.row if weighed else dict.fromkeys(s.row, 1.0),
            mean=mean,
            weight=s.weight if opened or not s.times_samples else 0.0,
            energy=None,
            counts={i: n / sum(counts.values()) for i, n in counts.items()},
        )


def _totals_told(observer: Observer, public: Public, frames: Sequence[Frame]) -> frozenset[tuple[int, frozenset[int]]]:
    """Of which sums that count samples, by round and clients, the observer's clients were told the sum of the weights."""
    if not isinstance(public.protection, Masked):
        return frozenset()
    asked = (e.message for _, e in messages(CorruptView(observer, public, frames), Proposal))
    return frozenset((m.round, frozenset(m.roster)) for m in asked if m.protocol.startswith(WEIGHED))


def _shown_by(clients: frozenset[int], initial: Vector, models: Models) -> Callable[[PublishedSum], Vector | None]:
    """The mean of a sum, if two models that these clients have show it."""
    digests = dict[int, bytes]()

    def named(model: Vector) -> bytes:
        if id(model) not in digests:  # clients of one cluster have the same array
            digests[id(model)] = hashlib.sha256(model.tobytes()).digest()
        return digests[id(model)]

    of_ours = {key: start for key, start in models.starts.items() if key[1] in clients}
    known = {named(initial), *map(named, of_ours.values())}

    def shown(s: PublishedSum) -> Vector | None:
        after = dict[bytes, Vector]()
        for i in sorted(clients):
            t = min((t for t, j in of_ours if j == i and t > s.round), default=None)
            then = models.released.get(i) if t is None else of_ours[t, i]
            if then is not None:
                after.setdefault(named(then), then)
        starts = (models.starts.get((s.round, i)) for i in sorted(clients.union(s.row)) if after)
        before = {named(start): start for start in starts if start is not None and named(start) in known}
        means = (_between(s, start, then) for start in before.values() for then in after.values())
        return next((mean for mean in means if mean is not None), None)

    return shown


def _between(s: PublishedSum, start: Vector, then: Vector) -> Vector | None:
    """The way from one model to the other, if that is the sum's mean up to a factor: of steps everybody knows the length."""
    if s.mean is None or not len(start) == len(then) == len(s.mean):
        return None
    moved, mean = then.astype(np.float64) - start, s.mean.astype(np.float64)
    factor = float(moved @ mean) / (float(mean @ mean) or 1.0)
    allowed = SHOWN * np.linalg.norm(moved) + ROUNDED * np.linalg.norm(start)
    if factor <= 0 or np.linalg.norm(moved - factor * mean) > allowed:
        return None
    return np.asarray(moved / factor, np.float32)
