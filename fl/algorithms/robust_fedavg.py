"""Federated averaging with a robust rule in the place of the mean, asking the view for no more than the rule must see.

A rule of the Gram matrix is one Gram matrix and one weighted sum; a rule of coordinates is one order statistic. What a view
cannot do today sets the limits:
- Centred clipping starts from zero, because no view puts an earlier result into the Gram matrix.
- FoolsGold judges the round's updates alone, the paper's variant without memory.
- FLTrust's root update is that of a client: whoever holds the root data takes part as client `root` in every round.
- No view adds noise to a model: rules that ask for noise are refused here.
- Steps with shortened updates, such as ARC, need a view whose `advance` takes a step.

Whenever nothing can be published, because the rule does not stand its f of those who answered, trusts nobody, or rests on
fewer clients than the protection's floor (Krum's one-hot weights always do), the model stays as it is and the state says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...protocol.answers import Assignment, BelowFloor, Functionality, Model, Remembered, Sum, Updates, Vector, Weights
from ...protocol.errors import Refused
from ...protocol.view import ServerView
from ..robust.aggregate import aggregate
from ..robust.clustering import ClippedClustering
from ..robust.mixing import Mixed, of_gram
from ..robust.rule import Block, ExtraRowRule, GramRule, Matrix, Noisy, Rule, Sight
from ..separation import cosine_similarity, norm_of_combination, norms
from ..training import Training
from .algorithm import Cluster, Measured, Start, check_participation, sample
from .parameter_tree import Node

ALL = "0"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a round. weights: of every client that answered, empty for rules of coordinates.

    unmoved: why the model stayed as it was, or empty.
    """

    weights: Mapping[int, float]
    unmoved: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """history: norms that ClippedClustering has seen. outcome, measured: of the last round, for the record."""

    round: int
    clusters: Mapping[str, Cluster]
    history: tuple[float, ...] = ()
    outcome: Outcome | None = field(default=None, compare=False)
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def tree(self) -> Mapping[str, Node]:
        return {}

    @property
    def models(self) -> Sequence[Model]:
        return [cluster.model for cluster in self.clusters.values()]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustFedAvg:
    """One model for all, moved by the rule's result in every round.

    rule: any rule of cloister.fl.robust. participation: share sampled a round. root: the client whose update FLTrust trusts.
    """

    rule: Rule
    participation: float = 1.0
    root: int | None = None

    def __post_init__(self) -> None:
        check_participation(self.participation)
        last = self.rule
        while isinstance(last, Mixed):
            last = last.rule
        if isinstance(last, Noisy) and last.noise_std(np.eye(1)) > 0:
            raise ValueError(f"no view adds noise to a model, so {last} must do without")
        if self.root is None and of_gram(self.rule) and not isinstance(last, GramRule):
            raise ValueError(f"{last} needs a root update; name the client that holds the root data as root")
        if self.root is not None and not isinstance(last, ExtraRowRule):
            raise ValueError(f"{last} takes no root update; leave root out")

    @property
    def needs(self) -> frozenset[Functionality]:
        if not of_gram(self.rule):
            return frozenset({Functionality.COORDINATES})
        return frozenset({Functionality.SUMS} if self.rule.sees == Sight.SUM else {Functionality.SUMS, Functionality.GRAM})

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> State:
        if self.root is not None and self.root not in start.clients:
            raise ValueError(f"the root data are held by client {self.root}, who is not in the run")
        return State(0, {ALL: Cluster(start.clients, start.model)})

    def round(self, state: State, view: ServerView, rng: np.random.Generator, /) -> State:
        """Clients train; the view answers what the rule must see; the model moves by what the rule made of it."""
        cluster = state.clusters[ALL]
        invited = sample(cluster.members, self.participation, rng)
        if self.root is not None:
            invited = tuple(sorted({*invited, self.root}))
        updates = view.train(state.round, {ALL: Assignment(cluster.model, invited, cluster.members)}).get(ALL)
        following = replace(state, round=state.round + 1, outcome=None, measured={})
        if updates is None:
            return replace(following, outcome=Outcome({}, "no client's update could be used"))
        if of_gram(self.rule):
            return self._by_gram(following, view, updates, rng)
        return self._by_coordinates(following, view, updates, rng)

    def _by_gram(self, state: State, view: ServerView, updates: Updates, rng: np.random.Generator) -> State:
        n = len(updates.clients)
        gram = view.gram(updates).matrix if self.rule.sees > Sight.SUM else np.zeros((n, n))
        try:
            weights = self._weights(state, gram, updates, rng)
        except ValueError as error:
            return replace(state, outcome=Outcome({}, str(error)))
        if isinstance(self.rule, ClippedClustering):
            state = replace(state, history=self.rule.after(gram).history[len(self.rule.history) :] + state.history)
        if self.rule.sees == Sight.GRAM:
            seen = Measured(
                norm_of_combination(gram, weights), float(norms(gram).max()), updates.clients, cosine_similarity(gram)
            )
            state = replace(state, measured={ALL: seen})
        of = {i: float(w) for i, w in zip(updates.clients, weights, strict=True)}
        asked = Weights({i: w for i, w in of.items() if w != 0})
        if not asked.of:
            return replace(state, outcome=Outcome(of, f"{type(self.rule).__name__} trusts nobody"))
        try:
            answer = view.sums(updates, {ALL: asked})[ALL]
        except Refused as error:
            return replace(state, outcome=Outcome(of, str(error)))
        return _moved(state, view, of, answer, float(weights.sum()))

    def _weights(self, state: State, gram: Matrix, updates: Updates, rng: np.random.Generator) -> Matrix:
        """The rule's weights in the order of those who answered. Raises ValueError where it cannot give any."""
        rule = self.rule
        if isinstance(rule, ClippedClustering):
            rule = replace(rule, history=(*rule.history, *state.history))
        if self.root is None:
            if not isinstance(rule, GramRule):
                raise ValueError(f"{rule} needs a root update")
            return rule.weights(gram, rng)
        if self.root not in updates.clients or not isinstance(rule, ExtraRowRule):
            raise ValueError(f"client {self.root}, who holds the root data, did not answer")
        at = updates.clients.index(self.root)
        order = np.array([*(k for k in range(len(gram)) if k != at), at])
        weights = np.empty(len(gram))
        weights[order] = rule.weights_with(gram[np.ix_(order, order)], rng)
        return weights

    def _by_coordinates(self, state: State, view: ServerView, updates: Updates, rng: np.random.Generator) -> State:
        if self.rule.sees == Sight.UPDATES and view.owner != "server":
            raise Refused(
                f"{type(self.rule).__name__} reads the signs of coordinates, which this protection changes; use Plain()"
            )

        def combine(rows: Block) -> Vector:
            return aggregate(self.rule, rows, rng).vector

        try:
            answer = view.coordinates(updates, ALL, combine)
        except ValueError as error:
            return replace(state, outcome=Outcome({}, str(error)))
        return _moved(state, view, {}, answer, 1.0)


def _moved(state: State, view: ServerView, of: Mapping[int, float], answer: Sum | BelowFloor, step: float) -> State:
    """The state after the view's answer. step: the sum of the weights, so that the model moves by the sum."""
    if isinstance(answer, BelowFloor):
        few = f"a sum over {len(answer.clients)} clients is below the floor of {answer.floor}"
        return replace(state, outcome=Outcome(of, few))
    cluster = state.clusters[ALL]
    whole = abs(step - 1) < 1e-9
    model = view.advance(cluster.model, answer) if whole else view.advance(cluster.model, answer, step=step)
    return replace(state, clusters={ALL: replace(cluster, model=model)}, outcome=Outcome(of))
