"""A robust rule answered by a view: asked for no more than the rule must see, then one published sum.

A rule of the Gram matrix is one Gram matrix and one weighted sum; a rule of coordinates is one order statistic. A rule that is
shift invariant is given inner products of deviations from the mean, which tell nothing about the sum; others those of the
updates. The rule trusts the Gram matrix that the view gives: who can lie about it (a protection says so) can pass it.

What a view cannot do today sets the limits:
- Centred clipping looks back (`rule_history`) only where sums of updates of several rounds are kept and compared. Elsewhere it
  is refused unless it does without, and starts from zero. FoolsGold looks back by numbers that the server keeps.
- FLTrust's root update is that of a client: whoever holds the root data takes part as client `root`, in every round. Who
  controls that client learns the component of every update along what it sends.
- Noise (weak DP, FLAME) is added to the model by its owner, the server: such rules are refused where clients own the models.
- Where weights do not sum to 1 (shortened updates), the model's owner needs an `advance` that takes a step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from ...protocol.core.errors import Refused
from ...protocol.view.answers import BelowFloor, Gram, Model, Sum, Updates, Vector, Weights
from ...protocol.view.asks import Coordinates, Histories, MovesModels, Revises, Similarities, Sums, Trains, View
from ...protocol.view.functionality import Functionality
from ..functions import called
from ..robust.aggregate import aggregate
from ..robust.function import WRITTEN_SO, FunctionRule, checked_weights
from ..robust.mixing import Mixed, of_gram
from ..robust.rejection import after_rejecting
from ..robust.rows import one_thread
from ..robust.rule import Block, ExtraRowRule, GramRule, Matrix, Noisy, Rule, Sight
from ..robust.smoothing import blurred
from .rule_history import Past, RoundWeights, after_publishing, before_weighing, carries, keeps, weighed


class RobustView(Trains, Sums, Similarities, Histories, Coordinates, MovesModels, Revises, View, Protocol):
    """What robust rules ask for; who was rejected, they read on record."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a rule. weights: of every client that answered, empty where the result is no weighted sum, or there is none.

    unmoved: why nothing was published and the model stays as it is, or empty.
    """

    weights: Mapping[int, float]
    unmoved: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class RobustSum:
    """The rule's result as a handle. answer: the published mean, None if there is none. step: the sum of the weights.

    gram: what the server saw, where the rule asked for it; centred: of deviations from the mean. noise: standard deviation that
    the rule adds to each coordinate. past: what a rule that looks back carries. carried: how much of the last result is in this
    one, beside the published mean.
    """

    answer: Sum | None
    step: float
    outcome: Outcome
    gram: Gram | None = field(default=None, repr=False)
    noise: float = 0.0
    past: Past = field(default_factory=Past)
    carried: float = 0.0
    centred: bool = False

    def moved(self, view: RobustView, model: Model, rng: np.random.Generator, before: Model | None = None) -> Model:
        """The model moved by the rule's result, with its noise; the model itself where there is none.

        before: the model before its last movement, where something of that is carried.
        """
        if self.answer is None:
            return model
        if self.carried and before is not None:
            model = view.extrapolate(model, before, self.carried)
        if abs(self.step - 1) < 1e-9:
            model = view.advance(model, self.answer)
        else:
            model = view.advance(model, self.answer, step=self.step)
        return view.revise(model, lambda vector: blurred(vector, self.noise, rng)) if self.noise > 0 else model


def functionalities(rule: Rule, looks_back: bool = False) -> frozenset[Functionality]:
    """What a view must give for the rule. looks_back: whether it carries something from round to round, if it is one that can."""
    if not of_gram(rule):
        return frozenset({Functionality.COORDINATES})
    compared = Functionality.GRAM if differences_are_enough(rule) else Functionality.GRAM_ORIGIN
    needs = {Functionality.SUMS} if rule.sees == Sight.SUM else {Functionality.SUMS, compared}
    needs |= {Functionality.GRAM_HISTORY} if looks_back and keeps(rule) else set()
    return frozenset(needs | {Functionality.REVISION} if noise_of(rule, np.eye(1)) > 0 else needs)


def differences_are_enough(rule: Rule) -> bool:
    """Whether the rule needs inner products of deviations from the mean alone."""
    return isinstance(rule, GramRule) and rule.shift_invariant


def check_answerable(rule: Rule, root: int | None) -> None:
    """Raise ValueError for a rule that no view can answer: one that lacks or does not take a root update."""
    last = innermost(rule)
    if root is None and of_gram(rule) and not isinstance(last, GramRule):
        raise ValueError(f"{last} needs a root update; name the client that holds the root data as root")
    if root is not None and not isinstance(last, ExtraRowRule):
        raise ValueError(f"{last} takes no root update; leave root out")


def innermost(rule: Rule) -> Rule:
    """The rule behind all steps."""
    while isinstance(rule, Mixed):
        rule = rule.rule
    return rule


def noise_of(rule: Rule, gram: Matrix) -> float:
    """Standard deviation of the noise that the rule adds to each coordinate of its result on these updates."""
    last = innermost(rule)
    return last.noise_std(gram) if isinstance(last, Noisy) else 0.0


def robust_sum(
    view: RobustView,
    updates: Updates,
    rule: Rule,
    rng: np.random.Generator,
    *,
    faults: int,
    root: int | None = None,
    looks_back: bool = False,
    past: Past = Past(),
) -> RobustSum:
    """The rule's result on these updates, published under the name of their cluster.

    looks_back, past: whether a rule that can looks back beyond the round, and what it carries from the rounds before.

    faults: how many the view had on record before these updates were asked for. A client whose vector was rejected since counts
    among the f faulty ones that the rule stands (`after_rejecting`); one that did not answer may be honest, and does not.
    Nothing is published, and the outcome says why, where the rule does not stand its f of those who answered, trusts nobody,
    rests on fewer clients than the protection's floor (Krum's one-hot weights always do), or the view refuses the sum.
    Raises Refused for a rule of whole updates where the server does not see them.
    """
    if not of_gram(rule):
        return _by_coordinates(view, updates, rule, rng, faults)
    return _by_gram(view, updates, rule, rng, faults, root, looks_back and carries(rule), past)


def _by_gram(
    view: RobustView,
    updates: Updates,
    rule: Rule,
    rng: np.random.Generator,
    faults: int,
    root: int | None,
    looks_back: bool,
    past: Past,
) -> RobustSum:
    found = _weighed_sum(view, updates, rule, rng, faults, root, looks_back, past)
    return replace(found, centred=differences_are_enough(rule))


def _weighed_sum(
    view: RobustView,
    updates: Updates,
    rule: Rule,
    rng: np.random.Generator,
    faults: int,
    root: int | None,
    looks_back: bool,
    past: Past,
) -> RobustSum:
    origin = not differences_are_enough(rule)
    gram = view.gram(updates, origin=origin) if rule.sees > Sight.SUM else None
    clients = updates.clients if gram is None else gram.clients  # who cannot be compared is not in the sum
    if not clients:
        return RobustSum(None, 0.0, Outcome({}, "no client's update could be compared"), gram, past=past)
    n = len(clients)
    rule = after_rejecting(rule, _rejected(view, faults, updates, clients), n)
    these = replace(updates, clients=clients)
    try:
        past = before_weighing(rule, gram, past) if looks_back and gram is not None else past
        with one_thread():
            if looks_back and gram is not None:
                found = weighed(rule, view, these, gram, past, rng)
            else:
                found = RoundWeights(_weights(rule, np.zeros((n, n)) if gram is None else gram.matrix, clients, rng, root))
    except ValueError as error:
        return RobustSum(None, 0.0, Outcome({}, str(error)), gram, past=past)
    of = dict(zip(clients, found.weights.tolist(), strict=True))
    published = replace(_asked(view, updates, rule, of, gram), past=past)
    if published.answer is None:
        return published
    noise = noise_of(rule, np.zeros((n, n)) if gram is None else gram.matrix)
    if looks_back:
        past = after_publishing(rule, view, these, past, published.answer, of, found.carried)
    return replace(published, noise=noise, past=past, carried=found.carried)


def _asked(view: RobustView, updates: Updates, rule: Rule, of: Mapping[int, float], gram: Gram | None) -> RobustSum:
    """The sum with these weights, if it may be published."""
    asked = Weights({i: w for i, w in of.items() if w != 0})
    if not asked.of:
        return RobustSum(None, 0.0, Outcome(of, f"{type(rule).__name__} trusts nobody"), gram)
    try:
        answer = view.sums(updates, {updates.cluster: asked})[updates.cluster]
    except Refused as error:
        return RobustSum(None, 0.0, Outcome(of, str(error)), gram)
    return _published(answer, sum(of.values()), of, gram)


def _rejected(view: RobustView, faults: int, updates: Updates, clients: tuple[int, ...]) -> int:
    """How many of the updates' members, beside these clients, had a vector rejected since there were so many faults."""
    blamed = {fault.blame for fault in view.record.faults[faults:] if fault.rejected}
    return len((blamed & set(updates.members)) - set(clients))


