"""Any rule applied to the full updates of a round, in a few blocked passes and without a second copy of them."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from ..functions import as_vector
from ..own import is_own
from .function import as_rule, checked_weights
from .mixing import Prepared, Step, mixing_of, of_gram
from .rejection import after_rejecting
from .rows import Rows, Updates, Vector, combination, coordinatewise, gram_of, one_thread, squared_norms
from .rule import Block, CoordinateRule, ExtraRowRule, GramRule, Matrix, Noisy, Rule, Sight


@runtime_checkable
class UpdateRule(Protocol):
    """A rule that computes weights from the rows themselves."""

    @property
    def sees(self) -> Sight: ...

    def weigh(self, rows: Rows, rng: np.random.Generator, /) -> Matrix:
        """The weights of the result: float64 (len(rows),)."""
        ...


@runtime_checkable
class WholeRule(Protocol):
    """A rule that makes its result of whole updates, and no weighted sum."""

    @property
    def sees(self) -> Sight: ...

    def combine_all(self, updates: Block, /) -> Block:
        """The result, float32 (d,), of all updates, float32 (n, d), which are not changed."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """What a rule made of the updates.

    vector: float32 (d,). weights: float64 (n,), 0 for rejected updates, or None where the result is no weighted sum.
    rejected: positions of updates that are not finite, or so large that their squared norm is not.
    """

    vector: Vector = field(repr=False)
    weights: Matrix | None = field(repr=False)
    rejected: tuple[int, ...]


def aggregate(
    rule: Rule, updates: Updates, rng: np.random.Generator, *, extra: Vector | None = None, judged: Updates | None = None
) -> Aggregate:
    """The rule's result for these updates: float32 (n, d), or n vectors float32 (d,). They are not changed. A plain function of
    all updates is a rule, too.

    extra: float32 (d,), for FLTrust the root update, for centred clipping the result of the round before. judged: one vector
    per update that the Gram matrix is taken of instead (FoolsGold: the sum of the client's updates so far).
    Updates that are rejected count among the f faulty ones that the rule stands (`after_rejecting`).
    Raises ValueError where no update is left, the rule cannot stand its f of those that are left, shapes or dtypes do not
    fit, or an extra vector is missing, not taken or not finite.
    """
    _check(updates, extra, judged)
    with one_thread():
        return _aggregated(as_rule(rule), updates, rng, extra, judged)


def _aggregated(
    rule: Rule, updates: Updates, rng: np.random.Generator, extra: Vector | None, judged: Updates | None
) -> Aggregate:
    finite = np.isfinite(squared_norms(updates))
    if judged is not None:
        finite &= np.isfinite(squared_norms(judged))
    kept = np.flatnonzero(finite)
    rejected = tuple(int(i) for i in np.flatnonzero(~finite))
    if not len(kept):
        raise ValueError(f"none of {len(finite)} updates is finite and of a size that can be compared")
    rows = Rows(updates, kept)
    rule = after_rejecting(rule, len(rejected), len(kept))

    if of_gram(rule):
        used = _used_by(rule, rows if judged is None else Rows(judged, kept), rng, extra)
        vector = combination(rows, used.weights[: len(kept)])
        if extra is not None and used.weights[-1] != 0:
            vector += np.float32(used.weights[-1]) * extra
        if used.noise > 0:
            vector += rng.standard_normal(len(vector), dtype=np.float32) * np.float32(used.noise)
        return Aggregate(vector, _spread(used.weights[: len(kept)], finite), rejected)

    if extra is not None or judged is not None:
        raise ValueError(f"{rule} is no function of a Gram matrix and takes neither extra nor judged")
    steps, last = _flattened(rule)
    if steps:
        mixing = mixing_of(steps, gram_of(rows, all(step.shift_invariant for step in steps)), rng)
        rows = Rows(updates, kept, mixing)
    if isinstance(last, CoordinateRule):
        named: CoordinateRule = last

        def combined(block: Block) -> Block:
            return as_vector(named.combine(block), block.shape[1:], named, finite=is_own(named))

        return Aggregate(coordinatewise(rows, combined), None, rejected)
    if isinstance(last, WholeRule):
        return Aggregate(last.combine_all(rows.block(0, rows.length)), None, rejected)
    if isinstance(last, UpdateRule):
        weights = checked_weights(last, last.weigh(rows, rng), len(rows))
        weights = weights if rows.mixing is None else rows.mixing.T @ weights
        return Aggregate(combination(Rows(updates, kept), weights), _spread(weights, finite), rejected)
    raise ValueError(f"{type(last).__name__} is no rule: it has none of weights, weights_with, combine, weigh and combine_all")


@dataclass(frozen=True, slots=True, eq=False)
class _Used:
    weights: Matrix
    noise: float


def _used_by(rule: Rule, rows: Rows, rng: np.random.Generator, extra: Vector | None) -> _Used:
    """The weights of a Gram rule, and the noise that it asks for."""
    n = len(rows)
    if extra is not None:
        if not isinstance(rule, ExtraRowRule):
            raise ValueError(f"{rule} takes no extra vector")
        if not np.isfinite(squared_norms([extra])[0]):
            raise ValueError("the extra vector is not finite, or too large to compare")
        together = [*(rows.updates[int(i)] for i in rows.kept), extra]
        gram = gram_of(Rows(together, np.arange(n + 1)), centre=False)
        weights = rule.weights_with(gram, rng)
        gram = gram[:n, :n]
    elif isinstance(rule, GramRule):
        gram = np.zeros((n, n)) if rule.sees == Sight.SUM else gram_of(rows, centre=rule.shift_invariant)
        weights = checked_weights(rule, rule.weights(gram, rng), n)
    else:
        raise ValueError(f"{rule} needs an extra vector; give the root update as extra")
    last = _flattened(rule)[1]
    return _Used(weights, last.noise_std(gram) if isinstance(last, Noisy) else 0.0)


def _flattened(rule: Rule) -> tuple[tuple[Step, ...], Rule]:
    """All steps before the last rule, in order, and that rule."""
    if not isinstance(rule, Prepared):
        return (), rule
    steps, last = _flattened(rule.rule)
    return (*rule.steps, *steps), last


def _spread(weights: Matrix, finite: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Matrix:
    """The weights at their places among all updates."""
    spread = np.zeros(len(finite))
    spread[finite] = weights
    return spread


def _check(updates: Updates, extra: Vector | None, judged: Updates | None) -> None:
    if len(updates) == 0:
        raise ValueError("there are no updates to aggregate")
    if judged is not None and len(judged) != len(updates):
        raise ValueError(f"{len(judged)} judged vectors for {len(updates)} updates; give one for each")
    for name, vectors in (("updates", updates), ("judged", updates if judged is None else judged)):
        kinds = {(x.shape, x.dtype.name) for x in vectors}
        if len(kinds) > 1 or kinds != {((len(vectors[0]),), "float32")}:
            raise ValueError(f"{name} are float32 vectors of one length, not {sorted(kinds)}")
    if extra is not None and (extra.dtype != np.float32 or extra.shape != np.shape(updates[0])):
        raise ValueError(f"extra is a float32 vector as long as an update, not {extra.dtype} of shape {extra.shape}")
