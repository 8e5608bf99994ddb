"""Separation gap over the number of samples a client holds: CFL, Sattler et al. 2020, section VI-A, Fig. 5.

20 clients in 4 groups, each group with another two labels swapped, train one model by federated averaging for 50 rounds of
3 local epochs. At that model the clients compute one more weight-update and one full gradient; the gap of both similarity
matrices (Eq. 28) says how clearly the groups show. A positive gap makes CFL's bipartition correct (Corollary 1).

    cloister run examples/cfl_fig5_gap_over_samples.py:quick                                    # seconds, digits, no file
    python examples/cfl_fig5_gap_over_samples.py --quick --seeds 0 1 --out runs/fig5            # half a minute
    python examples/cfl_fig5_gap_over_samples.py --seeds 0 1 2 --out runs/fig5                  # paper scale, MNIST, minutes
    python examples/cfl_fig5_gap_over_samples.py --seeds 0 1 2 --data cifar --out runs/fig5     # paper scale, CIFAR-10, hours

The paper prints neither step size nor, for this figure, the batch size. Step size and momentum here are those of the authors'
published notebook (a fifth of that step on CIFAR-10), the batch is that of section VI-C; --batch takes another. Every seed
draws label pairs, data and model anew. A point that is already in the output folder is not computed again.
"""

import argparse
import json
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure

from cloister.fl.algorithms.cfl import CFL, Absolute
from cloister.fl.clients.training import Training
from cloister.fl.clustering.bipartition import optimal_bipartition
from cloister.fl.clustering.separation import correct, cosine_similarity, norm_of_combination, norms, separation_gap
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Cifar10, Digits, Mnist
from cloister.fl.models.papers import CflCnn, Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol.uploaded.plain import Plain
from cloister.protocol.view.answers import Assignment, Work

INK, BLUE, ORANGE = "#1f2933", "#2f6fad", "#d9822b"
KINDS: dict[Work, tuple[str, str]] = {"update": ("weight-updates", BLUE), "gradient": ("full gradients", ORANGE)}


@dataclass(frozen=True, slots=True)
class Measured(CFL):
    """CFL whose clients agree to be asked for full gradients beside updates."""

    works: ClassVar[frozenset[Work]] = frozenset({"update", "gradient"})


NEVER = Measured(thresholds=Absolute(eps1=0.0, eps2=inf), similarities="every round", remember=False)
"""Federated averaging that lets the server measure similarities and never splits."""

scenario = Scenario(
    name="CFL fig. 5, MNIST, 100 samples",
    data=Mnist(),
    partition=LabelSwap(clients=20, groups=4, pairs=None, samples=100),
    model=CflCnn(),
    training=Training(epochs=3, batch=100, lr=0.1, momentum=0.9),
    algorithm=NEVER,
    protection=Plain(),
    rounds=50,
    evaluate_every=10,
)
cifar = replace(
    scenario,
    name="CFL fig. 5, CIFAR-10, 500 samples",
    data=Cifar10(),
    partition=LabelSwap(clients=20, groups=4, pairs=None, samples=500),
    training=replace(scenario.training, lr=0.02),
)
quick = replace(
    scenario,
    name="CFL fig. 5, digits, 50 samples",
    data=Digits(),
    partition=LabelSwap(clients=20, groups=4, pairs=None, samples=50),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=3, batch=10, lr=0.1),
    rounds=30,
)

SCALES = {
    "mnist": (scenario, (10, 20, 30, 50, 100, 150, 200)),
    "cifar": (cifar, (100, 250, 500, 1000, 1500, 2400)),
    "quick": (quick, (5, 10, 20, 40, 60)),
}


def with_samples(value: Scenario, samples: int, seed: int) -> Scenario:
    """The scenario with that many samples on every client, and that seed."""
    return replace(value, partition=LabelSwap(clients=20, groups=4, pairs=None, samples=samples), seed=seed)


def measured(simulation: Simulation, kind: Work) -> dict[str, float | bool]:
    """What the clients' weight-updates or full gradients at the present model show: the gap, and whether a cut is right."""
    root, groups = simulation.state.clusters["0"], simulation.population.groups
    work = {"0": Assignment(root.model, root.members, root.members)}
    gram = simulation.view.gram(simulation.view.train(simulation.state.round, work, kind)["0"], origin=True)
    alpha = cosine_similarity(gram.matrix)
    return {
        "gap": separation_gap(alpha, [groups[i] for i in gram.clients]),
        "correct": correct(optimal_bipartition(alpha, gram.clients), groups),
        "mean_norm": norm_of_combination(gram.matrix, np.full(len(alpha), 1 / len(alpha))),
        "largest_norm": float(norms(gram.matrix).max()),
    }


