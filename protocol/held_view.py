"""Views under which clients keep their updates: after `train` the server knows who holds work, and nothing about it.

Everything else it has to ask for. A view that is based on this one adds by what protocol a sum is answered, and by what
protocol inner products are.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..crypto.projection import TwoStage
from .core.errors import Refused
from .core.session import SERVER
from .drivers.in_process import InProcess
from .drivers.roles import Party
from .parts.gate import Rules
from .parts.leverage import Row
from .parts.participant import Conduct, Unfit
from .personal import PersonalSums
from .sides import ClientSide, upload_roles
from .uploaded.uploads import Hearing, Policy, server_step
from .view.answers import Assignment, BelowFloor, Model, Owner, Sum, Updates, Weights, Work
from .view.asks import LocalWork, Setup
from .view_base import Clients
from .wire.messages import Task


@dataclass(frozen=True, slots=True)
class Made:
    """How updates came to be. session: digest of the session of work. models: what the clients started from."""

    session: bytes
    round: int
    kind: Work
    models: tuple[Model, ...]
    clients: Clients


@dataclass(frozen=True, slots=True)
class Question:
    """One sum to be answered. number: its own among all that were asked about these updates. row: its non-zero weights, over
    as many clients that hold work as there must be. alone: the one receiver of a personal sum, which does not count towards them.
    energy: whether the sum of squared norms is asked for with it. fewest: clients that must be in it, beside the floor.
    """

    label: str
    updates: Updates
    number: int
    row: Row
    times_samples: bool
    receivers: Clients
    alone: int | None = None
    energy: bool = False
    fewest: int = 0


class HeldView(PersonalSums):
    """Clients train, hold what they have, and say so."""

    def __init__(self, setup: Setup, owner: Owner, rules: Rules, network: InProcess, conduct: Conduct) -> None:
        roles = upload_roles(setup, Policy(min_cohort=1), None)
        super().__init__(setup, owner, rules, ClientSide(roles, conduct), network)
        self._made: dict[str, Made] = {}
        self._counted: dict[str, dict[int, bool]] = {}  # whether a client's sums count samples, by the updates' handle
        self._numbered: dict[str, int] = {}  # questions so far, by the updates' handle: no two have a session in common

    # --- by the views based on this one -------------------------------------------------------------------------------

    def _sum(self, questions: Sequence[Question]) -> Mapping[str, Sum]:
        """The sums that could be computed, by label. No client is in two questions."""
        raise NotImplementedError

    # --- work ---------------------------------------------------------------------------------------------------------

    def train(self, round: int, work: Mapping[str, Assignment], kind: Work = "update", /) -> Mapping[str, Updates]:
        handles = self._heard(round, work, kind)
        return {cluster: updates for cluster, updates in handles.items() if updates.clients}

    def train_and_sum(
        self, round: int, work: Mapping[str, Assignment], weights: Mapping[str, Weights], /
    ) -> Mapping[str, Sum | BelowFloor]:
        """Clients take the model now, and work when the sum asks for their input: no update outlives its input."""
        handles = self._heard(round, work, "update", later=True)
        try:
            return self._answers([(handles[c], c, weights[c], weights[c].members or work[c].members) for c in work])
        finally:
            self.clients.break_promises()

    def _heard(
        self, round: int, work: Mapping[str, Assignment], kind: Work, *, later: bool = False, most: int = 0
    ) -> dict[str, Updates]:
        old = {name for name, made in self._made.items() if made.round != round}
        self.clients.forget(old)
        for store in (self._made, self._counted, self._numbered, self.server.uploads, self._gate.published):
            for name in old:
                store.pop(name, None)
        for name in old:
            self.server.receivers.pop(name, None)
            self.server.started.pop(name, None)
        sessions = {c: self._session(round, c, a.participants, kind) for c, a in work.items()}
        parties = {c: Party(SERVER, Hearing(s), server_step) for c, s in sessions.items()}
        self._play(work, kind, sessions, parties, later=later, most=most)
        handles = {}
        for c, session in sessions.items():
            clients = parties[c].state.clients
            handles[c] = updates = Updates(f"{c}@{round}/{kind}", c, round, clients, work[c].members)
            if clients:
                words = f"who takes part ({kind}), and nothing of what they hold"
                self._disclose(round, "server", "participation", clients, 0, words)
            if updates.name in self._made and not clients:
                continue  # asked a second time, and nobody answers: what there is stays
            self._made[updates.name] = Made(session.digest, round, kind, work[c].models, clients)
            self._counted[updates.name] = {}
            self._numbered[updates.name] = 0
            self._gate.begin(updates.name)
            if own := frozenset(work[c].own) & set(clients):
                self.server.started[updates.name] = work[c].model, own
        return handles

    def _forget_round(self) -> None:
        super()._forget_round()
        for store in (self._made, self._counted, self._numbered):
            store.clear()

    def _results(self, of: Mapping[int, str]) -> Iterator[tuple[int, LocalWork]]:
        """What clients hold under the names of their updates, or do now, as it comes."""
        clients = self.clients.parties
        promised = {i: clients[i].promised[name] for i, name in of.items() if name in clients[i].promised}
        yield from ((i, clients[i].held[name]) for i, name in of.items() if i not in promised)
        jobs = [clients[i].job(doing) for i, doing in promised.items()]
        for client, result in self._setup.workers(jobs) if jobs else ():
            with self._network.timed(client):
                found = clients[client].checked(promised[client], result)
            if isinstance(found, str):
                self._reject([client], found)
            else:
                yield client, found

    # --- sums ---------------------------------------------------------------------------------------------------------

    def sums(self, updates: Updates, weights: Mapping[str, Weights], /) -> Mapping[str, Sum | BelowFloor]:
        self._known(updates)
        return self._answers([(updates, name, asked, asked.members or updates.members) for name, asked in weights.items()])

    def _known(self, updates: Updates) -> Made:
        made = self._made.get(updates.name)
        if made is None or not set(updates.clients) <= set(made.clients):
            raise Refused(f"the updates of {updates.name} are gone; ask in the round that collected them, or remember them")
        return made

    def _survivors(self, updates: Updates) -> Clients:
        self._known(updates)
        return updates.clients

    def _answers(self, asked: Sequence[tuple[Updates, str, Weights, Clients]]) -> dict[str, Sum | BelowFloor]:
        """The answer to every question, by name: of each cluster one or several, in as few passes as no client is in twice."""
        rows: dict[str, Row] = {}
        questions: dict[str, Question] = {}
        nothing: dict[str, BelowFloor] = {}  # sums whose total weight is 0 have no mean, so none is made
        counted = {updates.name: dict(self._counted[updates.name]) for updates, *_ in asked}
        safe: list[str] = []
        try:
            for updates, name, weights, receivers in asked:
                row = {i: weights.of[i] for i in updates.clients if weights.of.get(i, 0.0) != 0}
                label = f"{name}@{updates.round}"
                without = bool(row) and not weights.times_samples and math.fsum(row.values()) == 0
                if without or len(row) < weights.fewest:
                    nothing[name] = self._unsummed(label, tuple(sorted(row)), weights.fewest)
                    continue
                rows[name] = row
                self._countable(updates, rows, name, weights)
                number = self._numbered[updates.name]
                self._numbered[updates.name] += 1
                counts, energy, fewest = weights.times_samples, weights.energy, weights.fewest
                questions[name] = Question(label, updates, number, rows[name], counts, receivers, None, energy, fewest)
            for handle in {q.updates.name: q.updates for q in questions.values()}.values():
                safe += self._safe(handle, {n: rows[n] for n, q in questions.items() if q.updates.name == handle.name})
        finally:  # a question that is refused, or rests on too few clients, stands in nobody's way
            self._counted.update(counted)
        for q in (questions[name] for name in safe):
            self._counted[q.updates.name].update(dict.fromkeys(q.row, q.times_samples))
        answered: dict[str, Sum | BelowFloor] = {}
        waiting = [questions[name] for name in safe]
        while waiting:
            batch: list[Question] = []
            for question in waiting:
                if all(question.row.keys().isdisjoint(other.row) for other in batch):
                    batch.append(question)
            waiting = [question for question in waiting if question not in batch]
            found = self._sum(batch)
            for question in batch:
                if question.label in found:
                    self._open(question.updates, found[question.label], question.row, question.times_samples)
            answered |= {name: found[q.label] for name, q in questions.items() if q in batch and q.label in found}
        none = {n: self._unsummed(q.label, tuple(sorted(q.row)), q.fewest) for n, q in questions.items() if n not in answered}
        return {name: (nothing | none | answered)[name] for _, name, *_ in asked}

    def _countable(self, updates: Updates, rows: Mapping[str, Row], name: str, weights: Weights) -> None:
        """Raises Refused for a sum times samples that overlaps with one that is not, or the other way round.

        Positive counts scale the columns of the weights and change no span; between the two kinds, counts that the server does
        not know could cancel what the weights alone do not.
        """
        of = self._counted[updates.name]
        if any(of.setdefault(i, weights.times_samples) != weights.times_samples for i in rows[name]):
            raise Refused(f"sum {name} overlaps with another of its updates, and only one of the two counts samples")


def holding(unfit: Unfit, sketch: Callable[[Task], Callable[[], TwoStage] | None]) -> Conduct:
    """Clients keep their work, and send nothing of it until it is asked for."""
    return Conduct(unfit, lambda task, work: np.zeros(0, np.float32), lambda task: True, sketch)
