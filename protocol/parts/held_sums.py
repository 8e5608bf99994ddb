"""Sums of updates that clients hold: what is asked, in as few passes as no client is in twice, and what the gate says to it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..view.answers import Assignment, BelowFloor, Sum, Updates, Weights
from ..view.functionality import Functionality
from .held import HeldUpdates
from .leverage import Row
from .run import Ids, Run


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
    receivers: Ids
    alone: int | None = None
    energy: bool = False
    fewest: int = 0


Answer = Callable[[Sequence[Question]], Mapping[str, Sum]]
"""The sums that could be computed, by label. No client is in two questions."""
Asked = tuple[Updates, str, Weights, Ids]


def unchecked(question: Question, rows: Mapping[str, Row]) -> None:
    """Of protections that answer whatever the gate admits."""


class HeldSums:
    """Answers sums. check: raises Refused for a question that this protection does not answer; rows: of all so far, by label."""

    def __init__(
        self,
        run: Run,
        held: HeldUpdates,
        answer: Answer,
        tells_energy: bool,
        check: Callable[[Question, Mapping[str, Row]], None] = unchecked,
    ) -> None:
        self.tells_energy = tells_energy
        self._run = run
        self._held = held
        self._answer = answer
        self._check = check

    def sums(self, updates: Updates, weights: Mapping[str, Weights], /) -> Mapping[str, Sum | BelowFloor]:
        """See `Sums`."""
        self._run.allow(Functionality.SUMS)
        self._held.known(updates)
        return self._answers([(updates, name, asked, asked.members or updates.members) for name, asked in weights.items()])

    def train_and_sum(
        self, round: int, work: Mapping[str, Assignment], weights: Mapping[str, Weights], /
    ) -> Mapping[str, Sum | BelowFloor]:
        """Clients take the model now, and work when the sum asks for their input: no update outlives its input."""
        self._run.allow(Functionality.SUMS)
        handles = self._held.hear(round, work, "update", later=True)
        return self._answers([(handles[c], c, weights[c], weights[c].members or work[c].members) for c in work])

    def _answers(self, asked: Sequence[Asked]) -> dict[str, Sum | BelowFloor]:
        """The answer to every question, by name: of each cluster one or several."""
        record = self._run.record
        nothing: dict[str, BelowFloor] = {}  # sums whose total weight is 0 have no mean, so none is made
        questions: dict[str, Question] = {}
        for updates, name, weights, receivers in asked:
            row = {i: weights.of[i] for i in updates.clients if weights.of.get(i, 0.0) != 0}
            label = f"{name}@{updates.round}"
            without = bool(row) and not weights.times_samples and math.fsum(row.values()) == 0
            if without or len(row) < weights.fewest:
                nothing[name] = record.unsummed(label, tuple(sorted(row)), weights.fewest)
                continue
            number, counts = self._held.number(updates), weights.times_samples
            questions[name] = Question(label, updates, number, row, counts, receivers, None, weights.energy, weights.fewest)
            self._check(questions[name], {q.label: q.row for q in questions.values()})
        answered = self._in_passes([questions[name] for name in self._admitted(questions)])
        found = {name: answered[q.label] for name, q in questions.items() if q.label in answered}
        weighed = {n: [] if q.times_samples else [*q.row.values()] for n, q in questions.items()}
        none = {
            n: record.unsummed(q.label, tuple(sorted(q.row)), q.fewest, weights=weighed[n])
            for n, q in questions.items()
            if n not in found
        }
        return {name: (nothing | none | found)[name] for _, name, *_ in asked}

    def _admitted(self, questions: Mapping[str, Question]) -> list[str]:
        """The names of those that may be answered. Raises Refused, and then none is."""
        gate, safe = self._run.gate, list[str]()
        of: dict[str, dict[str, Question]] = {}
        for name, question in questions.items():
            of.setdefault(question.updates.name, {})[name] = question
        for updates, some in of.items():
            gate.check(updates, {n: q.row for n, q in some.items()}, {n: q.times_samples for n, q in some.items()})
        for updates, some in of.items():
            with self._run.timed():
                safe += gate.admit(updates, {n: q.row for n, q in some.items()})
        for question in (questions[name] for name in safe):
            gate.count(question.updates.name, question.row, question.times_samples)
        return safe

    def _in_passes(self, waiting: list[Question]) -> dict[str, Sum]:
        answered: dict[str, Sum] = {}
        while waiting:
            batch: list[Question] = []
            for question in waiting:
                if all(question.row.keys().isdisjoint(other.row) for other in batch):
                    batch.append(question)
            waiting = [question for question in waiting if question not in batch]
            found = self._answer(batch)
            for question in batch:
                if question.label in found:
                    self._run.record.open(question.updates, found[question.label], question.row, question.times_samples)
            answered |= found
        return answered
