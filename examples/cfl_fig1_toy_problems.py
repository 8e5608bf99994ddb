"""Two toy problems that no single federated model solves: CFL, Sattler et al. 2020, Fig. 1 and Algorithm 3.

Federated XOR: each group of clients holds two linearly separable blobs, together they are XOR, too much for a linear model.
Diverging conditionals: both groups draw the same inputs but label them by different lines, too much for any model.
Federated averaging is run to its stationary point; the cosines of the updates there give the bipartition; each side goes on
alone. As a control both problems are repeated with a small neural network: it makes XOR congruent, so that nothing may be
split, and leaves the other problem incongruent.

    python examples/cfl_fig1_toy_problems.py --quick --seed 0 --out runs/fig1
    python examples/cfl_fig1_toy_problems.py --seed 0 --out runs/fig1              # paper scale, five seeds: 0 to 4
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from torch import Tensor
from torch.func import grad, vmap
from torch.nn.functional import binary_cross_entropy_with_logits

from cloister.fl.clustering.bipartition import Bipartition, optimal_bipartition
from cloister.fl.clustering.separation import accepts, correct, cosine_similarity, norm_of_combination, norms, separation_gap
from cloister.fl.runs.metrics import adjusted_rand_index

LEARNING_RATE, LOCAL_STEPS = 0.2, 5
EPS_1, EPS_2, GAMMA_MAX, LEAST_ROUNDS = 0.01, 0.15, 0.5, 100
HIDDEN = 16
INK, GROUPS, LABELS = "#1f2933", ("#2f6fad", "#e08a2c"), ("o", "P")
REACH = 2.1

Model = Callable[[Tensor, Tensor], Tensor]
"""Logits, shape (n,), of a flat parameter vector for inputs of shape (n, 2)."""


def linear(theta: Tensor, x: Tensor) -> Tensor:
    """Logistic regression: 3 parameters."""
    return x @ theta[:2] + theta[2]


def network(theta: Tensor, x: Tensor) -> Tensor:
    """One hidden layer of tanh units: 4 HIDDEN + 1 parameters."""
    weight, bias, out = theta[: 2 * HIDDEN].reshape(2, HIDDEN), theta[2 * HIDDEN : 3 * HIDDEN], theta[3 * HIDDEN : -1]
    return torch.tanh(x @ weight + bias) @ out + theta[-1]


@dataclass(frozen=True, slots=True)
class Problem:
    """Data of m clients. x: float64, shape (m, n, 2); y: float64 in {0, 1}, shape (m, n); groups: of every client, length m."""

    x: Tensor
    y: Tensor
    groups: tuple[int, ...]


def federated_xor(per_group: int, points: int, rng: np.random.Generator) -> Problem:
    """Group 0 holds the two upper blobs, group 1 the two lower ones with the labels exchanged."""
    groups = (0,) * per_group + (1,) * per_group
    y = rng.integers(0, 2, size=(len(groups), points))
    lower = np.array(groups)[:, None]
    centre = np.stack([np.where(y == lower, 1.0, -1.0), np.broadcast_to(1.0 - 2 * lower, y.shape)], axis=-1)
    return Problem(torch.tensor(centre + rng.normal(scale=0.28, size=centre.shape)), torch.tensor(y, dtype=torch.float64), groups)


def diverging_conditionals(per_group: int, points: int, rng: np.random.Generator) -> Problem:
    """Both groups draw from one disc; the lines that label them are 120 degrees apart."""
    groups = (0,) * per_group + (1,) * per_group
    shape = (len(groups), points)
    radius, turn = 1.9 * np.sqrt(rng.uniform(size=shape)), rng.uniform(0, 2 * np.pi, size=shape)
    x = np.stack([radius * np.cos(turn), radius * np.sin(turn)], axis=-1)
    normal = np.array([[np.cos(np.radians(a)), np.sin(np.radians(a))] for a in (150, 30)])[list(groups)]
    return Problem(torch.tensor(x), torch.tensor(np.einsum("mnd,md->mn", x, normal) > 0, dtype=torch.float64), groups)


def weight_updates(model: Model, theta: Tensor, problem: Problem, members: list[int]) -> Tensor:
    """Updates of full-batch gradient descent, shape (members, parameters) (Eq. 1)."""

    def loss(parameters: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(model(parameters, x), y)

    local = theta.expand(len(members), -1)
    for _ in range(LOCAL_STEPS):
        local = local - LEARNING_RATE * vmap(grad(loss))(local, problem.x[members], problem.y[members])
    return local - theta


@dataclass(frozen=True, slots=True)
class Stationary:
    """Where federated learning of some clients stopped, and what the server saw there."""

    members: tuple[int, ...]
    theta: Tensor
    rounds: int
    mean_norm: float
    largest_norm: float
    alpha: NDArray[np.float64]
    cut: Bipartition | None
    """The bipartition if the clients were split there."""


def federated_learning(model: Model, theta: Tensor, problem: Problem, members: tuple[int, ...], limit: int) -> Stationary:
    """Algorithm 2 until the mean update is below EPS_1 (a start may be flat: not too early), then Algorithm 3, line 6."""
    rounds = 0
    while True:
        updates = weight_updates(model, theta, problem, list(members))
        gram = (updates @ updates.T).numpy()
        mean_norm, largest = norm_of_combination(gram, np.full(len(members), 1 / len(members))), float(norms(gram).max())
        if rounds == limit or (rounds >= LEAST_ROUNDS and mean_norm < EPS_1):
            break
        theta, rounds = theta + updates.mean(dim=0), rounds + 1
    alpha, cut = cosine_similarity(gram), None
    if len(members) > 1 and mean_norm < EPS_1 and largest > EPS_2:
        found = optimal_bipartition(alpha, members)
        cut = found if accepts(found.cross, GAMMA_MAX) else None
    return Stationary(members, theta, rounds, mean_norm, largest, alpha, cut)


def clustered(model: Model, theta: Tensor, problem: Problem, members: tuple[int, ...], limit: int) -> list[Stationary]:
    """Algorithm 3: every stationary point on the way, the root first."""
    here = federated_learning(model, theta, problem, members, limit)
    sides = (here.cut.left, here.cut.right) if here.cut else ()
    return [here, *(below for side in sides for below in clustered(model, here.theta, problem, side, limit))]


def accuracy(model: Model, point: Stationary, fresh: Problem) -> float:
    """Mean accuracy of the point's model over its members, on data not trained on."""
    members = list(point.members)
    logits = model(point.theta, fresh.x[members].reshape(-1, 2))
    return float(((logits > 0) == (fresh.y[members].reshape(-1) > 0.5)).double().mean())


