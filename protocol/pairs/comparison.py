"""The pairs of a run: how a question about them is played, and what both sides must not forget. Spec: specs/pairs.md.

Clients: `clients`. Sessions are played by `by_pair` or `once`, one after another, as the server's decision takes them, so that
models and clouds of one pair at a time are in memory.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from ..core.errors import Refused
from ..core.session import SERVER
from ..drivers.in_process import InProcess
from ..drivers.roles import Party
from ..parts.record import Record
from ..privacy.ledger import Ledger
from ..seeding.group_seed import agree, session_of
from ..view.protection import Setup
from .by_pair import by_pair
from .choices import Choice, Distances, PerPair, ServerSamples
from .clients import Clients
from .disclosed import EDGES, decisions_in_words
from .once import Kept
from .question import Direction, PairAnswers, PairQuestion, Told
from .sessions import Sessions, Trained
from .terms import PairTerms


class Pairs:
    """The pairs of one run. record: where disclosures are entered. clear: whether the server sees clients' models anyway."""

    def __init__(self, setup: Setup, network: InProcess, record: Record, *, clear: bool) -> None:
        if setup.embedders is None:
            raise Refused("clients have been given no way to embed their data; open the view with Setup(embedders=...)")
        self._setup = setup
        self._network = network
        self._clear = clear
        self._by_position = setup.embedders.by_position
        self._group: bytes | None = None
        self._clients = Clients(setup, setup.embedders, network.faults.append)
        self._sessions = Sessions(setup.run, network, self._clients, setup.embedders, record)
        self._kept = Kept()
        self._begun: Counter[tuple[int, int]] = Counter()

    @property
    def parties(self) -> Mapping[int, Party]:
        """The clients' roles."""
        return self._clients.parties

    @property
    def ledgers(self) -> Mapping[int, Ledger]:
        """The ledgers of clients that released something with noise."""
        return self._clients.ledgers

    def ask(self, round: int, question: PairQuestion, trained: Trained) -> PairAnswers:
        """Raises Refused for a choice that the protection has no use for, ValueError if the judge leaves a direction open."""
        choice = question.choice
        self._check(choice)
        self._clients.asked(question)
        lost: list[tuple[int, int]] = []
        met: list[PairTerms] = []
        try:
            if isinstance(choice, PerPair | Distances):
                directions = by_pair(self._sessions, round, question, trained, self._begun, met, lost)
            else:
                if not isinstance(choice, ServerSamples):
                    self._agree(count=True)
                directions = self._kept.directions(self._sessions, round, question, trained, lost)
            accepts = self._judged(question, directions)
            for terms in met:
                a, b = terms.session.roster
                self._sessions.tell(terms, accepts[a, b] and accepts[b, a])
        finally:
            self._clients.end({i for pair in question.pairs for i in pair})
        about = {i for pair in accepts for i in pair}
        if about:
            self._sessions.disclose(round, "server", about, len(accepts), decisions_in_words(choice))
        if met:
            self._sessions.disclose(round, "clients", about, len(accepts), EDGES)
        return PairAnswers(accepts, tuple(lost))

    def _check(self, choice: Choice) -> None:
        if isinstance(choice, ServerSamples) and choice.embedding == "exchanged" and not self._clear:
            raise Refused("the server could not embed samples by models that this protection hides; use embedding='public'")
        if getattr(choice, "projection", "") == "none" and not self._clear:
            raise Refused("clients show no embedding as it is under this protection; choose a projection")
        if getattr(choice, "noise", None) is not None and not self._by_position:
            raise Refused("noise covers one record, but samples were drawn by all records together; draw them by position")

    def _judged(self, question: PairQuestion, directions: Iterable[Direction | Told]) -> Mapping[tuple[int, int], bool]:
        """The server's decisions. Its CPU time is what was spent while no client was at work."""
        asked: list[tuple[int, int]] = []

        def noted() -> Iterator[Direction | Told]:
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

    def _agree(self, *, count: bool) -> None:
        """All clients of the run agree on one secret that the server lacks, once."""
        if self._group is not None:
            return
        session = session_of("pairs", self._setup.run, self.parties)
        agreed = agree(session, self._setup.entropy, self._setup.tap, check=self._setup.verify)
        self._group, network = agreed.seed, agreed.network
        self._clients.share(self._group, agreed.holders)
        if count:
            self._network.faults += network.faults
            self._network.add_costs(network)
            self._network.messages += network.messages
            self._network.bytes_up += network.bytes_up
            self._network.bytes_down += network.bytes_down

    # --- keeping ------------------------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain JSON of what clients and server must not forget, and the clouds that the server keeps, by name."""
        plain, clouds = self._kept.save()
        told, said = self._clients.save()
        begun = [[a, b, count] for (a, b), count in sorted(self._begun.items())]
        return {**told, **plain, "begun": begun, "group": self._group is not None}, {**clouds, **said}

    def restore(self, plain: Mapping[str, Any], kept: Mapping[str, NDArray[Any]]) -> None:
        self._clients.restore(plain, kept)
        self._kept.restore(plain, kept)
        self._begun = Counter({(a, b): count for a, b, count in plain["begun"]})
        if plain["group"]:
            self._agree(count=False)
