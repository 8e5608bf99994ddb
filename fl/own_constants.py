"""Lists, dictionaries, sets and arrays at the top of a user's file that stay as they are written there, and what a function has
of the one that made it, as text for a digest.

What a function of the file may change while it runs is the state of a run, and no constant (own_changes.py).
"""

import dis
import hashlib
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import islice
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from .own import asked
from .own_changes import changed_by

REBINDS = frozenset(("STORE_DEREF", "DELETE_DEREF"))
VALUES = bool | int | float | complex | str | bytes | range | slice
GROWS = (defaultdict, Counter, deque)
"""What is counted in, or changed by being looked at."""
WRITTEN = ("fractions", "decimal", "pathlib", "datetime")
"""Modules whose values are written as they are."""
DEEPEST = 8
"""Containers inside of one another; what is deeper is not read."""


LONGEST = 1000
MOST_PARTS = 2**18
"""Of a container that are read."""
LARGEST = 2**20
"""Numbers of an array that are read; of a larger one every so many, as data are, which have checksums of their own."""


def constant_text(name: str, value: Any, known: Mapping[str, Any]) -> str:
    """A container by its name in a file; empty where it is none, holds other things than numbers and texts, or may be state.

    known: all that the file holds, by name.
    """
    return fixed_text(name, value, _codes_in(known))


def fixed_text(name: str, value: Any, codes: Iterable[CodeType]) -> str:
    """The same, of what these codes alone may change."""
    if value is None or isinstance(value, GROWS) or any(may_change(code, name) for code in codes):
        return ""
    text = text_of(value)
    return f"{name}={text}" if text else ""


def text_of(value: Any) -> str:
    """Numbers and texts in containers as text, the same in every process, at most LONGEST characters of it before a digest of
    all; empty of what holds anything else.
    """
    try:
        text = "".join(islice(_parts(value, DEEPEST), MOST_PARTS))
    except Exception:  # of a library's array that cannot be read, too
        return ""
    return text if len(text) <= LONGEST else f"{len(text)} characters, sha256 {hashlib.sha256(text.encode()).hexdigest()}"


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
    if value is None or isinstance(value, VALUES) or type(value).__module__.partition(".")[0] in WRITTEN:
        yield repr(value)
    elif isinstance(value, Enum):
        yield f"{type(value).__qualname__}.{value.name}"
    elif type(value).__module__ in ("numpy.dtypes", "torch") and type(value).__name__ in ("dtype", "device", "Size"):
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
            function = asked(one, "__func__") or one
            function = function.fget if isinstance(function, property) else function
            if isinstance(function, FunctionType) and function.__globals__ is known:
                yield from codes_of(function.__code__)


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """It, and those of functions inside of it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


def may_change(code: CodeType, name: str) -> bool:
    """Whether the code may change in place what has this name."""
    changed = changed_by(code)
    return changed is None or name in changed
