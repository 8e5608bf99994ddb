"""A fault in shipped code: what is swapped for as long as it lasts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .mechanism import Auditor

Swap = tuple[Any, str, Any]
"""Module or class, attribute, what it is for the time of the fault."""


@dataclass(frozen=True, slots=True)
class Fault:
    """mechanism: the name of the one it is in. auditor: which one must flag it. swaps: made when the fault begins.

    times: by how many times as many trials as others it is audited, where it shows too little for fewer.
    """

    name: str
    mechanism: str
    auditor: Auditor
    swaps: Callable[[], tuple[Swap, ...]]
    times: int = 1

    @contextmanager
    def injected(self) -> Iterator[None]:
        """The shipped code with the fault. It is as it was afterwards, whatever happens."""
        swaps = self.swaps()
        before = [(owner, name, owner.__dict__[name]) for owner, name, _ in swaps]
        try:
            for owner, name, faulty in swaps:
                setattr(owner, name, faulty)
            yield
        finally:
            for owner, name, shipped in before:
                setattr(owner, name, shipped)
