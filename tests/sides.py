"""What each side of a view holds, for tests that look: the server's parts, and the clients."""

import hashlib
from typing import Any

from cloister.protocol.encrypted.holders import Holders
from cloister.protocol.encrypted.similarities import EncryptedSimilarities
from cloister.protocol.encrypted.sums import EncryptedSums
from cloister.protocol.masked.masking import MaskedSessions
from cloister.protocol.pairs.asking import AskingPairs
from cloister.protocol.pairs.roles import PAIRS
from cloister.protocol.parts.clients import Clients
from cloister.protocol.parts.gate import Gate
from cloister.protocol.parts.held import HeldUpdates
from cloister.protocol.parts.history import History
from cloister.protocol.parts.models import Models
from cloister.protocol.parts.offsets import OffsetSketches
from cloister.protocol.parts.personal import Personal
from cloister.protocol.parts.sketches import Sketches
from cloister.protocol.two_servers.sharing import HeldShares
from cloister.protocol.two_servers.similarities import SharedSimilarities
from cloister.protocol.uploaded.fusing import Fusing
from cloister.protocol.uploaded.uploading import Uploads
from cloister.protocol.work.making import KeptModel

SERVERS = {
    Models: ("held", "means", "started"),
    Uploads: ("held",),
    History: ("rows",),
    HeldUpdates: ("made",),
    Sketches: ("received",),
    OffsetSketches: ("received", "splits", "retained"),
    Personal: ("served",),
    Fusing: ("kept", "served"),
    HeldShares: ("shares", "rejected", "sources"),
    SharedSimilarities: ("kept",),
    Holders: ("keys",),
    EncryptedSums: ("shown",),
    EncryptedSimilarities: ("sketches", "kept", "scores", "splits"),
}
"""What the server holds of each part."""


def put_model(view: Any, name: str, vector: Any) -> None:
    """A public model of this name, at its owner."""
    of = models(view)
    if of.owner == "server":
        of.held[name] = vector
        return
    for party in clients(view).parties.values():
        party.owned.hold(name, vector)
    of.handles.known[name] = set(clients(view).parties)


def public_models(view: Any) -> list[str]:
    """Their names."""
    of = models(view)
    return list(of.held if of.owner == "server" else of.handles.known)


def client_models(view: Any) -> list[Any]:
    """The models that clients hold."""
    return [model.vector for party in clients(view).parties.values() for model in party.owned.models.values()]


def client_means(view: Any) -> list[Any]:
    """The means that clients hold."""
    return [mean.vector for party in clients(view).parties.values() for mean in party.owned.means.values()]


def mean_of(view: Any, name: str) -> Any:
    """The mean that was published under this name, at whoever was sent it."""
    of = models(view)
    if name in of.means:
        return of.means[name]
    lesson = of.handles.means[name]
    return clients(view).parties[min(lesson.clients)].owned.means[lesson.key].vector


def change_mean(view: Any, name: str, vector: Any) -> None:
    """Put another vector in its place, wherever it is."""
    of = models(view)
    if name in of.means:
        of.means[name] = vector
        return
    lesson = of.handles.means[name]
    for client in lesson.clients:
        means = clients(view).parties[client].owned.means
        means[lesson.key] = KeptModel(vector, hashlib.sha256(vector.tobytes()).digest(), True)


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
    handles = models(view).handles
    return [*found, handles.known, handles.owners, handles.means, gate(view).told]


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


def comparers(view: Any) -> Any:
    """The clients' parts in comparisons, by id."""
    return clients(view).of(PAIRS)


def round_bases(view: Any) -> dict[int, Any]:
    """What the server has of bases that clients released for the last round, by client."""
    return {i: cloud.own for i, cloud in part(view, AskingPairs).found._latest[1].clouds.items()}


def pair_ledgers(view: Any) -> dict[int, Any]:
    """Of every client that released something with noise to be compared."""
    return {client: ledger for (client, _), ledger in part(view, AskingPairs).ledgers().items()}
