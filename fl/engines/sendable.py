"""A module and what trains it, as bytes for a worker: Ray's pickle, with code that a worker cannot import inside."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(slots=True)
class Packing:
    """The bytes of a module and what trains it, which are the same object while neither changes.

    pack: of values, their bytes. The module's parameters are of no account, since every job brings its start; its buffers are.
    """

    pack: Callable[..., bytes]
    _of: tuple[nn.Module, Any, Any] | None = None
    _buffers: list[Tensor] = field(default_factory=list)
    _data: bytes = b""

    def __call__(self, module: nn.Module, ready: nn.Module, train: Any, training: Any) -> bytes:
        """ready: the module as it is sent. Raises ValueError of one line where something cannot be sent."""
        buffers = list(module.buffers())
        known = self._of is not None and self._of[0] is module and self._of[1:] == (train, training)
        if not known or not all(map(torch.equal, buffers, self._buffers)):
            self._data = self.pack(ready, train, training)
            self._of, self._buffers = (module, train, training), [buffer.detach().clone() for buffer in buffers]
        return self._data


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
