"""Incongruent and congruent clients at a stationary point: CFL, Sattler et al. 2020, Fig. 2 and Eq. 32-33.

Two clients, two parameters. A client's risk is half the squared distance (in its own metric) of theta to its own ellipse:
all points inside are optimal. If the ellipses are disjoint, federated learning stops where the gradients are opposed and of
positive norm; if they overlap, it stops in the overlap, where both gradients are zero. The norms tell the cases apart:
the norm of the mean is below eps_1 in both, the largest norm exceeds eps_2 in one. Gradients are what a server sees of them,
weight updates divided by step size and number of local steps (section V-A): federated averaging with several local steps
stops where the updates cancel, and there the true gradients cancel only nearly (`norm_of_mean_gradient`).

    python examples/cfl_fig2_optimisation_paths.py --quick --seed 0 --out runs/fig2      # a second
    python examples/cfl_fig2_optimisation_paths.py --seed 0 --out runs/fig2              # paper scale, a few seconds
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from cloister.fl.clustering.bipartition import optimal_bipartition
from cloister.fl.clustering.separation import accepts, cosine_similarity, norm_of_combination, norms

LEARNING_RATE, LOCAL_STEPS = 0.05, 3
EPS_1, EPS_2, GAMMA_MAX = 0.01, 0.1, 0.7
INK, GREY, OVERLAP, CLIENTS = "#1f2933", "#9aa5b1", "#8b97a5", ("#2f6fad", "#e08a2c")
VIEW = (-3.2, 3.2, -2.4, 2.4)


@dataclass(frozen=True, slots=True)
class Client:
    """Risk r(theta) = max(0, q - 1)^2 / 2 with q = |A (theta - centre)|: zero on the ellipse q <= 1 around the centre."""

    centre: NDArray[np.float64]
    shape: NDArray[np.float64]

    def q(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """theta: shape (..., 2)."""
        return np.asarray(np.linalg.norm((theta - self.centre) @ self.shape.T, axis=-1))

    def gradient(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """theta: shape (2,)."""
        q = float(self.q(theta))
        return (q - 1) / q * (self.shape.T @ self.shape @ (theta - self.centre)) if q > 1 else np.zeros(2)


def ellipse(centre: tuple[float, float], radii: tuple[float, float], degrees: float) -> Client:
    """The client whose optimal area has these half axes, turned by degrees."""
    turn = np.radians(degrees)
    rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    return Client(np.array(centre), np.diag(1 / np.array(radii)) @ rotation)


INCONGRUENT = (ellipse((-1.7, 0.35), (0.75, 0.5), 25), ellipse((1.65, -0.45), (0.6, 0.85), 10))
CONGRUENT = (ellipse((-0.75, 0.25), (1.35, 0.8), 25), ellipse((0.75, -0.3), (0.95, 1.2), 10))


def local_training(client: Client, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """A weight update after LOCAL_STEPS gradient steps (Eq. 1)."""
    local = theta.copy()
    for _ in range(LOCAL_STEPS):
        local -= LEARNING_RATE * client.gradient(local)
    return local - theta


@dataclass(frozen=True, slots=True)
class Run:
    """One federated run: models, shape (rounds + 1, 2); norms of the mean and of both updates, shape (rounds + 1, 3)."""

    path: NDArray[np.float64]
    norms: NDArray[np.float64]
    cosine: float
    split: bool
    norm_of_mean_gradient: float


def federated(clients: tuple[Client, Client], start: NDArray[np.float64], rounds: int) -> Run:
    """Federated averaging with equal weights (Algorithm 2), then the test whether to split (Eq. 32, 33, 39)."""
    path, history = [start], []
    for _ in range(rounds + 1):
        theta = path[-1]
        updates = np.array([local_training(client, theta) for client in clients])
        seen = updates / (LEARNING_RATE * LOCAL_STEPS)
        gram = seen @ seen.T
        history.append([norm_of_combination(gram, [0.5, 0.5]), *norms(gram)])
        path.append(theta + updates.mean(axis=0))
    alpha = cosine_similarity(gram)
    stationary, unhappy = history[-1][0] < EPS_1, max(history[-1][1:]) > EPS_2
    split = stationary and unhappy and accepts(optimal_bipartition(alpha, [0, 1]).cross, GAMMA_MAX)
    mean_gradient = np.mean([client.gradient(theta) for client in clients], axis=0)
    return Run(np.array(path[:-1]), np.array(history), float(alpha[0, 1]), bool(split), float(np.linalg.norm(mean_gradient)))


def draw_paths(axes: Axes, clients: tuple[Client, Client], runs: list[Run], title: str) -> None:
    """Contours of both risks, the areas where they are zero, all paths, and the clients' descent directions along the first."""
    x, y = np.meshgrid(np.linspace(*VIEW[:2], 400), np.linspace(*VIEW[2:], 300))
    grid = np.stack([x, y], axis=-1)
    distances = [client.q(grid) for client in clients]
    for distance, colour in zip(distances, CLIENTS, strict=True):
        axes.contour(x, y, distance, levels=np.arange(1.6, 7, 0.6), colors=colour, linewidths=0.7, alpha=0.4)
        axes.contourf(x, y, distance, levels=[0, 1], colors=[colour], alpha=0.25)
        axes.contour(x, y, distance, levels=[1], colors=colour, linewidths=1.3)
    both = np.maximum(*distances)
    if both.min() <= 1:
        axes.contourf(x, y, both, levels=[0, 1], colors=[OVERLAP])
    for number, run in enumerate(runs):
        axes.plot(*run.path.T, color=INK, lw=1.9 if number == 0 else 1.0, alpha=1 if number == 0 else 0.55, zorder=3)
        axes.plot(*run.path[0], "o", color="white", mec=INK, ms=5, zorder=4)
        axes.plot(*run.path[-1], "*", color=INK, mec="white", ms=15, zorder=6)
    main = runs[0]
    steps = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(main.path, axis=0), axis=1))])
    shown = [int(np.searchsorted(steps, share * steps[-1])) for share in (0.0, 0.3, 0.62)] + [len(main.path) - 1]
    for position in shown:
        theta = main.path[position]
        for client, colour in zip(clients, CLIENTS, strict=True):
            arrow = -0.32 * client.gradient(theta)
            if np.linalg.norm(arrow) > 1e-3:
                style = {"arrowstyle": "-|>", "color": colour, "lw": 2, "shrinkA": 0, "shrinkB": 0}
                axes.annotate("", theta + arrow, theta, arrowprops=style, zorder=5)
    axes.set_title(title, fontsize=11)
    axes.set(xlim=VIEW[:2], ylim=VIEW[2:], aspect="equal", xlabel=r"$\theta_1$", ylabel=r"$\theta_2$")


