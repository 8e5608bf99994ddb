"""Sample counts that fit best to all that an observer knows of sums that are weighted by them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...protocol.masked.messages import Proposal
from ...protocol.masked.terms import decode_weights
from ...protocol.masked.weighing import WEIGHED, named
from ..liars import forward
from .reading import messages, samples, sketch_sets
from .sketch_reading import opened_sketches
from .view import CorruptView, PublishedSum

Matrix = NDArray[np.float64]
Equation = tuple[Callable[[Matrix], Matrix], Callable[[Matrix], Matrix]]
"""What is missed, (m,), at counts (n,), and its derivative, (m, n). In units of its noise."""
SETS = 12
"""Sets of sketches under one key that are compared with each other, at most, evenly spaced."""


def counts_of(view: CorruptView, clients: Sequence[int], mean: float, spread: float) -> Matrix:
    """The best guess of these clients' counts, float64 (clients,): by least squares about their mean, or as they are told.

    mean, spread: of counts in a run of the attacker's own, the spread relative to the mean; the audited run's mean is taken from
    its totals where there are any, and its spread from the sums of squares that are told beside totals of masked sums.
    """
    from scipy.optimize import least_squares

    own = {i: float(len(held.examples)) for i, held in view.held.items()}
    in_clear = {i: float(n) for i, n in samples(view).items()}
    if told := {i: n for i, n in (_up_to_a_factor(view, own, mean) | in_clear).items() if i in clients}:
        usual = float(np.mean(list(told.values())))
        return np.array([told.get(i, usual) for i in clients], np.float64)
    counted = [s for s in view.sums if s.times_samples and s.weight > 0]
    usual = _usual(counted, own, mean)
    if not counted:
        return np.full(len(clients), usual)
    scale = usual * (_spread_told(view) or spread)
    equations: list[Equation] = [(lambda n: (n - usual) / scale, lambda n: np.eye(len(n)) / scale)]
    begin = np.full(len(clients), usual)
    with np.errstate(all="ignore"):
        equations += _totals(counted, clients, own)
        equations += _measured(view, counted, clients, own)
        equations += _products(view, counted, clients, own)
        equations += _energies(view, counted, clients, own)
        equations = [e for e in equations if np.isfinite(e[0](begin)).all() and np.isfinite(e[1](begin)).all()]  # of no update
    found = least_squares(
        lambda n: np.concatenate([missed(n) for missed, _ in equations]),
        begin,
        lambda n: np.concatenate([slope(n) for _, slope in equations]),
        bounds=(0, np.inf),
        max_nfev=100,
    )
    return np.asarray(found.x)


def told_of_counts(view: CorruptView) -> bool:
    """Whether anything that the observer was sent or opened depends on counts that are not its own."""
    summed = any(s.counts or (s.times_samples and s.weight > 0) for s in view.sums)
    return summed or not samples(view).keys() <= view.held.keys()


def _up_to_a_factor(view: CorruptView, own: Mapping[int, float], mean: float) -> dict[int, float]:
    """Counts that the observer is told but for a factor, which its own clients' tell; without such they are this on the mean."""
    found = dict[int, float]()
    for s in view.sums:
        inside = own.keys() & s.counts.keys()
        factor = sum(own[i] for i in inside) / sum(s.counts[i] for i in inside) if inside else mean * len(s.counts)
        found |= {i: factor * count for i, count in s.counts.items()}
    return found


def _spread_told(view: CorruptView) -> float:
    """Of counts, relative to their mean, in the widest masked sum that counts samples and nothing else; 0 where none tells it."""
    asked = (e.message for _, e in messages(view, Proposal) if e.message.protocol.startswith(WEIGHED))
    alike = [m for m in asked if len({*decode_weights(m.roster, m.weights).values()}) == 1]
    if not alike:
        return 0.0
    widest = max(alike, key=lambda m: len(m.roster))
    total, squares = named(widest.protocol)
    return float(np.sqrt(max(squares * len(widest.roster) / total**2 - 1, 0.0))) if total else 0.0


def _usual(counted: Sequence[PublishedSum], own: Mapping[int, float], otherwise: float) -> float:
    """The mean count of the widest sum's honest clients, which its total tells."""
    widest = max(counted, key=lambda s: len(s.row), default=None)
    if widest is None:
        return otherwise
    weights = sum(a for i, a in widest.row.items() if i not in own)
    return (widest.weight - sum(a * own[i] for i, a in widest.row.items() if i in own)) / weights if weights else otherwise


@dataclass(frozen=True, slots=True, eq=False)
class Weighting:
    """The weights of a sum's clients as they follow from counts: p = base + rows n, over `clients`."""

    clients: tuple[int, ...]
    base: Matrix
    rows: Matrix

    @classmethod
    def of(cls, s: PublishedSum, clients: Sequence[int], own: Mapping[int, float]) -> "Weighting":
        inside = tuple(sorted(s.row))
        base = np.array([s.row[i] * own.get(i, 0.0) for i in inside]) / s.weight
        rows = np.array([[s.row[i] * (i == j) for j in clients] for i in inside]) / s.weight
        return cls(inside, base, rows)

    def __call__(self, n: Matrix) -> Matrix:
        return self.base + self.rows @ n


