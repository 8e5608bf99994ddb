"""Who says what to whom: messages, sans-IO roles, drivers, server views and the disclosure log."""

from .encrypted_view import Encrypted
from .masked_noise import Noise
from .masked_view import Masked
from .permuted import Permuted
from .plain import Plain
from .two_server_view import TwoServer

__all__ = ["Encrypted", "Masked", "Noise", "Permuted", "Plain", "TwoServer"]
