"""Federated averaging with a robust rule in the place of the mean.

The limits of `robust_sum` hold. ClippedClustering, FoolsGold and centred clipping carry something from round to round where
they stand alone, not behind steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...protocol.view.answers import Assignment, Gram, Model, Remembered
from ...protocol.view.functionality import Functionality
from ..clients.training import Training
from ..clustering.separation import cosine_similarity, norm_of_combination, norms
from ..robust.clustering import ClippedClustering
from ..robust.function import as_rule
from ..robust.rule import Rule, Sight
from ..robust.smoothing import CRFL
from ..robust.weiszfeld import CenteredClipping
from .algorithm import Cluster, Flat, Measured, Start
from .cohorts import Sampling, check_participation, check_sampling, invited
from .robust_sum import Outcome, RobustSum, RobustView, check_answerable, functionalities, robust_sum
from .rule_history import Past, carries

ALL = "0"


@dataclass(frozen=True, slots=True)
class State(Flat):
    """What the next round needs.

    history: norms that ClippedClustering has seen. past: what FoolsGold or centred clipping carries; before: of the latter, the
    model before its last movement. outcome, measured: of the last round, for the record.
    """

    round: int
    clusters: Mapping[str, Cluster]
    history: tuple[float, ...] = ()
    past: Past = field(default_factory=Past)
    before: Model | None = None
    outcome: Outcome | None = field(default=None, compare=False)
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def models(self) -> Sequence[Model]:
        current = [cluster.model for cluster in self.clusters.values()]
        return current if self.before is None else [*current, self.before]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return [] if self.past.kept is None else [self.past.kept]


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustFedAvg:
    """One model for all, moved by the rule's result in every round; where there is none it stays, and `outcome` says why.

    rule: any rule of cloister.fl.robust, or a function of all updates, float32 (n, d), to one vector (d,). participation: share
    sampled a round. root: the client whose update FLTrust trusts. memory: FoolsGold judges clients by their mean cosines over
    the rounds so far, and centred clipping starts from the last result, which takes a protection that compares updates of
    different rounds; without memory they look at the round alone. smoothing: CRFL clips the model after every round and blurs
    it; its T is the number of rounds. Clients are scored on the model itself; `CRFL.vote` gives the votes of blurred copies and
    `CRFL.certified_radius` what they certify.
    """

    rule: Rule
    participation: float = 1.0
    sampling: Sampling = "cohorts"
    root: int | None = None
    memory: bool = True
    smoothing: CRFL | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", as_rule(self.rule))
        check_participation(self.participation)
        check_sampling(self.sampling)
        check_answerable(self.rule, self.root)
        if self.smoothing is not None and self._looks_back and isinstance(self.rule, CenteredClipping):
            raise ValueError("CRFL changes what centred clipping carries to the next round; use memory=False")

    @property
    def _looks_back(self) -> bool:
        return self.memory and self.root is None and carries(self.rule)

    @property
    def needs(self) -> frozenset[Functionality]:
        needs = functionalities(self.rule, self._looks_back)
        return needs if self.smoothing is None else needs | {Functionality.REVISION}

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> State:
        if self.root is not None and self.root not in start.clients:
            raise ValueError(f"the root data are held by client {self.root}, who is not in the run")
        return State(0, {ALL: Cluster(start.clients, start.model, seed=start.seed)})

    def round(self, state: State, view: RobustView, rng: np.random.Generator, /) -> State:
        """Clients train; the view answers what the rule must see; the model moves by what the rule made of it."""
        cluster = state.clusters[ALL]
        there = invited(cluster, state.round, self.participation, self.sampling, rng, view.least)
        if self.root is not None:
            there = tuple(sorted({*there, self.root}))
        faults = len(view.record.faults)
        updates = view.train(state.round, {ALL: Assignment(cluster.model, there, cluster.members)}).get(ALL)
        following = replace(state, round=state.round + 1, measured={})
        if updates is None:
            return replace(following, outcome=Outcome({}, "no client's update could be used"))
        rule, back = self._rule(state), self._looks_back
        found = robust_sum(view, updates, rule, rng, faults=faults, root=self.root, looks_back=back, past=state.past)
        moved = self._smoothed(found.moved(view, cluster.model, rng, state.before), view, state.round + 1, rng)
        steps_on = back and isinstance(rule, CenteredClipping) and found.answer is not None
        return replace(
            following,
            clusters={ALL: replace(cluster, model=moved)},
            history=state.history + self._norms(found.gram),
            past=found.past,
            before=cluster.model if steps_on else state.before,
            outcome=found.outcome,
            measured=self._measured(found),
        )

    def _smoothed(self, model: Model, view: RobustView, t: int, rng: np.random.Generator) -> Model:
        smoothing = self.smoothing
        return model if smoothing is None else view.revise(model, lambda vector: smoothing.after_round(vector, t, rng))

    def _rule(self, state: State) -> Rule:
        if isinstance(self.rule, ClippedClustering):
            return replace(self.rule, history=(*self.rule.history, *state.history))
        return self.rule

    def _norms(self, gram: Gram | None) -> tuple[float, ...]:
        if isinstance(self.rule, ClippedClustering) and gram is not None:
            return ClippedClustering().after(gram.matrix).history
        return ()

    def _measured(self, found: RobustSum) -> dict[str, Measured]:
        """Norms and cosines of the round, if the rule sees cosines; without norms of updates if it sees differences alone."""
        gram = found.gram
        if gram is None or not gram.clients or self.rule.sees < Sight.GRAM:
            return {}
        cosines = cosine_similarity(gram.matrix)
        if found.centred:
            mean = None if found.answer is None else found.answer.norm
            return {ALL: Measured(mean, None, gram.clients, cosines, centred=True)}
        weights = [found.outcome.weights.get(i, 0.0) for i in gram.clients]
        return {ALL: Measured(norm_of_combination(gram.matrix, weights), float(norms(gram.matrix).max()), gram.clients, cosines)}
