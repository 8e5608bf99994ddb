"""How well clients say that they predict, for whoever reports of a run whose models or test records are not at the server.

Spec: specs/scores.md. No algorithm asks for it, and no view answers it: what clients say of themselves decides nothing.
"""

from collections.abc import Iterator, Mapping

from ..core.session import SERVER, Session
from ..drivers.in_process import no_work
from ..drivers.roles import Effect, Party, Send
from ..view.answers import Model
from ..wire.codec import Envelope
from ..wire.scores import Evaluate, Score
from ..work.scoring import PROTOCOL, CollectingScores, ScoresCollected, server_step
from .models import Models
from .run import Run

WORDS = "how many of its own test records each client predicts, and its mean loss on them"
WHICH = f"{WORDS}; and which of the models it goes by most"


class Scores:
    """Asks the clients of a run. models: the part that knows who holds which."""

    def __init__(self, run: Run, models: Models) -> None:
        self._run = run
        self._models = models

    def ask(self, rounds: int, wanted: Mapping[int, tuple[Model, ...]]) -> Mapping[int, Score]:
        """What clients say, of those that do. rounds: so many are over. wanted: by client, what it predicts with.

        Each is asked once; clients that lack a model are handed it first, and refuse a second question of the same rounds.
        """
        run, handles = self._run, self._models.handles
        asked = {i: wanted[i] for i in sorted(wanted.keys() & run.clients.seated)}
        needed: dict[str, set[int]] = {}
        for i, models in asked.items():
            for model in models:
                if model.name not in handles.owners:
                    needed.setdefault(model.name, set()).add(i)
        handles.hand_out_after(needed)
        if not asked:
            return {}
        session = Session(PROTOCOL, run.setup.run, rounds, "all", tuple(asked), 1)
        server = Party(SERVER, CollectingScores(session, {i: len(models) for i, models in asked.items()}), server_step)

        def opening() -> Iterator[tuple[int, Effect]]:
            for i, models in asked.items():
                word = Evaluate(rounds, tuple(model.name for model in models))
                yield SERVER, Send(Envelope(session.digest, SERVER, i, word))

        run.network.run(run.clients.parties, {session.digest: server}, opening(), no_work, run.learn)
        ended: ScoresCollected = server.state
        told = {i: score for i, score in sorted(ended.told.items()) if score.said}
        if told:
            several = any(len(asked[i]) > 1 for i in told)
            run.record.disclose(
                rounds - 1, "server", "scores", tuple(told), (4 if several else 3) * len(told), WHICH if several else WORDS
            )
        return told
