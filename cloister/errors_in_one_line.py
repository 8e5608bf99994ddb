"""How commands fail: one line on stderr and a non-zero exit."""

import errno
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .fl.fields_at_fault import field_of
from .fl.functions import Unfit
from .protocol.core.errors import ProtocolError, Revoked
from .reading_a_file import Unbuilt
from .user_errors import file_of, in_words

FULL = (errno.ENOSPC, errno.EDQUOT)
FAILED, REVOKED = 1, 77
"""Exit codes: of any failure; of a party whose certificate was taken back, not to be started again (NOPERM of sysexits)."""


class Failure(Exception):
    """Something to tell the user in one line. code: the process's exit code."""

    def __init__(self, words: str, code: int = FAILED) -> None:
        super().__init__(words)
        self.code = code


@contextmanager
def one_line_errors(where: str | None = None, settings: Sequence[str] = ()) -> Iterator[None]:
    """Turn expected errors into Failure, and whatever a user's own file raises, with its line. Bugs keep their traceback.

    where: FILE[:NAME] of the scenario, with these settings, of which an error about one of its fields says the line.
    """
    try:
        yield
    except BrokenPipeError:
        raise  # whoever reads what this prints (`| head`) is gone: typer ends without a word
    except Exception as error:
        if (file := file_of(error)) is not None:
            raise Failure(" ".join(in_words(error, file).split())) from error
        if not isinstance(error, ValueError | OSError | ProtocolError | Unfit | Revoked) and not _says_what_to_install(error):
            raise
        message = _placed(error, where, settings) + (_of_a_file(error) or str(error) or type(error).__name__)
        if isinstance(error, Unbuilt) and settings:
            message += "; mend it in the file: --set changes what the file has built"
        raise Failure(" ".join(message.split()), REVOKED if isinstance(error, Revoked) else FAILED) from error


@contextmanager
def room_in(folder: Path) -> Iterator[None]:
    """A disk that is full is said with this folder, where whatever could not be written names no file."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = str(folder)
        raise


def _says_what_to_install(error: Exception) -> bool:
    """Whether it is raised in words for an extra that is not installed; an import that fails of itself has a module's name."""
    return isinstance(error, ImportError) and error.name is None


def _of_a_file(error: Exception) -> str:
    """What the system refused about a file, in words; empty of any other error."""
    if isinstance(error, OSError) and error.errno in FULL:
        where = "" if error.filename is None else f"{error.filename}: "
        return f"{where}no room is left on the disk; make some, and give the same command again"
    if not isinstance(error, OSError) or error.filename is None or not error.strerror:
        return ""
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename}: a folder is to be there or above it, and a file is; choose another one"
    if isinstance(error, FileNotFoundError):
        return f"there is no {error.filename}"
    return f"{error.filename}: {error.strerror.lower()}"


def _placed(error: Exception, where: str | None, settings: Sequence[str]) -> str:
    """Where the scenario gives the field that an error is about, as the beginning of a line; empty where that is not known."""
    if where is None or not (field := field_of(error)):
        return ""
    from .lines_of_fields import place_of_field

    place = place_of_field(where, field, settings)
    return place and f"{place}: "


@contextmanager
def said_in_a_line() -> Iterator[None]:
    """What is doubtful in a scenario is a line on stderr, once."""
    from .fl.runs.feasibility import Doubt

    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if issubclass(category, Doubt):
                say(f"note: {message}")
            else:
                usual(message, category, *rest)

        warnings.simplefilter("always", Doubt)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def say(message: str) -> None:
    """A line on stderr."""
    sys.stderr.write(f"cloister: {message}\n")
