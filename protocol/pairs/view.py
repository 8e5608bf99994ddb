"""Pairs in one process: the server's side of a run, what it keeps, and what each side discloses. Clients: `clients`.

Spec: specs/pairs.md. Pairs are played one after another, as the server's decision takes them, so that models and clouds of one
pair at a time are in memory.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from numpy.typing import NDArray

from ..answers import Vector
from ..disclosure import Disclosure
from ..disclosure import Party as Recipient
from ..errors import Refused
from ..group_seed import PROTOCOL as SEED_EXCHANGE
from ..group_seed import agree
from ..in_process import Fault, InProcess
from ..ledger import Ledger
from ..messages import HEAD_BYTES
from ..roles import Effect, Party
from ..session import SERVER, Session
from ..uploads import usable
from ..view import Setup
from .choices import Distances, PerPair, ServerSamples
from .clients import Clients
from .disclosed import EDGES, MODELS, answers_in_words, decisions_in_words, shown_in_words
from .messages import CHUNK_BYTES
from .question import Direction, Embedders, PairAnswers, PairQuestion, Reference, Released, Reported, Told
from .sealing import TAG_BYTES
from .server import Collecting, Paired, Pairing, Undecided, offer, server_step, tell
from .terms import ONCE, PROTOCOL, PairTerms, terms_of

Trained = Callable[[int], Vector]
"""A client's model after its training of this round, float32 (d,); known to the client."""
UNUSABLE = "embeddings or distances that are not finite, or too large to compare"


