"""Who says what to whom: messages, sans-IO roles, drivers, server views and the disclosure log."""

from .masked_view import Masked
from .permuted import Permuted
from .plain import Plain
from .two_server_view import TwoServer

__all__ = ["Masked", "Permuted", "Plain", "TwoServer"]
