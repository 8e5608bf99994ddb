"""CFL on CIFAR-10 with permuted labels: Sattler et al. 2020, section VI-C, Fig. 8.

20 clients in 4 groups, each group with a random permutation of its own of all ten labels (Eq. 52 and 53). One model cannot
serve them: federated averaging stalls. CFL splits the clients wherever it has become stationary, until every group has a
model of its own. For comparison, federated averaging runs as long with the same seed.

    cloister run examples/cfl_fig8_permuted_cifar.py:quick                                        # seconds, digits, no file
    python examples/cfl_fig8_permuted_cifar.py --scale quick --seed 0 --out runs/fig8             # half a minute
    python examples/cfl_fig8_permuted_cifar.py --scale reduced --seed 0 --out runs/fig8           # half an hour
    python examples/cfl_fig8_permuted_cifar.py --scale paper --seed 0 --out runs/fig8             # half a day

The paper prints no step size and no thresholds. A cluster may be split once it has trained for `patience` rounds, which sets
the pace of the figure. Then the mean update must be short beside the longest one (eps1), the longest at least as long as in the
first round (eps2), and gamma_max = 0.7 asks for a cut whose sides do not agree: a cross similarity below 0.02. In a cluster of
one group that test must fail. Interrupted, the same command goes on where it stopped.
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import LabelPermutation
from cloister.fl.data.source import Cifar10, Digits
from cloister.fl.models.papers import Cifar5Cnn, Mlp
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import Scenario
from cloister.protocol.uploaded.plain import Plain

INK, HUES = "#1f2933", ("#7b4fa6", "#d9822b", "#2f8f6b", "#2f6fad")
GREYS = ("#1f2933", "#7b8794", "#c0562f", "#2f6fad", "#3f9b5f", "#b23a7f", "#8a6d1f")


def splitting(patience: int) -> CFL:
    """CFL with this figure's thresholds."""
    return CFL(thresholds=ScaleFree(eps1=0.3, eps2=1.0), gamma_max=0.7, similarities="every round", patience=patience)


scenario = Scenario(
    name="CFL fig. 8, CIFAR-10",
    data=Cifar10(),
    partition=LabelPermutation(clients=20, groups=4, shared_test=True),
    model=Cifar5Cnn(),
    training=Training(epochs=3, batch=100, lr=0.05, momentum=0.9),
    algorithm=splitting(patience=50),
    protection=Plain(),
    rounds=200,
    evaluate_every=5,
)
reduced = replace(
    scenario,
    name="CFL fig. 8, CIFAR-10, reduced",
    partition=LabelPermutation(clients=20, groups=4, samples=700),
    model=Cifar5Cnn(widths=(8, 16, 32), hidden=64),
    training=Training(epochs=3, batch=100, lr=0.1, momentum=0.9),
    algorithm=splitting(patience=15),
    rounds=56,
    evaluate_every=2,
)
quick = replace(
    scenario,
    name="CFL fig. 8, digits",
    data=Digits(),
    partition=LabelPermutation(clients=20, groups=4),
    model=Mlp(hidden=(64,)),
    training=Training(epochs=3, batch=10, lr=0.1),
    algorithm=splitting(patience=10),
    rounds=50,
    evaluate_every=2,
)

SCALES = {"paper": scenario, "reduced": reduced, "quick": quick}


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """What a run folder says. accuracy: float64 (evaluations, clients), at `rounds`; gaps: by cluster, (round, gap)."""

    rounds: NDArray[np.int64]
    accuracy: NDArray[np.float64]
    gaps: dict[str, list[tuple[int, float]]]
    splits: list[dict[str, Any]]
    summary: dict[str, Any]


def played(value: Scenario, out: Path) -> Curves:
    """The curves of the run in this folder, which is begun, continued or only read."""
    for done in run(value, out, resume=(out / "scenario.json").exists()):
        if done.accuracy is not None:
            words = f"{done.clusters} clusters, accuracy {done.accuracy:.3f}"
            print(f"{type(value.algorithm).__name__}: round {done.round} of {done.rounds}, {words}", flush=True)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    seen = [line for line in lines if "accuracy" in line]
    gaps: dict[str, list[tuple[int, float]]] = {}
    for line in lines:
        for name, gap in line["gap"].items():
            gaps.setdefault(name, []).append((line["round"] + 1, gap))
    return Curves(
        np.array([line["round"] + 1 for line in seen]),
        np.array([[line["accuracy"][i] for i in sorted(line["accuracy"], key=int)] for line in seen]),
        gaps,
        [json.loads(line) for line in (out / "splits.jsonl").read_text().splitlines()],
        json.loads((out / "summary.json").read_text()),
    )