@dataclass(frozen=True, slots=True)
class Outcome:
    """One problem with one model: all stationary points, and accuracies on fresh data."""

    model: Model
    problem: Problem
    points: list[Stationary]
    federated: float
    by_leaf: tuple[float, ...]

    @property
    def clustered(self) -> float:
        """Mean over clients, not over clusters."""
        return float(np.average(self.by_leaf, weights=[len(leaf.members) for leaf in self.leaves]))

    @property
    def leaves(self) -> list[Stationary]:
        return [point for point in self.points if point.cut is None]

    def numbers(self) -> dict[str, object]:
        root = self.points[0]
        planted = dict(enumerate(self.problem.groups))
        return {
            "accuracy_federated": self.federated,
            "accuracy_clustered": self.clustered,
            "accuracy_by_cluster": self.by_leaf,
            "clusters": [list(leaf.members) for leaf in self.leaves],
            "adjusted_rand_index": adjusted_rand_index([leaf.members for leaf in self.leaves], planted),
            "bipartition_correct": correct(root.cut, planted) if root.cut else None,
            "rounds": [point.rounds for point in self.points],
            "mean_norm": [point.mean_norm for point in self.points],
            "largest_norm": [point.largest_norm for point in self.points],
            "separation_gap": separation_gap(root.alpha, self.problem.groups),
            "cross": optimal_bipartition(root.alpha, root.members).cross,
        }


def solve(make: Callable[[int, int, np.random.Generator], Problem], model: Model, quick: bool, seed: int) -> Outcome:
    """Make the problem, run CFL, test on as many fresh points of the same clients."""
    rng = np.random.default_rng(seed)
    per_group, points = (5, 60) if quick else (10, 100)
    problem, fresh = make(per_group, points, rng), make(per_group, 1000, rng)
    theta = torch.tensor(rng.normal(size=3) if model is linear else rng.normal(scale=0.7, size=4 * HIDDEN + 1))
    reached = clustered(model, theta, problem, tuple(range(2 * per_group)), 400 if quick else 1000)
    by_leaf = tuple(accuracy(model, point, fresh) for point in reached if point.cut is None)
    return Outcome(model, problem, reached, accuracy(model, reached[0], fresh), by_leaf)


def draw_model(axes: Axes, outcome: Outcome, point: Stationary, title: str) -> None:
    """The members' points and the model's two half planes. Colour is the planted group, marker the label."""
    line = torch.linspace(-REACH, REACH, 240, dtype=torch.float64)
    grid = torch.cartesian_prod(line, line)
    logits = outcome.model(point.theta, grid).reshape(240, 240).T.numpy()
    axes.contourf(line, line, logits, levels=[-1e9, 0, 1e9], colors=["#ffffff", "#e4e7eb"])
    axes.contour(line, line, logits, levels=[0], colors=INK, linewidths=1.8)
    for group, colour in enumerate(GROUPS):
        for label, marker in enumerate(LABELS):
            chosen = [i for i in point.members if outcome.problem.groups[i] == group]
            x, y = outcome.problem.x[chosen].reshape(-1, 2), outcome.problem.y[chosen].reshape(-1)
            x = x[y == label][:110]
            face = "white" if label == 0 else colour
            axes.scatter(x[:, 0], x[:, 1], s=20, marker=marker, c=face, edgecolors=colour, linewidths=0.9, alpha=0.9)
    axes.set_title(title, fontsize=10)
    axes.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), aspect="equal", xticks=[], yticks=[])