def point(value: Scenario, folder: Path | None = None) -> dict[str, object]:
    """Train for the scenario's rounds, then measure both similarities at the model that came out."""
    simulation = Simulation(value, folder)
    for _ in range(value.rounds):
        simulation.step()
    accuracy = float(np.mean([score.accuracy for score in simulation.evaluate().values()]))
    return {"rounds": value.rounds, "accuracy": accuracy, **{kind: measured(simulation, kind) for kind in KINDS}}


def draw(name: str, rounds: int, samples: tuple[int, ...], gaps: dict[Work, np.ndarray]) -> Figure:
    """Mean and range over seeds of both gaps, shape (seeds, sizes) each."""
    figure = Figure(figsize=(6.6, 4.2), layout="constrained", facecolor="white")
    axes = figure.subplots()
    for kind, (label, colour) in KINDS.items():
        values = gaps[kind]
        axes.fill_between(samples, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.18, lw=0)
        axes.plot(samples, values.mean(axis=0), color=colour, lw=2, marker="o", ms=4, label=label)
    axes.axhline(0, color=INK, lw=0.9, ls=(0, (4, 3)))
    axes.set(xlabel="samples on every client", ylabel=r"separation gap  $g(\alpha)$", xlim=(0, samples[-1] * 1.02))
    axes.legend(title="similarity of", frameon=False, fontsize=9, title_fontsize=9)
    seeds = f"{len(values)} seed{'s' if len(values) > 1 else ''}"
    axes.set_title(f"Label swap on {name} after {rounds} rounds: mean and range of {seeds}", fontsize=11, color=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def main() -> None:
    """Run what is missing, print the table, write gap_over_samples_NAME.png and .json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the digits that come with scikit-learn, half a minute")
    parser.add_argument("--data", choices=("mnist", "cifar"), default="mnist")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--samples", type=int, nargs="+", help="other sample sizes than the figure's")
    parser.add_argument("--batch", type=int, help="another batch size than the scenario's")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    name = "quick" if arguments.quick else arguments.data
    base, sizes = SCALES[name]
    if arguments.batch is not None:
        base, name = replace(base, training=replace(base.training, batch=arguments.batch)), f"{name}_batch_{arguments.batch}"
    samples = tuple(arguments.samples or sizes)

    points = arguments.out / f"{name}_points"
    points.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in arguments.seeds:
        for size in samples:
            file = points / f"samples_{size}_seed_{seed}.json"
            if not file.exists():
                found = {"samples": size, "seed": seed, **point(with_samples(base, size, seed))}
                file.write_text(json.dumps(found, indent=1) + "\n")
            row = json.loads(file.read_text())
            rows.append(row)
            print(
                f"seed {seed}, {size:>4} samples: gap {row['update']['gap']:+.3f} of updates, {row['gradient']['gap']:+.3f} of"
                f" gradients; accuracy {row['accuracy']:.3f}",
                flush=True,
            )

    shape = len(arguments.seeds), len(samples)
    gaps: dict[Work, np.ndarray] = {kind: np.array([row[kind]["gap"] for row in rows]).reshape(shape) for kind in KINDS}
    for kind, (label, _) in KINDS.items():
        always = [size for size, column in zip(samples, gaps[kind].T, strict=True) if (column > 0).all()]
        print(f"{label}: gap above 0 in every seed at {', '.join(map(str, always)) or 'no number of'} samples")
    title = "digits" if arguments.quick else {"mnist": "MNIST", "cifar": "CIFAR-10"}[arguments.data]
    draw(title, base.rounds, samples, gaps).savefig(arguments.out / f"gap_over_samples_{name}.png", dpi=130)
    numbers = {
        "data": title,
        "rounds": base.rounds,
        "batch": base.training.batch,
        "seeds": arguments.seeds,
        "samples": samples,
        "points": rows,
    }
    (arguments.out / f"gap_over_samples_{name}.json").write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
