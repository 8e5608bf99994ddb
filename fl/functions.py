"""Functions that users give in the place of parts of ours: what they are called, and whether what they return fits."""

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .near_names import in_short
from .own import installed, is_own
from .own_constants import plain

OWN = f"{__name__.partition('.fl.')[0]}."
"""How names of our own modules begin."""


class Unfit(TypeError):
    """A user's function or object returned something else than what is taken here, or lacks something."""


def as_vector(found: Any, shape: tuple[int, ...], of: object, remedy: str = "", *, finite: bool = False) -> NDArray[np.float32]:
    """Numbers of numpy, torch or Python as float32 of this shape. finite: whether all are to be finite. Raises Unfit, by the
    function's name, file and line, with the remedy.
    """
    end = f"; {remedy}" if remedy else ""
    plain = found.detach().cpu().numpy() if hasattr(found, "detach") else found
    try:
        vector = np.asarray("" if plain is None else plain, dtype=np.float32)
    except (TypeError, ValueError):
        raise Unfit(f"{called(of)} returned {brief(found)}, which are no numbers{end}") from None
    if vector.shape != shape:
        raise Unfit(f"{called(of)} returned numbers of shape {vector.shape}, where shape {shape} is taken{end}")
    if finite:
        check_finite(vector, of, "returned")
    return vector


def check_finite(numbers: NDArray[Any], of: object, gave: str) -> None:
    """Raise Unfit, by the function's name, file and line, where some number is NaN or infinite."""
    if wrong := int(numbers.size - np.count_nonzero(np.isfinite(numbers))):
        raise Unfit(f"{called(of)} {gave} numbers that are not finite: {wrong} of {numbers.size}, from updates that are")


def called_with(function: Callable[[Any], Any], given: Any) -> Any:
    """What a function returns. Raises Unfit for a ValueError of a user's own code, by its name, file and line: where ours raise
    one, it says that a rule cannot stand so few, and a mistake in a function says nothing of the kind.
    """
    try:
        return function(given)
    except ValueError as error:
        if not is_own(function):
            raise
        place = own_place(error)
        raise Unfit(f"{name_of(function)}{f' ({place})' if place else ''} raised {type(error).__name__}: {error}") from error


@contextmanager
def raised_by(what: str, function: object) -> Iterator[None]:
    """Whatever a function of the user's raises inside is Unfit of one line: what it is, its name, file and line, and what it
    raised. Of what is a library's, its place in it says nothing, and is left out.
    """
    try:
        yield
    except Unfit:
        raise
    except Exception as error:
        place = own_place(error)
        raise Unfit(f"{what}, {called(function)}, failed{f' in {place}' if place else ''}: {in_short(error)}") from error


def own_place(error: BaseException) -> str:
    """The last line of a user's own code that an error passed: "mine.py, line 12"; empty where it passed none."""
    found, place = "", error.__traceback__
    while place is not None:
        file, name = place.tb_frame.f_code.co_filename, str(place.tb_frame.f_globals.get("__name__", ""))
        if not name.startswith(OWN) and not installed(file):
            found = f"{Path(file).name}, line {place.tb_lineno}"
        place = place.tb_next
    return found


def own_function(error: BaseException) -> str:
    """The user's own function or method that raised it, "Krum.weights"; empty where none is on its way."""
    found, place = "", error.__traceback__
    while place is not None:
        code, name = place.tb_frame.f_code, str(place.tb_frame.f_globals.get("__name__", ""))
        if not name.startswith(OWN) and not installed(code.co_filename):
            found = code.co_qualname.rpartition("<locals>.")[2]
        place = place.tb_next
    return found


def is_function(value: object) -> bool:
    """Whether it is a function, a method, or one with some of its arguments given (`functools.partial`)."""
    return inspect.isroutine(value) or (isinstance(value, partial) and is_function(value.func))


def innermost(value: object) -> object:
    """The function of a partial one, or the value itself."""
    return innermost(value.func) if isinstance(value, partial) else value


def name_of(function: object) -> str:
    """What a function or an object is called."""
    function = innermost(function)
    return str(getattr(function, "__name__", None) or type(function).__name__)


def place_of_code(value: object) -> str:
    """Where a function or a class, or that of an object, is written: "mine.py, line 12"; empty where no file says."""
    value = innermost(value)
    kind = value if inspect.isroutine(value) or isinstance(value, type) else type(value)
    code = getattr(kind, "__code__", None)
    if isinstance(code, CodeType):
        return f"{Path(code.co_filename).name}, line {code.co_firstlineno}"
    try:
        return f"{Path(inspect.getsourcefile(kind) or '').name}, line {inspect.getsourcelines(kind)[1]}"
    except (OSError, TypeError):
        methods = [m.__code__ for m in vars(kind).values() if isinstance(m, FunctionType)]
        return f"{Path(methods[0].co_filename).name}, line {methods[0].co_firstlineno}" if methods else ""


def called(value: object) -> str:
    """What it is called, and where it is written."""
    value = innermost(value)
    kind = value if inspect.isroutine(value) or isinstance(value, type) else type(value)
    name = getattr(kind, "__name__", type(kind).__name__)
    ours = str(getattr(kind, "__module__", "")).startswith(OWN)  # a line there, or of a library, says nothing to who gave it
    file = getattr(sys.modules.get(str(getattr(kind, "__module__", ""))), "__file__", None)
    place = "" if ours or (file and installed(file)) else place_of_code(value)
    return f"{name} ({place})" if place else str(name)


def misfit(function: Any, given: Sequence[str]) -> str:
    """Why a function cannot be called with these arguments, by position, in words; empty where it can, or cannot be known."""
    try:
        said = inspect.signature(function)
    except (TypeError, ValueError):
        return ""
    try:
        said.bind(*given)
    except TypeError:
        takes = ", ".join(f"{p}" for p in said.parameters.values()) or "nothing"
        return f"it takes {takes}, and is called with {' and '.join(given)} alone"
    return ""


def parameters_of(function: object) -> str:
    """The plain numbers, texts and None that an object holds, or a partial function was given, in words; empty for a function."""
    if isinstance(function, partial):
        return f"{function.args} {function.keywords}"
    held = getattr(function, "__dict__", {}) if not inspect.isroutine(function) else {}
    return ", ".join(f"{name}={value!r}" for name, value in held.items() if plain(value))


def brief(value: object) -> str:
    """A value in a few words."""
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    text = repr(value)
    name = type(value).__name__
    return text if len(text) <= 60 else f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
