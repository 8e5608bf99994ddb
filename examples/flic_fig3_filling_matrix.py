"""The similarity matrix fills up as clients are sampled: FLIC, Espinoza Castellon et al. 2022, section III, Fig. 3.

100 clients in four groups turn their images by 0, 90, 180 and 270 degrees; 10 are sampled a round. The server keeps the most
recent update of each and the similarities 1 + cos of all pairs, so after one round it knows 10 x 10 of them, and after fifty
nearly all. Panels are the paper's: rounds 0, 10 and 49.

    cloister run examples/flic_fig3_filling_matrix.py:quick                                # digits, seconds, no file
    python examples/flic_fig3_filling_matrix.py --scale quick --seed 0 --out runs/flic_fig3     # digits, seconds
    python examples/flic_fig3_filling_matrix.py --scale reduced --seed 0 --out runs/flic_fig3   # MNIST, perceptron, a minute
    python examples/flic_fig3_filling_matrix.py --scale paper --seed 0 --out runs/flic_fig3     # the paper's net: an hour

Gray is what the server does not know. Numbers: how much it knows, the mean similarity inside and between groups, and what
communities Louvain finds in the matrix of that round.
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from matplotlib import colormaps
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cloister.fl.algorithms.algorithm import Measured
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.clients.training import Training
from cloister.fl.clustering.communities import one_plus_cosine
from cloister.fl.data.partition import Rotation
from cloister.fl.data.source import Digits, Mnist
from cloister.fl.models.papers import FlicCnn, Mlp
from cloister.fl.runs.metrics import adjusted_rand_index, purity
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol.uploaded.plain import Plain

INK, GREY = "#1f2933", "#d3d7db"
ROUNDS = (0, 10, 49)

scenario = Scenario(
    name="FLIC fig. 3, MNIST",
    data=Mnist(),
    partition=Rotation(clients=100, angles=(0, 90, 180, 270)),
    model=FlicCnn(),
    training=Training(epochs=5, batch=10, lr=0.01),
    algorithm=FLIC(rounds_before=50, participation=0.1, sampling="random", similarities="every round", trace=True),
    protection=Plain(),
    rounds=50,
    evaluate_every=10,
)
reduced = replace(scenario, name="FLIC fig. 3, MNIST, perceptron", model=Mlp(hidden=(64,)))
quick = replace(
    scenario, name="FLIC fig. 3, digits", data=Digits(), model=Mlp(hidden=(32,)), training=Training(epochs=5, batch=5, lr=0.1)
)
SCALES = {"paper": scenario, "reduced": reduced, "quick": quick}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the server knew after a round. similarity: (clients, clients) in [0, 2], NaN where it is not known."""

    round: int
    similarity: NDArray[np.float64]
    seen: int
    communities: int
    purity: float
    ari: float

    def numbers(self, groups: NDArray[np.int64]) -> dict[str, float]:
        """For the JSON file: how much is known, and the mean similarities of two clients."""
        others = ~np.eye(len(groups), dtype=np.bool_)
        same = groups[:, None] == groups
        return {
            "round": self.round,
            "clients": self.seen,
            "known": float(np.isfinite(self.similarity).mean()),
            "inside": float(np.nanmean(self.similarity[same & others])),
            "between": float(np.nanmean(self.similarity[~same])),
            "communities": self.communities,
            "purity": self.purity,
            "ari": self.ari,
        }


def snapshot(round: int, measured: Measured, groups: NDArray[np.int64]) -> Snapshot:
    """The matrix over all clients, and the communities that were found in it."""
    matrix = np.full((len(groups), len(groups)), np.nan)
    known = np.ones_like(measured.similarity, np.bool_) if measured.known is None else measured.known
    where = np.array(measured.clients)
    matrix[np.ix_(where, where)] = np.where(
        known | np.eye(len(where), dtype=np.bool_), one_plus_cosine(measured.similarity), np.nan
    )
    planted = {i: int(groups[i]) for i in measured.clients}
    found = measured.communities
    return Snapshot(round, matrix, len(where), len(found), purity(found, planted), adjusted_rand_index(found, planted))


def snapshots(value: Scenario, folder: Path | None = None) -> tuple[list[Snapshot], NDArray[np.int64]]:
    """Play the rounds, and take the matrix in those that the figure shows. Second: the planted group of every client."""
    simulation = Simulation(value, folder)
    groups = np.array([simulation.population.groups[i] for i in sorted(simulation.population.groups)])
    found = []
    for t in range(value.rounds):
        simulation.step()
        if t in ROUNDS or t == value.rounds - 1:
            found.append(snapshot(t, simulation.state.measured["0"], groups))
    return found, groups


def draw(found: list[Snapshot], groups: NDArray[np.int64]) -> Figure:
    """A panel for each round; clients in the order of their groups, whose borders are marked."""
    figure = Figure(figsize=(3.7 * len(found) + 0.8, 4.1), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(found), squeeze=False)[0]
    palette = colormaps["YlGnBu"].with_extremes(bad=GREY)
    most = max(float(np.nanmax(np.where(np.eye(len(groups)), np.nan, s.similarity))) for s in found)
    least = min(float(np.nanmin(s.similarity)) for s in found)
    for axes, shot in zip(panels, found, strict=True):
        image = axes.imshow(shot.similarity, cmap=palette, vmin=least, vmax=most, interpolation="nearest")
        for edge in np.flatnonzero(np.diff(groups)) + 0.5:
            axes.axhline(edge, color=INK, lw=0.7)
            axes.axvline(edge, color=INK, lw=0.7)
        axes.set_title(f"round {shot.round}: {shot.seen} clients seen", fontsize=11, color=INK)
        axes.set(xlabel="client", xticks=[0, len(groups) - 1], yticks=[0, len(groups) - 1])
    panels[0].set_ylabel("client")
    figure.colorbar(image, ax=panels, shrink=0.8, pad=0.01, label="similarity  1 + cos")
    return figure


def main() -> None:
    """Run, print the numbers, write filling_matrix_SCALE.png and .json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=tuple(SCALES), default="paper")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    found, groups = snapshots(replace(SCALES[arguments.scale], seed=arguments.seed))
    numbers = [shot.numbers(groups) for shot in found]
    for row in numbers:
        seen = f"round {row['round']:.0f}: {row['clients']:.0f} clients, {row['known']:.1%} known"
        alike = f"similarity {row['inside']:.3f} inside and {row['between']:.3f} between groups"
        print(f"{seen}, {alike}; {row['communities']:.0f} communities, purity {row['purity']:.2f}, ARI {row['ari']:.2f}")
    draw(found, groups).savefig(arguments.out / f"filling_matrix_{arguments.scale}.png", dpi=130)
    (arguments.out / f"filling_matrix_{arguments.scale}.json").write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
