"""Sums that count samples, in the view of secure aggregation: what is opened of the weights before the updates are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..errors import Refused
from ..held_view import Question
from ..session import SERVER, Session
from ..view import LocalWork
from ..view_base import Clients
from .sessions import Masking, MaskingView, Shape
from .terms import Ring
from .weighing import WEIGHED, WEIGHTS, Weighing, second_protocol, told

OF_WEIGHTS = "the sum of the weights that count samples, and the sum of their squares, before any update"


@dataclass(frozen=True, slots=True)
class Weighed:
    """A question after its weights were summed, about those that are in these sums. signed: what each client signed in the first.

    unit: the largest weight of a client, |a| times max_samples. promised: whose work was done for it, and is forgotten after.
    """

    question: Question
    weighing: Weighing
    counting: Session
    sums: tuple[float, float]
    unit: float
    signed: Mapping[int, Clients]
    promised: frozenset[int]

    @property
    def protocol(self) -> str:
        return second_protocol(self.counting, self.sums)

    @property
    def threshold(self) -> int:
        return self.weighing.threshold(self.sums, len(self.question.row))

    def refuses(self, client: int, samples: int, session: Session) -> str | None:
        """Why a client with so many samples gives nothing to this second session, or None: by what the session itself says."""
        try:
            sums = told(self.counting, self.signed[client], session)
        except Refused as error:  # as of a client that was lost before it signed who was in the first
            return str(error)
        weight = abs(self.question.row[client]) * samples / self.unit
        if self.weighing.holds(weight, sums, len(session.roster), session.threshold):
            return None
        return "its weight, times its samples, would be too much of the sum for the floor"


class WeighingView(MaskingView):
    """Has weights with sample counts summed first."""

    def _largest_count(self) -> int:
        """The most samples of a client that may count."""
        raise NotImplementedError

    def _weigh(self, questions: Sequence[Question]) -> dict[str, Weighed]:
        """One masked sum of weights and squares for each question, by its label; none, and a fault on record, where it failed."""
        if not questions:
            return {}
        largest = {q.label: max(map(abs, q.row.values())) for q in questions}
        terms = {q.label: self._weighing(q) for q in questions}
        sessions: dict[str, Masking] = {}

        def put_in(question: Question, client: int, work: LocalWork) -> Ring | str:
            self.clients.held.setdefault(question.updates.name, {})[client] = work
            share = abs(question.row[client]) / largest[question.label] * work.samples / self._largest_count()
            return terms[question.label].encode(share) if share <= 1 else self._too_many(work)

        for q in questions:
            name, size = f"{WEIGHTS}/{self._known(q.updates).kind}/{q.number}", terms[q.label].size
            shape = Shape(f"the weights of {q.label}", name, self._least, size, q.row, True, b"weights %d" % q.number)
            if (plan := self._planned(q.updates, shape)) is not None:
                sessions[q.label] = Masking(plan, q.updates, partial(put_in, q))
        ended, found = self._mask(sessions), {}
        promised = frozenset(i for q in questions for i in q.row if i in self._promised)
        for i in promised:
            del self._promised[i]
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
            signed = {i: self._signed_by(i, plan) for i in summed.clients}
            unit = largest[q.label] * self._largest_count()
            found[q.label] = Weighed(about, self._weighing(about, largest[q.label]), plan.session, sums, unit, signed, promised)
        return found

    def _weighing(self, question: Question, largest: float | None = None) -> Weighing:
        sizes = sorted(map(abs, question.row.values()), reverse=True)
        return Weighing(tuple(a / (largest or sizes[0]) for a in sizes), self._gate.rules)

    def _too_many(self, work: LocalWork) -> str:
        return f"{work.samples} samples are more than the {self._largest_count()} of protection.max_samples"

    def _forget_weights(self, weighed: Iterable[Weighed]) -> None:
        """Work that was done for these sums alone; and the names of second sessions, which no first one leads to any more."""
        for one in weighed:
            if one.promised & one.question.row.keys():
                self.clients.held.pop(one.question.updates.name, None)
            for i in one.question.row:
                masker = self._maskers[i]
                rounds = {n: r for n, r in masker.state.next_round.items() if not n.startswith(f"{WEIGHED} ")}
                masker.state = replace(masker.state, next_round=rounds)
