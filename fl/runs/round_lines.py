"""What is written of a round: its metrics, the similarities among which groups were looked for, and splits."""

from collections.abc import Iterable, Iterator, Mapping
from math import isnan
from typing import Any

import numpy as np

from ...protocol.core.errors import Fault
from ..algorithms.algorithm import Measured, State
from ..clustering.separation import separation_gap
from .alone import on_their_own
from .evaluation import ModelScore
from .simulation import Simulation
from .verdicts import agreement


def fault_lines(t: int, faults: Iterable[Fault]) -> list[dict[str, Any]]:
    """Of faults.jsonl."""
    return [{"round": t, "client": f.blame, **f.as_dict()} for f in faults]


def metrics(simulation: Simulation, t: int, evaluated: Mapping[int, ModelScore] | None) -> dict[str, Any]:
    state: State = simulation.state
    groups = simulation.population.groups
    line: dict[str, Any] = {
        "round": t,
        "clusters": {name: list(c.members) for name, c in sorted(simulation.clusters.items())},
        "norms": {name: _norms(m) for name, m in state.measured.items()},
        "gap": {
            name: separation_gap(m.similarity, [groups[i] for i in m.clients])
            for name, m in state.measured.items()
            if groups and m.similarity is not None and len(m.clients) > 1
        },
        "detected": {name: _detected(m, groups) for name, m in state.measured.items() if m.communities},
        "left_out": {str(i): reason for m in state.measured.values() for i, reason in m.left_out.items()},
    }
    turned_down = {name: m.turned_down for name, m in state.measured.items() if m.turned_down}
    line |= {"turned_down": turned_down} if turned_down else {}
    alone = on_their_own(state.clusters)
    line |= {"alone": list(alone)} if alone else {}
    outcome: Any = getattr(state, "outcome", None)  # of a robust rule
    line |= {"unmoved": outcome.unmoved} if outcome is not None and outcome.unmoved else {}
    return line if evaluated is None else line | scores(evaluated)


def _norms(measured: Measured) -> dict[str, float]:
    """What is known of the norms of a round: of the mean update, of the longest, and their root mean square."""
    known = {"mean": measured.mean, "max": measured.largest, "rms": measured.rms}
    return {key: value for key, value in known.items() if value is not None}


def scores(evaluated: Mapping[int, ModelScore]) -> dict[str, Any]:
    known = {i: score.accuracy for i, score in evaluated.items() if not isnan(score.accuracy)}
    accuracies = list(known.values())  # none where targets are numbers, or clients are asked, and nobody says
    names = dict.fromkeys(name for score in evaluated.values() for name in score.measures)
    measured = {name: {str(i): score.measures.get(name) for i, score in evaluated.items()} for name in names}
    return {
        "accuracy": {str(i): accuracy for i, accuracy in known.items()},
        "loss": {str(i): score.loss for i, score in evaluated.items()},
        **({"metrics": measured} if measured else {}),
        "accuracy_mean": float(np.mean(accuracies)) if accuracies else None,
        "accuracy_worst": float(np.min(accuracies)) if accuracies else None,
    }


def _detected(measured: Measured, groups: Mapping[int, int]) -> dict[str, Any]:
    """Communities that were looked for in a round, and how they agree with the planted groups."""
    return {"communities": [list(c) for c in measured.communities], **agreement(measured.communities, groups)}


def similarities(simulation: Simulation, t: int, evaluated: bool) -> Iterator[dict[str, Any]]:
    """The cosines among which communities were looked for, in evaluated rounds and when they became clusters; null: not known."""
    for name, measured in sorted(simulation.state.measured.items()):
        similarity = measured.similarity
        if similarity is not None and measured.communities and (evaluated or name not in simulation.state.clusters):
            known = np.ones_like(similarity, np.bool_) if measured.known is None else measured.known
            rows = [
                [round(float(a), 4) if there else None for a, there in zip(*row, strict=True)]
                for row in zip(similarity, known, strict=True)
            ]
            about = {"about": "mean"} if measured.centred else {}
            yield {"round": t, "cluster": name, "clients": list(measured.clients), **about, "similarity": rows}


def splits(simulation: Simulation, t: int) -> Iterator[dict[str, Any]]:
    groups = simulation.population.groups
    for name, measured in sorted(simulation.state.measured.items()):
        if measured.split is None or measured.similarity is None:
            continue
        node = simulation.state.tree[name]
        yield {
            "round": t,
            "cluster": name,
            "clients": list(measured.clients),
            **({"about": "mean"} if measured.centred else {}),
            "similarity": [[round(float(a), 6) for a in row] for row in measured.similarity],
            "children": dict(zip(node.children, (list(measured.split.left), list(measured.split.right)), strict=True)),
            "cross": measured.split.cross,
            "gamma": float(np.sqrt(max(0.0, (1 - measured.split.cross) / 2))),
            "gap": separation_gap(measured.similarity, [groups[i] for i in measured.clients]) if groups else None,
        }
