"""Angles between the subspaces that clients' data, or their embeddings, span, and the judge that collects them.

PACFL: Vahidian et al., AAAI 2023. FedSaC: Yan et al., ICML 2024.

A basis is a float array of rows, unit vectors or zeros: as many rows for each label, zeros for what the client lacks. A rotation
of all bases, as a secret square projection is one, moves no angle.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...protocol.pairs.question import Direction, MeasuredDirection

Values = NDArray[np.float64]
Pair = tuple[int, int]
RIGHT = 90.0
"""Degrees: the angle to a subspace that nothing is known of."""


def smallest_angle(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """The smallest principal angle of the spans, in degrees: arccos of the largest singular value of U^T V, U, V orthonormal."""
    return float(principal_angles(one, other).min(initial=RIGHT))


def mean_angle(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """The mean of the principal angles of the spans, in degrees; 0 where one of them spans nothing (FedSaC)."""
    found = principal_angles(one, other)
    return float(found.mean()) if len(found) else 0.0


def principal_angles(one: NDArray[np.floating], other: NDArray[np.floating]) -> Values:
    """Of the spans, in degrees, ascending: arccos of the singular values of U^T V, U, V orthonormal; as many as the smaller has
    dimensions."""
    u, v = (_orthonormal(rows) for rows in (one, other))
    found: Values = np.degrees(np.arccos(np.clip(np.linalg.svd(u.T @ v, compute_uv=False), 0.0, 1.0)))
    return found


def aligned_angle(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """The mean angle between lines of the same label and rank, in degrees, over those that both have; 90 if there are none."""
    u, v = (rows.astype(np.float64) for rows in (one, other))
    lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    both = lengths > 0
    if not both.any():
        return RIGHT
    cosines = np.abs((u * v).sum(axis=1)[both]) / lengths[both]
    return float(np.degrees(np.arccos(np.clip(cosines, 0.0, 1.0))).mean())


@dataclass(slots=True)
class Angles:
    """A judge of pairs: measures the angle of every direction that it is shown, in degrees, and accepts nobody."""

    measure: Callable[[NDArray[np.floating], NDArray[np.floating]], float]
    found: dict[Pair, float] = field(default_factory=dict)

    def __call__(self, directions: Iterable[Direction | MeasuredDirection], /) -> Mapping[Pair, bool]:
        seen = []
        for d in directions:
            seen.append((d.client, d.other))
            pair = min(d.client, d.other), max(d.client, d.other)
            if isinstance(d, Direction) and pair not in self.found:
                self.found[pair] = self.measure(d.source, d.target)
        return dict.fromkeys(seen, False)


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A reference distance that nobody needs: 0."""

    span: float = float("inf")
    samples: int = 1

    def moved(self, rows: int, /) -> float:
        """Nothing moves it."""
        return 0.0

    def __call__(self, source: NDArray[np.floating], target: NDArray[np.floating], /) -> float:
        return 0.0


def _orthonormal(rows: NDArray[np.floating]) -> Values:
    """An orthonormal basis of the span, as columns."""
    u, singular, _ = np.linalg.svd(rows.astype(np.float64).T, full_matrices=False)
    found: Values = u[:, singular > 1e-6 * max(float(singular.max(initial=0.0)), 1e-300)]
    return found
