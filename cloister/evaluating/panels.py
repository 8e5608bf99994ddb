"""The panels of an evaluation's report: each turns the grid into what its part of the page shows."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from markupsafe import Markup

from ..fl.runs.metrics import late_count
from ..fl.runs.results_folder import Row
from ..grids.spread import Spread, in_points, metric, percent
from ..grids.words import learned_words
from ..reporting.curves import NARROW, WIDE, Band, Chart, Line, draw_curves
from ..reporting.headings import Tile
from ..reporting.hues import HUES
from ..reporting.run_data import DASH, time_words
from ..threat_models.broken import Bounds, broken_words
from ..threat_models.chance import NOTHING
from .cells import METRICS, lasting
from .data import Grid, Spot
from .judging import SPENT, Finding, findings, seeds_words, without_words
from .over_seeds import broke_words, greatest
from .tables import NOT_PLAYED, absent_of, breakdown_words, by_words, clean_of, clean_words, without_result

WORDS = {"unmoved": "the rule had no result", "lost": "nothing was learned"}
BROKE = "\u00d7"
RATES = ("last poisoned round", "last round of all", "without attack")
"""What the three figures of a backdoor's success are."""


def tiles(grid: Grid) -> list[Tile]:
    """The numbers of the headline."""
    counts = {
        status: sum(r["status"] == status for rows in grid.cells.values() for r in rows)
        for status in ("done", "refused", "failed")
    }
    seconds = sum(metric(r, "cost", "seconds") for rows in grid.cells.values() for r in rows if r["status"] == "done")
    seeds = len(grid.about["seeds"])
    others = {"refused": counts["refused"], "failed": counts["failed"], "not played yet": grid.expected - sum(counts.values())}
    return [
        Tile("attacks", f"{len(grid.attacks)}", f"at {len(grid.strengths)} strength{'s' * (len(grid.strengths) != 1)}"),
        Tile("defences", f"{len(grid.defences)}", f"under {_grounds(grid)}"),
        Tile("seeds", f"{seeds}", "each paired with its runs without attack and without the attackers' data"),
        Tile(
            "cells",
            f"{counts['done']} of {grid.expected}",
            ", ".join(f"{n} {word}" for word, n in others.items() if n or word != "not played yet"),
        ),
        Tile("time", time_words(seconds), "of one core, evaluation of models left out"),
    ]


def defences(grid: Grid, protection: str) -> list[dict[str, Any]]:
    """Each defence at each strength: what is found of it, accuracy and backdoors together, beside the run without the attackers'
    data and the run without attack.
    """
    judged = findings(grid, protection)
    rows: list[dict[str, Any]] = []
    for defence in grid.defences:
        clean, known = clean_words(grid, defence, protection), without_result(grid, defence, protection)[0]
        missing = grid.missing(defence, protection)
        found = [one for one in judged if one.defence == defence]
        if not found:
            instead = known + ("" if known == NOT_PLAYED else "; see below")
            rows.append({"defence": defence, "clean": clean, "found": None, "instead": instead})
        for one in found:
            loyal = clean_words(grid, defence, protection, clean_of(grid, one))
            rows.append({"defence": defence, "clean": loyal, "found": _judged(grid, one), "missing": missing})
    return rows


def _judged(grid: Grid, one: Finding) -> dict[str, Any]:
    """A finding as its row of the table."""
    attack = one.harm.attack if one.harm else ""
    of = {name: one.over(one.harm, *path) for name, path, _ in METRICS}
    last, *others = (one.over(one.backdoor, "success", name) for name in ("last_poisoned", "mean", "clean_mean"))
    rates = [percent(last), *(DASH if of is None else f"{100 * of.mean:.1f}" for of in others)]
    return {
        "attackers": str(one.attackers) + ("" if one.built_for is None else f" (built for {one.built_for})"),
        "strength": f"{one.strength:g}",
        "absent": percent(absent_of(grid, one)),
        "attack": attack,
        "held": DASH if one.held is None else f"{100 * one.held.mean:.1f}",
        "under": percent(of["late"]),
        "worst_seed": _worst_seed(of["late"]),
        "lost": percent(one.harm.lost, -1) if one.harm else DASH,
        "backdoor": one.backdoor.attack if one.backdoor else DASH,
        "rates": [*zip(RATES, rates, strict=True)] if one.backdoor else [],
        "word": one.word,
        "beyond": one.within is False and one.word not in (NOTHING, *SPENT),
        "state": one.state.name.lower(),
        "why": why(one),
    }


def _grounds(grid: Grid) -> str:
    """Protections and partitions, in numbers."""
    counts = {"protection": len(grid.about["protections"]), "partition": len(grid.about["partitions"])}
    return ", on ".join(f"{n} {word}{'s' * (n != 1)}" for word, n in counts.items() if n)


