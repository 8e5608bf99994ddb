"""Claims of `Encrypted` (cards/ckks.md). With a client there is none: every client has the key."""

from .masked import SHARE
from .observers import client_alone, server_alone
from .runs import encrypted, hidden_from_clients
from .sought import kept

CLAIMS = (
    *kept("ckks", "ckks key, updates, images", ("server", "the server alone", server_alone), encrypted, "Encrypted", 0.1),
    *kept(
        "ckks",
        "updates",
        ("client", "one client", client_alone),
        lambda protection, algorithm: encrypted(protection, algorithm) and hidden_from_clients(protection, algorithm),
        "Encrypted(floor=3 or more), no personal sums",
        SHARE,
    ),
)
