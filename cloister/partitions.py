"""Who gets which examples, and which groups are planted: what a `Scenario`'s `partition` may be."""

import typing as _typing

from .fl.data.dealing import Equal, LogNormal, PowerLaw
from .fl.data.mixture import MixedRotation
from .fl.data.natural import Natural
from .fl.data.partition import Iid, LabelPermutation, LabelSwap, Rotation
from .fl.data.skew import CongruentHalves, Dirichlet, TopicPerClient
from .told_in_python import told as _told

__all__ = [
    "CongruentHalves",
    "Dirichlet",
    "Equal",
    "Iid",
    "LabelPermutation",
    "LabelSwap",
    "LogNormal",
    "MixedRotation",
    "Natural",
    "PowerLaw",
    "Rotation",
    "TopicPerClient",
]

if not _typing.TYPE_CHECKING:  # a type checker sees the names above, and no others
    __getattr__ = _told(globals())
