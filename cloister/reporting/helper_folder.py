"""The folder of a second server or a dealer, which has a journal and no page: what it is, in words."""

import sqlite3
from contextlib import closing
from pathlib import Path

import cbor2

from ..protocol.core.session import DEALER, SECOND_SERVER

JOURNAL, BEGUN = "journal", "begun"
"""As `protocol.two_servers.helper` has them, which takes long to load."""
NAMES = {SECOND_SERVER: "second server", DEALER: "dealer"}


def of_helper(folder: Path) -> str:
    """Whose it is, and where to read what that party was told; empty where it is no such folder."""
    if not (name := _name(folder / JOURNAL)):
        return ""
    return (
        f"{folder} is the folder of a {name}: it has a journal, so that nothing is answered twice, and no page. What the"
        f" {name} was told is in the coordinator's report, under its name: whoever operates this party asks for that page"
    )


def _name(journal: Path) -> str:
    """Of the party whose journal it is; empty of any other, or where that cannot be read. Nothing is written there."""
    if not journal.is_file():
        return ""
    beside = journal.with_name(f"{journal.name}-wal")  # of a party that runs, or was killed; else reading would leave such files
    how = "mode=ro" if beside.exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"{journal.resolve().as_uri()}?{how}", uri=True)) as file:
            (entry,) = file.execute("SELECT entry FROM entries WHERE key = ?", (BEGUN,)).fetchone()
    except (sqlite3.Error, TypeError):
        return ""
    begins = {cbor2.dumps([party, b""])[:2]: name for party, name in NAMES.items()}
    return begins.get(entry[:2], "") if isinstance(entry, bytes) else ""
