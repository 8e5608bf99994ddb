"""What tells clients apart: the four distances side by side, and parameter distances in clusters (EMD-CFL, appendix E.7 and E.8).

For each scenario file, FILE:name, clients train one round from the common start, and all pairs are compared by (fig. 14) the L2
distance of their parameters, (fig. 15) 1 - cos of their updates, (fig. 16) the principal angles between their raw data, mean of
1 - cos of three, and (fig. 17) the larger of both W - tau. Printed: the mean within and across planted groups, and the best
adjusted Rand index that any threshold gives by the rule of the paper. Then table 9: mean parameter distances within the clusters
that EMD-CFL found and over all pairs, of the last layer alone and of the whole model.

    python examples/emd_cfl_distances.py examples/emd_cfl_rotated_mnist.py:quick examples/emd_cfl_rotated_cifar.py:quick \\
        examples/emd_cfl_pacs.py:quick examples/emd_cfl_backdoor_mnist.py:quick examples/emd_cfl_backdoor_cifar.py:quick \\
        --set partition.by.weights=FILE --seed 0 --out runs/distances

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
from cloister.fl.emd import adjacency, neighbourhoods
from cloister.fl.models.papers import EmbeddingAndHead
from cloister.fl.models.vector import dimension
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.scenario_file import load, with_fitting_settings

INK = "#1f2933"
KINDS = ("parameters, L2", "updates, 1 - cos", "raw data, angles", "embeddings, W - tau")
DIRECTIONS = 3  # of each client's data, as PACFL takes 3 to 5
Matrix = NDArray[np.float64]
Cell = dict[str, Any]


@dataclass(frozen=True)
class Noted:
    """An executor that keeps the updates that went through it, by client."""

    executor: Executor
    updates: dict[int, NDArray[np.float32]] = field(default_factory=dict, compare=False)

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        for client, update in self.executor(module, jobs, training, round):
            self.updates[client] = update
            yield client, update


def lengths(rows: NDArray[np.float32]) -> Matrix:
    """L2 distances of all rows."""
    return np.array([[float(np.linalg.norm(a - b)) for b in rows] for a in rows])


def angles(data: Sequence[NDArray[np.float32]]) -> Matrix:
    """Mean of 1 - cos over the principal angles between the leading left singular vectors of clients' data."""
    bases = []
    for rows in data:
        _, vectors = np.linalg.eigh(rows.T.astype(np.float64) @ rows) if rows.shape[1] <= len(rows) else (None, _directions(rows))
        bases.append(vectors[:, -DIRECTIONS:])
    return np.array([[1 - float(np.linalg.svd(a.T @ b, compute_uv=False).clip(0, 1).mean()) for b in bases] for a in bases])


def _directions(rows: NDArray[np.float32]) -> Matrix:
    """As columns, least first: eigenvectors of rows.T @ rows by way of the smaller rows @ rows.T."""
    wide = rows.astype(np.float64)
    _, vectors = np.linalg.eigh(wide @ wide.T)
    columns = wide.T @ vectors[:, -DIRECTIONS:]
    return np.asarray(columns / np.linalg.norm(columns, axis=0))


def judged(matrix: Matrix, groups: Sequence[int]) -> dict[str, float]:
    """Means within and across groups, and the best Rand index over all thresholds."""
    same = np.equal.outer(groups, groups)
    off = ~np.eye(len(matrix), dtype=bool)
    values = np.unique(matrix[off])
    best = 0.0
    for threshold in np.append((values[:-1] + values[1:]) / 2, values[-1] + 1):
        edges = {(i, j): bool(matrix[i, j] < threshold) for i, j in np.argwhere(off).tolist()}
        clusters = neighbourhoods(adjacency(edges, range(len(matrix))), range(len(matrix)))
        best = max(best, adjusted_rand_index(clusters, dict(enumerate(groups))))
    across = float(matrix[~same].mean()) if (~same).any() else float("nan")
    return {"within": float(matrix[same & off].mean()), "across": across, "best_ari": best}


