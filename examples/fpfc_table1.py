"""Models, clusters and who is with whom on drawn data: FPFC, Yu, Liu, Sun, Wang, AAAI 2023, Table 1.

100 clients in 4 groups, a softmax regression of 610 parameters each; 30 take part in a round, with 10 full gradient steps of 0.1.
The paper prints no setting; these are of its authors' code (K = 2000 rounds, lambda = 0.6, nu = 0.1, a = 3.7, xi = 0.001,
rho = 1; with the l1 penalty lambda = 0.2, nu = 4), but for the start: zero, for the code's N(0, 1) parts clients of one group
(`--start 1`). LOCAL trains in 0.3 K rounds, so that every client takes as many steps as with the others.

    cloister run examples/fpfc_table1.py:quick                                            # 12 clients, seconds, no file
    python examples/fpfc_table1.py --scale quick --seeds 0 1 --out runs/fpfc_table1       # a minute
    python examples/fpfc_table1.py --scale reduced --seeds 0 --out runs/fpfc_table1       # 100 clients, less data: minutes a run
    python examples/fpfc_table1.py --scale paper --seeds 0 --out runs/fpfc_table1         # 5 to 10 minutes a run

Accuracies are of each client's model on its own test examples, the mean over clients. `Oracle` knows the groups; `clusters` are
not of the paper's table where it has a cross. Of FPFC's rows there are also the clusters half way, and what rounds of federated
averaging inside the found clusters add after K. `--search SEED` plays FPFC-l1 once with that seed and takes the nu that is best
on a fifth of the training data; give it a seed that is not of the table. A run that is in the output folder is not played again.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cloister.fl.algorithms.algorithm import Algorithm
from cloister.fl.algorithms.cfl import CFL, Absolute
from cloister.fl.algorithms.fedavg import FedAvg, Local, Oracle
from cloister.fl.algorithms.fpfc import ALL, FPFC
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.algorithms.per_fedavg import PerFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.clustering.fusion import L1, Scad, components
from cloister.fl.data.synthetic import Drawn, SoftmaxGroups
from cloister.fl.models.papers import SoftmaxRegression
from cloister.fl.runs.comparison import Validating
from cloister.fl.runs.evaluation import ScoringJob, accuracies
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol.uploaded.plain import Plain

PAPER = {
    "LOCAL": "84.97 | x | x",
    "FedAvg": "30.35 | x | x",
    "Per-FedAvg": "56.28 | x | x",
    "IFCA": "60.42 | 2.33 | .47",
    "CFL": "86.60 | 42.0 | .28",
    "FPFC-l1": "83.85 | 5.67 | .63",
    "FPFC": "89.46 | 4.00 | 1.00",
    "Oracle": "",
}
"""Accuracy in percent, clusters, adjusted Rand index."""
ALL_DATA = 10**7
"""Examples a step: more than any client has, so that each step takes the full gradient."""
REFINED = (10, 100, 300, 1000)
"""Rounds of federated averaging inside FPFC's clusters, after which accuracy is looked at; at most half as many as before."""
THRESHOLDS = (0.01, 0.03, 0.1, 0.3, 0.5, 1.0, 2.0, 4.0)
"""Of nu, for FPFC-l1."""

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


def methods(base: Scenario, nu: float = 4.0) -> dict[str, Algorithm]:
    """The table's rows, each with the participation that the scenario has. nu: of FPFC-l1."""
    fpfc: Any = base.algorithm
    groups: Any = base.partition
    share = fpfc.participation
    return {
        "LOCAL": Local(),
        "FedAvg": FedAvg(participation=share, sampling="random"),
        "Per-FedAvg": PerFedAvg(alpha=0.1, participation=share, sampling="random"),
        "IFCA": IFCA(models=groups.groups, participation=share, sampling="random"),
        "CFL": CFL(
            thresholds=Absolute(eps1=0.5, eps2=1.0), similarities="every round", participation=share, sampling="random"
        ),  # eps2 is of the largest norm, as printed
        "FPFC-l1": replace(fpfc, penalty=L1(lam=0.2), nu=nu),
        "FPFC": fpfc,
        "Oracle": Oracle(participation=share, sampling="random"),
    }


def case(scale: str, name: str, seed: int, start: float, nu: float = 4.0) -> Scenario:
    """The scenario of one run. start: deviation of the common start."""
    base = SCALES[scale]
    fpfc: Any = base.algorithm
    rounds = round(base.rounds * fpfc.participation) if name == "LOCAL" else base.rounds
    of = replace(base, name=f"{base.name}, {name}", model=SoftmaxRegression(deviation=start), seed=seed, rounds=rounds)
    return replace(of, algorithm=methods(base, nu)[name])


