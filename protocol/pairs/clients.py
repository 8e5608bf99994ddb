"""The clients of a run in one process: their roles, their computers and their privacy ledgers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import Fault
from ..drivers.roles import Deadline, Party
from ..parts.members import Members
from ..privacy.ledger import BudgetExceeded, Ledger
from ..view.answers import Vector
from ..view.protection import Setup
from ..work.uploads import from_bytes, to_bytes
from .client import Peer, peer_step
from .compute import Answer, Asked, answer_of, report_of, showing_of
from .messages import PairClouds
from .noise import Noise, opened
from .policy import PairPolicy, policy_of
from .question import Embedders, PairQuestion, Released, Reported, Rows
from .terms import PairTerms


class Clients:
    """parties: the clients' roles by id. ledgers: of those that released something with noise. refuse: told of each fault."""

    def __init__(self, setup: Setup, embedders: Embedders, refuse: Callable[[Fault], None]) -> None:
        self.ledgers: dict[int, Ledger] = {}
        self._setup = setup
        self._embedders = embedders
        self._refuse = refuse
        self._question: PairQuestion | None = None
        self._embedded: dict[tuple[int, str], NDArray[np.float32]] = {}
        members = Members.enrol(tuple(sorted(setup.clients)), setup.entropy, f"pairs {setup.run.hex()} identity")
        self.enrolled = members.enrolled
        nothing = PairPolicy(d=embedders.d, inputs=embedders.inputs, rows=embedders.rows, released=frozenset())
        self.parties: dict[int, Party] = {}
        for i, identity in members.identities.items():
            peer = Peer(i, setup.run, nothing, identity, self.enrolled, setup.entropy, _Computer(i, self))
            self.parties[i] = Party(i, peer, peer_step)

    def asked(self, question: PairQuestion) -> None:
        """All clients learn what they will be asked, which they knew from the run's description, and refuse anything else."""
        self._question = question
        policy = policy_of(question.choice, self._embedders)
        for party in self.parties.values():
            party.state = replace(party.state, policy=policy)

    def hold(self, client: int, weights: Vector | None) -> None:
        """The client's own embedding model from now on."""
        self.parties[client].state = replace(self.parties[client].state, weights=weights)

    def share(self, group: bytes, holders: Iterable[int]) -> None:
        """These clients have agreed on a secret; the others answer nothing that needs it."""
        for i in holders:
            self.parties[i].state = replace(self.parties[i].state, group=group)

    def end(self, clients: set[int]) -> None:
        """The sessions of these clients are over, and embeddings are forgotten."""
        for i in clients:
            self.parties[i].handle(Deadline())
            self.hold(i, None)
        self._embedded.clear()

    # --- on a client's computer ---------------------------------------------------------------------------------------

    def task(self, client: int, terms: PairTerms, own: Vector | None, others: Vector | None) -> Asked:
        if self._question is None:
            raise ValueError("nothing was asked")
        question, noise = self._question, self._noise
        key = self._setup.entropy.secret(f"pair noise {client} {terms.binding.hex()}", 32)

        def embedded(part: str) -> Rows:
            if (client, part) not in self._embedded:
                self._embedded[client, part] = self._embedders.embed(client, part, own)
            return self._embedded[client, part]

        return Asked(terms, client, self._embedders, embedded, own, others, question.reference, noise, key)

    @property
    def _noise(self) -> Noise | None:
        return None if self._question is None else getattr(self._question.choice, "noise", None)

    def released(self, client: int, answer: Answer) -> Released:
        """Charge the client's ledger, and only then release."""
        if self._noise is not None:
            try:
                self.ledgers[client] = answer.charge(self.ledgers.get(client) or opened(self._noise, client))
            except BudgetExceeded as error:
                self._refuse(Fault(client, str(error), True))
                raise
        return answer.release()

    # --- keeping ------------------------------------------------------------------------------------------------------

    def save(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain JSON of what was spent, told and charged, and what was said to all, by name."""
        peers: dict[int, Peer] = {i: party.state for i, party in self.parties.items()}
        said = {i: peer.said for i, peer in peers.items() if peer.said is not None}
        plain = {
            "spent": {str(i): {str(j): n for j, n in p.spent.items()} for i, p in peers.items() if p.spent},
            "edges": {str(i): {str(j): e for j, e in p.edges.items()} for i, p in peers.items() if p.edges},
            "said": {str(i): [context.hex(), clouds.reference.hex()] for i, (context, clouds) in said.items()},
            "ledgers": [ledger.as_dict() for _, ledger in sorted(self.ledgers.items())],
        }
        kept: dict[str, NDArray[Any]] = {}
        for i, (_, clouds) in said.items():
            kept |= {f"pairs said {i}": from_bytes(clouds.own)}
            kept |= {f"pairs said other {i}": from_bytes(clouds.other)} if clouds.other else {}
        return plain, kept

    def restore(self, plain: Mapping[str, Any], kept: Mapping[str, NDArray[Any]]) -> None:
        for i, party in self.parties.items():
            spent = {int(j): int(n) for j, n in plain["spent"].get(str(i), {}).items()}
            edges = {int(j): bool(e) for j, e in plain["edges"].get(str(i), {}).items()}
            said = None
            if str(i) in plain["said"]:
                context, reference = map(bytes.fromhex, plain["said"][str(i)])
                other = kept.get(f"pairs said other {i}")
                sent = to_bytes(kept[f"pairs said {i}"]), b"" if other is None else to_bytes(other), reference
                said = context, PairClouds(*sent)
            party.restart(replace(party.state, spent=spent, said=said, edges=edges, phases={}))
        ledgers = [Ledger.from_dict(ledger) for ledger in plain["ledgers"]]
        self.ledgers = {ledger.client: ledger for ledger in ledgers}


class _Computer:
    """One client's own computer: implements `client.Computer`."""

    def __init__(self, client: int, clients: Clients) -> None:
        self._client = client
        self._clients = clients

    def release(self, terms: PairTerms, secret: bytes, own: Vector | None, others: Vector | None, /) -> Released:
        answer = answer_of(self._clients.task(self._client, terms, own, others), secret)
        return self._clients.released(self._client, answer)

    def show(self, terms: PairTerms, own: Vector | None, others: Vector | None, /) -> Rows:
        answer = showing_of(self._clients.task(self._client, terms, own, others))
        return self._clients.released(self._client, answer).own

    def report(self, terms: PairTerms, own: Vector | None, others: Vector | None, theirs: Rows, /) -> Reported:
        return report_of(self._clients.task(self._client, terms, own, others), theirs)
