"""Who says what to whom: messages, sans-IO roles, drivers, server views and the disclosure log."""

from .encrypted.view import Encrypted
from .masked.noise_view import Noise
from .masked.view import Masked
from .permuted import Permuted
from .plain import Plain
from .two_servers.view import TwoServer

__all__ = ["Encrypted", "Masked", "Noise", "Permuted", "Plain", "TwoServer"]
