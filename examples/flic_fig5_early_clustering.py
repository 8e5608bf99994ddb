"""How early can the server cluster? FLIC, Espinoza Castellon et al. 2022, section IV-B, Fig. 5.

100 clients in five groups, each with another two labels swapped; 10 are sampled a round, 3 local epochs, batches of 50. After
every round communities are looked for in the matrix as it is then, without training them apart. The paper: purity 1 in the
first round, when ten clients are ten communities, then lower; 1 again from round 34; five pure communities from round 49.

    cloister run examples/flic_fig5_early_clustering.py:quick                                       # digits, seconds, no file
    python examples/flic_fig5_early_clustering.py --scale quick --seeds 0 1 --out runs/flic_fig5    # digits, seconds
    python examples/flic_fig5_early_clustering.py --scale reduced --seeds 0 1 --out runs/flic_fig5  # MNIST, perceptron, a minute
    python examples/flic_fig5_early_clustering.py --scale paper --seeds 0 --out runs/flic_fig5      # the paper's net, an hour

A seed that is already in the output folder is not run again. --self-loops adds what the authors' code has and the paper does not
print: an edge of weight 2 from every client to itself, without which ten similar clients are not ten communities.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cloister.fl.algorithms.flic import FLIC
from cloister.fl.clients.training import Training
from cloister.fl.clustering.communities import Louvain
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Digits, Mnist
from cloister.fl.models.papers import FlicCnn, Mlp
from cloister.fl.runs.metrics import adjusted_rand_index, purity
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol.uploaded.plain import Plain

INK, VIOLET, GREEN, BLUE = "#1f2933", "#7a4fa3", "#2a8c6b", "#2f6fad"
GROUPS = 5

scenario = Scenario(
    name="FLIC fig. 5, MNIST",
    data=Mnist(),
    partition=LabelSwap(clients=100, groups=GROUPS),
    model=FlicCnn(),
    training=Training(epochs=3, batch=50, lr=0.01),
    algorithm=FLIC(rounds_before=100, participation=0.1, sampling="random", similarities="every round", trace=True),
    protection=Plain(),
    rounds=100,
    evaluate_every=5,
)
reduced = replace(scenario, name="FLIC fig. 5, MNIST, perceptron", model=Mlp(hidden=(64,)))
quick = replace(
    scenario,
    name="FLIC fig. 5, digits",
    data=Digits(),
    partition=LabelSwap(clients=50, groups=GROUPS),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=3, batch=5, lr=0.1),
    algorithm=FLIC(rounds_before=60, participation=0.2, sampling="random", similarities="every round", trace=True),
    rounds=60,
)
SCALES = {"paper": scenario, "reduced": reduced, "quick": quick}


def traced(value: Scenario, folder: Path | None = None) -> list[dict[str, Any]]:
    """After every round: communities, their purity and agreement with the groups, clients seen, and now and then the accuracy."""
    simulation = Simulation(value, folder)
    groups, rows = simulation.population.groups, []
    for t in range(value.rounds):
        simulation.step()
        measured = simulation.state.measured["0"]
        planted = {i: groups[i] for i in measured.clients}
        found = measured.communities
        row: dict[str, Any] = {
            "round": t + 1,
            "seen": len(measured.clients),
            "communities": len(found),
            "purity": purity(found, planted),
            "ari": adjusted_rand_index(found, planted),
        }
        if (t + 1) % value.evaluate_every == 0 or t == 0:
            row["accuracy"] = float(np.mean([score.accuracy for score in simulation.evaluate().values()]))
        rows.append(row)
    return rows


def settled(holds: Sequence[bool]) -> int | None:
    """The round from which something holds to the end, counted from 1; None if it does not hold at the end."""
    last = max((t for t, held in enumerate(holds, 1) if not held), default=0)
    return last + 1 if last < len(holds) else None


def interval(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean over seeds, axis 0, and half of its 95 % confidence interval, as the paper draws it (normal)."""
    n = len(values)
    half = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(values.shape[1])
    return values.mean(axis=0), half


def draw(title: str, runs: Sequence[Sequence[dict[str, Any]]]) -> Figure:
    """Number of communities on the left; purity and accuracy on the right."""
    figure = Figure(figsize=(7.6, 4.3), layout="constrained", facecolor="white")
    left = figure.subplots()
    right = left.twinx()
    rounds = np.array([row["round"] for row in runs[0]])
    measured = [t for t, row in enumerate(runs[0]) if "accuracy" in row]
    for axes, key, label, colour, where in (
        (left, "communities", "communities (left)", VIOLET, range(len(rounds))),
        (right, "purity", "purity (right)", GREEN, range(len(rounds))),
        (right, "accuracy", "accuracy of FedAvg (right)", BLUE, measured),
    ):
        chosen = list(where)
        mean, half = interval(np.array([[run[t][key] for t in chosen] for run in runs], dtype=np.float64))
        axes.fill_between(rounds[chosen], mean - half, mean + half, color=colour, alpha=0.18, lw=0)
        axes.plot(rounds[chosen], mean, color=colour, lw=1.9, label=label)
    left.axhline(GROUPS, color=INK, lw=0.8, ls=(0, (4, 3)))
    left.set(xlabel="round", ylabel="communities", xlim=(1, rounds[-1]), ylim=(0, None))
    right.set(ylabel="purity, accuracy", ylim=(0, 1.03))
    for axes in (left, right):
        axes.spines["top"].set_visible(False)
    seeds = f"{len(runs)} seed{'s' * (len(runs) > 1)}"
    left.set_title(f"{title}: communities in the matrix of each round, {seeds}", fontsize=11, color=INK)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def main() -> None:
    """Run what is missing, print when purity and communities settle, write early_clustering_SCALE.png and .json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=tuple(SCALES), default="paper")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--lr", type=float, help="another step size than the scale's; kept in files of its own")
    parser.add_argument("--self-loops", action="store_true", help="the graph of the authors' code; kept in files of its own")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    value, name = SCALES[arguments.scale], arguments.scale
    if arguments.lr is not None:
        value, name = replace(value, training=replace(value.training, lr=arguments.lr)), f"{name}_lr_{arguments.lr:g}"
    if arguments.self_loops:
        flic: Any = value.algorithm
        value, name = replace(value, algorithm=replace(flic, detector=Louvain(self_loop=2))), f"{name}_self_loops"
    folder = arguments.out / f"{name}_seeds"
    folder.mkdir(parents=True, exist_ok=True)
    runs, results = [], []
    for seed in arguments.seeds:
        file = folder / f"seed_{seed}.json"
        if not file.exists():
            file.write_text(json.dumps(traced(replace(value, seed=seed))) + "\n")
        rows = json.loads(file.read_text())
        runs.append(rows)
        found = {
            "seed": seed,
            "first": {"communities": rows[0]["communities"], "purity": rows[0]["purity"]},
            "least_purity": min(row["purity"] for row in rows),
            "pure_from": settled([row["purity"] == 1 for row in rows]),
            "correct_from": settled([row["ari"] == 1 for row in rows]),
            "last": rows[-1],
        }
        results.append(found)
        said = f"{found['first']['communities']} communities at first, purity down to {found['least_purity']:.2f}"
        ends = f"1 from round {found['pure_from']}, correct from round {found['correct_from']}"
        print(f"seed {seed}: {said}, {ends}; accuracy {rows[-1]['accuracy']:.3f}", flush=True)
    draw("MNIST" if arguments.scale != "quick" else "Digits", runs).savefig(
        arguments.out / f"early_clustering_{name}.png", dpi=130
    )
    (arguments.out / f"early_clustering_{name}.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
