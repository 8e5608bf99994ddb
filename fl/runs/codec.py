"""Frozen dataclasses to plain JSON values and back, by their declared types. How states and snapshots are written."""

import base64
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from math import prod
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

DTYPES = ("float64", "bool")
"""Kinds of arrays in a state."""


def to_plain(value: Any) -> Any:
    """The value as dicts, lists, strings and numbers. Fields with compare=False are records, not state, and are left out.

    Raises ValueError for anything that is not a dataclass, mapping, sequence, string, number, bool, None or array of `DTYPES`.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in fields(value) if f.compare}
    if isinstance(value, np.ndarray) and value.dtype.name in DTYPES:
        data = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
        return {"dtype": value.dtype.name, "shape": list(value.shape), "base64": base64.b64encode(data).decode()}
    if isinstance(value, Mapping):
        return {"keys": [to_plain(k) for k in value], "values": [to_plain(v) for v in value.values()]}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [to_plain(v) for v in value]
    raise ValueError(f"cannot write a {type(value).__name__}")


def from_plain(kind: Any, plain: Any) -> Any:
    """The inverse of `to_plain` for a declared type. Raises ValueError when the plain value does not fit it.

    Fields that it lacks take their defaults: it may have been written before there were such fields.
    """
    try:
        return _from_plain(kind, plain)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"does not fit {getattr(kind, '__name__', kind)}: {error}") from None


def _from_plain(kind: Any, plain: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if plain is None and type(None) in inner:
            return None
        return _first_that_fits([k for k in inner if k is not type(None)], plain)
    if origin is Literal:
        if not any(type(plain) is type(word) and plain == word for word in inner):
            raise TypeError(f"{plain!r} where one of {inner} belongs")
        return plain
    if origin is tuple:
        if not isinstance(plain, list):
            raise TypeError(f"{type(plain).__name__} where a list belongs")
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(_from_plain(inner[0], v) for v in plain)
        return tuple(_from_plain(k, v) for k, v in zip(inner, plain, strict=True))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        keys = [_from_plain(inner[0], k) for k in plain["keys"]]
        return dict(zip(keys, (_from_plain(inner[1], v) for v in plain["values"]), strict=True))
    if origin is np.ndarray:
        return _array(np.dtype(get_args(inner[1])[0]), plain["dtype"], plain["shape"], plain["base64"])
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        if not isinstance(plain, Mapping):
            raise TypeError(f"{type(plain).__name__} where the fields of {kind.__name__} belong")
        there = [f for f in fields(kind) if f.compare and not (f.name not in plain and f.default is not MISSING)]
        return kind(**{f.name: _from_plain(hints[f.name], plain[f.name]) for f in there})
    if kind is float and type(plain) in (int, float):
        return float(plain)
    if type(plain) is not kind:
        raise TypeError(f"{type(plain).__name__} where {kind} belongs")
    return plain


def _first_that_fits(kinds: Sequence[Any], plain: Any) -> Any:
    """The plain value as the first of these types that it fits."""
    for kind in kinds[:-1]:
        with suppress(TypeError, KeyError, AttributeError, ValueError):
            return _from_plain(kind, plain)
    return _from_plain(kinds[-1], plain)


def _array(declared: np.dtype[Any], name: Any, shape: Any, text: Any) -> np.ndarray[Any, Any]:
    if name != declared.name or name not in DTYPES:
        raise TypeError(f"an array of {name} where {declared.name} belongs")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise TypeError("an array without a shape")
    size = prod(shape) * declared.itemsize
    if not isinstance(text, str) or len(text) != 4 * ((size + 2) // 3):
        raise ValueError(f"an array of shape {shape} that is not {size} bytes long")
    data = base64.b64decode(text, validate=True)
    if len(data) != size:
        raise ValueError(f"an array of shape {shape} that is not {size} bytes long")
    return np.frombuffer(data, declared.newbyteorder("<")).astype(declared, copy=False).reshape(shape)
