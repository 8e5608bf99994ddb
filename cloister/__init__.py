"""Cloister: clustered federated learning in which every party sees exactly what the protocol says it sees.

    import cloister
    from cloister import Scenario, Training, algorithms, data, models, partitions, protections

    result = cloister.run(Scenario(...))    # plays it, shows progress, and writes a run folder with its report
    result.clusters, result.accuracy, result.privacy, result.plot("similarity")

What a scenario is made of is in `algorithms`, `attacks`, `data`, `models`, `partitions`, `protections` and `rules`. `iterate`
plays round by round, `load` reads a run folder. The command `cloister --help` evaluates attacks, audits privacy and deploys.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import algorithms, attacks, data, models, partitions, protections, rules
    from .fl.clients.training import Training
    from .fl.runs.scenario import Scenario
    from .running import Result, Round, iterate, load, run

__version__ = "0.1.0"
__all__ = [
    "Result",
    "Round",
    "Scenario",
    "Training",
    "__version__",
    "algorithms",
    "attacks",
    "data",
    "iterate",
    "load",
    "models",
    "partitions",
    "protections",
    "rules",
    "run",
]
_WHERE = {
    "Result": ".result",
    "Round": ".fl.runs.experiment",
    "Scenario": ".fl.runs.scenario",
    "Training": ".fl.clients.training",
    **dict.fromkeys(("iterate", "load", "run"), ".running"),
}
_MODULES = frozenset({"algorithms", "attacks", "data", "models", "partitions", "protections", "rules"})
"""Imported when they are first asked for: a client that does not train needs neither torch nor what else they bring."""


if not TYPE_CHECKING:  # a type checker sees the names above, and no others

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f".{name}", __name__)
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_WHERE[name], __name__), name)

    def __dir__() -> list[str]:
        return __all__
