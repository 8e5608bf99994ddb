"""What an object of a user's own class is made of, by which a record knows it from another of its class."""

import dis
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from .own import is_own
from .own_constants import codes_of, fixed_text, plain

MAKING = frozenset({"__init__", "__new__", "__post_init__"})
"""Methods in which an object becomes what it is."""


def own_fields(value: object) -> dict[str, Any]:
    """Attributes of an object of the user's own class that stay as its `__init__` made them, by name: plain values as they are,
    containers and arrays as text; functions, classes, dataclasses, and objects of the user's own as they are, too.

    What another method, or a function of the same file, assigns to or may change is the state of a run, and left out. So is what
    a library's object holds.
    """
    made, codes = _made(type(value)), [*_codes(type(value))]
    found: dict[str, Any] = {}
    for name, one in _held(value):
        if name not in made or any(name in _stored_by(code) for code in codes):
            continue
        if plain(one):
            found[name] = one
        elif text := fixed_text(name, one, codes):
            found[name] = text.partition("=")[2]
        elif isinstance(one, FunctionType | MethodType | partial | type) or is_dataclass(one) or is_own(one):
            found[name] = one
    return found


def _held(value: object) -> Iterator[tuple[str, Any]]:
    """What is in it by name, sorted."""
    slots = (name for kind in type(value).__mro__ if is_own(kind) for name in _slots(kind))
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)} | dict(getattr(value, "__dict__", {}))
    yield from sorted(held.items())


def _slots(kind: type) -> tuple[str, ...]:
    of: Any = vars(kind).get("__slots__", ())
    return (of,) if isinstance(of, str) else tuple(of)


def _made(kind: type) -> set[str]:
    """Names of what methods of the user's own make an object with: not of what a library adds, as `training` of a module."""
    own = [one for one in kind.__mro__ if is_own(one)]
    making = [of for one in own for name, of in vars(one).items() if name in MAKING and isinstance(of, FunctionType)]
    stored = [_stored_by(code) for method in making for code in codes_of(method.__code__)]
    written = [f.name for f in fields(kind)] if is_dataclass(kind) else []
    return {*written, *(name for one in own for name in _slots(one)), *(name for names in stored for name in names)}


def _codes(kind: type) -> Iterator[CodeType]:
    """Of methods of the class and its bases, but those that make an object, and of functions of their files."""
    for one in (one for one in kind.__mro__ if is_own(one)):
        module: Mapping[str, Any] = vars(sys.modules[one.__module__]) if one.__module__ in sys.modules else {}
        for name, held in [*vars(one).items(), *module.items()]:
            function = getattr(held, "__func__", held)
            function = function.fget if isinstance(function, property) else function
            if isinstance(function, FunctionType) and name not in MAKING and function.__module__ == one.__module__:
                yield from codes_of(function.__code__)


@lru_cache(maxsize=4096)
def _stored_by(code: CodeType) -> frozenset[str]:
    return frozenset(str(i.argval) for i in dis.get_instructions(code) if i.opname in ("STORE_ATTR", "DELETE_ATTR"))
