"""The harness's side of an account: it watches what clients compute, in bounded memory. No party of a protocol does this.

An update is kept while something may still be told about it: it was sketched, or it is its client's latest. All of it up to
`EXACT_WIDTH` coordinates, else a public Hadamard sketch of `SKETCHED_WIDTH`. Whatever is kept beyond a round stays below a limit:
when it would not, `SAMPLED` clients go on being watched in the place of all; and if that is not enough, nothing new is kept.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...crypto.hadamard import Hadamard
from ...protocol.view.account import Opened, Sketched
from ...protocol.view.answers import COMPUTED, Vector
from ...protocol.view.work import LocalJob, LocalWork, Unwilling, Workers
from .account import Account, Block, Instance, Made, block_of

EXACT_WIDTH, SKETCHED_WIDTH = 8192, 4096
LIMIT = 64 * 2**20
"""Bytes that are kept beyond a round."""
SAMPLED = 8
DRIFTING = 16
"""Clients whose deviations are compared between rounds, at most."""
RHO = 0.65
"""What the correlation of deviations between rounds is taken to be where no client was seen twice."""
_PUBLIC = hashlib.sha256(b"cloister/v1/meters").digest()


class Watch:
    """Stands before the clients' computers. limit: bytes. on: whether anything is kept. here: whether these computers are; if
    they are not, what the server itself knows is kept, and no update. alike: whether a sum's weights are then those of clients
    with the same number of records, as nobody here knows how many each has; hidden: whether sums of slots were left out.
    """

    def __init__(self, workers: Workers, d: int, clients: Sequence[int], limit: int = LIMIT) -> None:
        self.on = self.here = True
        self.alike = self.hidden = False
        self.opened: list[Opened] = []
        self.sketched: list[Sketched] = []
        self.watched = tuple(sorted(clients))
        self.d = d
        self.width = d if d <= EXACT_WIDTH else SKETCHED_WIDTH
        self.workers = workers
        self.clients = self.watched
        self._limit = limit
        self._now: dict[Instance, tuple[Vector, int]] = {}
        self._shares: dict[tuple[int, int], tuple[int, ...]] = {}  # of the round, by round and client, in slots
        self._blocks: dict[Made, Block] = {}
        order = np.random.default_rng(0).permutation(len(self.watched))
        self._order = tuple(self.watched[k] for k in order)
        self._drift: dict[int, tuple[NDArray[np.float32], int]] = {}

    @cached_property
    def _sketch(self) -> Hadamard | None:
        return Hadamard.draw(_PUBLIC, self.d, self.width) if self.width < self.d else None

    def __call__(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork | Unwilling]]:
        kinds = {job.client: (job.round, job.work) for job in jobs}
        for client, work in self.workers(jobs):
            if isinstance(work, Unwilling):
                yield client, work
                continue
            made = kinds.get(client)
            if self.on and made is not None and made[1] in COMPUTED and np.isfinite(work.vector).all():
                vector = work.vector if self._sketch is None else self._sketch.apply(work.vector).astype(np.float32)
                self._now[*made, client] = vector, work.samples
            if self.on and made is not None and made[1] == "slots":
                self._shares[made[0], client] = work.shares
            yield client, work

    @property
    def account(self) -> Account:
        others = len(self.watched) < len(self.clients)
        blocks = dict(sorted(self._blocks.items()))
        return Account(self.d, self.width, self.watched, others, blocks, self.sketched, self.opened)

    @property
    def rho(self) -> float | None:
        """Mean cosine of a client's deviations in two rounds, .01 to .99; None where no client was seen twice."""
        drifts = [(float(np.square(v, dtype=np.float64).sum()), n) for _, (v, n) in sorted(self._drift.items()) if n > 1]
        found = [(squared - n) / (n * (n - 1)) for squared, n in drifts]
        return float(np.clip(np.mean(found), 0.01, 0.99)) if found else None

    def close(self, sketched: Sequence[Sketched], opened: Sequence[Opened]) -> tuple[list[Sketched], list[Opened]]:
        """Take a round's record in, and forget the round's updates. Returns the record, with true weights in place of samples."""
        if not self.on:
            return [], []
        if not self.here:
            known = [replace(entry, times_samples=False) for entry in opened if entry.slot is None]
            self.alike |= any(entry.times_samples for entry in opened)
            self.hidden |= len(known) < len(opened)
            self.sketched += sketched
            self.opened += known
            return list(sketched), known
        true = [self._weighed(entry) for entry in opened]
        self.sketched += sketched
        self.opened += true
        for made in dict.fromkeys(i[:2] for i in self._now):
            updates = {i: vector for (*of, i), (vector, _) in self._now.items() if tuple(of) == made}
            sums = [e for e in true if (e.round, e.kind) == made and e.row.keys() <= updates.keys()]
            block = block_of([e.row for e in sums if e.to == "server"], updates, self.width)
            shared = [e.row for e in sums if not isinstance(e.to, int)]
            if made[1] == "update":
                self._compare(block if any(e.to == "server" for e in sums) else block_of(shared, updates, self.width))
            self._blocks[made] = block
        self._now.clear()
        self._shares.clear()
        self._prune()
        return list(sketched), true

    def _weighed(self, entry: Opened) -> Opened:
        if (k := entry.slot) is not None:
            shares = {i: self._shares[entry.round, i] for i in entry.row if (entry.round, i) in self._shares}
            return replace(entry, row={i: float(of[k]) for i, of in shares.items() if k < len(of) and of[k]}, slot=None)
        if not entry.times_samples:
            return entry
        row = {i: a * self._now[entry.round, entry.kind, i][1] for i, a in entry.row.items()}
        return replace(entry, row=row, times_samples=False)

    def _compare(self, block: Block) -> None:
        for client in (i for i in self._order[:DRIFTING] if block.smallest(i) is not None):
            delta = block.deviation(client)
            if delta is not None and (size := np.linalg.norm(delta)) > 0:
                before, count = self._drift.get(client, (np.zeros(self.width, np.float32), 0))
                self._drift[client] = before + (delta / size).astype(np.float32), count + 1

    def _prune(self) -> None:
        """Forget what nothing can be told about any more, and keep below the limit."""
        touched = {(t, e.kind, i) for e in self.sketched for t, i in zip(e.made, e.clients, strict=True)}
        latest: dict[tuple[str, int], Made] = {}
        for made, block in sorted(self._blocks.items()):
            latest |= {(made[1], i): made for i in block.updates}
        there = {i for made, block in self._blocks.items() for i in _instances(made, block)}
        self._keep(there & touched | {(*made, i) for (_, i), made in latest.items()})
        if self._bytes > self._limit and len(self.watched) > SAMPLED:
            self.watched = tuple(sorted(self._order[:SAMPLED]))
            self._keep({i for made, block in self._blocks.items() for i in _instances(made, block)})
        while self._bytes > self._limit:
            del self._blocks[max(self._blocks)]

    def _keep(self, instances: set[Instance]) -> None:
        kept = {}
        for made, block in self._blocks.items():
            updates = {i: v for i, v in block.updates.items() if (*made, i) in instances and i in self.watched}
            if any((*made, i) in instances for i in (*block.clients, *block.updates)):
                kept[made] = replace(block, updates=updates) if len(updates) < len(block.updates) else block
        self._blocks = kept

    @property
    def _bytes(self) -> int:
        return sum(b.sums.nbytes + b.rows.nbytes + sum(v.nbytes for v in b.updates.values()) for b in self._blocks.values())

    def save(self) -> dict[str, NDArray[Any]]:
        """The vectors, by name; the record is kept apart."""
        found: dict[str, NDArray[Any]] = {"watched": np.array(self.watched, np.int64)}
        if not self.here:
            return found | {"guessed": np.array([self.alike, self.hidden])}
        for (t, kind), block in self._blocks.items():
            arrays: dict[str, NDArray[Any]] = {"rows": block.rows, "sums": block.sums}
            arrays |= {"clients": np.array(block.clients, np.int64), "of": np.array(list(block.updates), np.int64)}
            arrays |= {"updates": np.array(list(block.updates.values()), np.float32).reshape(-1, self.width)}
            found |= {f"{t} {kind} {name}": np.ascontiguousarray(array) for name, array in arrays.items()}
        return found | {f"drift {i} {count}": vector for i, (vector, count) in self._drift.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], sketched: Sequence[Sketched], opened: Sequence[Opened]) -> None:
        """Continue from what was saved, and from the record until then."""
        self.sketched, self.opened, self._blocks, self._drift = list(sketched), list(opened), {}, {}
        self.alike, self.hidden = arrays.get("guessed", np.array([False, False])).tolist()
        self.watched = tuple(arrays["watched"].tolist()) if "watched" in arrays else self.watched
        for name in (name for name in arrays if name.endswith(" rows")):
            t, kind, _ = name.split()
            rows, sums, clients, of, updates = (
                arrays[f"{t} {kind} {what}"] for what in ("rows", "sums", "clients", "of", "updates")
            )
            block = Block(tuple(clients.tolist()), rows, sums, dict(zip(of.tolist(), updates, strict=True)))
            self._blocks[int(t), next(work for work in COMPUTED if work == kind)] = block
        for name in (name for name in arrays if name.startswith("drift ")):
            _, client, count = name.split()
            self._drift[int(client)] = arrays[name], int(count)


def _instances(made: Made, block: Block) -> set[Instance]:
    return {(*made, i) for i in (*block.clients, *block.updates)}
