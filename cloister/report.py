"""The report of a run: one HTML page, made from the run's folder alone, that needs nothing from anywhere else."""

import base64
import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from . import figures
from .figures import NARROW, WIDE, Band, Chart, Line, byte_words

Row = Mapping[str, Any]
THIN_LINES = 80
TABLE_ROUNDS = 40
DASH = "\u2013"
VALUES_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Run:
    """What a run folder holds; whatever is missing there is empty here. Client ids are strings throughout."""

    folder: str
    summary: Row
    scenario: Row
    rounds: Sequence[Row]
    splits: Sequence[Row]
    answers: Sequence[Row]
    tree: Sequence[Row]

    @property
    def interrupted(self) -> bool:
        """Whether the run ended before it wrote its summary."""
        return not self.summary

    @property
    def perplexity(self) -> bool:
        """Whether the run is of a language model: it says so, or it stopped before it could and measured nothing but losses."""
        metric = self.summary.get("metric") or self.scenario.get("metric")
        unsaid = not self.summary and any(r.get("loss") for r in self.rounds) and not any(r.get("accuracy") for r in self.rounds)
        return metric == "perplexity" or (not metric and unsaid)

    @property
    def groups(self) -> dict[str, str]:
        """Planted group of every client id; empty when the data has none."""
        return {str(i): str(g) for i, g in (self.summary.get("groups") or {}).items()}

    @property
    def kin(self) -> dict[str, str]:
        """What colours a client: its planted group or, where none is known, the cluster that it ended in."""
        return self.groups or {i: name for name, members in final_clusters(self).items() for i in members}

    @property
    def kind(self) -> str:
        """What `kin` names."""
        return "group" if self.groups else "cluster"

    @property
    def scale(self) -> str:
        """What the run is measured by, in a word."""
        return "perplexity" if self.perplexity else "accuracy"


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
    page = folder / "report.html"
    unfinished = folder / "report.html.part"
    unfinished.write_text(render(run), encoding="utf-8")
    unfinished.replace(page)
    return page


def read_run(folder: Path) -> Run:
    """Reads the JSON files of a run folder. A last line that was cut off while it was written is left out."""
    names = ("summary.json", "scenario.json", "metrics.jsonl")
    if not any((folder / name).is_file() for name in names):
        raise ValueError(
            f"{folder} is no run folder: it holds none of {', '.join(names)}; give the folder that `cloister run` wrote"
        )
    return Run(
        folder.resolve().name,
        _read(folder / "summary.json", {}),
        _read(folder / "scenario.json", {}),
        _read_lines(folder / "metrics.jsonl"),
        _read_lines(folder / "splits.jsonl"),
        _read_lines(folder / "disclosure.jsonl"),
        _read(folder / "tree.json", []),
    )


def render(run: Run) -> str:
    """The page as text. Everything that comes from the run is escaped by the template."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        bytes=lambda v: byte_words(v) if math.isfinite(v := number(v)) else DASH,
        count=lambda v: f"{v:,.0f}".replace(",", " ") if math.isfinite(v := number(v)) else DASH,
        number=lambda v: f"{v:.3g}" if math.isfinite(v := number(v)) else DASH,
        score=lambda v: score_words(v, run.perplexity),
        time=time_words,
        sha256=lambda text: base64.b64encode(hashlib.sha256(str(text).encode()).digest()).decode(),
    )
    template = environment.from_string(resources.files(__package__).joinpath("report.html.j2").read_text(encoding="utf-8"))
    hues = hue_of_groups(run)
    lines = cluster_lines(run, scores, hues)
    marks = sorted({number(s.get("round")) for s in run.splits} - {math.nan})
    final = final_clusters(run)
    return template.render(
        run=run,
        summary=run.summary,
        title=str(run.summary.get("name") or run.scenario.get("name") or run.folder),
        facts=[str(run.summary[k]) for k in ("algorithm", "protection", "data") if run.summary.get(k)],
        verdict=verdict(run, final),
        tiles=tiles(run, final),
        legend=[(g, h % figures.HUES, sum(v == g for v in run.kin.values())) for g, h in hues.items()],
        many_groups=len(hues) > figures.HUES,
        accuracy=_both(accuracy_chart(run, lines, marks, hues)) if run.rounds else (),
        bands=len(client_ids(run)) > THIN_LINES,
        norms=_both(norms_chart(run, marks, hues)) if has_norms(run) else (),
        matrices=[matrix_panel(run, split, hues) for split in run.splits],
        averaged=figures.MATRIX_PIXELS if any(len(s.get("clients") or []) > figures.MATRIX_PIXELS for s in run.splits) else 0,
        no_split=why_no_split(run),
        tree=tree_panel(run, hues),
        grouping=grouping(run, final, hues),
        parties=parties(run),
        traffic=traffic_charts(run),
        table=table(run),
        rejected=run.summary.get("rejected") or [],
        below_floor=run.summary.get("below_floor") or [],
        fell_back=sorted_ids(run.summary.get("fell_back") or []),
        scenario=[*flat(run.scenario)] if run.scenario else [],
        **{key: [*flat(run.summary[key])] if run.summary.get(key) else [] for key in ("versions", "machine")},
    )


def number(value: object) -> float:
    """A finite number as it is, everything else (None, text, infinities) as NaN."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return math.nan


