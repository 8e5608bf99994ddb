"""The pairs of a run: how a question about them is played, and what both sides must not forget. Spec: specs/pairs.md.

Clients: `comparer`. Sessions are played by `by_pair` or `once`, one after another, as the server's decision takes them, so that
models and clouds of one pair at a time are in memory.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from ..core.errors import Refused
from ..core.session import SERVER
from ..drivers.roles import Deadline
from ..parts.run import Run
from ..seeding.attempts import Before
from ..seeding.group_seed import exchanged
from ..work.maker import Unseated
from .by_pair import by_pair
from .choices import Choice, Distances, PerPair, PerRound, ServerSamples
from .disclosed import EDGES, decisions_in_words
from .once import KeptClouds
from .question import Comparing, Direction, MeasuredDirection, PairAnswers, PairQuestion
from .roles import PAIR_SEED, PAIRS, seeding_of
from .sessions import Sessions, Trained
from .terms import PairTerms


class PairQuestions:
    """The pairs of one run. clear: whether the server sees clients' models anyway."""

    def __init__(self, run: Run, *, clear: bool) -> None:
        setup = run.setup
        if setup.embedders is None:
            raise Refused("clients have been given no way to embed their data; open the view with Setup(embedders=...)")
        if setup.hosts is not None and setup.comparing is None:
            raise Refused("clients elsewhere know beforehand what they will be asked; open the view with Setup(comparing=...)")
        self._run = run
        self._network = run.network
        self._clear = clear
        self._embedders = setup.embedders
        self._agreed, self._before = False, Before()
        self._clients = run.clients.of(PAIRS)
        enrolled = run.clients.enrolled[PAIRS]
        self._sessions = Sessions(setup.run, run.network, self._clients, enrolled, setup.embedders, run.record)
        self._kept = KeptClouds()
        self._latest = -1, KeptClouds()
        self._begun: Counter[tuple[int, int]] = Counter()

    def ask(self, round: int, question: PairQuestion, trained: Trained) -> PairAnswers:
        """Raises Refused for a choice that the protection has no use for, ValueError if the judge leaves a direction open."""
        choice = question.choice
        self._check(choice)
        exchanges = getattr(choice, "embedding", "") == "exchanged"
        weights = len(self._embedders.weights_of(self._run.setup.initial)) if exchanges else 0
        self._tell(Comparing(choice, question.reference))
        lost: list[tuple[int, int]] = []
        met: list[PairTerms] = []
        try:
            if isinstance(choice, PerPair | Distances):
                directions = by_pair(self._sessions, round, question, weights, self._begun, met, lost)
            else:
                if not isinstance(choice, ServerSamples):
                    self._agree()
                kept = self._of_round(round) if isinstance(choice, PerRound) else self._kept
                directions = kept.directions(self._sessions, round, question, trained, lost)
            accepts = self._judged(question, directions)
            for terms in met:
                a, b = terms.session.roster
                self._sessions.tell(terms, accepts[a, b] and accepts[b, a])
        finally:
            for i in sorted({i for pair in question.pairs for i in pair}):
                self._clients[i].handle(Deadline())
        about = {i for pair in accepts for i in pair}
        if about:
            self._sessions.disclose(round, "server", about, len(accepts), decisions_in_words(choice, question.decided))
        if met:
            self._sessions.disclose(round, "clients", about, len(accepts), EDGES)
        return PairAnswers(accepts, tuple(lost))

    def _tell(self, comparing: Comparing) -> None:
        """In a simulation clients hear with the first question what the run's description tells in a deployment."""
        if self._run.setup.comparing is None:
            for client in self._clients.values():
                if not isinstance(client, Unseated):
                    client.asked(comparing)

    def _of_round(self, round: int) -> KeptClouds:
        """What was released for this round alone; what was for another is forgotten."""
        if self._latest[0] != round:
            self._latest = round, KeptClouds()
        return self._latest[1]

    def _check(self, choice: Choice) -> None:
        if isinstance(choice, ServerSamples) and choice.embedding == "exchanged" and not self._clear:
            raise Refused("the server could not embed samples by models that this protection hides; use embedding='public'")
        if getattr(choice, "projection", "") == "none" and not self._clear:
            raise Refused("clients show no embedding as it is under this protection; choose a projection")
        if getattr(choice, "noise", None) is not None and not self._embedders.by_position:
            raise Refused("noise covers one record, but samples were drawn by all records together; draw them by position")

    def _judged(
        self, question: PairQuestion, directions: Iterable[Direction | MeasuredDirection]
    ) -> Mapping[tuple[int, int], bool]:
        """The server's decisions. Its CPU time is what was spent while no client was at work."""
        asked: list[tuple[int, int]] = []

        def noted() -> Iterator[Direction | MeasuredDirection]:
            for direction in directions:
                asked.append((direction.client, direction.other))
                yield direction

        started, others = time.process_time(), sum(self._network.cpu_seconds.values())
        accepts = dict(question.judge(noted()))
        others = sum(self._network.cpu_seconds.values()) - others
        self._network.cpu_seconds[SERVER] += max(0.0, time.process_time() - started - others)
        if set(accepts) != set(asked):
            raise ValueError("the judge decides exactly the directions that it was given")
        return accepts

    def _agree(self) -> None:
        """All clients of the run agree on one secret that the server lacks, once. Raises Silent where too few do: the round is
        lost, and who was shown to cheat, or asked in vain, is remembered in the next.
        """
        if self._agreed:
            return
        clients, session = self._run.clients, seeding_of(self._run.setup)
        found = exchanged(clients, self._network, session, PAIR_SEED, lambda: clients.holders(PAIR_SEED), self._before)
        self._before = found.before
        if found.failed is not None:
            raise found.failed
        self._agreed = True

    # --- keeping ------------------------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain JSON of what the server must not forget, and the clouds that it keeps, by name."""
        plain, clouds = self._kept.save()
        begun = [[a, b, count] for (a, b), count in sorted(self._begun.items())]
        return {**plain, "begun": begun, "group": self._agreed}, clouds

    def restore(self, plain: Mapping[str, Any], kept: Mapping[str, NDArray[Any]]) -> None:
        self._kept.restore(plain, kept)
        self._latest = -1, KeptClouds()
        self._begun = Counter({(a, b): count for a, b, count in plain["begun"]})
        self._agreed = bool(plain["group"])
