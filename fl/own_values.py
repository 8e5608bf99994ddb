"""What an object of a user's own class is made of, by which a record knows it from another of its class."""

import dis
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cached_property, lru_cache, partial
from types import CodeType, FunctionType, MemberDescriptorType, MethodType
from typing import Any

from .own import asked, is_own
from .own_constants import GROWS, codes_of, fixed_text, may_change, plain

MAKING = frozenset({"__init__", "__new__", "__post_init__"})
"""Methods in which an object becomes what it is."""


def own_fields(value: object, around: Sequence[CodeType] = ()) -> dict[str, Any]:
    """Attributes of an object of the user's own class that stay as they were when it was made, by name: plain values as they are,
    arrays and containers of numbers as text; functions, classes, dataclasses, objects of the user's own and what contains them
    as they are, too; of a module of torch its class.

    What a method assigns to or may change later is the state of a run, and left out, and so is what a library's class adds.
    Methods by which it is made may: `__init__`, what that calls, class methods. around: codes that may change it as well, of the
    classes of what holds it.
    """
    kind: Any = type(value)
    making, later = _codes(kind)
    made = _made(kind, making)
    codes, found = [*later, *around], dict[str, Any]()
    for name, one in _held(value):
        if (made is not None and name not in made) or any(name in stored_by(code) for code in codes):
            continue
        if plain(one):
            found[name] = one
        elif _is_module(one):
            found[name] = type(one)
        elif isinstance(one, FunctionType | MethodType | partial | type) or is_dataclass(one) or is_own(one):
            found[name] = one
        elif text := fixed_text(name, one, codes):
            found[name] = text.partition("=")[2]
        elif isinstance(one, list | tuple | dict) and not isinstance(one, GROWS) and not any(may_change(c, name) for c in codes):
            found[name] = one
    return found


def codes_later(kind: Any) -> list[CodeType]:
    """Of methods of the user's own that may change an object of this class when it is made."""
    return _codes(kind)[1]


def _held(value: object) -> Iterator[tuple[str, Any]]:
    """What is in it by name, sorted; nothing is called."""
    found = dict[str, Any]()
    for kind in type(value).__mro__:
        for name, slot in vars(kind).items() if is_own(kind) else ():
            if isinstance(slot, MemberDescriptorType):
                with suppress(AttributeError):
                    found[name] = slot.__get__(value, kind)
    with suppress(Exception):  # of one that makes up its attributes
        found |= object.__getattribute__(value, "__dict__")
    computed = {name for kind in type(value).__mro__ for name, of in vars(kind).items() if isinstance(of, cached_property)}
    yield from sorted((name, one) for name, one in found.items() if name not in computed)


def _made(kind: type, making: Sequence[CodeType]) -> set[str] | None:
    """Names that the user's own code gives; None for all, where no library's class gives any, as torch's `training`."""
    if all(is_own(one) or one is object for one in kind.__mro__):
        return None
    own = (name for one in kind.__mro__ if is_own(one) for name, of in vars(one).items() if isinstance(of, MemberDescriptorType))
    annotated = getattr(kind, "__dataclass_fields__", {}) if is_dataclass(kind) else {}
    return {*own, *annotated, *(name for code in making for name in stored_by(code))}


@lru_cache(maxsize=1024)
def _codes(kind: Any) -> tuple[list[CodeType], list[CodeType]]:
    """Of methods that make an object of this class, and of those that do not, of it and its bases."""
    methods, making = dict[str, list[FunctionType]](), set[str](MAKING)
    for one in (one for one in kind.__mro__ if is_own(one)):
        for name, of in vars(one).items():
            if isinstance(of, classmethod | staticmethod):
                making.add(name)
            if isinstance(of, property) and isinstance(of.fset, FunctionType):
                methods.setdefault(f"{name} =", []).append(of.fset)
            for function in (asked(of, way) for way in ("__func__", "fget", "func")):
                if isinstance(function, FunctionType):
                    methods.setdefault(name, []).append(function)
            if isinstance(of, FunctionType):
                methods.setdefault(name, []).append(of)
    todo = list(making)
    while todo:
        for function in methods.get(todo.pop(), ()):
            called = {*function.__code__.co_names, *(f"{name} =" for name in stored_by(function.__code__))}
            todo += [name for name in called & methods.keys() if name not in making]
            making |= called & methods.keys()
    parts: tuple[list[CodeType], list[CodeType]] = ([], [])
    for name, functions in methods.items():
        parts[name not in making].extend(code for function in functions for code in codes_of(function.__code__))
    return parts


@lru_cache(maxsize=4096)
def stored_by(code: CodeType) -> frozenset[str]:
    """Names of attributes that the code assigns to."""
    return frozenset(str(i.argval) for i in dis.get_instructions(code) if i.opname in ("STORE_ATTR", "DELETE_ATTR"))


def _is_module(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)