def score_words(value: float, perplexity: bool) -> str:
    """0.9312 is "93.1 %", or 3 digits for a perplexity; a dash when there is none."""
    if not math.isfinite(value := number(value)):
        return DASH
    return f"{value:.3g}" if perplexity else f"{100 * value:.1f} %"


def time_words(seconds: object) -> str:
    """A duration in the unit that a person would choose: "48 s", "12 min", "3.5 h"."""
    value = number(seconds)
    if not math.isfinite(value):
        return DASH
    if value < 90:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 5400 else f"{value / 3600:.1f} h"


def scores(run: Run, line: Row) -> dict[str, float]:
    """Accuracy, or perplexity = exp(loss), of every client in one round; NaN where it was not measured."""
    if not run.perplexity:
        return {str(i): number(v) for i, v in (line.get("accuracy") or {}).items()}
    return {str(i): math.exp(v) if (v := number(loss)) < 100 else math.nan for i, loss in (line.get("loss") or {}).items()}


def average(run: Run, values: Iterable[float]) -> float:
    """The mean of what was measured; of perplexities the geometric mean, which is exp of the mean loss."""
    seen = [v for v in values if math.isfinite(v)]
    if not seen:
        return math.nan
    return math.exp(sum(map(math.log, seen)) / len(seen)) if run.perplexity else sum(seen) / len(seen)


def worst(run: Run, values: Mapping[str, float]) -> tuple[str, float]:
    """The client that fares worst and its score; an empty id when nothing was measured."""
    seen = {i: v for i, v in values.items() if math.isfinite(v)}
    if not seen:
        return "", math.nan
    client = (max if run.perplexity else min)(seen, key=lambda i: seen[i])
    return client, seen[client]


def client_ids(run: Run) -> list[str]:
    """Every client that the run speaks of."""
    return sorted_ids({str(i) for line in run.rounds for i in scores(run, line)} | set(run.groups))


def sorted_ids(ids: Iterable[object]) -> list[str]:
    """Ids as text, numbers in the order of numbers and before all else."""
    return sorted(map(str, ids), key=lambda i: (not i.isdigit(), int(i) if i.isdecimal() else 0, i))


def final_clusters(run: Run) -> dict[str, list[str]]:
    """Members of each cluster at the end, by the cluster's name where the run recorded one."""
    named = {str(n["name"]): sorted_ids(n.get("members") or []) for n in tree_nodes(run)}
    last = {str(k): sorted_ids(v) for k, v in (run.rounds[-1].get("clusters") or {}).items()} if run.rounds else {}
    if not run.summary.get("clusters"):
        return dict(sorted(last.items()))
    found = [sorted_ids(members) for members in run.summary["clusters"]]
    names = {tuple(v): k for k, v in (named | last).items()}
    return dict(sorted((names.get(tuple(members), f"#{i}"), members) for i, members in enumerate(found)))


def hue_of_groups(run: Run) -> dict[str, int]:
    """A hue for each planted group or, where none is known, for each final cluster."""
    return {group: i for i, group in enumerate(sorted_ids(set(run.kin.values())))}


