"""Who says what to whom: messages, sans-IO roles, drivers, server views and the disclosure log."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .encrypted.view import Encrypted
    from .masked.noise_view import Noise
    from .masked.view import Masked
    from .two_servers.view import TwoServer
    from .uploaded.permuted import Permuted
    from .uploaded.plain import Plain

__all__ = ["Encrypted", "Masked", "Noise", "Permuted", "Plain", "TwoServer"]
_WHERE = {
    "Encrypted": ".encrypted.view",
    "Masked": ".masked.view",
    "Noise": ".masked.noise_view",
    "Permuted": ".uploaded.permuted",
    "Plain": ".uploaded.plain",
    "TwoServer": ".two_servers.view",
}
"""Imported when they are first asked for: each brings libraries that the others do without."""


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name], __name__), name)
