"""Runs of Cloister in a Flower federation (extra `flower`): a ServerApp and a ClientApp of the same scenario.

    from cloister.flower import server_app
    app = server_app("scenario.py")

Flower carries messages and starts processes. Who says what to whom is the protocol's, as over any other link.
"""

from .client import client_app
from .server import server_app

__all__ = ["client_app", "server_app"]
