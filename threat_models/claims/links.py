"""Claims about whoever watches the links, if these are encrypted (cards/deployment.md)."""

from .observers import network
from .runs import any_run
from .sought import kept

WATCHER = "network", "whoever watches the links", network

CLAIMS = tuple(kept("links", "updates, labels", WATCHER, any_run, "Over encrypted links, any protection", 0.1))
