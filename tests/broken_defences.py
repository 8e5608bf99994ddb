"""Defences with one known flaw each, for a search to find: what published and earlier defences did, made small.

- `GuardThatDrops`: who is far longer than the median of all norms is dropped, so that a majority with short uploads drops the
  loyal ones. Otherwise it keeps those that agree with one client that it trusts, whatever the majority says.
- FLIC groups clients once: who was honest until then stays with the loyal ones.
- RFA stops after three of Weiszfeld's steps from the mean, which one long upload carries away.
- Multi-Krum keeps what is close to others: uploads that are alike, and a little against the mean, are.
- `PluralityVote`: all clients go on from the model that most of them say serves them best, an earlier one if need be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from cloister.fl.algorithms.algorithm import Cluster, Start, advanced, mean_of
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.rule import Matrix, Sight, uniform_on
from cloister.fl.robust.weiszfeld import RFA
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.protocol.view.answers import Assignment, Model, Remembered
from cloister.protocol.view.functionality import Functionality
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.evaluation import Evaluation
from cloister.threat_models.membership import Pool
from cloister.threat_models.simple_attacks import MinusGradient

SEEDS, MAJORITY = (11, 12, 13), 12


def loyal_in_all() -> int:
    """A client that is in no majority of these seeds."""
    members = [Pool(MAJORITY).everyone(range(20), seed) for seed in SEEDS]
    return next(i for i in range(20) if not any(i in of for of in members))


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


@dataclass(frozen=True)
class Voted:
    round: int
    clusters: Mapping[str, Cluster]
    before: Model

    @property
    def models(self) -> Sequence[Model]:
        return [self.clusters["0"].model, self.before]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return []


@dataclass(frozen=True)
class PluralityVote:
    """FedAvg, in which all clients choose, every few rounds, between the model and what it was at the last vote."""

    every: int = 4
    needs: ClassVar[frozenset[Functionality]] = frozenset({Functionality.SUMS, Functionality.CHOICE})

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> Voted:
        return Voted(0, {"0": Cluster(start.clients, start.model)}, start.model)

    def round(self, state: Voted, view, rng, /) -> Voted:  # type: ignore[no-untyped-def]
        cluster = state.clusters["0"]
        updates = view.train(state.round, {"0": Assignment(cluster.model, cluster.members, cluster.members)})["0"]
        means = view.sums(updates, {"0": mean_of(cluster.members, False)})
        cluster, before = advanced(view, cluster, means.get("0")), state.before
        if (state.round + 1) % self.every == 0:
            offered = {"now": cluster.model, "before": before}
            chosen = list(view.choose(state.round, offered, cluster.members).values())
            if chosen.count("before") > chosen.count("now"):
                cluster = replace(cluster, model=before)
            before = cluster.model
        return Voted(state.round + 1, {"0": cluster}, before)


evaluation = Evaluation(
    name="broken",
    scenario=Scenario(
        name="digits", data=Digits(), partition=Iid(clients=20, samples=60, shared_test=True), model=Mlp(hidden=(16,)),
        training=Training(epochs=2, batch=10, lr=0.2), algorithm=FLIC(rounds_before=5), protection=Plain(), rounds=16,
        seed=SEEDS[0],
    ),
    attacks={"minus": lambda count: Adversary(members=Pool(int(count)), upload=MinusGradient())},
    defences={
        "guard that drops": RobustFedAvg(rule=GuardThatDrops(loyal_in_all())),
        "grouped once": FLIC(rounds_before=5),
        "three steps": RobustFedAvg(rule=RFA()),
        "Multi-Krum": RobustFedAvg(rule=MultiKrum(6)),
        "plurality vote": PluralityVote(),
    },
    strengths=(6,),
    seeds=SEEDS,
)  # fmt: skip
