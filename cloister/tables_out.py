"""Rows for elsewhere: a notebook, text, data frames, and files of Parquet, Arrow or CSV."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape as in_html
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDE = 140
"""Columns of tables as text."""
SHARE = "share of 1"
"""What accuracies and what is lost of them are given in where programs read; where people read it is per cent and points."""
KINDS = (".parquet", ".arrow", ".feather", ".csv")
"""Endings of files that rows are written to."""
Row = Mapping[str, Any]
WORDS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}
"""What records have in the place of numbers that JSON has no word for."""


def print_table(console: Console, table: Table) -> None:
    """The table where every word of it has room; else a paragraph for each row. Nothing is cut off, however narrow it is."""
    rows = [*zip(*([_plain(cell) for cell in column.cells] for column in table.columns), strict=True)]
    heads = [_plain(column.header) for column in table.columns]
    cells = [*zip(heads, *rows, strict=True)]
    whole = [max(map(cell_len, of)) for of in cells]
    words = [max(cell_len(word) for text in of for word in text.split() or [""]) for of in cells]
    least = [full if column.no_wrap else word for full, word, column in zip(whole, words, table.columns, strict=True)]
    spare = console.width - 3 * len(heads) - 1 - sum(least)
    if spare >= 0:
        numbers = [column.justify == "right" for column in table.columns]
        for column, width in zip(table.columns, _shared(least, whole, numbers, spare), strict=True):
            column.width, column.no_wrap = width, False
        console.print(table)
        return
    if table.title:
        console.print(table.title, highlight=False, style="italic")
    first = 1 + next((k for k, column in enumerate(table.columns) if column.justify == "left"), 0)
    for row in rows:
        inline = [" ".join(head.split()) for head in heads]  # a head of two lines is one beside its cell
        said = [f"{head}: {cell}" if head else cell for head, cell in zip(inline, row, strict=True) if cell]
        console.print("; ".join(said[:first]), style="bold", highlight=False, markup=False)
        console.print(Padding(Text("; ".join(said[first:])), (0, 0, 0, 2)))


def _shared(least: Sequence[int], whole: Sequence[int], first: Sequence[bool], spare: int) -> list[int]:
    """Widths of columns, none below its least: each of the spare letters goes to the column that lacks most, numbers first."""
    widths = list(least)
    for _ in range(spare):
        lacks = [(first[k] and whole[k] > widths[k], whole[k] - widths[k]) for k in range(len(widths))]
        widest = max(range(len(widths)), key=lambda k: lacks[k])
        widths[widest] += lacks[widest][1] > 0
    return widths


def as_text(tables: Sequence[Table], lines: Iterable[str]) -> str:
    """The tables one below the other, and lines after them."""
    out = io.StringIO()
    console = Console(file=out, width=WIDE)
    for table in tables:
        print_table(console, table)
    return out.getvalue() + "\n".join(lines)


def as_html(tables: Sequence[Table], lines: Iterable[str]) -> str:
    """The same for a notebook; whatever looks like markup is none."""
    return "".join(map(_html, tables)) + "".join(f"<p>{in_html(line)}</p>" for line in lines)


def _html(table: Table) -> str:
    heads = "".join(f"<th>{in_html(_plain(column.header))}</th>" for column in table.columns)
    rows = zip(*(column.cells for column in table.columns), strict=True)
    body = "".join("<tr>" + "".join(f"<td>{in_html(_plain(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    caption = f"<caption>{in_html(_plain(table.title))}</caption>" if table.title else ""
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


def csv_of(rows: Sequence[Row]) -> str:
    """The rows as CSV with every number, empty where a row has none."""
    columns = columns_of(rows)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()


def markdown_of(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown; bars, line breaks and tags in cells are none of its own."""
    escaped = [[in_markdown(cell).replace("|", "\\|") for cell in row] for row in (heads, *rows)]
    lines = ["| " + " | ".join(row) + " |" for row in escaped]
    return "\n".join([lines[0], "|" + " --- |" * len(heads), *lines[1:]])


def in_markdown(text: str) -> str:
    """Words of a line in which nothing is a tag, whatever names of the user's own are in it."""
    return text.replace("<", "\\<").replace("\n", " ")


def write_rows(rows: Sequence[Row], path: str | Path) -> Path:
    """As a file of the kind that its name says: .parquet, .arrow (IPC, also .feather) or .csv. Raises ValueError for another
    and without its folder, ImportError where pyarrow is needed and not installed.
    """
    path = Path(path)
    if path.suffix in KINDS and not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} in; make it, or name another one")
    match path.suffix:
        case ".csv":
            path.write_text(csv_of(rows), encoding="utf-8", newline="")
        case ".parquet":
            table = table_of(rows)
            from pyarrow import parquet

            parquet.write_table(table, path)
        case ".arrow" | ".feather":
            table = table_of(rows)
            from pyarrow import feather

            feather.write_feather(table, str(path), compression="uncompressed")
        case _:
            raise ValueError(f"{path} is to end in {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    return path
