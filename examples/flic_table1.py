"""Accuracy before and after clustering, labels swapped or images turned: FLIC, Espinoza Castellon et al. 2022, Table I, Fig. 4.

100 clients of MNIST, 10 sampled a round, T = 200 rounds together, then T_f = 5 in communities; 5 local epochs, batches of 10.
Label swap: five groups. Image rotation: four. IID: nobody differs, federated averaging of as many rounds. The paper's net has
1.7 million parameters and took its authors an hour a run; `reduced` is a perceptron with the same rounds.

    cloister run examples/flic_table1.py:quick                                                # digits, seconds, no file
    python examples/flic_table1.py --scale quick --seeds 0 1 --out runs/flic_table1           # digits, half a minute
    python examples/flic_table1.py --scale reduced --seeds 0 --out runs/flic_table1           # MNIST, perceptron, minutes a run
    python examples/flic_table1.py --scale paper --seeds 0 --out runs/flic_table1             # the paper's net: hours

Accuracies are of each client's model on its own test images, 100 as in the paper. A run that is in the output folder is not
played again.
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
from matplotlib.figure import Figure

from cloister.fl.algorithms.algorithm import Algorithm
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import ALL, FLIC
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Iid, LabelSwap, Partition, Rotation
from cloister.fl.data.source import Digits, Mnist
from cloister.fl.models.papers import FlicCnn, Mlp
from cloister.fl.runs.metrics import adjusted_rand_index, purity
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol.uploaded.plain import Plain

INK = "#1f2933"
COLOURS = ("#2f6fad", "#d9822b", "#2a8c6b", "#7a4fa3", "#b5482a")
CASES = {"iid": "IID data", "swap": "label swap", "rotation": "image rotation"}
PAPER = {
    "iid": (None, "0.99 +- 0.01"),
    "swap": ("0.75 +- 0.075", "0.99 +- 0.011"),
    "rotation": ("0.93 +- 0.051", "0.98 +- 0.013"),
}

scenario = Scenario(
    name="FLIC table I, MNIST, label swap",
    data=Mnist(),
    partition=LabelSwap(clients=100, groups=5),
    model=FlicCnn(),
    training=Training(epochs=5, batch=10, lr=0.01),
    algorithm=FLIC(rounds_before=200, participation=0.1, sampling="random", similarities="every round"),
    protection=Plain(),
    rounds=205,
    evaluate_every=10,
)
reduced = replace(scenario, name="FLIC table I, MNIST, perceptron, label swap", model=Mlp(hidden=(64,)))
quick = replace(
    scenario,
    name="FLIC table I, digits, label swap",
    data=Digits(),
    partition=LabelSwap(clients=50, groups=5),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=5, batch=5, lr=0.1),
    algorithm=FLIC(rounds_before=25, participation=0.2, sampling="random", similarities="every round"),
    rounds=35,
)
SCALES = {"paper": scenario, "reduced": reduced, "quick": quick}


def case(scale: str, name: str, seed: int) -> Scenario:
    """The scenario of one run."""
    base = SCALES[scale]
    clients = 50 if scale == "quick" else 100
    partitions: dict[str, Partition] = {
        "iid": Iid(clients=clients),
        "swap": LabelSwap(clients=clients, groups=5),
        "rotation": Rotation(clients=clients, angles=(0, 90, 180, 270)),
    }
    flic: Any = base.algorithm
    algorithm: Algorithm = FedAvg(participation=flic.participation, sampling="random") if name == "iid" else flic
    return replace(base, name=f"FLIC table I, {scale}, {name}", partition=partitions[name], algorithm=algorithm, seed=seed)


def played(value: Scenario, folder: Path | None = None) -> dict[str, Any]:
    """Play a run: accuracies of all clients when communities were found and in the end, and the curves of clusters."""
    started, simulation = time.perf_counter(), Simulation(value, folder)
    groups, curve = simulation.population.groups, []
    before: list[float] | None = None
    for t in range(1, value.rounds + 1):
        simulation.step()
        clusters = simulation.state.clusters
        apart = set(clusters) not in ({ALL}, {"0"})
        if t % value.evaluate_every == 0 or apart or t == value.rounds:
            scores = {i: score.accuracy for i, score in simulation.evaluate().items()}
            of_clusters = {name: float(np.mean([scores[i] for i in c.members])) for name, c in clusters.items() if c.members}
            curve.append({"round": t, "mean": float(np.mean(list(scores.values()))), "clusters": of_clusters})
            if apart and before is None:
                before = [scores[i] for i in sorted(scores)]
    members = [c.members for c in simulation.state.clusters.values()]
    planted = {i: groups[i] for group in members for i in group}
    after = [scores[i] for i in sorted(scores)]
    return {
        "before": None if before is None else [float(np.mean(before)), float(np.std(before))],
        "after": [float(np.mean(after)), float(np.std(after))],
        "clusters": len(members),
        "purity": purity(members, planted),
        "ari": adjusted_rand_index(members, planted),
        "seconds": time.perf_counter() - started,
        "curve": curve,
    }


def table(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Markdown: mean over seeds of the mean and of the standard deviation over clients, beside the paper's."""

    def said(found: Sequence[Sequence[float] | None]) -> str:
        there = [pair for pair in found if pair is not None]
        return f"{np.mean([p[0] for p in there]):.3f} +- {np.mean([p[1] for p in there]):.3f}" if there else ""

    lines = ["| | before, paper | before, ours | after, paper | after, ours | clusters | purity | ARI |", "| --- " * 8 + "|"]
    for name, found in runs.items():
        paper = [words or "" for words in PAPER[name]]
        shape = f"{np.mean([r['clusters'] for r in found]):.1f} | {np.mean([r['purity'] for r in found]):.2f}"
        ours = [said([r[key] for r in found]) for key in ("before", "after")]
        ari = f"{np.mean([r['ari'] for r in found]):.2f}"
        lines.append(f"| {CASES[name]} | {paper[0]} | {ours[0]} | {paper[1]} | {ours[1]} | {shape} | {ari} |")
    return "\n".join(lines)


