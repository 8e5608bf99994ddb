"""One noisy mean a client against noisy embeddings, on Rotated MNIST: which total epsilon still finds the groups?

Every client releases either one vector, the mean of its public embeddings, projected, with noise (`MeanSketch`), or all of its
projected embeddings with noise, once for all, and its reference distance (`PerClient`). Both are (epsilon, 1e-5)-differentially
private for one record, by all that the client releases for the clustering, and by nothing else: what is trained on the same
records afterwards has no noise here, so no epsilon holds for a whole run. The embeddings are scaled to length 1, so the clip is
1 and nothing is tuned on clients' data. Public embeddings that are tried: the pixels, a CNN with its random first weights, and,
with --weights FILE, a frozen MobileNetV2 (options as in `Pretrained`: --same for TensorFlow's padding and its inputs in [-1, 1]).

    python examples/emd_cfl_mean_sketch.py --quick --seeds 0 1 2 --out runs/sketch                  # a minute or two
    python examples/emd_cfl_mean_sketch.py --weights FILE --seeds 0 1 2 3 4 --out runs/sketch       # 40 clients of 1,500 images

"at eps": with a tolerance that does not look at the answer; "best": with the best one in hindsight. Two means of one group differ
by noise of length tau = sqrt(2 p) sigma with a spread of sigma, and by sampling, at most 2 / n in square. So its tolerance is
sqrt(tau^2 + 2 / n) - tau + 4 sigma, a public number; that of noisy embeddings is found by `Gap`. A mean is of a client's whole
training half: its noise falls with its size.
"""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from cloister.fl.algorithms.emd_cfl import EMDCFL, EXACT, Gap, Share
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import Rotation
from cloister.fl.data.population import Population
from cloister.fl.data.source import Mnist
from cloister.fl.emd import Euclidean, MeanDistance, Size, adjacency, neighbourhoods
from cloister.fl.models.mobilenet import MobileNet
from cloister.fl.models.papers import CflCnn, EmbeddingAndHead, Mlp, initial
from cloister.fl.models.pretrained import Pretrained
from cloister.fl.runs.metrics import adjusted_rand_index
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation, seed_of
from cloister.protocol import Plain
from cloister.protocol.pairs.asking import AskingPairs
from cloister.protocol.pairs.choices import MeanSketch, PerClient
from cloister.protocol.pairs.noise import Noise, opened, release

DELTA = 1e-5
RATIO = 0.9
EPSILONS = {"mean sketch": (0.25, 0.5, 1.0, 2.0, 4.0), "noisy embeddings": (4.0, 16.0, 64.0, 256.0)}
INK, HUES = "#1f2933", {"pixels": "#7b8794", "random CNN": "#d9822b", "MobileNetV2": "#2f6fad"}
Cell = dict[str, Any]

scenario = Scenario(
    name="mean sketches on Rotated MNIST",
    data=Mnist(),
    partition=Rotation(clients=40, angles=(0, 90, 180, 270), samples=1500),
    model=Mlp(hidden=(8,)),
    training=Training(epochs=1, batch=64, lr=0.05),
    algorithm=EMDCFL(eps=Gap(), size=Size(10_000)),
    protection=Plain(),
    rounds=1,
    validation=0.5,
)
quick = replace(
    scenario,
    name="mean sketches on Rotated MNIST, quick",
    partition=Rotation(clients=12, angles=(0, 90, 180, 270), samples=2000),
)


class Unit(nn.Module):
    """Vectors of length 1."""

    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = x / x.norm(dim=1, keepdim=True).clamp_min(1e-12)
        return scaled


