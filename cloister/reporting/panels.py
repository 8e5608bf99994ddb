"""The panels of the report: each turns a run into what its part of the page shows."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from ..protocol.view.disclosure import PARTIES
from .curves import NARROW, WIDE, Band, Chart, Line, draw_curves, draw_traffic
from .headline import turned_down_in_words
from .hues import HUES
from .run_data import (
    Row,
    Run,
    average,
    client_ids,
    evaluated,
    flat,
    hue_of_cluster,
    number,
    round_of,
    scores,
    sorted_ids,
    spans_of_rounds,
    tree_nodes,
)
from .told_by import shaded
from .tree_drawing import PHONE, draw_outline, draw_tree

THIN_LINES = 80
VALUES_SHOWN = 60
NOTES = {
    "second server": "Must not work together with the server.",
    "dealer": "Deals the servers randomness that belongs together; must not work together with either.",
    "key holder": "Can decrypt what the server cannot.",
    "clients": "What goes to all clients of a cluster is counted once.",
}
"""A line about a party, where its name does not say enough."""


def cluster_lines(run: Run, values: Callable[[Run, Row], dict[str, float]], hues: Mapping[str, int]) -> list[Line]:
    """The mean of each cluster over its life; a child starts where its parent ended."""
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    members: dict[str, list[str]] = {}
    parents = {str(child): str(split.get("cluster")) for split in run.splits for child in split.get("children") or {}}
    for t, line in evaluated(run):
        measured = values(run, line)
        for name, ids in (line.get("clusters") or {}).items():
            members[name] = [str(i) for i in ids]
            parent = parents.get(name, "")
            if name not in points and parent in points:
                points[name].append(points[parent][-1])
            points[name].append((t, average(run, (measured.get(i, math.nan) for i in members[name]))))
    return [line_of(name, points[name], hue_of_cluster(run.kin, members[name], hues)) for name in points]


def accuracy_chart(run: Run, clusters: Sequence[Line], marks: Sequence[float], hues: Mapping[str, int]) -> Chart:
    """Thin: clients (or, of more than 80, the range of each planted group). Thick: clusters. Marks: splits.

    Shaded: rounds in which not all said how well they predict.
    """
    x = np.array([t for t, _ in evaluated(run)])
    ids, kin = client_ids(run), run.kin
    measured = [scores(run, line) for _, line in evaluated(run)]
    values = np.array([[m.get(i, math.nan) for i in ids] for m in measured]).reshape(len(x), len(ids))
    unit = "log" if run.perplexity else "percent" if run.in_percent else "plain"
    if len(ids) <= THIN_LINES:
        tips = [run.client(i) + (f", {run.kind} {kin[i]}" if i in kin else "") for i in ids]
        thin = [Line(t, x, values[:, c], hues.get(kin.get(i, ""))) for c, (i, t) in enumerate(zip(ids, tips, strict=True))]
        return Chart(name="accuracy", thin=thin, thick=clusters, marks=marks, unit=unit, shaded=shaded(run))
    bands = []
    for group in hues or [""]:
        inside = values[:, [kin.get(i, "") == group for i in ids]]
        seen = np.isfinite(inside).any(axis=1)
        for low, high in ((0, 100), (10, 90)):
            ends = np.full((2, len(x)), np.nan)
            ends[:, seen] = np.nanpercentile(inside[seen], [low, high], axis=1)
            bands.append(Band(f"{run.kind} {group}" if group else "clients", x, ends[0], ends[1], hues.get(group)))
    return Chart(name="accuracy", bands=bands, thick=clusters, marks=marks, unit=unit, shaded=shaded(run))


SINGLE = {"max": "largest update", "rms": "root mean square"}
"""What a run may have recorded of the norms of single updates."""


def has_norms(run: Run) -> bool:
    """Whether any round recorded a positive norm of a cluster."""
    return any(number(v.get("mean")) > 0 for line in run.rounds for v in (line.get("norms") or {}).values())


def norms_chart(run: Run, marks: Sequence[float], hues: Mapping[str, int]) -> Chart:
    """Thick: norm of each cluster's mean update. Dashed: norm of its largest update, or root mean square of all norms."""
    points: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    members: dict[str, list[str]] = {}
    for k, line in enumerate(run.rounds):
        members |= {name: [str(i) for i in ids] for name, ids in (line.get("clusters") or {}).items()}
        for name, norm in (line.get("norms") or {}).items():
            for which in ("mean", *SINGLE):
                if which not in norm and which != "mean":
                    continue
                value = number(norm.get(which))
                points[which, name].append((round_of(line, k), value if value > 0 else math.nan))
    kin = run.kin
    hue = {name: hue_of_cluster(kin, members.get(name, ()), hues) for _, name in points}
    thick = [line_of(name, values, hue[name]) for (which, name), values in points.items() if which == "mean"]
    dashed = [line_of(f"{name}, {SINGLE[which]}", v, hue[name]) for (which, name), v in points.items() if which in SINGLE]
    return Chart(name="norms", thick=thick, dashed=dashed, marks=marks, unit="log")


