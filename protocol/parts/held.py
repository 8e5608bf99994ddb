"""Updates that clients keep: after `train` the server knows who holds work, and nothing about it.

Everything else it has to ask for: sums by one protocol, inner products by another.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..core.errors import Refused
from ..core.session import SERVER
from ..drivers.roles import Party
from ..view.answers import Assignment, Model, Remembered, Snapshot, Updates, Work
from ..work.upload_server import Hearing, server_step
from .models import Models
from .run import Ids, Run, nothing
from .tasks import give, session_of


@dataclass(frozen=True, slots=True)
class Made:
    """How updates came to be. session: digest of the session of work. models: what the clients started from."""

    session: bytes
    round: int
    kind: Work
    models: tuple[Model, ...]
    clients: Ids


class HeldUpdates:
    """Has clients train, hold what they have, and say so. made: by the updates' handle. dropped: told of handles that are gone,
    before new work begins.
    """

    def __init__(self, run: Run, models: Models) -> None:
        self.made: dict[str, Made] = {}
        self.dropped: list[Callable[[int, set[str]], None]] = []
        self._asked: dict[str, int] = {}  # questions so far, by the updates' handle: no two have a session in common
        self._run = run
        self._models = models

    def train(self, round: int, work: Mapping[str, Assignment], kind: Work = "update", /) -> Mapping[str, Updates]:
        """See `Trains`."""
        return {cluster: updates for cluster, updates in self.hear(round, work, kind).items() if updates.clients}

    def hear(
        self, round: int, work: Mapping[str, Assignment], kind: Work, *, later: bool = False, most: int = 0
    ) -> dict[str, Updates]:
        """Who holds work, or will do it when its result is asked for (later). most: as in `Task`."""
        run = self._run
        self._forget(round, {name for name, made in self.made.items() if made.round != round})
        sessions = {c: session_of(run, round, c, a.participants, kind) for c, a in work.items()}
        parties = {c: Party(SERVER, Hearing(s), server_step) for c, s in sessions.items()}
        give(run, self._models, work, kind, sessions, parties, later=later, most=most)
        handles = {}
        for c, session in sessions.items():
            clients = parties[c].state.clients
            run.record.ask(round, c, kind, work[c].participants, clients, bool(work[c].own))
            handles[c] = updates = Updates(f"{c}@{round}/{kind}", c, round, clients, work[c].members)
            if clients:
                words = f"which clients took part ({kind}); no data"
                run.record.disclose(round, "server", "participation", clients, 0, words)
            if updates.name in self.made and not clients:
                continue  # asked a second time, and nobody answers: what there is stays
            self.made[updates.name] = Made(session.digest, round, kind, work[c].models, clients)
            self._asked[updates.name] = 0
            run.gate.begin(updates.name)
            self._models.begun(updates, work[c])
        return handles

    def known(self, updates: Updates) -> Made:
        """Raises Refused for updates that are gone."""
        made = self.made.get(updates.name)
        if made is None or not set(updates.clients) <= set(made.clients):
            raise Refused(f"the updates of {updates.name} are gone; ask in the round that collected them, or remember them")
        return made

    def survivors(self, updates: Updates) -> Ids:
        """Who holds work."""
        self.known(updates)
        return updates.clients

    def number(self, updates: Updates) -> int:
        """Of one more question about these updates."""
        self._asked[updates.name] += 1
        return self._asked[updates.name] - 1

    def _forget(self, round: int, names: set[str]) -> None:
        self._run.gate.forget(names)
        for name in names:
            self.made.pop(name)
            self._asked.pop(name)
            self._models.started.pop(name, None)
        for told in self.dropped:
            told(round, names)

    # --- keeping ------------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""
        self.made.clear()
        self._asked.clear()

    def save(self) -> Snapshot:
        """See `Part`."""
        return nothing()

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        self.made.clear()
        self._asked.clear()
