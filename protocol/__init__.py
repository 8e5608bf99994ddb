"""Who says what to whom: messages, sans-IO roles, drivers, server views and the disclosure log."""

from .permuted import Permuted
from .plain import Plain

__all__ = ["Permuted", "Plain"]
