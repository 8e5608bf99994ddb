"""Pairs in one process: the clients' roles with their ledgers, the server's, and what each side keeps and discloses.

Spec: specs/pairs.md. Pairs are played one after another, as the server's decision takes them, so that models and clouds of one
pair at a time are in memory.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..answers import Vector
from ..disclosure import Disclosure
from ..disclosure import Party as Recipient
from ..errors import Refused
from ..group_seed import PROTOCOL as SEED_EXCHANGE
from ..group_seed import agree
from ..in_process import Fault, InProcess
from ..ledger import BudgetExceeded, Ledger
from ..masked.sum import Members
from ..messages import HEAD_BYTES
from ..roles import Deadline, Effect, Party
from ..session import SERVER, Session
from ..view import Setup
from .choices import MeanSketch, PerPair, ServerSamples
from .client import Compute, Peer, peer_step
from .compute import answer_of
from .messages import CHUNK_BYTES
from .noise import opened
from .server import Collecting, Paired, Pairing, Undecided, offer, server_step, tell
from .terms import (
    ONCE,
    PROTOCOL,
    Direction,
    Embedders,
    PairAnswers,
    PairPolicy,
    PairQuestion,
    PairTerms,
    Released,
    terms_of,
)

Trained = Callable[[int], Vector]
"""A client's model after its training of this round, float32 (d,); known to the client."""


