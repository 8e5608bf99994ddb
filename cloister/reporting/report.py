"""The report of a run: one HTML page, made from the run's folder alone, that needs nothing from anywhere else."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..fl.runs.declines import is_declined, why_declined
from .account_words import account_meters, account_notes
from .agreement import agreement_in_words, worth_at_first, worth_in_words
from .by_client import by_client
from .byte_words import byte_words
from .distances import distances_panel
from .gaps import gaps
from .headline import (
    MADE_OWN,
    attacked_in_words,
    in_slots,
    privacy_in_words,
    trouble_in_words,
    turned_down_in_words,
    unmoved_in_words,
)
from .hues import HUES
from .matrices import filling_panels, matrix_panel
from .matrix_picture import MATRIX_PIXELS
from .page import environment, write_page
from .panels import (
    THIN_LINES,
    accuracy_chart,
    both_widths,
    cluster_lines,
    epsilons,
    grouping,
    has_clusters,
    has_norms,
    looks_for_splits,
    norms_chart,
    parties,
    traffic_charts,
    tree_panel,
    why_no_split,
)
from .repeat import how_to_repeat
from .run_data import (
    DASH,
    Run,
    average,
    client_ids,
    evaluated,
    final_clusters,
    flat,
    hue_of_groups,
    is_served,
    less_is_better,
    number,
    read_run,
    round_before,
    round_of,
    score_words,
    scores,
    sorted_ids,
    time_words,
    total,
    was_scored,
    worst,
)
from .told_by import partly_told
from .who_scored import told_scores, who_scored
from .who_was_there import differing, in_ranges, never_there, revoked_in_words, who_was_there, without_model

OF_DATA = {
    "AgreedColumns": "agreed columns",
    "AgreedImages": "agreed images",
    "CsvClients": "CSV files",
    "FolderClients": "images",
    "Given": "given data",
}
"""Loaders of a user's own data, as people say it."""
TABLE_ROUNDS = 40
MOST_PAUSES = 3
"""Of clusters that learned nothing for some rounds, told in the first lines."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the headline: what it is, its value and a line of detail."""

    label: str
    value: str
    detail: str = ""


def write_report(folder: Path) -> Path:
    """Writes `folder`/report.html from the run folder and returns its path.

    An interrupted run, which has no summary.json, gets the report of the rounds that it finished. Raises ValueError when the
    folder holds no run, or a file in it cannot be read.
    """
    run = read_run(folder)
    return write_page(folder, render(run))


def render(run: Run) -> str:
    """The page as text. Everything that comes from the run is escaped by the template."""
    pages = environment()
    pages.filters.update(
        client=run.name_of,
        count=lambda v: f"{v:,.0f}".replace(",", " ") if math.isfinite(v := number(v)) else DASH,
        score=lambda v: score_words(v, not run.in_percent),
    )
    template = pages.get_template("report.html.j2")
    ever, partly = partly_told(run)
    hues = hue_of_groups(run)
    lines = cluster_lines(run, scores, hues)
    marks = sorted({number(s.get("round")) for s in run.splits} - {math.nan})
    final = final_clusters(run)
    fillings, distances = filling_panels(run, hues), distances_panel(run, hues)
    refused = run.summary.get("rejected") or []
    looked = bool(fillings or run.pairs) or looks_for_splits(run)
    return template.render(
        run=run,
        summary=run.summary,
        title=str(run.summary.get("name") or run.scenario.get("name") or run.folder),
        facts=[str(run.summary[k]) for k in ("algorithm", "protection") if run.summary.get(k)] + data_in_words(run),
        verdict=" ".join([verdict(run, final), *worth_at_first(run.summary), *stood_still(run), *revoked_in_words(run)]),
        attacked=attacked_in_words(run),
        privately=privacy_in_words(run),
        tiles=tiles(run, final),
        legend=[(g, h % HUES, sum(v == g for v in run.kin.values())) for g, h in hues.items()],
        many_groups=len(hues) > HUES,
        accuracy=both_widths(accuracy_chart(run, lines, marks, hues)) if was_scored(run) else (),
        bands=len(client_ids(run)) > THIN_LINES,
        norms=both_widths(norms_chart(run, marks, hues)) if has_norms(run) else (),
        matrices=[matrix_panel(run, split, hues) for split in run.splits],
        fillings=fillings,
        distances=distances,
        averaged=MATRIX_PIXELS if any(len(s.get("clients") or []) > MATRIX_PIXELS for s in run.splits) else 0,
        no_split=why_no_split(run),
        looked=looked,
        clustered=looked or has_clusters(run) or not run.rounds,
        tree=tree_panel(run, hues),
        grouping=grouping(run, final, hues),
        meters=account_meters(run.summary.get("account") or {}, run.summary.get("names") or {}),
        account_notes=of_account(run),
        parties=parties(run),
        by_client=by_client(run) if run.answers else [],
        folder=run.path,
        scored=who_scored(run),
        told_scores=told_scores(run),
        missing="; ".join(gaps(run)),
        trouble=trouble_in_words(run.summary),
        privacy=epsilons(run),
        traffic=traffic_charts(run),
        table=table(run),
        ever=ever,
        partly=len(partly),
        conditions=run.summary.get("conditions") or [],
        rejected=in_ranges([row for row in refused if not is_declined(row)]),
        declined=in_ranges([row | {"reason": why_declined(row.get("reason", DASH))} for row in refused if is_declined(row)]),
        there=(there := who_was_there(run)),
        revocations=any(revoked for _, _, revoked in there),
        without_model=without_model(run),
        differing=differing(run),
        below_floor=in_ranges([row | {"cluster": of_cluster(row)} for row in run.summary.get("below_floor") or []]),
        fell_back=sorted_ids(run.summary.get("fell_back") or []),
        measured=measured(run),
        worth=[*worth_in_words(run.summary)],
        repeat=how_to_repeat(run),
        scenario=[*flat(run.scenario)] if run.scenario else [],
        **{key: [*flat(run.summary[key])] if run.summary.get(key) else [] for key in ("versions", "machine")},
    )