def hue_of_cluster(kin: Mapping[str, str], members: Iterable[str], hues: Mapping[str, int]) -> int | None:
    """The hue of the only group in a cluster, None (ink) while several share it."""
    inside = {kin.get(i, "") for i in members}
    return hues.get(inside.pop()) if len(inside) == 1 else None


def cluster_lines(run: Run, values: Callable[[Run, Row], dict[str, float]], hues: Mapping[str, int]) -> list[Line]:
    """The mean of each cluster over its life; a child starts where its parent ended."""
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    members: dict[str, list[str]] = {}
    for k, line in enumerate(run.rounds):
        measured = values(run, line)
        for name, ids in (line.get("clusters") or {}).items():
            members[name] = [str(i) for i in ids]
            if name not in points and name[:-1] in points:
                points[name].append(points[name[:-1]][-1])
            points[name].append((_round(line, k), average(run, (measured.get(i, math.nan) for i in members[name]))))
    return [_line(name, points[name], hue_of_cluster(run.kin, members[name], hues)) for name in points]


def accuracy_chart(run: Run, clusters: Sequence[Line], marks: Sequence[float], hues: Mapping[str, int]) -> Chart:
    """Thin: clients (or, of more than 80, the range of each planted group). Thick: clusters. Marks: splits."""
    x = np.array([_round(line, k) for k, line in enumerate(run.rounds)])
    ids, kin = client_ids(run), run.kin
    measured = [scores(run, line) for line in run.rounds]
    values = np.array([[m.get(i, math.nan) for i in ids] for m in measured]).reshape(len(x), len(ids))
    unit = "log" if run.perplexity else "percent"
    if len(ids) <= THIN_LINES:
        tips = [f"client {i}" + (f", {run.kind} {kin[i]}" if i in kin else "") for i in ids]
        thin = [Line(t, x, values[:, c], hues.get(kin.get(i, ""))) for c, (i, t) in enumerate(zip(ids, tips, strict=True))]
        return Chart(name="accuracy", thin=thin, thick=clusters, marks=marks, unit=unit)
    bands = []
    for group in hues or [""]:
        inside = values[:, [kin.get(i, "") == group for i in ids]]
        seen = np.isfinite(inside).any(axis=1)
        for low, high in ((0, 100), (10, 90)):
            ends = np.full((2, len(x)), np.nan)
            ends[:, seen] = np.nanpercentile(inside[seen], [low, high], axis=1)
            bands.append(Band(f"{run.kind} {group}" if group else "clients", x, ends[0], ends[1], hues.get(group)))
    return Chart(name="accuracy", bands=bands, thick=clusters, marks=marks, unit=unit)


def has_norms(run: Run) -> bool:
    """Whether any round recorded a positive norm of a cluster."""
    return any(number(v.get("mean")) > 0 for line in run.rounds for v in (line.get("norms") or {}).values())


def norms_chart(run: Run, marks: Sequence[float], hues: Mapping[str, int]) -> Chart:
    """Thick: norm of each cluster's mean update. Dashed: norm of its largest update."""
    points: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    members: dict[str, list[str]] = {}
    for k, line in enumerate(run.rounds):
        members |= {name: [str(i) for i in ids] for name, ids in (line.get("clusters") or {}).items()}
        for name, norm in (line.get("norms") or {}).items():
            for which in ("mean", "max"):
                value = number(norm.get(which))
                points[which, name].append((_round(line, k), value if value > 0 else math.nan))
    kin = run.kin
    hue = {name: hue_of_cluster(kin, members.get(name, ()), hues) for _, name in points}
    thick = [_line(name, values, hue[name]) for (which, name), values in points.items() if which == "mean"]
    dashed = [_line(f"{name}, largest update", v, hue[name]) for (which, name), v in points.items() if which == "max"]
    return Chart(name="norms", thick=thick, dashed=dashed, marks=marks, unit="log")


def traffic_charts(run: Run) -> tuple[Markup, ...]:
    """Bytes a round, wide and narrow; nothing when no round counted any."""
    up, down = (np.array([number(line.get(key)) for line in run.rounds]) for key in ("bytes_up", "bytes_down"))
    if not run.rounds or not (np.nansum(up) + np.nansum(down)):
        return ()
    x = np.array([_round(line, k) for k, line in enumerate(run.rounds)])
    return tuple(figures.traffic(x, np.nan_to_num(up), np.nan_to_num(down), width) for width in (WIDE, NARROW))


