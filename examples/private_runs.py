"""Whole runs with differential privacy for single records: clusters, and then models, for a total epsilon of at most 8.

Each client releases one noisy vector to be compared (`private_emd_cfl` for epsilon 1, `PrivateCFL` for 2), and trains in its
cluster by DP-SGD with what is left of one shared budget, at delta = 1e-5, for one record that is replaced. Everything that the
server sees of records counts: sums are of updates that have noise, and no number of examples is told.

A client may go on from its cluster's model by itself, without noise, as long as it tells nobody what comes of it ("at home"):
epsilon bounds what leaves a client. Beside it stand

- LOCAL: each client alone, without noise, on the same features;
- without noise: the clusters that the same method finds at epsilon 100, trained without noise;
- Oracle: as that, with the planted clusters.

What has no noise is trained on the features themselves, which are public functions of one image: the same models, sooner.

    python examples/private_runs.py --small                                       # drawn images, a few seconds, no files
    python examples/private_runs.py --seeds 0 1 2 3 4 --records 400 1000 --out runs/private_runs   # minutes

What it gave: examples/results/private_clustering.md.
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from private_clustering import CFL, DELTA, EMD, DrawnImages, Method

from cloister.fl.algorithms.algorithm import Algorithm
from cloister.fl.algorithms.fedavg import Local, Oracle
from cloister.fl.algorithms.private_cfl import PrivateCFL, head_noise
from cloister.fl.algorithms.private_emd_cfl import private_emd_cfl
from cloister.fl.clients.fast import Fast
from cloister.fl.clients.record_privacy import RecordPrivacy
from cloister.fl.clients.training import Job, Training
from cloister.fl.data.population import Examples, Population, Source
from cloister.fl.data.source import FashionMnist, Loader, Mnist
from cloister.fl.models.papers import ModelFactory, SoftmaxRegression, initial
from cloister.fl.models.thumbnails import ThumbnailRegression, Thumbnails
from cloister.fl.runs.evaluation import ScoringJob, accuracies
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation, seed_of
from cloister.protocol import Masked
from cloister.protocol.privacy.gaussian import gaussian_mu

TOTAL = 8.0
MODEL = ThumbnailRegression(14)
ROUNDS, EPOCHS = 20, 3
"""Each epoch of DP-SGD is one step of all records."""
LR, CLIP = 1.0, 1.0
ROOM = 1.002
"""Of the multiplier: for the grids of the noise, which the closed form does not know."""
OPEN = {"lr": 0.1, "momentum": 0.9}
ALONE = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.01}
HOME = {"lr": 0.03, "momentum": 0.9}
HOME_EPOCHS, ALONE_EPOCHS = 50, 200
METHODS = {EMD: 1.0, CFL: 2.0}
"""And the epsilon that each spends to find clusters."""
Cell = dict[str, Any]


def multiplier(first: float) -> float:
    """The noise of so many steps, after a release of epsilon `first`: Gaussians add up in squares of mu."""
    left = gaussian_mu(TOTAL, DELTA) ** 2 - gaussian_mu(first, DELTA) ** 2
    return float(ROOM * 2 * np.sqrt(ROUNDS * EPOCHS / left))


def clustering(method: Method, epsilon: float, budget: float, records: int, source: Source, beside: tuple[str, ...]) -> Algorithm:
    """The method, averaging without numbers of examples. beside: what is told without noise."""
    shape = source.shape
    if method.pairs is None:
        public = Thumbnails(method.side)
        found = private_emd_cfl(
            epsilon=epsilon, delta=DELTA, records=records, shape=shape, public=public, budget=budget, acknowledge=beside
        )
        return replace(found, by_samples=False)
    noise = head_noise(epsilon, DELTA, shape=shape, classes=source.classes, budget=budget, acknowledge=beside)
    return PrivateCFL(noise=noise, records=records, by_samples=False)


def played(
    population: Population,
    source: Source,
    algorithm: Algorithm,
    training: Training,
    rounds: int,
    seed: int,
    model: ModelFactory = MODEL,
) -> Simulation:
    """A run of so many rounds."""
    scenario = Scenario(
        name="whole",
        data=lambda _: source,
        partition=lambda *_: population,
        model=model,
        training=training,
        algorithm=algorithm,
        protection=Masked(floor=3),
        rounds=rounds,
        seed=seed,
    )
    simulation = Simulation(scenario, None)
    for _ in range(rounds):
        simulation.step()
    return simulation


def mean_accuracy(simulation: Simulation) -> float:
    """Of all clients' models."""
    return float(np.mean([score.accuracy for score in simulation.evaluate().values()]))


def at_home(simulation: Simulation, records: int) -> float:
    """Of the models that clients go on to by themselves."""
    clients, models = simulation.population.clients, simulation.vectors()
    jobs = [Job(i, models[i], clients[i].train, seed_of(simulation.scenario.seed, "home", i)) for i in sorted(models)]
    training = Training(epochs=HOME_EPOCHS, batch=records, **HOME)
    updates = Fast(workers=1)(simulation.module, jobs, training, 0)
    evaluations = [ScoringJob(i, models[i] + update, clients[i].test) for i, update in updates]
    return float(np.mean([score.accuracy for score in accuracies(simulation.module, evaluations).values()]))


