"""Eight of twenty clients upload the opposite of what they learned; a server that sees no update finds out who they are.

Five clients are sampled a round, so that attackers have the majority in every third one. No median survives that: what it has
learned is lost in such rounds, and comes back or not with the luck of the draw. The hardened FLIC parts clients whose updates
work against each other and trains each part alone: the attackers end among themselves, and the loyal clients are served as if
there had been no attack. The first table is with all updates in clear, the second under secure aggregation, where the server
learns sums and noisy similarities. The coordinate-wise median is refused there, because it needs single
coordinates of all updates; the geometric median follows from similarities and a weighted sum, and runs.

    python examples/minus_gradient.py                 # handwritten digits, no file, under a minute; --seed 1 for another draw
    cloister run examples/minus_gradient.py           # the run under secure aggregation, with its report
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cloister.fl.algorithms.algorithm import Algorithm
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.coordinates import Median
from cloister.fl.robust.weiszfeld import GeometricMedian
from cloister.fl.runs.lost_round import NothingLearned
from cloister.fl.runs.metrics import purity
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol import Masked, Plain
from cloister.protocol.core.errors import Refused
from cloister.protocol.view.protection import Protection
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.membership import Pool
from cloister.threat_models.simple_attacks import MinusGradient

ALGORITHMS: dict[str, Algorithm] = {
    "FedAvg": FedAvg(participation=0.25, sampling="random"),
    "median": RobustFedAvg(rule=Median(), participation=0.25, sampling="random"),
    "geometric median": RobustFedAvg(rule=GeometricMedian(), participation=0.25, sampling="random"),
    "hardened FLIC": HardenedFLIC(rounds_before=4, every=8, participation=0.25, least=5),
}
PROTECTIONS: dict[str, Protection] = {"updates in clear": Plain(), "secure aggregation": Masked(sketch=1024)}
"""Of five updates three may point against two: where the three are left out, two are below the floor, and the model stays."""
LAST = 10
"""Evaluations, one every four rounds, that a run is judged by."""

scenario = Scenario(
    name="minus gradient",
    data=Digits(),
    partition=Iid(clients=20, shared_test=True),
    model=Mlp(hidden=(64, 64)),
    training=Training(epochs=3, batch=10, lr=0.05, momentum=0.9),
    algorithm=ALGORITHMS["hardened FLIC"],
    protection=PROTECTIONS["secure aggregation"],
    rounds=76,
    evaluate_every=4,
    adversary=Adversary(members=Pool(8), upload=MinusGradient()),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How loyal clients fared in the last evaluations, and how the clients that a model is made of were grouped in the end.

    loyal, worst: mean of their accuracy over these evaluations, and the least. purity: share of clients that are grouped with
    their kind alone. isolated: share of attackers without a loyal client beside.
    """

    loyal: float
    worst: float
    purity: float
    isolated: float


def outcome(value: Scenario, folder: Path | None = None, last: int = LAST) -> Outcome:
    """Play the scenario's rounds and judge the `last` evaluations; a loyal client without a model counts 0.

    Where no update can be used any more (ten rounds in a row are lost, or everybody sends what cannot be summed) the model stays.
    """
    simulation = Simulation(value, folder)
    attackers = frozenset() if simulation.corrupted is None else simulation.corrupted.members
    loyal = [i for i in simulation.population.clients if i not in attackers]
    curve: list[float] = []
    for due in range(value.evaluate_every, value.rounds + 1, value.evaluate_every):
        try:
            while simulation.state.round < due:
                simulation.step()
        except NothingLearned:
            pass
        scores = simulation.evaluate()
        curve.append(float(np.mean([scores[i].accuracy if i in scores else 0.0 for i in loyal])))
    state = simulation.state
    made_by: Any = getattr(state, "contributors", {name: c.members for name, c in state.clusters.items()})
    groups = list(made_by.values())
    alone = [i for group in groups if attackers >= set(group) for i in group]
    return Outcome(
        loyal=float(np.mean(curve[-last:])),
        worst=min(curve[-last:]),
        purity=purity(groups, {i: int(i in attackers) for group in groups for i in group}),
        isolated=len(alone) / len(attackers) if attackers else 1.0,
    )


def main() -> None:
    """Print how loyal clients fare under every algorithm and protection, beside a run without an attack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for title, protection in PROTECTIONS.items():
        clean = replace(scenario, algorithm=ALGORITHMS["FedAvg"], protection=protection, adversary=None, seed=arguments.seed)
        free = outcome(clean)
        print(f"{title}\n  {'no attack':<17} {free.loyal:.3f}, at worst {free.worst:.3f}", flush=True)
        for name, algorithm in ALGORITHMS.items():
            try:
                found = outcome(replace(scenario, algorithm=algorithm, protection=protection, seed=arguments.seed))
            except Refused as refused:
                print(f"  {name:<17} refused: {str(refused).split(',')[0]}, which Masked does not give", flush=True)
                continue
            groups = f"purity {found.purity:.2f}, {found.isolated:.0%} of attackers isolated"
            print(f"  {name:<17} {found.loyal:.3f}, at worst {found.worst:.3f}; {groups}", flush=True)


if __name__ == "__main__":
    main()
