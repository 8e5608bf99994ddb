"""Clustering quality over the number of groups k and the relative noise gamma: CFL, Sattler et al. 2020, Fig. 3 and Eq. 30.

For every (k, gamma): k true gradients in R^100, normally distributed and then centred so that they sum to zero, which is what a
stationary point of federated learning means; 3 clients a group, each with normally distributed noise scaled to exactly
gamma times its true gradient. Reported: how often the separation gap is positive (the paper's Eq. 30), how often the optimal
bipartition is correct (Definition 1), and where Theorem 1 guarantees it. `free` repeats this without centring, as the
sentence around Eq. 30 can also be read.

    python examples/cfl_fig3_clustering_quality.py --quick --seed 0 --out runs/fig3      # about 20 seconds
    python examples/cfl_fig3_clustering_quality.py --seed 0 --out runs/fig3              # paper scale, several minutes
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from cloister.fl.clustering.bipartition import optimal_bipartition
from cloister.fl.clustering.separation import correct, cosine_similarity, gamma_limit, separation_gap

DIMENSION = 100
CLIENTS_PER_GROUP = 3
SURE = 0.95
INK, GREEN, BLUES = "#1f2933", "#3f9b5f", ["#ffffff", "#d6e6f5", "#8fbbe0", "#2f6fad"]


@dataclass(frozen=True, slots=True)
class Grid:
    """What is simulated: numbers of groups, noise levels, repetitions of each pair."""

    groups: tuple[int, ...]
    gammas: tuple[float, ...]
    repetitions: int


QUICK = Grid((2, 4, 6, 8, 10, 12), tuple(round(0.2 * n, 2) for n in range(14)), 100)
PAPER = Grid(tuple(range(2, 21)), tuple(round(0.05 * n, 2) for n in range(51)), 200)


def cosines(k: int, gamma: float, centred: bool, rng: np.random.Generator) -> tuple[NDArray[np.float64], list[int]]:
    """Similarities of 3k noisy gradients, shape (3k, 3k), and the group of each."""
    true = rng.normal(size=(k, DIMENSION))
    if centred:
        true -= true.mean(axis=0)
    groups = np.repeat(np.arange(k), CLIENTS_PER_GROUP)
    noise = rng.normal(size=(len(groups), DIMENSION))
    noise *= (gamma * np.linalg.norm(true[groups], axis=1) / np.linalg.norm(noise, axis=1))[:, None]
    gradients = true[groups] + noise
    return cosine_similarity(gradients @ gradients.T), groups.tolist()


def simulate(grid: Grid, centred: bool, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Frequencies of a positive gap and of a correct bipartition, each of shape (numbers of groups, noise levels)."""
    positive = np.zeros((len(grid.groups), len(grid.gammas)))
    right = np.zeros_like(positive)
    for row, k in enumerate(grid.groups):
        for column, gamma in enumerate(grid.gammas):
            rng = np.random.default_rng([seed, centred, k, column])
            for _ in range(grid.repetitions):
                alpha, groups = cosines(k, gamma, centred, rng)
                positive[row, column] += separation_gap(alpha, groups) > 0
                right[row, column] += correct(optimal_bipartition(alpha, range(len(groups))), dict(enumerate(groups)))
        print(f"{'centred' if centred else 'free'}: k = {k} done", flush=True)
    return positive / grid.repetitions, right / grid.repetitions


def last_sure(frequency: NDArray[np.float64], gammas: tuple[float, ...]) -> float:
    """The largest noise level up to which every level stays above SURE."""
    below = np.flatnonzero(frequency <= SURE)
    return gammas[(below[0] if len(below) else len(gammas)) - 1]


def edges(values: tuple[float, ...]) -> NDArray[np.float64]:
    """Borders of cells that are centred on evenly spaced values."""
    half = (values[1] - values[0]) / 2
    return np.append(np.array(values) - half, values[-1] + half)


