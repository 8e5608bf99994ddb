"""What each side of a view holds, for tests that look: the server's parts, and the clients."""

from typing import Any

from cloister.protocol.encrypted.holders import Holders
from cloister.protocol.encrypted.similarities import EncryptedSimilarities
from cloister.protocol.encrypted.sums import EncryptedSums
from cloister.protocol.masked.masking import MaskedSessions
from cloister.protocol.pairs.asking import AskingPairs
from cloister.protocol.parts.clients import Clients
from cloister.protocol.parts.gate import Gate
from cloister.protocol.parts.held import Held
from cloister.protocol.parts.history import History
from cloister.protocol.parts.models import Models
from cloister.protocol.parts.offsets import OffsetSketches
from cloister.protocol.parts.personal import Personal
from cloister.protocol.parts.sketches import Sketches
from cloister.protocol.two_servers.sharing import Sharing
from cloister.protocol.two_servers.similarities import SharedSimilarities
from cloister.protocol.uploaded.fusing import Fusing
from cloister.protocol.uploaded.uploading import Uploads

SERVERS = {
    Models: ("held", "means", "started"),
    Uploads: ("held",),
    History: ("rows",),
    Held: ("made",),
    Sketches: ("received",),
    OffsetSketches: ("received", "splits", "retained"),
    Personal: ("served",),
    Fusing: ("kept", "served"),
    Sharing: ("shares", "rejected", "sources"),
    SharedSimilarities: ("kept",),
    Holders: ("keys",),
    EncryptedSums: ("shown",),
    EncryptedSimilarities: ("sketches", "kept", "scores", "splits"),
}
"""What the server holds of each part."""


def part(view: Any, kind: type[Any]) -> Any:
    """The view's part of this kind."""
    return view.harness.part(kind)


def server(view: Any) -> list[Any]:
    """All that the server holds."""
    found = []
    for kind, names in SERVERS.items():
        try:
            of = part(view, kind)
        except LookupError:
            continue
        found += [getattr(of, name) for name in names]
    return [*found, gate(view).told]


def clients(view: Any) -> Clients:
    return view.harness.run.clients


def network(view: Any) -> Any:
    return view.harness.run.network


def gate(view: Any) -> Gate:
    return view.harness.run.gate


def models(view: Any) -> Models:
    return part(view, Models)


def maskers(view: Any) -> Any:
    """The clients' parts in masked sums, by id."""
    return part(view, MaskedSessions).maskers


def sketch(view: Any) -> Any:
    """What clients draw their sketches with: of a session, by its digest."""
    sketcher = next(iter(clients(view).parties.values())).sketcher
    assert sketcher is not None
    return sketcher.secret


def pair_ledgers(view: Any) -> dict[int, Any]:
    """Of every client that released something with noise to be compared."""
    return {client: ledger for (client, _), ledger in part(view, AskingPairs).ledgers().items()}
