"""How a page is made of a template and written: what all reports have in common."""

import base64
import hashlib
import math
import re
from pathlib import Path

import jinja2
from markupsafe import Markup

from .byte_words import byte_words
from .headline import down, up
from .run_data import DASH, number, time_words

_JOINTS = re.compile(r"(?<=[^\W\d_][(_=/,.])(?=\w)|(?<=[a-z])(?=[A-Z])")
"""After a bracket, comma and the like between letters, and where a name's next word begins."""


def environment(*folders: Path) -> jinja2.Environment:
    """Templates of these folders and of this one, and what they write numbers with. Whatever they are given is escaped."""
    loader = jinja2.FileSystemLoader([*folders, Path(__file__).parent])
    found = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=loader
    )
    found.filters.update(
        percent=lambda v: f"{round(100 * v, 1) + 0.0:.1f}" if math.isfinite(v := number(v)) else DASH,
        down=lambda v: down(v) if math.isfinite(v := number(v)) else DASH,
        up=lambda v: up(v) if math.isfinite(v := number(v)) else DASH,
        short=lambda v: f"{v:.3g}" if math.isfinite(v := number(v)) else DASH,
        bytes=lambda v: byte_words(v) if math.isfinite(v := number(v)) else DASH,
        time=time_words,
        breakable=breakable,
        unbroken=lambda text: str(text).replace(" %", "\N{NO-BREAK SPACE}%"),
        sha256=lambda text: base64.b64encode(hashlib.sha256(str(text).encode()).digest()).decode(),
    )
    return found


def breakable(text: object) -> Markup:
    """A line that a narrow screen may break where names of code are put together, and within no word."""
    return Markup("<wbr>").join(_JOINTS.split(str(text)))


def write_page(folder: Path, text: str) -> Path:
    """Writes `folder`/report.html, the whole of it or nothing, and returns its path."""
    page = folder / "report.html"
    unfinished = folder / "report.html.part"
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(page)
    return page
