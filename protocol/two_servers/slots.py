"""Sums into K slots with the choice hidden, of two servers: counts first, then sums of the slots that enough clients chose.

Both steps are uploads of shares (specs/two_servers.md): K zeros and ones, then K rows of a weighted vector, its weight and a one,
zeros in every slot that is shut or was not chosen. Neither server tells them apart; the first learns the opened totals.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..answers import Assignment, BelowFloor, Sum
from ..errors import Refused
from ..in_process import Fault
from ..messages import Task
from ..roles import Party, Worked
from ..session import SECOND_SERVER, SERVER, Session
from ..slot_work import check, misfit
from ..uploads import to_bytes
from ..view import LocalWork
from ..view_base import BETWEEN, Clients, ViewBase, unused
from .asking import Unanswered
from .run import collect, max_bytes, sums
from .terms import PROTOCOL, Integers, Terms
from .upload import Collected

COUNTS, SUMS = "slot counts", "slot sums"
"""Kinds of work, one for each step."""


@dataclass(frozen=True, slots=True)
class SharedSlots:
    """K slots of d coordinates. most: the largest share of a client in a slot. max_norm: of each vector that is put in one.

    Raises ValueError, which says what to change, where no fixed point holds the weights exactly.
    """

    count: int
    d: int
    most: int
    max_norm: float
    floor: int

    def __post_init__(self) -> None:
        if self.counting.bits < 16 or self.summing.bits < self._headroom:
            raise ValueError(f"{self.count} slots with shares up to {self.most} leave no room for a fixed point; ask for fewer")

    @property
    def _headroom(self) -> int:
        """Binary logarithm of how much larger a row of K weighted vectors may be than one vector."""
        return math.ceil(math.log2(math.sqrt(3 * self.count) * self.most))

    @property
    def counting(self) -> Terms:
        return self._terms(self.count, 16.0)

    @property
    def summing(self) -> Terms:
        return self._terms(self.count * (self.d + 2), math.ldexp(self.max_norm, self._headroom))

    def _terms(self, length: int, max_norm: float) -> Terms:
        return Terms(length, max(length + length % 2, 2), max_norm, self.floor)

    @property
    def error(self) -> float:
        """Bound on the norm of the error of a mean: every addend's rounding, whose weight is at least 1."""
        return self.summing.step * math.sqrt(self.d) / 2 * (1 + 2.0**-40)

    def beyond(self, work: LocalWork) -> str | None:
        """Why this work does not fit into shares, or None."""
        norms = np.linalg.norm(work.vector.astype(np.float64), axis=1)
        return None if float(norms.max()) <= self.max_norm else f"the norm of a vector exceeds max_norm={self.max_norm}"

    def ones(self, work: LocalWork) -> NDArray[np.float64]:
        """What is shared first: 1 in the slots that were chosen."""
        return np.array([1.0 if share else 0.0 for share in work.shares])

    def rows(self, work: LocalWork, opened: frozenset[int]) -> NDArray[np.float64]:
        """What is shared next, float64 (K (d + 2),): per slot w x, then w and 1 times max_norm; zeros where not both."""
        found = np.zeros((self.count, self.d + 2))
        for k in (k for k, share in enumerate(work.shares) if share and k in opened):
            found[k] = [*(work.shares[k] * work.vector[k].astype(np.float64)), work.shares[k] * self.max_norm, self.max_norm]
        return found.ravel()

    def counts(self, total: Integers, clients: int) -> tuple[int, ...]:
        """How many chose each slot. Raises ValueError for what no sum of counts can be."""
        one = 1 << self.counting.bits - 4
        if (total % one).any() or (total < 0).any() or (total > clients * one).any():
            raise ValueError(f"{clients} clients cannot have counted themselves so: one of them did not follow")
        return tuple((total // one).tolist())

    def slot(self, total: Integers, k: int, clients: int) -> tuple[NDArray[np.float64], int, int]:
        """The weighted sum, float64 (d,), of slot k, its weight and how many chose it. Raises ValueError for what cannot be."""
        row, terms = total.reshape(self.count, self.d + 2)[k], self.summing
        one = 1 << terms.bits - self._headroom
        weight, chose = int(row[-2]) // one, int(row[-1]) // one
        if (row[-2:] % one).any() or not 0 <= chose <= clients or not chose <= weight <= chose * self.most:
            raise ValueError(f"slot {k} has a weight that no {clients} clients can have given it")
        vector = terms.decode(row[:-2], 1.0)
        if float(np.linalg.norm(vector)) > (weight * self.max_norm + chose * self.error) * (1 + 1e-9):
            raise ValueError(f"the sum of slot {k} is out of range: some client's share is not of an update")
        return vector, weight, chose


class TwoServerSlots(ViewBase):
    """Answers sums into slots. `TwoServerView` has what is declared here."""

    _terms: Terms

    @property
    def _parties(self) -> dict[int, Party]:
        raise NotImplementedError

    def _next_question(self) -> int:
        raise NotImplementedError

    def slots(self, round: int, name: str, work: Assignment, most: int = 1, /) -> Sequence[Sum | BelowFloor]:
        """The first server learns the counts of all slots and the sums of open ones; the second who sent, of neither.

        A slot stays shut, and nothing of it is sent, unless `floor` clients were counted in it. One that clients are lost from
        until the sums, so that fewer are left, is not answered; but the first server has read its sum. The floor of a slot is
        its word: the second server sees to the floor of a session.
        """
        count, d = check(work, most), len(self._setup.initial)
        try:
            how = SharedSlots(count, d, most, self._terms.max_norm, self._terms.floor)
        except ValueError as error:
            raise Refused(f"slots of {name}: {error}") from None
        labels = [f"{name}/{k}@{round}" for k in range(count)]
        for party in (p for i, p in self._parties.items() if i >= 0 or i == SECOND_SERVER):  # as all parties agreed beforehand
            party.state = replace(party.state, others={COUNTS: how.counting, SUMS: how.summing})
        self._network.allow(max_bytes(how.summing, 0))
        try:
            counted, results = self._count(round, name, work, how)
            return self._sum_slots(round, name, labels, counted, results, how)
        except ValueError as error:
            self._network.faults.append(Fault(SERVER, f"slots of {name}@{round}: {error}"))
            return tuple(self._unsummed(label, ()) for label in labels)

    def _count(
        self, round: int, name: str, work: Assignment, how: SharedSlots
    ) -> tuple[tuple[Clients, tuple[int, ...]], dict[int, LocalWork]]:
        """The first step: who was counted, how often each slot was chosen, and what clients hold. Raises ValueError."""
        results: dict[int, LocalWork] = {}

        def perform(tasks: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
            for client, result in self._worked(tasks, "slots"):
                with self._network.timed(client):
                    reason = misfit(result, how.count, how.d, how.most) or how.beyond(result)
                if reason is not None:
                    self._reject([client], reason)
                    continue
                results[client] = result
                yield client, Worked(how.ones(result), 1)

        models = [self._model(model) for model in work.models]
        session = Session(f"{PROTOCOL}/{COUNTS}", self._setup.run, round, name, work.participants, 1)
        task = (session, COUNTS, BETWEEN.join(m.name for m in work.models), b"".join(map(to_bytes, models)))
        (collected,) = collect(self._network, self._parties, how.counting, [task], perform)
        words = f"how many clients chose each of {how.count} slots, of small ones too, and nothing of who did"
        total = self._opened(round, collected, how.counting, words)
        clients = tuple(sorted(collected.received))
        with self._network.timed(SERVER):
            return (clients, how.counts(total, len(clients))), results

    def _sum_slots(
        self,
        round: int,
        name: str,
        labels: Sequence[str],
        counted: tuple[Clients, tuple[int, ...]],
        results: Mapping[int, LocalWork],
        how: SharedSlots,
    ) -> Sequence[Sum | BelowFloor]:
        """The second step, among the clients that were counted. Raises ValueError where there are no sums."""
        roster, counts = counted
        opened = frozenset(k for k, n in enumerate(counts) if n >= self._floor)
        if not opened:
            raise ValueError(f"no slot was chosen by {self._floor} clients: {list(counts)}")

        def perform(tasks: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
            for client, task in tasks:
                with self._network.timed(client):
                    told = int(task.cluster.rpartition(" ")[2], 16)
                    rows = how.rows(results[client], frozenset(k for k in range(how.count) if told >> k & 1))
                yield client, Worked(rows, 1)

        bits = sum(1 << k for k in opened)  # in the session's name: clients that are told other slots are in another session
        session = Session(f"{PROTOCOL}/{SUMS}", self._setup.run, round, f"{name} {bits:x}", roster, 1)
        (collected,) = collect(self._network, self._parties, how.summing, [(session, SUMS, "held", b"")], perform)
        words = "of each open slot the sum, the weight and how many clients chose it, be they few by now, and nothing of who did"
        total = self._opened(round, collected, how.summing, words, len(opened) * (how.d + 2))
        clients = tuple(sorted(collected.received))
        with self._network.timed(SERVER):
            rows = total.reshape(how.count, how.d + 2)
            if any(rows[k].any() for k in range(how.count) if k not in opened):
                raise ValueError("a slot that was not opened holds a sum: a client's shares were not of a proper encoding")
            found = {k: how.slot(total, k, len(clients)) for k in opened}
        answered: list[Sum | BelowFloor] = []
        for k, label in enumerate(labels):
            if k not in found or found[k][2] < self._floor:
                answered.append(self._unsummed(label, ()))
                continue
            vector, weight, _ = found[k]
            mean_name = unused(label, self._means)
            self._means[mean_name] = (vector / weight).astype(np.float32)
            self._disclose(round, "clients", "slots", clients, how.d, "the mean update of a slot")
            norm = float(np.linalg.norm(vector)) / weight
            answered.append(Sum(mean_name, "server", clients, float(weight), 0.0, norm, how.error))
        return answered

    def _opened(self, round: int, collected: Collected, terms: Terms, words: str, scalars: int | None = None) -> Integers:
        """The total of an upload's vectors, int64 (length,), opened to the first server. Raises ValueError if there is none."""
        clients = tuple(sorted(collected.received))
        words_of_second = "who sent, of whom the total was asked, and nothing of what they chose or computed"
        self._disclose(round, "second server", "slots", clients, 0, words_of_second)
        if collected.alone:
            self._network.faults.append(Fault(SECOND_SERVER, "it did not say whose keys of the slots it holds"))
        if len(clients) < max(self._floor, 2):
            raise ValueError(f"{len(clients)} clients sent where {max(self._floor, 2)} are the fewest")
        weights = [(i, 1, collected.received[i][0]) for i in clients]
        source, run = collected.session.digest, self._setup.run
        ended = sums(self._network, self._parties, terms, run, self._next_question(), source, weights)
        if isinstance(ended, Unanswered):
            self._network.faults.append(Fault(ended.waited_for, "the totals of slots were not answered"))
            raise ValueError("the totals were not answered")
        self._disclose(round, "server", "slots", clients, terms.length if scalars is None else scalars, words)
        return ended.total
