"""Sums that count samples, in the view of secure aggregation: what is opened of the weights before the updates are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..core.session import SERVER, Session
from ..held_view import Question
from .sessions import Masking, MaskingView, Shape
from .weighing import WEIGHED, WEIGHTS, Weighing, second_protocol

OF_WEIGHTS = "the sum of the weights that count samples, and the sum of their squares, before any update"


@dataclass(frozen=True, slots=True)
class Weighed:
    """A question after its weights were summed, about those that are in these sums.

    promised: whose work was done for it, and is forgotten after.
    """

    question: Question
    weighing: Weighing
    counting: Session
    sums: tuple[float, float]
    promised: frozenset[int]

    @property
    def protocol(self) -> str:
        return second_protocol(self.counting, self.sums)

    @property
    def threshold(self) -> int:
        return self.weighing.threshold(self.sums, len(self.question.row))


class WeighingView(MaskingView):
    """Has weights with sample counts summed first."""

    def _weigh(self, questions: Sequence[Question]) -> dict[str, Weighed]:
        """One masked sum of weights and squares for each question, by its label; none, and a fault on record, where it failed."""
        if not questions:
            return {}
        largest = {q.label: max(map(abs, q.row.values())) for q in questions}
        terms = {q.label: self._weighing(q) for q in questions}
        sessions: dict[str, Masking] = {}

        clients = self.clients.parties
        promised = frozenset(i for q in questions for i in q.row if q.updates.name in clients[i].promised)
        for q in questions:
            name, size = f"{WEIGHTS}/{self._known(q.updates).kind}/{q.number}", terms[q.label].size
            shape = Shape(f"the weights of {q.label}", name, self._least, size, q.row, True, b"weights")
            if (plan := self._planned(q.updates, shape)) is not None:
                sessions[q.label] = Masking(plan, q.updates)
        ended, found = self._mask(sessions), {}
        for q in questions:
            if (summed := ended.get(q.label)) is None:
                continue
            try:
                with self._network.timed(SERVER):
                    sums = terms[q.label].read(summed)
            except ValueError as error:
                self._unreadable(f"of the weights of {q.label}", error)
                continue
            for to in ("server", "clients"):
                self._disclose(q.updates.round, to, "weights", summed.clients, 2, OF_WEIGHTS)
            plan, about = sessions[q.label].plan, replace(q, row={i: q.row[i] for i in summed.clients})
            found[q.label] = Weighed(about, self._weighing(about, largest[q.label]), plan.session, sums, promised)
        return found

    def _weighing(self, question: Question, largest: float | None = None) -> Weighing:
        sizes = sorted(map(abs, question.row.values()), reverse=True)
        return Weighing(tuple(a / (largest or sizes[0]) for a in sizes), self._gate.rules)

    def _forget_weights(self, weighed: Iterable[Weighed]) -> None:
        """Work that was done for these sums alone; and the names of second sessions, which no first one leads to any more."""
        for one in weighed:
            for i in one.promised & one.question.row.keys():
                self.clients.parties[i].held.pop(one.question.updates.name, None)
            for i in one.question.row:
                masker = self._maskers[i]
                rounds = {n: r for n, r in masker.state.next_round.items() if not n.startswith(f"{WEIGHED} ")}
                masker.state = replace(masker.state, next_round=rounds)
