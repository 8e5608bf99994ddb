"""Rows for elsewhere: a notebook, text, data frames, and files of Parquet, Arrow or CSV."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 140
"""Columns of tables as text."""
Row = Mapping[str, Any]
WORDS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}
"""What records have in the place of numbers that JSON has no word for."""


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


def frame_of(rows: Sequence[Row]) -> Any:
    """A data frame. Raises ImportError where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise ImportError("data frames need pandas: pip install 'cloister[pandas]'") from None
    return pandas.DataFrame(columns_of(rows))


def table_of(rows: Sequence[Row]) -> Any:
    """A table of Arrow. Raises ImportError where pyarrow is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError("tables of Arrow and Parquet need pyarrow: pip install 'cloister[arrow]'") from None
    return pyarrow.table(columns_of(rows))


def columns_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Every name that some row has, with each row's value or None; numbers of one kind, in a column that has no other words."""
    found = {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}
    return {name: _alike(values) for name, values in found.items()}


def _alike(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float, str} and len(kinds) > 1:
        if str not in kinds or {value for value in values if isinstance(value, str)} <= WORDS.keys():
            return [None if value is None else WORDS[value] if isinstance(value, str) else float(value) for value in values]
        return [None if value is None else str(value) for value in values]
    return values


def write_rows(rows: Sequence[Row], path: str | Path) -> Path:
    """As a file of the kind that its name says: .parquet, .arrow (IPC, also .feather) or .csv. Raises ValueError for another,
    ImportError where pyarrow is needed and not installed.
    """
    path = Path(path)
    match path.suffix:
        case ".csv":
            columns = columns_of(rows)
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(columns)
                writer.writerows(zip(*columns.values(), strict=True))
        case ".parquet":
            table = table_of(rows)
            from pyarrow import parquet

            parquet.write_table(table, path)
        case ".arrow" | ".feather":
            table = table_of(rows)
            from pyarrow import feather

            feather.write_feather(table, str(path), compression="uncompressed")
        case _:
            raise ValueError(f"{path} is to end in .parquet, .arrow, .feather or .csv")
    return path
