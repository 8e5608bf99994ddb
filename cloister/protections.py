"""How updates are protected, and noise: what a `Scenario`'s `protection` and its `training.privacy` may be."""

import typing as _typing

from .crypto.orthonormal import HadamardRotation, SignedPermutation
from .fl.clients.record_privacy import RecordPrivacy
from .protocol.encrypted.protection import Encrypted
from .protocol.masked.noise import Noise
from .protocol.masked.protection import Masked
from .protocol.two_servers.protection import TwoServer
from .protocol.uploaded.central import CentralNoise
from .protocol.uploaded.permuted import Permuted
from .protocol.uploaded.plain import Plain
from .told_in_python import told as _told

__all__ = [
    "CentralNoise",
    "Encrypted",
    "HadamardRotation",
    "Masked",
    "Noise",
    "Permuted",
    "Plain",
    "RecordPrivacy",
    "SignedPermutation",
    "TwoServer",
]

if not _typing.TYPE_CHECKING:  # a type checker sees the names above, and no others
    __getattr__ = _told(globals())
