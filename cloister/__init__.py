"""Cloister: clustered federated learning in which every party sees exactly what the protocol says it sees."""

from .fl.experiment import run
from .fl.scenario import Scenario

__version__ = "0.1.0"
__all__ = ["Scenario", "__version__", "run"]
