"""Lists, dictionaries, sets and arrays at the top of a user's file that stay as they are written there, and what a function has
of the one that made it, as text for a digest.

What a function of the file may change while it runs is the state of a run, and no constant: one that names it and assigns to a
part of something, or calls a method that changes things, may do so. A function that hands it on to another is trusted.
"""

import dis
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

import numpy as np

CHANGING = frozenset(
    ("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "appendleft", "popleft",
     "update", "setdefault", "add", "discard", "popitem", "__setitem__",
     "fill", "put", "resize", "shuffle", "add_", "sub_", "mul_", "div_", "copy_", "zero_", "fill_")
)  # fmt: skip
"""Names of methods that change what they are called on."""
REBINDS = frozenset(("STORE_DEREF", "DELETE_DEREF"))
CHANGES = frozenset(("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"))
DEEPEST = 8
"""Containers inside of one another; what is deeper is not read."""


LARGEST = 2**20
"""Numbers of an array that are read; of a larger one every so many, as data are, which have checksums of their own."""


def constant_text(name: str, value: Any, known: Mapping[str, Any]) -> str:
    """A container by its name in a file; empty where it is none, holds other things than numbers and texts, or may be state.

    known: all that the file holds, by name.
    """
    return fixed_text(name, value, _codes_in(known))


def fixed_text(name: str, value: Any, codes: Iterable[CodeType]) -> str:
    """The same, of what these codes alone may change."""
    table = isinstance(value, list | dict | set | tuple | np.ndarray | np.generic) or _is_tensor(value) or _frozen(value)
    if not table or any(_may_change(code, name) for code in codes):
        return ""
    try:
        return f"{name}={''.join(_parts(value, DEEPEST))}"
    except TypeError:
        return ""


def closed_over(function: FunctionType) -> Iterator[str]:
    """Numbers, texts and containers that a function has of the one that made it, by their names there: of `def hug_of(scale)`
    that returns a function, its scale. What a function inside of that one assigns to or may change is state, and left out.
    """
    maker = function.__globals__.get(function.__code__.co_qualname.partition(".")[0])
    codes = [*codes_of(maker.__code__ if isinstance(maker, FunctionType) else function.__code__)]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        inside = [code for code in codes if name in code.co_freevars]
        around = [code for code in codes if name in code.co_cellvars]  # who made it may change it when it is made
        if any(i.opname in REBINDS and i.argval == name for code in inside for i in dis.get_instructions(code)):
            continue
        with suppress(ValueError):  # nothing is in it yet
            value = cell.cell_contents
            if text := f"{name}={value!r}" if plain(value) else fixed_text(name, value, [*inside, *around]):
                yield text


def plain(value: object) -> bool:
    """Whether it is written the same in every process."""
    return value is None or isinstance(value, bool | int | float | str) or (isinstance(value, tuple) and all(map(plain, value)))


def _is_tensor(value: Any) -> bool:
    """Of torch, which is not imported for it: where it is not there yet, nothing is a tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _frozen(value: Any) -> bool:
    params = getattr(type(value), "__dataclass_params__", None)
    return is_dataclass(value) and not isinstance(value, type) and bool(params and params.frozen)


def _parts(value: Any, deep: int) -> Iterator[str]:
    """Raises TypeError for what is no constant."""
    if deep < 0:
        raise TypeError
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield repr(value)
    elif _is_tensor(value):
        yield from _parts(value.detach().cpu().numpy(), deep)
    elif isinstance(value, np.ndarray | np.generic):
        if value.dtype.hasobject:
            raise TypeError
        some = value if value.size <= LARGEST else value.reshape(-1)[:: value.size // LARGEST + 1]
        yield f"{value.dtype.str}{value.shape}{hashlib.sha256(some.tobytes()).hexdigest()}"
    elif isinstance(value, dict):
        yield "{"
        for key, inner in value.items():
            yield from (*_parts(key, deep - 1), ":", *_parts(inner, deep - 1), ",")
    elif isinstance(value, set | frozenset):
        yield from ("{", *sorted("".join(_parts(inner, deep - 1)) for inner in value))
    elif isinstance(value, list | tuple):
        yield "["
        for inner in value:
            yield from (*_parts(inner, deep - 1), ",")
    elif _frozen(value):
        yield type(value).__qualname__
        for one in fields(value):
            yield from (f" {one.name}=", *_parts(getattr(value, one.name), deep - 1))
    else:
        raise TypeError


def _codes_in(known: Mapping[str, Any]) -> Iterator[CodeType]:
    """Of functions and methods that are written in the file."""
    for value in list(known.values()):
        inside = vars(value).values() if isinstance(value, type) and value.__module__ == known.get("__name__") else (value,)
        for one in inside:
            function = getattr(one, "__func__", one)
            function = function.fget if isinstance(function, property) else function
            if isinstance(function, FunctionType) and function.__globals__ is known:
                yield from codes_of(function.__code__)


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """It, and those of functions inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


@lru_cache(maxsize=4096)
def _may_change(code: CodeType, name: str) -> bool:
    """Whether a function names it, and does what may change it."""
    named = any(name in names for names in (code.co_names, code.co_freevars, code.co_cellvars))
    return named and any(i.opname in CHANGES or _calls_to_change(i) for i in dis.get_instructions(code))


def _calls_to_change(of: dis.Instruction) -> bool:
    """A method, and no field of the name: `own.update` changes nothing."""
    method = of.opname == "LOAD_METHOD" or (of.opname == "LOAD_ATTR" and "NULL" in of.argrepr)
    return method and of.argval in CHANGING
