"""Pictures of a run for a notebook or a paper, as figures of matplotlib."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .picture import Picture
from .reporting.panels import cluster_lines
from .reporting.run_data import Run, hue_of_groups, number, scores

METERS = {
    "span": "single updates",
    "temporal": "habits over rounds",
    "leverage": "taking part",
    "information": "taking part, told apart",
}
"""Of an account, as the report calls them."""

NAMED, NARROW = 40, 3
"""Most clients whose names fit beside a matrix, and letters of a name that fit below a column as they are."""


def picture(run: Run, what: str) -> Figure:
    """See `Result.plot`."""
    kinds = {"accuracy": _accuracy, "similarity": _similarity, "traffic": _traffic, "leakage": _leakage}
    if what not in kinds:
        raise ValueError(f"there is no picture of {what!r}; there are: {', '.join(kinds)}")
    figure = Picture(figsize=(7.2, 4.0), layout="constrained")
    kinds[what](run, figure.subplots())
    return figure


def _accuracy(run: Run, axes: Any) -> None:
    for line in cluster_lines(run, scores, hue_of_groups(run)):
        axes.plot(line.x, line.y, label=line.name)
    for split in run.splits:
        axes.axvline(split["round"], color="0.8", linewidth=1, zorder=0)
    axes.set(xlabel="round", ylabel=f"{run.scale} (mean of a cluster's clients)", title=str(run.summary.get("name", "")))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, title="cluster")


def _similarity(run: Run, axes: Any) -> None:
    known = [*run.similarities, *run.splits]
    if not known:
        raise ValueError("this run has no similarities: nothing was split or grouped by them")
    last = max(known, key=lambda line: line["round"])
    order = sorted(range(len(last["clients"])), key=lambda k: (run.kin.get(str(last["clients"][k]), ""), last["clients"][k]))
    matrix = np.array(last["similarity"], np.float64)[np.ix_(order, order)]
    shown = axes.imshow(matrix, vmin=-1, vmax=1, cmap="RdBu")
    names = [run.name_of(last["clients"][k]) for k in order]
    if len(names) <= NAMED:
        wide = max(map(len, names)) > NARROW
        axes.set_xticks(range(len(names)), names, fontsize=7, rotation=90 if wide else 0)
        axes.set_yticks(range(len(names)), names, fontsize=7)
    of = "updates less their mean" if last.get("about") == "mean" else "updates"
    axes.set(xlabel=f"client, by {run.kind}", ylabel="client", title=f"cosine similarity of {of}, round {last['round']}")
    axes.figure.colorbar(shown, label="1: the same direction, -1: opposite")


def _traffic(run: Run, axes: Any) -> None:
    rounds = [line["round"] for line in run.rounds]
    for key, words in (("bytes_up", "sent by clients"), ("bytes_down", "received by clients")):
        axes.plot(rounds, np.cumsum([line[key] for line in run.rounds]) / 1e6, label=words)
    axes.set(xlabel="round", ylabel="megabytes so far", title="traffic")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False)


def _leakage(run: Run, axes: Any) -> None:
    account = run.summary.get("account")
    if not account:
        raise ValueError("the server sees every update in this run: there is nothing to piece together")
    known = {label: number(account[key].get("largest")) for key, label in METERS.items() if isinstance(account.get(key), dict)}
    axes.barh([*known][::-1], [*known.values()][::-1])
    axes.set(xlim=(0, 1), xlabel="of the client of whom most is known; 0: nothing, 1: everything", title="pieced together")
