"""The code of a user's own functions and classes as a digest, by which a record knows them from what they were before an edit."""

import dis
import hashlib
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property, lru_cache, partial, partialmethod, singledispatchmethod
from itertools import islice
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from .own import OURS, asked, installed, is_own
from .own_constants import closed_over, codes_of, constant_text, fixed_text, plain, text_of
from .own_values import MAKING, codes_later, own_fields

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
    found, todo, objects = hashlib.sha256(), deque[Any]([value]), deque[Any]()
    seen, codes, methods = {id(value): value}, list[CodeType](), set[int]()
    while todo or objects:  # objects last: whatever code is followed may count in them
        one = todo.popleft() if todo else objects.popleft()
        if isinstance(one, FunctionType):
            codes += codes_of(one.__code__) if id(one) not in methods else ()
            parts = [*_of_function(one)]
        elif isinstance(one, type):
            codes += codes_later(one)
            parts = [*_of_class(one)]
            methods |= {id(part) for part in parts if isinstance(part, FunctionType)}
        else:
            parts = [*_of_object(one, codes)]
        for part in parts:
            if isinstance(part, str):
                found.update(part.encode() + b"\0")
            elif id(part) not in seen and len(seen) < MOST:
                seen[id(part)] = part
                (todo if isinstance(part, FunctionType | type) else objects).append(part)
    return found.hexdigest()[:8]


def _of_function(function: FunctionType) -> Iterator[Any]:
    """Texts, and the functions and classes of the user's own that it uses."""
    yield from _of_code(function.__code__)
    held = [(cell.cell_contents) for cell in function.__closure__ or () if not _empty(cell)]
    beside = [*(function.__defaults__ or ()), *(value for _, value in sorted((function.__kwdefaults__ or {}).items()))]
    yield from (repr(value) for value in beside if plain(value))
    yield from _defaults(function)
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


def _defaults(function: FunctionType) -> Iterator[str]:
    """Of its parameters, what is in arrays and containers that it does not change."""
    code, usual = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(usual) : code.co_argcount]
    given = [*zip(names, usual, strict=True), *sorted((function.__kwdefaults__ or {}).items())]
    yield from (text for name, value in given if not plain(value) and (text := fixed_text(name, value, [code])))


def _of_class(kind: type) -> Iterator[Any]:
    for one in kind.__mro__:
        if not is_own(one):
            continue
        for name, value in sorted(vars(one).items()):
            function = asked(value, "__func__") or value
            if isinstance(function, FunctionType):
                if not _generated(function):
                    yield name
                    yield function
            elif isinstance(value, property | cached_property | partialmethod | singledispatchmethod):
                yield name
                ways = [vars(value).get("func")] if not isinstance(value, property) else [value.fget, value.fset, value.fdel]
                yield from (part for part in ways if isinstance(part, FunctionType))
                if isinstance(value, partialmethod):
                    yield text_of([list(value.args), dict(value.keywords)])
                elif isinstance(value, singledispatchmethod):
                    yield from (of for of in value.dispatcher.registry.values() if isinstance(of, FunctionType))
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


def _of_object(value: object, around: Sequence[CodeType]) -> Iterator[Any]:
    for name, one in own_fields(value, around).items():
        yield name
        if plain(one):
            yield repr(one)
        yield from _code_in(one)


def _code_in(value: Any, deep: int = 8) -> Iterator[Any]:
    """The function or class of the user's own that a value is, or wraps; of an object its class and itself; what a container
    holds of these.
    """
    if isinstance(value, partial):
        if text := text_of([list(value.args), dict(value.keywords)]):
            yield text
        yield from (found for one in (value.func, *value.args, *value.keywords.values()) for found in _code_in(one, deep))
        return
    if isinstance(value, list | tuple | set | frozenset | dict) and deep and not is_own(value):
        inside = list(islice(value.values() if isinstance(value, dict) else value, MOST))
        yield from (found for one in inside if not plain(one) for found in _code_in(one, deep - 1))
        return
    if isinstance(value, MethodType):
        yield from _code_in(value.__self__, deep)
    wraps = isinstance(value, FunctionType) and not installed(value.__code__.co_filename)
    inner = value if wraps or isinstance(value, type) else asked(value, "__wrapped__") or asked(value, "__func__") or value
    if isinstance(inner, ModuleType) or plain(inner) or not is_own(inner):
        return
    if isinstance(inner, FunctionType | type):
        yield inner
        yield from _registered(value)
    elif isinstance(inner, Enum):
        yield from (type(inner), text_of(inner))
    else:
        yield from (type(inner), inner)


def _registered(function: Any) -> list[FunctionType]:
    """What `functools.singledispatch` plays by the type of what it is handed."""
    registry = asked(function, "registry") if isinstance(function, FunctionType) else None
    return [of for of in registry.values() if isinstance(of, FunctionType)] if isinstance(registry, Mapping) else []


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
    functions = (v for v in (*values, *methods) if isinstance(v, FunctionType) and v.__globals__ is known)
    of: Iterable[Any] = (v for v in functions if v.__name__ not in MAKING)  # a constant of a class may be any object's own, too
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