def _weights(rule: Rule, gram: Matrix, clients: tuple[int, ...], rng: np.random.Generator, root: int | None) -> Matrix:
    """The rule's weights in the order of these clients. Raises ValueError where it cannot give any."""
    if root is None:
        if not isinstance(rule, GramRule):
            raise ValueError(f"{rule} needs a root update")
        return checked_weights(rule, rule.weights(gram, rng), len(gram))
    if root not in clients or not isinstance(rule, ExtraRowRule):
        raise ValueError(f"client {root}, who holds the root data, did not answer")
    at = clients.index(root)
    order = np.array([*(k for k in range(len(gram)) if k != at), at])
    weights = np.empty(len(gram))
    weights[order] = rule.weights_with(gram[np.ix_(order, order)], rng)
    return weights


def _by_coordinates(view: RobustView, updates: Updates, rule: Rule, rng: np.random.Generator, faults: int) -> RobustSum:
    if rule.sees == Sight.UPDATES and view.owner != "server":
        last = innermost(rule)
        if isinstance(last, FunctionRule):
            raise Refused(
                f"{called(last.function)} reads whole updates, which this protection changes; use Plain(), or {WRITTEN_SO}"
            )
        raise Refused(f"{type(rule).__name__} reads the signs of coordinates, which this protection changes; use Plain()")
    lowered = after_rejecting(rule, _rejected(view, faults, updates, updates.clients), len(updates.clients))

    of: dict[int, float] = {}

    def combine(rows: Block) -> Vector:
        found = aggregate(lowered, rows, rng)
        if found.weights is not None:
            of.update(zip(updates.clients, found.weights.tolist(), strict=True))
        return found.vector

    try:
        answer = view.coordinates(updates, updates.cluster, combine)
    except ValueError as error:
        return RobustSum(None, 0.0, Outcome({}, str(error)))
    return _published(answer, 1.0, of, None)


def _published(answer: Sum | BelowFloor, step: float, of: Mapping[int, float], gram: Gram | None) -> RobustSum:
    if isinstance(answer, Sum):
        return RobustSum(answer, step, Outcome(of), gram)
    return RobustSum(None, 0.0, Outcome(of, answer.words), gram)
