"""Telling congruent from incongruent clients by two norms: CFL, Sattler et al. 2020, section VI-B, Fig. 7.

Two clients train one model by federated averaging. Incongruent: both hold a random subset of the digits, and each has swapped
another two labels. Congruent: one holds the digits 0 to 4, the other 5 to 9, as different as two clients can be that one
model serves. Every round records the norm of the mean update (Eq. 32) and the largest norm of a client's update (Eq. 33).

    cloister run examples/cfl_fig7_congruent.py:quick                                        # seconds, digits, no file
    python examples/cfl_fig7_congruent.py --quick --seed 0 --out runs/fig7                   # half a minute
    python examples/cfl_fig7_congruent.py --seed 0 --samples 600 --out runs/fig7             # a quarter of an hour
    python examples/cfl_fig7_congruent.py --seed 0 --out runs/fig7                           # paper scale, half a day
    python examples/cfl_fig7_congruent.py --seed 0 --net small --out runs/fig7               # paper scale, an hour

The paper says neither which network this is nor the batch; --net small is one of two strided convolutions in batches of 500,
a tenth of the work. --case runs one of the two cases alone, so that they can be run side by side; the command without it then
draws both.

The paper prints no step size. With few samples and many large steps the network learns single examples by heart, the swapped
ones too, and then even incongruent clients agree: compare --lr 0.1. Interrupted, the same command goes on where it stopped.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import nn

from cloister.fl.algorithms.cfl import CFL, Absolute
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import CongruentHalves, LabelSwap
from cloister.fl.data.source import Digits, Mnist
from cloister.fl.models.papers import CflCnn, EmbeddingAndHead, Mlp
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import Scenario
from cloister.protocol.uploaded.plain import Plain

INK, BLUE, ORANGE = "#1f2933", "#2f6fad", "#d9822b"
PAIRS = ((1, 7), (3, 5))
"""The pairs that the paper names as an example of label swap."""


@dataclass(frozen=True, slots=True)
class SmallCnn:
    """Two strided convolutions and a linear layer: 2,754 parameters for MNIST."""

    def __call__(self, shape: tuple[int, ...], classes: int, /) -> nn.Module:
        embedding = nn.Sequential(
            nn.Conv2d(shape[0], 8, 4, stride=4), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten()
        )
        with torch.no_grad():
            width = embedding(torch.zeros(1, *shape)).shape[1]
        return EmbeddingAndHead(embedding, nn.Linear(width, classes))


NEVER = CFL(thresholds=Absolute(eps1=0.0, eps2=inf), similarities="every round", remember=False)
"""Federated averaging that lets the server measure norms and never splits."""

scenario = Scenario(
    name="CFL fig. 7, MNIST, incongruent",
    data=Mnist(),
    partition=LabelSwap(clients=2, groups=2, pairs=PAIRS),
    model=CflCnn(),
    training=Training(epochs=3, batch=100, lr=0.02),
    algorithm=NEVER,
    protection=Plain(),
    rounds=1000,
    evaluate_every=100,
)
congruent = replace(scenario, name="CFL fig. 7, MNIST, congruent", partition=CongruentHalves(clients=2))
quick = replace(
    scenario,
    name="CFL fig. 7, digits, incongruent",
    data=Digits(),
    partition=LabelSwap(clients=2, groups=2, pairs=PAIRS, samples=300),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=3, batch=20, lr=0.1),
    rounds=200,
)
quick_congruent = replace(quick, name="CFL fig. 7, digits, congruent", partition=CongruentHalves(clients=2, samples=300))


def adapted(value: Scenario, samples: int | None, lr: float, seed: int, net: str) -> Scenario:
    """The scenario with at most that many samples on every client, that step size, that seed and that network."""
    congruent = isinstance(value.partition, CongruentHalves)
    return replace(
        value,
        partition=CongruentHalves(clients=2, samples=samples)
        if congruent
        else LabelSwap(clients=2, groups=2, pairs=PAIRS, samples=samples),
        training=replace(value.training, lr=lr, batch=500 if net == "small" else value.training.batch),
        model=SmallCnn() if net == "small" else value.model,
        seed=seed,
    )


def played(value: Scenario, out: Path) -> list[dict[str, float]]:
    """Norms and accuracy of every round, from the run folder, which is begun, continued or only read."""
    for done in run(value, out, resume=(out / "scenario.json").exists()):
        if done.round % 50 == 0:
            print(f"{value.name}: {done.round} of {done.rounds} rounds", flush=True)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{**line["norms"]["0"], "accuracy": line.get("accuracy_mean")} for line in lines]


def smoothed(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Running geometric mean over `window` rounds, shorter at both ends."""
    logs = np.log(np.maximum(values, 1e-12))
    kernel = np.ones(window)
    return np.asarray(np.exp(np.convolve(logs, kernel, "same") / np.convolve(np.ones(len(logs)), kernel, "same")))


