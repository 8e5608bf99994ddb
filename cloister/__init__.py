"""Cloister: clustered federated learning in which every party sees exactly what the protocol says it sees.

    import cloister
    from cloister import Scenario, Training, algorithms, data, models, partitions, protections

    result = cloister.run(Scenario(...))    # plays it, shows progress, and writes a run folder with its report
    result.clusters, result.accuracy, result.privacy, result.plot("similarity")

What a scenario is made of is in `algorithms`, `attacks`, `data`, `models`, `partitions`, `protections` and `rules`, what an
attack on privacy is made of in `threats`. `iterate` plays round by round; `callbacks` has what watches a run. `evaluate` plays
attacks against defences (an `Evaluation`), `breakdown` searches how many attackers break them, `attack` the cheapest break of
one, over all attacks; `compare` plays methods beside each other (a `Comparison`, of each a `Method`), `audit` attacks what each
party of a scenario sees. `load` reads any of their folders. The command `cloister --help` does the same, and deploys. Everything
else that is installed here is not for use from outside.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import algorithms, attacks, callbacks, data, models, partitions, protections, rules, threats
    from .fl.clients.training import Training
    from .fl.runs.comparison import Comparison, Method, Search
    from .fl.runs.scenario import Scenario
    from .grids_from_python import audit, compare, evaluate
    from .running import Result, Round, iterate, load, run
    from .searches_from_python import attack, breakdown
    from .threat_models.evaluation import Evaluation

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "Evaluation",
    "Method",
    "Result",
    "Round",
    "Scenario",
    "Search",
    "Training",
    "__version__",
    "algorithms",
    "attack",
    "attacks",
    "audit",
    "breakdown",
    "callbacks",
    "compare",
    "data",
    "evaluate",
    "iterate",
    "load",
    "models",
    "partitions",
    "protections",
    "rules",
    "run",
    "threats",
]
_WHERE = {
    **dict.fromkeys(("Comparison", "Method", "Search"), ".fl.runs.comparison"),
    "Evaluation": ".threat_models.evaluation",
    "Result": ".result",
    "Round": ".fl.runs.experiment",
    "Scenario": ".fl.runs.scenario",
    "Training": ".fl.clients.training",
    **dict.fromkeys(("iterate", "load", "run"), ".running"),
    **dict.fromkeys(("audit", "compare", "evaluate"), ".grids_from_python"),
    **dict.fromkeys(("attack", "breakdown"), ".searches_from_python"),
}
_MODULES = frozenset({"algorithms", "attacks", "callbacks", "data", "models", "partitions", "protections", "rules", "threats"})
"""Imported when they are first asked for: a client that does not train needs neither torch nor what else they bring."""


if not TYPE_CHECKING:  # a type checker sees the names above, and no others

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f".{name}", __name__)
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        from .told_in_python import telling

        return telling(getattr(import_module(_WHERE[name], __name__), name))

    def __dir__() -> list[str]:
        return __all__
