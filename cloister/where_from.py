"""The file that a value of Python's comes from, where worker processes can load it again."""

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

HOME = Path(__file__).resolve().parent


class NotLoadable(ValueError):
    """No worker process can load the value, for this reason."""


def file_of_value(value: Any, same: Callable[[str], bool]) -> str:
    """FILE:NAME of a value that stands at the top level of a file. Raises NotLoadable, with the reason.

    same: whether what is loaded from there is this very value; it may raise ValueError.
    """
    found = [(module, Path(str(module.__file__)), key) for module in _modules() for key in _names(module, value)]
    if not found:
        raise NotLoadable("no name at the top level of a file holds this object: give it one, or play it by that file's name")
    module, file, key = found[0]
    if module is sys.modules["__main__"] and not _guarded(file):
        raise NotLoadable(f'{file.name} plays as it is read: put the call under: if __name__ == "__main__"')
    where = f"{file}:{key}"
    try:
        alike = same(where)
    except ValueError as error:
        raise NotLoadable(f"{file.name} cannot be loaded once more: {error}") from None
    if not alike:
        raise NotLoadable(f"{file.name} holds another {key} than this one when it is loaded once more")
    return where


def _modules() -> list[ModuleType]:
    """Modules of the user's that are files, the one that is played last."""
    found = []
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py") and not Path(file).resolve().is_relative_to(HOME):
            found.append(module)
    return sorted(found, key=lambda one: one is sys.modules["__main__"])


def _names(module: ModuleType, value: Any) -> list[str]:
    return [key for key, each in list(vars(module).items()) if each is value and key.isidentifier()]


def _guarded(file: Path) -> bool:
    """Whether a script has a part that is for its own play alone."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return False
    tests = [node.test for node in tree.body if isinstance(node, ast.If)]
    return any("__name__" in ast.dump(test) and "__main__" in ast.dump(test) for test in tests)
