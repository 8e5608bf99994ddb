"""Writes a run folder as training leaves it behind, with invented numbers of a realistic shape."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the invented run looks like: `groups` planted groups dealt in turn to `clients` ids, at most `splits` splits."""

    clients: int = 12
    groups: int = 3
    rounds: int = 48
    splits: int = 99
    name: str = "CFL on rotated digits"
    metric: str = "accuracy"
    interrupted: bool = False
    trouble: bool = False
    holes: bool = False
    seed: int = 7


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    parent: str | None
    members: list[int]
    born: int


def write_sample(folder: Path, sample: Sample) -> Path:
    """Writes the files of the run `sample` into `folder`, which is made when missing, and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(sample.seed)
    group = {i: i % sample.groups for i in range(sample.clients)}
    nodes, splits = grow(sample, group, rng)
    rounds = train(sample, group, nodes, splits, rng)
    answers = [answer for line in rounds for answer in disclose(line, sample.clients)]
    write_lines(folder / "metrics.jsonl", rounds)
    write_lines(folder / "splits.jsonl", splits)
    write_lines(folder / "disclosure.jsonl", answers)
    write(folder / "scenario.json", scenario(sample))
    if sample.interrupted:
        with (folder / "metrics.jsonl").open("a") as out:
            out.write('{"round": 99, "seco')
        return folder
    parents = {split["cluster"] for split in splits}
    last = rounds[-1]["accuracy"]
    tree = [
        {
            "name": n.name,
            "parent": n.parent,
            "members": n.members,
            "born": n.born,
            "accuracy": mean([last[str(i)] for i in n.members]) if n.name not in parents else None,
            "leaf": n.name not in parents,
        }
        for n in nodes
    ]
    write(folder / "tree.json", tree)
    write(folder / "summary.json", summary(sample, group, rounds, splits, answers))
    return folder


def grow(sample: Sample, group: dict[int, int], rng: np.random.Generator) -> tuple[list[Node], list[dict[str, Any]]]:
    """Splits mixed clusters at evenly spaced rounds, oldest first, each time between the planted groups."""
    nodes = [Node("0", None, sorted(group), 0)]
    splits: list[dict[str, Any]] = []
    queue = [nodes[0]]
    step = max(1, sample.rounds // (min(sample.splits, sample.groups - 1) + 2))
    axes = rng.normal(size=(sample.groups, 64))
    while queue and len(splits) < sample.splits and step * (len(splits) + 1) <= sample.rounds:
        node = queue.pop(0)
        present = sorted({group[i] for i in node.members})
        if len(present) < 2:
            continue
        born = step * (len(splits) + 1)
        first = set(present[: (len(present) + 1) // 2])
        halves = [[i for i in node.members if (group[i] in first) is side] for side in (True, False)]
        updates = np.stack([axes[group[i]] + (group[i] in first) * axes[present[0]] for i in node.members])
        updates = updates - 0.45 * updates.mean(axis=0) + rng.normal(scale=0.55, size=updates.shape)
        updates /= np.linalg.norm(updates, axis=1, keepdims=True)
        similarity = np.clip(updates @ updates.T, -1, 1).round(4)
        rows = {i: r for r, i in enumerate(node.members)}
        cross = similarity[np.ix_([rows[i] for i in halves[0]], [rows[i] for i in halves[1]])].max()
        children = [Node(node.name + digit, node.name, half, born) for digit, half in zip("01", halves, strict=True)]
        splits.append(
            {
                "round": born,
                "cluster": node.name,
                "clients": node.members,
                "similarity": similarity.tolist(),
                "children": {child.name: child.members for child in children},
                "cross": float(cross),
                "gap": 0.31,
                "gamma": round(math.sqrt((1 - max(cross, 0)) / 2), 4),
            }
        )
        nodes += children
        queue += children
    return nodes, splits


def train(
    sample: Sample, group: dict[int, int], nodes: list[Node], splits: list[dict[str, Any]], rng: np.random.Generator
) -> list[dict[str, Any]]:
    """One line a round: accuracy climbs to a plateau that is higher the fewer planted groups share a model."""
    level = dict.fromkeys(group, 0.1)
    talent = {i: rng.normal(scale=0.02) for i in group}
    ended = {split["cluster"]: split["round"] for split in splits}
    lines = []
    for r in range(1, sample.rounds + 1):
        alive = [n for n in nodes if n.born < r and ended.get(n.name, sample.rounds) >= r]
        norms = {}
        for n in alive:
            mixed = len({group[i] for i in n.members})
            age = r - n.born
            for i in n.members:
                target = 0.97 - 0.42 * (1 - 1 / mixed) + talent[i]
                level[i] += 0.14 * (target - level[i]) + rng.normal(scale=0.006)
            norms[n.name] = {"mean": 1.4 * math.exp(-0.22 * age) + 0.02, "max": 1.9 * math.exp(-0.05 * age * (mixed < 2)) + 0.1}
        accuracy: dict[str, float | None] = {str(i): round(min(v, 1.0), 4) for i, v in level.items()}
        if sample.holes:
            accuracy["0"] = None if r % 3 else math.nan
        lines.append(
            {
                "round": r,
                "seconds": 1.7,
                "clusters": {n.name: n.members for n in alive},
                "accuracy": accuracy,
                "loss": {str(i): round(4.6 - 2.8 * v, 4) for i, v in level.items()},
                "accuracy_mean": mean(list(accuracy.values())),
                "accuracy_worst": min(v for v in level.values()),
                "norms": norms,
                "bytes_up": sample.clients * 318_000 + (40_000 if r in ended.values() else 0),
                "bytes_down": sample.clients * 318_000 * (1 + len(alive) // 4),
            }
        )
    return lines


def disclose(line: dict[str, Any], clients: int) -> list[dict[str, Any]]:
    """The answers of one round: a Gram matrix and one sum a cluster to the server, one model to every client."""
    size, everyone = 39_760, list(range(clients))
    gram = {"what": "gram", "about": everyone, "scalars": clients * (clients + 1) // 2}
    gram["words"] = "the inner products of all pairs of updates, after a secret projection"
    answers = [{"recipient": "server", **gram}] if line["round"] % 4 == 0 else []
    for members in line["clusters"].values():
        words = "the sum of the updates of each cluster"
        answers.append({"recipient": "server", "what": "sums", "about": members, "scalars": size, "words": words})
    words = "the mean update of the cluster that the client is in"
    answers.append({"recipient": "clients", "what": "mean", "about": everyone, "scalars": size, "words": words})
    return [{"round": line["round"], **answer, "bytes": 8 * answer["scalars"]} for answer in answers]


def summary(
    sample: Sample,
    group: dict[int, int],
    rounds: list[dict[str, Any]],
    splits: list[dict[str, Any]],
    answers: list[dict[str, Any]],
) -> dict[str, Any]:
    """summary.json, with keys that a later version might add."""
    totals: dict[str, dict[str, dict[str, Any]]] = {"server": {}, "clients": {}}
    for a in answers:
        entry = {"what": a["what"], "words": a["words"], "scalars": 0, "bytes": 0, "times": 0}
        row = totals[a["recipient"]].setdefault(a["what"], entry)
        row["scalars"], row["bytes"], row["times"] = row["scalars"] + a["scalars"], row["bytes"] + a["bytes"], row["times"] + 1
    last, first_split = rounds[-1], splits[0]["round"] if splits else sample.rounds
    clusters = list(last["clusters"].values())
    right = sum(max(sum(group[i] == g for i in c) for g in group.values()) for c in clusters)
    purity = right / sample.clients
    return {
        "name": sample.name,
        "algorithm": "CFL",
        "protection": "Masked(floor=2, tolerance=1)",
        "data": "digits, rotated by 0, 90, 180 degrees",
        "seed": sample.seed,
        "metric": sample.metric,
        "rounds": sample.rounds,
        "seconds": 1.7 * sample.rounds,
        "accuracy_mean": last["accuracy_mean"],
        "accuracy_worst": last["accuracy_worst"],
        "accuracy_before_clustering": rounds[first_split - 1]["accuracy_mean"],
        "clusters": clusters,
        "groups": {str(i): g for i, g in group.items()},
        "ari": 1.0 if purity == 1 else 0.42,
        "purity": purity,
        "bytes_up": sum(line["bytes_up"] for line in rounds),
        "bytes_down": sum(line["bytes_down"] for line in rounds),
        "disclosed": {party: list(rows.values()) for party, rows in totals.items()},
        "rejected": [{"round": 5, "client": 3, "reason": "an update that is not finite"}] if sample.trouble else [],
        "below_floor": [{"round": 9, "cluster": "01", "members": [4]}] if sample.trouble else [],
        "fell_back": [4] if sample.trouble else [],
        "versions": {"cloister": "0.1.0", "torch": "2.13.0", "python": "3.12.4"},
        "machine": {"processor": "x86_64", "cores": 2, "memory": 8_200_000_000},
        "a_key_of_a_later_version": {"nested": [1, 2, {"three": None}]},
    }


def scenario(sample: Sample) -> dict[str, Any]:
    """scenario.json: resolved fields, nested."""
    return {
        "name": sample.name,
        "seed": sample.seed,
        "rounds": sample.rounds,
        "algorithm": {"kind": "CFL", "eps1": 0.4, "eps2": 1.6, "gamma_max": 0.9},
        "training": {"lr": 0.1, "epochs": 1, "batch": 32, "momentum": 0.0},
        "protection": {"kind": "Masked", "floor": 2, "tolerance": 1, "sketch": {"rows": 256, "bits": 40}},
        "data": {"source": "digits", "partition": "rotated", "angles": [0, 90, 180]},
    }


def mean(values: list[float | None]) -> float | None:
    """The mean of the finite values, or None."""
    finite = [v for v in values if v is not None and math.isfinite(v)]
    return sum(finite) / len(finite) if finite else None


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1))


def write_lines(path: Path, values: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


USUAL = Sample()
SAMPLES = {
    "usual": USUAL,
    "tiny": replace(USUAL, clients=2, groups=1, rounds=1, splits=0),
    "unsplit": replace(USUAL, splits=0),
    "large": replace(USUAL, clients=500, groups=4, rounds=60),
    "many": replace(USUAL, clients=93, groups=31, rounds=90),
    "words": replace(USUAL, metric="perplexity", name="Language model on four topics", groups=4, clients=16),
    "cut": replace(USUAL, interrupted=True),
    "trouble": replace(USUAL, trouble=True, holes=True),
}
