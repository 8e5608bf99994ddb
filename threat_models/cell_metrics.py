"""What is recorded of a cell: the metrics of a trial, beside those of the attack-free run of the same seed, as plain values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..fl.metrics import adjusted_rand_index, purity
from ..protocol.answers import Functionality
from ..protocol.disclosure import party_of, totals
from .attack_metrics import area_under_curve, course, detection, durability, loyal_clusters
from .backdoors import LearnedTarget, Target
from .trial import Clean, Trial, mean_over, success_of

NO_GROUP = -1
"""The planted group of members of an adversary, in agreement with clusters."""


def clean_metrics(trial: Trial) -> dict[str, Any]:
    """Of an attack-free run."""
    return {**_accuracy(trial, trial.accuracy), "clusters": _clusters(trial), **_price(trial), **_trouble(trial)}


def attacked_metrics(trial: Trial, clean: Clean, target: Target | LearnedTarget | None) -> dict[str, Any]:
    """Of a run under attack. Accuracies are those of the loyal clients, in the attack-free run too: of the same ones."""
    with_attack, without = _accuracy(trial, trial.accuracy), _accuracy(trial, clean.accuracy)["accuracy"]
    of = with_attack["accuracy"]
    impact = {name: without[name] - of[name] for name in ("final", "mean_last_10", "best_of_last_50")}
    return {
        "members": sorted(trial.members),
        "loyal": len(trial.loyal),
        "everybody_corrupt": len(trial.members) == len(trial.clients),
        **with_attack,
        "clean": without,
        "impact": impact,
        "success": None if target is None else _success(trial, target, clean),
        "detection": _detection(trial),
        "clusters": _clusters(trial),
        "kappa": {"mean": float(np.mean(trial.kappas)), "max": max(trial.kappas)} if trial.kappas else None,
        **_price(trial),
        **_trouble(trial),
    }


def _accuracy(trial: Trial, accuracy: Any) -> dict[str, Any]:
    means = mean_over(accuracy, trial.clients, trial.loyal)
    places = {client: k for k, client in enumerate(trial.clients)}
    last = {i: float(accuracy[-1, places[i]]) for i in trial.loyal}
    measured = {i: a for i, a in last.items() if np.isfinite(a)}
    worst = min(measured, key=lambda i: measured[i], default=None)
    of = asdict(course([float(a) for a in means[np.isfinite(means)]]))
    of |= {"worst": None if worst is None else measured[worst], "worst_client": worst}
    return {"accuracy": of, "rounds": trial.rounds, "course": [float(a) for a in means]}


def _success(trial: Trial, target: Target | LearnedTarget, clean: Clean) -> dict[str, Any]:
    """The backdoor's rate without the target class, with the attack-free model's beside it."""
    found = success_of(trial, target, clean)
    worst = max(found.of, key=lambda i: found.of[i])
    lasting = durability(trial.success, min(trial.success)) if trial.success else None
    return {
        "mean": found.mean,
        "worst": found.worst,
        "worst_client": worst,
        "of": {str(i): rate for i, rate in found.of.items()},
        "clean_mean": found.clean_mean,
        "clean_worst": None if found.clean is None else max(found.clean.values()),
        "measured_after": sorted(trial.success),
        "durability": lasting,
    }


def _detection(trial: Trial) -> dict[str, Any] | None:
    """Flags are weights of 0, in the rounds under attack; or, where no weights are known, clients outside the largest cluster.

    None where everybody or nobody is corrupt, where a rule shows neither, and for clusters where loyal clients are planted in
    several groups, which ought to be apart.
    """
    members = trial.members
    if not members or len(members) == len(trial.clients):
        return None
    if trial.weights:
        return _detection_by_weights(trial)
    clusters = _groups(trial)
    groups = {g for i, g in trial.simulation.population.groups.items() if i not in members}
    compares = Functionality.GRAM in trial.simulation.scenario.algorithm.needs
    if len(groups) > 1 or not (compares or len(clusters) > 1):
        return None
    largest = max(clusters, key=len)
    placed = {i for c in clusters for i in c}
    found = detection(placed - set(largest), members & placed, placed)
    suspicion = {i: -float(len(c)) for c in clusters for i in c}
    return _flags(found, suspicion, members, "outside of the largest cluster")


def _detection_by_weights(trial: Trial) -> dict[str, Any] | None:
    hits = {True: 0, False: 0}
    seen = {True: 0, False: 0}
    shares: dict[int, list[float]] = {}
    for weights in trial.weights:
        total = sum(weights.values()) or 1.0
        for client, weight in weights.items():
            member = client in trial.members
            seen[member] += 1
            hits[member] += weight == 0
            shares.setdefault(client, []).append(weight * len(weights) / total)
    lost = [i for i, share in shares.items() if i not in trial.members and not any(share)]
    suspicion = {i: -float(np.mean(share)) for i, share in shares.items()}
    return {
        "by": "weight 0",
        "tpr": hits[True] / seen[True] if seen[True] else None,
        "fpr": hits[False] / seen[False] if seen[False] else None,
        "auc": _area(suspicion, trial.members),
        "loyal_lost": sorted(lost),
    }


def _flags(found: Any, suspicion: Mapping[int, float], members: Iterable[int], by: str) -> dict[str, Any]:
    return {
        "by": by,
        "tpr": found.true_positive_rate,
        "fpr": found.false_positive_rate,
        "auc": _area(suspicion, frozenset(members)),
        "loyal_lost": list(found.loyal_lost),
    }


def _area(suspicion: Mapping[int, float], members: frozenset[int]) -> float | None:
    bad = members & suspicion.keys()
    return area_under_curve(suspicion, bad) if 0 < len(bad) < len(suspicion) else None


def _clusters(trial: Trial) -> dict[str, Any]:
    """Agreement of the clusters with the planted groups, members of the adversary being a group of their own."""
    clusters = _groups(trial)
    placed = {i for c in clusters for i in c}
    groups = trial.simulation.population.groups
    planted = {i: NO_GROUP if i in trial.members else groups[i] for i in placed}
    loyal = loyal_clusters(clusters, trial.members & placed, placed)
    return {
        "count": len(clusters),
        "loyal": loyal.count,
        "loyal_mean_size": loyal.mean_size,
        "loyal_lost": len(set(loyal.lost) - trial.members),
        "purity": purity(clusters, planted),
        "ari": adjusted_rand_index(clusters, planted),
        "unplaced": len(trial.clients) - len(placed),
    }


def _groups(trial: Trial) -> Sequence[tuple[int, ...]]:
    """The clusters at the end: of those who contribute, where the state tells them from those who are served.

    A client that contributes to none is one of its own.
    """
    state: Any = trial.simulation.state
    clusters = [tuple(c.members) for c in state.clusters.values()]
    contributors: Mapping[str, tuple[int, ...]] | None = getattr(state, "contributors", None)
    if contributors is None:
        return clusters
    inside = [tuple(c) for c in contributors.values() if c]
    apart = {i for c in clusters for i in c} - {i for c in inside for i in c}
    return [*inside, *((i,) for i in sorted(apart))]


def _price(trial: Trial) -> dict[str, Any]:
    """What the run cost and who learned what. seconds, server_ms: of CPU on this machine, and so the only values that vary.

    server_ms: per round, of servers and rule together, without the clients' work and protocol.
    """
    view, rounds = trial.simulation.view, max(1, trial.simulation.state.round)
    parties = totals(view.log, map(party_of, view.costs))
    learned = {party: [_learned(row) for row in rows] for party, rows in parties.items()}
    return {
        "bytes_up": view.traffic.bytes_up,
        "bytes_down": view.traffic.bytes_down,
        "learned": learned,
        "cost": {"seconds": trial.seconds, "server_ms": 1000 * trial.server / rounds},
    }


def _learned(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in ("what", "words", "scalars", "bytes", "times")}


def _trouble(trial: Trial) -> dict[str, Any]:
    rejected = [fault.blame for fault in trial.simulation.view.faults if fault.rejected]
    return {
        "rejected": {
            "loyal": sum(i not in trial.members for i in rejected),
            "members": sum(i in trial.members for i in rejected),
        },
        "unmoved": {"rounds": trial.unmoved[0], "reason": trial.unmoved[1]} if trial.unmoved[0] else None,
        "lost": {"rounds": trial.lost[0], "reason": trial.lost[1]} if trial.lost[0] else None,
    }
