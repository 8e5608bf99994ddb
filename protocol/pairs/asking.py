"""Pairs in a view: clients are compared by embeddings, when that is first asked for: those that trained in a round, or all."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..core.errors import Refused
from ..parts.run import Run, nothing
from ..view.answers import Assignment, Model, Remembered, Snapshot, Traffic, Updates, Vector
from ..view.functionality import Functionality
from .question import PairAnswers, PairQuestion

if TYPE_CHECKING:
    from ..privacy.ledger import Ledger, Unit
    from .comparison import PairQuestions

Seen = Callable[[Updates, Model, int], Vector]
"""What a client's update makes of a model, float32 (d,), at a server that has both."""


class AskingPairs:
    """Answers pairs. seen: where the server sees updates. found: the comparison, once something was asked."""

    def __init__(self, run: Run, seen: Seen | None = None) -> None:
        self._run = run
        self._seen = seen
        self.found: PairQuestions | None = None

    def pairs(
        self, round: int, work: Mapping[str, Assignment], updates: Mapping[str, Updates], question: PairQuestion, /
    ) -> PairAnswers:
        """See `ComparesPairs`."""
        self._run.allow(Functionality.PAIRS)
        held = {i: (updates[c], work[c].model) for c in updates for i in updates[c].clients}
        there = held.keys() if held else {i for assignment in work.values() for i in assignment.participants}
        wanted = sorted({i for pair in question.pairs for i in pair})

        def trained(client: int) -> Vector:
            if self._seen is None:
                raise Refused("the server has no update of a client")
            return self._seen(*held[client], client)

        if missing := [i for i in wanted if i not in there]:
            raise Refused(f"client {missing[0]} did not answer in round {round}; compare the clients that did")
        if wanted and not held and getattr(question.choice, "embedding", "public") != "public":
            raise Refused(f"client {wanted[0]} trained no embedding model in round {round}; take a public one")
        return self._comparison().ask(round, question, trained)

    def ledgers(self) -> "Mapping[tuple[int, Unit], Ledger]":
        """Of every client that released something with noise to be compared."""
        if self.found is None:
            return {}
        found = {i: client.ledger for i, client in self._run.clients.all.items()}
        return {(i, ledger.unit): ledger for i, ledger in sorted(found.items()) if ledger is not None}

    def _comparison(self) -> "PairQuestions":
        if self.found is None:
            from .comparison import PairQuestions  # here, as it loads an accountant

            self.found = PairQuestions(self._run, clear=self._run.record.sees_updates)
        return self.found

    # --- keeping ------------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""

    def save(self) -> Snapshot:
        """See `Part`."""
        if self.found is None:
            return nothing()
        plain, clouds = self.found.save()
        return Snapshot({}, clouds, {}, Traffic(), pairs=plain)

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        if snapshot.pairs:
            self._comparison().restore(snapshot.pairs, snapshot.remembered)
