"""Who is corrupt, and in which rounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..fl.runs.simulation import seed_of


class Members(Protocol):
    """Which clients are corrupt. The same arguments give the same members."""

    def everyone(self, clients: Sequence[int], seed: int, /) -> frozenset[int]:
        """All clients that are corrupt in some round."""
        ...

    def among(self, clients: Sequence[int], roster: Sequence[int], round: int, seed: int, /) -> frozenset[int]:
        """Those of a session's roster that are corrupt in this round."""
        ...


def whole(value: float, what: str) -> int:
    """The number as an int, for strengths come as floats. Raises ValueError of one line unless it is whole and 0 or more."""
    if value != value or value in (float("inf"), float("-inf")) or int(value) != value or value < 0:
        raise ValueError(f"{what} 0 or more, a whole number, not {value}")
    return int(value)


@dataclass(frozen=True, slots=True)
class Fixed:
    """These clients."""

    ids: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", tuple(whole(i, "a client's id is") for i in self.ids))

    def everyone(self, clients: Sequence[int], seed: int, /) -> frozenset[int]:
        unknown = sorted(set(self.ids) - set(clients))
        if unknown:
            raise ValueError(f"the adversary names clients that the partition does not make: {unknown}")
        return frozenset(self.ids)

    def among(self, clients: Sequence[int], roster: Sequence[int], round: int, seed: int, /) -> frozenset[int]:
        return frozenset(self.ids) & frozenset(roster)


@dataclass(frozen=True, slots=True)
class Pool:
    """`count` clients drawn from the run's seed, for the whole run; how many of them a round has, chance decides (as in FLIC)."""

    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", whole(self.count, "the members of a pool are"))

    def everyone(self, clients: Sequence[int], seed: int, /) -> frozenset[int]:
        if self.count > len(clients):
            raise ValueError(f"a pool of {self.count} members does not fit {len(clients)} clients")
        rng = np.random.default_rng(seed_of(seed, "adversary", "members"))
        return frozenset(int(i) for i in rng.choice(np.array(sorted(clients)), self.count, replace=False))

    def among(self, clients: Sequence[int], roster: Sequence[int], round: int, seed: int, /) -> frozenset[int]:
        return self.everyone(clients, seed) & frozenset(roster)


@dataclass(frozen=True, slots=True)
class Share:
    """A pool of this share of the clients, rounded to the nearest number, .5 to the even one."""

    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"a share is from 0 to 1, not {self.share}")

    def everyone(self, clients: Sequence[int], seed: int, /) -> frozenset[int]:
        return Pool(round(self.share * len(clients))).everyone(clients, seed)

    def among(self, clients: Sequence[int], roster: Sequence[int], round: int, seed: int, /) -> frozenset[int]:
        return self.everyone(clients, seed) & frozenset(roster)


@dataclass(frozen=True, slots=True)
class PerRound:
    """`count` of every session's roster, drawn anew in every round: common in papers, and kinder to rules than a pool.

    A session with fewer clients is corrupt as a whole.
    """

    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", whole(self.count, "the members of a round are"))

    def everyone(self, clients: Sequence[int], seed: int, /) -> frozenset[int]:
        return frozenset(clients) if self.count else frozenset()

    def among(self, clients: Sequence[int], roster: Sequence[int], round: int, seed: int, /) -> frozenset[int]:
        rng = np.random.default_rng(seed_of(seed, "adversary", "members", round, *sorted(roster)))
        count = min(self.count, len(roster))
        return frozenset(int(i) for i in rng.choice(np.array(sorted(roster)), count, replace=False))


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rounds start, start + period, ... below stop, without those in `pauses`, each (first, end) with the end left out."""

    start: int = 0
    stop: int | None = None
    period: int = 1
    pauses: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if self.start < 0 or self.period < 1 or (self.stop is not None and self.stop < self.start):
            raise ValueError(f"a schedule has 0 <= start <= stop and a period of at least 1, not {self}")

    def __contains__(self, round: int) -> bool:
        within = self.start <= round and (self.stop is None or round < self.stop) and (round - self.start) % self.period == 0
        return within and not any(first <= round < end for first, end in self.pauses)

    @property
    def in_words(self) -> str:
        """Which rounds these are, "from round 10 on, in turn 2 at work and 3 at rest"; empty for all."""
        if self.stop == self.start:
            return "in no round"
        if self.stop is None:
            words = f"from round {self.start} on" if self.start else ""
        elif self.stop == self.start + 1:
            words = f"in round {self.start} alone"
        else:
            words = f"in rounds {self.start} to {self.stop - 1}"
        more = [f"every {self.period} rounds"] if self.period > 1 else []
        more += [self._pauses_in_words()] if self.pauses else []
        return ", ".join([words or "from the first round on", *more]) if more else words

    def _pauses_in_words(self) -> str:
        (first, end), n = self.pauses[0], len(self.pauses)
        active, whole = first - self.start, end - self.start
        if n > 1 and all(p == (self.start + active + k * whole, self.start + (k + 1) * whole) for k, p in enumerate(self.pauses)):
            return f"in turn {active} at work and {end - first} at rest"
        return "without " + ", ".join(f"{a} to {b - 1}" if b > a + 1 else f"{a}" for a, b in self.pauses)


ALWAYS = Schedule()
NEVER = Schedule(stop=0)


def single_shot(round: int) -> Schedule:
    """One round alone."""
    return Schedule(start=round, stop=round + 1)
