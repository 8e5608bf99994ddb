"""Sums that count samples, in the view of secure aggregation: what is opened of the weights before the updates are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..core.session import SERVER, Session
from ..parts.held import HeldUpdates
from ..parts.held_sums import Question
from ..parts.run import Run
from .masking import MaskedSessions
from .shape import Shape
from .terms import Plan
from .weighing import WEIGHTS, WeightEncoding, second_protocol

OF_WEIGHTS = "the sum of the weights that count samples, and the sum of their squares, before any update"
OUTWEIGHED = (
    "is not asked for: beside what corrupt clients may claim, one that counts its samples would outweigh the others. Bring"
    " protection.max_samples near what clients have, or take algorithm.by_samples=False"
)


@dataclass(frozen=True, slots=True)
class WeighedQuestion:
    """A question after its weights were summed, about those that are in these sums."""

    question: Question
    weighing: WeightEncoding
    counting: Session
    sums: tuple[float, float]

    @property
    def protocol(self) -> str:
        return second_protocol(self.counting, self.sums)

    @property
    def hopeless(self) -> bool:
        """Whether one of its clients at least will not give: the one of the largest weight, which is no less than the mean."""
        return not self.weighing.holds(self.sums[0] / len(self.question.row), self.sums, *[len(self.question.row)] * 2)

    @property
    def threshold(self) -> int:
        return self.weighing.threshold(self.sums, len(self.question.row))


class MaskedWeights:
    """Has weights with sample counts summed first."""

    def __init__(self, run: Run, held: HeldUpdates, sessions: MaskedSessions) -> None:
        self._run = run
        self._held = held
        self._sessions = sessions

    def weigh(self, questions: Sequence[Question]) -> dict[str, WeighedQuestion]:
        """One masked sum of weights and squares for each question, by its label; none, and a fault on record, where it failed."""
        if not questions:
            return {}
        run, largest = self._run, {q.label: max(map(abs, q.row.values())) for q in questions}
        terms = {q.label: self._weighing(q) for q in questions}
        plans: dict[str, Plan] = {}
        for q in questions:
            name, size = f"{WEIGHTS}/{self._held.known(q.updates).kind}/{q.number}", terms[q.label].size
            shape = Shape(f"the weights of {q.label}", name, run.gate.rules.least, size, q.row, True, b"weights")
            if (plan := self._sessions.planned(q.updates, shape)) is not None:
                plans[q.label] = plan
        ended, found = self._sessions.mask(plans), {}
        for q in questions:
            if (summed := ended.get(q.label)) is None:
                continue
            try:
                with run.timed():
                    sums = terms[q.label].read(summed)
            except ValueError as error:
                self._sessions.unreadable(f"of the weights of {q.label}", error)
                continue
            run.record.disclose(q.updates.round, "server", "weights", summed.clients, 2, OF_WEIGHTS)
            run.record.disclose(q.updates.round, "clients", "weights", summed.clients, 2, OF_WEIGHTS)
            plan, about = plans[q.label], replace(q, row={i: q.row[i] for i in summed.clients})
            weighed = WeighedQuestion(about, self._weighing(about, largest[q.label]), plan.session, sums)
            if weighed.hopeless:
                run.record.fault(SERVER, f"the sum {q.label} {OUTWEIGHED}")
                continue
            found[q.label] = weighed
        return found

    def _weighing(self, question: Question, largest: float | None = None) -> WeightEncoding:
        sizes = sorted(map(abs, question.row.values()), reverse=True)
        return WeightEncoding(tuple(a / (largest or sizes[0]) for a in sizes), self._run.gate.rules)
