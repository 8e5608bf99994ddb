"""Turned digits are told apart as every client chooses its model: IFCA, Ghosh, Chung, Yin, Ramchandran, NeurIPS 2020, section 6.

MNIST turned by 0, 90, 180 and 270 degrees, K = 4 models with 200 hidden units, 10 full-batch steps of 0.1 a round, everybody
takes part. The paper deals each image to clients of all four groups; here each image is dealt once, so that as many samples a
client, 100, make 600 clients and not 2400. Its step falls to a tenth every 50 rounds, here as much by a bit each round.

    cloister run examples/ifca_rotated.py:quick                                             # digits, seconds, no file
    cloister run examples/ifca_rotated.py:hidden                                            # the same, choices hidden by Masked
    python examples/ifca_rotated.py --scale quick --seeds 0 1 2 --out runs/ifca             # half a minute
    python examples/ifca_rotated.py --scale paper --seeds 0 --out runs/ifca                 # MNIST, hours

Accuracies are of the model that each client chooses, by its training data, on its own test images.
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
from cloister.fl.algorithms.fedavg import FedAvg, Local, Oracle
from cloister.fl.algorithms.ifca import IFCA
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Rotation
from cloister.fl.data.source import Digits, Mnist
from cloister.fl.models.papers import Mlp
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol.masked.protection import Masked
from cloister.protocol.uploaded.plain import Plain

scenario = Scenario(
    name="IFCA, rotated MNIST",
    data=Mnist(),
    partition=Rotation(clients=600, angles=(0, 90, 180, 270)),
    model=Mlp(hidden=(200,)),
    training=Training(epochs=10, batch=10**6, lr=0.1, lr_decay=0.1 ** (1 / 50)),
    algorithm=IFCA(models=4),
    protection=Plain(),
    rounds=300,
    evaluate_every=10,
)
quick = replace(
    scenario,
    name="IFCA, rotated digits",
    data=Digits(),
    partition=Rotation(clients=16, angles=(0, 180)),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=3, batch=20, lr=0.1),
    algorithm=IFCA(models=2),
    rounds=20,
)
hidden = replace(quick, name="IFCA, rotated digits, choices hidden", protection=Masked(slot_spare=0))
SCALES = {"paper": scenario, "quick": quick, "hidden": hidden}


def methods(base: Scenario) -> dict[str, Algorithm]:
    """IFCA with either average, beside one model for all, one for each group, and one for each client."""
    ifca: Any = base.algorithm
    return {
        "IFCA, models": ifca,
        "IFCA, gradients": replace(ifca, average="gradients", gamma=0.5),
        "one model": FedAvg(by_samples=False),
        "groups known": Oracle(by_samples=False),
        "alone": Local(),
    }


def played(value: Scenario, folder: Path | None) -> dict[str, Any]:
    """Play a run: mean accuracy over clients at its end, clusters, and how they agree with the groups."""
    started, simulation = time.process_time(), Simulation(value, folder)
    for _ in range(value.rounds):
        simulation.step()
    members = [c.members for c in simulation.clusters.values()]
    return {
        "accuracy": float(np.mean([score.accuracy for score in simulation.evaluate().values()])),
        "clusters": len(members),
        "ari": adjusted_rand_index(members, simulation.population.groups),
        "cpu_seconds": time.process_time() - started,
    }


def table(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Markdown: mean and standard deviation over seeds."""
    lines = ["| | accuracy | clusters | ARI | seeds |", "| --- " * 5 + "|"]
    for name, found in runs.items():
        accuracy, clusters, ari = (np.array([run[key] for run in found]) for key in ("accuracy", "clusters", "ari"))
        said = f"{accuracy.mean():.3f} +- {accuracy.std():.3f} | {clusters.mean():.1f} | {ari.mean():.2f}"
        lines.append(f"| {name} | {said} | {len(found)} |")
    return "\n".join(lines)


def main() -> None:
    """Play all methods, print the table, write ifca_rotated_SCALE.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=tuple(SCALES), default="paper")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    base, runs = SCALES[arguments.scale], dict[str, list[dict[str, Any]]]()
    for seed in arguments.seeds:
        for name, algorithm in methods(base).items():
            found = played(replace(base, algorithm=algorithm, seed=seed), arguments.data)
            runs.setdefault(name, []).append(found)
            print(
                f"seed {seed}, {name}: {found['accuracy']:.3f}, ARI {found['ari']:.2f}, {found['cpu_seconds']:.0f} s", flush=True
            )
    print(table(runs))
    (arguments.out / f"ifca_rotated_{arguments.scale}.json").write_text(json.dumps(runs, indent=1) + "\n")


if __name__ == "__main__":
    main()
