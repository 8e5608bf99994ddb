"""Who says what to whom: messages, sans-IO roles, drivers, server views and the disclosure log."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .encrypted.protection import Encrypted
    from .masked.noise import Noise
    from .masked.protection import Masked
    from .two_servers.protection import TwoServer
    from .uploaded.central import CentralNoise
    from .uploaded.permuted import Permuted
    from .uploaded.plain import Plain

__all__ = ["CentralNoise", "Encrypted", "Masked", "Noise", "Permuted", "Plain", "TwoServer"]
_WHERE = {
    "CentralNoise": ".uploaded.central",
    "Encrypted": ".encrypted.protection",
    "Masked": ".masked.protection",
    "Noise": ".masked.noise",
    "Permuted": ".uploaded.permuted",
    "Plain": ".uploaded.plain",
    "TwoServer": ".two_servers.protection",
}
"""Imported when they are first asked for: each brings libraries that the others do without."""


if not TYPE_CHECKING:  # a type checker sees the names above, and no others

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_WHERE[name], __name__), name)
