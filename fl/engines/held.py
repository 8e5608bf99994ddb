"""Whose data are where: examples by number, of each client those that its jobs had last."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..clients.training import Job
from ..data.population import Examples


@dataclass(slots=True)
class Held:
    """Numbers of examples, by identity: a client keeps its examples from round to round, and what is altered is made anew."""

    _of: dict[int, tuple[int, Examples, list[Any]]] = field(default_factory=dict)
    _next: int = 0

    def number(self, job: Job) -> int:
        """The number of a job's examples. Those that its client had before are forgotten if they are others."""
        known = self._of.get(job.client)
        if known is None or known[1] is not job.examples:
            self._next += 1
            self._of[job.client] = known = self._next, job.examples, []
        return known[0]

    def sent(self, client: int) -> list[Any]:
        """What stands for the client's examples where they are; empty until somebody fills it."""
        return self._of[client][2]

    def current(self) -> set[int]:
        """All numbers that are of account."""
        return {number for number, _, _ in self._of.values()}


@dataclass(slots=True)
class Parcel:
    """What a worker is sent of data. numbers: of each job. fresh: jobs whose examples it lacks, by number; stale: to forget."""

    numbers: list[int]
    fresh: dict[int, Job]
    stale: list[int]


def parcel(held: Held, there: set[int], jobs: Sequence[Job]) -> Parcel:
    """What jobs take along to a worker that has the examples `there`, which are then those that it has."""
    numbers, fresh = [], dict[int, Job]()
    for job in jobs:
        number = held.number(job)
        numbers.append(number)
        if number not in there:
            fresh[number] = job
    stale = sorted(there - held.current() - set(numbers))
    there.difference_update(stale)
    there.update(fresh)
    return Parcel(numbers, fresh, stale)
