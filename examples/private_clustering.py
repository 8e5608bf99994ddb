"""Clusters found from one differentially private vector a client: EMD-CFL at epsilon 1, CFL at epsilon 2, for one record.

Two methods, each of which spends its whole budget on one release a client, at delta = 1e-5 and for one record that is replaced:

- EMD-CFL (`private_emd_cfl`): the mean of coarse images of length 1, 4 x 4 cells; groups turn their images by four angles.
- CFL (`PrivateCFL`): the mean of clipped gradients of a public model's last layer; each group swaps two labels.

Epsilon is what the clients' ledgers say of all that they release to be compared. The vector is all that the server sees of
their data for it: tau, tolerance and edge are made of public numbers, and clusters of the vectors. Not covered, and in the
ledgers by name: that a client takes part, and how many records it has. The round of training that follows has no noise here
and is acknowledged as "sums": no epsilon of a whole run is claimed.

    python examples/private_clustering.py --small                                        # drawn images, a few seconds, no files
    python examples/private_clustering.py --seeds 0 1 2 3 4 --out runs/private_clustering # MNIST and Fashion-MNIST, minutes

What it gave: examples/results/private_clustering.md.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cloister.fl.algorithms.algorithm import Algorithm
from cloister.fl.algorithms.private_cfl import PrivateCFL, head_noise
from cloister.fl.algorithms.private_emd_cfl import private_emd_cfl
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import FLIC_PAIRS, LabelSwap, Partition, Rotation
from cloister.fl.data.population import Examples, Source
from cloister.fl.data.source import FashionMnist, Loader, Mnist
from cloister.fl.models.papers import Mlp
from cloister.fl.models.thumbnails import Thumbnails
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation, seed_of
from cloister.protocol import Masked
from cloister.protocol.pairs.asking import AskingPairs

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 2.0, 4.0)
ALIKE = ((1, 7), (3, 8), (4, 9), (0, 6))
"""Pairs of digits that look alike: the gradients of groups that swap them differ least."""
TRAINING_HAS_NONE = ("sums",)
Cell = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DrawnImages:
    """Images 1 x 28 x 28 around a random pattern for each of ten labels, darker downwards: enough to see groups, and no file.

    share: of noise. cells: of a pattern, each way.
    """

    examples: int = 4800
    cells: int = 7
    share: float = 0.5

    def __call__(self, folder: Path | None, /) -> Source:
        rng = np.random.default_rng(7)
        shade = np.linspace(1.0, 0.2, self.cells)[:, None]
        patterns = shade * (rng.random((10, self.cells, self.cells)) < 0.4)
        parts = []
        for count in (self.examples, 400):
            y = rng.integers(0, 10, count)
            noise = rng.random((count, self.cells, self.cells))
            x = ((1 - self.share) * patterns[y] + self.share * noise).repeat(28 // self.cells, 1).repeat(28 // self.cells, 2)
            parts.append(Examples(torch.from_numpy(x[:, None].astype(np.float32)), torch.from_numpy(y)))
        return Source("drawn images", *parts, classes=10)


@dataclass(frozen=True, slots=True)
class Method:
    """partition: of so many clients with so many records. algorithm: at this epsilon, of so many records."""

    name: str
    pairs: tuple[tuple[int, int], ...] | None = None
    side: int = 4

    def partition(self, clients: int, groups: int, records: int) -> Partition:
        if self.pairs is None:
            return Rotation(clients=clients, angles=(0, 90, 180, 270)[:groups], samples=records)
        return LabelSwap(clients=clients, groups=groups, pairs=self.pairs, samples=records)

    def algorithm(self, epsilon: float, records: int, source: Source) -> Algorithm:
        shape, without = source.shape, TRAINING_HAS_NONE
        if self.pairs is None:
            public = Thumbnails(self.side)
            return private_emd_cfl(epsilon=epsilon, delta=DELTA, records=records, shape=shape, public=public, acknowledge=without)
        noise = head_noise(epsilon, DELTA, shape=shape, classes=source.classes, acknowledge=without)
        return PrivateCFL(noise=noise, records=records)


EMD, CFL = Method("EMD-CFL, 4 x 4 cells"), Method("CFL, swaps 0-1 2-3 4-5 6-7", FLIC_PAIRS)
METHODS = (
    EMD,
    Method("EMD-CFL, 7 x 7 cells", side=7),
    Method("EMD-CFL, pixels", side=28),
    CFL,
    Method("CFL, swaps 1-7 3-8 4-9 0-6", ALIKE),
)


def cells(
    source: Source,
    methods: Sequence[Method],
    epsilons: Sequence[float],
    records: int,
    seed: int,
    clients: int = 20,
    groups: int = 4,
) -> Iterator[tuple[str, float, Cell]]:
    """Of each method and epsilon: the adjusted Rand index of the clusters, and what the worst ledger says."""
    for method in methods:
        population = method.partition(clients, groups, records)(source, np.random.default_rng(seed_of(seed, "partition")))
        for epsilon in epsilons:
            scenario = Scenario(
                name=f"{method.name} at {epsilon:g}",
                data=lambda _: source,
                partition=lambda *_, found=population: found,
                model=Mlp(hidden=(8,)),
                training=Training(epochs=1, batch=100, lr=0.05),
                algorithm=method.algorithm(epsilon, records, source),
                protection=Masked(floor=3),
                rounds=1,
                seed=seed,
            )
            yield method.name, epsilon, played(Simulation(scenario, None))


def played(simulation: Simulation) -> Cell:
    """The first round: clients are compared, and clusters are found."""
    simulation.step()
    clusters = [cluster.members for cluster in simulation.state.clusters.values()]
    ledgers = simulation.view.harness.part(AskingPairs).ledgers().values()
    return {
        "ari": adjusted_rand_index(_whole(simulation, clusters), simulation.population.groups),
        "clusters": len(_whole(simulation, clusters)),
        "epsilon": max(ledger.spent for ledger in ledgers),
        "releases": max(len(ledger.releases) for ledger in ledgers),
        "accountant": next(iter({ledger.bound for ledger in ledgers})),
        "not covered": sorted({words for ledger in ledgers for words in ledger.not_covered}),
    }


def _whole(simulation: Simulation, clusters: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The clusters as they were found: those too small for a sum, whose clients then train alone, put together again."""
    alone = {c.members[0]: c.alone.members for c in simulation.state.clusters.values() if c.alone is not None}
    return sorted({alone.get(members[0], members) for members in clusters})