def of_account(run: Run) -> list[str]:
    """What goes with the meters; empty where there are none."""
    protection, account = run.scenario.get("protection"), run.summary.get("account")
    k = number(protection.get("k")) if isinstance(protection, Mapping) else math.nan
    return account_notes(account, str(run.summary.get("protection")), int(k) if math.isfinite(k) else 0) if account else []


def data_in_words(run: Run) -> list[str]:
    """What the data are, as people say it: those of a user's own have classes of ours whose names say nothing."""
    name, described = str(run.summary.get("data") or ""), run.scenario.get("data")
    own = str(described.get("name") or "") if name == "Given" and isinstance(described, dict) else ""
    return [words] if (words := own or OF_DATA.get(name, name)) else []


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
    said = [words for words in agree if "isolated" not in words]
    return Tile("groups isolated", f"{len(alone)} of {len(planted)}", f"{found}; {', '.join(said)}" if said else found)


def stood_still(run: Run) -> list[str]:
    """A sentence on each cluster whose training stood still, for some rounds or at the end, on each that was not split as a side
    would have had no sum, and one on clients in no cluster."""
    last = run.rounds[-1] if run.rounds else {}
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

    found = []
    paused: dict[tuple[str, int], tuple[int, Sequence[Any], str]] = {}
    for line in run.rounds:
        for name, since in (line.get("stopped") or {}).items():
            members = (line.get("clusters") or {}).get(name) or []
            paused[name, since] = int(number(line.get("round", since))), members, reason_of(line, name)
    over = {of: until for of, until in sorted(paused.items()) if (last.get("stopped") or {}).get(of[0]) != of[1]}
    for (name, since), (until, whom, silent) in [*over.items()][:MOST_PAUSES]:
        when = f"round {since}" if until <= since else f"rounds {since} to {until}"
        names = ", ".join(run.name_of(i) for i in whom)
        found.append(f"Cluster {name} (clients {names}) learned nothing in {when}: {why(name, whom, silent)}.")
    if len(over) > MOST_PAUSES:
        found.append(f"So it was {len(over) - MOST_PAUSES} times more.")
    for name, since in sorted((last.get("stopped") or {}).items()):
        whom = (last.get("clusters") or {}).get(name) or []
        names, reason = ", ".join(run.name_of(i) for i in whom), why(name, whom, reason_of(last, name))
        found.append(f"Cluster {name} (clients {names}) learned nothing from round {since} on: {reason}.")
    found += unanswered_in_words(run)
    if isinstance(unmoved := run.summary.get("unmoved"), dict):
        found.append(f"{unmoved_in_words(unmoved, len(run.rounds))}.")
    found += [f"Not split: {words}." for words in turned_down_in_words(run.rounds)]
    if apart := run.summary.get("apart"):
        found.append(f"In no cluster, and without a model of one: {', '.join(run.client(i) for i in apart)}.")
    return found


