"""Attacks on privacy of one's own, for an audit: what an attack is, what it is given, and who is corrupt.

`Attack` is handed to `cloister audit FILE --attack ITS_FILE`, or to `cloister.audit(scenario, attacks=[...])`; its function gets
an `Evidence`, of which `view` is all that the corrupt party saw. `PropertyInference` of a property of one's own is handed there,
too. `named` reads an observer, "server+client:0,3" for instance.
"""

from .threat_models.audit.attack import Attack
from .threat_models.audit.estimates import Estimate
from .threat_models.audit.experiment import Budget, Evidence, Experiment, Finding
from .threat_models.audit.observer import OUTSIDER, Observer, named
from .threat_models.audit.properties import PropertyInference
from .threat_models.audit.truth import Truth
from .threat_models.audit.view import Answered, Compared, CorruptView, Held, Public, PublishedSum

__all__ = [
    "OUTSIDER",
    "Answered",
    "Attack",
    "Budget",
    "Compared",
    "CorruptView",
    "Estimate",
    "Evidence",
    "Experiment",
    "Finding",
    "Held",
    "Observer",
    "PropertyInference",
    "Public",
    "PublishedSum",
    "Truth",
    "named",
]
