"""Attacks that adapt to clustering by similarity, as in FLIC, CFL, FLAME or ClippedClustering (attacks of group 5.9).

Cosines do not see the norm of an upload, each member's own noise averages out while a common direction does not, and a server
that clusters once is blind afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import acos, atan2, cos, hypot, pi, sin, sqrt
from typing import ClassVar, Literal

import numpy as np

from ..fl.field_ranges import need_finite, need_numbers, need_shares, need_whole
from ..protocol.parts.gram import cosine_block
from ..protocol.view.answers import Vector
from .geometry import mean_of, unit, without
from .knowledge import Colluding, Level, Omniscient, Own, forged


def agreed_direction(own: Own) -> Vector:
    """A random unit vector that all members draw alike in every round."""
    return unit(own.agreed.standard_normal(len(own.update), dtype=np.float32))


@dataclass(frozen=True, slots=True)
class Tilted:
    """Hider at K0: u = scale |own| (cos angle q + sin angle v), q the own direction, v agreed and orthogonal to q. Radians."""

    angle: float
    scale: float = 1.0
    needs: ClassVar[Level] = Level.OWN

    def __call__(self, own: Own, /) -> Vector:
        q = unit(own.update)
        v = unit(without(agreed_direction(own), q))
        radius = self.scale * float(np.linalg.norm(own.update))
        return np.float32(radius * cos(self.angle)) * q + np.float32(radius * sin(self.angle)) * v


@dataclass(frozen=True, slots=True)
class Hider:
    """u = scale |own| (cos angle q + sin angle v) with the largest angle at which u looks like one of the cluster.

    q: the own direction, or that of the mean of the updates seen. v: the agreed direction, or (where q is the own direction)
    against that mean; made orthogonal to q. u may turn until its mean cosine to the updates seen
    falls to the `quantile` of their own mean cosines to each other.
    """

    quantile: float = 0.1
    aim: Literal["agreed", "against"] = "against"
    scale: float = 1.0
    hide_in: Literal["own", "mean"] = "own"
    needs: ClassVar[Level] = Level.COLLUDING
    identical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        need_shares(self, "quantile")
        need_numbers(self, "scale")
        if self.hide_in == "mean" and self.aim == "against":
            raise ValueError('who hides in the mean has nothing against it to turn to; take aim="agreed"')

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        units = [unit(v) for v in coalition.seen]
        centre = mean_of(units)
        bound = typical_cosine(units, self.quantile)
        vectors: list[Vector] = []
        for _, own in sorted(coalition.own.items()):
            q = unit(own.update if self.hide_in == "own" else centre)
            v = unit(without(agreed_direction(own) if self.aim == "agreed" else np.negative(centre), q))
            angle = hiding_angle(float(q @ centre), float(v @ centre), bound)
            radius = self.scale * float(np.linalg.norm(own.update))
            vectors.append(np.float32(radius * cos(angle)) * q + np.float32(radius * sin(angle)) * v)
        return forged(coalition, vectors)


def typical_cosine(units: list[Vector], quantile: float) -> float:
    """The quantile of every update's mean cosine to the others; 1 for an update alone."""
    if len(units) < 2:
        return 1.0
    cosines = cosine_block(units, units)
    np.fill_diagonal(cosines, 0.0)
    return float(np.quantile(cosines.sum(axis=1) / (len(units) - 1), quantile))


def hiding_angle(along: float, across: float, bound: float) -> float:
    """The largest angle in [0, pi] with cos(angle) along + sin(angle) across >= bound; if there is none, the nearest to one."""
    amplitude = hypot(along, across)
    if amplitude == 0:
        return pi if bound <= 0 else 0.0
    if -along >= bound:
        return pi
    peak = atan2(across, along)
    return min(max(peak + acos(min(max(bound / amplitude, -1.0), 1.0)), 0.0), pi)


