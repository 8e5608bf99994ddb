"""How sessions of pairs are played in one process: what both ways of asking share."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..core.session import SERVER
from ..drivers.in_process import InProcess
from ..drivers.roles import Effect, Party, Role
from ..parts.record import Record
from ..view.answers import Vector
from ..view.disclosure import Party as Recipient
from ..wire.messages import HEAD_BYTES
from .messages import CHUNK_BYTES
from .question import Direction, Embedders, MeasuredDirection, Reference, Released, Reported
from .sealing import TAG_BYTES
from .server import offer, server_step, tell
from .terms import PairTerms

Trained = Callable[[int], Vector]
"""A client's model after its training of this round, float32 (d,), as the server has it where it sees updates."""
UNUSABLE = "embeddings or distances that are not finite, or too large to compare"


class Sessions:
    """run_id: the run's 16 bytes. clients: their roles. enrolled: their identities. record: where disclosures and faults are
    entered.
    """

    def __init__(
        self,
        run_id: bytes,
        network: InProcess,
        clients: Mapping[int, Role],
        enrolled: Mapping[int, bytes],
        embedders: Embedders,
        record: Record,
    ) -> None:
        self.run_id = run_id
        self.network = network
        self.clients = clients
        self.enrolled = enrolled
        self.embedders = embedders
        self._record = record

    def play(self, terms: PairTerms, state: Any) -> Any:
        """From the offer to the deadline: the server's last state."""
        server = Party(SERVER, state, server_step)
        sealed = 4 * max(terms.rows * terms.d if terms.released == "distances" else 0, terms.weights)
        self.network.allow(max(2 * terms.cloud_bytes, sealed + 2 * TAG_BYTES * (1 + sealed // CHUNK_BYTES)) + HEAD_BYTES)
        opening: Iterator[tuple[int, Effect]] = ((SERVER, effect) for effect in offer(terms))
        self.network.run(self.clients, {terms.session.digest: server}, opening, _no_work)
        return server.state

    def tell(self, terms: PairTerms, edge: bool) -> None:
        """Both clients of a pair hear whether they are joined."""
        effects = ((SERVER, effect) for effect in tell(terms, edge))
        self.network.run(self.clients, {}, effects, _no_work)

    def reject(self, clients: Iterable[int], reason: str = UNUSABLE) -> None:
        self._record.reject(sorted(clients), reason)

    def disclose(self, round: int, to: Recipient, about: Iterable[int], scalars: int, words: str) -> None:
        self._record.disclose(round, to, "pairs", tuple(sorted(about)), scalars, words)


def heard(
    i: int, j: int, own: Released | Reported, others: Released | Reported, reference: Reference
) -> Direction | MeasuredDirection:
    """What the server knows of whether i accepts j. Distances that cannot be are brought to the nearest that can."""
    if isinstance(own, Released) and isinstance(others, Released):
        return direction(i, j, own, others, reference)
    if isinstance(own, Reported) and isinstance(others, Reported):
        return MeasuredDirection(i, j, _within(own.distance, reference), _within(own.reference, reference))
    raise ValueError("a cloud and a distance are no pair")


def direction(i: int, j: int, own: Released, others: Released, reference: Reference) -> Direction:
    """The same where both have released clouds."""
    target = others.own if others.other is None else others.other
    return Direction(i, j, own.own, target, _within(own.reference, reference))


def _within(distance: float, reference: Reference) -> float:
    return min(max(distance, 0.0), reference.span)


def _no_work(_: Any) -> Iterator[Any]:
    return iter(())