def traffic_charts(run: Run) -> tuple[Markup, ...]:
    """Bytes a round, wide and narrow; nothing when no round counted any."""
    up, down = (np.array([number(line.get(key)) for line in run.rounds]) for key in ("bytes_up", "bytes_down"))
    if not run.rounds or not (np.nansum(up) + np.nansum(down)):
        return ()
    x = np.array([round_of(line, k) for k, line in enumerate(run.rounds)])
    return tuple(draw_traffic(x, np.nan_to_num(up), np.nan_to_num(down), width) for width in (WIDE, NARROW))


def why_no_split(run: Run) -> str:
    """When nothing was split: a sentence that says so and, as far as the run recorded it, why. Empty when something was."""
    if run.splits or (has_clusters(run) and not run.pairs):  # clusters may be parted otherwise than by splits
        return ""
    start = f"No cluster was split in {len(run.rounds)} round{'s' * (len(run.rounds) != 1)}."
    if why := turned_down_in_words(run.rounds):
        return f"{start} In {'; in '.join(why)}."
    norms = [
        (number(n.get("mean")), *_single(n), line.get("round")) for line in run.rounds for n in (line.get("norms") or {}).values()
    ]
    seen = [entry for entry in norms if math.isfinite(entry[0])]
    if not seen:
        return f"{start} The run recorded no norms of updates that would say why."
    mean, single, words, when = min(seen)
    if not math.isfinite(single):  # of an algorithm that does not look at how long updates are
        return start
    limits = thresholds(run)
    if not limits:
        return start
    asked = f" This run asked for {' and '.join(limits)}."
    shares = any(value == "ScaleFree" for _, value in flat(run.scenario))  # its thresholds are
    first = next((size for _, size, _, _ in norms if math.isfinite(size)), 0.0)
    if shares and first > 0 and single > 0:
        asked = (
            f" This run asked for {limits[0]}, a share of the single updates of the same round, here {mean / single:.3g}, and"
            f" {limits[-1]}, a share of those of the first round ({first:.3g}), here {single / first:.3g}."
        )
    return (
        f"{start} CFL splits only when the mean update of a cluster is already short while single updates are still long, "
        f"which says that one model cannot please every member. Here the shortest mean update had norm {mean:.3g} "
        f"(round {when}), and {words} of that round {single:.3g}.{asked}"
    )


def looks_for_splits(run: Run) -> bool:
    """Whether a run recorded anything by which a method splits clusters, or does not."""
    return bool(run.splits or turned_down_in_words(run.rounds) or (has_norms(run) and thresholds(run)))


def thresholds(run: Run) -> list[str]:
    """By which CFL splits, as the scenario has them: a rule of sums has norms on record, too, and splits nothing."""
    return [f"{key} = {value}" for key, value in flat(run.scenario) if key.rsplit(".", 1)[-1] in ("eps1", "eps2")]


def has_clusters(run: Run) -> bool:
    """Whether there was ever more than one."""
    return any(len(line.get("clusters") or {}) > 1 for line in run.rounds)


def _single(norms: Row) -> tuple[float, str]:
    """How long single updates were, and what that is."""
    if "rms" in norms:
        return number(norms["rms"]), "the root mean square of the single norms"
    return number(norms.get("max")), "the longest single update"


def tree_panel(run: Run, hues: Mapping[str, int]) -> dict[str, Any]:
    """The geometry of the tree of splits, and what each of its nodes says."""
    nodes = {str(n["name"]): n for n in tree_nodes(run)}
    kin = run.kin
    ends: dict[str, float] = {}
    for line in run.rounds:
        measured = scores(run, line)
        for name, ids in (line.get("clusters") or {}).items():
            ends[name] = average(run, (measured.get(str(i), math.nan) for i in ids))
    parts = {}
    for name, node in nodes.items():
        present = Counter(kin[i] for i in map(str, node.get("members") or []) if i in kin)
        parts[name] = [(hues[group], size) for group, size in sorted(present.items(), key=lambda item: hues[item[0]])]
    said = {}
    for name, node in nodes.items():
        recorded = number(node.get("accuracy")) if run.in_percent else math.nan
        score = recorded if math.isfinite(recorded) else ends.get(name, math.nan)
        said[name] = {
            "members": sorted_ids(node.get("members") or []),
            "born": node.get("born"),
            "leaf": node.get("leaf"),
            "score": score,
        }
    parents = {name: None if node.get("parent") is None else str(node["parent"]) for name, node in nodes.items()}
    drawn = draw_tree(parents, parts)
    narrow = draw_outline(parents, parts) if drawn.width > PHONE else None
    return {"drawn": drawn, "shapes": [(name, one) for name, one in (("wide", drawn), ("narrow", narrow)) if one], "said": said}