def played(value: Scenario) -> dict[str, Any]:
    """Play a run: mean accuracy over clients at its end, clusters, and how they agree with the groups.

    Of FPFC also half way, the round from which on the clusters are the groups, and accuracies after `REFINED` rounds more.
    """
    algorithm: Any = value.algorithm
    fuses = isinstance(algorithm, FPFC)
    if fuses:
        value = replace(value, algorithm=replace(algorithm, trace=True, refine=True))
    started, simulation = time.process_time(), Simulation(value, None)
    groups, wrong, half = simulation.population.groups, 0, {}
    for k in range(1, value.rounds + 1):
        simulation.step()
        for seen in simulation.state.measured.values() if fuses else ():
            index = adjusted_rand_index(seen.communities, groups)
            wrong = k if index < 1 else wrong
            if k == value.rounds // 2:
                half = {"clusters": len(seen.communities), "ari": index}
    found = {**_end(simulation), "cpu_seconds": time.process_time() - started}
    if fuses:
        refined = {}
        looks = [k for k in REFINED if k <= value.rounds // 2]
        for k in range(1, max(looks, default=0) + 1):
            simulation.step()
            if k in looks:
                refined[k] = _end(simulation)["accuracy"]
        found |= {"half": half, "groups_from": wrong + 1 if wrong < value.rounds else None, "refined": refined}
    return found


def _end(simulation: Simulation) -> dict[str, Any]:
    members = [c.members for c in simulation.clusters.values()]
    return {
        "accuracy": float(np.mean([score.accuracy for score in simulation.evaluate().values()])),
        "clusters": len(members),
        "ari": adjusted_rand_index(members, simulation.population.groups),
    }


def searched(scale: str, seed: int, start: float) -> dict[str, Any]:
    """The nu of FPFC-l1 with the best accuracy on validation data, the first of equal ones; and each one's, with its clusters.

    One run without the last round, where nu first counts; then what each nu would make of its models.
    """
    value = case(scale, "FPFC-l1", seed, start)
    value = replace(value, partition=Validating(value.partition, 0.2, seed), algorithm=replace(value.algorithm, trace=True))
    simulation = Simulation(value, None)
    for _ in range(value.rounds - 1):
        simulation.step()
    distances, clients = simulation.state.measured[ALL].distances, simulation.population.clients
    models, tried = simulation.vectors(), {}
    for nu in THRESHOLDS:
        found = components(distances, sorted(clients), nu)
        means = [np.average([models[i] for i in g], axis=0, weights=[len(clients[i].train) for i in g]) for g in found]
        each = {i: mean.astype(np.float32) for group, mean in zip(found, means, strict=True) for i in group}
        scores = accuracies(simulation.module, [ScoringJob(i, each[i], clients[i].test) for i in sorted(clients)])
        tried[nu] = {"accuracy": float(np.mean([score.accuracy for score in scores.values()])), "clusters": len(found)}
    return {"seed": seed, "nu": max(tried, key=lambda nu: tried[nu]["accuracy"]), "tried": tried}


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


def kept(file: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the file holds; it is made and written first if it is not there."""
    if not file.exists():
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(make()) + "\n")
        partial.replace(file)
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def main() -> None:
    """Play the runs that are missing, print the table, write fpfc_table1_SCALE.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=tuple(SCALES), default="paper")
    parser.add_argument("--methods", nargs="+", choices=tuple(PAPER), default=list(PAPER))
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--start", type=float, default=0.0, help="deviation of the common start: 0, or 1 as in the code")
    parser.add_argument("--search", type=int, metavar="SEED", help="search FPFC-l1's nu with this seed; else it is the code's, 4")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    scale = arguments.scale if arguments.start == 0 else f"{arguments.scale}_start_{arguments.start:g}"
    folder = arguments.out / f"{scale}_runs"
    folder.mkdir(parents=True, exist_ok=True)
    nu = 4.0
    if arguments.search is not None:
        if arguments.search in arguments.seeds:
            parser.error(f"--search {arguments.search} is one of --seeds; what is searched with is not of the table")
        best = kept(
            folder / f"nu_seed_{arguments.search}.json", lambda: searched(arguments.scale, arguments.search, arguments.start)
        )
        nu = best["nu"]
        print(f"nu = {nu}, of {best['tried']}", flush=True)
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in arguments.seeds:
        for name in arguments.methods:
            label = f"fpfc-l1_nu_{nu:g}" if name == "FPFC-l1" else name.lower()
            value = case(arguments.scale, name, seed, arguments.start, nu)
            found = kept(folder / f"{label}_seed_{seed}.json", lambda value=value: played(value))
            runs.setdefault(name, []).append(found)
            said = f"{found['accuracy']:.4f}, {found['clusters']} clusters, ARI {found['ari']:.2f}"
            more = (
                f", half way {found['half']}, groups from {found['groups_from']}, {found['refined']}" if "half" in found else ""
            )
            print(f"seed {seed}, {name}: {said}{more}, {found['cpu_seconds']:.0f} s", flush=True)
    print(table(runs))
    (arguments.out / f"fpfc_table1_{scale}.json").write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
