"""Sums of uploads, in the clear or of what clients alone can invert: published to a cluster, or told one client."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.errors import PAST_BUDGET, Refused
from ..core.session import SERVER, Session
from ..drivers.roles import Party
from ..parts.leverage import Row
from ..parts.models import Models
from ..parts.personal import PersonalQuestion
from ..parts.run import Ids, Run
from ..parts.tasks import session_of
from ..parts.weights import asked
from ..view.answers import Assignment, BelowFloor, Sum, Updates, Weights
from ..view.functionality import Functionality
from ..work.upload_server import AddingUploads, UploadsCollected, UploadsSummed, server_step
from .central import CentralSums
from .uploading import Answering, Uploads

MEAN = "the mean update of their own cluster"
COORDINATEWISE = "what a rule makes of their cluster's updates, coordinate by coordinate"
CENTRAL = ", with noise that the server added"
LAST_MEAN = "a mean of the last models of their cluster"
"""What members are told, for the log."""


class UploadSums:
    """Answers sums, personal sums and order statistics."""

    def __init__(self, run: Run, models: Models, uploads: Uploads, how: Answering) -> None:
        self.tells_energy = how.noise is None
        self.noise: CentralSums | None = None
        if how.noise is not None:
            self.noise = CentralSums(how.noise, how.length, run.clients.all, run.setup.entropy)
        self._run = run
        self._models = models
        self._uploads = uploads
        self._how = how

    def train_and_sum(
        self, round: int, work: Mapping[str, Assignment], weights: Mapping[str, Weights], /
    ) -> Mapping[str, Sum | BelowFloor]:
        """See `Sums`."""
        if self.noise is not None:  # the server keeps what it clips
            trained = self._uploads.train(round, work)
            below = {c: self._run.record.unsummed(f"{c}@{round}", ()) for c in work.keys() - trained.keys()}
            return below | {c: self.sums(of, {c: weights[c]})[c] for c, of in trained.items()}
        run, length = self._run, self._how.length
        run.allow(Functionality.SUMS)
        sessions = {c: session_of(run, round, c, a.participants, "update") for c, a in work.items()}
        empty = np.zeros(length)
        states = {c: AddingUploads(s, length, weights[c].of, weights[c].times_samples, empty) for c, s in sessions.items()}
        parties = {c: Party(SERVER, state, server_step) for c, state in states.items()}
        self._uploads.play(work, "update", sessions, parties)
        answered: dict[str, Sum | BelowFloor] = {}
        for cluster in sessions:
            summed: UploadsSummed = parties[cluster].state
            run.record.reject(summed.rejected)
            run.record.ask(round, cluster, "update", work[cluster].participants, summed.clients, bool(work[cluster].own))
            if summed.clients:
                self._uploads.disclose(round, "update", summed.clients)
            row = {i: a for i, a in summed.row.items() if a != 0}
            to, fewest = weights[cluster].members or work[cluster].members, weights[cluster].fewest
            answer = self.publish(f"{cluster}@{round}", summed.session, row, summed.total, to, fewest=fewest)
            if isinstance(answer, Sum):
                updates = Updates(f"{cluster}@{round}/update", cluster, round, summed.clients, work[cluster].members)
                run.record.open(updates, answer, weights[cluster].of, weights[cluster].times_samples)
            answered[cluster] = answer
        return answered

    def sums(self, updates: Updates, weights: Mapping[str, Weights], /) -> Mapping[str, Sum | BelowFloor]:
        """See `Sums`."""
        run, collected = self._run, self._uploads.collected(updates)
        run.allow(Functionality.SUMS)
        rows = asked(weights, {i: n for i, (_, n) in collected.received.items()})
        enough = {name: row for name, row in rows.items() if len(row) >= weights[name].fewest}
        with run.timed():
            safe = run.gate.admit(updates.name, {name: row for name, row in enough.items() if sum(row.values()) != 0})
        if self.noise is not None:
            self.noise.check(updates.round, {name: rows[name] for name in safe})
        answered: dict[str, Sum | BelowFloor] = {}
        for name, row in rows.items():
            label = f"{name}@{updates.round}"
            to = weights[name].members or updates.members
            if self.noise is not None and name in safe:
                whole, row = row, self.noise.paid(updates.round, row)
                for client in sorted(whole.keys() - row.keys()):
                    run.record.fault(client, f"another sum with noise would take client {client} {PAST_BUDGET}")
            total = self._total(collected, row if name in safe else {}, label)
            answer = self.publish(label, collected.session, row, total, to) if name in safe else None
            if isinstance(answer, Sum):
                run.record.open(updates, answer, row)
                told = weights[name].energy and self.tells_energy
                answer = self._with_energy(answer, row, collected) if told else answer
            answered[name] = answer or run.record.unsummed(
                label, (*rows[name],), weights[name].fewest, weights=rows[name].values()
            )
        return answered

    def coordinates(
        self, updates: Updates, name: str, rule: Callable[[NDArray[np.float32]], NDArray[np.float32]], /
    ) -> Sum | BelowFloor:
        """See `Coordinates`."""
        self._run.allow(Functionality.COORDINATES)
        if not self._how.coordinatewise:
            raise Refused("order statistics of coordinates do not survive this transform; use a (signed) permutation")
        session, everyone = self._uploads.collected(updates).session, dict.fromkeys(updates.clients, 1.0)
        self._run.gate.alone(updates.name, everyone)
        rows = self._uploads.rows(updates, updates.clients)
        with self._run.timed():
            result = rule(np.stack(rows)).astype(np.float64)
        return self.publish(f"{name}@{updates.round}", session, everyone, result, updates.members, 1.0, told=COORDINATEWISE)

    def personal(self, updates: Updates, questions: list[PersonalQuestion]) -> Mapping[int, Sum]:
        """The server computes them, as it holds the updates, and sends each to its receiver."""
        run, collected, found = self._run, self._uploads.collected(updates), {}
        for q in questions:
            weight, total = math.fsum(q.row.values()), self._total(collected, q.row)
            with run.timed():
                mean, norm = (total / weight).astype(np.float32), float(np.linalg.norm(total / weight))
            name, clients, d = self._models.taught(q.label, (q.receiver,)), tuple(sorted(q.row)), len(run.setup.initial)
            self._uploads.tell(collected.session, name, mean, (q.receiver,))
            words = "its own weighted mean of these updates"
            run.record.disclose(updates.round, "clients", "personal sums", clients, d, words, q.receiver)
            found[q.receiver] = Sum(name, q.receiver, clients, weight, self._how.tolerance, norm)
        return found

    def publish(
        self,
        name: str,
        session: Session,
        row: Row,
        total: NDArray[np.float64],
        to: Ids,
        weight: float | None = None,
        fewest: int = 0,
        told: str = MEAN,
    ) -> Sum | BelowFloor:
        """total over weight, that of the row if none is given, to these clients. told: what that is, for the log."""
        run, counted, weight = self._run, tuple(row), sum(row.values()) if weight is None else weight
        if not run.gate.rules.fit(row) or weight == 0 or len(row) < fewest:
            return run.record.unsummed(name, counted, fewest)
        name = self._models.mean_name(name)
        with run.timed():
            mean = (total / weight).astype(np.float32)
            norm = float(np.linalg.norm(total / weight))
        if self._models.owner == "server":
            self._models.means[name] = mean
        else:
            self._models.taught(name, to)
            self._uploads.tell(session, name, mean, to)
        words = told + (CENTRAL if self.noise is not None else "") + run.setup.carried
        run.record.disclose(session.round, "clients", "sums", counted, len(mean), words)
        return Sum(name, self._models.owner, counted, weight, self._how.tolerance, norm)

    # --- inside -------------------------------------------------------------------------------------------------------------

    def _total(self, collected: UploadsCollected, row: Row, name: str = "") -> NDArray[np.float64]:
        if self.noise is not None and row:
            with self._run.timed():
                return self.noise.total(collected.session, name, row, {i: collected.received[i][0] for i in row})
        total = np.zeros(self._how.length)
        with self._run.timed():
            for client, a in row.items():
                total += a * collected.received[client][0].astype(np.float64)
        return total

    def _with_energy(self, answer: Sum, row: Row, collected: UploadsCollected) -> Sum:
        with self._run.timed():
            squares = {i: float(np.square(collected.received[i][0], dtype=np.float64).sum()) for i in row}
        return replace(answer, energy=math.fsum(a * squares[i] for i, a in row.items()) / answer.weight)