def unanswered_in_words(run: Run) -> list[str]:
    """A sentence on rounds in which a second server did not answer, and no cluster is told to stand still for it."""
    silent = [{"round": line.get("round"), "why": str(line["unanswered"])} for line in run.rounds if line.get("unanswered")]
    paused = {line.get("round") for line in run.rounds if line.get("stopped")}
    rows = in_ranges([row for row in silent if row["round"] not in paused])
    return [f"In round {row['round']} {row['why']}: sums that it was asked for were not made." for row in rows]


def reason_of(line: Mapping[str, Any], cluster: str) -> str:
    """Why a cluster had no sum in a round, as far as its line says so: who did not answer, or what was wanting."""
    of_sums = (str(row["why"]) for row in line.get("below_floor") or () if of_cluster(row) == cluster and "why" in row)
    return str(line.get("unanswered") or "") or next(of_sums, "")


def of_cluster(row: Mapping[str, Any]) -> str:
    """Of a sum that was not opened: its cluster's name, which stands before the round."""
    return str(row.get("cluster", DASH)).partition("@")[0]


def verdict(run: Run, final: Mapping[str, Sequence[str]]) -> str:
    """The run in a sentence or two."""
    count, splits = len(client_ids(run)), len(run.splits)
    ids = {str(i) for members in final.values() for i in members}  # who was away when clusters were made is in none
    placed = len(ids - never_there(run)) or count
    all_of = f"{count} client{'s' * (count != 1)}"
    clients = all_of if placed == count else f"{placed} of {all_of}"
    if not run.rounds and run.ended:
        return f"Ended before a round was over: {run.ended}."
    if not run.rounds:
        return (
            "Not finished: no round was over yet when this page was made." if run.interrupted else "The run recorded no rounds."
        )
    after = f" after {splits} split{'s' * (splits != 1)}" if splits or len(final) == 1 else ""
    so_far = f"{clients} were in {len(final)} cluster{'s' * (len(final) != 1)}{after}"
    start = f"{clients} ended in {len(final)} cluster{'s' * (len(final) != 1)}{after}.{_split_last(run)}"
    if run.ended:
        return f"Ended early, after round {round_of(run.rounds[-1], len(run.rounds) - 1):.0f}: {run.ended}. Then {so_far}."
    if run.interrupted:
        return (
            f"Not finished: after round {round_of(run.rounds[-1], len(run.rounds) - 1):.0f}, when this page was made, {so_far}."
        )
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


def _split_last(run: Run) -> str:
    """That clusters which the last round made have one model still: what sets them apart in a picture is who is in them."""
    if not run.splits or run.splits[-1].get("round") != round_of(run.rounds[-1], len(run.rounds) - 1):
        return ""
    return " The last split was in the last round: its clusters have one model still, and take more rounds to learn apart."


def _one_cluster(run: Run, clients: str) -> str:
    """A run that ended with all in one cluster: whether it looked for more, and what it missed."""
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


UNKNOWN = "which way is better, the metric does not say"


def _worst_words(of: Mapping[str, Any]) -> str:
    """Of a metric of which nobody knows which way is better, between what clients are."""
    if of.get("less_is_better", False) is None:
        return f"{score_words(number(of.get('least')), True)} to {score_words(number(of.get('most')), True)}"
    return score_words(number(of.get("worst")), True)


def measured(run: Run) -> list[dict[str, str]]:
    """Metrics beside accuracy: mean, worst client, of how many clients each is defined, and which direction is good."""
    return [
        {
            "name": str(name),
            "mean": score_words(number(of.get("mean")), True),
            "worst": _worst_words(of),
            "clients": str(of.get("clients")),
            "better": {True: "lower", False: "higher", None: UNKNOWN}[less_is_better(str(name), of)],
        }
        for name, of in (run.summary.get("metrics") or {}).items()
    ]


def table(run: Run) -> list[dict[str, Any]]:
    """The curves as numbers: at most 40 rounds, evenly spaced, the last one among them."""
    rounds, (ever, partly) = evaluated(run), partly_told(run)
    picked = sorted({round(k) for k in np.linspace(0, len(rounds) - 1, min(TABLE_ROUNDS, len(rounds)))})
    rows = []
    for t, line in (rounds[k] for k in picked):
        measured = scores(run, line)
        client, low = worst(run, measured)
        mean = average(run, measured.values())
        clusters = len(line.get("clusters") or {})
        told = f"{len(measured)} of {ever}" if partly else ""
        rows.append({"round": f"{t:.0f}", "mean": mean, "worst": low, "client": client, "clusters": clusters, "told": told})
    return rows
