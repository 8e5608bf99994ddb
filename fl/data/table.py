"""CSV files with a header: what is no such table is refused with its file and line, before anything is taken for a number."""

import csv
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from .spelling import HEADLESS, are_no_names

LARGEST = 3.4028e38
"""A little less than what float32 holds."""
SIGNS = ";\t|"
"""What parts cells in files that are not taken."""


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """A CSV file, to be read in UTF-8. Raises ValueError of one line, also while it is read, where it is no such text."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            yield file
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8: save the table as CSV in UTF-8") from None
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV file: {error}") from None


def check_commas(path: Path, first: list[str]) -> None:
    """Raise ValueError of one line where the first line's cells are parted by something else, or are no text."""
    if any("\0" in cell for cell in first):
        raise ValueError(f"{path} is no text in UTF-8: save the table as CSV in UTF-8")
    if len(first) == 1 and (sign := next((sign for sign in SIGNS if sign in first[0]), "")):
        raise ValueError(f"{path} parts its cells by {sign!r}, where a comma is needed: save the table with commas")


def difference(wanted: Sequence[str], there: Sequence[str]) -> str:
    """What columns lack of those wanted, and which they have besides, in words; empty where they are the same, in any order."""
    missing, more = [n for n in wanted if n not in there], [n for n in there if n not in wanted]
    said = [("lacks ", missing, ""), ("has ", more, " besides")]
    words = " and ".join(f"{verb}{', '.join(map(repr, names))}{end}" for verb, names, end in said if names)
    if not all(more):
        return f"{words} ('' is a column without a name, as of row numbers that were saved with a table: leave it out)"
    alike = missing and {name.casefold() for name in missing} == {name.casefold() for name in more}
    return f"{words} (they differ in capitals alone)" if alike else words


def number_in(cell: str) -> float:
    """As other tools read it: Python alone takes 1_000 for a number. Raises ValueError for what is none."""
    if "_" in cell:
        raise ValueError(cell)
    return float(cell)


def finite_number(cell: str, where: str, what: str = "inputs are numbers") -> float:
    """The number that a cell says. Raises ValueError of one line where it says none, or one that float32 does not hold.

    where: which cell it is, for the error. what: what such a cell is to be.
    """
    try:
        number = number_in(cell)
    except ValueError:
        whole, comma, part = cell.partition(",")
        decimal = comma and whole.lstrip("+-").isdecimal() and part.isdecimal()
        meant = f"; is it a decimal comma? write {whole}.{part}" if decimal else ""
        raise ValueError(f"{where} has {cell!r}, which is no number; {what}{meant}") from None
    if not math.isfinite(number):
        raise ValueError(f"{where} has {cell!r}, which is no finite number; fill it in, or leave the row out")
    if abs(number) > LARGEST:
        raise ValueError(f"{where} has {cell!r}, which is too large a number; bring columns to one scale")
    return number


def lines_of(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """First the header, then each row that is not blank: its line, and its cells without spaces around them, as many as that has.

    Raises ValueError of one line for a file that is no such table: a cell too many would move what is behind it on by a column.
    """
    with opened(path) as file:
        lines = csv.reader(file, skipinitialspace=True)
        names: tuple[str, ...] = ()
        for line in lines:
            if not line:
                continue
            cells = tuple(cell.strip() for cell in line)
            if not names:
                check_commas(path, line)
                if (twice := next((name for name in cells if cells.count(name) > 1), None)) is not None:
                    raise ValueError(f"{path} has two columns {twice!r}{HEADLESS if are_no_names(cells) else ''}")
                names = cells
            elif len(cells) != len(names):
                why = ": is there a comma in a number?" if len(cells) > len(names) else ""
                raise ValueError(f"line {lines.line_num} of {path} has {len(cells)} cells, and the header {len(names)}{why}")
            yield lines.line_num, cells
    if not names:
        raise ValueError(f"{path} is empty")