def featured(population: Population) -> Population:
    """The same clients, with the public features of the model in place of images."""
    embedding = initial(MODEL, population.shape, population.classes, 0).get_submodule("embedding")

    def of(examples: Examples) -> Examples:
        with torch.no_grad():
            return Examples(embedding(examples.x), examples.y)

    clients = {i: replace(c, train=of(c.train), test=of(c.test)) for i, c in population.clients.items()}
    return Population(clients, population.groups, population.classes, tuple(next(iter(clients.values())).train.x.shape[1:]))


def whole(source: Source, method: Method, records: int, seed: int, clients: int = 20, groups: int = 4) -> Cell:
    """One run with noise, and what stands beside it: mean accuracies of all clients."""
    population = method.partition(clients, groups, records)(source, np.random.default_rng(seed_of(seed, "partition")))
    first = METHODS[method]
    privacy = RecordPrivacy(clip=CLIP, multiplier=multiplier(first), budget=TOTAL, delta=DELTA)
    steps = Training(epochs=EPOCHS, batch=records, lr=LR, privacy=privacy)
    free = Training(epochs=EPOCHS, batch=records, **OPEN)
    run = played(population, source, clustering(method, first, TOTAL, records, source, ()), steps, ROUNDS, seed)
    ari = adjusted_rand_index([c.members for c in run.clusters.values()], population.groups)
    open_ = clustering(method, 100.0, 100.0, records, source, ("sums",))
    found = [c.members for c in played(population, source, open_, replace(free, epochs=1), 1, seed).clusters.values()]
    features, linear = featured(population), SoftmaxRegression()
    oracle = played(features, source, Oracle(by_samples=False), free, ROUNDS, seed, linear)
    without = oracle
    if adjusted_rand_index(found, population.groups) < 1:
        groups_found = {i: k for k, members in enumerate(found) for i in members}
        without = played(replace(features, groups=groups_found), source, Oracle(by_samples=False), free, ROUNDS, seed, linear)
    alone = played(features, source, Local(), Training(epochs=ALONE_EPOCHS, batch=records, **ALONE), 1, seed, linear)
    ledgers = list(run.ledgers.values())
    return {
        "ari": ari,
        "cluster's model": mean_accuracy(run),
        "at home": at_home(run, records),
        "LOCAL": mean_accuracy(alone),
        "without noise": mean_accuracy(without),
        "Oracle": mean_accuracy(oracle),
        "epsilon": max(ledger.spent for ledger in ledgers),
        "least epsilon": min(ledger.spent for ledger in ledgers),
        "releases": sorted({len(ledger.releases) for ledger in ledgers}),
        "acknowledged": sorted({name for ledger in ledgers for name in ledger.acknowledged}),
        "not covered": sorted({words for ledger in ledgers for words in ledger.not_covered}),
    }


COLUMNS = ("ari", "cluster's model", "at home", "LOCAL", "without noise", "Oracle")


def table(found: Mapping[str, Cell]) -> str:
    """Markdown: a row for each data set, method and number of records; means over seeds, the least index, the largest epsilon."""
    rows = dict[tuple[str, ...], list[Cell]]()
    for key, cell in found.items():
        rows.setdefault(tuple(key.split(" | ")[:3]), []).append(cell)
    lines = ["| data | method | records | " + " | ".join(COLUMNS) + " | epsilon |", "| --- " * (4 + len(COLUMNS)) + "|"]
    for row, cells in rows.items():
        means = [f"{np.mean([c[name] for c in cells]):.3f}" for name in COLUMNS]
        means[0] = f"{np.mean([c['ari'] for c in cells]):.2f}, {min(c['ari'] for c in cells):.2f}"
        lines.append("| " + " | ".join([*row, *means, f"{max(c['epsilon'] for c in cells):.3f}"]) + " |")
    return "\n".join(lines)


def small(seed: int = 0) -> dict[str, Cell]:
    """Both methods on drawn images, 12 clients of 400 records in 3 groups."""
    source = DrawnImages()(None)
    return {f"{source.name} | {m.name} | 400 | {seed}": whole(source, m, 400, seed, clients=12, groups=3) for m in METHODS}


def main() -> None:
    """Play what is missing, print it, keep it in cells.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="drawn images, one seed")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--records", type=int, nargs="+", default=[400])
    parser.add_argument("--sets", nargs="+", default=["mnist", "fashion-mnist"])
    parser.add_argument("--data", type=Path, help="folder of data sets; else CLOISTER_DATA")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.small:
        print(table(small(arguments.seeds[0])))
        return
    path = None if arguments.out is None else arguments.out / "cells.json"
    found: dict[str, Cell] = json.loads(path.read_text()) if path is not None and path.exists() else {}
    loaders: dict[str, Loader] = {"mnist": Mnist(), "fashion-mnist": FashionMnist()}
    for source in (loaders[name](arguments.data) for name in arguments.sets):
        for records in arguments.records:
            for method in METHODS:
                for seed in arguments.seeds:
                    key = f"{source.name} | {method.name} | {records} | {seed}"
                    if key not in found:
                        found[key] = whole(source, method, records, seed)
                        print(key, {name: found[key][name] for name in (*COLUMNS, "epsilon", "releases")}, flush=True)
                    if path is not None:
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
