"""CFL for next-word prediction on AG-News: Sattler et al. 2020, section VI-C, Fig. 9.

20 clients hold news articles, each of one of four topics, and train a two-layer LSTM to predict the next word. Federated
averaging gives one model of all news; CFL finds the topics by the updates alone and ends with a model for each. Both start
from the same seed and run as long.

    cloister run examples/cfl_fig9_ag_news.py:quick --data FOLDER                           # a minute, needs AG-News
    python examples/cfl_fig9_ag_news.py --scale quick --seed 0 --out runs/fig9              # a few minutes
    python examples/cfl_fig9_ag_news.py --scale reduced --seed 0 --out runs/fig9            # a quarter of an hour
    python examples/cfl_fig9_ag_news.py --scale paper --seed 0 --out runs/fig9              # days on a CPU

The paper prints no vocabulary, widths, step size or thresholds. A cluster may be split once it has trained for `patience`
rounds; then the mean update must be short beside the longest one (eps1; eps2 = 0 leaves the length itself untested) and the
sides of the cut must not agree (gamma_max = 0.65: a cross similarity below 0.16). Clients of one topic overfit in the end,
and their nearly orthogonal updates then pass for a stationary point: the mean of five is 0.45 as long as each, of two 0.71.
eps1 has to be below what they come to, and was chosen so: 0.27 for five clients a topic, 0.45 for two.
Perplexity depends on the vocabulary; only runs of one scale can be compared. The quick scale finds the topics, but has too few
articles for the perplexity to gain by it. Interrupted, the same command goes on where it stopped.
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cloister.fl.algorithms.cfl import CFL, ScaleFree
from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.clients.training import Training
from cloister.fl.data.partition import TopicPerClient
from cloister.fl.data.source import AgNews
from cloister.fl.models.papers import Lstm
from cloister.fl.runs.experiment import run
from cloister.fl.runs.scenario import Scenario
from cloister.protocol.uploaded.plain import Plain

INK, HUES = "#1f2933", ("#2f6fad", "#d9822b", "#2f8f6b", "#7b4fa6")
GREYS = ("#1f2933", "#7b8794", "#c0562f", "#2f6fad", "#3f9b5f", "#b23a7f", "#8a6d1f")
TOPICS = ("World", "Sports", "Business", "Sci/Tech")


def splitting(eps1: float, patience: int) -> CFL:
    """CFL as this figure uses it."""
    return CFL(thresholds=ScaleFree(eps1=eps1, eps2=0.0), gamma_max=0.65, similarities="every round", patience=patience)


scenario = Scenario(
    name="CFL fig. 9, AG-News",
    data=AgNews(vocabulary=10_000, length=30),
    partition=TopicPerClient(clients=20),
    model=Lstm(embedding=64, hidden=128),
    training=Training(epochs=3, batch=100, lr=4.0),
    algorithm=splitting(eps1=0.27, patience=30),
    protection=Plain(),
    rounds=100,
    evaluate_every=2,
)
reduced = replace(
    scenario,
    name="CFL fig. 9, AG-News, reduced",
    data=AgNews(vocabulary=500, length=12),
    partition=TopicPerClient(clients=20, samples=1500),
    model=Lstm(embedding=32, hidden=32),
    training=Training(epochs=3, batch=50, lr=4.0),
    algorithm=splitting(eps1=0.27, patience=6),
    rounds=36,
)
quick = replace(
    reduced,
    name="CFL fig. 9, AG-News, quick",
    data=AgNews(vocabulary=300, length=8),
    partition=TopicPerClient(clients=8, samples=500),
    algorithm=splitting(eps1=0.45, patience=8),
    rounds=30,
)

SCALES = {"paper": scenario, "reduced": reduced, "quick": quick}


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """What a run folder says. perplexity: float64 (evaluations, clients), at `rounds`; gaps: by cluster, (round, gap)."""

    rounds: NDArray[np.int64]
    perplexity: NDArray[np.float64]
    gaps: dict[str, list[tuple[int, float]]]
    splits: list[dict[str, Any]]
    summary: dict[str, Any]


def played(value: Scenario, out: Path) -> Curves:
    """The curves of the run in this folder, which is begun, continued or only read."""
    for done in run(value, out, resume=(out / "scenario.json").exists()):
        print(f"{type(value.algorithm).__name__}: round {done.round} of {done.rounds}, {done.clusters} clusters", flush=True)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    seen = [line for line in lines if "loss" in line]
    gaps: dict[str, list[tuple[int, float]]] = {}
    for line in lines:
        for name, gap in line["gap"].items():
            gaps.setdefault(name, []).append((line["round"] + 1, gap))
    return Curves(
        np.array([line["round"] + 1 for line in seen]),
        np.exp([[line["loss"][i] for i in sorted(line["loss"], key=int)] for line in seen]),
        gaps,
        [json.loads(line) for line in (out / "splits.jsonl").read_text().splitlines()],
        json.loads((out / "summary.json").read_text()),
    )


def draw(cfl: Curves, fedavg: Curves, groups: list[int], title: str) -> Figure:
    """Perplexities above, thin a client, thick the mean of a topic, dashed federated averaging; separation gaps below."""
    figure = Figure(figsize=(8.4, 6.2), layout="constrained", facecolor="white")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1.7, 1])
    for group in sorted(set(groups)):
        members = [i for i, g in enumerate(groups) if g == group]
        colour = HUES[group]
        top.plot(cfl.rounds, cfl.perplexity[:, members], color=colour, lw=0.6, alpha=0.35)
        top.plot(cfl.rounds, cfl.perplexity[:, members].mean(axis=1), color=colour, lw=2.2, label=f"CFL, {TOPICS[group]}")
        top.plot(fedavg.rounds, fedavg.perplexity[:, members].mean(axis=1), color=colour, lw=1, ls=(0, (3, 2)))
    for run_of, style, label in ((cfl, "-", "CFL, all clients"), (fedavg, (0, (2, 2)), "federated averaging, all clients")):
        top.plot(run_of.rounds, run_of.perplexity.mean(axis=1), color=INK, lw=1.8, ls=style, label=label)
    for number, (name, values) in enumerate(cfl.gaps.items()):
        x, y = zip(*values, strict=True)
        bottom.plot(x, y, color=GREYS[number % len(GREYS)], lw=1.5, label=f"cluster {name}")
    bottom.axhline(0, color=INK, lw=0.9, ls=(0, (4, 3)))
    for split in cfl.splits:
        for axes in (top, bottom):
            axes.axvline(split["round"] + 1, color="#7b8794", lw=0.9, ls=(0, (1, 2)), zorder=0)
    settled = fedavg.perplexity[fedavg.rounds >= 4]
    top.set(ylabel="perplexity on the clients' own test articles")
    top.set_ylim(0.95 * float(min(cfl.perplexity.min(), settled.min())), 1.02 * float(settled.max()))
    bottom.set(xlabel="communication rounds", ylabel=r"separation gap  $g(\alpha)$", xlim=(1, cfl.rounds[-1]))
    top.legend(frameon=False, fontsize=8.5, ncols=2, loc="upper right")
    bottom.legend(frameon=False, fontsize=8, ncols=2)
    top.set_title(title, fontsize=11.5, color=INK)
    for axes in (top, bottom):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    return figure


def main() -> None:
    """Run CFL and federated averaging, print what came out, write next_word_SCALE.png and .json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short for --scale quick")
    parser.add_argument("--scale", choices=tuple(SCALES), default="paper")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    name = "quick" if arguments.quick else arguments.scale
    value = replace(SCALES[name], seed=arguments.seed)

    cfl = played(value, arguments.out / f"{name}_cfl_seed_{value.seed}")
    average = replace(value, name=f"{value.name}, FedAvg", algorithm=FedAvg())
    fedavg = played(average, arguments.out / f"{name}_fedavg_seed_{value.seed}")
    groups = [cfl.summary["groups"][i] for i in sorted(cfl.summary["groups"], key=int)]

    runs = {"cfl": cfl, "fedavg": fedavg}
    numbers = {
        "seed": value.seed,
        "rounds": value.rounds,
        "splits": [{key: split[key] for key in ("round", "cluster", "cross", "gap", "children")} for split in cfl.splits],
        "clusters": cfl.summary["clusters"],
        "ari": cfl.summary["ari"],
        "perplexity": {key: float(curves.perplexity[-1].mean()) for key, curves in runs.items()},
        "best_mean_perplexity": {key: float(curves.perplexity.mean(axis=1).min()) for key, curves in runs.items()},
        "perplexity_by_topic": {
            key: {
                TOPICS[group]: float(curves.perplexity[-1][[i for i, g in enumerate(groups) if g == group]].mean())
                for group in sorted(set(groups))
            }
            for key, curves in runs.items()
        },
        "clients_better_under_cfl": int((cfl.perplexity[-1] < fedavg.perplexity[-1]).sum()),
        "seconds": {key: curves.summary["seconds"] for key, curves in runs.items()},
        "last_gaps": {cluster: values[-1][1] for cluster, values in cfl.gaps.items()},
        "evaluated": cfl.rounds.tolist(),
        "mean_perplexity": {key: curves.perplexity.mean(axis=1).round(3).tolist() for key, curves in runs.items()},
    }
    print(f"splits in rounds {[split['round'] + 1 for split in cfl.splits]}; {len(cfl.summary['clusters'])} clusters, ", end="")
    print(f"ARI {cfl.summary['ari']:.2f}; perplexity {numbers['perplexity']}")
    title = f"Next words of AG-News, {len(groups)} clients of one topic each, seed {value.seed}"
    draw(cfl, fedavg, groups, title).savefig(arguments.out / f"next_word_{name}.png", dpi=110)
    (arguments.out / f"next_word_{name}.json").write_text(json.dumps(numbers) + "\n")


if __name__ == "__main__":
    main()
