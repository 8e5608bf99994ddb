"""Sessions as the harness sees them: who works from the same model, who of them is a member, and what members saw before."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..protocol.view.answers import Vector
from ..protocol.view.work import LocalJob, LocalWork
from .knowledge import Own
from .membership import Members


@dataclass(slots=True, eq=False)
class Sitting:
    """One session of a round as the harness sees it: the jobs that start from one model. It ends with the round."""

    roster: tuple[int, ...]
    members: frozenset[int]
    previous: Vector | None
    own: dict[int, Own] = field(default_factory=dict)
    honest: dict[int, LocalWork] = field(default_factory=dict)


class Sittings:
    """The sessions of each round. lately: models that members opened in this round, if attacks look back."""

    def __init__(self, members: Members, clients: tuple[int, ...], seed: int, looks_back: bool) -> None:
        self._members, self._clients, self._seed, self._looks_back = members, clients, seed, looks_back
        self._round: int | None = None
        self._earlier: list[Vector] = []  # models that members opened in the latest round before this one
        self.lately: list[Vector] = []

    def restore(self, lately: list[Vector]) -> None:
        """What members opened in the latest round."""
        self.lately, self._earlier, self._round = lately, [], None

    def of(self, jobs: Sequence[LocalJob]) -> dict[int, Sitting]:
        """The session of every client: jobs that start from the same model belong to one."""
        round, seed = jobs[0].round, self._seed
        if self._looks_back and round != self._round:
            self._round, self._earlier, self.lately = round, self.lately or self._earlier, []
        digests = {id(job.start): b"" for job in jobs}
        starts: dict[bytes, Vector] = {}
        clients: dict[bytes, list[int]] = {}
        for job in jobs:
            digest = digests[id(job.start)] or hashlib.blake2b(np.ascontiguousarray(job.start).data).digest()
            digests[id(job.start)] = digest
            starts.setdefault(digest, job.start)
            clients.setdefault(digest, []).append(job.client)
        found: dict[int, Sitting] = {}
        for digest, start in starts.items():
            roster = tuple(sorted(clients[digest]))
            members = self._members.among(self._clients, roster, round, seed)
            sitting = Sitting(roster, members, self._nearest(start))
            if self._looks_back and members and not any(np.array_equal(start, other) for other in self.lately):
                self.lately.append(start)
            found |= dict.fromkeys(roster, sitting)
        return found

    def _nearest(self, start: Vector) -> Vector | None:
        """Of the models that members opened in an earlier round, the one that this one most likely came from."""
        return min(self._earlier, key=lambda earlier: float(np.linalg.norm(start - earlier)), default=None)