@dataclass(frozen=True, slots=True)
class Public:
    """A network that everybody knew before the run: no client's data are in it."""

    kind: str
    weights: str = ""
    same: bool = False

    def __call__(self, shape: tuple[int, ...]) -> nn.Module:
        if self.kind == "pixels":
            return nn.Sequential(nn.Flatten(), Unit())
        if self.kind == "random CNN":
            model = initial(CflCnn(), shape, 10, 0)
            if not isinstance(model, EmbeddingAndHead):
                raise ValueError("the CNN has no embedding")
            return nn.Sequential(model.embedding, Unit())
        halves = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        by = Pretrained(weights=self.weights, network=MobileNet(same=self.same), size=32)
        return nn.Sequential((replace(by, mean=halves[0], deviation=halves[1]) if self.same else by).embedding(), Unit())


@cache
def multiplier(epsilon: float, releases: int, coordinates: int) -> float:
    """Noise over sensitivity at which so many releases about a record, of at most so many coordinates, spend at most epsilon."""

    def spent(z: float) -> float:
        noise = Noise(clip=1.0, multiplier=z, reference_multiplier=z, budget=1e9, delta=DELTA)
        ledger = opened(noise, 0)
        for _ in range(releases):
            ledger = ledger + release(noise, z, 1.0, coordinates, "one of them")
        return float(ledger.spent)

    low, high = 1e-2, 1e3
    for _ in range(16):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if spent(middle) <= epsilon else (middle, high)
    return high


def as_it_is(shape: tuple[int, ...]) -> nn.Module:
    """The public embedding of clients that hold embeddings already."""
    return nn.Identity()


def algorithm(form: str, epsilon: float, value: Scenario, width: int, rows: int) -> EMDCFL:
    """EMD-CFL with that release. Both are of nonnegative embeddings of length 1; the budget is epsilon, and clients keep it.

    width: of the embeddings. rows: of how many a client's mean is.
    """
    own: Any = value.algorithm
    p = int(RATIO * width)
    z = multiplier(epsilon, 1 if form == "mean sketch" else 2, p)
    noise = Noise(
        clip=1.0,
        multiplier=z,
        reference_multiplier=z,
        budget=epsilon,
        delta=DELTA,
        nonnegative=True,
        acknowledge=("sums",),  # of the training round: epsilon is of the clustering alone
    )
    if form == "mean sketch":
        choice: Any = MeanSketch(noise=noise, ratio=RATIO)
        sigma = z * sqrt(2 * width / p) / rows  # vectors are at most sqrt(2) apart, and R stretches by sqrt(width / p)
        tau = sqrt(2 * p) * sigma
        share = (sqrt(tau**2 + 2 / rows) - tau + 4 * sigma) / tau
        return replace(own, eps=Share(share), choice=choice, distance=MeanDistance(Euclidean()), public=as_it_is)
    return replace(own, choice=PerClient(noise=noise, ratio=RATIO), distance=EXACT, public=as_it_is, size=Size(512))


def played(value: Scenario) -> Cell:
    """The Rand index at the tolerance, and the best; what the worst client spent.

    within: mean of the larger of both W - tau over pairs of one group; across: the least over pairs of two.
    """
    simulation = Simulation(value, None)
    simulation.step()
    state: Any = simulation.state
    groups = [simulation.population.groups[i] for i in state.clients]
    mutual = np.maximum(state.matrix(), state.matrix().T)
    off = ~np.eye(len(groups), dtype=bool)
    values = np.unique(mutual[off])
    best = 0.0
    for threshold in np.append((values[:-1] + values[1:]) / 2, values[-1] + 1):
        edges = {(i, j): bool(mutual[i, j] < threshold) for i, j in np.argwhere(off).tolist()}
        clusters = neighbourhoods(adjacency(edges, range(len(groups))), range(len(groups)))
        best = max(best, adjusted_rand_index(clusters, dict(enumerate(groups))))
    same = np.equal.outer(groups, groups)
    ledgers = simulation.view.harness.part(AskingPairs).ledgers()
    return {
        "ari": adjusted_rand_index([c.members for c in state.clusters.values()], simulation.population.groups),
        "best": best,
        "spent": max((float(ledger.spent) for ledger in ledgers.values()), default=None),
        "within": float(mutual[same & off].mean()),
        "across": float(mutual[~same].min()),
    }


