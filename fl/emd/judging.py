"""The server's decision in EMD-CFL: how eps is known or found, and who accepts whom (Algorithm 1, lines 16 and 17)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...protocol.core.errors import Refused
from ...protocol.pairs.question import Direction, MeasuredDirection
from .calibration import ERROR, excess, from_distances, from_references, from_replicates
from .distances import Cosine, Distance, Euclidean, ExactEmd, MeanDistance
from .pairs import Cores, Problem, decisions, distances

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Share:
    """eps as a share of the median reference distance of the first round that compares clients."""

    share: float = 0.25


@dataclass(frozen=True, slots=True)
class Gap:
    """eps in the widest gap of the distances of the first round that compares clients.

    It joins groups that are near to each other where others are far (`from_distances`).
    """


@dataclass(frozen=True, slots=True)
class Replicates:
    """eps from the noise of the reference distances, in the first round that shows it (`from_replicates`).

    Every client parts its validation data into `count` disjoint samples, and measures tau for client j on sample j mod count; so
    all samples are at most as large as such a part. error: how often a client may refuse another of its own distribution. Until
    some client has measured itself on two of its samples, eps is a share of the references, as by `Share`, and is not kept.
    """

    error: float = ERROR
    count: int = 2

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 2 or not 0 < self.error < 1:
            raise ValueError(f"two samples or more and an error in (0, 1), not {self.count!r} and {self.error}")


Tolerance = float | Share | Gap | Replicates


@dataclass(frozen=True, slots=True)
class Tau:
    """How clients measure tau: by the algorithm's distance. span: largest value of its ground cost, inf where there is none.

    samples: of validation data that a client has for it.
    """

    distance: Distance
    span: float
    samples: int = 1

    def moved(self, rows: int, /) -> float:
        """span / rows: the old plan with the mass of one row moved is feasible, and costs at most that much more or less.

        True of exact transport alone: Refused for distances of means, or Sinkhorn's, and for a cost without bound.
        """
        if not isinstance(self.distance, ExactEmd) or not np.isfinite(self.span):
            raise Refused("noise on distances needs exact transport at a bounded cost; take ExactEmd(Cosine())")
        return self.span / rows

    def __call__(self, source: NDArray[np.float32], target: NDArray[np.float32], /) -> float:
        return self.distance(source, target)


def tau_of(distance: Distance, eps: Tolerance = 0.0) -> Tau:
    """A reference by this distance, on as many samples as the tolerance needs."""
    span = 2.0 if isinstance(getattr(distance, "ground", None), Cosine) else float("inf")
    return Tau(distance, span, eps.count if isinstance(eps, Replicates) else 1)


def in_euclidean_units(distance: Distance) -> bool:
    """Whether the distance of two single points is that of Euclid, as the reference of a mean sketch is."""
    return isinstance(distance, ExactEmd | MeanDistance) and isinstance(distance.ground, Euclidean)


@dataclass(slots=True)
class Judging:
    """Who accepts whom, and what the server saw while it decided. eps: None until it is calibrated.

    Where eps is a number and the distance exact, certified bounds decide, and no distance is known afterwards; unless all are
    to be `measured`.
    """

    distance: Distance
    tolerance: Tolerance
    cores: Cores
    eps: float | None
    measured: bool = False
    references: dict[int, float] = field(default_factory=dict)
    distances: dict[Pair, float] = field(default_factory=dict)

    def __call__(self, directions: Iterable[Direction | MeasuredDirection], /) -> Mapping[Pair, bool]:
        told: dict[Pair, float] = {}
        taus: dict[Pair, float] = {}

        def problems() -> Iterator[Problem]:
            for d in directions:
                self.references[d.client] = taus[d.client, d.other] = d.reference
                if isinstance(d, MeasuredDirection):
                    told[d.client, d.other] = d.distance
                else:
                    yield Problem(d.client, d.other, d.source, d.target, d.reference)

        ground = self.distance.ground if isinstance(self.distance, ExactEmd) else None
        if self.eps is not None and not self.measured and isinstance(ground, Cosine | Euclidean):
            found = decisions(problems(), self.eps, ground, cores=self.cores)
            edges = {pair: decision.edge for pair, decision in found.items()}
            self.distances = {pair: w - taus[pair] for pair, w in told.items()}
            return edges | {pair: value < self.eps for pair, value in self.distances.items()}
        w = distances(problems(), self.distance, self.cores) | told
        self.distances = {pair: w[pair] - taus[pair] for pair in w}
        if not w:
            return {}
        eps = self.eps
        if eps is None:
            eps = self.eps = self._calibrated(taus)
        if eps is None:
            eps = from_references(list(taus.values()))
        return {pair: value < eps for pair, value in self.distances.items()}

    def _calibrated(self, taus: Mapping[Pair, float]) -> float | None:
        """None where nothing is known of the noise yet."""
        match self.tolerance:
            case Share(share):
                return from_references(list(taus.values()), share)
            case Replicates(error, count):
                rows = _replicates(taus, count)
                return from_replicates(rows, error) if any(len(row) > 1 for row in rows) else None
        clients = sorted({i for pair in self.distances for i in pair})
        return from_distances(excess(self.distances, dict.fromkeys(clients, 0.0), clients), list(taus.values())).eps


def _replicates(taus: Mapping[Pair, float], count: int) -> list[list[float]]:
    """One reference distance of each client and sample, that of the pair with the first other client."""
    found: dict[int, dict[int, float]] = {}
    for (client, other), tau in sorted(taus.items()):
        found.setdefault(client, {}).setdefault(other % count, tau)
    return [list(of.values()) for of in found.values()]
