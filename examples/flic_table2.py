"""Minus gradient by 30 to 60 of 100 clients: FLIC, Espinoza Castellon et al. 2022, section IV-C, Table II and Fig. 6.

Attackers upload the opposite of their update. They are the same clients in all rounds; 10 of the 100 are sampled a round, so the
number of attackers in a round varies. Rows: federated averaging, the coordinate-wise median, FLIC as printed, FLIC with the self
loops that its authors' code has in the graph, our hardened FLIC; and federated averaging without the attackers' data, who never
answer: no defence that leaves them out can do better. Column 0 is federated averaging without an attack.

    cloister run examples/flic_table2.py:quick                                          # FLIC on digits, seconds, no file
    python examples/flic_table2.py --quick --seeds 0 1 --out runs/table2                # the table on digits, two minutes
    python examples/flic_table2.py --model mlp --seeds 0 1 2 3 4 --out runs/table2      # MNIST, a minute a cell and seed
    python examples/flic_table2.py --model cnn --rows flic --columns 40 --seeds 0 --out runs/table2    # the paper's net, 30 min
    python examples/flic_table2.py --model mlp --table --out runs/table2                # the table and the figure of what is done

A cell is a row, a column and a seed. A finished one is a file in the output folder, and is not run again.
The paper: 300 rounds, one local epoch, batches of 50, step size 0.01, 20 repeats, T = 200, and 50 with 60 attackers. Clients
here test on all 10,000 images; the paper gives each 100 of them. The perceptron takes a step size of 0.05; --lr 0.01 is the
paper's.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from cloister.fl.algorithms.fedavg import FedAvg
from cloister.fl.algorithms.flic import FLIC
from cloister.fl.algorithms.hardened_flic import HardenedFLIC
from cloister.fl.algorithms.robust_fedavg import RobustFedAvg
from cloister.fl.clients.training import Training
from cloister.fl.clustering.communities import Louvain
from cloister.fl.data.partition import Iid
from cloister.fl.data.source import Digits, Mnist
from cloister.fl.models.papers import FlicCnn, Mlp
from cloister.fl.robust.coordinates import Median
from cloister.fl.runs.lost_round import NothingLearned
from cloister.fl.runs.metrics import purity
from cloister.fl.runs.scenario import Scenario
from cloister.fl.runs.simulation import Simulation
from cloister.protocol.uploaded.plain import Plain
from cloister.threat_models.adversary import Adversary
from cloister.threat_models.membership import ALWAYS, Pool
from cloister.threat_models.simple_attacks import MinusGradient

INK = "#1f2933"
LAST = 50
"""Rounds among which the table takes the best accuracy, as the paper does."""
COLUMNS = (0, 30, 40, 50, 60)
ROWS = {
    "fedavg": "FedAvg",
    "median": "median",
    "flic": "FLIC",
    "loops": "FLIC, self loops",
    "hardened": "hardened FLIC",
    "absent": "FedAvg, attackers absent",
}
COLOURS = {
    "fedavg": "#8a94a0",
    "median": "#d9822b",
    "flic": "#2f6fad",
    "loops": "#7a4fa3",
    "hardened": "#2a8c6b",
    "absent": "#b9c0c8",
}
PAPER = {
    "fedavg": (0.99, 0.94, 0.91, 0.14, 0.10),
    "median": (None, 0.98, 0.57, 0.10, 0.10),
    "flic": (None, 0.95, 0.94, 0.91, 0.97),
}

scenario = Scenario(
    name="FLIC table II, MNIST, 40 attackers",
    data=Mnist(),
    partition=Iid(clients=100, shared_test=True),
    model=Mlp(hidden=(64,)),
    training=Training(epochs=1, batch=50, lr=0.05),
    algorithm=FLIC(rounds_before=200, participation=0.1, sampling="random", similarities="every round"),
    protection=Plain(),
    rounds=300,
    evaluate_every=5,
    adversary=Adversary(members=Pool(40), upload=MinusGradient()),
)
cnn = replace(scenario, model=FlicCnn(), training=replace(scenario.training, lr=0.01), evaluate_every=10)
quick = replace(
    scenario,
    name="FLIC table II, digits, 40 % attackers",
    data=Digits(),
    partition=Iid(clients=100, shared_test=True),
    model=Mlp(hidden=(32,)),
    training=Training(epochs=3, batch=7, lr=0.05),
)
SCALES = {"mlp": scenario, "cnn": cnn, "quick": quick}
REGROUP = {"mlp": 10, "cnn": 30, "quick": 10}
"""Mean rounds between choices of the hardened FLIC: at each all clients try all models, which costs the large net minutes."""


def cell(scale: str, row: str, attackers: int, seed: int) -> Scenario:
    """The scenario of one cell of the table."""
    base = SCALES[scale]
    share = base.rounds / 300
    before = round((50 if attackers >= 60 else 200) * share)
    printed = FLIC(rounds_before=before, participation=0.1, sampling="random", similarities="every round")
    algorithm: Any = {
        "fedavg": FedAvg(participation=0.1, sampling="random"),
        "median": RobustFedAvg(rule=Median(), participation=0.1, sampling="random"),
        "flic": printed,
        "loops": replace(printed, detector=Louvain(self_loop=2)),
        "hardened": HardenedFLIC(rounds_before=10, every=REGROUP[scale], participation=0.1),
        "absent": FedAvg(participation=0.1, sampling="random"),
    }[row]
    attacked = Adversary(members=Pool(attackers), upload=MinusGradient())
    away = Adversary(members=Pool(attackers), silent=ALWAYS)
    adversary = (away if row == "absent" else attacked) if attackers else None
    name = f"FLIC table II, {scale}, {ROWS[row]}, {attackers} attackers"
    return replace(base, name=name, algorithm=algorithm, adversary=adversary, seed=seed)


def contributing(state: Any) -> list[tuple[int, ...]]:
    """Whose updates make the models: the members of clusters, and of the hardened FLIC's those that it lets contribute."""
    return list(getattr(state, "contributors", {name: c.members for name, c in state.clusters.items()}).values())


