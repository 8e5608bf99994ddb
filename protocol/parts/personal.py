"""Sums of which each client gets its own: what protections that answer them share.

Who a personal sum rests on is counted without its receiver, which knows its own update. A receiver gets one sum a round, and
updates of which anything was published give no personal sums, nor the other way round: so what a receiver knows beside its
sum is its own update alone. Receivers that put their sums together learn the span of the rows; only where the protection says
so are they held against that. Spec: specs/receiver_opened.md.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..core.errors import Refused
from ..view.answers import BelowFloor, Model, Remembered, Snapshot, Sum, Updates, Weights
from ..view.functionality import Functionality
from .leverage import Row
from .models import Models
from .run import Ids, Run, nothing


@dataclass(frozen=True, slots=True)
class PersonalQuestion:
    """One sum for one client. row: its weights other than 0, of the receiver too; at least `floor` others are in it."""

    label: str
    receiver: int
    row: Row

    @property
    def others(self) -> Ids:
        return tuple(sorted(self.row.keys() - {self.receiver}))


Survivors = Callable[[Updates], Ids]
"""Of whom there is an update. Raises Refused if they are gone."""
Answering = Callable[[Updates, list[PersonalQuestion]], Mapping[int, Sum]]
"""The sums that could be computed, by receiver."""


def alone(receiver: int) -> frozenset[int]:
    """Of receivers that put nothing together."""
    return frozenset({receiver})


def unchecked(updates: Updates, questions: Sequence[PersonalQuestion]) -> None:
    """Of receivers that are not known to collude."""


class Personal:
    """Answers personal sums. allies: the receiver, and who is taken to know what it knows. together: raises Refused for sums that
    show too much to receivers that are known to collude. served: the round of each receiver's last sum.
    """

    def __init__(
        self,
        run: Run,
        models: Models,
        survivors: Survivors,
        answer: Answering,
        allies: Callable[[int], frozenset[int]] = alone,
        together: Callable[[Updates, list[PersonalQuestion]], None] = unchecked,
    ) -> None:
        self.served: dict[int, int] = {}
        self._run = run
        self._models = models
        self._survivors = survivors
        self._answer = answer
        self._allies = allies
        self._together = together

    def personal_sums(self, updates: Updates, weights: Mapping[int, Weights], /) -> Mapping[int, Sum | BelowFloor]:
        """See `PersonalSums`."""
        run, there = self._run, self._survivors(updates)
        run.allow(Functionality.PERSONAL_SUMS)
        questions = {}
        for receiver in sorted(weights):
            self._check_receiver(updates, receiver, weights[receiver])
            row = {i: weights[receiver].of[i] for i in there if weights[receiver].of.get(i, 0.0) != 0}
            questions[receiver] = PersonalQuestion(f"{updates.cluster} for {receiver}@{updates.round}", receiver, row)
        enough = [q for q in questions.values() if self._rests_on_enough(q) and math.fsum(q.row.values()) != 0]
        if enough:
            run.gate.personal(updates.name)
        self._together(updates, enough)
        if enough:
            run.gate.told[updates.name].receivers.update(q.receiver for q in enough)
            self.served |= {q.receiver: updates.round for q in enough}
        found = self._answer(updates, enough) if enough else {}
        for question in enough:
            if question.receiver in found:
                run.record.open(updates, found[question.receiver], question.row)
        none = {r: run.record.unsummed(q.label, tuple(sorted(q.row))) for r, q in questions.items() if r not in found}
        return {receiver: found.get(receiver) or none[receiver] for receiver in questions}

    def own_models(self, updates: Updates, /) -> Mapping[int, Model]:
        """See `PersonalSums`."""
        self._survivors(updates)
        return self._models.own(updates)

    def _rests_on_enough(self, question: PersonalQuestion) -> bool:
        allies = self._allies(question.receiver)
        return self._run.gate.rules.fit({i: a for i, a in question.row.items() if i not in allies})

    def _check_receiver(self, updates: Updates, receiver: int, weights: Weights) -> None:
        if receiver not in self._run.setup.clients:
            raise Refused(f"client {receiver} is not of this run")
        if weights.times_samples:
            raise Refused("the weights of personal sums are public; put sample counts that may be known into them")
        if weights.members not in ((), (receiver,)):
            raise Refused(f"the sum for client {receiver} has no other members")
        if self.served.get(receiver) == updates.round:
            raise Refused(f"client {receiver} had its personal sum of round {updates.round}")

    # --- keeping ------------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""
        self.served.clear()

    def save(self) -> Snapshot:
        """See `Part`."""
        return nothing()

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        self.served.clear()
