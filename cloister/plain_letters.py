"""What stands for a sign that a terminal does not know: its nearest in ASCII, and a question mark where there is none."""

import codecs
import io
from typing import TextIO

NAME = "cloister.plain_letters"
NEAREST = {
    "\u2013": "-",
    "\u2014": "-",
    "\u2212": "-",
    "\u00b1": "+-",
    "\u2020": "+",
    "\u221e": "inf",
    "\u00d7": "x",
    "\u2026": ".",
}
"""A dash is a value that there is not: as a question mark it would read as "inconclusive"."""


def _nearest(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(NEAREST.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def make_printable(stream: TextIO) -> None:
    """Whatever is written to the stream from here on goes through, in letters that it knows."""
    codecs.register_error(NAME, _nearest)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=NAME)
