"""What certified decisions save: all pairs of EMD-CFL's Rotated MNIST, decided by exact solves, by bounds, and by Sinkhorn.

Four groups see every training image turned by 0, 90, 180 and 270 degrees and share it among their clients. Every client trains
a small CNN (128 features) for one epoch from a common start and compares its own stratified subsample with everybody's under its
own model and its own secret projection of 115 coordinates. eps is `from_references`. Times are CPU seconds of the process, all
threads together; training, forward passes and reference distances are the same for all and are reported apart.

    python tests/benchmarks/emd.py [--json] [--clients 40] [--samples 512] [--euclidean]
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import nn

from cloister.crypto.dense_projection import Orthonormal
from cloister.fl.clients.training import Job, Training, train_one
from cloister.fl.data.population import Examples, Source
from cloister.fl.data.rotation import rotate
from cloister.fl.data.source import Mnist
from cloister.fl.emd import (
    Cosine,
    Decision,
    Distance,
    Embedding,
    Euclidean,
    ExactEmd,
    MeanDistance,
    Pair,
    Problem,
    Sinkhorn,
    adjacency,
    decide,
    decisions,
    distances,
    embed,
    from_references,
    neighbourhoods,
    subsample,
)
from cloister.fl.models.papers import initial, with_linear_head
from cloister.fl.models.vector import load_vector, to_vector
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.run_folder import machine, versions

T = TypeVar("T")

ANGLES = (0, 90, 180, 270)
FEATURES, RATIO = 128, 0.9
TRAINING = Training(epochs=1, batch=64, lr=0.05, momentum=0.9)
VALIDATION = 1000  # of a client's 6,000 images, so that a stratified 512 fits into it


class Clock:
    """CPU seconds by name."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def __call__(self, name: str, work: Callable[[], T]) -> T:
        start = process_time()
        result = work()
        self.seconds[name] += process_time() - start
        return result


def cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    layers = [nn.Conv2d(shape[0], 8, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
    return with_linear_head([*layers, nn.Flatten(), nn.Linear(256, FEATURES), nn.ReLU()], shape, classes)


def deal(source: Source, clients: int) -> list[tuple[Examples, Examples]]:
    """Training and validation examples of every client, group by group."""
    dealt = []
    for group, angle in enumerate(ANGLES):
        rng = np.random.default_rng(group)
        for part in np.array_split(rng.permutation(len(source.train)), clients // len(ANGLES)):
            own = source.train.take(torch.from_numpy(part))
            turned = Examples(rotate(own.x, angle), own.y)
            cut = len(part) - min(VALIDATION, len(part) // 2)
            dealt.append((turned.take(torch.arange(cut)), turned.take(torch.arange(cut, len(part)))))
    return dealt


class Clients:
    """Trained clients, and the embeddings that one of them, its model and its projection, makes of anybody's subsample."""

    def __init__(self, count: int, samples: int, clock: Clock) -> None:
        source = Mnist()(None)
        self.module = initial(cnn, source.shape, source.classes, 0)
        start = to_vector(self.module)
        self.sources, self.targets, self.models = [], [], []
        for client, (train, validation) in enumerate(deal(source, count)):
            job = Job(client, start, train, client)
            self.models.append(start + clock("training", partial(train_one, self.module, job, TRAINING, 0)))
            rng = np.random.default_rng(100 + client)
            self.sources.append(subsample(train, samples, rng).x)
            self.targets.append(subsample(validation, samples, rng).x)
        self.clock = clock

    def see(self, client: int, inputs: torch.Tensor) -> NDArray[np.float32]:
        load_vector(self.module, self.models[client])
        found = self.clock("forward passes", lambda: embed(self.module, Embedding(), inputs))
        secret = Orthonormal.draw(client.to_bytes(32, "big"), FEATURES, int(RATIO * FEATURES))
        return self.clock("projections", lambda: secret.apply(found)).astype(np.float32)


def agreement(edges: dict[tuple[int, int], bool], clients: int) -> float:
    found = neighbourhoods(adjacency(edges, range(clients)), range(clients))
    return adjusted_rand_index(found, {client: client * len(ANGLES) // clients for client in range(clients)})


def measure(clients: int, samples: int, ground: Cosine | Euclidean) -> dict[str, Any]:
    clock = Clock()
    trained = Clients(clients, samples, clock)
    own = [(trained.see(i, trained.sources[i]), trained.see(i, trained.targets[i])) for i in range(clients)]
    exact, others = ExactEmd(ground), {"means": MeanDistance(ground)}
    taus = clock("exact references", lambda: [exact(*pair) for pair in own])
    scale = float(np.median(taus)) if isinstance(ground, Euclidean) else 1.0  # the paper's 0.1 is for cosine costs
    named: dict[str, Distance] = {f"Sinkhorn {0.1 * scale:.3g}": Sinkhorn(0.1 * scale, ground), **others}
    references = {"exact": taus, **{name: [distance(*pair) for pair in own] for name, distance in named.items()}}
    eps = {name: from_references(found) for name, found in references.items()}
    answers: dict[str, dict[tuple[int, int], float]] = {name: {} for name in references}
    certified: dict[tuple[int, int], Decision] = {}
    stages: Counter[tuple[str, str]] = Counter()
    stage_seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for i in range(clients):
        row = [Problem(i, j, own[i][0], trained.see(i, trained.targets[j]), taus[i]) for j in range(clients) if j != i]
        answers["exact"] |= clock("exact", partial(distances, row, exact))
        certified |= clock("certified", partial(decisions, row, eps["exact"], ground))
        for name, distance in named.items():
            answers[name] |= clock(name, partial(distances, row, distance))
        with threadpool_limits(limits=1):
            for problem in row[:: max(1, clients // 8)]:  # time by stage, on some pairs, one after the other
                start = process_time()
                once = decide(Pair.of(ground, problem.source, problem.target), problem.reference, eps["exact"])
                stage_seconds[once.by, once.stage] += process_time() - start
                stages[once.by, once.stage] += 1
    edges = {name: {p: w - references[name][p[0]] < eps[name] for p, w in found.items()} for name, found in answers.items()}
    edges["certified"] = {pair: decision.edge for pair, decision in certified.items()}
    settled = Counter((decision.by, decision.stage) for decision in certified.values())
    return {
        "pairs": len(certified),
        "eps": eps,
        "reference_distances": {"least": min(taus), "median": float(np.median(taus)), "largest": max(taus)},
        "cpu_seconds": {name: clock.seconds[name] for name in ("exact", "certified", *named)},
        "cpu_seconds_apart": {n: clock.seconds[n] for n in ("training", "forward passes", "projections", "exact references")},
        "ratio": clock.seconds["exact"] / clock.seconds["certified"],
        "different_decisions": sum(edges["exact"][pair] != edge for pair, edge in edges["certified"].items()),
        "edges": sum(edges["exact"].values()),
        "settled": [
            {
                "by": by,
                "stage": stage,
                "pairs": count,
                "ms_each": 1e3 * stage_seconds[by, stage] / stages[by, stage] if stages[by, stage] else None,
            }
            for (by, stage), count in settled.most_common()
        ],
        "ari": {name: agreement(found, clients) for name, found in edges.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--clients", type=int, default=40, help="a multiple of 4")
    parser.add_argument("--samples", type=int, default=512)
    parser.add_argument("--euclidean", action="store_true", help="Euclidean ground cost instead of cosine")
    options = parser.parse_args()
    if options.clients < 4 or options.clients % 4:
        parser.error("--clients must be a multiple of 4")
    torch.set_num_threads(1)
    ground = Euclidean() if options.euclidean else Cosine()
    found = measure(options.clients, options.samples, ground)
    result = {"benchmark": "emd", "clients": options.clients, "samples": options.samples, "ground": repr(ground), **found}
    result |= {"machine": machine(), "versions": versions()}
    if options.json:
        print(json.dumps(result, indent=1))
        return
    for name, seconds in found["cpu_seconds"].items():
        print(f"{name}: {seconds:.2f} CPU s for {found['pairs']} pairs, ARI {found['ari'][name]:.2f}")
    print(f"exact / certified: {found['ratio']:.1f}; different decisions: {found['different_decisions']}")
    for row in found["settled"]:
        print(f"  {row['pairs']} pairs by {row['by']} ({row['stage']}), {row['ms_each'] or 0:.2f} ms each")
    for name, seconds in found["cpu_seconds_apart"].items():
        print(f"apart: {name} {seconds:.2f} CPU s")


if __name__ == "__main__":
    main()
