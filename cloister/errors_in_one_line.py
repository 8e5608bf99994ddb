"""How commands fail: one line on stderr and a non-zero exit."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .fl.functions import Unfit
from .protocol.core.errors import ProtocolError
from .user_errors import file_of, in_words


class Failure(Exception):
    """Something to tell the user in one line."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn expected errors into Failure, and whatever a user's own file raises, with its line. Bugs keep their traceback."""
    try:
        yield
    except Exception as error:
        if (file := file_of(error)) is not None:
            raise Failure(" ".join(in_words(error, file).split())) from error
        if not isinstance(error, ValueError | OSError | ProtocolError | Unfit):
            raise
        message = str(error) or type(error).__name__
        raise Failure(" ".join(message.split())) from error


def say(message: str) -> None:
    """A line on stderr."""
    sys.stderr.write(f"cloister: {message}\n")
