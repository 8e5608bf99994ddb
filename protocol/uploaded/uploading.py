"""Uploads in a view: what the server collected of the round, and what it makes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core.errors import Refused
from ..core.session import SERVER, Session
from ..drivers.in_process import no_work
from ..drivers.roles import Party
from ..parts.gate import Rules
from ..parts.models import Models
from ..parts.run import Ids, Run, nothing
from ..parts.tasks import give, session_of
from ..view.answers import Assignment, Model, Owner, Remembered, Snapshot, Updates, Vector, Work
from ..work.maker import TRANSFORM, Maker
from ..work.upload_server import CollectingUploads, UploadsCollected, publish, server_step
from .central import CentralNoise


@dataclass(frozen=True, slots=True)
class Answering:
    """How one protection answers over uploads. seen: what the server learns of one upload, in words.

    clients: how they are made. length: of an upload. tolerance: as in `Sum`.
    across_rounds: whether uploads of different rounds compare. coordinatewise: whether order statistics survive the transform.
    noise: that the server adds to what it publishes.
    """

    owner: Owner
    rules: Rules
    clients: Maker
    length: int
    tolerance: float
    seen: str
    across_rounds: bool
    coordinatewise: bool
    noise: CentralNoise | None = None


class Uploads:
    """Has clients work, and holds their uploads until the round is over: by the updates' handle."""

    def __init__(self, run: Run, models: Models, how: Answering) -> None:
        self.held: dict[str, UploadsCollected] = {}
        self._run = run
        self._models = models
        self.how = how

    def train(self, round: int, work: Mapping[str, Assignment], kind: Work = "update", /) -> Mapping[str, Updates]:
        """See `Trains`."""
        run, how = self._run, self.how
        sessions = {c: session_of(run, round, c, a.participants, kind) for c, a in work.items()}
        parties = {c: Party(SERVER, CollectingUploads(s, how.length), server_step) for c, s in sessions.items()}
        self.play(work, kind, sessions, parties)
        self.held = {name: upload for name, upload in self.held.items() if upload.session.round == round}
        answered = {}
        for cluster in sessions:
            collected: UploadsCollected = parties[cluster].state
            run.record.reject(collected.rejected)
            clients = tuple(collected.received)
            run.record.ask(round, cluster, kind, work[cluster].participants, clients, bool(work[cluster].own))
            if not clients:
                continue
            updates = Updates(f"{cluster}@{round}/{kind}", cluster, round, clients, work[cluster].members)
            self.held[updates.name] = collected
            run.gate.begin(updates.name)
            self._models.begun(updates, work[cluster])
            self.disclose(round, kind, clients)
            answered[cluster] = updates
        return answered

    def play(
        self,
        work: Mapping[str, Assignment],
        kind: Work,
        sessions: Mapping[str, Session],
        parties: Mapping[str, Party],
        *,
        most: int = 0,
    ) -> None:
        """Give tasks, and play to the deadline. Each client draws its transform for itself; here one draws it for all."""
        for session in sessions.values():
            with self._run.timed(*session.roster):
                self._run.clients.draw(TRANSFORM, session.digest)
        give(self._run, self._models, work, kind, sessions, parties, most=most)

    def disclose(self, round: int, kind: Work, clients: Ids) -> None:
        """Enter what the server saw of these clients' work."""
        words = f"of each {kind}: {self.how.seen}; and its sample count"
        self._run.record.disclose(round, "server", f"{kind}s", clients, len(clients) * (self.how.length + 1), words)

    def collected(self, updates: Updates) -> UploadsCollected:
        """Raises Refused for updates that are gone."""
        if updates.name not in self.held:
            raise Refused(f"the updates of {updates.name} are gone; ask in the round that collected them, or remember them")
        return self.held[updates.name]

    def survivors(self, updates: Updates) -> Ids:
        """Whose uploads there are."""
        return tuple(self.collected(updates).received)

    def rows(self, updates: Updates, clients: Sequence[int]) -> list[Vector]:
        """These clients' uploads."""
        received = self.collected(updates).received
        if missing := [i for i in clients if i not in received]:
            raise Refused(f"no update of client {missing[0]} in {updates.name}; ask about its survivors")
        return [received[i][0] for i in clients]

    def model(self, updates: Updates, start: Model, client: int) -> Vector:
        """What a client's upload makes of the server's model: float32 (d,)."""
        (row,) = self.rows(updates, [client])
        return self._models.held[start.name] + row

    def lasting(self, updates: Updates, clients: Sequence[int]) -> Mapping[int, Vector]:
        """The same by client, comparable across rounds."""
        if not self.how.across_rounds:
            raise Refused("updates of different rounds are under different keys and cannot be compared; use keys='run'")
        return dict(zip(clients, self.rows(updates, clients), strict=True))

    def tell(self, session: Session, name: str, mean: Vector, to: Ids) -> None:
        """Send a mean to these clients, which invert it."""
        sent = ((SERVER, effect) for effect in publish(session, name, mean, to))
        run = self._run
        run.network.run(run.clients.parties, {}, sent, no_work, run.learn)

    # --- keeping ------------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""
        self.held.clear()

    def save(self) -> Snapshot:
        """See `Part`."""
        return nothing()

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        self.held.clear()
