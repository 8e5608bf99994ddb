"""A run folder as the report reads it: what is there, in any state of completion, and the numbers that follow from it."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .folders_within import near_folder, within
from .gaps import check_rounds
from .helper_folder import of_helper
from .summary_kinds import wrong_kind

Row = Mapping[str, Any]
DASH = "\u2013"
LOWER = ("MSE", "MAE")
HIGHER = ("balanced accuracy", "macro F1", "AUC", "R2")


@dataclass(frozen=True, slots=True)
class Run:
    """What a run folder holds; whatever is missing there is empty here. Client ids are strings throughout.

    path: as it was given. torn: files of lines whose last one was cut off while it was written, and is left out. ended: why the
    run ended before its last round, where it was not stopped.
    """

    folder: str
    summary: Row
    scenario: Row
    rounds: Sequence[Row]
    splits: Sequence[Row]
    similarities: Sequence[Row]
    pairs: Sequence[Row]
    answers: Sequence[Row]
    tree: Sequence[Row]
    privacy: Row
    origin: Row = field(default_factory=dict)
    presence: Sequence[Row] = ()
    path: str = ""
    link: Row = field(default_factory=dict)
    other_terms: Sequence[Row] = ()
    torn: Sequence[str] = ()
    exposure: Row = field(default_factory=dict)
    ended: str = ""

    @property
    def interrupted(self) -> bool:
        """Whether the run ended before it wrote its summary."""
        return not self.summary

    @property
    def perplexity(self) -> bool:
        """Whether the run is of a language model: it says so, or it stopped before it could and measured nothing but losses."""
        metric = self.summary.get("metric") or self.scenario.get("metric")
        seen = [r for r in self.rounds if r.get("loss")]
        unsaid = not self.summary and bool(seen) and not any(r.get("accuracy") or r.get("metrics") for r in seen)
        return metric == "perplexity" or (not metric and unsaid)

    @property
    def named(self) -> str:
        """The metric that a run of numbers is measured by, R2 for instance; empty where that is accuracy or perplexity."""
        metric = str(self.summary.get("metric") or "")
        if not metric and not any(r.get("accuracy") for r in self.rounds):
            metric = next((str(next(iter(r["metrics"]))) for r in self.rounds if r.get("metrics")), "")
        return "" if metric in ("accuracy", "perplexity") else metric

    @property
    def less_is_better(self) -> bool | None:
        """Of what the run is measured by; None of a function of the user's that does not say."""
        if self.perplexity or not self.named:
            return self.perplexity
        return less_is_better(self.named, (self.summary.get("metrics") or {}).get(self.named) or {})

    @property
    def in_percent(self) -> bool:
        """Whether what the run is measured by is a share, shown in percent: accuracy."""
        return not self.perplexity and not self.named

    def name_of(self, client: object) -> str:
        """A client's own name, where it has one; else its id."""
        return str((self.summary.get("names") or {}).get(str(client), client))

    def client(self, client: object) -> str:
        """The same in a sentence: "client 3" where it has no name."""
        name = self.name_of(client)
        return name if name != str(client) else f"client {name}"

    @property
    def groups(self) -> dict[str, str]:
        """Planted group of every client id; the corrupt clients are one of their own. Empty when the data has none, or one alone,
        of which no cluster can tell anything.
        """
        corrupt = {str(i) for i in self.summary.get("corrupt") or []}
        planted = {str(i): str(g) for i, g in (self.summary.get("groups") or {}).items()}
        found = {i: "corrupt" if i in corrupt else g for i, g in planted.items()}
        return found if len({*found.values()}) > 1 else {}

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
        return "perplexity" if self.perplexity else self.named or "accuracy"


STOPPED = "holds an audit that was stopped: the command that began it goes on with --out and this folder, and --resume"