def accuracies(simulation: Simulation, attackers: frozenset[int]) -> dict[str, float | None]:
    """Mean accuracy of loyal clients (0 for one without a model), of attackers, and in clusters of loyal clients alone."""
    scores = {i: score.accuracy for i, score in simulation.evaluate().items()}
    pure = [i for group in contributing(simulation.state) if not attackers & set(group) for i in group]
    return {
        "loyal": float(np.mean([scores.get(i, 0.0) for i in simulation.population.clients if i not in attackers])),
        "attackers": float(np.mean([scores.get(i, 0.0) for i in attackers])) if attackers else None,
        "loyal_clusters": float(np.mean([scores.get(i, 0.0) for i in pure])) if pure else None,
    }


def played(value: Scenario, folder: Path | None = None) -> dict[str, Any]:
    """Play a cell: its curve, and how the clients were grouped in the end."""
    started, simulation = time.perf_counter(), Simulation(value, folder)
    attackers = frozenset() if simulation.corrupted is None else simulation.corrupted.members
    curve: list[dict[str, Any]] = []
    stopped, found = None, ()
    while simulation.state.round < value.rounds and stopped is None:
        try:
            simulation.step()
        except NothingLearned as nothing:  # all updates are beyond float32: the model stays what it is
            stopped = {"round": simulation.state.round, "why": str(nothing)}
        t = simulation.state.round
        found = next((m.communities for m in simulation.state.measured.values() if m.communities), found)
        if t % value.evaluate_every == 0 or t == value.rounds or stopped:
            curve.append({"round": t, **accuracies(simulation, attackers)})
    groups = contributing(simulation.state)
    planted = {i: int(i in attackers) for group in groups for i in group}
    loyal = [len(group) for group in groups if not attackers & set(group)]
    alone = [i for group in groups if attackers >= set(group) for i in group]
    end = [point for point in curve if point["round"] > value.rounds - LAST] or curve[-1:]
    best = [point["loyal_clusters"] for point in end if point["loyal_clusters"] is not None]
    return {
        "final": curve[-1]["loyal"],
        "best": max(point["loyal"] for point in end),
        "best_of_loyal_clusters": max(best) if best else None,
        "purity": purity(groups, planted),
        "purity_when_last_grouped": purity(found, {i: int(i in attackers) for group in found for i in group}) if found else None,
        "isolated": len(alone) / len(attackers) if attackers else None,
        "clusters": len(groups),
        "loyal_clusters": len(loyal),
        "clients_in_a_loyal_cluster": float(np.mean(loyal)) if loyal else None,
        "stopped": stopped,
        "seconds": time.perf_counter() - started,
        "curve": curve,
    }


