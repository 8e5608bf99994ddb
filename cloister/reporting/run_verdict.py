"""A run in a sentence or two: into which clusters its clients came, and what stood still."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .headline import MADE_OWN, turned_down_in_words, unmoved_in_words
from .on_their_own import alone_in_words, no_sum_in_words, on_their_own
from .panels import has_clusters, looks_for_splits
from .pauses import Pause, pauses
from .run_data import Run, client_ids, final_clusters, number, round_of, sorted_ids
from .who_chose import in_slots, unnamed_in_words
from .who_was_there import in_ranges, never_there

MOST_PAUSES = 3
"""Of clusters that learned nothing for some rounds, told in the first lines."""


def stood_still(run: Run) -> list[str]:
    """A sentence on each cluster whose training stood still, for some rounds or at the end, on each that was not split as a side
    would have had no sum, one on a coordinator that was started again, and one on clients in no cluster."""
    protection = run.scenario.get("protection")
    rules = protection if isinstance(protection, Mapping) else {}
    floor, corrupt = number(rules.get("floor")), number(rules.get("corrupt"))
    least = floor + (corrupt if math.isfinite(corrupt) else 0)  # NaN where there is none

    algorithm = run.scenario.get("algorithm")
    uneven = ", or one of them has too many samples for it" * bool(isinstance(algorithm, Mapping) and algorithm.get("by_samples"))
    born: dict[str, int] = {}
    for line in run.rounds:
        born = {name: len(members) for name, members in (line.get("clusters") or {}).items()} | born

    def why(name: str, members: Sequence[Any], reason: str) -> str:
        if run.splits and max(born.get(name, 0), len(members)) < least:
            return f"the split made it smaller than the floor of {least:.0f} clients, so that it had no sum, whoever was there"
        return reason or f"too few were there for a sum{uneven}"

    def learned_nothing(of: Pause) -> str:
        names = ", ".join(run.name_of(i) for i in of.clients) + "; under other names before" * of.renamed
        reason = why(of.cluster, of.clients, of.reason)
        last = "in the last of them, " * (of.changed and reason == of.reason)
        return f"Cluster {of.cluster} (clients {names}) learned nothing {of.when}: {last}{reason}."

    paused = pauses(run)
    over = [of for of in paused if not of.lasts]
    found = [learned_nothing(of) for of in over[:MOST_PAUSES]]
    if len(over) > MOST_PAUSES:
        more = len(over) - MOST_PAUSES
        found.append(f"So it was {more} time{'s' * (more != 1)} more.")
    found += [learned_nothing(of) for of in paused if of.lasts]
    found += alone_in_words(run)
    found += no_sum_in_words(run)
    found += unanswered_in_words(run)
    if isinstance(unmoved := run.summary.get("unmoved"), dict):
        found.append(f"{unmoved_in_words(unmoved, len(run.rounds))}.")
    found += [f"Not split: {words}." for words in turned_down_in_words(run.rounds)]
    if math.isfinite(life := number(run.link.get("life"))) and life > 1:
        found.append(f"The coordinator was started {life:.0f} times for this run, which went on where it was.")
    found += not_summed_in_words(run)
    found += unnamed_in_words(run)
    if apart := run.summary.get("apart"):
        found.append(f"In no cluster, and without a model of one: {', '.join(run.client(i) for i in apart)}.")
    return found


def not_summed_in_words(run: Run) -> list[str]:
    """A sentence on clients that answered to the end, with nothing that a sum could have."""
    told = run.summary.get("not_summed")
    if not isinstance(told, dict) or not told:
        return []
    clients = ", ".join(f"{run.client(i)} (answered in {told[i]} rounds)" for i in sorted_ids(told))
    why = "What such a client sends is of no use to others, or they refuse it, as where it does not follow the protocol"
    why += ", or does not reach a second server"
    return [f"There, and in no sum of the last rounds: {clients}. {why}; see its own log and record."]


def unanswered_in_words(run: Run) -> list[str]:
    """A sentence on rounds in which a second server did not answer, and no cluster is told to stand still for it."""
    silent = [{"round": line.get("round"), "why": str(line["unanswered"])} for line in run.rounds if line.get("unanswered")]
    paused = {line.get("round") for line in run.rounds if line.get("stood_still")}
    rows = in_ranges([row for row in silent if row["round"] not in paused])
    return [f"In round {row['round']} {row['why']}: sums that it was asked for were not made." for row in rows]


def verdict(run: Run, final: Mapping[str, Sequence[str]]) -> str:
    """The run in a sentence or two."""
    count, splits = len(client_ids(run)), len(run.splits)
    ids = {str(i) for members in final.values() for i in members}  # who was away when clusters were made is in none
    placed = len(ids - never_there(run))
    all_of = f"{count} client{'s' * (count != 1)}"
    clients = all_of if placed in (0, count) else f"{placed} of {all_of}"
    if not run.rounds and run.ended:
        return f"Ended before a round was over: {run.ended}."
    if not run.rounds:
        return (
            "Not finished: no round was over yet when this page was made." if run.interrupted else "The run recorded no rounds."
        )
    after = f" after {splits} split{'s' * (splits != 1)}" if splits or len(final) == 1 else ""
    into = f"{len(final)} cluster{'s' * (len(final) != 1)}{after}{_on_their_own(run, final)}"
    so_far = f"{clients} were in {into}"
    start = f"{clients} ended in {into}.{_split_last(run)}"
    if run.ended:
        return f"Ended early, after round {round_of(run.rounds[-1], len(run.rounds) - 1):.0f}: {run.ended}. Then {so_far}."
    if run.interrupted:
        return (
            f"Not finished: after round {round_of(run.rounds[-1], len(run.rounds) - 1):.0f}, when this page was made, {so_far}."
        )
    if ids and not placed:
        often = f"any of {len(run.rounds)} rounds" if len(run.rounds) > 1 else "the only round"
        return f"Nothing was learned: of {all_of} none was there, or answered in time, in {often}. Models are what they began as."
    if not splits and len(final) == 1:
        return _one_cluster(run, clients)
    if not run.groups or not final:
        return start
    mixed = [name for name, members in final.items() if len({run.groups.get(i) for i in members}) > 1]
    torn = len(final) - len({run.groups.get(i) for i in ids})
    if not mixed and not torn:
        return (
            f"{start} They are exactly the planted groups{'' if ids >= run.groups.keys() else ' of the clients that are in any'}."
        )
    if not mixed:
        return f"{start} No cluster mixes planted groups, but some groups are spread over several clusters."
    return f"{start} {len(mixed)} of the clusters still mix{'es' * (len(mixed) == 1)} planted groups."


def _on_their_own(run: Run, final: Mapping[str, Sequence[str]]) -> str:
    """How many of the clusters are a client's that trains by itself."""
    alone = sum({*members} <= on_their_own(run) for members in final.values())
    if not alone:
        return ""
    if alone == len(final):
        return ", each of a client that trains alone" if alone > 1 else ", that of a client that trains alone"
    return f", {alone} of them of a client that trains alone"


