"""The panels of a comparison's page: each turns what was found into what its part of the page shows."""

from math import isfinite, nan
from typing import Any

from ..fl.runs.results_folder import Row
from ..grids.spread import metric
from ..grids.words import learned_words
from ..reporting.headings import Tile
from ..reporting.run_data import DASH, time_words
from .data import Found, Spot
from .lines import Line, block_lines, columns, marked
from .matrix import drawn
from .texts import WORDS

FIRST = ("accuracy", "worst", "over_yardstick", "clusters", "ari", "purity")
"""Columns of a block's first table, before the comparison's own measures and attacks; the others are its second one's."""


def tiles(found: Found) -> list[Tile]:
    """The numbers of the headline."""
    rows = [row for lines in found.cells.values() for row in lines]
    counts = {status: sum(row["status"] == status for row in rows) for status in ("done", "refused", "failed")}
    seconds = sum(v for row in rows if isfinite(v := metric(row, "cost", "seconds")))
    search = found.about["search"]
    counts_of = [len(found.method(m)["configurations"]) for m in found.methods]
    least, most = min(counts_of), max(counts_of)
    tried = f"{f'{least} to ' * (least < most)}{most} configuration{'s' * (most > 1)} of each searched"
    tried = "nothing searched" if search is None else tried
    others = ", ".join(f"{count} {status}" for status, count in counts.items() if status != "done")
    seeds = ", ".join(map(str, found.seeds))
    return [
        Tile("scale", found.about["scale"], "of every number on this page"),
        Tile("methods", f"{len(found.methods)}", tried),
        Tile("data sets", f"{len(found.data)}", f"under {', '.join(found.protections)}"),
        Tile("runs", f"{counts['done']}", f"{others}; seed{'s' * (len(found.seeds) > 1)} {seeds}"),
        Tile("time", time_words(seconds + found.searching), f"of one core, {time_words(found.searching)} of it for searching"),
    ]


def overview(found: Found) -> dict[str, Any]:
    """Mean accuracy of every method in every block."""
    of = {block: {line.method: line for line in block_lines(found, *block)} for block in found.blocks}
    several = len(found.protections) > 1
    heads = [f"{data}, {protection}" if several else data for data, protection in found.blocks]
    rows = [(marked(found, m), [_accuracy(of[block][m]) for block in found.blocks]) for m in found.methods]
    return {"heads": heads, "rows": rows}


def _accuracy(line: Line) -> dict[str, Any]:
    """A cell of accuracy. share: for its bar, NaN without."""
    spot = line.numbers["accuracy"]
    return {"words": line.accuracy, "best": line.best, "share": spot.mean if spot else nan, "tip": line.instead}


def blocks(found: Found) -> list[dict[str, Any]]:
    """The tables of every block."""
    return [_block(found, data, protection) for data, protection in found.blocks]


def _block(found: Found, data: str, protection: str) -> dict[str, Any]:
    heads = columns(found)
    attacks = [key for key in heads if key.startswith("attack ")] if protection in found.attacked else []
    own = [key for key in heads if key.startswith("measure ")]
    first = [key for key in (*FIRST[1:], *own, *attacks) if key in heads]
    second = [key for key in heads if key not in (*FIRST, *first) and not key.startswith("attack ")]
    rows = []
    for line in block_lines(found, data, protection):
        at = line.standing
        fit = data in found.method(line.method)["fits"]
        row = {"method": marked(found, line.method), "fits": fit, "accuracy": _accuracy(line), "instead": line.instead}
        row |= {"first": [line.words[key].split(", ") for key in first], "second": [line.words[key] for key in second]}
        row |= {"words": line.words, "has": line.numbers["accuracy"] is not None}
        row |= {"counts": DASH if at is None else f"{at.wins} / {at.losses} / {at.ties} / {at.undecided}"}
        rows.append(row)
    return {
        "data": data,
        "protection": protection,
        "first": [heads[key] for key in first],
        "second": [heads[key] for key in second],
        "rows": rows,
        "words": [WORDS[key] for key in ("learned", "searched", "settings")],
    }


def matrices(found: Found) -> list[dict[str, Any]]:
    """What each method grouped its clients by, in the first run of a block that recorded it; and who has none."""
    sections = []
    for data, protection in found.blocks:
        shown, without = [], []
        for method in found.methods:
            rows = found.lines(Spot(data, method, protection))
            row: Row | None = next((row for row in rows if row.get("matrix")), None)
            if row is None:
                without += [method] if rows else []
                continue
            of, matrix = drawn(row["matrix"], row["groups"]), row["matrix"]
            planted = len({*row["groups"].values()}) > 1
            shown.append(of | {"method": method, "kind": matrix["kind"], "round": matrix["round"], "seed": row["seed"]})
            shown[-1] |= {"eps": matrix["eps"], "planted": planted}
        if shown:
            sections.append({"data": data, "protection": protection, "shown": shown, "without": without})
    return sections


def learned(found: Found) -> list[dict[str, Any]]:
    """What every server learned, in words, and what it pieces together, in the run of the first seed."""
    rows = []
    for data, protection in found.blocks:
        for method in found.methods:
            lines = found.lines(Spot(data, method, protection))
            if lines:
                row = {"data": data, "protection": protection, "method": marked(found, method)}
                rows.append(row | {"words": learned_words(lines[0])})
    return rows


def searches(found: Found) -> list[dict[str, Any]]:
    """Every configuration with its accuracy on validation data, and which was chosen."""
    rows = []
    for (data, method), choice in found.choices.items():
        configurations = found.method(method)["configurations"]
        for k, settings in enumerate(configurations if choice and len(choice.scores) == len(configurations) else ()):
            score = choice.scores[k] if choice else None
            row = {"data": data, "method": marked(found, method), "chosen": choice is not None and k == choice.configuration}
            rows.append(row | {"score": nan if score is None else score, "settings": settings})
    return rows
