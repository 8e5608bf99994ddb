"""FPFC: clustered federated learning by a penalty on the differences of all pairs of models (Yu, Liu, Sun, Wang, AAAI 2023).

min sum_i f_i(w_i) + 1/(2m) sum_ij g(|w_i - w_j|, lambda). Line numbers are Algorithm 1's. Every client keeps a model w_i of its
own. The server splits the penalty from the losses: theta_ij stands for w_i - w_j, v_ij holds the two together, and zeta_i is
where all pairs of client i pull it. Only after K rounds clients are grouped, those with |theta_ij| <= nu.

Where paper and authors' code differ or are silent, this is what happens:
- Line 5 says what becomes of pairs of two active clients, and of two absent ones. A pair of an active and an absent client is
  updated, with the absent one's last model (`mixed`), as in the code; or, on request, kept. Each pair once a round: the code
  updates the dual of a pair of two active clients twice.
- Clusters are the connected components of |theta_ij| <= nu; the code takes the lists of each client's near ones, of which some
  overlap. A client that never took part is near to nobody: its theta_ij = 0 says nothing.
- The common start w_i^0 is the scenario's model (`SoftmaxRegression`: zero, or N(0, 1) as in the code). First gradients from far
  away part clients of one group beyond a lambda, where the penalty has no force any more; so zero is the better start.
- Theorem 1 asks for rho > 2 lambda / xi; rho = 1 with lambda = 0.6, xi = 0.001 is the code's, and far from it. A run's report
  says which of its conditions hold (`conditions`). What the closed form needs, a > 1 + 1 / rho, is checked.
- Whose zeta_i a protection does not tell, because it rests on too few others, is pulled to its own model in that round. A
  cluster whose mean is not published, for the same reason, goes on as single clients with models of their own.
- With lambda = 0 nobody is pulled to others, and each client trains alone; but line 3 pulls every local step to where its round
  began, so that models are LOCAL's only where a round is one step.
- After K rounds nothing changes any more, unless `refine` asks for federated averaging inside the found clusters: the pull to
  zeta_i is part of what clients minimise, and what they end with is short of what they would reach together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np

from ...protocol.view.answers import Assignment, Model, Remembered, Sum, Updates, Weights
from ...protocol.view.asks import MovesModels, PersonalSums, Sums, Trains
from ...protocol.view.functionality import Functionality
from ...protocol.view.fusion import Fuses
from ..clients.training import Training
from ..clustering.fusion import L1, Penalty, Scad, Values, components
from ..clustering.fusion_theory import Condition, theorem_1
from .algorithm import Cluster, Flat, Measured, Start, check_counts, moved
from .cohorts import Sampling, check_participation, check_sampling, invited
from .fedavg import Averaging

ALL = "all"
"""The cluster that all clients' work is named by."""


class FpfcView(Trains, Fuses, PersonalSums, Sums, MovesModels, Protocol):
    """What FPFC asks for. Of personal sums no sum: that clients keep models of their own. Sums only to refine."""


@dataclass(frozen=True, slots=True)
class State(Flat):
    """everyone: all clients, and w^0. clusters: each client's w_i until they are grouped, then the groups with their alpha_l.

    fused: the handle on all w_i, theta_ij and v_ij; None before anybody trained, and once they are grouped.
    """

    round: int
    everyone: Cluster
    clusters: Mapping[str, Cluster]
    fused: Remembered | None = None
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def models(self) -> Sequence[Model]:
        return [self.everyone.model, *(cluster.model for cluster in self.clusters.values())]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return [] if self.fused is None else [self.fused]