def table(found: Mapping[str, Cell]) -> str:
    """Markdown: a row for each data set, method and number of records; mean and least index of the seeds."""
    rows = dict[tuple[str, ...], dict[float, list[float]]]()
    for key, cell in found.items():
        data, method, records, epsilon, _ = key.split(" | ")
        rows.setdefault((data, method, records), {}).setdefault(float(epsilon), []).append(cell["ari"])
    epsilons = sorted({epsilon for row in rows.values() for epsilon in row})
    lines = ["| data | method | records | " + " | ".join(f"{e:g}" for e in epsilons) + " |", "| --- " * (3 + len(epsilons)) + "|"]
    for row, by in rows.items():
        shown = (f"{np.mean(by[e]):.2f} (least {min(by[e]):.2f})" if e in by else "" for e in epsilons)
        lines.append("| " + " | ".join([*row, *shown]) + " |")
    return "\n".join(lines)


def small(seed: int = 0) -> dict[str, Cell]:
    """Both methods on drawn images, 12 clients of 400 records in 3 groups, at the epsilons that are claimed for them."""
    source, found = DrawnImages()(None), dict[str, Cell]()
    for method, epsilon in ((EMD, 1.0), (CFL, 2.0)):
        for name, said, cell in cells(source, [method], [epsilon], 400, seed, clients=12, groups=3):
            found[f"{source.name} | {name} | 400 | {said:g} | {seed}"] = cell
    return found


def main() -> None:
    """Play what is missing, print it, keep it in cells.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="drawn images, one seed")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--records", type=int, nargs="+", default=[400, 1000])
    parser.add_argument("--data", type=Path, help="folder of data sets; else CLOISTER_DATA")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.small:
        for key, cell in small(arguments.seeds[0]).items():
            spent = f"epsilon {cell['epsilon']:.4f} by {cell['releases']} release ({cell['accountant']})"
            print(f"{key}: ARI {cell['ari']:.2f}, {spent}")
            print("  not covered:", "; ".join(cell["not covered"]))
        return
    path = None if arguments.out is None else arguments.out / "cells.json"
    found: dict[str, Cell] = json.loads(path.read_text()) if path is not None and path.exists() else {}
    loaders: tuple[Loader, ...] = (Mnist(), FashionMnist())
    for source in (loader(arguments.data) for loader in loaders):
        for records in arguments.records:
            for seed in arguments.seeds:
                _fill(found, source, records, seed)
                if path is not None:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


def _fill(found: dict[str, Cell], source: Source, records: int, seed: int) -> None:
    for method in METHODS:
        keys = {e: f"{source.name} | {method.name} | {records} | {e:g} | {seed}" for e in EPSILONS}
        for _, epsilon, cell in cells(source, [method], [e for e, key in keys.items() if key not in found], records, seed):
            found[keys[epsilon]] = cell
            print(keys[epsilon], {name: cell[name] for name in ("ari", "clusters", "epsilon")}, flush=True)


if __name__ == "__main__":
    main()