def grouping(run: Run, final: Mapping[str, Sequence[str]], hues: Mapping[str, int]) -> dict[str, Any]:
    """Found clusters in rows, planted groups in columns, client ids in the cells."""
    columns = [*hues] if run.groups else [""]
    rows = []
    for name, members in final.items():
        cells = {group: [i for i in members if run.groups.get(i, "") == group] for group in columns}
        rows.append(
            {"name": name, "size": len(members), "cells": [(cells[g], len(cells[g]) / max(1, len(members))) for g in columns]}
        )
    return {"columns": [(g, hues.get(g, 0) % HUES) for g in columns], "rows": rows, "planted": bool(run.groups)}


def parties(run: Run) -> list[dict[str, Any]]:
    """What each party learned: the totals of the summary or, without one, those of the disclosure log.

    With each answer: the rounds in which it was given, and of how many clients at a time it was. Parties in the order of the
    log's own, those that it does not know last.
    """
    when: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    about: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    counted: dict[tuple[str, str, str], dict[str, Any]] = {}
    for answer in run.answers:
        key = _answer_key(str(answer.get("recipient")), answer)
        when[key].add(int(round_of(answer, 0)))
        about[key].add(len(answer.get("about") or ()))
        start = {"what": key[1], "words": answer.get("words"), "scalars": 0.0, "bytes": 0.0, "times": 0}
        row = counted.setdefault(key, start)
        row["scalars"], row["bytes"] = row["scalars"] + number(answer.get("scalars")), row["bytes"] + number(answer.get("bytes"))
        row["times"] += 1
    recorded = run.summary.get("disclosed") or {}
    there = dict.fromkeys(["server", "clients", *recorded, *(party for party, _, _ in counted)])
    last = max((round for rounds in when.values() for round in rounds), default=0)
    found = []
    for party in [*(p for p in PARTIES if p in there), *(p for p in there if p not in PARTIES)]:
        answers = recorded[party] if party in recorded else [row for (to, _, _), row in counted.items() if to == party]
        rows = []
        for row in answers:
            key = _answer_key(party, row)
            rows.append({"row": row, "spans": spans_of_rounds(when[key], last), "about": _range(about[key])})
        sums = {k: sum(v for row in answers if math.isfinite(v := number(row.get(k)))) for k in ("scalars", "bytes")}
        title = f"The {party}" if party in PARTIES else party
        found.append({"name": party, "title": title, "note": NOTES.get(party, ""), "rows": rows, "last": last, **sums})
    return found


def epsilons(run: Run) -> list[dict[str, Any]]:
    """Of each unit that noise protects: what was spent of its budget, by whom most, and what the noise does not cover."""
    found = []
    for unit, of in run.privacy.items():
        of = of if isinstance(of, Mapping) else {}
        clients = of.get("clients") or {}
        values = sorted(v for row in clients.values() if math.isfinite(v := number(row.get("epsilon"))))
        numbers = {key: number(of.get(key)) for key in ("budget", "delta", "epsilon_worst", "epsilon_mean")}
        share = min(numbers["epsilon_worst"] / numbers["budget"], 1.0) if numbers["budget"] > 0 else math.nan
        words = {key: str(of.get(key, "?")) for key in ("adjacency", "accountant", "worst_client")}
        words |= {key: str(of.get(key, "")) for key in ("of", "beside")}
        rows = Counter(values) if len({*values}) <= VALUES_SHOWN else {}
        spent = sorted(rows.items(), reverse=True)
        uncovered = [str(words) for words in of.get("not_covered") or []]
        found.append({"unit": unit, **numbers, **words, "share": share, "spent": spent, "not_covered": uncovered})
    return found


def _answer_key(party: str, answer: Row) -> tuple[str, str, str]:
    return party, str(answer.get("what")), str(answer.get("words"))


def _range(counts: set[int]) -> str:
    """The least and the most of some counts: "8", "8\u201324"; nothing without any above zero."""
    seen = sorted(count for count in counts if count)
    return f"{seen[0]}" if len(set(seen)) == 1 else f"{seen[0]}\u2013{seen[-1]}" if seen else ""


def both_widths(chart: Chart) -> tuple[Markup, Markup]:
    return draw_curves(chart, WIDE), draw_curves(chart, NARROW)


def line_of(name: str, points: Sequence[tuple[float, float]], hue: int | None) -> Line:
    xy = np.array(points, dtype=np.float64)
    return Line(name, xy[:, 0], xy[:, 1], hue)