def read_run(folder: Path) -> Run:
    """Reads the JSON files of a run folder. A last line that was cut off while it was written is left out.

    Raises ValueError of one line where there is none, where a file is damaged, or where rounds of a run that is over are gone.
    """
    names = ("summary.json", "scenario.json", "metrics.jsonl")
    if not folder.is_dir():
        if meant := near_folder(folder):
            raise ValueError(f"there is no folder {folder}{meant}")
        where = "" if folder.is_absolute() else f"it is looked for in {Path.cwd()}; "
        raise ValueError(f"there is no folder {folder}; {where}runs are under runs/ where nothing else was said")
    if not any((folder / name).is_file() for name in names):
        if (folder / "playing" / "asked.json").is_file():
            raise ValueError(f"{folder} {STOPPED}")
        if (folder / "audit.json").is_file():
            raise ValueError(f"{folder} is the folder of an audit; its report is made by: cloister audit {folder}")
        if (folder / "journal").is_dir() or (folder / "link.json").is_file():
            raise ValueError(f"{folder} is the folder of a coordinator whose run has not begun: no round was played in it yet")
        if (folder / "join.jsonl").is_file():
            raise ValueError(
                f"{folder} is a client's own folder, of what it saw of a run: its page is made by: cloister report {folder}; what"
                " came of the run is in the coordinator's folder, and pandas.read_json(.../join.jsonl, lines=True) reads this one"
            )
        if helpers := of_helper(folder):
            raise ValueError(helpers)
        raise ValueError(
            within(folder)
            or f"{folder} is no run folder: it holds none of {', '.join(names)}; give the folder that `cloister run` wrote"
        )
    torn: list[str] = []

    def lines(name: str) -> list[Row]:
        rows, whole = _read_lines(folder / name)
        torn.extend([] if whole else [name])
        return rows

    summary, rounds = _read(folder / "summary.json", {}), lines("metrics.jsonl")
    if wrong := wrong_kind(summary):
        raise ValueError(f"{folder / 'summary.json'} is damaged: {wrong}; {_without(folder / 'summary.json')}")
    check_rounds(folder / "metrics.jsonl", summary, rounds)
    return Run(
        folder.resolve().name,
        summary,
        _read(folder / "scenario.json", {}),
        rounds,
        lines("splits.jsonl"),
        lines("similarities.jsonl"),
        lines("pairs.jsonl"),
        lines("disclosure.jsonl"),
        _read(folder / "tree.json", []),
        _read(folder / "privacy.json", {}),
        _read(folder / "origin.json", {"served": True} if (folder / "link.json").is_file() else {}),
        lines("presence.jsonl"),
        str(folder),
        _read(folder / "link.json", {}),
        lines("other_terms.jsonl"),
        torn,
        _read(folder / "exposure.json", {}),
        str(_read(folder / "ended.json", {}).get("why", "")),
    )


def number(value: object) -> float:
    """A finite number as it is, everything else (None, text, infinities) as NaN."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return math.nan


def score_words(value: float, plain: bool) -> str:
    """0.9312 is "93.1 %", or 3 digits if plain, as a perplexity; a dash when there is none."""
    if not math.isfinite(value := number(value)):
        return DASH
    return f"{value:.3g}" if plain else f"{100 * value:.1f} %"


def less_is_better(metric: str, said: Row) -> bool | None:
    """Of a metric, by what a summary has of it; None of one of which nobody knows."""
    known = {**dict.fromkeys(HIGHER, False), **dict.fromkeys(LOWER, True)}.get(metric)
    found = said.get("less_is_better", known)
    return found if isinstance(found, bool) else None


def time_words(seconds: object) -> str:
    """A duration in the unit that a person would choose: "48 s", "12 min", "3.5 h"."""
    value = number(seconds)
    if not math.isfinite(value):
        return DASH
    if value < 90:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 5400 else f"{value / 3600:.1f} h"


def scores(run: Run, line: Row) -> dict[str, float]:
    """Accuracy, perplexity = exp(loss), or the first metric of numbers, of every client in one round; NaN where not measured."""
    if run.named:
        return {str(i): number(v) for i, v in ((line.get("metrics") or {}).get(run.named) or {}).items()}
    if not run.perplexity:
        return {str(i): number(v) for i, v in (line.get("accuracy") or {}).items()}
    return {str(i): math.exp(v) if (v := number(loss)) < 100 else math.nan for i, loss in (line.get("loss") or {}).items()}


def evaluated(run: Run) -> list[tuple[float, Row]]:
    """The rounds in which clients were measured, with their numbers; all of them when none was."""
    rounds = [(round_of(line, k), line) for k, line in enumerate(run.rounds)]
    return [(t, line) for t, line in rounds if scores(run, line)] or rounds


def is_served(run: Run) -> bool:
    """Whether clients were processes of their own, with secrets of their own."""
    return bool(run.origin.get("served") or (run.summary.get("account") or {}).get("elsewhere"))


def was_scored(run: Run) -> bool:
    """Whether anybody said, in any round, how well a client's model predicts."""
    return any(scores(run, line) for line in run.rounds)