def draw(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Fig. 4: all clients over the rounds, mean over seeds; then the clusters of the first seed after the split."""
    figure = Figure(figsize=(12.2, 3.9), layout="constrained", facecolor="white")
    panels = figure.subplots(1, 3, sharey=True)
    for (name, found), colour in zip(runs.items(), COLOURS, strict=False):
        rounds = [point["round"] for point in found[0]["curve"]]
        values = np.array([[{p["round"]: p["mean"] for p in run["curve"]}.get(t, np.nan) for t in rounds] for run in found])
        panels[0].plot(rounds, np.nanmean(values, axis=0), color=colour, lw=1.9, label=CASES[name])
    panels[0].set_title("all clients, before and after", fontsize=11, color=INK)
    panels[0].legend(frameon=False, fontsize=9, loc="lower right")
    for axes, name in zip(panels[1:], [name for name in runs if name != "iid"], strict=False):
        curve = [point for point in runs[name][0]["curve"] if set(point["clusters"]) not in ({ALL}, {"0"})]
        for k, cluster in enumerate(sorted({c for point in curve for c in point["clusters"]})):
            points = [(point["round"], point["clusters"][cluster]) for point in curve if cluster in point["clusters"]]
            axes.plot(*zip(*points, strict=True), color=COLOURS[k % len(COLOURS)], lw=1.6, marker="o", ms=4, label=cluster)
        axes.set_title(f"{CASES[name]}: each community", fontsize=11, color=INK)
        axes.xaxis.get_major_locator().set_params(integer=True)
        if len(axes.lines) <= 8:
            axes.legend(frameon=False, fontsize=8, loc="lower right")
    for axes in panels:
        axes.set_xlabel("round")
        axes.grid(axis="y", color="#e4e7eb", lw=0.8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[0].set_ylabel("accuracy")
    return figure


def main() -> None:
    """Play the runs that are missing, print the table, write before_and_after_SCALE.png and .json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=tuple(SCALES), default="paper")
    parser.add_argument("--cases", nargs="+", choices=tuple(CASES), default=list(CASES))
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = arguments.out / f"{arguments.scale}_runs"
    folder.mkdir(parents=True, exist_ok=True)
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in arguments.seeds:
        for name in arguments.cases:
            file = folder / f"{name}_seed_{seed}.json"
            if not file.exists():
                partial = file.with_suffix(".partial")
                partial.write_text(json.dumps(played(case(arguments.scale, name, seed))) + "\n")
                partial.replace(file)
            found = json.loads(file.read_text())
            runs.setdefault(name, []).append(found)
            said = f"{found['before'][0]:.3f} before, " if found["before"] else ""
            print(f"seed {seed}, {CASES[name]}: {said}{found['after'][0]:.3f} after, {found['seconds']:.0f} s", flush=True)
    print(table(runs))
    draw(runs).savefig(arguments.out / f"before_and_after_{arguments.scale}.png", dpi=130)
    kept = {name: [{k: v for k, v in run.items() if k != "curve"} for run in found] for name, found in runs.items()}
    (arguments.out / f"before_and_after_{arguments.scale}.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