@dataclass(frozen=True, slots=True, kw_only=True)
class FPFC:
    """rounds: K. penalty: g, `Scad` or, for FPFC-l1, `L1`. rho: of the splitting. nu: clients are grouped up to this |theta_ij|.

    participation: share that takes part in a round. sampling: which; the server holds every model as it is told, so that fixed
    cohorts would hide nothing, and pairs would be of the same clients. mixed: whether pairs of an active and an absent client are
    updated. by_samples: alpha_l by n_i, as printed, or uniform. trace: look for clusters in every round, for the record.
    refine: rounds after K are of federated averaging inside each cluster of two or more, without the pull.
    """

    starts_apart: ClassVar[bool] = True

    rounds: int
    penalty: Penalty = field(default_factory=lambda: Scad(lam=0.6))
    rho: float = 1.0
    nu: float = 0.1
    participation: float = 1.0
    sampling: Sampling = "random"
    mixed: bool = True
    by_samples: bool = True
    trace: bool = False
    refine: bool = False

    def __post_init__(self) -> None:
        check_participation(self.participation)
        check_sampling(self.sampling)
        check_counts(rounds=self.rounds)
        if not (0 < self.rho < np.inf and 0 <= self.nu < np.inf):
            raise ValueError(f"rho is above 0 and nu 0 or more, both finite, not {self.rho} and {self.nu}")
        self.penalty.check(self.rho)

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.FUSION, Functionality.SUMS} if self.refine else {Functionality.FUSION})

    def local(self, training: Training, /) -> Training:
        """Line 3: gradients of f_i(w) + rho/2 |w - zeta_i|^2."""
        return replace(training, prox=self.rho, prox_rounds=self.rounds)

    def conditions(self, training: Training, sizes: Sequence[int], smoothness: float | None, /) -> list[Condition]:
        """Theorem 1's, each held against the run."""
        found = theorem_1(self.penalty, self.rho, training, sizes, smoothness)
        chance = Condition("every client has to take part with some chance in every round", False)
        return [chance, *found] if self.participation < 1 and self.sampling != "random" else found

    def init(self, start: Start, /) -> State:
        everyone = Cluster(start.clients, start.model, seed=start.seed)
        return State(0, everyone, {_name(i): Cluster((i,), start.model) for i in start.clients})

    def round(self, state: State, view: FpfcView, rng: np.random.Generator, /) -> State:
        """Lines 1 to 5; and in the last of K rounds the clusters."""
        if state.round >= self.rounds:
            clusters = self._refined(state, view, rng) if self.refine else state.clusters
            return replace(state, round=state.round + 1, clusters=clusters, measured={})
        active = invited(state.everyone, state.round, self.participation, self.sampling, rng, view.least)  # line 1
        updates = self._trained(state, view, active)  # lines 2-4
        clusters = {**state.clusters}
        fused = state.fused
        own = {} if updates is None else view.own_models(updates)
        if updates is not None and own:  # what is fused is what clients say that they go on from
            heard = replace(updates, clients=tuple(sorted(own)))
            fused = view.fuse(heard, state.everyone.members, self._shrink, fused, both=not self.mixed)  # line 5
            clusters |= {_name(i): Cluster((i,), model) for i, model in own.items()}
        following = replace(state, round=state.round + 1, clusters=clusters, fused=fused, measured={})
        last = following.round == self.rounds
        if fused is None or not (last or self.trace):
            return following
        distances = view.distances(state.round, fused)
        found = components(distances, state.everyone.members, self.nu)
        seen = Measured(None, None, state.everyone.members, communities=found, distances=distances, joins=self.nu)
        following = replace(following, measured={ALL: seen})
        return self._grouped(following, view, fused, found) if last else following

    def _trained(self, state: State, view: FpfcView, active: tuple[int, ...]) -> Updates | None:
        """Lines 2 to 4: each active client gets zeta_i and trains from w_i; what it sends is w_i - w^0."""
        start, members = state.everyone.model, state.everyone.members
        told = view.pulls(state.round, state.fused, active) if state.fused is not None else {}
        answers = {i: moved(view, start, pull) for i, pull in told.items() if isinstance(pull, Sum)}
        zeta = {i: model for i, model in answers.items() if model is not None}
        active = tuple(i for i in active if i in zeta or i not in answers)  # who does not answer is absent
        if not active:
            return None
        own = {i: state.clusters[_name(i)].model for i in active}
        work = Assignment(start, active, members, own=own, toward=zeta)
        return view.train(state.round, {ALL: work}).get(ALL)

    def _refined(self, state: State, view: FpfcView, rng: np.random.Generator) -> Mapping[str, Cluster]:
        """A round of federated averaging inside each cluster; clients that are alone keep what they have."""
        how = Averaging(participation=self.participation, by_samples=self.by_samples, sampling=self.sampling)
        shared = {name: cluster for name, cluster in state.clusters.items() if len(cluster.members) > 1}
        return {**state.clusters, **how.averaged(state.round, shared, view, rng)} if shared else state.clusters

    def _shrink(self, distances: Values) -> Values:
        return self.penalty.shrink(distances, self.rho)

    def _grouped(self, state: State, view: FpfcView, fused: Remembered, found: Sequence[tuple[int, ...]]) -> State:
        """The clusters G_l with alpha_l = sum n_i w_i / sum n_i over their members."""
        groups = {f"cluster {k}": group for k, group in enumerate((group for group in found if len(group) > 1), 1)}
        weights = {name: Weights(dict.fromkeys(group, 1.0), times_samples=self.by_samples) for name, group in groups.items()}
        means = view.last_means(state.round - 1, fused, weights)
        clusters = {**state.clusters}
        for name, group in groups.items():
            if (model := moved(view, state.everyone.model, means[name])) is not None:
                clusters = {each: c for each, c in clusters.items() if c.members[0] not in group}
                clusters[name] = Cluster(group, model, state.round)
        return replace(state, clusters=clusters, fused=None)


def l1(rounds: int, lam: float, nu: float, participation: float = 1.0) -> FPFC:
    """FPFC-l1, the paper's variant with the convex penalty lambda t."""
    return FPFC(rounds=rounds, penalty=L1(lam=lam), nu=nu, participation=participation)


def _name(client: int) -> str:
    return f"client {client}"