def measured(value: Scenario) -> Cell:
    """All four matrices after one round, what they say, and the row of table 9."""
    if not isinstance(value.algorithm, EMDCFL):
        raise ValueError(f"{value.name} runs {type(value.algorithm).__name__}; name a scenario of EMD-CFL")
    noted = Noted(value.execution)
    fixed = value.algorithm.eps
    known = Share() if isinstance(fixed, float) else fixed  # with a number the distances would not be computed
    simulation = Simulation(replace(value, algorithm=replace(value.algorithm, eps=known), execution=noted), None)
    simulation.step()
    state: Any = simulation.state
    clients = state.clients
    groups = [simulation.population.groups[i] for i in clients]
    updates = np.stack([noted.updates[i] for i in clients])
    unit = updates / np.linalg.norm(updates, axis=1, keepdims=True)
    data = [simulation.population.clients[i].train.x.flatten(1).numpy() for i in clients]
    excess = np.maximum(state.matrix(), state.matrix().T)
    matrices = dict(zip(KINDS, (lengths(updates), 1 - (unit @ unit.T).astype(np.float64), angles(data), excess), strict=True))
    eps = fixed if isinstance(fixed, float) else state.eps
    edges = {(i, j): bool(excess[i, j] < eps) for i in range(len(excess)) for j in range(len(excess)) if i != j}
    clusters = neighbourhoods(adjacency(edges, range(len(clients))), range(len(clients)))
    where = {i: k for k, members in enumerate(clusters) for i in members}
    together = np.equal.outer([where[i] for i in range(len(clients))], [where[i] for i in range(len(clients))])
    off = ~np.eye(len(clients), dtype=bool)
    model = simulation.module
    last = dimension(model.head) if isinstance(model, EmbeddingAndHead) else dimension(model)
    table = {}
    for name, part in (("hypothesis", updates[:, -last:]), ("model", updates)):
        apart = lengths(part)
        table[name] = {
            "clusters": float(apart[together & off].mean()) if (together & off).any() else None,
            "overall": float(apart[off].mean()),
        }
    return {
        "groups": groups,
        "eps": eps,
        "ari": adjusted_rand_index(clusters, dict(enumerate(groups))),
        "judged": {kind: judged(matrix, groups) for kind, matrix in matrices.items()},
        "table_9": table,
        "matrices": {kind: np.round(matrix, 5).tolist() for kind, matrix in matrices.items()},
    }


def draw(cells: Mapping[str, Cell]) -> Figure:
    """A row for each distance, a column for each scenario; lines between planted groups."""
    figure = Figure(figsize=(1.2 + 2.5 * len(cells), 9.6), layout="constrained", facecolor="white")
    grid = figure.subplots(len(KINDS), len(cells), squeeze=False)
    for column, (name, cell) in enumerate(cells.items()):
        for row, kind in enumerate(KINDS):
            matrix, axes = np.array(cell["matrices"][kind]), grid[row][column]
            off = matrix[~np.eye(len(matrix), dtype=bool)]
            image = axes.imshow(matrix, cmap="Reds", vmin=float(off.min()), vmax=float(off.max()), interpolation="nearest")
            figure.colorbar(image, ax=axes, shrink=0.7, pad=0.02).ax.tick_params(labelsize=6.5)
            for edge in np.flatnonzero(np.diff(cell["groups"])) + 0.5:
                axes.axhline(edge, color=INK, lw=0.5)
                axes.axvline(edge, color=INK, lw=0.5)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_xlabel(f"best ARI {cell['judged'][kind]['best_ari']:.2f}", fontsize=7.5, color=INK)
        grid[0][column].set_title(short(name), fontsize=8, color=INK)
    for row, kind in zip(grid, KINDS, strict=True):
        row[0].set_ylabel(kind.replace("W - tau", r"$W - \tau$"), fontsize=8.5)
    return figure


def short(name: str) -> str:
    return name.removeprefix("EMD-CFL on ").removesuffix(", quick").replace(", ", "\n")


def main() -> None:
    """Measure what is missing, print the tables, write distances.json and distances.png."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="+", metavar="FILE[:name]")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"distances_seed_{arguments.seed}.json"
    cells: dict[str, Cell] = json.loads(path.read_text()) if path.exists() else {}
    for where in arguments.scenarios:
        value = replace(with_fitting_settings(load(where), arguments.settings), seed=arguments.seed)
        if value.name not in cells:
            cells[value.name] = measured(value)
            path.write_text(json.dumps(cells) + "\n")
        cell = cells[value.name]
        print(f"{value.name}: clusters at eps {cell['eps']:.4f} have ARI {cell['ari']:.2f}; table 9 {cell['table_9']}")
        for kind, said in cell["judged"].items():
            print(
                f"  {kind:<22} within {said['within']:.4f}, across {said['across']:.4f}, best ARI {said['best_ari']:.2f}",
                flush=True,
            )
    draw(cells).savefig(arguments.out / f"distances_seed_{arguments.seed}.png", dpi=110)


if __name__ == "__main__":
    main()
