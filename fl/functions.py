"""Functions that users give in the place of parts of ours: what they are called, and whether what they return fits."""

import inspect
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Unfit(TypeError):
    """A user's function or object returned something else than what is taken here, or lacks something."""


def as_vector(found: Any, shape: tuple[int, ...], of: object) -> NDArray[np.float32]:
    """Numbers of numpy, torch or Python as float32 of this shape. Raises Unfit, by the function's name."""
    plain = found.detach().cpu().numpy() if hasattr(found, "detach") else found
    try:
        vector = np.asarray(plain, dtype=np.float32)
    except (TypeError, ValueError):
        raise Unfit(f"{name_of(of)} returned {brief(found)}, which are no numbers") from None
    if vector.shape != shape:
        raise Unfit(f"{name_of(of)} returned numbers of shape {vector.shape}, where shape {shape} is taken")
    return vector


def name_of(function: object) -> str:
    """What a function or an object is called."""
    return str(getattr(function, "__name__", None) or type(function).__name__)


def parameters_of(function: object) -> str:
    """The plain numbers, texts and None that an object holds, in words; empty for a function."""
    held = getattr(function, "__dict__", {}) if not inspect.isroutine(function) else {}
    plain = {k: v for k, v in held.items() if v is None or isinstance(v, bool | int | float | str)}
    return ", ".join(f"{name}={value!r}" for name, value in plain.items())


def brief(value: object) -> str:
    """A value in a few words."""
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
