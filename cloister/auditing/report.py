"""The page of an audit, made from its folder alone: verdicts first, then what each party could find."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import TemplateError
from markupsafe import Markup

from ..reporting.curves import NARROW, WIDE, Chart, Line, draw_curves
from ..reporting.headings import Tile
from ..reporting.page import environment, write_page
from ..reporting.run_data import flat, time_words
from ..threat_models.audit.scoring import BOUND, SEEDS
from ..threat_models.audit.uncovered import by_guessing
from ..threat_models.audit.uncovered import untried as nothing_tried
from .first_words import notes, sentences
from .tables import found_at_most, share

BUDGET_WORDS = {
    "victims": "clients whose single records are tried, at most",
    "records": "records of each such client that are tried, at most, and as many that it has not",
    "shadows": "shadow models, each trained with half of these records, a client and round",
    "clients": "clients made up of public examples, to learn properties and labels from",
    "steps": "steps of optimisers that seek images",
}
"""What the fields of a `Budget` are."""
VERDICTS = ("refuted", "inconclusive", "not covered", "not refuted")


def ends(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """What a row's values are of: the view, and what its leakage is 0 and 1 at."""
    return "here", str(row.get("anchor", "sums alone")), "everything"


def write_audit_report(folder: Path) -> Path:
    """Writes `folder`/report.html and returns its path. Raises ValueError where there is no audit, or a damaged one."""
    try:
        text = (folder / "audit.json").read_bytes()
    except OSError:
        raise ValueError(f"{folder} holds no audit; give a scenario's file, for example cloister:quickstart") from None
    with whole(folder):
        found = json.loads(text.decode())
        page = render(found)
    return write_page(folder, page)


@contextmanager
def whole(folder: Path) -> Iterator[None]:
    """Whatever an audit's contents break while they are read is a ValueError of one line that names the folder."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, TemplateError) as error:
        reason = " ".join(str(error).split())[:200]
        why = f"it has no {reason}" if isinstance(error, KeyError) else f"{type(error).__name__}: {reason}"
        raise ValueError(
            f"the audit in {folder} is damaged: {why}; take a whole copy of its folder, or audit once more"
        ) from None


def render(found: Mapping[str, Any]) -> str:
    """The page as text. Everything that comes from the audit is escaped by the template."""
    template = environment(Path(__file__).parent).get_template("audit.html.j2")
    return template.render(
        kind="audit",
        title=str(found["name"]),
        said=sentences(found),
        tiles=tiles(found),
        claims=claims(found),
        notes=notes(found),
        observers=observers(found),
        few=len(found["seeds"]) < SEEDS,
        rocs=rocs(found),
        histograms=histograms(found),
        meters=meters(found),
        pictures=pictures(found),
        untried=untried(found),
        scenario=[*flat(found["scenario"])],
        budget=spent(found),
        machine=[*flat(found["versions"]), *flat(found["machine"])],
    )


def spent(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the audit was allowed, in words, with the seeds that were audited and not how many a budget has."""
    budget = found["budget"]
    rows = [("budget", str(budget["name"])), ("seeds of the runs", ", ".join(map(str, found["seeds"])))]
    return rows + [(words, str(budget[key])) for key, words in BUDGET_WORDS.items() if key in budget]


