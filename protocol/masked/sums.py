"""Sums in the view of secure aggregation: one masked sum for each question, with or without noise."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import Refused
from ..parts.charter import Numbers
from ..parts.held import HeldUpdates
from ..parts.held_sums import Question
from ..parts.leverage import Row
from ..parts.models import Models
from ..parts.run import Run
from ..view.answers import Remembered, Snapshot, Sum, Traffic
from .input import LIMBS, InputTerms, Total
from .masking import MaskedSessions
from .server import Unmasked
from .shape import Shape
from .terms import PROTOCOL
from .weights import MaskedWeights, WeighedQuestion

if TYPE_CHECKING:
    from .noisy_sums import NoisySums

Decode = Callable[[Unmasked], Total | None]


class MaskedSums:
    """Answers questions for sums of what clients hold. noisy: what noise they are under, if they are."""

    def __init__(
        self, run: Run, models: Models, held: HeldUpdates, sessions: MaskedSessions, numbers: Numbers, noisy: "NoisySums | None"
    ) -> None:
        self._run = run
        self._models = models
        self._held = held
        self._sessions = sessions
        self._numbers = numbers
        self._noisy = noisy
        self._weights = MaskedWeights(run, held, sessions)

    def answer(self, questions: Sequence[Question]) -> Mapping[str, Sum]:
        """One masked sum for each question, all in one pass."""
        if self._noisy is not None:
            return self._with_noise(self._noisy, questions)
        weighed = self._weights.weigh([q for q in questions if q.times_samples])
        return self._summed([weighed[q.label].question if q.label in weighed else q for q in questions], weighed)

    def check(self, question: Question, rows: Mapping[str, Row]) -> None:
        """Raises Refused for a sum that its noise does not cover. rows: of all so far, by label."""
        if self._noisy is not None:
            self._noisy.check(question.label, question.updates.round, rows, question.times_samples)

    def _summed(self, questions: Sequence[Question], weighed: Mapping[str, WeighedQuestion]) -> Mapping[str, Sum]:
        """weighed: of those that count samples, what was opened before; without it there is no such sum."""
        questions = [q for q in questions if (q.label in weighed or not q.times_samples) and len(q.row) >= q.fewest]
        inputs = {q.label: self._inputs(q) for q in questions}
        with self._run.timed():
            shapes = {q.label: self._shape(q, inputs[q.label], weighed.get(q.label)) for q in questions}
            plans = {q.label: plan for q in questions if (plan := self._sessions.planned(q.updates, shapes[q.label])) is not None}
        questions = [q for q in questions if q.label in plans]
        ended = self._sessions.mask({q.label: plans[q.label] for q in questions})

        def read(question: Question, summed: Unmasked) -> Total | None:
            return inputs[question.label].decode(summed.total, np.array([question.row[i] for i in summed.clients]))

        found = {q.label: self._read(q, summed, partial(read, q)) for q in questions if (summed := ended[q.label])}
        return {label: answer for label, answer in found.items() if answer is not None}

    def _with_noise(self, noisy: "NoisySums", questions: Sequence[Question]) -> Mapping[str, Sum]:
        """The same, with noise. Everybody is charged for the fewest survivors before anything is sent."""
        sessions = self._sessions
        if any(q.fewest for q in questions):
            raise Refused("sums with noise are of whoever answers, which their noise covers; leave complete out")
        with self._run.timed():
            able = {q.label: noisy.paying(tuple(sorted(q.row))) for q in questions}
            shapes = {q.label: noisy.shape(q.label, able[q.label][0]) for q in questions if able[q.label][0]}
            paid = [q for q in questions if q.label in shapes]
            plans = {q.label: plan for q in paid if (plan := sessions.planned(q.updates, shapes[q.label])) is not None}
        questions = [q for q in questions if q.label in plans]
        for _, unable in able.values():
            for client, reason in unable.items():
                self._run.record.fault(client, reason)
        charged = {q.label: noisy.reserve(plans[q.label].session) for q in questions}
        heard = len(self._run.record.faults)
        ended = sessions.play({q.label: plans[q.label] for q in questions})
        declined = {fault.blame for fault in self._run.record.faults[heard:] if fault.rejected}
        for q in questions:
            noisy.settle(charged[q.label], ended[q.label].reached, declined)
        found = {
            q.label: self._read(q, summed, partial(charged[q.label].decode, weight=next(iter(q.row.values()))))
            for q in questions
            if (summed := sessions.sum_in(q.label, ended[q.label]))
        }
        return {label: answer for label, answer in found.items() if answer is not None}

    def _inputs(self, question: Question) -> InputTerms:
        how, largest = self._numbers, max(abs(a) for a in question.row.values())
        counted = how.max_samples if question.times_samples else 0
        return InputTerms(how.ring_bits, how.clip, len(question.row), largest, counted, question.energy)

    def _shape(self, question: Question, inputs: InputTerms, first: WeighedQuestion | None) -> Shape:
        how, least = self._numbers, self._run.gate.rules.least
        size = (how.ring_bits, inputs.length(how.d), inputs.fixed.bits, how.clip, 1)
        if first is not None:
            return Shape(question.label, first.protocol, max(first.threshold, question.fewest), size, question.row, True)
        protocol = f"{PROTOCOL}/{self._held.known(question.updates).kind}/{question.number}"
        return Shape(question.label, protocol, max(least, question.fewest), size, question.row)

    def _read(self, question: Question, ended: Unmasked, decode: Decode) -> Sum | None:
        """The answer in the end of a masked sum; None, and a fault on record, if there is none."""
        record, round = self._run.record, question.updates.round
        words = "the sum of the updates" + (", and of the sample counts" if question.times_samples else "")
        words += f", and of their squared norms, as {LIMBS} digits" if question.energy and self._noisy is None else ""
        words += ", and how many they are"
        noise = ", with the noise that its clients added" if self._noisy is not None else ""
        words += f", rotated and padded to a power of two{noise}" if noise else ""
        record.disclose(round, "server", "sums", ended.clients, len(ended.total), words)
        try:
            with self._run.timed():
                total = decode(ended)
        except ValueError as error:
            self._sessions.unreadable(question.label, error)
            return None
        if total is None:
            return None
        record.disclose(round, "clients", "sums", ended.clients, len(total.mean), "the mean update of their own cluster" + noise)
        name = self._models.mean_name(question.label)
        self._models.means[name] = total.mean
        norm = float(np.linalg.norm(total.mean.astype(np.float64)))
        return Sum(name, "server", ended.clients, total.weight, total.relative, norm, total.error, total.noise, total.energy)

    # --- keeping ------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""

    def save(self) -> Snapshot:
        """See `Part`."""
        return Snapshot({}, {}, {}, Traffic(), ledgers=() if self._noisy is None else self._noisy.save())

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        if self._noisy is not None:
            self._noisy.restore(snapshot.ledgers)