class Pairs:
    """The pairs of one run. log: where disclosures are entered.

    shows_models: whether the server sees clients' models, and so could embed examples by them. clear: whether it sees all anyway.
    """

    def __init__(self, setup: Setup, network: InProcess, log: list[Disclosure], *, clear: bool) -> None:
        if setup.embedders is None:
            raise Refused("clients have been given no way to embed their data; open the view with Setup(embedders=...)")
        self.ledgers: dict[int, Ledger] = {}
        self.clouds: dict[int, Released] = {}  # at the server: of clients that answer once for all
        self._setup = setup
        self._embedders: Embedders = setup.embedders
        self._network = network
        self._log = log
        self._clear = clear
        self._group: bytes | None = None
        self._question: PairQuestion | None = None
        self._embedded: dict[tuple[int, str], NDArray[np.float32]] = {}
        roster = tuple(sorted(setup.clients))
        members = Members.enrol(roster, setup.entropy)
        self._enrolled = members.enrolled
        self.parties = {
            i: Party(
                i,
                Peer(i, setup.run, PairPolicy(), members.identities[i], members.enrolled, setup.entropy, self._computer(i)),
                peer_step,
            )
            for i in roster
        }

    def ask(self, round: int, question: PairQuestion, trained: Trained) -> PairAnswers:
        """Raises Refused for a choice that the protection has no use for, ValueError if the judge leaves a direction open."""
        self._question = question
        choice = question.choice
        if isinstance(choice, ServerSamples) and choice.embedding == "exchanged" and not self._clear:
            raise Refused("the server could not embed samples by models that this protection hides; use embedding='public'")
        unprojected = getattr(choice, "projection", "") == "none"
        if unprojected and not self._clear:
            raise Refused("clients show no embedding as it is under this protection; choose a projection")
        policy = PairPolicy(
            projected=not unprojected,
            samples=isinstance(choice, ServerSamples),
            max_ratio=max(0.9, getattr(choice, "ratio", 0.0)),
        )
        for party in self.parties.values():
            party.state = replace(party.state, policy=policy)
        lost: list[tuple[int, int]] = []
        met: list[PairTerms] = []
        try:
            by_pair = isinstance(choice, PerPair)
            directions = self._played(round, trained, met, lost) if by_pair else self._once(round, trained)
            accepts = self._judged(question, directions)
            for terms in met:
                a, b = terms.session.roster
                edge = accepts[a, b] and accepts[b, a]
                self._network.run(self.parties, {}, ((SERVER, e) for e in tell(terms, edge)), _no_work, _no_lesson)
        finally:
            for i in {i for pair in question.pairs for i in pair}:
                self.parties[i].handle(Deadline())
                self._hold(i, None)
            self._embedded.clear()
        about = tuple(sorted({i for pair in accepts for i in pair}))
        if about:
            told = len(accepts) // 2
            self._disclose(round, "server", about, len(accepts), "distances above the references, or who accepts whom")
            if isinstance(choice, PerPair):
                self._disclose(round, "clients", about, 2 * told, "with whom they are joined, each of its own pairs")
        return PairAnswers(accepts, tuple(lost))

    def _judged(self, question: PairQuestion, directions: Iterable[Direction]) -> Mapping[tuple[int, int], bool]:
        """The server's decisions. Its CPU time is what was spent while no client was at work."""
        asked: list[tuple[int, int]] = []

        def noted() -> Iterator[Direction]:
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

    def _played(self, round: int, trained: Trained, met: list[PairTerms], lost: list[tuple[int, int]]) -> Iterator[Direction]:
        question = self._asked()
        choice, released, shown = question.choice, 0, 0
        exchanged = isinstance(choice, PerPair) and choice.embedding == "exchanged"
        about: set[int] = set()
        met_models: set[int] = set()
        for a, b in question.pairs:
            weights = [self._embedders.weights_of(trained(i)) if exchanged else None for i in (a, b)]
            size = 0 if weights[0] is None else len(weights[0])
            terms = terms_of(Session(PROTOCOL, self._setup.run, round, f"{a}-{b}", (a, b), 2), choice, self._embedders, size)
            for i, own in zip((a, b), weights, strict=True):
                self._hold(i, own)
            ended = self._run(terms, Pairing(terms, self._enrolled))
            for i in (a, b):
                self._hold(i, None)
            done: Mapping[int, Released] = ended.clouds if isinstance(ended, Paired) else {}
            if isinstance(ended, Undecided):
                self._reject(ended.rejected)
                if ended.begun:
                    lost.append((a, b))
                    about |= set(ended.answered)
                    released += len(ended.answered) * _scalars(terms)
            if exchanged and not (isinstance(ended, Undecided) and not ended.begun):
                met_models |= {a, b}
                shown += 2 * size
            if not done:
                continue
            met.append(terms)
            about |= {a, b}
            released += 2 * _scalars(terms)
            for client, other in ((a, b), (b, a)):
                target = done[other].other if terms.both else done[other].own
                if target is None:
                    raise ValueError("a second cloud is missing")
                yield Direction(client, other, done[client].own, target, done[client].reference)
        if shown:
            words = "the embedding models of the clients that they were compared with"
            self._disclose(round, "clients", tuple(sorted(met_models)), shown, words)
        if about:
            self._disclose(round, "server", tuple(sorted(about)), released, self._words())

    # --- one release a client -----------------------------------------------------------------------------------------

    def _once(self, round: int, trained: Trained) -> Iterator[Direction]:
        question = self._asked()
        choice = question.choice
        samples = isinstance(choice, ServerSamples)
        trains = samples and choice.embedding == "exchanged"  # type: ignore[union-attr]
        if not samples:
            self._agree(count=True)
        present = sorted({i for pair in question.pairs for i in pair})
        scalars, new = 0, []
        for i in present:
            if i in self.clouds:
                continue
            self._hold(i, self._embedders.weights_of(trained(i)) if trains else None)
            terms = terms_of(Session(ONCE, self._setup.run, round, f"client {i}", (i,), 1), choice, self._embedders, 0)
            ended = self._run(terms, Collecting(terms))
            self._hold(i, None)
            self._reject(ended.rejected)
            if i in ended.clouds:
                self.clouds[i] = ended.clouds[i]
                new.append(i)
                scalars += _scalars(terms)
        if new:
            self._disclose(round, "server", tuple(new), scalars, self._words())
        for a, b in question.pairs:
            if a in self.clouds and b in self.clouds:
                for client, other in ((a, b), (b, a)):
                    yield self._direction(client, other, samples, trained(client) if trains else None)

    def _direction(self, client: int, other: int, samples: bool, model: Vector | None) -> Direction:
        own, theirs = self.clouds[client], self.clouds[other]
        source, target = own.own, theirs.own if theirs.other is None else theirs.other
        if samples:
            with self._network.timed(SERVER):
                weights = None if model is None else self._embedders.weights_of(model)
                source, target = (self._embedders.embed_examples(rows, weights) for rows in (source, target))
        return Direction(client, other, source, target, own.reference)

    def _agree(self, *, count: bool) -> None:
        """All clients of the run agree on one secret that the server lacks, once."""
        if self._group is not None:
            return
        session = Session(SEED_EXCHANGE, self._setup.run, 0, "pairs", tuple(sorted(self.parties)), len(self.parties))
        self._group, network = agree(session, self._setup.entropy, self._setup.tap)
        for party in self.parties.values():
            party.state = replace(party.state, group=self._group)
        if count:
            self._network.add_costs(network)
            self._network.messages += network.messages
            self._network.bytes_up += network.bytes_up
            self._network.bytes_down += network.bytes_down

    # --- inside -------------------------------------------------------------------------------------------------------

    def _asked(self) -> PairQuestion:
        if self._question is None:
            raise ValueError("nothing was asked")
        return self._question

    def _run(self, terms: PairTerms, state: Any) -> Any:
        server = Party(SERVER, state, server_step)
        chunks = 1 + 4 * terms.weights // CHUNK_BYTES
        self._network.allow(max(2 * terms.cloud_bytes, 4 * terms.weights + 32 * chunks) + HEAD_BYTES)
        opening: Iterator[tuple[int, Effect]] = ((SERVER, effect) for effect in offer(terms))
        self._network.run(self.parties, {terms.session.digest: server}, opening, _no_work, _no_lesson)
        return server.state

    def _hold(self, client: int, weights: Vector | None) -> None:
        self.parties[client].state = replace(self.parties[client].state, weights=weights)

    def _computer(self, client: int) -> Compute:
        """The client's own computer, with its own ledger."""

        def compute(terms: PairTerms, secret: bytes, own: Vector | None, others: Vector | None) -> Released:
            question = self._asked()
            noise = getattr(question.choice, "noise", None)
            key = self._setup.entropy.secret(f"pair noise {client} {terms.binding.hex()}", 32)

            def embedded(part: str) -> NDArray[np.float32]:
                if (client, part) not in self._embedded:
                    self._embedded[client, part] = self._embedders.embed(client, part, own)
                return self._embedded[client, part]

            answer = answer_of(terms, secret, key, client, self._embedders, embedded, others, question.reference, noise)
            if noise is not None:
                try:
                    self.ledgers[client] = answer.charge(self.ledgers.get(client) or opened(noise, client))
                except BudgetExceeded as error:
                    self._network.faults.append(Fault(client, str(error), True))
                    raise
            return answer.release()

        return compute

    def _reject(self, clients: Iterable[int]) -> None:
        self._network.faults += [Fault(i, "a cloud of embeddings that is not finite", True) for i in clients]

    def _words(self) -> str:
        choice = self._asked().choice
        noise = getattr(choice, "noise", None)
        behind = "" if noise is None else f", with noise for one {noise.unit}"
        match choice:
            case ServerSamples():
                return "samples of clients' examples, as they are, and a reference distance each"
            case MeanSketch():
                return f"the projected mean of each client's public embeddings{behind}"
            case PerPair(projection="none"):
                return f"embeddings of clients' examples, as they are, and a reference distance for each pair{behind}"
            case PerPair(projection=name):
                which = "which the server lacks" if not self._clear else "which it could ask for"
                return f"embeddings under a secret projection ({name}) of each pair, {which}, and a reference distance{behind}"
        return f"public embeddings under one projection of all clients, which the server lacks, and a reference distance{behind}"

    def _disclose(self, round: int, to: Recipient, about: tuple[int, ...], scalars: int, words: str) -> None:
        self._log.append(Disclosure(round, to, "pairs", about, scalars, 4 * scalars, words))

    # --- keeping ------------------------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain JSON of what was spent, told and charged, and the clouds that the server keeps, by name."""
        plain = {
            "spent": {str(i): sorted(p.state.spent) for i, p in self.parties.items() if p.state.spent},
            "edges": {str(i): {str(j): e for j, e in p.state.edges.items()} for i, p in self.parties.items() if p.state.edges},
            "ledgers": [ledger.as_dict() for _, ledger in sorted(self.ledgers.items())],
            "references": {str(i): cloud.reference for i, cloud in self.clouds.items()},
            "group": self._group is not None,
        }
        kept: dict[str, NDArray[Any]] = {}
        for i, cloud in self.clouds.items():
            kept |= {f"pairs own {i}": cloud.own} | ({} if cloud.other is None else {f"pairs other {i}": cloud.other})
        return plain, kept

    def restore(self, plain: Mapping[str, Any], kept: Mapping[str, NDArray[Any]]) -> None:
        for i, party in self.parties.items():
            spent = frozenset(plain["spent"].get(str(i), ()))
            edges = {int(j): bool(e) for j, e in plain["edges"].get(str(i), {}).items()}
            party.state = replace(party.state, spent=spent, edges=edges, phases={})
        ledgers = [Ledger.from_dict(ledger) for ledger in plain["ledgers"]]
        self.ledgers = {ledger.client: ledger for ledger in ledgers}
        self.clouds = {
            int(i): Released(kept[f"pairs own {i}"], kept.get(f"pairs other {i}"), reference)
            for i, reference in plain["references"].items()
        }
        if plain["group"]:
            self._agree(count=False)


def _scalars(terms: PairTerms) -> int:
    return terms.released_rows * terms.p * (2 if terms.both else 1) + 1


def _no_work(_: Any) -> Iterator[Any]:
    return iter(())


def _no_lesson(_: int, __: Any) -> None:
    raise ValueError("nothing is published to clients in a comparison of pairs")
