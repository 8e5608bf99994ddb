"""EMD-CFL's sweeps over eps, projection ratio, distance and network (appendix E, figures 8 to 13), and distance matrices.

Give one or more scenario files, FILE:name. Clients train once, in the first round; then for every ratio and distance the whole
protocol is played, and its distances W - tau are cut at every eps. Sinkhorn has the paper's regularisation, 0.1.

    python examples/emd_cfl_sweeps.py examples/emd_cfl_rotated_mnist.py:quick examples/emd_cfl_pacs.py:quick \\
        --set partition.by.weights=FILE --seeds 0 --out runs/sweeps
    python examples/emd_cfl_sweeps.py examples/emd_cfl_architectures.py:{convolutions,wide,lenet,perceptron} --seeds 0 --out runs
    python examples/emd_cfl_sweeps.py examples/emd_cfl_rotated_mnist.py --ratios 0.1 0.3 0.5 0.7 0.9 --seeds 0 1 2 --out runs

A setting that a scenario has no field for is left out for it. Interrupted, the same command goes on where it stopped.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import nn

from cloister.fl.algorithms.emd_cfl import EMDCFL, Share
from cloister.fl.clients.training import Executor, Job, Training
from cloister.fl.emd import ExactEmd, Sinkhorn, adjacency, neighbourhoods
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation, seed_of
from cloister.protocol.pairs.choices import PER_PAIR
from cloister.scenario_file import load, with_fitting_settings

INK = "#1f2933"
DISTANCES = {"exact": ExactEmd(), "Sinkhorn": Sinkhorn(0.1)}
EPS = [round(float(eps), 5) for eps in np.geomspace(0.001, 0.5, 55)]
Matrix = NDArray[np.float64]
Cell = dict[str, Any]


@dataclass(frozen=True)
class Once:
    """An executor that does every client's work of a round once, however often it is asked for."""

    executor: Executor
    done: dict[tuple[int, int, int], NDArray[np.float32]] = field(default_factory=dict, compare=False)

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        new = [job for job in jobs if (round, job.client, job.seed) not in self.done]
        seeds = {job.client: job.seed for job in new}
        if new:
            for client, update in self.executor(module, new, training, round):
                self.done[round, client, seeds[client]] = update
        for job in jobs:
            yield job.client, self.done[round, job.client, job.seed]


def rand_indices(matrix: Matrix, groups: Mapping[int, int]) -> list[float]:
    """The adjusted Rand index of the printed rule's clusters at every eps, clients in rising order."""
    clients = sorted(groups)
    found = []
    for eps in EPS:
        edges = {(i, j): bool(matrix[i, j] < eps) for i in range(len(matrix)) for j in range(len(matrix)) if i != j}
        clusters = neighbourhoods(adjacency(edges, range(len(matrix))), range(len(matrix)))
        found.append(adjusted_rand_index([[clients[i] for i in c] for c in clusters], groups))
    return found


def measured(value: Scenario, ratio: float, distance: str) -> tuple[Matrix, list[float], Mapping[int, int]]:
    """W - tau of all pairs after the first round, taus, and the planted groups."""
    algorithm = EMDCFL(
        eps=Share(),
        choice=replace(PER_PAIR, ratio=ratio),
        distance=DISTANCES[distance],
        size=_own(value).size,
        embedding=_own(value).embedding,
    )
    simulation = Simulation(replace(value, algorithm=algorithm), None)
    simulation.step()
    state: Any = simulation.state
    return state.matrix(), [state.references[i] for i in state.clients], simulation.population.groups


def _own(value: Scenario) -> EMDCFL:
    if not isinstance(value.algorithm, EMDCFL):
        raise ValueError(f"{value.name} runs {type(value.algorithm).__name__}; name a scenario of EMD-CFL")
    return value.algorithm


def swept(value: Scenario, ratios: Sequence[float], done: dict[str, Cell], save: Any) -> None:
    """Add the cells of one scenario and seed that are not there yet."""
    wanted = [(f"{value.name} | {name} | {ratio:g} | {value.seed}", name, ratio) for name in DISTANCES for ratio in ratios]
    if all(key in done for key, _, _ in wanted):
        return
    source = value.data(None)
    population = value.partition(source, np.random.default_rng(seed_of(value.seed, "partition")))
    value = replace(value, data=lambda _: source, partition=lambda *_: population, execution=Once(value.execution))
    for key, name, ratio in wanted:
        if key in done:
            continue
        matrix, taus, groups = measured(value, ratio, name)
        found = rand_indices(matrix, groups)
        done[key] = {
            "ari": found,
            "matrix": np.round(matrix, 5).tolist(),
            "tau": float(np.median(taus)),
            "groups": {str(i): g for i, g in groups.items()},
        }
        save()
        print(f"{key}: {words(found)}; median tau {done[key]['tau']:.3f}", flush=True)


def runs(ari: NDArray[np.float64]) -> list[tuple[int, int]]:
    """First and last position of every stretch of ones.

    There may be several: where a group is joined with two others that are not joined with each other, the printed rule
    (identical neighbourhoods) still gives three clusters, by accident.
    """
    edges = np.diff(np.concatenate([[0], (ari == 1).astype(np.int64), [0]]))
    return list(zip(np.flatnonzero(edges == 1).tolist(), (np.flatnonzero(edges == -1) - 1).tolist(), strict=True))