def draw_norms(axes: Axes, run: Run) -> None:
    """Gradient norms by round, with both thresholds."""
    floor = 1e-4
    for column, (colour, width) in enumerate(zip((INK, *CLIENTS), (2.2, 1.8, 1.8), strict=True)):
        axes.plot(np.maximum(run.norms[:, column], floor), color=colour, lw=width, ls="-" if column else (0, (5, 2)))
    for level, name in ((EPS_1, r"$\varepsilon_1$"), (EPS_2, r"$\varepsilon_2$")):
        axes.axhline(level, color=GREY, lw=0.9, zorder=0)
        axes.text(len(run.norms) * 0.99, level * 1.15, name, color="#52606d", ha="right", fontsize=10)
    axes.set(yscale="log", xlabel="communication round", ylabel="gradient norm", ylim=(floor, 10), xlim=(0, len(run.norms) - 1))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw(problems: dict[str, tuple[tuple[Client, Client], list[Run]]]) -> Figure:
    """Paths above, norms below; incongruent left, congruent right."""
    figure = Figure(figsize=(11, 7.2), layout="constrained", facecolor="white")
    panels = figure.subplots(2, 2, height_ratios=[2.1, 1])
    for column, (name, (clients, runs)) in enumerate(problems.items()):
        end = runs[0].norms[-1]
        verdict = "split" if runs[0].split else "do not split"
        draw_paths(panels[0, column], clients, runs, f"{name}: largest norm ends at {end[1:].max():.2g}, {verdict}")
        draw_norms(panels[1, column], runs[0])
    legend = [
        Line2D([], [], color=INK, lw=1.9, marker="*", ms=11, mec="white", label="federated learning and its end"),
        *(Patch(color=CLIENTS[i], alpha=0.6, label=f"client {i + 1}: optimal area, negative gradient") for i in (0, 1)),
        Patch(color=OVERLAP, label="optimal for both"),
        Line2D([], [], color=INK, lw=2.2, ls=(0, (5, 2)), label="norm of the mean gradient"),
    ]
    figure.legend(handles=legend, loc="outside lower center", ncols=3, fontsize=8.5, frameon=False)
    return figure


def main() -> None:
    """Run, print the table, write optimisation_paths.png and optimisation_paths.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer starts and rounds")
    parser.add_argument("--seed", type=int, required=True, help="draws the starting points but the first")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    starts, rounds = (3, 150) if arguments.quick else (8, 300)

    rng = np.random.default_rng(arguments.seed)
    corners = rng.uniform([-2.9, -2.2], [2.9, 2.2], size=(200, 2))
    outer = corners[np.abs(corners[:, 1]) > 1.5][: starts - 1]
    points = [np.array([-0.9, 2.1]), *outer]
    problems = {
        name: (clients, [federated(clients, start, rounds) for start in points])
        for name, clients in (("Incongruent", INCONGRUENT), ("Congruent", CONGRUENT))
    }
    numbers = {"seed": arguments.seed, "rounds": rounds, "eps_1": EPS_1, "eps_2": EPS_2, "gamma_max": GAMMA_MAX}
    results = {}
    for name, (_, runs) in problems.items():
        ends = np.array([run.norms[-1] for run in runs])
        results[name.lower()] = {
            "starts": [run.path[0].tolist() for run in runs],
            "ends": [run.path[-1].tolist() for run in runs],
            "norm_of_mean": ends[:, 0].tolist(),
            "norms_of_clients": ends[:, 1:].tolist(),
            "norm_of_mean_gradient": [run.norm_of_mean_gradient for run in runs],
            "cosine": [run.cosine for run in runs],
            "split": [run.split for run in runs],
        }
        print(
            f"{name:>11}: {len(runs)} starts; norm of the mean at most {ends[:, 0].max():.1e}; largest client norm"
            f" {ends[:, 1:].max(axis=1).min():.3g} to {ends[:, 1:].max():.3g}; split in {sum(run.split for run in runs)}"
        )
    print(f"Incongruent cosine: {min(run.cosine for run in problems['Incongruent'][1]):.6f}")

    arguments.out.mkdir(parents=True, exist_ok=True)
    draw(problems).savefig(arguments.out / "optimisation_paths.png", dpi=160)
    (arguments.out / "optimisation_paths.json").write_text(json.dumps(numbers | results, indent=1) + "\n")


if __name__ == "__main__":
    main()
