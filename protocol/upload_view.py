"""The view over the upload protocol: `Plain` is this view with the identity, `Permuted` with a transform the server lacks.

The server's side and the clients' side are two objects. What the server's side holds is what a curious server holds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace

import numpy as np
from numpy.typing import NDArray

from .core.errors import Refused
from .core.session import SERVER, Session
from .drivers.in_process import InProcess, no_work
from .drivers.roles import Learned, Party
from .history import of_split, parted
from .parts.gram import about, centred, cosine_block, gram_matrix, rounding
from .parts.leverage import Row
from .parts.participant import Conduct
from .parts.slot_work import check, misfit, packed, unfair, unpacked
from .personal import PersonalQuestion, PersonalSums
from .sides import Answering, ClientSide, upload_roles
from .uploaded.uploads import Collected, Collecting, Policy, Summed, Summing, from_bytes, publish, server_step, to_bytes
from .view.answers import Assignment, BelowFloor, Gram, Remembered, Sum, Traffic, Updates, Vector, Weights, Work
from .view.asks import LocalWork, Setup
from .view_base import Clients, asked, unused
from .wire.messages import HEAD_BYTES, Task


class UploadView(PersonalSums):
    """Answers every functionality from uploads that the server collected. Implements `ServerView`."""

    compares_pairs = True
    tells_energy = True
    with_a_client = "every update in full: the clients share the secret that they transform updates by"

    def __init__(self, setup: Setup, how: Answering, before: Traffic = Traffic()) -> None:
        network = InProcess(setup.tap, max_bytes=4 * how.length + HEAD_BYTES, computers=setup.workers, judge=setup.judge)
        network.messages, network.bytes_up, network.bytes_down = astuple(before)
        roles = upload_roles(setup, Policy(min_cohort=1), how.transform)
        clients = ClientSide(roles, conduct_of(setup), how.transform)
        super().__init__(setup, how.owner, how.rules, clients, network)
        self._how = how
        self.sees_updates, self.holds_transformed = how.owner == "server", how.owner == "clients"
        if self.sees_updates:
            self.with_a_client = ""

    # --- work ---------------------------------------------------------------------------------------------------------

    def train(self, round: int, work: Mapping[str, Assignment], kind: Work = "update", /) -> Mapping[str, Updates]:
        sessions = {c: self._session(round, c, a.participants, kind) for c, a in work.items()}
        parties = {c: Party(SERVER, Collecting(s, self._how.length), server_step) for c, s in sessions.items()}
        self._draw(sessions)
        self._play(work, kind, sessions, parties)
        self.server.uploads = {n: u for n, u in self.server.uploads.items() if u.session.round == round}
        answered = {}
        for cluster in sessions:
            collected = parties[cluster].state
            self._reject(collected.rejected)
            clients = tuple(collected.received)
            if not clients:
                continue
            updates = Updates(f"{cluster}@{round}/{kind}", cluster, round, clients, work[cluster].members)
            self.server.uploads[updates.name] = collected
            self._gate.begin(updates.name)
            if own := frozenset(work[cluster].own) & set(clients):
                self.server.started[updates.name] = work[cluster].model, own
            size = len(clients) * (self._how.length + 1)
            self._disclose(round, "server", f"{kind}s", clients, size, f"of each {kind}: {self._how.seen}; and its sample count")
            answered[cluster] = updates
        return answered

    def train_and_sum(
        self, round: int, work: Mapping[str, Assignment], weights: Mapping[str, Weights], /
    ) -> Mapping[str, Sum | BelowFloor]:
        sessions = {c: self._session(round, c, a.participants, "update") for c, a in work.items()}
        zero = np.zeros(self._how.length)
        parties = {
            c: Party(SERVER, Summing(s, self._how.length, weights[c].of, weights[c].times_samples, zero), server_step)
            for c, s in sessions.items()
        }
        self._draw(sessions)
        self._play(work, "update", sessions, parties)
        answered: dict[str, Sum | BelowFloor] = {}
        for cluster in sessions:
            summed: Summed = parties[cluster].state
            self._reject(summed.rejected)
            if summed.clients:
                size = len(summed.clients) * (self._how.length + 1)
                self._disclose(
                    round, "server", "updates", summed.clients, size, f"of each update: {self._how.seen}; and its sample count"
                )
            row = {i: a for i, a in summed.row.items() if a != 0}
            receivers = weights[cluster].members or work[cluster].members
            fewest = weights[cluster].fewest
            answer = self._publish(f"{cluster}@{round}", summed.session, row, summed.total, receivers, fewest=fewest)
            if isinstance(answer, Sum):
                updates = Updates(f"{cluster}@{round}/update", cluster, round, summed.clients, work[cluster].members)
                self._open(updates, answer, weights[cluster].of, weights[cluster].times_samples)
            answered[cluster] = answer
        return answered

    def _draw(self, sessions: Mapping[str, Session]) -> None:
        """Each client draws its transform for itself; here one draws it for all."""
        for session in sessions.values():
            with self._network.timed(*session.roster):
                self._how.transform(session.digest)

    # --- answers ------------------------------------------------------------------------------------------------------

    def gram(self, updates: Updates, /, *, origin: bool = False) -> Gram:
        rows = self._rows(updates, updates.clients)
        return self._compared(updates.round, "gram", updates.clients, rows, origin)

    def recall(self, round: int, kept: Sequence[Remembered], /) -> Gram:
        rows = {i: row for handle in kept for i, row in zip(handle.rows, self._recalled(handle), strict=True)}
        clients, parts = parted(kept)
        found = self._compared(round, "gram(recall)", clients, [rows[i] for i in clients], True)
        return replace(found, matrix=centred(found.matrix, parts))

    def _compared(self, round: int, what: str, clients: Clients, rows: Sequence[Vector], origin: bool) -> Gram:
        size = len(rows) * (len(rows) + 1) // 2
        self._disclose(round, "server", what, clients, size, "all inner products and norms of the updates")
        with self._network.timed(SERVER):
            matrix = gram_matrix(rows) if origin else centred(gram_matrix(rows))
        return Gram(clients, matrix, self._how.tolerance + rounding(self._how.length))

    def sums(self, updates: Updates, weights: Mapping[str, Weights], /) -> Mapping[str, Sum | BelowFloor]:
        collected = self._collected(updates)
        rows = asked(weights, {i: n for i, (_, n) in collected.received.items()})
        enough = {name: row for name, row in rows.items() if len(row) >= weights[name].fewest}
        safe = self._safe(updates, {name: row for name, row in enough.items() if sum(row.values()) != 0})
        answered: dict[str, Sum | BelowFloor] = {}
        for name, row in rows.items():
            total = np.zeros(self._how.length)
            with self._network.timed(SERVER):
                for client, a in row.items() if name in safe else ():
                    total += a * collected.received[client][0].astype(np.float64)
            label = f"{name}@{updates.round}"
            receivers = weights[name].members or updates.members
            answer = self._publish(label, collected.session, row, total, receivers) if name in safe else None
            if isinstance(answer, Sum):
                self._open(updates, answer, row)
                answer = self._with_energy(answer, row, collected) if weights[name].energy else answer
            answered[name] = answer or self._unsummed(label, tuple(row), weights[name].fewest)
        return answered

    def _with_energy(self, answer: Sum | BelowFloor, row: Mapping[int, float], collected: Collected) -> Sum | BelowFloor:
        if isinstance(answer, BelowFloor):
            return answer
        with self._network.timed(SERVER):
            squares = {i: float(np.square(collected.received[i][0], dtype=np.float64).sum()) for i in row}
        return replace(answer, energy=math.fsum(a * squares[i] for i, a in row.items()) / answer.weight)

    def _survivors(self, updates: Updates) -> Clients:
        return tuple(self._collected(updates).received)

    def _personal(self, updates: Updates, questions: list[PersonalQuestion]) -> Mapping[int, Sum]:
        """The server computes them, as it holds the updates, and sends each to its receiver."""
        collected, found = self._collected(updates), {}
        for q in questions:
            weight, total = math.fsum(q.row.values()), np.zeros(self._how.length)
            with self._network.timed(SERVER):
                for client, a in q.row.items():
                    total += a * collected.received[client][0].astype(np.float64)
                mean, norm = (total / weight).astype(np.float32), float(np.linalg.norm(total / weight))
            name, clients, d = unused(q.label, self.clients.means), tuple(sorted(q.row)), len(self._setup.initial)
            self._tell(collected.session, name, mean, (q.receiver,))
            words = "its own weighted mean of these updates"
            self._disclose(updates.round, "clients", "personal sums", clients, d, words, q.receiver)
            found[q.receiver] = Sum(name, q.receiver, clients, weight, self._how.tolerance, norm)
        return found

    def coordinates(
        self, updates: Updates, name: str, rule: Callable[[NDArray[np.float32]], NDArray[np.float32]], /
    ) -> Sum | BelowFloor:
        if not self._how.coordinatewise:
            raise Refused("order statistics of coordinates do not survive this transform; use a (signed) permutation")
        if self._gate.published[updates.name] or self.server.receivers.get(updates.name):
            raise Refused(f"something was already published about the updates of round {updates.round}")
        rows = self._rows(updates, updates.clients)
        with self._network.timed(SERVER):
            result = rule(np.stack(rows)).astype(np.float64)
        everyone = dict.fromkeys(updates.clients, 1.0)
        self._gate.published[updates.name].append(everyone)
        session = self._collected(updates).session
        return self._publish(f"{name}@{updates.round}", session, everyone, result, updates.members, 1.0)

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        new, rows = self._lasting(updates, updates.clients), self._recalled(remembered)
        if of_split(remembered) and rows:
            new, rows = about(rows, new), about(rows, rows)
        size = len(new) * len(rows)
        whom = tuple(sorted({*updates.clients, *remembered.clients}))
        self._disclose(updates.round, "server", "gram(remember)", whom, size, "inner products with updates of earlier rounds")
        with self._network.timed(SERVER):
            return cosine_block(new, rows)

    def slots(self, round: int, name: str, work: Assignment, most: int = 1, /) -> Sequence[Sum | BelowFloor]:
        """The server is shown who chose what, with what share; the floor is counted by choosers."""
        count, d = check(work, most), len(self._setup.initial)
        session = self._session(round, name, work.participants, "slots")
        party = Party(SERVER, Collecting(session, count * (self._how.length + 1)), server_step)
        self._network.allow(4 * count * (max(self._how.length, d) + 1) + HEAD_BYTES)
        self._draw({name: session})

        self._play({name: work}, "slots", {name: session}, {name: party}, most=most)
        collected: Collected = party.state
        self._reject(collected.rejected)
        uploads = {i: unpacked(vector, count) for i, (vector, _) in collected.received.items()}
        for i in [i for i, (_, shares) in uploads.items() if unfair(shares.tolist(), most) is not None]:
            self._reject([i], f"its shares are not whole numbers from 0 to {most}")
            del uploads[i]
        words = f"of each client's vectors for {count} slots: {self._how.seen}; and which slots it chose, with what share"
        self._disclose(round, "server", "slots", tuple(uploads), len(uploads) * count * (self._how.length + 1), words)
        answered: list[Sum | BelowFloor] = []
        opened: list[dict[int, float]] = []
        for k in range(count):
            label, row = f"{name}/{k}@{round}", {i: float(shares[k]) for i, (_, shares) in uploads.items() if shares[k]}
            if self._gate.rules.reveals([*opened, row]):  # clients' shares of several slots: the later ones stay shut
                answered.append(self._unsummed(label, tuple(row)))
                continue
            opened.append(row)
            total = np.zeros(self._how.length)
            with self._network.timed(SERVER):
                for client, a in row.items():
                    total += a * uploads[client][0][k].astype(np.float64)
            answered.append(self._publish(label, session, row, total, work.members))
        return answered

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

    def _lasting(self, updates: Updates, clients: Sequence[int]) -> list[Vector]:
        if not self._how.across_rounds:
            raise Refused("updates of different rounds are under different keys and cannot be compared; use keys='run'")
        return self._rows(updates, clients)

    def _publish(
        self,
        name: str,
        session: Session,
        row: Row,
        total: NDArray[np.float64],
        to: Clients,
        weight: float | None = None,
        fewest: int = 0,
    ) -> Sum | BelowFloor:
        """total over weight, that of the row if none is given, to these clients."""
        counted, weight = tuple(row), sum(row.values()) if weight is None else weight
        if not self._gate.rules.fit(row) or weight == 0 or len(row) < fewest:
            return self._unsummed(name, counted, fewest)
        name = unused(name, self._means)
        with self._network.timed(SERVER):
            mean = (total / weight).astype(np.float32)
            norm = float(np.linalg.norm(total / weight))
        if self.owner == "server":
            self.server.means[name] = mean
        else:
            self._tell(session, name, mean, to)
        self._disclose(session.round, "clients", "sums", counted, len(mean), "the mean update of their own cluster")
        return Sum(name, self.owner, counted, weight, self._how.tolerance, norm)

    def _tell(self, session: Session, name: str, mean: Vector, to: Clients) -> None:
        sent = ((SERVER, effect) for effect in publish(session, name, mean, to))
        self._network.run(self.clients.parties, {}, sent, no_work, lambda _, effect: self._invert(effect, to))
        if name not in self.clients.means:  # nobody heard it: every member fetches it before it takes part again
            self._invert(Learned(name, session.digest, to_bytes(mean)), to)

    def _learn(self, client: int, effect: Learned) -> None:
        self._invert(effect, (client,))

    def _invert(self, effect: Learned, clients: Clients) -> None:
        if effect.name not in self.clients.means:
            with self._network.timed(*clients):  # each inverts it for itself; here one does it for all
                self.clients.means[effect.name] = self._how.transform(effect.session).invert(from_bytes(effect.vector))


def conduct_of(setup: Setup) -> Conduct:
    """Clients upload what they computed; they keep it where they may embed by it, or started from models of their own."""
    d = len(setup.initial)

    def unfit(task: Task, work: LocalWork) -> str | None:
        return misfit(work, len(task.models), d, task.most) if task.work == "slots" else None

    def put(task: Task, work: LocalWork) -> Vector:
        return packed(work) if task.work == "slots" else work.vector

    return Conduct(unfit, put, lambda task: setup.embedders is not None or task.own != "", lambda task: None)
