"""The code of a user's own functions and classes as a digest, by which a record knows them from what they were before an edit."""

import dis
import hashlib
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from .own import OURS, is_own
from .own_constants import closed_over, codes_of, constant_text, plain
from .own_values import own_fields

if TYPE_CHECKING:
    pass

MOST = 256
"""Functions and classes that one digest follows."""
STORES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"})


def digest_of(value: FunctionType | type) -> str:
    """8 hexadecimal digits of SHA-256 of the code of a function, or of the methods and plain constants of a class.

    What it uses by a global name is followed where it is the user's own (`is_own`): functions, classes, and constants, MOST of
    them at most. One that was edited has another digest, and the same one has the same in every process of one version of Python.
    What may be the state of a run is left out: names, also closed over, that some function of the same file assigns to, and
    lists, dictionaries and arrays that one may change (`own_constants`).
    """
    found, todo, seen = hashlib.sha256(), deque[Any]([value]), {id(value): value}
    while todo:
        one = todo.popleft()
        of = _of_class if isinstance(one, type) else _of_function if isinstance(one, FunctionType) else _of_object
        parts = of(one)
        for part in parts:
            if isinstance(part, str):
                found.update(part.encode() + b"\0")
            elif id(part) not in seen and len(seen) < MOST:
                seen[id(part)] = part
                todo.append(part)
    return found.hexdigest()[:8]


def _of_function(function: FunctionType) -> Iterator[Any]:
    """Texts, and the functions and classes of the user's own that it uses."""
    yield from _of_code(function.__code__)
    held = [(cell.cell_contents) for cell in function.__closure__ or () if not _empty(cell)]
    beside = [*(function.__defaults__ or ()), *(value for _, value in sorted((function.__kwdefaults__ or {}).items()))]
    yield from (repr(value) for value in beside if plain(value))
    yield from closed_over(function)
    for value in (*beside, *held):
        yield from _code_in(value)
    names = sorted(name for name in _names(function.__code__) if not name.startswith("__"))  # of a file, not of what it says
    known = function.__globals__
    for name in names:
        if name in known:
            yield from _used(name, known[name], known)
            if isinstance(known[name], ModuleType) and is_own(known[name]):
                inside = vars(known[name])
                for other in names:
                    if other in inside:
                        yield from _used(other, inside[other], inside)


def _of_class(kind: type) -> Iterator[Any]:
    for one in kind.__mro__:
        if not is_own(one):
            continue
        for name, value in sorted(vars(one).items()):
            function = getattr(value, "__func__", value)
            if isinstance(function, FunctionType):
                if not _generated(function):
                    yield name
                    yield function
            elif isinstance(value, property):
                yield name
                yield from (part for part in (value.fget, value.fset) if isinstance(part, FunctionType))
            elif not name.startswith("__"):
                module = sys.modules.get(one.__module__)
                yield from _used(name, value, vars(module) if module is not None else _globals_of(one))


def _globals_of(kind: type) -> dict[str, Any]:
    return next((f.__globals__ for f in vars(kind).values() if isinstance(f, FunctionType) and not _generated(f)), {})


def _used(name: str, value: Any, known: dict[str, Any]) -> Iterator[Any]:
    """A value by its name in a file: a constant's text, or what is followed."""
    if plain(value):
        if name not in _stored_in(known):
            yield f"{name}={value!r}"
        return
    if (text := constant_text(name, value, known)) and name not in _stored_in(known):
        yield text
    yield from _code_in(value)


def _of_object(value: object) -> Iterator[Any]:
    for name, one in own_fields(value).items():
        yield name
        if plain(one):
            yield repr(one)
        yield from _code_in(one)


def _code_in(value: Any) -> Iterator[Any]:
    """The function or class of the user's own that a value is, or wraps; of an object its class and itself."""
    if isinstance(value, partial):
        yield from (repr(one) for one in (*value.args, *value.keywords.items()) if plain(one))
        for one in (value.func, *value.args, *value.keywords.values()):
            yield from _code_in(one)
        return
    if isinstance(value, MethodType):
        yield from _code_in(value.__self__)
    inner = getattr(value, "__wrapped__", None) or getattr(value, "__func__", None) or value
    if isinstance(inner, ModuleType) or plain(inner) or not is_own(inner):
        return
    if isinstance(inner, FunctionType | type):
        yield inner
    else:
        yield from (type(inner), inner)


def _generated(function: FunctionType) -> bool:
    """Whether a dataclass wrote it, from its fields. A file that is read from a record has no name for its own code either."""
    return function.__code__.co_qualname.startswith("__create_fn__.<locals>.")


def _empty(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  raises where nothing is in it yet
    except ValueError:
        return True
    return False


def _of_code(code: CodeType) -> Iterator[str]:
    yield from (code.co_code.hex(), repr(code.co_names), repr(code.co_varnames))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _of_code(constant)
        else:
            yield repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)


def _names(code: CodeType) -> set[str]:
    return {name for one in codes_of(code) for name in one.co_names}


def _stored_in(known: dict[str, Any]) -> set[str]:
    """Names that functions of a file assign to while they run."""
    values = list(known.values())
    methods = [m for v in values if isinstance(v, type) and v.__module__ == known.get("__name__") for m in vars(v).values()]
    of: Iterable[Any] = (v for v in (*values, *methods) if isinstance(v, FunctionType) and v.__globals__ is known)
    return {name for function in of for name in _stored_by(function.__code__)}


@lru_cache(maxsize=4096)
def _stored_by(code: CodeType) -> frozenset[str]:
    return frozenset(str(i.argval) for one in codes_of(code) for i in dis.get_instructions(one) if i.opname in STORES)


def coded(value: Any) -> FunctionType | type | None:
    """What of a value a record has a digest of: the function that it is, its class, or the class itself, where that is not
    Cloister's own or a library's.
    """
    while isinstance(value, partial):
        value = value.func
    if isinstance(value, MethodType):
        value = value.__func__
    if isinstance(value, FunctionType):
        return None if value.__module__.partition(".")[0] == OURS else value
    kind = value if isinstance(value, type) else type(value)
    return kind if is_own(kind) else None


def has_own(part: object) -> bool:
    """Whether a part of a scenario is, or is made of, code of the user's own."""
    if coded(part) is not None:
        return True
    if isinstance(part, Mapping):
        return any(map(has_own, part.values()))
    if isinstance(part, Sequence) and not isinstance(part, str):
        return any(map(has_own, part))
    return is_dataclass(part) and any(has_own(getattr(part, field.name)) for field in fields(part))