def matrix_panel(run: Run, split: Row, hues: Mapping[str, int]) -> dict[str, Any]:
    """A split's similarity matrix, ordered by child and then id, with what its caption says."""
    clients = [str(i) for i in split.get("clients") or []]
    children = {str(name): sorted_ids(ids) for name, ids in sorted((split.get("children") or {}).items())}
    kin = run.kin
    row = {i: r for r, i in enumerate(clients)}
    order = [i for ids in children.values() for i in ids if i in row]
    values = np.array([[number(v) for v in line] for line in split.get("similarity") or []], dtype=np.float64)
    drawable = bool(order) and values.shape == (len(clients), len(clients))
    sizes = {name: sum(i in row for i in ids) for name, ids in children.items()}
    picture, shown = None, None
    if drawable:
        index = [row[i] for i in order]
        values = values[np.ix_(index, index)]
        picture = figures.matrix(values, sizes, [hues.get(kin.get(i, ""), figures.HUES - 1) for i in order])
        if len(order) <= VALUES_SHOWN:
            shown = {"ids": order, "cells": [[None if math.isnan(v) else round(v, 2) for v in line] for line in values.tolist()]}
    named = {"cluster": str(split.get("cluster", "?")), "round": split.get("round"), "children": children, "sizes": sizes}
    return named | {"picture": picture, "shown": shown} | {k: number(split.get(k)) for k in ("cross", "gap", "gamma")}


def why_no_split(run: Run) -> str:
    """When nothing was split: a sentence that says so and, as far as the run recorded it, why. Empty when something was."""
    if run.splits:
        return ""
    start = f"No cluster was split in {len(run.rounds)} round{'s' * (len(run.rounds) != 1)}."
    if turned_down := len(run.summary.get("below_floor") or []):
        return f"{start} {turned_down} time(s) a part would have had fewer members than the floor allows."
    norms = [
        (number(n.get("mean")), number(n.get("max")), line.get("round"))
        for line in run.rounds
        for n in (line.get("norms") or {}).values()
    ]
    seen = [entry for entry in norms if math.isfinite(entry[0])]
    if not seen:
        return f"{start} The run recorded no norms of updates that would say why."
    mean, largest, when = min(seen)
    limits = [f"{key} = {value}" for key, value in flat(run.scenario) if key.rsplit(".", 1)[-1] in ("eps1", "eps2")]
    asked = f" This run asked for {' and '.join(limits)}." if limits else ""
    return (
        f"{start} CFL splits only when the mean update of a cluster is already short while single updates are still long, "
        f"which says that one model cannot please every member. Here the shortest mean update had norm {mean:.3g} "
        f"(round {when}), and the longest single update of that round {largest:.3g}.{asked}"
    )


def tree_nodes(run: Run) -> list[Row]:
    """The nodes of tree.json or, where an interrupted run left none, the ones that its rounds and splits imply."""
    if run.tree:
        return list(run.tree)
    roots = (run.rounds[0].get("clusters") or {}) if run.rounds else {}
    nodes = [{"name": name, "parent": None, "members": ids, "born": 0} for name, ids in roots.items()]
    for split in run.splits:
        for name, ids in (split.get("children") or {}).items():
            nodes.append({"name": name, "parent": split.get("cluster"), "members": ids, "born": split.get("round")})
    parents = {node["parent"] for node in nodes}
    return [node | {"leaf": node["name"] not in parents} for node in {n["name"]: n for n in nodes}.values()]


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
        recorded = math.nan if run.perplexity else number(node.get("accuracy"))
        score = recorded if math.isfinite(recorded) else ends.get(name, math.nan)
        said[name] = {
            "members": sorted_ids(node.get("members") or []),
            "born": node.get("born"),
            "leaf": node.get("leaf"),
            "score": score,
        }
    parents = {name: None if node.get("parent") is None else str(node["parent"]) for name, node in nodes.items()}
    return {"drawn": figures.tree(parents, parts), "said": said}