class Pairs:
    """The pairs of one run. log: where disclosures are entered. clear: whether the server sees clients' models anyway."""

    def __init__(self, setup: Setup, network: InProcess, log: list[Disclosure], *, clear: bool) -> None:
        if setup.embedders is None:
            raise Refused("clients have been given no way to embed their data; open the view with Setup(embedders=...)")
        self.clouds: dict[int, Released] = {}  # at the server: of clients that answer once for all
        self._unusable: set[int] = set()  # clients that have answered for all, with what cannot be used
        self._setup = setup
        self._embedders: Embedders = setup.embedders
        self._network = network
        self._log = log
        self._clear = clear
        self._group: bytes | None = None
        self._clients = Clients(setup, setup.embedders, network.faults.append)

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
        if isinstance(choice, ServerSamples) and choice.embedding == "exchanged" and not self._clear:
            raise Refused("the server could not embed samples by models that this protection hides; use embedding='public'")
        if getattr(choice, "projection", "") == "none" and not self._clear:
            raise Refused("clients show no embedding as it is under this protection; choose a projection")
        self._clients.asked(question)
        by_pair = isinstance(choice, PerPair | Distances)
        lost: list[tuple[int, int]] = []
        met: list[PairTerms] = []
        try:
            play = self._by_pair if by_pair else self._once
            accepts = self._judged(question, play(round, question, trained, met, lost))
            for terms in met:
                a, b = terms.session.roster
                edge = accepts[a, b] and accepts[b, a]
                self._network.run(self.parties, {}, ((SERVER, e) for e in tell(terms, edge)), _no_work, _no_lesson)
        finally:
            self._clients.end({i for pair in question.pairs for i in pair})
        about = tuple(sorted({i for pair in accepts for i in pair}))
        if about:
            self._disclose(round, "server", about, len(accepts), decisions_in_words(choice))
            if by_pair:
                self._disclose(round, "clients", about, len(accepts), EDGES)
        return PairAnswers(accepts, tuple(lost))

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

    # --- one release a pair -------------------------------------------------------------------------------------------

    def _by_pair(
        self, round: int, question: PairQuestion, trained: Trained, met: list[PairTerms], lost: list[tuple[int, int]]
    ) -> Iterator[Direction | Told]:
        choice, released, shown, clouds = question.choice, 0, 0, 0
        exchanged = getattr(choice, "embedding", "") == "exchanged"
        about: set[int] = set()
        models: set[int] = set()
        try:
            for a, b in question.pairs:
                weights = [self._embedders.weights_of(trained(i)) if exchanged else None for i in (a, b)]
                size = 0 if weights[0] is None else len(weights[0])
                session = Session(PROTOCOL, self._setup.run, round, f"{a}-{b}", (a, b), 2)
                terms = terms_of(session, choice, self._embedders, size)
                for i, own in zip((a, b), weights, strict=True):
                    self._clients.hold(i, own)
                ended = self._run(terms, Pairing(terms, self._clients.enrolled))
                for i in (a, b):
                    self._clients.hold(i, None)
                done: Mapping[int, Released | Reported] = ended.clouds if isinstance(ended, Paired) else {}
                if isinstance(ended, Undecided):
                    self._reject(ended.rejected)
                    if ended.begun:
                        lost.append((a, b))
                        about |= set(ended.answered)
                        released += len(ended.answered) * terms.scalars
                if isinstance(ended, Paired) or ended.begun:
                    models |= {a, b}
                    shown += 2 * size
                    clouds += 2 * terms.rows * terms.d
                if not done:
                    continue
                met.append(terms)
                about |= {a, b}
                released += 2 * terms.scalars
                yield from (_direction(i, j, done[i], done[j], question.reference) for i, j in ((a, b), (b, a)))
        finally:  # what was disclosed is entered whatever became of the decision
            if shown:
                self._disclose(round, "clients", tuple(sorted(models)), shown, MODELS)
            if models and isinstance(choice, Distances):
                self._disclose(round, "clients", tuple(sorted(models)), clouds, shown_in_words(choice))
            if about:
                self._disclose(round, "server", tuple(sorted(about)), released, answers_in_words(choice))

    # --- one release a client -----------------------------------------------------------------------------------------

    def _once(
        self, round: int, question: PairQuestion, trained: Trained, met: list[PairTerms], lost: list[tuple[int, int]]
    ) -> Iterator[Direction | Told]:
        choice = question.choice
        samples = isinstance(choice, ServerSamples)
        trains = isinstance(choice, ServerSamples) and choice.embedding == "exchanged"
        if not samples:
            self._agree(count=True)
        scalars, new = 0, []
        for i in sorted({i for pair in question.pairs for i in pair} - self.clouds.keys() - self._unusable):
            self._clients.hold(i, self._embedders.weights_of(trained(i)) if trains else None)
            terms = terms_of(Session(ONCE, self._setup.run, round, f"client {i}", (i,), 1), choice, self._embedders, 0)
            ended = self._run(terms, Collecting(terms))
            self._clients.hold(i, None)
            self._reject(ended.rejected)
            self._unusable |= set(ended.rejected)
            if i in ended.clouds:
                self.clouds[i] = ended.clouds[i]
                new.append(i)
                scalars += terms.scalars
        if new:
            self._disclose(round, "server", tuple(new), scalars, answers_in_words(choice))
        lost += [pair for pair in question.pairs if self._unusable & set(pair)]
        for a, b in question.pairs:
            if a in self.clouds and b in self.clouds:
                found = [_direction(i, j, self.clouds[i], self.clouds[j], question.reference) for i, j in ((a, b), (b, a))]
                if samples:
                    found = [self._seen(direction, trained if trains else None) for direction in found]
                if all(usable(rows.ravel()) for d in found for rows in (d.source, d.target)):
                    yield from found
                else:  # who is to blame, the examples or the model, is not known
                    self._reject((a, b))
                    lost.append((a, b))

    def _seen(self, of: Direction, trained: Trained | None) -> Direction:
        """The direction with samples in the place of its clouds embedded by the client's model, or the public one."""
        with self._network.timed(SERVER):
            weights = None if trained is None else self._embedders.weights_of(trained(of.client))
            source, target = (self._embedders.embed_examples(rows, weights) for rows in (of.source, of.target))
        return Direction(of.client, of.other, source, target, of.reference)

    def _agree(self, *, count: bool) -> None:
        """All clients of the run agree on one secret that the server lacks, once."""
        if self._group is not None:
            return
        session = Session(SEED_EXCHANGE, self._setup.run, 0, "pairs", tuple(sorted(self.parties)), len(self.parties))
        self._group, network = agree(session, self._setup.entropy, self._setup.tap)
        self._clients.share(self._group)
        if count:
            self._network.add_costs(network)
            self._network.messages += network.messages
            self._network.bytes_up += network.bytes_up
            self._network.bytes_down += network.bytes_down

    # --- inside -------------------------------------------------------------------------------------------------------

    def _run(self, terms: PairTerms, state: Any) -> Any:
        server = Party(SERVER, state, server_step)
        sealed = 4 * (terms.rows * terms.d if terms.released == "distances" else terms.weights)
        sealed = max(sealed, 4 * terms.weights)
        self._network.allow(max(2 * terms.cloud_bytes, sealed + 2 * TAG_BYTES * (1 + sealed // CHUNK_BYTES)) + HEAD_BYTES)
        opening: Iterator[tuple[int, Effect]] = ((SERVER, effect) for effect in offer(terms))
        self._network.run(self.parties, {terms.session.digest: server}, opening, _no_work, _no_lesson)
        return server.state

    def _reject(self, clients: Iterable[int]) -> None:
        self._network.faults += [Fault(i, UNUSABLE, True) for i in clients]

    def _disclose(self, round: int, to: Recipient, about: tuple[int, ...], scalars: int, words: str) -> None:
        self._log.append(Disclosure(round, to, "pairs", about, scalars, 4 * scalars, words))

    # --- keeping ------------------------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain JSON of what clients and server must not forget, and the clouds that the server keeps, by name."""
        plain = {
            **self._clients.save(),
            "references": {str(i): cloud.reference for i, cloud in self.clouds.items()},
            "unusable": sorted(self._unusable),
            "group": self._group is not None,
        }
        kept: dict[str, NDArray[Any]] = {}
        for i, cloud in self.clouds.items():
            kept |= {f"pairs own {i}": cloud.own} | ({} if cloud.other is None else {f"pairs other {i}": cloud.other})
        return plain, kept

    def restore(self, plain: Mapping[str, Any], kept: Mapping[str, NDArray[Any]]) -> None:
        self._clients.restore(plain)
        self.clouds = {
            int(i): Released(kept[f"pairs own {i}"], kept.get(f"pairs other {i}"), reference)
            for i, reference in plain["references"].items()
        }
        self._unusable = set(plain.get("unusable", ()))
        if plain["group"]:
            self._agree(count=False)


def _direction(i: int, j: int, own: Released | Reported, others: Released | Reported, reference: Reference) -> Any:
    """What the server knows of whether i accepts j. Distances that cannot be are brought to the nearest that can."""
    tau = min(max(own.reference, 0.0), reference.span)
    if isinstance(own, Reported):
        return Told(i, j, min(max(own.distance, 0.0), reference.span), tau)
    if not isinstance(others, Released):
        raise ValueError("a cloud and a distance are no pair")
    return Direction(i, j, own.own, others.own if others.other is None else others.other, tau)


def _no_work(_: Any) -> Iterator[Any]:
    return iter(())


def _no_lesson(_: int, __: Any) -> None:
    raise ValueError("nothing is published to clients in a comparison of pairs")