@dataclass(frozen=True, slots=True)
class CloakedCollusion:
    """u_j = rho |own_j| (k q_j + a v + sqrt(1 - k^2 - a^2) e_j): own direction, agreed poison, noise of its own of unit norm.

    The noise keeps members apart from each other and averages out; the poison adds up.
    """

    k: float = 0.8
    a: float = 0.2
    rho: float = 1.0
    needs: ClassVar[Level] = Level.OWN

    def __post_init__(self) -> None:
        need_finite(self, "k", "a")
        need_numbers(self, "rho")
        if self.k**2 + self.a**2 > 1 + 1e-9:
            raise ValueError(f"k^2 + a^2 is at most 1, not {self.k**2 + self.a**2}")

    def __call__(self, own: Own, /) -> Vector:
        noise = unit(own.rng.standard_normal(len(own.update), dtype=np.float32))
        mixed = np.float32(self.k) * unit(own.update) + np.float32(self.a) * agreed_direction(own)
        mixed += np.float32(sqrt(max(0.0, 1 - self.k**2 - self.a**2))) * noise
        return np.float32(self.rho * float(np.linalg.norm(own.update))) * mixed


@dataclass(frozen=True, slots=True)
class Bridge:
    """Members stand at equal angles between two groups of honest updates, so that linkage or modularity joins them.

    anchors: a client of each group; None, or where one is not in the session: the two honest updates least alike. The groups are
    the honest updates nearer to either anchor; uploads have the mean honest norm.
    """

    anchors: tuple[int, int] | None = None
    needs: ClassVar[Level] = Level.OMNISCIENT
    identical: ClassVar[bool] = False

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        if not isinstance(coalition, Omniscient) or len(coalition.honest) < 2:
            return {i: own.update for i, own in coalition.own.items()}
        clients = sorted(coalition.honest)
        units = [unit(coalition.honest[i].vector) for i in clients]
        cosines = cosine_block(units, units)
        if self.anchors is not None and set(self.anchors) <= set(clients):
            first, second = (clients.index(i) for i in self.anchors)
        else:
            first, second = (int(k) for k in np.unravel_index(np.argmin(cosines), cosines.shape))
        nearer = cosines[:, first] >= cosines[:, second]
        a = unit(mean_of([u for u, near in zip(units, nearer, strict=True) if near]))
        b = unit(mean_of([u for u, near in zip(units, nearer, strict=True) if not near] or [units[second]]))
        radius = float(np.mean([np.linalg.norm(coalition.honest[i].vector) for i in clients]))
        between = acos(min(max(float(a @ b), -1.0), 1.0))
        across = unit(without(b, a))
        angles = [between * (j + 1) / (coalition.faulty + 1) for j in range(coalition.faulty)]
        return forged(coalition, [np.float32(radius * cos(t)) * a + np.float32(radius * sin(t)) * across for t in angles])


@dataclass(frozen=True, slots=True)
class VictimCapture:
    """Members copy a victim's direction up to noise of their own, until its cluster is theirs; from round `turn` on they flip.

    victim: a client; None for the honest client of the lowest id in the first session that has one, which is the victim from
    then on. A victim that is itself a member raises ValueError where members work: there would be nobody to capture. cosine: of
    each copy to the victim's latest update seen. After the turn: -strength times the own update.
    """

    victim: int | None
    turn: int
    cosine: float = 0.9
    strength: float = 1.0
    needs: ClassVar[Level] = Level.OMNISCIENT
    identical: ClassVar[bool] = False

    def __post_init__(self) -> None:
        need_whole(self, 0, "victim", "turn")
        need_shares(self, "cosine")
        need_numbers(self, "strength")

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        copied = coalition.memory.get("victim")
        if coalition.round >= self.turn:
            return {i: np.float32(-self.strength) * own.update for i, own in coalition.own.items()}
        if copied is None:
            return {i: own.update for i, own in coalition.own.items()}
        q, radius = unit(copied), float(np.linalg.norm(copied))
        vectors: list[Vector] = []
        for _, own in sorted(coalition.own.items()):
            noise = unit(without(own.rng.standard_normal(len(q), dtype=np.float32), q))
            vectors.append(np.float32(radius * self.cosine) * q + np.float32(radius * sqrt(1 - self.cosine**2)) * noise)
        return forged(coalition, vectors)

    def learn(self, coalition: Colluding, /) -> Mapping[str, Vector]:
        if self.victim in coalition.own:
            raise ValueError(f"client {self.victim} is a member of the coalition; name an honest victim, or None for any")
        if not isinstance(coalition, Omniscient) or not coalition.honest:
            return coalition.memory
        chosen, memory = self.victim, coalition.memory
        if chosen is None:
            chosen = int(memory["who"][0]) if "who" in memory else min(coalition.honest)
        if chosen not in coalition.honest:
            return memory
        return {"who": np.array([chosen], dtype=np.float32), "victim": coalition.honest[chosen].vector}
