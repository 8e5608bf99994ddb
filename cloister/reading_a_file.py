"""Reading a user's Python file for what it holds, and what to make of one that fails in the middle.

A file may hold many scenarios, of which one cannot be built: `noisy = Scenario(...)` is refused. What it was to be named is
noted with the reason, and the file is read on, so that the others can be played. Only what a name is given to at the top of the
file is passed over like this; any other failure is the file's, and so is one of a function in it: what stands behind a loader
that failed was written for when it does not.
"""

import ast
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.abc import InspectLoader, Loader
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from traceback import walk_tb
from types import ModuleType
from typing import Any

from .protocol.core.errors import Refused
from .user_errors import file_of, in_words

_reading: list[str] = []  # files that are being read


class Unbuilt(ValueError):
    """What was asked for has a name in the file, and could not be built."""


class Played(Refused):
    """A file plays something while it is read for what it holds."""


def check_not_reading(name: str) -> None:
    """Raises Played while a file is read for what it holds: it would play, or read itself, without end."""
    if _reading:
        raise Played(
            f'cloister.{name} is called while the file is read for what it holds; put it under: if __name__ == "__main__"'
        )


@dataclass(frozen=True, slots=True)
class Read:
    """A file that was read. holds: what has a name in it. unbuilt: what was to have one, with why it has not: one line each."""

    file: str
    holds: Mapping[str, Any]
    unbuilt: Mapping[str, str]


def executed(spec: ModuleSpec, loader: Loader, file: str) -> Read:
    """What the file holds. file: what errors call it. Raises ValueError of one line, whatever its code raises."""
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    _reading.append(file)
    try:
        return Read(file, vars(module), _unbuilt(module, loader, file))
    finally:
        _reading.pop()


def _unbuilt(module: ModuleType, loader: Loader, file: str) -> dict[str, str]:
    """Runs the file to its end. What could not be built has no name then, not even one that it had before."""
    found: dict[str, str] = {}
    rest: ast.Module | None = None
    while True:
        try:
            if rest is None:
                loader.exec_module(module)
            else:
                exec(compile(rest, _path(module), "exec", dont_inherit=True), vars(module))  # noqa: S102
            return found
        except Exception as error:
            needs = found.get(error.name or "") if isinstance(error, NameError) else None
            words = needs or in_words(error, file)
            body = _parsed(module, loader) if rest is None else rest.body
            names, after = _given(body, _line_at_top(error, module))
            if not names or isinstance(error, Played) or _in_a_function_of_its_own(error, module):
                raise ValueError(words) from error
            for name in names:
                found[name] = words
                vars(module).pop(name, None)
            rest = ast.Module([*(one for one in body if _of_the_future(one)), *after], [])


def _parsed(module: ModuleType, loader: Loader) -> list[ast.stmt]:
    try:
        source = loader.get_source(module.__name__) if isinstance(loader, InspectLoader) else None
        return ast.parse(source or "").body
    except (SyntaxError, ImportError):  # the second where the file cannot be read, which is the error to be told
        return []


def _path(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or "<string>"


def _line_at_top(error: Exception, module: ModuleType) -> int:
    """The line at the top of the file, inside of no function, that raised an error; 0 of one that the file did not run into."""
    for frame, line in walk_tb(error.__traceback__):
        if frame.f_globals is vars(module) and frame.f_code.co_name == "<module>":
            return line
    return 0


def _in_a_function_of_its_own(error: Exception, module: ModuleType) -> bool:
    """Whether a function of the file failed by itself, as a loader may; not where what it builds is refused."""
    own = [frame for frame, _ in walk_tb(error.__traceback__) if frame.f_globals is vars(module)]
    return bool(own) and own[-1].f_code.co_name != "<module>" and file_of(error) is not None


def _given(body: list[ast.stmt], line: int) -> tuple[list[str], list[ast.stmt]]:
    """The names that the statement at this line gives, and what stands after it; none where it does anything else."""
    for k, one in enumerate(body):
        if one.lineno <= line <= (one.end_lineno or one.lineno):
            targets = one.targets if isinstance(one, ast.Assign) else [one.target] if isinstance(one, ast.AnnAssign) else []
            return [to.id for to in targets if isinstance(to, ast.Name)], body[k + 1 :]
    return [], []


def _of_the_future(one: ast.stmt) -> bool:
    return isinstance(one, ast.ImportFrom) and one.module == "__future__"
