"""The strongest attacks here beside every attack of ByzFL at its defaults, on the same rules, data and seeds.

Run it:  cloister evaluate examples/beside_byzfl.py --out FOLDER          digits, 6 of 20 clients corrupt, four rules
         python examples/beside_byzfl.py FOLDER/results.jsonl              a Markdown table of the worst of either

ByzFL (pip install byzfl; it loads torchvision) is taken as it is: its attacks are functions of the honest updates, and so are
attacks here. An aggregator of its is a rule likewise: RobustFedAvg(rule=byzfl.TrMean(f=6)).
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Dirichlet, Iid
from cloister.fl.data.source import Digits
from cloister.fl.models.papers import Mlp
from cloister.fl.robust.coordinates import Median, TrimmedMean
from cloister.fl.robust.krum import MultiKrum
from cloister.fl.robust.mixing import NNM, Mixed
from cloister.fl.robust.weiszfeld import GeometricMedian
from cloister.fl.runs.scenario import Scenario
from cloister.protocol import Plain
from cloister.threat_models.evaluation import Attack, Evaluation
from cloister.threat_models.suites import strongest

F = 6
"""Attackers that the rules are built for."""
PREFIX = "ByzFL "
NAMES = (
    "SignFlipping", "InnerProductManipulation", "Optimal_InnerProductManipulation", "ALittleIsEnough", "Optimal_ALittleIsEnough",
    "Mimic", "Inf", "Gaussian",
)  # fmt: skip


def of_byzfl() -> Mapping[str, Attack]:
    """Its attacks on uploads, at their defaults; none where it is not installed."""
    try:
        import byzfl
    except ImportError:
        return {}
    return {f"{PREFIX}{name}": getattr(byzfl, name)() for name in NAMES}


evaluation = Evaluation(
    name="beside ByzFL",
    scenario=Scenario(
        name="digits",
        data=Digits(),
        partition=Iid(clients=20, shared_test=True),
        model=Mlp(hidden=(32,)),
        training=Training(epochs=1, batch=10, lr=0.1),
        algorithm=FedAvg(),
        protection=Plain(),
        rounds=30,
    ),
    attacks={**strongest(images=False), **of_byzfl()},
    defences={
        "FedAvg": FedAvg(),
        "median": RobustFedAvg(rule=Median()),
        "trimmed mean": RobustFedAvg(rule=TrimmedMean(F)),
        "Multi-Krum": RobustFedAvg(rule=MultiKrum(F)),
        "geometric median": RobustFedAvg(rule=GeometricMedian()),
        "NNM, trimmed mean": RobustFedAvg(rule=Mixed((NNM(F),), TrimmedMean(F))),
    },
    strengths=(F,),
    partitions={
        "IID": Iid(clients=20, shared_test=True),
        "Dirichlet 0.5": Dirichlet(clients=20, alpha=0.5, shared_test=True),
        "Dirichlet 0.1": Dirichlet(clients=20, alpha=0.1, shared_test=True),
    },
    seeds=(0,),
)


def rows(lines: list[dict[str, Any]]) -> Iterator[str]:
    """A Markdown table: accuracy without attack, and under the worst attack here and of ByzFL, mean over seeds."""
    yield "| data | defence | no attack | the worst here | the worst of ByzFL |"
    yield "| --- | --- | --- | --- | --- |"
    places = dict.fromkeys((line["partition"], line["defence"]) for line in lines)
    for partition, defence in places:
        found: dict[str | None, list[float]] = {}
        for line in lines:
            if (line["partition"], line["defence"], line["status"]) == (partition, defence, "done"):
                found.setdefault(line["attack"], []).append(float(line["accuracy"]["late"]))
        means = {attack: float(np.mean(values)) for attack, values in found.items()}
        clean = means.pop(None, float("nan"))
        means.pop("absent", None)
        worst = []
        for theirs in (False, True):
            of = {a: v for a, v in means.items() if a is not None and a.startswith(PREFIX) == theirs}
            name = min(of, key=lambda attack: of[attack], default=None)
            worst.append("" if name is None else f"{of[name]:.3f} ({name.removeprefix(PREFIX)})")
        yield f"| {partition} | {defence} | {clean:.3f} | {worst[0]} | {worst[1]} |"


def main() -> None:
    lines = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    print("\n".join(rows(lines)))


if __name__ == "__main__":
    main()
