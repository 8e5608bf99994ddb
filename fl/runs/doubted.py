"""A doubt about what a user gave, said where the user's own code led to it, and not at a line of ours."""

import sys
import warnings

from ..functions import OWN
from ..own import OURS, installed
from .feasibility import Doubt


def doubted(words: str) -> None:
    """Warns (Doubt) at the line of the caller's nearest code that is neither Cloister's nor a library's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _passed(str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename):
        frame = frame.f_back
    warnings.warn_explicit(words, Doubt, frame.f_code.co_filename, frame.f_lineno)


def _passed(module: str, file: str) -> bool:
    return module == OURS or module.startswith(OWN) or installed(file)