def words(ari: Sequence[float]) -> str:
    """Where the clustering is right, in words."""
    found = [f"{EPS[first]:.4f} to {EPS[last]:.4f}" for first, last in runs(np.array(ari))]
    if found:
        return f"ARI 1 for eps {' and '.join(found)}"
    return f"best ARI {max(ari):.2f}, at eps {EPS[int(np.argmax(ari))]:.4f}"


def split(cells: Mapping[str, Cell]) -> dict[str, dict[str, dict[float, list[Cell]]]]:
    """Cells by scenario, distance and ratio; a list over seeds."""
    found: dict[str, dict[str, dict[float, list[Cell]]]] = {}
    for key, cell in cells.items():
        name, distance, ratio, _ = key.split(" | ")
        found.setdefault(name, {}).setdefault(distance, {}).setdefault(float(ratio), []).append(cell)
    return found


def draw_sweeps(cells: Mapping[str, Cell]) -> Figure:
    """The mean Rand index over eps and ratio, a row for each scenario, a column for each distance (figures 8 to 10, 12, 13)."""
    names = split(cells)
    figure = Figure(figsize=(9.5, 0.8 + 1.9 * len(names)), layout="constrained", facecolor="white")
    grid = figure.subplots(len(names), len(DISTANCES), sharex=True, squeeze=False)
    image = None
    for row, (name, of) in zip(grid, names.items(), strict=True):
        for axes, distance in zip(row, DISTANCES, strict=True):
            ratios = sorted(of[distance])
            ari = np.array([np.mean([cell["ari"] for cell in of[distance][ratio]], axis=0) for ratio in ratios])
            image = axes.pcolormesh(
                np.arange(len(EPS) + 1), np.arange(len(ratios) + 1), ari, cmap="Blues", vmin=0, vmax=1, rasterized=True
            )
            for place, line in enumerate(ari):
                for first, last in runs(line):
                    axes.plot([first, last + 1], [place + 0.5] * 2, color="#d9822b", lw=2.2)
            axes.set_yticks(np.arange(len(ratios)) + 0.5, [f"{ratio:g}" for ratio in ratios])
            ticks = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3]
            axes.set_xticks(
                [float(np.interp(np.log(t), np.log(EPS), np.arange(len(EPS)) + 0.5)) for t in ticks], [f"{t:g}" for t in ticks]
            )
            axes.set_title(f"{short(name)}, {distance}", fontsize=8.5, color=INK)
        row[0].set_ylabel("ratio p / D", fontsize=8.5)
    for axes in grid[-1]:
        axes.set_xlabel(r"tolerance  $\epsilon$")
    if image is not None:
        figure.colorbar(image, ax=grid, label="Rand index; orange: 1", pad=0.01, aspect=30)
    return figure


def draw_matrices(cells: Mapping[str, Cell]) -> Figure:
    """W - tau of the first seed at the largest ratio, a column for each scenario, a row for each distance (figures 2, 11)."""
    names = split(cells)
    figure = Figure(figsize=(1.4 + 2.7 * len(names), 5.6), layout="constrained", facecolor="white")
    grid = figure.subplots(len(DISTANCES), len(names), squeeze=False)
    for column, (name, of) in enumerate(names.items()):
        for row, distance in enumerate(DISTANCES):
            cell = of[distance][max(of[distance])][0]
            matrix, axes = np.array(cell["matrix"]), grid[row][column]
            image = axes.imshow(matrix, cmap="Reds", vmin=0, interpolation="nearest")
            figure.colorbar(image, ax=axes, shrink=0.75, pad=0.02).ax.tick_params(labelsize=7)
            groups = [cell["groups"][i] for i in sorted(cell["groups"], key=int)]
            for edge in np.flatnonzero(np.diff(groups)) + 0.5:
                axes.axhline(edge, color=INK, lw=0.6)
                axes.axvline(edge, color=INK, lw=0.6)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_title(f"{short(name)}\n{distance}", fontsize=8, color=INK)
        grid[-1][column].set_xlabel("whose data arrive", fontsize=8)
    for row in grid:
        row[0].set_ylabel("client that compares", fontsize=8)
    return figure


def short(name: str) -> str:
    return name.removeprefix("EMD-CFL on ").removesuffix(", quick")


def main() -> None:
    """Measure what is missing, print where the clustering is right, write sweeps.json, sweeps.png and matrices.png."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+", metavar="FILE[:name]")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--ratios", type=float, nargs="+", default=[0.1, 0.3, 0.5, 0.9])
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "sweeps.json"
    cells: dict[str, Cell] = json.loads(path.read_text())["cells"] if path.exists() else {}

    def save() -> None:
        path.write_text(json.dumps({"eps": EPS, "cells": cells}) + "\n")

    for where in arguments.scenarios:
        for seed in arguments.seeds:
            swept(replace(with_fitting_settings(load(where), arguments.settings), seed=seed), arguments.ratios, cells, save)
    draw_sweeps(cells).savefig(arguments.out / "sweeps.png", dpi=110)
    draw_matrices(cells).savefig(arguments.out / "matrices.png", dpi=110)


if __name__ == "__main__":
    main()
