"""EMD-CFL beside Oracle and federated averaging: accuracies, clusters and wall time (EMD-CFL, tables 1 to 4, 6 to 8 and 10).

Give one or more scenario files, FILE:name, of this folder. For each: mean and worst accuracy over clients, adjusted Rand index,
seconds; where clients hold backdoored data also the targets' (group 0) accuracy on clean and on manipulated test data. With
--participation the share of clients that is sampled a round (table 6: 0.25 0.5 0.75).

    python examples/emd_cfl_compare.py examples/emd_cfl_rotated_mnist.py:quick --seeds 0 1 2 --out runs/emd
    python examples/emd_cfl_compare.py examples/emd_cfl_rotated_mnist.py:quick --participation 0.25 0.5 0.75 --seeds 0 --out runs
    python examples/emd_cfl_compare.py examples/emd_cfl_backdoor_mnist.py --seeds 0 1 2 --out runs/emd        # paper scale

Interrupted, the same command goes on where it stopped: every run that is over is in comparison.json.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from cloister.fl.algorithms.algorithm import Algorithm
from cloister.fl.algorithms.fedavg import FedAvg, Oracle
from cloister.fl.data.population import Examples, Population, Source
from cloister.fl.models.pretrained import Embedded
from cloister.fl.runs.evaluation import ScoringJob, accuracies
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation, seed_of
from cloister.scenario_file import load, with_settings
from cloister.threat_models.semantic import CornerPatches, GreenDigits

INK, HUES = "#1f2933", {"EMD-CFL": "#2f6fad", "Oracle": "#3f9b5f", "FedAvg": "#d9822b"}
Cell = dict[str, Any]


def methods(value: Scenario, participation: float) -> dict[str, Algorithm]:
    """The scenario's algorithm, and two that know more and less."""
    own: Any = value.algorithm
    return {
        "EMD-CFL": replace(own, participation=participation, sampling="random"),
        "Oracle": Oracle(participation=participation, sampling="random"),
        "FedAvg": FedAvg(participation=participation, sampling="random"),
    }


def manipulated(partition: Any, population: Population, source: Source, seed: int) -> dict[int, Examples]:
    """The targets' test examples with the backdoor feature turned against them; empty where no client has one."""
    targets = [i for i, group in population.groups.items() if group == 0]
    match partition:
        case GreenDigits():
            return {i: partition.manipulated(0, population.clients[i].test) for i in targets}
        case CornerPatches():
            return {i: partition.manipulated(population.clients[i].test, population.classes) for i in targets}
        case Embedded(partition=GreenDigits() | CornerPatches() as inner):
            images = inner(source, np.random.default_rng(seed_of(seed, "partition")))
            kept = {i: replace(c, test=partition.kept(c.test)) for i, c in images.clients.items()}
            turned = manipulated(inner, replace(images, clients=kept), source, seed)
            return {i: partition.embedded(examples) for i, examples in turned.items()}
    return {}


def played(value: Scenario, turned: Mapping[int, Examples]) -> Cell:
    """One run to its end. seconds, cpu_seconds: wall and CPU time of the rounds, without evaluation; round_seconds: of each."""
    simulation = Simulation(value, None)
    seconds = []
    cpu = time.process_time()
    for _ in range(value.rounds):
        started = time.perf_counter()
        simulation.step()
        seconds.append(time.perf_counter() - started)
    cpu = time.process_time() - cpu
    scores = {i: score.accuracy for i, score in simulation.evaluate().items()}
    members = [cluster.members for cluster in simulation.clusters.values()]
    found: Cell = {
        "accuracy": float(np.mean(list(scores.values()))),
        "worst": min(scores.values()),
        "ari": adjusted_rand_index(members, simulation.population.groups),
        "clusters": sorted(sorted(m) for m in members),
        "seconds": sum(seconds),
        "cpu_seconds": cpu,
        "round_seconds": seconds,
        "eps": getattr(simulation.state, "eps", None),
    }
    if turned:
        vectors = simulation.vectors()
        misled = accuracies(simulation.module, [ScoringJob(i, vectors[i], examples) for i, examples in turned.items()])
        found["clean"] = float(np.mean([scores[i] for i in turned]))
        found["backdoor"] = float(np.mean([score.accuracy for score in misled.values()]))
    return found


