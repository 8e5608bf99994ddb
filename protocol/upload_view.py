"""The view over the upload protocol: `Plain` is this view with the identity, `Permuted` with a transform the server lacks.

The server's side and the clients' side are two objects. What the server's side holds is what a curious server holds.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from itertools import chain, count

import numpy as np
from numpy.typing import NDArray

from .answers import (
    Assignment,
    BelowFloor,
    Gram,
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
from .disclosure import Disclosure
from .errors import Refused
from .gram import cosine_block, gram_matrix, rounding
from .in_process import Fault, InProcess
from .messages import HEAD_BYTES, Task
from .roles import Effect, Learned, Party, Worked
from .session import SERVER, Session
from .sides import Answering, ClientSide, ServerSide
from .span import reveals_fewer_than
from .uploads import (
    PROTOCOL,
    Collected,
    Collecting,
    Policy,
    Summed,
    Summing,
    from_bytes,
    invite,
    publish,
    server_step,
    to_bytes,
    usable,
)
from .view import LocalJob, Setup

Clients = tuple[int, ...]


class UploadView:
    """Answers every functionality from uploads that the server collected. Implements `ServerView`."""

    def __init__(self, setup: Setup, how: Answering, before: Traffic = Traffic()) -> None:
        self._setup = setup
        self._how = how
        self.server = ServerSide()
        self.clients = ClientSide(setup, Policy(min_cohort=1), how.transform)
        self._network = InProcess(setup.tap, max_bytes=4 * how.length + HEAD_BYTES)
        self._network.messages, self._network.bytes_up, self._network.bytes_down = astuple(before)
        self.below_floor: list[BelowFloor] = []
        self.log: list[Disclosure] = []
        self._models["init"] = setup.initial

    @property
    def owner(self) -> Owner:
        return self._how.owner

    @property
    def _models(self) -> dict[str, Vector]:
        return (self.server if self.owner == "server" else self.clients).models

    @property
    def _means(self) -> dict[str, Vector]:
        return (self.server if self.owner == "server" else self.clients).means

    @property
    def faults(self) -> list[Fault]:
        return self._network.faults

    @property
    def traffic(self) -> Traffic:
        return Traffic(self._network.messages, self._network.bytes_up, self._network.bytes_down)

    # --- work ---------------------------------------------------------------------------------------------------------

    def train(self, round: int, work: Mapping[str, Assignment], kind: Work = "update", /) -> Mapping[str, Updates]:
        sessions = {c: self._session(round, c, a, kind) for c, a in work.items()}
        parties = {c: Party(SERVER, Collecting(s, self._how.length), server_step) for c, s in sessions.items()}
        self._play(work, kind, sessions, parties)
        self.server.uploads = {n: u for n, u in self.server.uploads.items() if u.session.round == round}
        answered = {}
        for cluster in sessions:
            collected = parties[cluster].state
            self._reject(collected)
            clients = tuple(collected.received)
            if not clients:
                continue
            updates = Updates(f"{cluster}@{round}/{kind}", cluster, round, clients, work[cluster].members)
            self.server.uploads[updates.name] = collected
            self.server.published[updates.name] = []
            size = len(clients) * (self._how.length + 1)
            self._disclose(round, "server", f"{kind}s", clients, size, f"of each {kind}: {self._how.seen}; and its sample count")
            answered[cluster] = updates
        return answered

    def train_and_sum(
        self, round: int, work: Mapping[str, Assignment], weights: Mapping[str, Weights], /
    ) -> Mapping[str, Sum | BelowFloor]:
        sessions = {c: self._session(round, c, a, "update") for c, a in work.items()}
        zero = np.zeros(self._how.length)
        parties = {
            c: Party(SERVER, Summing(s, self._how.length, weights[c].of, weights[c].times_samples, zero), server_step)
            for c, s in sessions.items()
        }
        self._play(work, "update", sessions, parties)
        answered: dict[str, Sum | BelowFloor] = {}
        for cluster in sessions:
            summed: Summed = parties[cluster].state
            self._reject(summed)
            if summed.clients:
                size = len(summed.clients) * (self._how.length + 1)
                self._disclose(
                    round, "server", "updates", summed.clients, size, f"of each update: {self._how.seen}; and its sample count"
                )
            counted = tuple(i for i in summed.clients if weights[cluster].of.get(i, 0.0) != 0)
            name = f"{cluster}@{round}"
            receivers = weights[cluster].members or work[cluster].members
            answered[cluster] = self._publish(name, summed.session, counted, summed.total, summed.weight, receivers)
        return answered

    def _session(self, round: int, cluster: str, assignment: Assignment, kind: Work) -> Session:
        return Session(f"{PROTOCOL}/{kind}", self._setup.run, round, cluster, assignment.participants, 1)

    def _play(
        self, work: Mapping[str, Assignment], kind: Work, sessions: Mapping[str, Session], parties: Mapping[str, Party]
    ) -> None:
        starts: dict[str, Vector] = {}

        def perform(tasks: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
            jobs = []
            for client, task in tasks:
                start = starts.get(task.model)
                if start is None:
                    start = starts[task.model] = from_bytes(task.vector) if task.vector else self.clients.models[task.model]
                jobs.append(LocalJob(client, task.round, kind, start))
            for client, result in self._setup.workers(jobs):
                yield client, Worked(result.vector, result.samples)

        def opening() -> Iterator[tuple[int, Effect]]:
            for cluster, session in sessions.items():
                model = work[cluster].model.name
                vector = to_bytes(self.server.models[model]) if self.owner == "server" else b""
                yield from ((SERVER, effect) for effect in invite(session, kind, model, vector))

        by_digest = {session.digest: parties[c] for c, session in sessions.items()}
        self._network.run(self.clients.parties, by_digest, opening(), perform, self._learn)

    def _reject(self, state: Collected | Summed) -> None:
        self._network.faults += [Fault(i, "the vector is not finite, or too large to compare", True) for i in state.rejected]

    # --- answers ------------------------------------------------------------------------------------------------------

    def gram(self, updates: Updates, /) -> Gram:
        rows = self._rows(updates, updates.clients)
        size = len(rows) * (len(rows) + 1) // 2
        self._disclose(updates.round, "server", "gram", updates.clients, size, "all inner products and norms of the updates")
        return Gram(updates.clients, gram_matrix(rows), self._how.tolerance + rounding(self._how.length))

    def sums(self, updates: Updates, weights: Mapping[str, Weights], /) -> Mapping[str, Sum | BelowFloor]:
        collected = self._collected(updates)
        rows: dict[str, dict[int, float]] = {}
        for name, asked in weights.items():
            of = {i: asked.of[i] * (n if asked.times_samples else 1) for i, (_, n) in collected.received.items() if i in asked.of}
            rows[name] = {i: a for i, a in of.items() if a != 0}
        published = self.server.published[updates.name]
        safe = {name: row for name, row in rows.items() if len(row) >= self._how.floor}
        if reveals_fewer_than(self._how.floor, [*published, *safe.values()]):
            raise Refused(
                f"sums {', '.join(safe)} of round {updates.round} are refused: together with what was published about the same"
                f" updates they would show a combination of fewer than {self._how.floor} clients"
            )
        published.extend(safe.values())
        answered: dict[str, Sum | BelowFloor] = {}
        for name, row in rows.items():
            total = np.zeros(self._how.length)
            for client, a in row.items() if name in safe else ():
                total += a * collected.received[client][0].astype(np.float64)
            label = f"{name}@{updates.round}"
            receivers = weights[name].members or updates.members
            answered[name] = self._publish(label, collected.session, tuple(row), total, sum(row.values()), receivers)
        return answered

    def coordinates(
        self, updates: Updates, name: str, rule: Callable[[NDArray[np.float32]], NDArray[np.float32]], /
    ) -> Sum | BelowFloor:
        if not self._how.coordinatewise:
            raise Refused("order statistics of coordinates do not survive this transform; use a (signed) permutation")
        if self.server.published[updates.name]:
            raise Refused(f"something was already published about the updates of round {updates.round}")
        result = rule(np.stack(self._rows(updates, updates.clients))).astype(np.float64)
        self.server.published[updates.name].append(dict.fromkeys(updates.clients, 1.0))
        session = self._collected(updates).session
        return self._publish(f"{name}@{updates.round}", session, updates.clients, result, 1.0, updates.members)

    def remember(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        self._needs_one_transform()
        name = f"{updates.name}/{len(self.server.remembered)}"
        chosen = tuple(sorted(clients))
        self.server.remembered[name] = chosen, np.stack(self._rows(updates, chosen))
        return Remembered(name, chosen)

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        self._needs_one_transform()
        if remembered.name not in self.server.remembered:
            raise Refused(f"the remembered updates {remembered.name} are gone; keep their handle when retiring")
        clients, rows = self.server.remembered[remembered.name]
        size = len(updates.clients) * len(clients)
        about = tuple(sorted({*updates.clients, *clients}))
        self._disclose(updates.round, "server", "gram(remember)", about, size, "inner products with updates of earlier rounds")
        return cosine_block(self._rows(updates, updates.clients), list(rows))

    def advance(self, model: Model, mean: Sum, /, step: float = 1.0) -> Model:
        moved = self._models[model.name] + np.float32(step) * self._means[mean.name]
        name = _unused(mean.name, self._models)
        self._models[name] = moved
        return Model(name)

    # --- keeping and forgetting ---------------------------------------------------------------------------------------

    def retire(self, models: Iterable[Model], remembered: Iterable[Remembered], /) -> None:
        names, kept = {m.name for m in models}, {r.name for r in remembered}
        for store in (self.server.models, self.clients.models):
            for name in store.keys() - names:
                del store[name]
        for name in self.server.remembered.keys() - kept:
            del self.server.remembered[name]
        self._forget_round()

    def _forget_round(self) -> None:
        for store in (self.server.means, self.clients.means, self.server.uploads, self.server.published):
            store.clear()

    def train_alone(self, round: int, models: Mapping[int, Model], /) -> Mapping[int, Model]:
        jobs = [LocalJob(i, round, "update", self.observe(models[i])) for i in sorted(models)]
        trained = {}
        for client, result in self._setup.workers(jobs):
            if not usable(result.vector):
                self._network.faults.append(Fault(client, "the vector is not finite, or too large to compare", True))
                trained[client] = models[client]
                continue
            trained[client] = Model(f"client {client}@{round}")
            self.clients.models[trained[client].name] = self.observe(models[client]) + result.vector
        return trained

    def observe(self, model: Model, /) -> Vector:
        return self.clients.models[model.name] if model.name in self.clients.models else self.server.models[model.name]

    def save(self) -> Snapshot:
        next_round = {i: dict(p.state.next_round) for i, p in self.clients.parties.items()}
        remembered = {name: rows for name, (_, rows) in self.server.remembered.items()}
        return Snapshot({**self.server.models, **self.clients.models}, remembered, next_round, self.traffic)

    def restore(self, snapshot: Snapshot, remembered: Iterable[Remembered], /) -> None:
        self._forget_round()
        self._models.clear()
        self._models.update(snapshot.models)
        self.server.remembered = {r.name: (r.clients, snapshot.remembered[r.name]) for r in remembered}
        for i, party in self.clients.parties.items():
            party.state = replace(party.state, next_round=dict(snapshot.next_round.get(i, {})))
        self._network.messages, self._network.bytes_up, self._network.bytes_down = astuple(snapshot.traffic)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _collected(self, updates: Updates) -> Collected:
        if updates.name not in self.server.uploads:
            raise Refused(f"the updates of {updates.name} are gone; ask in the round that collected them, or remember them")
        return self.server.uploads[updates.name]

    def _rows(self, updates: Updates, clients: Sequence[int]) -> list[Vector]:
        received = self._collected(updates).received
        if missing := [i for i in clients if i not in received]:
            raise Refused(f"no update of client {missing[0]} in {updates.name}; ask about its survivors")
        return [received[i][0] for i in clients]

    def _needs_one_transform(self) -> None:
        if not self._how.across_rounds:
            raise Refused("updates of different rounds are under different keys and cannot be compared; use keys='run'")

    def _publish(
        self, name: str, session: Session, counted: Clients, total: NDArray[np.float64], weight: float, to: Clients
    ) -> Sum | BelowFloor:
        if len(counted) < max(self._how.floor, 1) or weight == 0:
            self.below_floor.append(BelowFloor(name, counted, self._how.floor))
            return self.below_floor[-1]
        name = _unused(name, self._means)
        mean = (total / weight).astype(np.float32)
        if self.owner == "server":
            self.server.means[name] = mean
        else:
            sent = ((SERVER, effect) for effect in publish(session, name, mean, to))
            self._network.run(self.clients.parties, {}, sent, lambda tasks: iter(()), self._learn)
            if name not in self.clients.means:  # nobody heard it: every member fetches it before it takes part again
                self.clients.means[name] = self.clients.transform(session.digest).invert(mean)
        self._disclose(session.round, "clients", "sums", counted, len(mean), "the mean update of their own cluster")
        return Sum(name, self.owner, counted, weight, self._how.tolerance, float(np.linalg.norm(total / weight)))

    def _learn(self, client: int, effect: Learned) -> None:
        if effect.name not in self.clients.means:
            self.clients.means[effect.name] = self.clients.transform(effect.session).invert(from_bytes(effect.vector))

    def _disclose(self, round: int, to: Owner, what: str, about: tuple[int, ...], scalars: int, words: str) -> None:
        width = 8 if what.startswith("gram") else 4
        self.log.append(Disclosure(round, to, what, about, scalars, width * scalars, words))


def _unused(name: str, taken: Collection[str]) -> str:
    """The name, or with a number behind it if it is taken."""
    return next(n for n in chain([name], (f"{name}#{k}" for k in count(2))) if n not in taken)
