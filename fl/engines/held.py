"""Whose data are where: examples by number, of each client those that its jobs had last."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..clients.training import Job
from ..data.population import Examples


@dataclass(frozen=True, slots=True, eq=False)
class NumberedExamples:
    """A client's examples. sent: what stands for them on the way, of whoever sends them; empty until they were sent once."""

    number: int
    examples: Examples
    sent: list[Any] = field(default_factory=list, repr=False)


@dataclass(slots=True)
class ExampleCache:
    """Examples by identity: a client keeps its own from round to round, and what is altered is made anew."""

    _of: dict[int, NumberedExamples] = field(default_factory=dict)
    _next: int = 0

    def numbered(self, job: Job) -> NumberedExamples:
        """A job's examples. Those that its client had before are forgotten if they are others."""
        known = self._of.get(job.client)
        if known is None or known.examples is not job.examples:
            self._next += 1
            self._of[job.client] = known = NumberedExamples(self._next, job.examples)
        return known

    def current(self) -> set[int]:
        """All numbers that are of account."""
        return {known.number for known in self._of.values()}


@dataclass(frozen=True, slots=True)
class Parcel:
    """What a worker is sent of data. numbers: of each job. fresh: what it lacks; stale: numbers that it may forget."""

    numbers: list[int]
    fresh: list[NumberedExamples]
    stale: list[int]


def parcel(held: ExampleCache, there: set[int], jobs: Sequence[Job]) -> Parcel:
    """What jobs take along to a worker that has the examples `there`, which then are those that it has."""
    of = [held.numbered(job) for job in jobs]
    fresh = {one.number: one for one in of if one.number not in there}
    stale = sorted(there - held.current() - {one.number for one in of})
    there.difference_update(stale)
    there.update(fresh)
    return Parcel([one.number for one in of], list(fresh.values()), stale)