def draw(cfl: Curves, fedavg: Curves, groups: list[int], title: str) -> Figure:
    """Accuracies above, thin a client, thick the mean of a group; separation gaps of all clusters below."""
    figure = Figure(figsize=(8.4, 6.2), layout="constrained", facecolor="white")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1.7, 1])
    for i, group in enumerate(groups):
        top.plot(cfl.rounds, 100 * cfl.accuracy[:, i], color=HUES[group % len(HUES)], lw=0.6, alpha=0.35)
    for group in sorted(set(groups)):
        members = [i for i, g in enumerate(groups) if g == group]
        mean = 100 * cfl.accuracy[:, members].mean(axis=1)
        top.plot(cfl.rounds, mean, color=HUES[group % len(HUES)], lw=2.2, label=f"CFL, group {group}")
    top.plot(fedavg.rounds, 100 * fedavg.accuracy.mean(axis=1), color=INK, lw=1.8, ls=(0, (2, 2)), label="federated averaging")
    for number, (name, values) in enumerate(cfl.gaps.items()):
        x, y = zip(*values, strict=True)
        bottom.plot(x, y, color=GREYS[number % len(GREYS)], lw=1.5, label=f"cluster {name}")
    bottom.axhline(0, color=INK, lw=0.9, ls=(0, (4, 3)))
    for split in cfl.splits:
        for axes in (top, bottom):
            axes.axvline(split["round"] + 1, color="#7b8794", lw=0.9, ls=(0, (1, 2)), zorder=0)
    top.set(ylabel="test accuracy, %", ylim=(0, None))
    bottom.set(xlabel="communication rounds", ylabel=r"separation gap  $g(\alpha)$", xlim=(1, cfl.rounds[-1]))
    top.legend(frameon=False, fontsize=8.5, loc="upper left")
    bottom.legend(frameon=False, fontsize=8, ncols=2)
    top.set_title(title, fontsize=11.5, color=INK)
    for axes in (top, bottom):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    return figure


def main() -> None:
    """Run CFL and federated averaging, print what came out, write permuted_labels_SCALE.png and .json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short for --scale quick")
    parser.add_argument("--scale", choices=tuple(SCALES), default="paper")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    name = "quick" if arguments.quick else arguments.scale
    value = replace(SCALES[name], seed=arguments.seed)

    cfl = played(value, arguments.out / f"{name}_cfl_seed_{value.seed}")
    average = replace(value, name=f"{value.name}, FedAvg", algorithm=FedAvg())
    fedavg = played(average, arguments.out / f"{name}_fedavg_seed_{value.seed}")
    groups = [cfl.summary["groups"][i] for i in sorted(cfl.summary["groups"], key=int)]

    numbers = {
        "data": "digits" if name == "quick" else "CIFAR-10",
        "seed": value.seed,
        "rounds": value.rounds,
        "splits": [{key: split[key] for key in ("round", "cluster", "cross", "gap", "children")} for split in cfl.splits],
        "clusters": cfl.summary["clusters"],
        "ari": cfl.summary["ari"],
        "accuracy": {"cfl": cfl.summary["accuracy_mean"], "fedavg": fedavg.summary["accuracy_mean"]},
        "worst_client": {"cfl": cfl.summary["accuracy_worst"], "fedavg": fedavg.summary["accuracy_worst"]},
        "best_fedavg": float(fedavg.accuracy.mean(axis=1).max()),
        "seconds": {"cfl": cfl.summary["seconds"], "fedavg": fedavg.summary["seconds"]},
        "last_gaps": {cluster: values[-1][1] for cluster, values in cfl.gaps.items()},
        "evaluated": cfl.rounds.tolist(),
        "cfl": cfl.accuracy.mean(axis=1).round(4).tolist(),
        "fedavg": fedavg.accuracy.mean(axis=1).round(4).tolist(),
    }
    print(f"splits in rounds {[split['round'] + 1 for split in cfl.splits]}; {len(cfl.summary['clusters'])} clusters, ", end="")
    print(f"ARI {cfl.summary['ari']:.2f}; mean accuracy {numbers['accuracy']}, worst client {numbers['worst_client']}")
    draw(cfl, fedavg, groups, f"Permuted labels on {numbers['data']}, seed {value.seed}").savefig(
        arguments.out / f"permuted_labels_{name}.png", dpi=110
    )
    (arguments.out / f"permuted_labels_{name}.json").write_text(json.dumps(numbers) + "\n")


if __name__ == "__main__":
    main()
