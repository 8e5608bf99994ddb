"""A grid's tables for a notebook, for text and for data frames."""

import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..fl.runs.results_folder import Row

WIDE = 140
"""Columns of tables as text."""


def as_text(tables: Sequence[Table], lines: Iterable[str]) -> str:
    """The tables one below the other, and lines after them."""
    out = io.StringIO()
    console = Console(file=out, width=WIDE)
    for table in tables:
        console.print(table)
    return out.getvalue() + "\n".join(lines)


def as_html(tables: Sequence[Table], lines: Iterable[str]) -> str:
    """The same for a notebook; whatever looks like markup is none."""
    return "".join(map(_html, tables)) + "".join(f"<p>{escape(line)}</p>" for line in lines)


def _html(table: Table) -> str:
    heads = "".join(f"<th>{escape(_plain(column.header))}</th>" for column in table.columns)
    rows = zip(*(column.cells for column in table.columns), strict=True)
    body = "".join("<tr>" + "".join(f"<td>{escape(_plain(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    caption = f"<caption>{escape(_plain(table.title))}</caption>" if table.title else ""
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _plain(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain


def tidy(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Lines of a grid with all their numbers and words side by side, accuracy.mean for instance; lists are left out."""
    return [dict(_flat(row)) for row in rows]


def _flat(row: Row, before: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif not isinstance(value, list | tuple):
            yield f"{before}{name}", value


def frame_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A data frame. Raises ImportError where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise ImportError("data frames need pandas: pip install pandas") from None
    return pandas.DataFrame(list(rows))
