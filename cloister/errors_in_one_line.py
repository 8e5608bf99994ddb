"""How commands fail: one line on stderr and a non-zero exit."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .protocol.core.errors import ProtocolError


class Failure(Exception):
    """Something to tell the user in one line."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn expected errors into Failure. Bugs keep their traceback."""
    try:
        yield
    except (ValueError, OSError, ProtocolError) as error:
        message = str(error) or type(error).__name__
        raise Failure(" ".join(message.split())) from error


def say(message: str) -> None:
    """A line on stderr."""
    sys.stderr.write(f"cloister: {message}\n")
