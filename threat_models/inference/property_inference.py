"""A property of a client's data, or its cluster, from its update: logistic regression on shadow updates.

The adversary has the client's update (or an estimate of it, or of its mean over rounds) and public data of the same kind, of
which it makes shadow clients with and without the property, or of each cluster, and plays their local training
(`shadow_models`). After Ganju et al. 2018 and Melis et al. 2019, with a linear classifier.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from ...fl.data.population import Examples

Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Property:
    """A linear classifier of updates. classes: int64 (c,), ascending. centre, scale: float64 (d,), of the shadow updates.

    directions: float64 (1, d) for two classes, whose second it points to, else (c, d); offsets: as many.
    """

    classes: NDArray[np.int64]
    centre: Rows = field(repr=False)
    scale: Rows = field(repr=False)
    directions: Rows = field(repr=False)
    offsets: Rows = field(repr=False)

    def scores(self, updates: NDArray[np.float32]) -> Rows:
        """Log odds of two classes' second, float64 (n,), or of each class up to what they have in common, (n, c)."""
        found = ((updates - self.centre) / self.scale) @ self.directions.T + self.offsets
        return np.asarray(found[:, 0] if len(self.classes) == 2 else found)

    def guess(self, updates: NDArray[np.float32]) -> NDArray[np.int64]:
        """The likeliest class of each update: int64 (n,)."""
        scores = self.scores(updates)
        at = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes[at], np.int64)


def learned(shadow: NDArray[np.float32], classes: NDArray[np.int64], strength: float = 1.0) -> Property:
    """A classifier of updates float32 (n, d) with known classes int64 (n,), two or more.

    Every coordinate is brought to variance 1; one that never differs counts nothing. strength: of the l2 penalty, times the
    number of coordinates, so that long updates need no other. It has no randomness. Raises ValueError for one class.
    """
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(classes)) < 2:
        raise ValueError("a property is learned from shadow updates with it and without")
    wide = shadow.astype(np.float64)
    centre, spread = wide.mean(axis=0), wide.std(axis=0)
    scale = np.where(spread > 1e-12 * max(float(spread.max()), 1e-300), spread, np.inf)
    model = LogisticRegression(C=1 / (strength * wide.shape[1]), max_iter=2000).fit((wide - centre) / scale, classes)
    return Property(np.asarray(model.classes_, np.int64), centre, scale, np.asarray(model.coef_), np.asarray(model.intercept_))


def with_share(public: Examples, chosen: NDArray[np.bool_], share: float, size: int, rng: np.random.Generator) -> Examples:
    """`size` public examples of which `share` are among the chosen, drawn without putting back: a shadow client's data.

    chosen: bool (n,), whether a public example has what the property counts (a label, a style). Raises ValueError for too few.
    """
    of_both = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    counts = round(share * size), size - round(share * size)
    if len(of_both[0]) < counts[0] or len(of_both[1]) < counts[1]:
        raise ValueError(f"{counts[0]} and {counts[1]} examples are asked of {len(of_both[0])} and {len(of_both[1])}")
    drawn = [rng.choice(pool, count, replace=False) for pool, count in zip(of_both, counts, strict=True)]
    return public.take(torch.from_numpy(np.concatenate(drawn).astype(np.int64)))