def grouping(run: Run, final: Mapping[str, Sequence[str]], hues: Mapping[str, int]) -> dict[str, Any]:
    """Found clusters in rows, planted groups in columns, client ids in the cells."""
    columns = [*hues] if run.groups else [""]
    rows = []
    for name, members in final.items():
        cells = {group: [i for i in members if run.groups.get(i, "") == group] for group in columns}
        rows.append(
            {"name": name, "size": len(members), "cells": [(cells[g], len(cells[g]) / max(1, len(members))) for g in columns]}
        )
    return {"columns": [(g, hues.get(g, 0) % figures.HUES) for g in columns], "rows": rows, "planted": bool(run.groups)}


def parties(run: Run) -> list[dict[str, Any]]:
    """What each party learned: the totals of the summary or, without one, those of the disclosure log; and in which rounds."""
    when: dict[tuple[str, str], set[int]] = defaultdict(set)
    totals: dict[tuple[str, str], dict[str, Any]] = {}
    for answer in run.answers:
        key = str(answer.get("recipient")), str(answer.get("what"))
        when[key].add(int(_round(answer, 0)))
        row = totals.setdefault(key, {"what": key[1], "words": answer.get("words"), "scalars": 0.0, "bytes": 0.0, "times": 0})
        row["scalars"], row["bytes"] = row["scalars"] + number(answer.get("scalars")), row["bytes"] + number(answer.get("bytes"))
        row["times"] += 1
    recorded = run.summary.get("disclosed") or {}
    names = [*dict.fromkeys(["server", "clients", *recorded, *(party for party, _ in totals)])]
    last = max((round for rounds in when.values() for round in rounds), default=0)
    found = []
    for party in names:
        rows = recorded[party] if party in recorded else [row for (to, _), row in totals.items() if to == party]
        spans = [_spans(when[party, str(row.get("what"))], last) for row in rows]
        found.append({"name": party, "rows": list(zip(rows, spans, strict=True)), "last": last})
    return found


def tiles(run: Run, final: Mapping[str, Sequence[str]]) -> list[Tile]:
    """The numbers of the headline."""
    last = scores(run, run.rounds[-1]) if run.rounds else {}
    before = scores(run, run.rounds[k]) if (k := _before(run)) is not None else {}
    recorded = {key: number(run.summary.get(key)) for key in ("accuracy_mean", "accuracy_before_clustering", "accuracy_worst")}
    mean, mean_before = average(run, last.values()), average(run, before.values())
    worst_id, low = worst(run, last)
    if not run.perplexity:
        mean = recorded["accuracy_mean"] if math.isfinite(recorded["accuracy_mean"]) else mean
        low = recorded["accuracy_worst"] if math.isfinite(recorded["accuracy_worst"]) else low
        if run.splits and math.isfinite(recorded["accuracy_before_clustering"]):
            mean_before = recorded["accuracy_before_clustering"]

    def say(value: float) -> str:
        return score_words(value, run.perplexity)

    was = f"{say(mean_before)} before clustering" if math.isfinite(mean_before) else "never split"
    low_before = worst(run, before)[1]
    was_low = f"; {say(low_before)} before" if math.isfinite(low_before) else ""
    planted = len(set(run.groups.values()))
    agree = [f"{key.upper() if key == 'ari' else key} {number(run.summary.get(key)):.2f}" for key in ("ari", "purity")]
    agree = [text for text in agree if "nan" not in text]
    up, down = (_total(run, key) for key in ("bytes_up", "bytes_down"))
    seconds = _total(run, "seconds")
    done = f"{len(run.rounds)} round{'s' * (len(run.rounds) != 1)}"
    each = f"{done}, {time_words(seconds / len(run.rounds))} each" if run.rounds and math.isfinite(seconds) else done
    return [
        Tile(f"mean {run.scale}", say(mean), was),
        Tile("worst client", say(low), f"client {worst_id}{was_low}" if worst_id else ""),
        Tile("groups found", f"{len(final)}" + (f" of {planted}" if planted else ""), ", ".join(agree)),
        Tile(
            "sent by clients",
            byte_words(up) if math.isfinite(up) else DASH,
            f"{byte_words(down)} received" if math.isfinite(down) else "",
        ),
        Tile("time", time_words(seconds), each),
    ]


