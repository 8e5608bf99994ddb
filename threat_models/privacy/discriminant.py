"""One score from all that a release shows: Fisher's linear discriminant, the best score where noise is Gaussian.

It weighs each direction by how much of the unit it shows over how much noise it has, so what was released without noise, or with
noise that cancels against other noise, decides, however small a part of the release it is.
"""

from dataclasses import dataclass

import numpy as np

from .bound import Floats

FLOOR = 1e-9
"""Variance, relative to the largest, under which directions count as having no noise."""
ROUNDING = 1e-6
"""Deviation, relative to a coordinate's size, under which it is rounding of float32."""


@dataclass(frozen=True, slots=True)
class Discriminant:
    """weights: float64 (k,). centre: float64 (k,), which scores 0."""

    weights: Floats
    centre: Floats

    @classmethod
    def between(cls, seen_with: Floats, seen_without: Floats) -> "Discriminant":
        """Of two classes, float64 (n, k) each: the difference of their means, against what the two vary by within."""
        means = seen_with.mean(axis=0), seen_without.mean(axis=0)
        within = np.concatenate([seen_with - means[0], seen_without - means[1]])
        centre = (means[0] + means[1]) / 2
        return cls(_against(means[0] - means[1], within, centre), centre)

    @classmethod
    def along(cls, towards: Floats, seen: Floats) -> "Discriminant":
        """Of rows, float64 (n, k), that coins move along `towards`, (k,), or against it, against all that they vary by."""
        centre = seen.mean(axis=0)
        return cls(_against(towards, seen - centre, centre), centre)

    def __call__(self, seen: Floats) -> Floats:
        """float64 (n,), higher where the unit is more likely in."""
        return np.asarray((seen - self.centre) @ self.weights)


def _against(moved: Floats, spread: Floats, size: Floats) -> Floats:
    """The inverse covariance times what moved, on coordinates of one scale."""
    scale = np.maximum(spread.std(axis=0), ROUNDING * (np.abs(size) + np.abs(moved)) + 1e-300)
    values, vectors = np.linalg.eigh((spread / scale).T @ (spread / scale) / len(spread))
    values = np.maximum(values, FLOOR * max(1.0, float(values[-1])))
    weights = vectors @ ((vectors.T @ (moved / scale)) / values) / scale
    return np.asarray(weights / max(float(np.abs(weights).max()), 1e-300))
