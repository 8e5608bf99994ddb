"""Choices in a view: models are offered to clients, and of each that answers the name of one is told."""

from collections.abc import Mapping, Sequence

from ..core.errors import Refused
from ..core.session import SERVER, Session
from ..drivers.in_process import no_work
from ..drivers.roles import Party
from ..parts.models import Models
from ..parts.run import Run, nothing
from ..view.answers import Model, Remembered, Snapshot
from ..view.functionality import Functionality
from ..wire.messages import HEAD_BYTES
from ..work.uploads import to_bytes
from .messages import CHOICES, KIND, PROTOCOL
from .server import CollectingChoices, offer, server_step

OFFERED = "the models that they were offered"
NO_ANSWER = "; none of those that were asked answered, so that it may be that none was there to be offered any"


class Choosing:
    """Answers choices. choosers: the clients' parts in it."""

    def __init__(self, run: Run, models: Models) -> None:
        self._run = run
        self._models = models
        self.choosers = run.clients.of(CHOICES)

    def choose(self, round: int, models: Mapping[str, Model], clients: Sequence[int], /) -> Mapping[int, str]:
        """See `Choices`."""
        run, held = self._run, self._models.held
        run.allow(Functionality.CHOICE)
        if run.setup.judge is None:
            raise Refused("clients have been given no way to judge models; open the view with Setup(judge=...)")
        labels, names = list(models), [model.name for model in models.values()]
        session = Session(PROTOCOL, run.setup.run, round, KIND, tuple(sorted(clients)), 1)
        for model in models.values():
            self._models.check(model)
        vectors = [to_bytes(held[name]) for name in names] if self._models.owner == "server" else []
        if not vectors:
            self._models.handles.begin(round)
            self._models.handles.hand_out(dict.fromkeys(names, session.roster))
        server = Party(SERVER, CollectingChoices(session, len(names)), server_step)

        run.network.allow(sum(map(len, vectors)) + 300 * len(names) + HEAD_BYTES)
        opening = ((SERVER, effect) for effect in offer(session, names, vectors))
        run.network.run(self.choosers, {session.digest: server}, opening, no_work, run.learn)
        chosen: Mapping[int, int] = server.state.chosen
        size = len(names) * len(run.setup.initial)
        run.record.disclose(round, "clients", KIND, session.roster, size, OFFERED if chosen else f"{OFFERED}{NO_ANSWER}")
        words = "the name of the model that serves it best"
        run.record.disclose(round, "server", KIND, tuple(chosen), len(chosen), words)
        return {client: labels[index] for client, index in chosen.items()}

    # --- keeping ------------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""

    def save(self) -> Snapshot:
        """See `Part`."""
        return nothing()

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