def compared(value: Scenario, shares: Sequence[float], done: dict[str, Cell], save: Any) -> None:
    """Add the cells of one scenario and seed that are not there yet; the population is made once for all of them."""
    wanted = {
        f"{value.name} | {share:g} | {method} | {value.seed}": replace(value, algorithm=algorithm)
        for share in shares
        for method, algorithm in methods(value, share).items()
    }
    missing = {key: run for key, run in wanted.items() if key not in done}
    if not missing:
        return
    source = value.data(None)
    population = value.partition(source, np.random.default_rng(seed_of(value.seed, "partition")))
    turned = manipulated(value.partition, population, source, value.seed)
    for key, run in missing.items():
        done[key] = played(replace(run, data=lambda _: source, partition=lambda *_: population), turned)
        save()
        numbers = {
            name: round(done[key][name], 4)
            for name in ("accuracy", "worst", "ari", "seconds", "cpu_seconds", "clean", "backdoor")
            if name in done[key]
        }
        print(key, numbers, f"{len(done[key]['clusters'])} clusters", flush=True)


def table(cells: Mapping[str, Cell]) -> list[dict[str, Any]]:
    """Mean and standard deviation over seeds of every measure, a row for each scenario, participation and method."""
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for key, cell in cells.items():
        rows.setdefault(tuple(key.split(" | ")[:3]), []).append(cell)
    return [
        {"scenario": name, "participation": float(share), "method": method, "seeds": len(found)}
        | {
            measure: [float(np.mean([c[measure] for c in found])), float(np.std([c[measure] for c in found]))]
            for measure in ("accuracy", "worst", "ari", "seconds", "cpu_seconds", "clean", "backdoor")
            if measure in found[0]
        }
        for (name, share, method), found in rows.items()
    ]


def draw(rows: Sequence[dict[str, Any]]) -> Figure:
    """Accuracies of the three methods, a group of bars for each scenario and participation; the worst client as a tick."""
    places = list(dict.fromkeys((row["scenario"], row["participation"]) for row in rows))
    figure = Figure(figsize=(max(6.0, 2.1 * len(places) + 2), 4.6), layout="constrained", facecolor="white")
    axes = figure.subplots()
    said = False
    for offset, (method, hue) in enumerate(HUES.items()):
        for place, (name, share) in enumerate(places):
            row = next((r for r in rows if (r["scenario"], r["participation"], r["method"]) == (name, share, method)), None)
            if row is None:
                continue
            x = place + 0.26 * (offset - 1)
            axes.bar(x, 100 * row["accuracy"][0], 0.24, color=hue, label=method if place == 0 else None)
            axes.plot(
                [x - 0.1, x + 0.1],
                [100 * row["worst"][0]] * 2,
                color=INK,
                lw=1.6,
                label="worst client" if place + offset == 0 else None,
            )
            if "backdoor" in row:
                axes.plot(
                    x,
                    100 * row["backdoor"][0],
                    "v",
                    color="#b23a3a",
                    label=None if said else "targets, manipulated",
                )
                said = True
            axes.annotate(f"ARI {row['ari'][0]:.2f}", (x, 100 * row["accuracy"][0] + 0.6), ha="center", fontsize=6.5, color=INK)
    words = [
        name.removeprefix("EMD-CFL on ").removesuffix(", quick") + ("" if share == 1 else f"\n{share:.0%} a round")
        for name, share in places
    ]
    axes.set_xticks(range(len(places)), [word.replace(", ", "\n") for word in words], fontsize=8)
    axes.set(ylabel="test accuracy, %", ylim=(0, 106))
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def main() -> None:
    """Run what is missing, print the table, write comparison.json and comparison.png."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+", metavar="FILE[:name]")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--participation", type=float, nargs="+", default=[1.0])
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "comparison.json"
    cells: dict[str, Cell] = json.loads(path.read_text())["cells"] if path.exists() else {}

    def save() -> None:
        path.write_text(json.dumps({"table": table(cells), "cells": cells}, indent=1) + "\n")

    for where in arguments.scenarios:
        for seed in arguments.seeds:
            compared(replace(with_settings(load(where), arguments.settings), seed=seed), arguments.participation, cells, save)
    save()
    for row in table(cells):
        print(row)
    draw(table(cells)).savefig(arguments.out / "comparison.png", dpi=110)


if __name__ == "__main__":
    main()
