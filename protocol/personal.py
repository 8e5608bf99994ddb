"""Sums of which each client gets its own, and models that are one client's own: what views that answer them share.

Who a personal sum rests on is counted without its receiver, which knows its own update. A receiver gets one sum a round, and
updates of which anything was published give no personal sums, nor the other way round: so what a receiver knows beside its
sum is its own update alone. Receivers that put their sums together learn the span of the rows; only where the protection says
so are they held against that. Spec: specs/receiver_opened.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .core.errors import Refused
from .history import History
from .parts.leverage import Row
from .view.answers import BelowFloor, Model, Sum, Updates, Weights
from .view_base import Clients


@dataclass(frozen=True, slots=True)
class PersonalQuestion:
    """One sum for one client. row: its weights other than 0, of the receiver too; at least `floor` others are in it."""

    label: str
    receiver: int
    row: Row

    @property
    def others(self) -> Clients:
        return tuple(sorted(self.row.keys() - {self.receiver}))


class PersonalSums(History):
    """Answers personal sums by a protocol that a view adds, and keeps clients' own models."""

    @property
    def _receivers(self) -> dict[str, set[int]]:
        """Who had a personal sum of these updates, by their handle."""
        return self.server.receivers

    # --- by the views based on this one -------------------------------------------------------------------------------

    def _survivors(self, updates: Updates) -> Clients:
        """Of whom there is an update. Raises Refused if they are gone."""
        raise NotImplementedError

    def _personal(self, updates: Updates, questions: list[PersonalQuestion]) -> Mapping[int, Sum]:
        """The sums that could be computed, by receiver."""
        raise NotImplementedError

    # --- sums ---------------------------------------------------------------------------------------------------------

    def personal_sums(self, updates: Updates, weights: Mapping[int, Weights], /) -> Mapping[int, Sum | BelowFloor]:
        there = self._survivors(updates)
        questions = {}
        for receiver in sorted(weights):
            self._check_receiver(updates, receiver, weights[receiver])
            row = {i: weights[receiver].of[i] for i in there if weights[receiver].of.get(i, 0.0) != 0}
            questions[receiver] = PersonalQuestion(f"{updates.cluster} for {receiver}@{updates.round}", receiver, row)
        enough = [q for q in questions.values() if self._rests_on_enough(q) and math.fsum(q.row.values()) != 0]
        if enough and self._gate.published[updates.name]:
            raise Refused(f"sums of {updates.name} were published; clients give an update to such sums or to personal ones")
        self._check_together(updates, enough)
        if enough:
            self._receivers.setdefault(updates.name, set()).update(q.receiver for q in enough)
            self.server.served |= {q.receiver: updates.round for q in enough}
        found = self._personal(updates, enough) if enough else {}
        for question in enough:
            if question.receiver in found:
                self._open(updates, found[question.receiver], question.row)
        return {r: found[r] if r in found else self._unsummed(q.label, tuple(sorted(q.row))) for r, q in questions.items()}

    def _allies(self, receiver: int) -> frozenset[int]:
        """The receiver, and who is taken to know what it knows."""
        return frozenset({receiver})

    def _rests_on_enough(self, question: PersonalQuestion) -> bool:
        allies = self._allies(question.receiver)
        return self._gate.rules.fit({i: a for i, a in question.row.items() if i not in allies})

    def _check_receiver(self, updates: Updates, receiver: int, weights: Weights) -> None:
        if receiver not in self._setup.clients:
            raise Refused(f"client {receiver} is not of this run")
        if weights.times_samples:
            raise Refused("the weights of personal sums are public; put sample counts that may be known into them")
        if weights.members not in ((), (receiver,)):
            raise Refused(f"the sum for client {receiver} has no other members")
        if self.server.served.get(receiver) == updates.round:
            raise Refused(f"client {receiver} had its personal sum of round {updates.round}")

    def _check_together(self, updates: Updates, questions: list[PersonalQuestion]) -> None:
        """Raises Refused for sums that together show too much to receivers that are known to collude."""

    def _safe(self, updates: Updates, rows: Mapping[str, Row]) -> list[str]:
        if self._receivers.get(updates.name) and any(len(row) >= self._least for row in rows.values()):
            raise Refused(f"{updates.name} gave personal sums; clients give an update to such sums or to published ones")
        return super()._safe(updates, rows)

    # --- models -------------------------------------------------------------------------------------------------------

    def own_models(self, updates: Updates, /) -> Mapping[int, Model]:
        self._survivors(updates)
        start = self.server.started.get(updates.name)
        if start is None:
            raise Refused(f"nobody started from a model of its own in {updates.name}; see Assignment.own")
        (public, clients), found = start, {}
        for i in (i for i in updates.clients if i in clients):
            with self._network.timed(i):
                moved = self.observe(public) + self.clients.parties[i].held[updates.name].vector
            found[i] = self._owned(i, f"client {i}@{updates.round}", moved.astype(np.float32, copy=False))
        return found

    def _forget_round(self) -> None:
        super()._forget_round()
        self._receivers.clear()
        self.server.served.clear()
        self.server.started.clear()