def _linear(base: Matrix, rows: Matrix) -> Equation:
    return (lambda n: base + rows @ n), (lambda n: rows)


def _totals(counted: Sequence[PublishedSum], clients: Sequence[int], own: Mapping[int, float]) -> Iterator[Equation]:
    """Weights add up to 1, up to the rounding of float32."""
    kinds = {(tuple(sorted(s.row.items())), s.weight): s for s in counted}
    for s in kinds.values():
        of = Weighting.of(s, clients, own)
        yield _linear((of.base.sum(keepdims=True) - 1) / 1e-6, of.rows.sum(axis=0, keepdims=True) / 1e-6)


def _measured(
    view: CorruptView, counted: Sequence[PublishedSum], clients: Sequence[int], own: Mapping[int, float]
) -> Iterator[Equation]:
    """With the seed: the sketch of a mean is the weighted mean of sketches."""
    for one, sketch, of in opened_sketches(view):
        for s in _about(counted, one.round, one.kind):
            if s.row.keys() <= of.keys():
                weights, mean = Weighting.of(s, clients, own), forward(sketch, np.asarray(s.mean, np.float64))
                columns = np.stack([of[i] for i in weights.clients], axis=1)
                noise = 1e-3 * float(np.sqrt(np.square(columns).mean()))
                yield _linear((columns @ weights.base - mean) / noise, columns @ weights.rows / noise)


def _products(
    view: CorruptView, counted: Sequence[PublishedSum], clients: Sequence[int], own: Mapping[int, float]
) -> Iterator[Equation]:
    """Without it: of sketches under one key, products of weighted means are those of the means, up to the sketch's error."""
    if any(held.seed for held in view.held.values()):
        return
    pairs = [
        (s, one)
        for one in sketch_sets(view)
        if one.raw
        for s in _about(counted, one.round, one.kind)
        if s.row.keys() <= one.raw.keys()
    ]
    chosen = [pairs[k] for k in np.unique(np.linspace(0, len(pairs) - 1, min(SETS, len(pairs))).astype(int))] if pairs else []
    made = [(Weighting.of(s, clients, own), one, np.asarray(s.mean, np.float64)) for s, one in chosen]
    same_key = getattr(view.public.protection, "keys", "") == "run"
    for k, (p, first, m) in enumerate(made):
        left = np.stack([first.raw[i] for i in p.clients])
        for q, second, other in made[k:]:
            if not same_key and first.made != second.made:
                continue
            gram = left @ np.stack([second.raw[i] for i in q.clients]).T
            size = float(np.linalg.norm(m) * np.linalg.norm(other)) * np.sqrt(2 / left.shape[1])
            yield _bilinear(p, q, gram / size, float(m @ other) / size)


def _bilinear(p: Weighting, q: Weighting, gram: Matrix, product: float) -> Equation:
    def missed(n: Matrix) -> Matrix:
        return np.array([p(n) @ gram @ q(n) - product])

    def slope(n: Matrix) -> Matrix:
        return ((gram @ q(n)) @ p.rows + (p(n) @ gram) @ q.rows)[None]

    return missed, slope


def _energies(
    view: CorruptView, counted: Sequence[PublishedSum], clients: Sequence[int], own: Mapping[int, float]
) -> Iterator[Equation]:
    """sum_i p_i |x_i|^2 - |m|^2 = sum_i p_i D_ii - p D p, with D about any point: a Gram matrix and a sum with its energy."""
    for c in view.compared:
        if not c.gram:
            continue
        for s in _about(counted, c.round, c.kind):
            if s.energy is None or set(s.row) != set(c.rows):
                continue
            p, mean = Weighting.of(s, clients, own), np.asarray(s.mean, np.float64)
            at = [c.rows.index(i) for i in p.clients]
            d, apart = c.matrix[np.ix_(at, at)], s.energy - float(mean @ mean)
            if apart > 0:
                k = getattr(view.public.protection, "sketch", 1_000_000)
                yield _spread(p, d, apart, apart * float(np.sqrt(2 / k)))


def _spread(p: Weighting, d: Matrix, apart: float, noise: float) -> Equation:
    def missed(n: Matrix) -> Matrix:
        w = p(n)
        return np.array([w @ np.diagonal(d) - w @ d @ w - apart]) / noise

    def slope(n: Matrix) -> Matrix:
        return ((np.diagonal(d) - 2 * d @ p(n)) @ p.rows)[None] / noise

    return missed, slope


def _about(counted: Sequence[PublishedSum], round: int, kind: str) -> list[PublishedSum]:
    return [s for s in counted if (s.round, s.kind) == (round, kind) and s.mean is not None]
