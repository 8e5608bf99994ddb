"""A sum that is of one client and of the observer's own: what those put in taken off, it is the update of the one."""

from collections.abc import Iterator

import numpy as np

from .reading import Instance
from .view import CorruptView, Matrix


def left_alone(view: CorruptView) -> Iterator[tuple[Instance, Matrix]]:
    """What a sum without noise leaves of the one client in it that is not the observer's: its update, float64 (d,)."""
    if getattr(view.public.protection, "noise", None) is not None:
        return
    for s in view.sums:
        others = [i for i, weight in s.row.items() if weight and i not in view.observer.clients]
        inside = {i: weight for i, weight in s.row.items() if weight and i not in others}
        if len(others) != 1 or s.mean is None:
            continue
        found = {i: view.held[i].updates.get((s.round, s.kind)) for i in inside if i in view.held}
        own = {i: np.asarray(x, np.float64) for i, x in found.items() if x is not None and len(x) == len(s.mean)}
        if not inside or own.keys() != inside.keys():
            continue
        total = sum(s.row.values())
        if s.times_samples:  # whoever opened it knows the weight of all; others guess that the one has as many samples as they
            counts = {i: len(view.held[i].examples) for i in inside}
            inside = {i: weight * counts[i] for i, weight in inside.items()}
            total = s.weight or sum(inside.values()) + s.row[others[0]] * float(np.mean([*counts.values()]))
        if (weight := total - sum(inside.values())) > 0:
            mean = np.asarray(s.mean, np.float64)
            left = total * mean - sum((a * own[i] for i, a in inside.items()), np.zeros(len(mean)))
            yield (s.round, s.kind, others[0]), left / weight
