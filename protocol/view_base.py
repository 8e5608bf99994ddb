"""What all server views share: sessions of work, the log, the floor and the span, choices, and what a run is kept by.

A view adds how updates are collected and how sums and inner products are computed. The server's side and the clients' side
are two objects: what the server's side holds is what a curious server holds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace

import numpy as np

from . import own_models
from .account import Opened, Sketched
from .answers import (
    Assignment,
    BelowFloor,
    Cost,
    Model,
    Owner,
    Remembered,
    Snapshot,
    Sum,
    Traffic,
    Updates,
    Vector,
    Weights,
    Work,
)
from .choosing import roles as choosing
from .choosing.chooser import Chooser
from .disclosure import Disclosure
from .disclosure import Party as Recipient
from .errors import Refused
from .gate import Gate, Rules
from .in_process import Fault, InProcess, no_work
from .ledger import Ledger, Unit
from .leverage import Row
from .messages import HEAD_BYTES
from .model_keeping import Clients, ModelKeeping, unused
from .pairs.question import PairAnswers, PairQuestion
from .pairs.view import Pairs
from .roles import Effect, Learned, Party
from .session import SERVER, Session
from .sides import ClientSide
from .uploads import PROTOCOL, invite, to_bytes
from .view import Setup

__all__ = ["Clients", "ViewBase", "asked", "unused"]


class ViewBase(ModelKeeping):
    """The bookkeeping of a view. rules: of what may be published. network: carries every message of the run."""

    compares_pairs = False
    """Whether clients answer questions about pairs under this protection."""
    sees_updates = False
    """Whether the server holds clients' updates as they are."""
    holds_transformed = False
    """Whether the server holds each update transformed by a secret of the clients."""
    with_a_client = ""
    """What the server learns beyond its own view from one client that gives away the secrets that clients share."""

    def __init__(self, setup: Setup, owner: Owner, rules: Rules, clients: ClientSide, network: InProcess) -> None:
        super().__init__(setup, owner, clients, network)
        self.below_floor: list[BelowFloor] = []
        self.log: list[Disclosure] = []
        self._gate = Gate(rules)
        self.sketched: list[Sketched] = []
        self.opened: list[Opened] = []
        self._pairs: Pairs | None = None
        holds = None if owner == "server" else (lambda name: name in self.clients.models)
        policy, d = choosing.ChoosingPolicy(), len(setup.initial)
        idle = {i: choosing.Idle(i, setup.run, policy, d, holds) for i in setup.clients}
        roles = {i: Party(i, state, choosing.client_step) for i, state in idle.items()}
        self._choosers = {i: Chooser(role, clients.parties[i]) for i, role in roles.items()}

    @property
    def _least(self) -> int:
        """Fewest clients in a published sum."""
        return self._gate.rules.least

    @property
    def faults(self) -> list[Fault]:
        return self._network.faults

    @property
    def traffic(self) -> Traffic:
        return Traffic(self._network.messages, self._network.bytes_up, self._network.bytes_down)

    def add_costs(self, earlier: InProcess) -> None:
        """Count what parties spent on an earlier network of this run, whose totals the view began with, and take its faults."""
        self._network.add_costs(earlier)
        self._network.faults += earlier.faults

    @property
    def costs(self) -> Mapping[int, Cost]:
        return self._network.costs

    @property
    def ledgers(self) -> Mapping[tuple[int, Unit], Ledger]:
        """Of every client that released something with noise; here what it released to be compared."""
        return {(i, ledger.unit): ledger for i, ledger in self.pair_ledgers.items()}

    # --- work ---------------------------------------------------------------------------------------------------------

    def _session(self, round: int, cluster: str, roster: Clients, kind: Work) -> Session:
        return Session(f"{PROTOCOL}/{kind}", self._setup.run, round, cluster, roster, 1)

    def _play(
        self,
        work: Mapping[str, Assignment],
        kind: Work,
        sessions: Mapping[str, Session],
        parties: Mapping[str, Party],
        *,
        later: bool = False,
        most: int = 0,
    ) -> None:
        """Invite the participants of every session, and play to the deadline. later, most: as in `Task`."""
        for assignment in work.values():
            self._model(assignment.model)
            own_models.check(assignment, kind, self.clients.models, self.clients.owners)

        def opening() -> Iterator[tuple[int, Effect]]:
            for cluster, session in sessions.items():
                names = tuple(model.name for model in work[cluster].models)
                with self._network.timed(SERVER):
                    vectors = [to_bytes(self.server.models[n]) for n in names] if self._owner == "server" else []
                    tasks = invite(session, kind, names, b"".join(vectors), later=later, most=most)
                yield from ((SERVER, own_models.named(task, work[cluster].own)) for task in tasks)

        by_digest = {session.digest: parties[c] for c, session in sessions.items()}
        self._network.run(self.clients.parties, by_digest, opening(), no_work, self._learn)

    def _learn(self, client: int, effect: Learned) -> None:
        raise ValueError("no sum is published to clients under this protection")

    # --- sums ---------------------------------------------------------------------------------------------------------

    def personal_sums(self, updates: Updates, weights: Mapping[int, Weights], /) -> Mapping[int, Sum | BelowFloor]:
        raise Refused("sums for one client are not answered under this protection; use Plain, Permuted, Masked or Encrypted")

    def own_models(self, updates: Updates, /) -> Mapping[int, Model]:
        raise Refused("clients have no models of their own under this protection; use Plain, Permuted, Masked or Encrypted")

    def slots(self, round: int, name: str, work: Assignment, most: int = 1, /) -> Sequence[Sum | BelowFloor]:
        raise Refused("sums into slots are not answered under this protection; ask for one that gives them")

    def _safe(self, updates: Updates, rows: Mapping[str, Row]) -> list[str]:
        """The names of the rows that the gate admits. Raises Refused if, with what was published, they would show too much."""
        with self._network.timed(SERVER):
            return self._gate.admit(updates.name, rows)

    def _open(self, updates: Updates, answer: Sum, row: Row, times_samples: bool = False) -> None:
        """Put a published sum on record, with the weights of those that are in it."""
        kind: Work = "gradient" if updates.name.endswith("/gradient") else "update"
        there = {i: row[i] for i in answer.clients if i in row}
        self.opened.append(Opened(updates.round, updates.cluster, kind, there, times_samples, answer.recipient))

    def _unsummed(self, name: str, clients: Clients, fewest: int = 0) -> BelowFloor:
        """fewest: clients that this sum had to have, where that is more than any has."""
        self.below_floor.append(BelowFloor(name, clients, max(self._least, fewest)))
        return self.below_floor[-1]

    # --- choices ------------------------------------------------------------------------------------------------------

    def choose(self, round: int, models: Mapping[str, Model], clients: Sequence[int], /) -> Mapping[int, str]:
        if self._setup.judge is None:
            raise Refused("clients have been given no way to judge models; open the view with Setup(judge=...)")
        labels, names = list(models), [model.name for model in models.values()]
        session = Session(choosing.PROTOCOL, self._setup.run, round, choosing.KIND, tuple(sorted(clients)), 1)
        vectors = [to_bytes(self.server.models[name]) for name in names] if self._owner == "server" else []
        server = Party(SERVER, choosing.Asking(session, len(names)), choosing.server_step)

        self._network.allow(sum(map(len, vectors)) + 300 * len(names) + HEAD_BYTES)
        opening = ((SERVER, effect) for effect in choosing.offer(session, names, vectors))
        self._network.run(self._choosers, {session.digest: server}, opening, no_work, self._learn)
        chosen: Mapping[int, int] = server.state.chosen
        size = len(names) * len(self._setup.initial)
        self._disclose(round, "clients", choosing.KIND, session.roster, size, "the models that they were offered")
        words = "the name of the model that serves it best"
        self._disclose(round, "server", choosing.KIND, tuple(chosen), len(chosen), words)
        return {client: labels[index] for client, index in chosen.items()}

    # --- pairs --------------------------------------------------------------------------------------------------------

    def pairs(
        self, round: int, work: Mapping[str, Assignment], updates: Mapping[str, Updates], question: PairQuestion, /
    ) -> PairAnswers:
        held = {i: (updates[c], work[c].model) for c in updates for i in updates[c].clients}

        def trained(client: int) -> Vector:
            of, model = held[client]
            return self.observe(model) + self.clients.parties[client].held[of.name].vector

        if missing := sorted({i for pair in question.pairs for i in pair} - held.keys()):
            raise Refused(f"client {missing[0]} did not answer in round {round}; compare the clients that did")
        return self._comparison().ask(round, question, trained)

    def _comparison(self) -> Pairs:
        if not self.compares_pairs:
            raise Refused("clients are not compared by embeddings under this protection; use Plain, Permuted or Masked")
        if self._pairs is None:
            self._pairs = Pairs(self._setup, self._network, self.log, clear=self.sees_updates)
        return self._pairs

    @property
    def pair_ledgers(self) -> Mapping[int, Ledger]:
        """Of every client that released something with noise to be compared."""
        return {} if self._pairs is None else dict(self._pairs.ledgers)

    # --- keeping and forgetting ---------------------------------------------------------------------------------------

    def retire(self, models: Iterable[Model], remembered: Iterable[Remembered], /) -> None:
        names, kept = {m.name for m in models}, {r.name: set(r.rows) for r in remembered}
        for store in (self.server.models, self.clients.models):
            for name in store.keys() - names:
                del store[name]
        self.clients.owners = {name: i for name, i in self.clients.owners.items() if name in names}
        self.server.remembered = {
            name: {i: row for i, row in rows.items() if i in kept[name]}
            for name, rows in self.server.remembered.items()
            if name in kept
        }
        self._forget_round()

    def _forget_round(self) -> None:
        for store in (self.server.means, self.clients.means, self.server.uploads):
            store.clear()
        self.clients.forget()
        self._gate.forget()

    def save(self) -> Snapshot:
        next_round = {i: dict(p.role.state.next_round) for i, p in self.clients.parties.items()}
        for i, chooser in self._choosers.items():
            if chooser.state.next_round:
                next_round[i] |= {choosing.KIND: chooser.state.next_round}
        remembered = {name: np.stack(list(rows.values())) for name, rows in self.server.remembered.items() if rows}
        plain, clouds = ({}, {}) if self._pairs is None else self._pairs.save()
        models = {**self.server.models, **self.clients.models}
        own = dict(self.clients.owners)
        return Snapshot(models, remembered | clouds, next_round, self.traffic, pairs=plain, own=own)

    def restore(self, snapshot: Snapshot, remembered: Iterable[Remembered], /) -> None:
        self._forget_round()
        self.server.models.clear()
        self.clients.models.clear()
        self.clients.owners = dict(snapshot.own)
        for name, vector in snapshot.models.items():
            (self.clients.models if name in snapshot.own else self._models)[name] = vector
        self.server.remembered = {
            r.name: dict(zip(r.rows, snapshot.remembered[r.name], strict=True)) for r in remembered if r.rows
        }
        for i, party in self.clients.parties.items():
            rounds = dict(snapshot.next_round.get(i, {}))
            self._choosers[i].restart(replace(self._choosers[i].state, next_round=rounds.pop(choosing.KIND, 0)))
            party.role.restart(replace(party.role.state, next_round=rounds))
        if snapshot.pairs:
            self._comparison().restore(snapshot.pairs, snapshot.remembered)
        self._network.messages, self._network.bytes_up, self._network.bytes_down = astuple(snapshot.traffic)

    def _disclose(
        self, round: int, to: Recipient, what: str, about: Clients, scalars: int, words: str, client: int | None = None
    ) -> None:
        width = 8 if what.startswith("gram") else 4
        self.log.append(Disclosure(round, to, what, about, scalars, width * scalars, words, client))


def asked(weights: Mapping[str, Weights], samples: Mapping[int, int]) -> dict[str, dict[int, float]]:
    """The non-zero weights of every sum over the clients in `samples`, times their numbers of samples where asked."""
    found: dict[str, dict[int, float]] = {}
    for name, row in weights.items():
        of = {i: row.of[i] * (n if row.times_samples else 1) for i, n in samples.items() if i in row.of}
        found[name] = {i: a for i, a in of.items() if a != 0}
    return found