def embedded(population: Population, public: Public) -> Population:
    """The clients with public embeddings, made once, in place of their images; nobody is tested."""
    network = public(population.shape).eval()
    clients = {}
    with torch.no_grad():
        for i, client in population.clients.items():
            x = torch.cat([network(batch) for batch in torch.split(client.train.x, 256)])
            train = replace(client.train, x=x)
            clients[i] = replace(client, train=train, test=train.take(torch.arange(1)))
    return replace(population, clients=clients, shape=tuple(x.shape[1:]))


def draw(cells: Mapping[str, Cell]) -> Figure:
    """The Rand index over the total epsilon, a panel for each kind of release."""
    figure = Figure(figsize=(9.6, 4), layout="constrained", facecolor="white")
    for axes, (form, epsilons) in zip(figure.subplots(1, 2, sharey=True), EPSILONS.items(), strict=True):
        for kind, hue in HUES.items():
            for measure, style in (("ari", "-o"), ("best", ":s")):
                points = [
                    (epsilon, float(np.mean(found)))
                    for epsilon in epsilons
                    if (found := [c[measure] for k, c in cells.items() if k.startswith(f"{form} | {kind} | {epsilon:g} | ")])
                ]
                if points:
                    label = f"{kind}, {'at eps' if measure == 'ari' else 'best'}"
                    axes.plot(*zip(*points, strict=True), style, color=hue, ms=4.5, lw=1.6, label=label)
        axes.set(xscale="log", xlabel=r"$\varepsilon$ by the clustering alone, $\delta = 10^{-5}$", ylim=(-0.05, 1.05))
        axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axes.minorticks_off()
        axes.set_title(form, fontsize=10.5, color=INK)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    figure.axes[0].set_ylabel("adjusted Rand index, mean of the seeds")
    figure.axes[0].legend(frameon=False, fontsize=8)
    return figure


def main() -> None:
    """Run what is missing, print it, write mean_sketch.json and mean_sketch.png."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="12 clients")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--weights", default="", help="file of a MobileNetV2's weights")
    parser.add_argument("--same", action="store_true", help="weights that come from TensorFlow")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / ("mean_sketch_quick.json" if arguments.quick else "mean_sketch.json")
    cells: dict[str, Cell] = json.loads(path.read_text()) if path.exists() else {}
    base = quick if arguments.quick else scenario
    kinds = ["pixels", "random CNN", *(["MobileNetV2"] if arguments.weights else [])]

    def save() -> None:
        path.write_text(json.dumps(cells, indent=1) + "\n")

    for seed in arguments.seeds:
        run_seed(replace(base, seed=seed), [Public(kind, arguments.weights, arguments.same) for kind in kinds], cells, save)
    draw(cells).savefig(path.with_suffix(".png"), dpi=110)


def run_seed(value: Scenario, publics: Sequence[Public], cells: dict[str, Cell], save: Callable[[], None]) -> None:
    """All releases of one seed that are missing."""
    source = value.data(None)
    population = value.partition(source, np.random.default_rng(seed_of(value.seed, "partition")))
    for public in publics:
        vectors = embedded(population, public)
        rows = len(vectors.clients[0].train) // 2
        known = replace(value, data=lambda _: source, partition=lambda *_, found=vectors: found)
        for form, epsilons in EPSILONS.items():
            for epsilon in epsilons:
                key = f"{form} | {public.kind} | {epsilon:g} | {value.seed}"
                if key not in cells:
                    chosen = algorithm(form, epsilon, value, vectors.shape[0], rows)
                    cells[key] = played(replace(known, algorithm=chosen))
                    save()
                    print(key, {name: said if said is None else round(said, 4) for name, said in cells[key].items()}, flush=True)


if __name__ == "__main__":
    main()
