"""A comparison as Markdown, as CSV, on the terminal and as JSON."""

import csv
import io
from collections.abc import Iterable
from typing import Any

from rich.markup import escape
from rich.table import Table

from ..fl.runs.results_folder import strict
from ..tables_out import SHARE, in_markdown, markdown_of
from .data import Found, Spot
from .lines import Line, block_lines, columns, holds_updates, marked
from .notes import fits, fits_words, footnotes
from .scale import columns_of
from .verdict import headline

SHOWN = ("accuracy", "worst", "over_yardstick", "clusters", "ari", "cpu_seconds")
"""The terminal's columns, beside those of the comparison's own measures and of attacks."""
WORDS = {"learned": "servers were told", "searched": "searched", "settings": "settings", "verdict": "verdict"}


def title(found: Found, data: str, protection: str) -> str:
    """What stands above a block."""
    return f"{found.about['name']}: {data} under {protection}, scale {found.about['scale']}"


def markdown(found: Found) -> str:
    """All methods beside each other, then every block with all columns, and what they mean."""
    parts = [in_markdown(f"# {found.about['name']}"), in_markdown(headline(found)), "## Mean accuracy, %", _overview(found)]
    for data, protection in found.blocks:
        lines = block_lines(found, data, protection)
        parts += [in_markdown(f"## {data} under {protection}, scale {found.about['scale']}"), _block(found, lines)]
    parts += ["\n".join(in_markdown(f"- {note}") for note in [fits_words(found, fits(found)), *footnotes(found)] if note)]
    return "\n\n".join(parts) + "\n"


def _overview(found: Found) -> str:
    blocks = found.blocks
    heads = [f"{data}, {protection}" if len(found.protections) > 1 else data for data, protection in blocks]
    of = {block: {line.method: line for line in block_lines(found, *block)} for block in blocks}
    rows = [[marked(found, m), *(_cell(of[block][m], "accuracy") for block in blocks)] for m in found.methods]
    return markdown_of([f"method ({found.about['scale']})", *heads], rows)


def _block(found: Found, lines: list[Line]) -> str:
    heads = {**columns(found), **WORDS}
    rows = [[marked(found, line.method), *(_cell(line, key) for key in heads)] for line in lines]
    reasons = [in_markdown(f"{marked(found, line.method)}: {line.instead}") for line in lines if line.instead]
    return "\n\n".join([markdown_of(["method", *heads.values()], rows), *reasons])


def _shown(line: Line, key: str) -> str:
    """A cell's words; of a method without any result the status, where the accuracy would stand."""
    return line.accuracy if key == "accuracy" else line.words[key]


def _cell(line: Line, key: str) -> str:
    return f"**{_shown(line, key)}**" if key == "accuracy" and line.best else _shown(line, key)


def csv_text(found: Found) -> str:
    """A line for each data set, protection and method: mean, standard deviation and seeds of every number, rounds in which sums
    were withheld and how many clients attack among them, the scale in each.
    """
    sizes = {data: columns_of(found, data) for data in found.data}
    extra = ["withheld", *(f"{what} {attack}" for attack in found.attacks for what in ("attackers", "lost", "success"))]
    keys = [*columns(found), *extra]
    heads = ["data", "protection", "method", "scale", "unit_of_accuracy", "status", "second_hand", "other_work", "fits"]
    heads[4:4] = sizes[found.data[0]]
    heads += [f"{key} {part}".replace(" ", "_") for key in keys for part in ("mean", "std", "seeds")]
    heads += ["server_holds_all_updates", *WORDS, "wins", "losses", "ties", "undecided_against", "reason"]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    for data, protection in found.blocks:
        for line in block_lines(found, data, protection):
            writer.writerow([*_names(found, line, sizes[data].values()), *_numbers(line, keys), *_rest(found, line)])
    return out.getvalue()


def _names(found: Found, line: Line, size: Iterable[str]) -> list[str]:
    of = found.method(line.method)
    status = line.instead.partition(":")[0] or "done"
    marks = ["yes" if mark else "no" for mark in (of["second_hand"], of["work"], line.data in of["fits"])]
    return [line.data, line.protection, line.method, found.about["scale"], *size, SHARE, status, *marks]


def _numbers(line: Line, keys: list[str]) -> list[str]:
    cells = []
    for key in keys:
        spot = line.numbers[key]
        known = [] if spot is None else [f"{spot.mean:.6g}", f"{spot.deviation:.6g}" if spot.count > 1 else "", f"{spot.count}"]
        cells += known or [""] * 3
    return cells


def _rest(found: Found, line: Line) -> list[str]:
    lines = found.lines(Spot(line.data, line.method, line.protection))
    holds = "" if not lines else "yes" if holds_updates(lines[0]) else "no"
    at = line.standing
    counts = ["", "", "", ""] if at is None else [f"{n}" for n in (at.wins, at.losses, at.ties, at.undecided)]
    return [holds, *(line.words[key] for key in WORDS), *counts, line.instead]


def terminal(found: Found, data: str, protection: str) -> Table:
    """A block in short."""
    heads = {key: head for key, head in columns(found).items() if key in SHOWN or key.startswith(("measure ", "attack "))}
    table = Table(title=escape(title(found, data, protection)), title_justify="left")
    table.add_column("method", no_wrap=True)
    for head in heads.values():
        table.add_column(escape(head), justify="right")
    table.add_column("verdict")
    for line in block_lines(found, data, protection):
        name = escape(marked(found, line.method))
        if line.numbers["accuracy"] is None:
            table.add_row(name, line.accuracy, *[""] * len(heads))
            continue
        bold = "bold" if line.best else None
        table.add_row(name, *(escape(_shown(line, key)) for key in heads), escape(line.words["verdict"]), style=bold)
    return table


def as_json(found: Found) -> dict[str, Any]:
    """Every line's numbers and words, and every cell, without its matrix."""
    lines = [
        {
            "data": line.data,
            "protection": line.protection,
            "method": line.method,
            "scale": found.about["scale"],
            "numbers": {
                key: None if s is None else {"mean": s.mean, "std": s.deviation if s.count > 1 else None, "seeds": s.count}
                for key, s in line.numbers.items()
            },
            "words": dict(line.words),
            "instead": line.instead,
        }
        for data, protection in found.blocks
        for line in block_lines(found, data, protection)
    ]
    cells = [strict({k: v for k, v in row.items() if k != "matrix"}) for rows in found.cells.values() for row in rows]
    reached = [
        {"method": f.method, "data": f.data, "protection": f.protection, "gap": f.pair.gap, "outcome": f.pair.outcome}
        for f in fits(found)
    ]
    name, scale = found.about["name"], found.about["scale"]
    return {"name": name, "scale": scale, "verdict": headline(found), "lines": lines, "fits": strict(reached), "cells": cells}
