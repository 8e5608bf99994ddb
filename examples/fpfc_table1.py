"""Models, clusters and who is with whom on drawn data: FPFC, Yu, Liu, Sun, Wang, AAAI 2023, Table 1.

100 clients in 4 groups, a softmax regression of 610 parameters each; 30 take part in a round, with 10 full gradient steps of 0.1.
The paper prints no setting; these are of its authors' code (K = 2000 rounds, lambda = 0.6, nu = 0.1, a = 3.7, xi = 0.001,
rho = 1; with the l1 penalty lambda = 0.2, nu = 4), but for the start: zero, for the code's N(0, 1) parts clients of one group
(`--start 1`).

    cloister run examples/fpfc_table1.py:quick                                            # 12 clients, seconds, no file
    python examples/fpfc_table1.py --scale quick --seeds 0 1 --out runs/fpfc_table1       # a minute
    python examples/fpfc_table1.py --scale reduced --seeds 0 --out runs/fpfc_table1       # 100 clients, less data: minutes a run
    python examples/fpfc_table1.py --scale paper --seeds 0 --out runs/fpfc_table1         # 6 to 20 minutes a run

Accuracies are of each client's model on its own test examples, the mean over clients. `Oracle` knows the groups; `clusters` are
not of the paper's table where it has a cross. A run that is in the output folder is not played again.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cloister.fl.algorithms.algorithm import Algorithm
from cloister.fl.algorithms.cfl import CFL, Absolute
from cloister.fl.algorithms.fedavg import FedAvg, Local, Oracle
from cloister.fl.algorithms.fpfc import FPFC
from cloister.fl.clients.training import Training
from cloister.fl.clustering.fusion import L1, Scad
from cloister.fl.data.synthetic import Drawn, SoftmaxGroups
from cloister.fl.models.papers import SoftmaxRegression
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol.uploaded.plain import Plain

PAPER = {
    "LOCAL": "84.97 | x | x",
    "FedAvg": "30.35 | x | x",
    "CFL": "86.60 | 42.0 | .28",
    "FPFC-l1": "83.85 | 5.67 | .63",
    "FPFC": "89.46 | 4.00 | 1.00",
    "Oracle": "",
}
"""Accuracy in percent, clusters, adjusted Rand index."""
ALL_DATA = 10**7
"""Examples a step: more than any client has, so that each step takes the full gradient."""

scenario = Scenario(
    name="FPFC table 1",
    data=Drawn(),
    partition=SoftmaxGroups(clients=100, groups=4),
    model=SoftmaxRegression(),
    training=Training(epochs=10, batch=ALL_DATA, lr=0.1),
    algorithm=FPFC(rounds=2000, penalty=Scad(lam=0.6, a=3.7, xi=1e-3), rho=1.0, nu=0.1, participation=0.3),
    protection=Plain(),
    rounds=2000,
    evaluate_every=100,
)
reduced = replace(
    scenario,
    name="FPFC table 1, at most 1,000 examples a client",
    partition=SoftmaxGroups(clients=100, groups=4, samples=1000),
    algorithm=replace(scenario.algorithm, rounds=800),
    rounds=800,
)
quick = replace(
    scenario,
    name="FPFC table 1, 12 clients of 3 groups",
    partition=SoftmaxGroups(clients=12, groups=3, samples=500),
    algorithm=replace(scenario.algorithm, rounds=60, participation=1.0),
    rounds=60,
    evaluate_every=10,
)
SCALES = {"paper": scenario, "reduced": reduced, "quick": quick}


def methods(base: Scenario) -> dict[str, Algorithm]:
    """The table's rows, each with the participation that the scenario has."""
    fpfc: Any = base.algorithm
    share = fpfc.participation
    return {
        "LOCAL": Local(),
        "FedAvg": FedAvg(participation=share, sampling="random"),
        "CFL": CFL(thresholds=Absolute(eps1=0.5, eps2=1.0), participation=share),
        "FPFC-l1": replace(fpfc, penalty=L1(lam=0.2), nu=4.0),
        "FPFC": fpfc,
        "Oracle": Oracle(participation=share, sampling="random"),
    }


def case(scale: str, name: str, seed: int, start: float) -> Scenario:
    """The scenario of one run. start: deviation of the common start."""
    base = SCALES[scale]
    model = SoftmaxRegression(deviation=start)
    return replace(base, name=f"{base.name}, {name}", model=model, algorithm=methods(base)[name], seed=seed)


def played(value: Scenario) -> dict[str, Any]:
    """Play a run: mean accuracy over clients at its end, clusters, and how they agree with the groups."""
    started, simulation = time.process_time(), Simulation(value, None)
    for _ in range(value.rounds):
        simulation.step()
    members = [c.members for c in simulation.state.clusters.values()]
    return {
        "accuracy": float(np.mean([score.accuracy for score in simulation.evaluate().values()])),
        "clusters": len(members),
        "ari": adjusted_rand_index(members, simulation.population.groups),
        "cpu_seconds": time.process_time() - started,
    }


def table(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Markdown: mean and standard deviation over seeds, beside the paper's."""

    def said(found: Sequence[Mapping[str, Any]], key: str, scale: float, digits: int) -> str:
        values = scale * np.array([run[key] for run in found])
        return f"{values.mean():.{digits}f} +- {values.std():.{digits}f}"

    lines = ["| | paper: accuracy | clusters | ARI | ours: accuracy | clusters | ARI | seeds |", "| --- " * 8 + "|"]
    for name, found in runs.items():
        paper = PAPER[name] or "| |"
        ours = " | ".join([said(found, "accuracy", 100, 2), said(found, "clusters", 1, 1), said(found, "ari", 1, 2)])
        lines.append(f"| {name} | {paper} | {ours} | {len(found)} |")
    return "\n".join(lines)


def main() -> None:
    """Play the runs that are missing, print the table, write fpfc_table1_SCALE.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=tuple(SCALES), default="paper")
    parser.add_argument("--methods", nargs="+", choices=tuple(PAPER), default=list(PAPER))
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--start", type=float, default=0.0, help="deviation of the common start: 0, or 1 as in the code")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    label = arguments.scale if arguments.start == 0 else f"{arguments.scale}_start_{arguments.start:g}"
    folder = arguments.out / f"{label}_runs"
    folder.mkdir(parents=True, exist_ok=True)
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in arguments.seeds:
        for name in arguments.methods:
            file = folder / f"{name.lower()}_seed_{seed}.json"
            if not file.exists():
                partial = file.with_suffix(".partial")
                partial.write_text(json.dumps(played(case(arguments.scale, name, seed, arguments.start))) + "\n")
                partial.replace(file)
            found = json.loads(file.read_text())
            runs.setdefault(name, []).append(found)
            said = f"{found['accuracy']:.4f}, {found['clusters']} clusters, ARI {found['ari']:.2f}"
            print(f"seed {seed}, {name}: {said}, {found['cpu_seconds']:.0f} s", flush=True)
    print(table(runs))
    (arguments.out / f"fpfc_table1_{label}.json").write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
