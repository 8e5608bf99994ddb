"""The evaluation of a scenario whose author names none: the strongest attacks, usual rules, data alike and skewed."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...fl.algorithms.fedavg import FedAvg
from ...fl.algorithms.robust_fedavg import RobustFedAvg
from ...fl.data.partition import Dirichlet, Iid, Partition
from ...fl.fields_at_fault import about
from ...fl.robust.coordinates import Median, TrimmedMean
from ...fl.robust.krum import MultiKrum
from ...fl.robust.mixing import NNM, Mixed
from ...fl.robust.weiszfeld import GeometricMedian
from ...fl.runs.scenario import Scenario
from ...fl.runs.simulation import seed_of
from ..breakdown import Steps
from ..evaluation import Defence, Evaluation
from .chosen import strongest

SHARE = 0.3
"""Of the clients, attackers that rules are built for."""
ALPHAS = (0.5, 0.1)
"""Of the Dirichlet distributions by which labels are dealt beside IID."""


def usual_evaluation(scenario: Scenario, folder: Path | None = None) -> Evaluation:
    """The scenario's algorithm and usual rules, built for and attacked by three tenths of the clients, three seeds.

    Where the scenario deals data IID or by a Dirichlet distribution, it is played with data alike and skewed twice; else with its
    own partition. folder: of the data, which are looked at for their shape. Raises ValueError for fewer than 5 clients.
    """
    with about("data"):
        source = scenario.data(folder)
    partition: Any = scenario.partition
    clients = len(partition(source, np.random.default_rng(seed_of(scenario.seed, "partition"))).clients)
    if clients < 5:
        raise ValueError(f"{clients} clients are too few to be attacked: rules that stand one attacker need 5")
    attackers = max(1, int(SHARE * clients))
    return Evaluation(
        name=f"{scenario.name} under attack",
        scenario=replace(scenario, adversary=None),
        attacks=strongest(images=len(source.shape) == 3),
        defences=usual_defences(scenario, attackers),
        strengths=(attackers,),
        partitions=usual_partitions(partition),
        seeds=(0, 1, 2),
        breakdown=Steps(most=max(1, (clients - 1) // 2)),
    )


def usual_defences(scenario: Scenario, f: int) -> Mapping[str, Defence]:
    """The scenario's own algorithm, by the name of its type, and rules that are built for f attackers."""
    found: dict[str, Defence] = {
        type(scenario.algorithm).__name__: scenario.algorithm,
        "FedAvg": FedAvg(),
        "median": RobustFedAvg(rule=Median()),
        "trimmed mean": RobustFedAvg(rule=TrimmedMean(f)),
        "Multi-Krum": RobustFedAvg(rule=MultiKrum(f)),
        "geometric median": RobustFedAvg(rule=GeometricMedian()),
        "NNM, trimmed mean": RobustFedAvg(rule=Mixed((NNM(f),), TrimmedMean(f))),
    }
    return found | ({"FedAvg": scenario.algorithm} if isinstance(scenario.algorithm, FedAvg) else {})


def usual_partitions(partition: Any) -> Mapping[str, Partition]:
    """IID, and Dirichlet with ALPHAS, of as many clients, where the partition is one of these; else none but the scenario's.

    The scenario's own comes first: it is the one that is attacked where nobody names another.
    """
    if not isinstance(partition, Iid | Dirichlet):
        return {}
    like: dict[str, Any] = {f.name: getattr(partition, f.name) for f in fields(partition) if f.name != "alpha"}
    own: dict[str, Partition] = {"IID" if isinstance(partition, Iid) else f"Dirichlet {partition.alpha:g}": partition}
    usual = {"IID": Iid(**like)} | {f"Dirichlet {alpha:g}": Dirichlet(alpha=alpha, **like) for alpha in ALPHAS}
    return own | usual | own  # first, and as it is where a usual one has its name
