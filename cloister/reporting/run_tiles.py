"""The numbers of a run's headline: how well it predicts, for whom worst, which groups, what was sent, how long it took."""

import math
from collections.abc import Mapping, Sequence

from .agreement import agreement_in_words, over_some
from .byte_words import byte_words
from .headings import Tile
from .headline import MADE_OWN
from .on_their_own import on_their_own
from .panels import has_clusters, looks_for_splits
from .run_data import (
    DASH,
    Run,
    average,
    final_clusters,
    is_served,
    number,
    round_before,
    score_words,
    scores,
    time_words,
    total,
    was_scored,
    worst,
)
from .who_chose import in_slots

UNKNOWN = "which way is better, the metric does not say"


def tiles(run: Run, final: Mapping[str, Sequence[str]]) -> list[Tile]:
    """The numbers of the headline."""
    last = scores(run, run.rounds[-1]) if run.rounds else {}
    before = scores(run, run.rounds[k]) if (k := round_before(run)) is not None else {}
    recorded = {key: number(run.summary.get(key)) for key in ("accuracy_mean", "accuracy_before_clustering", "accuracy_worst")}
    mean, mean_before = average(run, last.values()), average(run, before.values())
    worst_id, low = worst(run, last)
    if run.in_percent:
        mean = recorded["accuracy_mean"] if math.isfinite(recorded["accuracy_mean"]) else mean
        low = recorded["accuracy_worst"] if math.isfinite(recorded["accuracy_worst"]) else low
        if run.splits and math.isfinite(recorded["accuracy_before_clustering"]):
            mean_before = recorded["accuracy_before_clustering"]

    def say(value: float) -> str:
        return score_words(value, not run.in_percent)

    was = f"{say(mean_before)} before clustering" if math.isfinite(mean_before) else _unsplit(run)
    if said := run.summary.get("scored"):
        rest = len(last) - said.get("clients", 0)
        was += f"; told by {said.get('clients')} of {said.get('of')} clients"
        was += f", of {rest} measured by the coordinator" if rest > 0 else ""
    elif _elsewhere(run) and not was_scored(run):
        was = "nobody said how well models predict"
    before_id, low_before = worst(run, before)
    whose = f" ({run.client(before_id)})" if before_id and before_id != worst_id else ""
    was_low = f"; {say(low_before)} before{whose}" if math.isfinite(low_before) else ""
    agree = agreement_in_words(run.summary)
    clear = number((run.summary.get("silhouette") or {}).get("value"))
    one_server = run.summary.get("protection") != "TwoServer" or not is_served(run)  # else it has no link of the other's
    up, down = (total(run, key) for key in ("bytes_up", "bytes_down"))
    seconds = total(run, "seconds")
    done = f"{len(run.rounds)} round{'s' * (len(run.rounds) != 1)}"
    each = f"{done}, {time_words(seconds / len(run.rounds))} each" if run.rounds and math.isfinite(seconds) else done
    return [
        Tile(f"mean {run.scale}", say(mean), was),
        _worst_tile(run, last, say(low), f"{run.client(worst_id)}{was_low}" if worst_id else ""),
        _groups_tile(run, final, agree, clear),
        Tile(
            "sent by clients" if one_server else "clients, through the coordinator",
            byte_words(up) if math.isfinite(up) else DASH,
            f"{byte_words(down)} received" if math.isfinite(down) else "",
        ),
        Tile("time", time_words(seconds), each),
    ]


def _worst_tile(run: Run, last: Mapping[str, float], low: str, whose: str) -> Tile:
    """The client that fares worst; of a metric of which nobody knows which way is better, between what clients are."""
    known = [value for value in last.values() if math.isfinite(value)]
    if run.less_is_better is not None or not known:
        return Tile("worst client", low, whose)
    return Tile("clients", f"{min(known):.3g} to {max(known):.3g}", UNKNOWN)


def _elsewhere(run: Run) -> bool:
    """Whether clients were other processes, which nobody scores but themselves."""
    return bool((run.summary.get("account") or {}).get("elsewhere"))


def _unsplit(run: Run) -> str:
    """What there is to say where nothing was split."""
    if in_slots(run):
        return "each client by the model that it chooses, or mixes by itself"
    if (alone := on_their_own(run)) and alone >= {i for members in final_clusters(run).values() for i in members}:
        return "each client by its own model, trained alone"
    if final_clusters(run) and len(final_clusters(run)) > 1:
        return "each client by its cluster's model"
    if run.pairs or has_clusters(run):
        return "one cluster in the end"
    return "never split" if looks_for_splits(run) else f"one model for all{MADE_OWN if run.summary.get('adapts') else ''}"


def _groups_tile(run: Run, final: Mapping[str, Sequence[str]], agree: Sequence[str], clear: float) -> Tile:
    """Groups isolated, of those that were planted; or how many clusters there are, and how clear they are."""
    found = f"{len(final)} cluster{'s' * (len(final) != 1)}"
    planted = set(run.groups.values())
    if len(planted) < 2 or run.summary.get("corrupt"):  # one group cannot be told apart, nor missed
        return Tile("clusters found", f"{len(final)}", f"silhouette {clear:.2f}" if math.isfinite(clear) else "")
    inside = [{run.groups.get(i, "") for i in members} for members in final.values()]
    alone = {group for groups in inside for group in groups if len(groups) == 1}
    alone -= {group for groups in inside for group in groups if len(groups) > 1}
    said = [words for words in agree if "isolated" not in words] or [words for words in [over_some(run.summary)] if words]
    return Tile("groups isolated", f"{len(alone)} of {len(planted)}", f"{found}; {', '.join(said)}" if said else found)
