"""Separation gap over the communication rounds: CFL, Sattler et al. 2020, section VI-A, Fig. 6.

20 clients in 4 groups, each group with another two labels swapped, train one model by federated averaging, 3 local epochs a
round. At the start of every round two gaps (Eq. 28) are taken at the same model: of the weight-updates that clients upload
anyway, and of full gradients. A positive gap makes CFL's bipartition correct (Corollary 1).

    cloister run examples/cfl_fig6_gap_over_rounds.py:quick                                   # seconds, digits, no file
    python examples/cfl_fig6_gap_over_rounds.py --quick --seeds 0 1 --out runs/fig6           # seconds
    python examples/cfl_fig6_gap_over_rounds.py --seeds 0 1 2 --out runs/fig6                 # paper scale, MNIST, minutes
    python examples/cfl_fig6_gap_over_rounds.py --seeds 0 1 2 --data cifar --out runs/fig6    # paper scale, CIFAR-10, an hour

Step size and momentum, which the paper does not print, are those of the authors' published notebook (a fifth of that step on
CIFAR-10); the batch is that of section VI-C. Round n of the figure is the state after n rounds. A seed that is already in the
output folder is not computed again.
"""

import argparse
import json
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import ClassVar

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cloister.fl.algorithms.cfl import CFL, Absolute
from cloister.fl.clients.training import Training
from cloister.fl.clustering.separation import cosine_similarity, separation_gap
from cloister.fl.data.partition import LabelSwap
from cloister.fl.data.source import Cifar10, Digits, Mnist
from cloister.fl.models.papers import CflCnn, Mlp
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol.uploaded.plain import Plain
from cloister.protocol.view.answers import Assignment, Work

INK, BLUE, ORANGE = "#1f2933", "#2f6fad", "#d9822b"
KINDS = {"update": ("weight-updates", BLUE), "gradient": ("full gradients", ORANGE)}


@dataclass(frozen=True, slots=True)
class Measured(CFL):
    """CFL whose clients agree to be asked for full gradients beside updates."""

    works: ClassVar[frozenset[Work]] = frozenset({"update", "gradient"})


NEVER = Measured(thresholds=Absolute(eps1=0.0, eps2=inf), similarities="every round", remember=False)
"""Federated averaging that lets the server measure similarities and never splits."""

scenario = Scenario(
    name="CFL fig. 6, MNIST",
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
    name="CFL fig. 6, CIFAR-10",
    data=Cifar10(),
    partition=LabelSwap(clients=20, groups=4, pairs=None, samples=1500),
    training=replace(scenario.training, lr=0.02),
)
quick = replace(
    scenario,
    name="CFL fig. 6, digits",
    data=Digits(),
    partition=LabelSwap(clients=20, groups=4, pairs=None, samples=60),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=3, batch=10, lr=0.1),
    rounds=30,
)

SCENARIOS = {"mnist": scenario, "cifar": cifar, "quick": quick}


def gap_of_gradients(simulation: Simulation) -> float:
    """The gap of the clients' full gradients at the present model (the paper's "Gradient")."""
    root, groups = simulation.state.clusters["0"], simulation.population.groups
    work = {"0": Assignment(root.model, root.members, root.members)}
    gram = simulation.view.gram(simulation.view.train(simulation.state.round, work, "gradient")["0"], origin=True)
    return separation_gap(cosine_similarity(gram.matrix), [groups[i] for i in gram.clients])


def gaps_over_rounds(value: Scenario, folder: Path | None = None) -> dict[str, list[float]]:
    """Both gaps after 0, 1, ..., `rounds` rounds. The weight-updates are those of the round that comes next."""
    simulation = Simulation(value, folder)
    groups = simulation.population.groups
    gaps: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for n in range(value.rounds + 1):
        gaps["gradient"].append(gap_of_gradients(simulation))
        simulation.step()
        seen = simulation.state.measured["0"]
        gaps["update"].append(separation_gap(seen.similarity, [groups[i] for i in seen.clients]))
        if n % 10 == 0:
            print(f"{value.name}, seed {value.seed}: after {n} rounds gap {gaps['update'][-1]:+.3f} of updates", flush=True)
    return gaps


def settled(gaps: NDArray[np.float64]) -> int | None:
    """The first round from which the gap stays above 0 to the end, or None."""
    below = np.flatnonzero(gaps <= 0)
    first = int(below[-1]) + 1 if len(below) else 0
    return first if first < len(gaps) else None


def draw(name: str, gaps: dict[str, NDArray[np.float64]]) -> Figure:
    """Mean and range over seeds of both gaps, shape (seeds, rounds + 1) each."""
    figure = Figure(figsize=(6.6, 4.2), layout="constrained", facecolor="white")
    axes = figure.subplots()
    for kind, (label, colour) in KINDS.items():
        values = gaps[kind]
        rounds = np.arange(values.shape[1])
        axes.fill_between(rounds, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.18, lw=0)
        axes.plot(rounds, values.mean(axis=0), color=colour, lw=2, label=label)
    axes.axhline(0, color=INK, lw=0.9, ls=(0, (4, 3)))
    axes.set(xlabel="communication rounds", ylabel=r"separation gap  $g(\alpha)$", xlim=(0, rounds[-1]))
    axes.legend(title="similarity of", frameon=False, fontsize=9, title_fontsize=9)
    seeds = f"{len(values)} seed{'s' if len(values) > 1 else ''}"
    axes.set_title(f"Label swap on {name}: mean and range of {seeds}", fontsize=11, color=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def main() -> None:
    """Run the seeds that are missing, print the table, write gap_over_rounds_NAME.png and .json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the digits that come with scikit-learn, seconds")
    parser.add_argument("--data", choices=("mnist", "cifar"), default="mnist")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    name = "quick" if arguments.quick else arguments.data
    base = SCENARIOS[name]

    points = arguments.out / f"{name}_points"
    points.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in arguments.seeds:
        file = points / f"seed_{seed}.json"
        if not file.exists():
            file.write_text(json.dumps(gaps_over_rounds(replace(base, seed=seed))) + "\n")
        rows.append(json.loads(file.read_text()))

    gaps = {kind: np.array([row[kind] for row in rows]) for kind in KINDS}
    first = {kind: [settled(values) for values in gaps[kind]] for kind in KINDS}
    for kind, (label, _) in KINDS.items():
        ends = ", ".join(f"{gap:+.3f}" for gap in gaps[kind][:, -1])
        print(f"{label}: gap stays above 0 from round {first[kind]} (a seed each), after {base.rounds} rounds it is {ends}")
    title = {"mnist": "MNIST", "cifar": "CIFAR-10", "quick": "digits"}[name]
    draw(title, gaps).savefig(arguments.out / f"gap_over_rounds_{name}.png", dpi=130)
    numbers = {
        "data": title,
        "rounds": base.rounds,
        "seeds": arguments.seeds,
        "above_zero_from": first,
        "gap": {kind: values.round(5).tolist() for kind, values in gaps.items()},
    }
    (arguments.out / f"gap_over_rounds_{name}.json").write_text(json.dumps(numbers) + "\n")


if __name__ == "__main__":
    main()
