"""What is said of a round and of a run's end in numbers: means over clients, agreement of clusters, how clear they are."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np
from torch import Tensor

from ..clients.measures import LOWER
from .metrics import adjusted_rand_index, isolated, majority_purity, purity, silhouette
from .run_folder import RunFolder


def numbers_of(line: Mapping[str, Any], clusters: int) -> dict[str, float]:
    """What a watcher is told of a round's line."""
    named = ("accuracy_mean", "accuracy_worst", "bytes_up", "bytes_down", "seconds")
    found: dict[str, Any] = {"clusters": clusters, **{name: line.get(name) for name in named}}
    found["loss_mean"] = _mean((line.get("loss") or {}).values())
    found |= {name: _mean(of.values()) for name, of in (line.get("metrics") or {}).items()}
    found |= {f"epsilon {unit}": value for unit, value in (line.get("epsilon") or {}).items()}
    return {name: float(value) for name, value in found.items() if value is not None and isfinite(value)}


def _mean(values: Iterable[float | None]) -> float | None:
    """Of what is defined."""
    known = [v for v in values if v is not None and isfinite(v)]
    return float(np.mean(known)) if known else None


def agreement(clusters: Sequence[Sequence[int]], groups: Mapping[int, int]) -> dict[str, float | None]:
    """With the planted groups; None where nobody planted any, or no client's cluster is known, or that of one of several clients
    alone, which agrees with all groups. purity: as FLIC defines it; purity_majority: the standard one.

    groups_isolated: planted groups that share no cluster with another.
    """
    planted = {i: groups[i] for members in clusters for i in members} if groups else {}
    if len(planted) < min(2, max(1, len(groups))):
        return dict.fromkeys(("ari", "purity", "purity_majority", "groups_isolated"))
    return {
        "ari": adjusted_rand_index(clusters, planted),
        "purity": purity(clusters, planted),
        "purity_majority": majority_purity(clusters, planted),
        "groups_isolated": isolated(clusters, planted),
    }


def clearness(clusters: Sequence[Sequence[int]], folder: RunFolder) -> dict[str, Any]:
    """How clear the clusters at the end are by the similarities of most clients that the server saw, of the latest if several."""
    seen = [*folder.read("splits.jsonl"), *folder.read("similarities.jsonl")]
    most = max(seen, key=lambda line: (len(line["clients"]), line["round"]), default=None)
    value = None if most is None else silhouette(clusters, most["clients"], most["similarity"])
    if most is None or value is None:
        return {}
    return {"silhouette": {"value": value, "round": most["round"], "clients": len(most["clients"])}}


def metric_of(targets: Tensor, line: Mapping[str, Any]) -> str:
    """What a run is measured by first of all: accuracy of labels, perplexity of tokens, the first metric of numbers."""
    if targets.is_floating_point():
        return str(next(iter(line["metrics"])))
    return "perplexity" if targets.ndim == 2 else "accuracy"


def over_clients(
    metrics: Mapping[str, Mapping[str, float | None]], directions: Mapping[str, bool | None]
) -> dict[str, dict[str, Any]]:
    """Of each metric the mean over clients for which it is defined, the worst of them, and how many they are.

    directions: of functions, whether less is better; where nobody knows, there is no worst, but the least and the most.
    """
    found = {}
    for name, of in metrics.items():
        known = [v for v in of.values() if v is not None and isfinite(v)]
        least, most, less = min(known, default=None), max(known, default=None), directions.get(name, name in LOWER)
        said = {"least": least, "most": most} if less is None else {}
        worst = None if less is None else most if less else least
        found[name] = {"mean": _mean(known), "worst": worst, "clients": len(known), "less_is_better": less, **said}
    return found