def average(run: Run, values: Iterable[float]) -> float:
    """The mean of what was measured; of perplexities the geometric mean, which is exp of the mean loss."""
    seen = [v for v in values if math.isfinite(v)]
    if not seen:
        return math.nan
    return math.exp(sum(map(math.log, seen)) / len(seen)) if run.perplexity else sum(seen) / len(seen)


def worst(run: Run, values: Mapping[str, float]) -> tuple[str, float]:
    """The client that fares worst and its score; an empty id where nothing was measured, or nobody knows which way is better."""
    seen = {i: v for i, v in values.items() if math.isfinite(v)}
    if not seen:
        return "", math.nan
    if (less := run.less_is_better) is None:
        return "", math.nan
    client = (max if less else min)(seen, key=lambda i: seen[i])
    return client, seen[client]


def client_ids(run: Run) -> list[str]:
    """Every client that the run speaks of."""
    members = {str(i) for line in run.rounds for inside in (line.get("clusters") or {}).values() for i in inside}
    dealt = set(map(str, run.summary.get("groups") or {})) | set(map(str, run.summary.get("unplaced") or ()))
    return sorted_ids({str(i) for line in run.rounds for i in scores(run, line)} | members | dealt)


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


def round_of(line: Row, position: int) -> float:
    """The number of a round, or its place in the file when it bears none."""
    value = number(line.get("round"))
    return value if math.isfinite(value) else float(position + 1)


def round_before(run: Run) -> int | None:
    """Where the last round with a single cluster stands, if a split followed."""
    alone = [k for k, line in enumerate(run.rounds) if len(line.get("clusters") or {}) == 1]
    return alone[-1] if alone and run.splits and alone[-1] < len(run.rounds) - 1 else None


def total(run: Run, key: str) -> float:
    recorded = number(run.summary.get(key))
    if math.isfinite(recorded):
        return recorded
    seen = [v for line in run.rounds if math.isfinite(v := number(line.get(key)))]
    return sum(seen) if seen else math.nan


def spans_of_rounds(rounds: Iterable[int], last: int) -> list[tuple[float, float]]:
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
        raise ValueError(f"{path} is not JSON ({error}): it is damaged; {_without(path)}") from error
    if type(value) is not type(missing):
        kind = "object" if isinstance(missing, dict) else "list"
        raise ValueError(f"{path} should hold a JSON {kind}; {_without(path)}")
    return value


def _without(path: Path) -> str:
    """What to do about a damaged file: without its summary a run counts as one that is not over."""
    if path.name == "summary.json":
        return "delete it and go on with the run (--resume, in Python resume=True), which writes it anew"
    return "delete it to report without it"


def _read_lines(path: Path) -> tuple[list[Row], bool]:
    """Its rows, and whether the last line is whole."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    rows: list[Row] = []
    for k, line in enumerate(lines):
        try:
            row = json.loads(line)
        except ValueError as error:
            if k == len(lines) - 1:
                return rows, False
            raise ValueError(f"line {k + 1} of {path} is not JSON ({error}); delete that line") from error
        if not isinstance(row, dict):
            raise ValueError(f"line {k + 1} of {path} should be a JSON object; delete that line")
        rows.append(row)
    return rows, True


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


def flat(value: object, prefix: str = "") -> Iterable[tuple[str, str]]:
    """Nested fields as (dotted name, text)."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from flat(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
