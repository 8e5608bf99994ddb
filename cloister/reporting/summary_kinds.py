"""Whether a run's summary has what it is read for: numbers, texts, lists and objects where these are to be, at every depth."""

from collections.abc import Mapping
from typing import Any

NUMBER, TEXT, NAME = "number", "text", "number or text"
EACH = "*"
"""Of an object with keys of any name: what each of them has."""
WRITTEN = ("nan", "inf", "-inf")
"""Numbers that are words in JSON."""
LOST = {"round": NUMBER, "client": NUMBER, "reason": TEXT}
METER = {"largest": NUMBER, "mean": NUMBER, "client": NUMBER}
ANSWER = {"what": TEXT, "words": TEXT, "times": NUMBER, "scalars": NUMBER, "bytes": NUMBER}
SPENT = {
    **dict.fromkeys(("budget", "delta", "epsilon_worst", "epsilon_mean", "worst_client"), NUMBER),
    **dict.fromkeys(("adjacency", "accountant", "of", "beside"), TEXT),
    **{key: [TEXT] for key in ("acknowledged", "not_covered")},
}
SHAPES: Mapping[str, Any] = {
    **dict.fromkeys(("name", "algorithm", "protection", "data", "metric", "nothing_summed"), TEXT),
    **dict.fromkeys(("rounds", "seed", "accuracy_mean", "accuracy_worst", "accuracy_before_clustering"), NUMBER),
    **dict.fromkeys(("loss_mean", "ari", "purity", "purity_majority", "groups_isolated", "seconds", "faults"), NUMBER),
    **dict.fromkeys(("bytes_up", "bytes_down"), NUMBER),
    **{key: [NUMBER] for key in ("corrupt", "not_finite", "apart", "unplaced", "fell_back")},
    **{key: {EACH: NUMBER} for key in ("diverged", "stopped", "scored", "compared", "silhouette")},
    "clusters": [[NUMBER]],
    "groups": {EACH: NAME},
    "names": {EACH: TEXT},
    "metrics": {EACH: {EACH: NUMBER, "less_is_better": None}},
    "disclosed": {EACH: [ANSWER]},
    "rejected": [LOST],
    "below_floor": [{"round": NUMBER, "cluster": TEXT, "members": [NUMBER]}],
    "turned_down": [{"round": NUMBER, "turned_down": {EACH: TEXT}}],
    "unmoved": {"rounds": NUMBER, "reason": TEXT},
    "doubts": [TEXT],
    "conditions": [{"words": TEXT}],
    "ran_out": {"clients": [NUMBER], "round": NUMBER},
    "under_attack": {**dict.fromkeys(("corrupt", "of", "accuracy_loyal", "evaluations"), NUMBER), "by": [TEXT]},
    "account": {
        **dict.fromkeys(("span", "temporal", "leverage", "information"), METER),
        **dict.fromkeys(("grams", "numbers", "pairs", "missing", "watched", "clients", "width", "rho"), NUMBER),
        **{key: [TEXT] for key in ("opened_by", "uncovered")},
        "with_a_client": TEXT,
    },
    "privacy": {EACH: SPENT},
    "yardsticks": {
        **dict.fromkeys(("stability", "least_stability", "own", "one_model", "alone"), NUMBER),
        "seeds": [NUMBER],
        "gains": {EACH: NUMBER},
        "metric": TEXT,
    },
}
"""What is read of a summary, by name: a number, a text, a list of one kind, or an object of named kinds."""


def wrong_kind(summary: Mapping[str, Any]) -> str:
    """What of a summary is of another kind than every run writes it, in words; empty where all is. None stands for nothing known.

    Names of later versions are passed over.
    """
    return next((wrong for name, kind in SHAPES.items() if (wrong := _wrong(summary.get(name), kind, name))), "")


def _wrong(value: Any, kind: Any, where: str) -> str:
    """where: its path from the top, as `clusters[2]`."""
    if value is None:
        return ""
    if isinstance(kind, list):
        if not isinstance(value, list):
            return f"{where} is {value!r}, where a list is to be"
        return next((wrong for k, one in enumerate(value) if (wrong := _wrong(one, kind[0], f"{where}[{k}]"))), "")
    if isinstance(kind, dict):
        if not isinstance(value, dict):
            return f"{where} is {value!r}, where an object is to be"
        parts = ((f"{where}.{name}", one, kind.get(name, kind.get(EACH))) for name, one in value.items())
        return next((wrong for at, one, of in parts if of is not None and (wrong := _wrong(one, of, at))), "")
    if kind == NAME and isinstance(value, str):
        return ""
    if kind == TEXT:
        return "" if isinstance(value, str) else f"{where} is {value!r}, where a text is to be"
    is_number = (isinstance(value, int | float) and not isinstance(value, bool)) or (isinstance(value, str) and value in WRITTEN)
    return "" if is_number else f"{where} is {value!r}, where a number is to be"
