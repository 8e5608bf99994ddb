"""A witness in the adversary's place: it passes everything on and counts, for whoever measures a simulation."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fl.clients.corruption import Computers, Corrupted, Corruption, embedders_of
from ..protocol.pairs.question import Embedders
from ..protocol.view.answers import Vector
from ..protocol.view.work import LocalJob, LocalOffer, LocalWork, Unwilling


@dataclass(slots=True, eq=False)
class Seen:
    """Of one round. clients: who answered; members: those of them who are corrupt in this round, the others being loyal in it.
    unanswered: corrupt ones who were asked, whether they answered elsewhere or not.

    total: float64 (d,), the sum of the loyal clients' updates, of which there are `count`; squares: the sum of their square
    norms. seconds: of CPU that all clients' work took, the adversary's included.
    """

    clients: set[int] = field(default_factory=set)
    members: set[int] = field(default_factory=set)
    unanswered: set[int] = field(default_factory=set)
    count: int = 0
    total: NDArray[np.float64] | None = None
    squares: float = 0.0
    seconds: float = 0.0

    @property
    def silent(self) -> frozenset[int]:
        """Corrupt clients who were asked and did not answer."""
        return frozenset(self.unanswered - self.clients)

    def add(self, update: Vector) -> None:
        wide = update.astype(np.float64)
        self.squares += float(wide @ wide)
        self.total = wide if self.total is None else self.total + wide
        self.count += 1

    def kappa(self, result: NDArray[np.float64]) -> float | None:
        """|R - mu_H|^2 / (1 / |H| sum |x_i - mu_H|^2) (Allouah et al. 2023); None where no or no finite update was seen.

        The spread is the mean square norm less the square of the mean's, so nothing but two vectors is kept.
        """
        if self.total is None or not np.isfinite(self.squares):
            return None
        mean = self.total / self.count
        spread = self.squares / self.count - float(mean @ mean)
        moved = float(np.sum((result - mean) ** 2))
        if spread <= 1e-12 * self.squares / self.count:
            return 0.0 if moved <= spread else float("inf")
        return moved / spread


@dataclass(frozen=True, slots=True)
class Witness:
    """An adversary, or None for nobody, watched. `seen` is renewed by `begin`."""

    adversary: Corruption | None
    seen: list[Seen] = field(default_factory=lambda: [Seen()], compare=False)

    def begin(self) -> None:
        """A new round."""
        self.seen[0] = Seen()

    def corrupt(self, computers: Computers, /) -> "Watched":
        corrupted: Corrupted = Nobody(computers) if self.adversary is None else self.adversary.corrupt(computers)
        return Watched(corrupted, self.seen)


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """The clients' computers, watched. Implements `fl.corruption.Corrupted`."""

    corrupted: Corrupted
    seen: list[Seen]

    @property
    def members(self) -> frozenset[int]:
        return self.corrupted.members

    @property
    def present(self) -> frozenset[int]:
        """Members of the latest round; all members of an adversary that does not tell rounds apart."""
        found: frozenset[int] = getattr(self.corrupted, "present", self.members)
        return found

    @property
    def learned(self) -> Mapping[str, Vector]:
        """What members have learned about their poison so far."""
        corrupted: Any = self.corrupted
        found: Mapping[str, Vector] = corrupted.learned
        return found

    def __call__(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        updates = {job.client for job in jobs if job.work == "update"}
        results: Any = self.corrupted(jobs)
        while True:
            started = time.process_time()
            try:
                client, work = next(results)
            except StopIteration:
                self.seen[0].unanswered |= {job.client for job in jobs} & self.present
                return
            finally:
                self.seen[0].seconds += time.process_time() - started
            seen, member = self.seen[0], client in self.present
            seen.clients.add(client)
            if member:
                seen.members.add(client)
            elif client in updates:
                seen.add(work.vector)
            yield client, work

    def judge(self, offer: LocalOffer, /) -> int | None:
        return self.corrupted.judge(offer)

    def embedders(self, honest: Embedders, /) -> Embedders:
        return embedders_of(self.corrupted, honest)

    def save(self) -> Mapping[str, Vector]:
        return self.corrupted.save()

    def restore(self, memory: Mapping[str, Vector], /) -> None:
        self.corrupted.restore(memory)


@dataclass(frozen=True, slots=True, eq=False)
class Nobody:
    """Clients' computers in nobody's hands but their own."""

    computers: Computers

    @property
    def members(self) -> frozenset[int]:
        return frozenset()

    @property
    def present(self) -> frozenset[int]:
        return frozenset()

    @property
    def learned(self) -> Mapping[str, Vector]:
        return {}

    def __call__(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork | Unwilling]]:
        return self.computers.honest(jobs, {})

    def judge(self, offer: LocalOffer, /) -> int | None:
        return self.computers.judge(offer)

    def save(self) -> Mapping[str, Vector]:
        return {}

    def restore(self, memory: Mapping[str, Vector], /) -> None:
        pass