def draw(grid: Grid, centred: NDArray[np.float64], free: NDArray[np.float64]) -> Figure:
    """The paper's figure: the simulated frequency in blue, the theorem's area in green on top."""
    figure = Figure(figsize=(11.5, 4.6), layout="constrained", facecolor="white")
    panels = figure.subplots(1, 2, sharey=True)
    blue = LinearSegmentedColormap.from_list("cloister blue", BLUES)
    k_edges, gamma_edges = edges(tuple(float(k) for k in grid.groups)), edges(grid.gammas)
    titles = ("true gradients sum to zero (a stationary point)", "true gradients independent (Theorem 1 does not apply)")
    for axes, frequency, title in zip(panels, (centred, free), titles, strict=True):
        mesh = axes.pcolormesh(k_edges, gamma_edges, frequency.T, cmap=blue, vmin=0, vmax=1, rasterized=True)
        sure = [last_sure(row, grid.gammas) for row in frequency]
        axes.plot(grid.groups, sure, color=INK, lw=1.6, marker="o", ms=3)
        axes.axhline(1, color=INK, lw=0.8, ls=(0, (4, 3)))
        axes.set(
            title=title,
            xlabel="number of data generating distributions  k",
            xlim=(k_edges[0], k_edges[-1]),
            ylim=(0, gamma_edges[-1]),
        )
        axes.set_xticks(grid.groups[:: 2 if len(grid.groups) > 8 else 1])
        axes.title.set_fontsize(10.5)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    limits = [gamma_limit(k) for k in grid.groups]  # Theorem 1 speaks of stationary points, hence of the left panel only
    panels[0].bar(grid.groups, limits, width=k_edges[1] - k_edges[0], color=GREEN, edgecolor="white", lw=0.4)
    panels[0].set_ylabel(r"relative approximation noise  $\gamma$")
    handles = [
        Line2D([], [], color=GREEN, lw=8, label="guaranteed by Theorem 1"),
        Line2D([], [], color=INK, lw=1.6, marker="o", ms=3, label=f"largest $\\gamma$ with P > {SURE}"),
        Line2D([], [], color=INK, lw=0.8, ls=(0, (4, 3)), label=r"$\gamma = 1$: noise as long as the gradient"),
    ]
    panels[1].legend(handles=handles, loc="upper right", fontsize=8.5, frameon=True, framealpha=0.95, edgecolor="none")
    figure.colorbar(mesh, ax=panels, label="P[separation gap > 0], simulated", pad=0.015, aspect=28)
    figure.suptitle(
        f"CFL separates far more than its worst-case theorem promises  (d = {DIMENSION}, m = 3k)", fontsize=12.5, color=INK
    )
    return figure


def main() -> None:
    """Run, print the table, write clustering_quality.png and clustering_quality.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a coarse grid, under a minute")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    grid = QUICK if arguments.quick else PAPER

    gap, right = simulate(grid, True, arguments.seed)
    free_gap, free_right = simulate(grid, False, arguments.seed)
    rows = [
        {
            "k": k,
            "theorem_limit": gamma_limit(k),
            "gap_sure": last_sure(gap[row], grid.gammas),
            "correct_sure": last_sure(right[row], grid.gammas),
            "free_gap_sure": last_sure(free_gap[row], grid.gammas),
            "free_correct_sure": last_sure(free_right[row], grid.gammas),
        }
        for row, k in enumerate(grid.groups)
    ]
    guaranteed = np.array([[gamma < gamma_limit(k) for gamma in grid.gammas] for k in grid.groups])
    broken = int((gap[guaranteed] < 1).sum())
    at_one = grid.gammas.index(1.0)
    print(f"{'k':>3} {'theorem':>8} {'P[gap>0]':>9} {'P[correct]':>10}   largest gamma; free: gap, correct")
    for row in rows:
        print(
            f"{row['k']:>3} {row['theorem_limit']:>8.3f} {row['gap_sure']:>9.2f} {row['correct_sure']:>10.2f}"
            f"   {row['free_gap_sure']:>5.2f} {row['free_correct_sure']:>5.2f}"
        )
    print(f"cells in the theorem's area with a failure (must be 0): {broken}")

    arguments.out.mkdir(parents=True, exist_ok=True)
    draw(grid, gap, free_gap).savefig(arguments.out / "clustering_quality.png", dpi=160)
    numbers = {
        "seed": arguments.seed,
        "dimension": DIMENSION,
        "clients_per_group": CLIENTS_PER_GROUP,
        "repetitions": grid.repetitions,
        "sure": SURE,
        "gammas": grid.gammas,
        "rows": rows,
        "failures_in_theorem_area": broken,
        "gap_at_gamma_1": dict(zip(map(str, grid.groups), gap[:, at_one].tolist(), strict=True)),
        "gap": gap.tolist(),
        "correct": right.tolist(),
        "free_gap": free_gap.tolist(),
        "free_correct": free_right.tolist(),
    }
    (arguments.out / "clustering_quality.json").write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