# --- what is done -----------------------------------------------------------------------------------------------------


def done(folder: Path) -> dict[tuple[str, int, int], dict[str, Any]]:
    """The finished cells by row, column and seed."""
    found = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]
    return {(cell["row"], cell["attackers"], cell["seed"]): cell for cell in found}


def spread(values: Sequence[float | None], digits: int = 3) -> str:
    """Mean and standard deviation, and of how many where some have none."""
    there = [v for v in values if v is not None]
    if not there:
        return "-"
    text = f"{np.mean(there):.{digits}f}" + (f" +- {np.std(there):.{digits}f}" if len(there) > 1 else "")
    return text + (f" ({len(there)} of {len(values)})" if len(there) < len(values) else "")


def table(cells: Mapping[tuple[str, int, int], Mapping[str, Any]]) -> str:
    """Markdown: loyal accuracies beside the paper's, then how clients were grouped."""
    columns = [c for c in COLUMNS if any(column == c for _, column, _ in cells)]

    def of(row: str, column: int) -> list[Mapping[str, Any]]:
        return [line for (r, c, _), line in sorted(cells.items()) if (r, c) == (row, column)]

    head = "| | " + " | ".join(f"{c} attackers" if c else "no attack" for c in columns) + " |"
    lines = [head, "| --- " * (len(columns) + 1) + "|"]
    for row, title in ROWS.items():
        paper = dict(zip(COLUMNS, PAPER.get(row, [None] * len(COLUMNS)), strict=True))
        if any(paper[c] is not None for c in columns):
            said = [f"{paper[c]:.2f}" if paper[c] is not None else "" for c in columns]
            lines.append(f"| {title}, paper | {' | '.join(said)} |")
        for key, what in (("best", ""), ("best_of_loyal_clusters", ", clusters of loyal clients alone")):
            if any(of(row, c) for c in columns) and (key == "best" or row in ("flic", "loops")):
                found = [spread([line[key] for line in of(row, c)]) if of(row, c) else "" for c in columns]
                lines.append(f"| {title}, ours{what} | {' | '.join(found)} |")
    for row in ("flic", "loops", "hardened"):
        for key, what in (
            ("purity_when_last_grouped", "purity when last grouped"),
            ("purity", "purity in the end"),
            ("isolated", "share of attackers among themselves"),
            ("loyal_clusters", "loyal clusters"),
            ("clients_in_a_loyal_cluster", "clients in a loyal cluster"),
        ):
            if any(of(row, c) for c in columns if c):
                found = [spread([line[key] for line in of(row, c)], 2) if of(row, c) and c else "" for c in columns]
                lines.append(f"| {ROWS[row]}, {what} | {' | '.join(found)} |")
    clean = {seed: line["best"] for (row, _, seed), line in cells.items() if (row, line["attackers"]) == ("fedavg", 0)}
    gaps = [[line["best"] - clean[line["seed"]] for line in of("hardened", c) if line["seed"] in clean] for c in columns]
    if any(gap for gap, c in zip(gaps, columns, strict=True) if c):
        said = [f"{min(gap):+.3f} to {max(gap):+.3f}" if gap and c else "" for gap, c in zip(gaps, columns, strict=True)]
        lines.append(f"| hardened FLIC minus no attack, same seed | {' | '.join(said)} |")
    counts = [str(len({seed for _, column, seed in cells if column == c})) for c in columns]
    return "\n".join([*lines, f"| seeds | {' | '.join(counts)} |"])