def _split_last(run: Run) -> str:
    """That clusters which the last round made have one model still: what sets them apart in a picture is who is in them."""
    if not run.splits or run.splits[-1].get("round") != round_of(run.rounds[-1], len(run.rounds) - 1):
        return ""
    return " The last split was in the last round: its clusters have one model still, and take more rounds to learn apart."


def _one_cluster(run: Run, clients: str) -> str:
    """A run that ended with all in one cluster: whether it looked for more, and what it missed."""
    if on_their_own(run):
        return f"{clients} trained alone in the end."
    chose = bool(run.pairs) or has_clusters(run)
    if not chose and not looks_for_splits(run):
        if in_slots(run):
            return f"{clients} ended with one model that they go by most."
        return f"{clients} shared one model to the end{MADE_OWN if run.summary.get('adapts') else ''}."
    words = f"{clients} ended in one cluster" if chose else f"{clients} shared one model to the end; nothing was split"
    there = {str(i) for members in final_clusters(run).values() for i in members} or run.groups.keys()
    planted, mixed = len(set(run.groups.values())), len({of for i, of in run.groups.items() if i in there})
    if mixed == planted > 1:
        return f"{words}. It mixes the {planted} planted groups."
    return f"{words}. It mixes {mixed} of the {planted} planted groups." if mixed > 1 else f"{words}."