def verdict(run: Run, final: Mapping[str, Sequence[str]]) -> str:
    """The run in a sentence or two."""
    clients, splits = len(client_ids(run)), len(run.splits)
    if not run.rounds:
        return (
            "The run was interrupted before its first round was finished." if run.interrupted else "The run recorded no rounds."
        )
    start = f"{clients} clients ended in {len(final)} cluster{'s' * (len(final) != 1)} after {splits} split{'s' * (splits != 1)}."
    if run.interrupted:
        return f"Interrupted after round {_round(run.rounds[-1], len(run.rounds) - 1):.0f}. Until then {start}"
    if not splits and len(final) == 1:
        return f"{clients} clients shared one model to the end; nothing was split."
    if not run.groups or not final:
        return start
    mixed = [name for name, members in final.items() if len({run.groups.get(i) for i in members}) > 1]
    torn = len(final) - len(set(run.groups.values()))
    if not mixed and not torn:
        return f"{start} They are exactly the planted groups."
    if not mixed:
        return f"{start} No cluster mixes planted groups, but some groups are spread over several clusters."
    return f"{start} {len(mixed)} of the clusters still mix{'es' * (len(mixed) == 1)} planted groups."


def table(run: Run) -> list[dict[str, Any]]:
    """The curves as numbers: at most 40 rounds, evenly spaced, the last one among them."""
    picked = sorted({round(k) for k in np.linspace(0, len(run.rounds) - 1, min(TABLE_ROUNDS, len(run.rounds)))})
    rows = []
    for k in picked:
        line = run.rounds[k]
        measured = scores(run, line)
        client, low = worst(run, measured)
        mean = average(run, measured.values())
        clusters = len(line.get("clusters") or {})
        rows.append({"round": f"{_round(line, k):.0f}", "mean": mean, "worst": low, "client": client, "clusters": clusters})
    return rows


def flat(value: object, prefix: str = "") -> Iterable[tuple[str, str]]:
    """Nested fields as (dotted name, text)."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _both(chart: Chart) -> tuple[Markup, Markup]:
    return figures.curves(chart, WIDE), figures.curves(chart, NARROW)


def _line(name: str, points: Sequence[tuple[float, float]], hue: int | None) -> Line:
    xy = np.array(points, dtype=np.float64)
    return Line(name, xy[:, 0], xy[:, 1], hue)


def _round(line: Row, position: int) -> float:
    """The number of a round, or its place in the file when it bears none."""
    value = number(line.get("round"))
    return value if math.isfinite(value) else float(position + 1)


def _before(run: Run) -> int | None:
    """Where the last round with a single cluster stands, if a split followed."""
    alone = [k for k, line in enumerate(run.rounds) if len(line.get("clusters") or {}) == 1]
    return alone[-1] if alone and run.splits and alone[-1] < len(run.rounds) - 1 else None


def _total(run: Run, key: str) -> float:
    recorded = number(run.summary.get(key))
    if math.isfinite(recorded):
        return recorded
    seen = [v for line in run.rounds if math.isfinite(v := number(line.get(key)))]
    return sum(seen) if seen else math.nan


def _spans(rounds: Iterable[int], last: int) -> list[tuple[float, float]]:
    """Runs of consecutive rounds as (start, length), in shares of 0..last."""
    spans: list[list[int]] = []
    for r in sorted(rounds):
        if spans and spans[-1][1] == r:
            spans[-1][1] = r + 1
        else:
            spans.append([r, r + 1])
    return [(a / (last + 1), (b - a) / (last + 1)) for a, b in spans]


def _read(path: Path, missing: Any) -> Any:
    if not path.is_file():
        return missing
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}); delete it to report without it") from error
    if type(value) is not type(missing):
        raise ValueError(f"{path} should hold a JSON {'object' if missing == {} else 'list'}; delete it to report without it")
    return value


def _read_lines(path: Path) -> list[Row]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    rows: list[Row] = []
    for k, line in enumerate(lines):
        try:
            row = json.loads(line)
        except ValueError as error:
            if k == len(lines) - 1:
                break
            raise ValueError(f"line {k + 1} of {path} is not JSON ({error}); delete that line") from error
        if not isinstance(row, dict):
            raise ValueError(f"line {k + 1} of {path} should be a JSON object; delete that line")
        rows.append(row)
    return rows
