"""What is the user's own, what is Cloister's, and what is a library's."""

import sys
import sysconfig
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

OURS = "cloister"


def is_own(value: Any) -> bool:
    """Whether a function, a class, the class of an object, or a module is the user's: neither Cloister's, nor Python's, nor of an
    installed library.
    """
    if isinstance(value, ModuleType):
        name = value.__name__
    else:
        kind = value if isinstance(value, FunctionType | type) else type(value)
        name = str(getattr(kind, "__module__", None) or "builtins")
    if name.partition(".")[0] == OURS or name in sys.builtin_module_names:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or not installed(file)


def is_part_of_ours(value: object) -> "TypeGuard[DataclassInstance]":
    """Whether a value is of a dataclass of Cloister's."""
    return is_dataclass(value) and not isinstance(value, type) and type(value).__module__.partition(".")[0] == OURS


@cache
def installed(file: str) -> bool:
    """Whether a file of Python is Python's or an installed library's."""
    path, library = Path(file).resolve(), Path(sysconfig.get_paths()["stdlib"]).resolve()
    return library in path.parents or bool({"site-packages", "dist-packages"} & {*path.parts})


def asked(value: object, name: str) -> Any:
    """An attribute; None where there is none, whatever an object of the user's makes of being asked."""
    try:
        return getattr(value, name, None)
    except Exception:
        return None
