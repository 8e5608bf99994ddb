"""Cloister: clustered federated learning in which every party sees exactly what the protocol says it sees."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fl.runs.experiment import run
    from .fl.runs.scenario import Scenario

__version__ = "0.1.0"
__all__ = ["Scenario", "__version__", "run"]
_WHERE = {"Scenario": ".fl.runs.scenario", "run": ".fl.runs.experiment"}
"""Imported when they are first asked for: a client that does not train needs neither torch nor what else they bring."""


if not TYPE_CHECKING:  # a type checker sees the names above, and no others

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_WHERE[name], __name__), name)
