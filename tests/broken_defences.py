"""Defences with one known flaw each, for a search to find: what published and earlier defences did, made small.

- `GuardThatDrops`: who is far longer than the median of all norms is dropped, so that a majority with short uploads drops the
  loyal ones. Otherwise it keeps those that agree with one client that it trusts, whatever the majority says.
- `LooksSometimes`: who disagrees with the trusted client, or is far longer, is left out until the next look: it passes pulses.
- `PluralityVote`: sums what it is told to, whoever uploads what; but all clients go on from the model that most of them say
  serves them best, an earlier one if need be.
- RFA stops after three of Weiszfeld's steps from the mean, which one long upload carries away.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from cloister.fl.algorithms.algorithm import Cluster, Flat, Start, advanced, mean_of
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.rule import Matrix, Sight, uniform_on
from cloister.fl.robust.weiszfeld import RFA
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.protocol.view.answers import Assignment, Model
from cloister.protocol.view.functionality import Functionality
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.evaluation import Evaluation
from cloister.threat_models.membership import Pool
from cloister.threat_models.simple_attacks import MinusGradient

SEEDS, MAJORITY = (11, 12, 13), 12


def loyal_in_all() -> tuple[int, ...]:
    """The clients that are in no majority of these seeds."""
    members = [Pool(MAJORITY).everyone(range(20), seed) for seed in SEEDS]
    return tuple(i for i in range(20) if not any(i in of for of in members))


@dataclass(frozen=True)
class GuardThatDrops:
    trusted: int
    guard: float = 3.0
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = False

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        norms = np.sqrt(np.diagonal(gram))
        kept = norms <= self.guard * np.median(norms)
        if kept[self.trusted]:
            kept &= gram[self.trusted] > 0
        return uniform_on(np.flatnonzero(kept), len(gram))


@dataclass(frozen=True, slots=True)
class Doubled(Flat):
    """The state of both doubles. left_out: of who looks; before: the model at the last vote."""

    round: int
    clusters: Mapping[str, Cluster]
    left_out: tuple[int, ...] = ()
    before: Model | None = None
    measured: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def models(self) -> Sequence[Model]:
        current = [self.clusters["0"].model]
        return current if self.before is None else [*current, self.before]


@dataclass(frozen=True)
class LooksSometimes:
    trusted: int
    every: int = 5
    needs: ClassVar[frozenset[Functionality]] = frozenset({Functionality.SUMS, Functionality.GRAM_ORIGIN})

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> Doubled:
        return Doubled(0, {"0": Cluster(start.clients, start.model)})

    def round(self, state: Doubled, view: Any, rng: np.random.Generator, /) -> Doubled:
        cluster, left_out = state.clusters["0"], state.left_out
        updates = view.train(state.round, {"0": Assignment(cluster.model, cluster.members, cluster.members)})["0"]
        if state.round == 0 or (state.round + 1) % self.every == 0:
            gram = view.gram(updates, origin=True)
            of = dict(zip(gram.clients, gram.matrix, strict=True))[self.trusted]
            own = gram.matrix[gram.clients.index(self.trusted), gram.clients.index(self.trusted)]
            long = np.diagonal(gram.matrix) > 9 * own
            left_out = tuple(i for i, inner, far in zip(gram.clients, of, long, strict=True) if inner <= 0 or far)
        kept = tuple(i for i in cluster.members if i not in left_out)
        means = view.sums(updates, {"0": mean_of(kept, False)})
        return Doubled(state.round + 1, {"0": advanced(view, cluster, means.get("0"))}, left_out)


@dataclass(frozen=True)
class PluralityVote:
    summed: tuple[int, ...]
    every: int = 4
    needs: ClassVar[frozenset[Functionality]] = frozenset({Functionality.SUMS, Functionality.CHOICE})

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> Doubled:
        return Doubled(0, {"0": Cluster(start.clients, start.model)}, before=start.model)

    def round(self, state: Doubled, view: Any, rng: np.random.Generator, /) -> Doubled:
        cluster, before = state.clusters["0"], state.before
        updates = view.train(state.round, {"0": Assignment(cluster.model, cluster.members, cluster.members)})["0"]
        means = view.sums(updates, {"0": mean_of(self.summed, False)})
        cluster = advanced(view, cluster, means.get("0"))
        if (state.round + 1) % self.every == 0 and before is not None:
            chosen = list(view.choose(state.round, {"now": cluster.model, "before": before}, cluster.members).values())
            cluster = replace(cluster, model=before) if chosen.count("before") > chosen.count("now") else cluster
            before = cluster.model
        return Doubled(state.round + 1, {"0": cluster}, before=before)


evaluation = Evaluation(
    name="broken",
    scenario=Scenario(
        name="digits", data=Digits(), partition=Iid(clients=20, samples=60, shared_test=True), model=Mlp(hidden=(16,)),
        training=Training(epochs=2, batch=10, lr=0.2), algorithm=FedAvg(), protection=Plain(), rounds=16, seed=SEEDS[0],
    ),
    attacks={"minus": lambda count: Adversary(members=Pool(int(count)), upload=MinusGradient())},
    defences={
        "guard that drops": RobustFedAvg(rule=GuardThatDrops(loyal_in_all()[0])),
        "looks sometimes": LooksSometimes(loyal_in_all()[0]),
        "plurality vote": PluralityVote(loyal_in_all()),
        "three steps": RobustFedAvg(rule=RFA()),
    },
    strengths=(6,),
    seeds=SEEDS,
)  # fmt: skip
