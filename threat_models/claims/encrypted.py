"""Claims of `Encrypted` (cards/ckks.md). Of the server with a client there is none: every client has the key."""

from .observers import server_alone
from .runs import encrypted
from .sought import kept, kept_from_clients

CLAIMS = (
    *kept("ckks", "ckks key, updates, images", ("server", "the server alone", server_alone), encrypted, "Encrypted", 0.1),
    *kept_from_clients("ckks", "updates", encrypted, "Encrypted"),
)