def claims(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every claim with the observer that it was tried against, the worst verdicts first. stands: whether it was not refuted."""
    rows = [
        {**claim, "observer": row["observer"], "experiment": row["experiment"], "upper": found_at_most(claim, row)}
        | {"stands": claim["verdict"] == "not refuted"}
        for row in found["rows"]
        for claim in row["claims"]
    ]
    return sorted(rows, key=lambda c: (c["whose"] != "Cloister", VERDICTS.index(c["verdict"])))


def tiles(found: Mapping[str, Any]) -> list[Tile]:
    """The numbers of the headline."""
    ours = Counter(c["verdict"] for c in claims(found) if c["whose"] == "Cloister")
    seen = [str(r["observer"]) for r in found["rows"]]
    whose = "server" if "server" in seen or not seen else seen[0]  # where one coalition alone was tried, it is the one
    tried = [r for r in found["rows"] if r["observer"] == whose and r["leakage"]]
    alone = [r for r in tried if r["leakage"]["valid"] and not r["leakage"].get("few_runs")]
    unjudged = [r["experiment"] for r in tried if r not in alone]
    most = max(alone, key=lambda r: r["leakage"]["upper"], default=None)
    value = "none" if most is None else f"{max(0.0, most['leakage']['upper']):.2f}"
    detail = "no attack works even in clear"
    if not tried:
        value, detail = "not tried", nothing_tried(found["rows"]).get(whose, "no attack is asked for")
    if most is not None:
        leak = most["leakage"]
        measured, low, high = (max(0.0, leak[name]) for name in ("value", "low", "high"))
        detail = (
            f"at most, at 95 % one-sided, of {most['experiment']}, where {measured:.2f} was found (two-sided 95 % interval"
            f" {low:.2f} to {high:.2f}); 1 is everything"
        )
    if lone := [r for r in tried if r["leakage"].get("lone")]:
        many = [f"{len(r['leakage']['exposed'])} of {r['leakage']['victims']} by {r['experiment']}" for r in lone]
        detail = (
            f"{detail}. " if most is not None else ""
        ) + f"Victims exposed, though on the mean there is too little to find: {', '.join(many)}"
        value = "exposed" if most is None else value
        unjudged = [name for name in unjudged if name not in {r["experiment"] for r in lone}]
    if most is not None and unjudged:
        detail += f". Of {len(alone)} of {len(tried)} things sought; {', '.join(unjudged)} could not be judged"
    if any(c["verdict"] == "refuted" and c["experiment"] == "masks" for c in claims(found)):
        detail += ". By attacks alone, which do not use the fault that the test of masks found"
    return [
        Tile("refuted", str(ours["refuted"]), "claims of Cloister's"),
        Tile("not refuted", str(ours["not refuted"]), "by attacks and tests; never proven"),
        Tile(
            "not judged",
            str(ours["inconclusive"] + ours["not covered"]),
            "the attack fails in clear too, few victims, or nothing could try it",
        ),
        Tile("not promised", str(sum(len(one["claims"]) for one in found.get("unclaimed", ()))), "of other settings alone"),
        Tile("the server alone" if whose == "server" else whose, value, detail),
        Tile(
            "time", time_words(found["seconds"]), f"budget {found['budget']['name']}, seeds {', '.join(map(str, found['seeds']))}"
        ),
    ]


def observers(found: Mapping[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """What was measured, by observer; ends of bars as shares of the drawing's width."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in found["rows"]:
        if (leak := row["leakage"]) is not None:
            ends = {name: 100 * _within(leak[name]) for name in ("low", "value", "high")} if leak["valid"] else None
            told = row["told"].get("here")
            words = {name: share(leak[name]) for name in ("low", "value", "high")}
            words |= {name: share(leak[name], 3) for name in ("here", "aggregate", "plain")}
            shown = {"bar": ends, "words": words, "told_here": told}
            shown["by_chance"] = bool(ends) and leak["value"] > BOUND and by_guessing(row)
            groups.setdefault(row["observer"], []).append({**row, **shown})
    return [*groups.items()]


def untried(found: Mapping[str, Any]) -> list[tuple[str, str, list[str]]]:
    """Experiments that measured nothing, each once for each reason, with the observers that it holds for."""
    by: dict[tuple[str, str], list[str]] = {}
    for row in found["rows"]:
        if row["leakage"] is None and not row.get("tested"):
            by.setdefault((row["experiment"], row["reason"]), []).append(row["observer"])
    return [(*what, observers) for what, observers in by.items()]


def _within(value: float) -> float:
    return float(min(max((value + 0.05) / 1.1, 0.0), 1.0))


def _pair(chart: Chart) -> tuple[Markup, Markup]:
    return draw_curves(chart, WIDE), draw_curves(chart, NARROW)


def rocs(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Curves of experiments that tell members from others: what was found here between its ends."""
    panels = []
    for k, row in enumerate(found["rows"]):
        if "here" not in row["roc"]:
            continue
        lines = []
        for name in (n for n in ends(row) if n in row["roc"]):
            x, y = np.array(row["roc"][name], np.float64).T
            lines.append(Line(name, x, y, None if name == "here" else ends(row).index(name) - 1))
        chance = Line("chance", np.array([0.0, 1.0]), np.array([0.0, 1.0]))
        chart = Chart(name=f"roc{k}", thick=lines, dashed=[chance], axis="false positive rate", ticks=(0, 0.25, 0.5, 0.75, 1))
        panels.append({"title": f"{row['experiment']}, {row['observer']}", "figure": _pair(chart)})
    return panels


def histograms(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How values spread over victims, where the attack means something."""
    panels = []
    edges = np.linspace(0, 1, 21)
    for k, row in enumerate(found["rows"]):
        if row["leakage"] is None or not row["leakage"]["valid"] or row["observer"] in ("network",):
            continue
        middles = (edges[1:] + edges[:-1]) / 2
        counts = {n: np.histogram(np.clip(row["values"][n], 0, 1), edges)[0].astype(np.float64) for n in ends(row)}
        lines = [Line(n, middles, counts[n], hue=None if n == "here" else ends(row).index(n) - 1) for n in ends(row)]
        chart = Chart(name=f"histogram{k}", thick=lines, axis=row["unit"], ticks=(0, 0.25, 0.5, 0.75, 1))
        panels.append({"title": f"{row['experiment']}, {row['observer']}", "figure": _pair(chart)})
    return panels


def meters(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """Span and participation, as they grew with the rounds of the first seed."""
    read = [(t, of) for t, of in found["meters"][0]["rounds"] if of] if found["meters"] else []
    if not read:
        return None
    x = np.array([t for t, _ in read], np.float64)

    def line(name: str, words: str, hue: int) -> Line | None:
        y = [np.nan if of.get(name) is None else of[name]["largest"] for _, of in read]
        return None if np.isnan(y).all() else Line(words, x, np.array(y, np.float64), hue)

    known = (
        line("span", "single updates", 0),
        line("temporal", "habits", 1),
        line("leverage", "taking part", 2),
        line("information", "told apart", 3),
    )
    lines = [one for one in known if one is not None]
    return {"figure": _pair(Chart(name="meters", thick=lines)), "seed": found["meters"][0]["seed"]} if lines else None


def pictures(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Images that were recovered, beside what they should have been."""
    return [
        {
            "title": f"{row['experiment']}, {row['observer']}",
            "pairs": row["pictures"]["pairs"],
            "words": row["pictures"].get("words", ""),
        }
        for row in found["rows"]
        if row["pictures"].get("pairs")
    ]
