"""How well a defence told members from loyal clients: what it rejected, what it gave no weight, or whom it put aside."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .attack_metrics import area_under_curve, detection
from .trial import Judged, Trial


def detected(trial: Trial, clusters: Sequence[tuple[int, ...]]) -> dict[str, Any] | None:
    """Flags against members. A vector that the protocol rejected is a flag; so is a weight of 0, in the rounds under attack.

    Of a defence that gives no weights, who is outside of the loyal clients' cluster is flagged: of the one that holds
    most of them (the one with fewer members if two hold as many), whether members are a minority or the majority there or
    anywhere. So members are found as far as they are apart from most of the loyal clients, and a loyal client that is apart from
    those is a false alarm. Which cluster that is only an evaluation knows: where members outnumber the loyal, a server that sees
    them apart cannot tell which side is which.
    None where nobody was judged: no rule had a result and nothing was rejected, everybody or nobody is corrupt, or loyal clients
    are planted in several groups, which ought to be apart.
    """
    members = trial.members
    if not members:
        return None
    compares = any(need.value.startswith("gram") for need in trial.simulation.scenario.algorithm.needs)
    if not hasattr(trial.simulation.state, "outcome") and (compares or len(clusters) > 1):
        groups = {g for i, g in trial.simulation.population.groups.items() if i not in members}
        return _by_clusters(trial, clusters) if len(groups) == 1 else None
    return _by_rounds(trial)


def _by_rounds(trial: Trial) -> dict[str, Any] | None:
    """By the members of each round; the curve is of clients' mean shares, of a client apart as member and as loyal client."""
    hits = {True: 0, False: 0}
    seen = {True: 0, False: 0}
    shares: dict[tuple[int, bool], list[float]] = {}
    for one in trial.judged:
        weights = _weights(one)
        total = sum(weights.values()) or 1.0
        for client, weight in weights.items():
            member = client in one.members
            seen[member] += 1
            hits[member] += weight == 0
            shares.setdefault((client, member), []).append(weight * len(weights) / total)
    if not seen[False] or not sum(seen.values()):
        return None
    suspicion = {key: -float(np.mean(share)) for key, share in shares.items()}
    lost = [i for (i, member), share in shares.items() if not member and i not in trial.members and not any(share)]
    return {
        "by": "weight 0 or rejected" if any(one.weights for one in trial.judged) else "rejected",
        "tpr": hits[True] / seen[True] if seen[True] else None,
        "fpr": hits[False] / seen[False],
        "auc": _area([*suspicion.values()], [member for _, member in suspicion]),
        "loyal_lost": sorted(lost),
    }


def _weights(one: Judged) -> Mapping[int, float]:
    """What a round gave to whom, 0 for who was rejected in it; empty where nobody was judged."""
    given = one.weights or (dict.fromkeys(sorted(one.clients), 1.0) if one.rejected else {})
    return {**given, **dict.fromkeys(sorted(one.rejected), 0.0)} if given else {}


def _by_clusters(trial: Trial, clusters: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """The curve is of how many loyal clients a client is with; a cluster with only one of them is as one without, since a client
    that is alone looks the same whoever it is.
    """
    rejected = {i for i, _ in trial.rejected}
    placed = {i for c in clusters for i in c} | rejected
    loyal = [len(set(c) - trial.members) for c in clusters]
    home = max(range(len(clusters)), key=lambda k: (loyal[k], -len(clusters[k])), default=None)
    inside = set() if home is None else set(clusters[home])
    found = detection((placed - inside) | rejected, trial.members & placed, placed)
    suspicion = dict.fromkeys(sorted(rejected), 1.0)
    for cluster, count in zip(clusters, loyal, strict=True):
        suspicion |= {i: -float(count if count > 1 else 0) for i in cluster if i not in rejected}
    return {
        "by": "outside of the loyal clients' cluster" + (" or rejected" if rejected else ""),
        "tpr": found.true_positive_rate,
        "fpr": found.false_positive_rate,
        "auc": _area([*suspicion.values()], [i in trial.members for i in suspicion]),
        "loyal_lost": list(found.loyal_lost),
    }


def _area(suspicion: Sequence[float], member: Sequence[bool]) -> float | None:
    bad = {k for k, of in enumerate(member) if of}
    return area_under_curve(dict(enumerate(suspicion)), bad) if 0 < len(bad) < len(member) else None