def draw(outcomes: dict[str, Outcome]) -> Figure:
    """A row for each problem: data with the federated model, similarities at its stationary point, a panel for each leaf."""
    figure = Figure(figsize=(12.6, 6.9), layout="constrained", facecolor="white")
    rows = figure.subfigures(len(outcomes), 1, squeeze=False)[:, 0]
    diverging = LinearSegmentedColormap.from_list("similarity", ["#b5482a", "#f7f4f0", "#20639b"])
    for row, (name, outcome) in zip(rows, outcomes.items(), strict=True):
        row.suptitle(name, x=0.01, ha="left", fontsize=12.5, color=INK, weight="bold")
        panels = row.subplots(1, 4, width_ratios=[1, 1.12, 1, 1])
        root = outcome.points[0]
        draw_model(panels[0], outcome, root, f"one federated model: {outcome.federated:.1%} correct")
        image = panels[1].imshow(root.alpha, cmap=diverging, vmin=-1, vmax=1)
        panels[1].set_title(f"cosines at its end: cut at {optimal_bipartition(root.alpha, root.members).cross:.2f}", fontsize=10)
        panels[1].set(xlabel="client", xticks=[0, len(root.alpha) - 1], yticks=[0, len(root.alpha) - 1])
        row.colorbar(image, ax=panels[1], shrink=0.85, pad=0.02, ticks=[-1, 0, 1])
        for axes, number in zip(panels[2:], range(2), strict=True):
            if number < len(outcome.leaves) and len(outcome.leaves) > 1:
                leaf, leaf_accuracy = outcome.leaves[number], outcome.by_leaf[number]
                draw_model(axes, outcome, leaf, f"CFL cluster {number + 1}, {len(leaf.members)} clients: {leaf_accuracy:.1%}")
            else:
                axes.set_axis_off()
    marks = [Line2D([], [], ls="", marker="s", color=colour, label=f"group {i + 1}") for i, colour in enumerate(GROUPS)]
    marks += [
        Line2D([], [], ls="", marker=marker, mfc="white" if label == 0 else INK, color=INK, label=f"label {label}")
        for label, marker in enumerate(LABELS)
    ]
    figure.legend(
        handles=[*marks, Line2D([], [], color=INK, lw=1.8, label="decision boundary")],
        loc="outside lower center",
        ncols=5,
        frameon=False,
    )
    return figure


def report(seed: int, problem: str, model: str, outcome: Outcome) -> None:
    """One line on the accuracies, one on each stationary point."""
    print(f"seed {seed}, {problem}, {model}: federated {outcome.federated:.3f}, clustered {outcome.clustered:.3f}")
    for point in outcome.points:
        verdict = f"cut at {point.cut.cross:.2f}" if point.cut else "not cut"
        print(
            f"    {len(point.members):>3} clients, {point.rounds:>4} rounds: norm of the mean {point.mean_norm:.4f},"
            f" largest {point.largest_norm:.3f}, {verdict}",
            flush=True,
        )


def main() -> None:
    """Run, print the table, write toy_problems.png (of the first seed) and toy_problems.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer clients, points and rounds, one seed")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds = [arguments.seed] if arguments.quick else list(range(arguments.seed, arguments.seed + 5))
    problems = {"Federated XOR": federated_xor, "Diverging conditionals": diverging_conditionals}
    models: dict[str, Model] = {"linear": linear, "network": network}

    first: dict[str, Outcome] = {}
    results: list[dict[str, object]] = []
    for seed in seeds:
        for problem_name, make in problems.items():
            for model_name, model in models.items():
                outcome = solve(make, model, arguments.quick, seed)
                if seed == seeds[0] and model is linear:
                    first[problem_name] = outcome
                numbers = outcome.numbers()
                results.append({"problem": problem_name, "model": model_name, "seed": seed} | numbers)
                report(seed, problem_name, model_name, outcome)

    arguments.out.mkdir(parents=True, exist_ok=True)
    draw(first).savefig(arguments.out / "toy_problems.png", dpi=160)
    settings = {
        "eps_1": EPS_1,
        "eps_2": EPS_2,
        "gamma_max": GAMMA_MAX,
        "learning_rate": LEARNING_RATE,
        "local_steps": LOCAL_STEPS,
    }
    (arguments.out / "toy_problems.json").write_text(json.dumps({"settings": settings, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
