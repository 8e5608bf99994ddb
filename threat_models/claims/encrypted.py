"""Claims of `Encrypted` (cards/ckks.md). Of the server with a client there is none: every client has the key."""

from .observers import server_alone
from .runs import encrypted
from .sought import floor_kept, kept, kept_from_clients

ALONE = "server", "the server alone", server_alone

CLAIMS = (
    *floor_kept("ckks", ALONE, encrypted, "Encrypted"),
    *kept("ckks", "ckks key, updates, images", ALONE, encrypted, "Encrypted", 0.1),
    *kept_from_clients("ckks", "updates", encrypted, "Encrypted"),
)