def why(one: Finding) -> str:
    """What a finding rests on, where it is not plain from its numbers."""
    halves = (("by accuracy", one.harm), ("by accuracy at the end", one.ended), ("by a backdoor", one.backdoor))
    parts = [
        f"{words} in {of.broke} of {of.lost.count} seed{'s' * (of.lost.count != 1)}" for words, of in halves if of and of.broke
    ]
    if (ended := one.ended) is not None:
        parts += [f"{in_points(ended.lost.mean)} points are lost in the last evaluation, to {ended.attack}"]
    parts += [seeds_words(one.needs)] if one.needs is not None else []
    parts += [without_words(one.without, one.seeds)] if one.without else []
    return "; ".join(parts)


def _worst_seed(spot: Spread | None) -> str:
    return DASH if spot is None else f"{100 * spot.least:.1f}"


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart in two widths, with its title and its legend of (name, hue, whether dashed)."""

    title: str
    chart: tuple[Markup, ...]
    legend: Sequence[tuple[str, int, bool]]


def curves(grid: Grid) -> list[Panel]:
    """Accuracy over strength, with the interval of the mean: for each protection all defences against their worst attack, then
    each defence against every attack. Nothing where there is one strength.
    """
    if len(grid.strengths) < 2:
        return []
    strengths = sorted(grid.strengths)
    panels = []
    for number, protection in enumerate(grid.protections):
        under = f" under {protection}" if len(grid.protections) > 1 else ""
        clean = {d: [grid.clean(d, protection)] if from_zero(grid) else [] for d in grid.defences}
        of = {d: clean[d] + [_of_worst(grid, d, s, protection) for s in strengths] for d in grid.defences}
        panels.append(
            _panel(
                grid,
                f"Each defence{under} against the attack that leaves it least in the mean at each strength",
                f"worst{number}",
                of,
            )
        )
        for k, defence in enumerate(grid.defences):
            each = {a: clean[defence] + [grid.attacked(a, defence, s, protection) for s in strengths] for a in grid.attacks}
            panels.append(_panel(grid, f"{defence}{under} against each attack", f"attacks{number}-{k}", each))
    return [panel for panel in panels if panel.legend]


def from_zero(grid: Grid) -> bool:
    """Whether strength 0 is no attack, so that curves begin with the run without: where strengths count attackers."""
    return "attacker" in str(grid.about["strength"]) and min(grid.strengths) > 0


def _of_worst(grid: Grid, defence: str, strength: float, protection: str) -> Spread | None:
    attack = grid.worst_attack(defence, strength, protection)
    return None if attack is None else grid.attacked(attack, defence, strength, protection)


def _panel(grid: Grid, title: str, name: str, of: Mapping[str, Sequence[Spread | None]]) -> Panel:
    x = np.array([*([0.0] if from_zero(grid) else []), *sorted(grid.strengths)], dtype=np.float64)
    lines: list[Line] = []
    whiskers, legend = [], []
    gap = 0.006 * float(x[-1] - x[0])
    for hue, (label, spots) in enumerate(of.items()):
        if not any(spots[from_zero(grid) :]):
            continue
        mean = np.array([nan if s is None else s.mean for s in spots])
        ends = [(nan, nan) if s is None or s.count < 2 else s.ends() if s.tells else (s.least, s.most) for s in spots]
        lines.append(Line(label, x, mean, hue))
        legend.append((label, hue % HUES, hue >= HUES))
        aside = x + gap * (hue - (len(of) - 1) / 2)  # so that no interval hides another
        low, high = (np.array([pair[k] for pair in ends]) for k in (0, 1))
        whiskers.append(Band(label, aside, low, high, hue))
    first, later = [ln for ln in lines if (ln.hue or 0) < HUES], [ln for ln in lines if (ln.hue or 0) >= HUES]
    axis, ticks = str(grid.about["strength"]), [float(v) for v in x]
    chart = Chart(name=name, thin=first, dashed=later, whiskers=whiskers, unit="percent", axis=axis, ticks=ticks)
    return Panel(title, tuple(draw_curves(chart, width) for width in (WIDE, NARROW)), legend)


def breakdowns(grid: Grid) -> dict[str, Any]:
    """What breakdown searches found, if there were any."""
    if not grid.breakdown:
        return {}
    steps = grid.breakdown["steps"]
    rows = []
    for one in grid.breakdown["results"]:
        median, interval, remarks = breakdown_words(one, greatest(grid.breakdown))
        names = {key: one[key] for key in ("attack", "defence", "protection")}
        said = {
            "broke": broke_words(one),
            "median": median,
            "interval": interval,
            "by": by_words(one),
            "remarks": remarks,
            "tried": _tried(one),
        }
        rows.append(names | said)
    broken = broken_words(Bounds(**grid.breakdown["bounds"])) if rows else ""
    return {
        "steps": steps,
        "rows": rows,
        "broken": broken,
        "strength": grid.breakdown["strength"],
        "left_aside": grid.breakdown["left_aside"],
    }


def _tried(one: Row) -> str:
    """Every strength that was tried, by seed, with a cross where it broke."""
    seeds = []
    for seed in one["seeds"]:
        tried = " ".join(f"{strength:g}{BROKE if broke else ''}" for strength, broke in seed["tried"])
        if tried:
            seeds.append(f"seed {seed['seed']}: {tried}")
    return "; ".join(seeds)


def refusals(grid: Grid) -> list[dict[str, Any]]:
    """Cells without a result, and those with rounds that came to nothing, by reason."""
    found: dict[tuple[str, str, str, str], list[Row]] = {}
    for spot, rows in grid.cells.items():
        for row in rows:
            if row["status"] != "done":
                found.setdefault((row["status"], row["reason"], spot.defence, spot.protection), []).append(row)
                continue
            if row.get("unmoved"):
                found.setdefault(("unmoved", row["unmoved"]["reason"], spot.defence, spot.protection), []).append(row)
            if row.get("lost"):
                found.setdefault(("lost", row["lost"]["reason"], spot.defence, spot.protection), []).append(row)
    rows_ = []
    for (what, reason, defence, protection), rows in found.items():
        attacks = list(dict.fromkeys("no attack" if r["attack"] is None else r["attack"] for r in rows))
        rounds = sum((r.get(what) or {}).get("rounds", 0) for r in rows)
        rows_.append(
            {
                "what": WORDS.get(what, what) + (f" in {rounds} rounds" if rounds else ""),
                "defence": defence,
                "protection": protection,
                "attacks": "all" if len(attacks) > len(grid.attacks) else ", ".join(attacks),
                "cells": len(rows),
                "reason": reason,
            }
        )
    return sorted(rows_, key=lambda row: (row["what"], row["defence"], row["protection"]))


def backdoor_courses(grid: Grid) -> list[dict[str, str]]:
    """How every backdoor fares: in its last poisoned round, at its peak, in the last round of all, and how it decays between."""
    rows = []
    for spot in (Spot(a, d, s, p) for p in grid.protections for d in grid.defences for s in grid.strengths for a in grid.attacks):
        cells = grid.rows(str(spot.attack), spot.defence, spot.strength or 0.0, spot.protection)
        of = {name: grid.over_seeds(cells, "success", name) for name in ("last_poisoned", "peak", "mean", "clean_mean", "worst")}
        last, end = of["last_poisoned"], of["mean"]
        if last is None or end is None:
            continue
        said = {
            "protection": spot.protection,
            "defence": spot.defence,
            "attack": str(spot.attack),
            "strength": f"{spot.strength:g}",
        }
        rounds = grid.over_seeds(cells, "success", "last_poisoned_round")
        said |= {name: percent(value) for name, value in of.items()} | {"round": DASH if rounds is None else f"{rounds.mean:g}"}
        rows.append(said | {"decay": f"{100 * (last.mean - end.mean):.1f}", "half": lasting(cells)})
    return rows


def late_words(grid: Grid) -> str:
    """How many evaluations a run is judged by."""
    counts = {len(r["rounds"]) for rows in grid.cells.values() for r in rows if r["status"] == "done" and r.get("rounds")}
    words = sorted({f"{late_count(n)} of {n}" for n in counts}, key=lambda text: int(text.split()[-1]))
    return f": the last {' or '.join(words)} here" if words else ""


def command(grid: Grid) -> str:
    """The command line, or the call of an evaluation that Python made, that plays it again."""
    origin = grid.about.get("origin") or {"file": "FILE.py", "settings": []}
    if origin["file"] is None:
        return f"cloister.evaluate(evaluation, seeds={tuple(grid.about['seeds'])})"
    settings = [word for setting in origin["settings"] for word in ("--set", setting)]
    seeds = ",".join(map(str, grid.about["seeds"]))
    return shlex.join(["cloister", "evaluate", origin["file"], *settings, "--seeds", seeds])


def nobody_loyal(grid: Grid) -> list[str]:
    """Attacks with which, in some cell, no client is loyal throughout: their accuracies are those of all clients."""
    found = {row["attack"] for rows in grid.cells.values() for row in rows if row["status"] == "done" and row.get("loyal") == 0}
    return [attack for attack in grid.attacks if attack in found]


def learned(grid: Grid) -> list[dict[str, Any]]:
    """What each party but the clients learned in a run without attack, and what it cost, by defence and protection."""
    rows = []
    for protection in grid.protections:
        for defence in grid.defences:
            cells = grid.rows(None, defence, None, protection)
            if not cells:
                continue
            up, down, server = (grid.over_seeds(cells, *p) for p in (("bytes_up",), ("bytes_down",), ("cost", "server_ms")))
            rows.append(
                {
                    "defence": defence,
                    "protection": protection,
                    "words": learned_words(cells[0]),
                    "up": up.mean if up else nan,
                    "down": down.mean if down else nan,
                    "server": server.mean if server else nan,
                }
            )
    return rows