def draw(scale: str, cells: Mapping[tuple[str, int, int], Mapping[str, Any]]) -> Figure:
    """Fig. 6: mean and range over seeds of the loyal clients' accuracy, a panel for each number of attackers."""
    columns = [c for c in COLUMNS if c and any(column == c for _, column, _ in cells)]
    figure = Figure(figsize=(max(3.4 * len(columns) + 0.6, 7.0), 3.7), layout="constrained", facecolor="white")
    panels = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    for axes, column in zip(panels, columns, strict=True):
        shown = [("fedavg", 0, "FedAvg, no attack", INK)] + [(row, column, title, COLOURS[row]) for row, title in ROWS.items()]
        for row, attackers, title, colour in shown:
            curves = [line["curve"] for (r, c, _), line in cells.items() if (r, c) == (row, attackers)]
            if not curves:
                continue
            rounds = np.array([point["round"] for point in max(curves, key=len)])
            values = np.array([_held(curve, rounds, "loyal") for curve in curves])
            style = (0, (1, 1.2)) if attackers == 0 else "-"
            axes.fill_between(rounds, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.16, lw=0)
            axes.plot(rounds, values.mean(axis=0), color=colour, lw=1.8, ls=style, label=title)
        axes.set_title(f"{column} of 100 attack", fontsize=11, color=INK)
        axes.set(xlabel="round", ylim=(0, 1.01), xlim=(0, SCALES[scale].rounds))
        axes.grid(axis="y", color="#e4e7eb", lw=0.8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[0].set_ylabel("accuracy of loyal clients")
    named = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(
        list(named.values()), list(named), loc="outside lower center", ncols=6 if len(columns) > 2 else 3, frameon=False
    )
    return figure


def _held(curve: Sequence[Mapping[str, Any]], rounds: np.ndarray, key: str) -> list[float]:
    """The curve at these rounds; a run that stopped stays where it was."""
    known = {point["round"]: point[key] for point in curve}
    return [known.get(int(t), curve[-1][key]) for t in rounds]


def main() -> None:
    """Run the cells that are missing, or, with --table, say and draw what is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the digits that come with scikit-learn")
    parser.add_argument("--model", choices=("mlp", "cnn"), default="mlp")
    parser.add_argument("--rows", nargs="+", choices=tuple(ROWS), default=list(ROWS))
    parser.add_argument("--columns", type=int, nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--lr", type=float, help="another step size than the scale's; kept in a file of its own")
    parser.add_argument("--table", action="store_true", help="run nothing: print the table of what is done, and draw it")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    scale = "quick" if arguments.quick else arguments.model
    name = scale if arguments.lr is None else f"{scale}_lr_{arguments.lr:g}"
    folder = arguments.out / f"{name}_cells"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [
        (row, attackers, seed)
        for seed in arguments.seeds
        for attackers in arguments.columns
        for row in arguments.rows
        if attackers or row == "fedavg"
    ]
    for row, attackers, seed in () if arguments.table else wanted:
        file = folder / f"{row}_{attackers}_seed_{seed}.json"
        if file.exists():
            continue
        value = cell(scale, row, attackers, seed)
        if arguments.lr is not None:
            value = replace(value, training=replace(value.training, lr=arguments.lr))
        found = {"row": row, "attackers": attackers, "seed": seed, **played(value)}
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(found) + "\n", encoding="utf-8")
        partial.replace(file)
        said = f"loyal {found['final']:.3f}, best of the last {LAST} rounds {found['best']:.3f}, purity {found['purity']:.2f}"
        print(f"seed {seed}, {attackers} attackers, {ROWS[row]}: {said}, {found['seconds']:.0f} s", flush=True)

    cells = done(folder)
    if not cells:
        raise SystemExit(f"{folder} holds no finished cell; leave out --table to run some")
    print(table(cells))
    if any(column for _, column, _ in cells):
        draw(scale, cells).savefig(arguments.out / f"minus_gradient_{name}.png", dpi=130)


if __name__ == "__main__":
    main()