def draw(runs: dict[str, Sequence[dict[str, float]]], subtitle: str) -> Figure:
    """Both norms over the rounds: incongruent left, congruent right, faint every round, strong the running mean."""
    figure = Figure(figsize=(9.6, 4.1), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(runs), sharey=True, squeeze=False)[0]
    for axes, (name, rows) in zip(panels, runs.items(), strict=True):
        window = max(1, len(rows) // 50)
        for key, label, colour in (
            ("max", r"largest client norm  $\max_i \Vert\Delta\theta_i\Vert$  (Eq. 33)", ORANGE),
            ("mean", r"norm of the mean  $\Vert\sum_i \Delta\theta_i / m\Vert$  (Eq. 32)", BLUE),
        ):
            values = np.array([row[key] for row in rows])
            axes.plot(np.arange(1, len(rows) + 1), values, color=colour, lw=0.6, alpha=0.35)
            axes.plot(np.arange(1, len(rows) + 1), smoothed(values, window), color=colour, lw=2, label=label)
        axes.set(yscale="log", xlabel="communication rounds", xlim=(1, len(rows)))
        axes.set_title(name, fontsize=11, color=INK)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[0].set_ylabel("norm of the update")
    panels[-1].legend(frameon=False, fontsize=9)
    figure.suptitle(subtitle, fontsize=11.5, color=INK)
    return figure


def main() -> None:
    """Run both cases, print the table, write norms_NAME.png and .json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the digits that come with scikit-learn, half a minute")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--samples", type=int, help="at most so many samples on each client; all of them if left out")
    parser.add_argument("--lr", type=float, help="another step size than the scenario's")
    parser.add_argument("--net", choices=("paper", "small"), default="paper", help="CflCnn, or a network of a tenth of the work")
    parser.add_argument("--case", choices=("incongruent", "congruent"), help="run this case alone and draw nothing")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    name = "quick" if arguments.quick else "mnist"
    samples = arguments.samples or (300 if arguments.quick else None)
    cases = (quick, quick_congruent) if arguments.quick else (scenario, congruent)
    lr = arguments.lr or cases[0].training.lr
    stem = f"{name}_samples_{samples or 'all'}_lr_{lr}" + ("_small_net" if arguments.net == "small" else "")

    runs: dict[str, Sequence[dict[str, float]]] = {}
    summary = {}
    for value, case in zip(cases, ("incongruent", "congruent"), strict=True):
        if arguments.case not in (None, case):
            continue
        folder = arguments.out / f"{stem}_{case}_seed_{arguments.seed}"
        rows = runs[case] = played(adapted(value, samples, lr, arguments.seed, arguments.net), folder)
        tenth = max(1, len(rows) // 10)
        summary[case] = {
            f"{key} norm, {part} tenth": float(np.mean([row[key] for row in chosen]))
            for part, chosen in (("first", rows[:tenth]), ("second", rows[tenth : 2 * tenth]), ("last", rows[-tenth:]))
            for key in ("mean", "max")
        }
        summary[case]["accuracy"] = rows[-1]["accuracy"]
        print(f"{case:>11}: " + ", ".join(f"{key} {number:.3g}" for key, number in summary[case].items()))

    if arguments.case:
        return
    data = "digits" if arguments.quick else "MNIST"
    title = f"Two clients, {data}, {samples or 'all'} samples each, step size {lr}"
    draw(runs, title).savefig(arguments.out / f"norms_{stem}.png", dpi=120)
    numbers = {
        "data": data,
        "samples": samples,
        "lr": lr,
        "seed": arguments.seed,
        "rounds": len(rows),
        "summary": summary,
        "norms": {
            case: {key: [float(f"{row[key]:.4g}") for row in rows] for key in ("mean", "max")} for case, rows in runs.items()
        },
    }
    (arguments.out / f"norms_{stem}.json").write_text(json.dumps(numbers) + "\n")


if __name__ == "__main__":
    main()
