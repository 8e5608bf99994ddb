"""Help as it is shown: lines of a source file run on to the end of a terminal's line, whatever its width."""

import re
from inspect import cleandoc

_BREAK = re.compile(r"(?<!\n)\n(?![\n ])")
"""Of a line within a paragraph, before one that is not indented."""


def flowing(text: str) -> str:
    """Each paragraph on one line; lines that are indented stay on their own."""
    return _BREAK.sub(" ", cleandoc(text))
