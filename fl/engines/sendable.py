"""A module and what trains it, as bytes for a worker: Ray's pickle, with code that a worker cannot import inside."""

import sys
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from torch import nn


def packed(module: nn.Module, *others: Any) -> bytes:
    """(module, *others). Raises ValueError of one line where something in them cannot be sent."""
    from ray import cloudpickle

    inside = [found for kind in map(type, module.modules()) if (found := only_here(kind)) is not None]
    for one in inside:
        cloudpickle.register_pickle_by_value(one)
    try:
        data: bytes = cloudpickle.dumps((module, *others))
        return data
    except (TypeError, AttributeError, ImportError) as error:
        raise ValueError(f"the model cannot be sent to Ray's workers ({error}); use the local engine") from None
    finally:
        for one in dict.fromkeys(inside):
            cloudpickle.unregister_pickle_by_value(one)


def only_here(kind: type) -> ModuleType | None:
    """The Python module that defines a class, where no other process could import it, a scenario's file for instance."""
    name = kind.__module__
    importable = name == "__main__" or PathFinder.find_spec(name.partition(".")[0]) is not None
    return None if importable else sys.modules.get(name)
