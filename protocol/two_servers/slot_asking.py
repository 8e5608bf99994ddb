"""Sums into K slots with the choice hidden, of two servers: one upload, and one question that opens what enough clients chose.

Spec: specs/slots.md. Neither server tells a client's zeros from its vectors. Both learn the counts, and the second server opens
to the first the sums of those slots that reach the floor; nothing of the others is opened to anybody.
"""

from collections.abc import Sequence

import numpy as np

from ...crypto.pedersen import COMMITMENT_BYTES
from ..core.errors import OF_NO_COUNTS, Refused
from ..core.session import SECOND_SERVER, SERVER, Session
from ..parts.models import Models
from ..parts.run import Run
from ..parts.slot_words import counts_in_words, too_few_chose
from ..view.answers import Assignment, BelowFloor, Sum
from ..view.functionality import Functionality
from ..work.slot_work import check
from ..work.uploads import to_bytes
from .asking import Unanswered
from .helpers import Helpers
from .run import collect, max_bytes, slot_sums
from .slot_sums import SlotsAnswered
from .slot_terms import SLOTS, SharedSlots
from .terms import PROTOCOL, ShareTerms
from .upload_server import SharesCollected, holds_few

OF_SECOND = "who sent, and a hash of the models; {counts}; and nothing of what they computed"
OF_SUMS = "of each open slot the sum and the weight"


class TwoServerSlots:
    """Answers sums into slots."""

    def __init__(self, run: Run, models: Models, helpers: Helpers, terms: ShareTerms) -> None:
        self._run = run
        self._models = models
        self._helpers = helpers
        self._terms = terms

    def slots(self, round: int, name: str, work: Assignment, most: int = 1, /) -> Sequence[Sum | BelowFloor]:
        """See `Slots`. Both servers learn all counts, of one set of survivors; the first the sums of those that reach the floor.

        A slot that fewer than `floor` survivors chose stays shut: the second server, which checks the counts against what the
        clients committed to, sends nothing of it.
        """
        run = self._run
        run.allow(Functionality.SLOTS)
        count, d = check(work, most), len(run.setup.initial)
        try:
            how = SharedSlots(count, d, most, self._terms.max_norm, self._terms.rules.least)
        except ValueError as error:
            raise Refused(f"slots of {name}: {error}") from None
        labels, updates = [f"{name}/{k}@{round}" for k in range(count)], f"{name}@{round}/{SLOTS}"
        run.gate.begin(updates)
        run.gate.into_slots(updates, work.participants)
        run.network.allow(max_bytes(how.terms, 0) + COMMITMENT_BYTES * len(work.participants))
        try:
            collected = self._shared(round, name, work, how)
            answered = self._opened(round, collected, how)
            answers = self._answers(round, labels, tuple(sorted(collected.received)), answered, how)
            run.record.open_slots(round, name, answers)
            return answers
        except ValueError as error:
            run.record.fault(SERVER, f"slots of {name}@{round}: {error}")
            return tuple(self._run.record.unsummed(label, (), shut=str(error)) for label in labels)

    def _shared(self, round: int, name: str, work: Assignment, how: SharedSlots) -> SharesCollected:
        """The upload. Raises ValueError where too few clients sent."""

        for model in work.models:
            self._models.check(model)
        self._models.handles.begin(round, work.participants)
        models = [self._models.held[model.name] for model in work.models]
        session = Session(f"{PROTOCOL}/{SLOTS}", self._run.setup.run, round, name, work.participants, 1)
        task = (session, SLOTS, tuple(m.name for m in work.models), b"".join(map(to_bytes, models)))
        before = len(self._run.record.faults)
        (collected,) = collect(self._run.network, self._helpers.everybody, how.terms, [task], slots=how)
        self._run.record.name(round, work.participants, apart=True)
        if collected.alone:
            self._run.record.fault(SECOND_SERVER, "it did not say whose keys of the slots it holds")
        fewest = max(self._run.gate.rules.least, 2)
        if few := holds_few(collected, fewest, self._run.record.faults[before:]):
            self._run.record.fault(SECOND_SERVER, few)
        if len(collected.received) < fewest:
            words = "who sent, and a hash of the models, and nothing of what they chose or computed"
            self._run.record.disclose(round, "second server", "slots", tuple(sorted(collected.received)), 0, words)
            raise ValueError(
                few.replace("it", "the second server", 1)
                or f"{len(collected.received)} clients sent where {fewest} are the fewest"
            )
        return collected

    def _opened(self, round: int, collected: SharesCollected, how: SharedSlots) -> SlotsAnswered:
        """Counts and sums, as the second server opens them. Raises ValueError where it opens nothing."""
        clients, number = tuple(sorted(collected.received)), self._helpers.number()
        ended = slot_sums(self._run.network, self._helpers.everybody, how, self._run.setup.run, number, collected)
        counts = counts_in_words(None if isinstance(ended, Unanswered) else ended.counts, len(clients))
        self._run.record.disclose(round, "second server", "slots", clients, how.count, OF_SECOND.format(counts=counts))
        if isinstance(ended, Unanswered):
            self._run.record.fault(ended.waited_for, "the slots were not opened")
            raise ValueError("the slots were not opened")
        self._run.record.disclose(round, "server", "slots", clients, how.count, counts)
        if ended.counts is None:
            raise ValueError(f"{len(clients)} clients {OF_NO_COUNTS}")
        if not ended.rows:
            raise ValueError(f"no slot was chosen by {how.floor} clients: {list(ended.counts)}")
        self._run.record.disclose(
            round, "server", "slots", clients, len(ended.rows) * (how.d + 1), OF_SUMS + self._run.setup.carried
        )
        return ended

    def _answers(
        self, round: int, labels: Sequence[str], clients: tuple[int, ...], ended: SlotsAnswered, how: SharedSlots
    ) -> Sequence[Sum | BelowFloor]:
        """A mean for each open slot, but for those whose sum no clients that follow can have shared."""
        answered: list[Sum | BelowFloor] = []
        for k, (label, chose) in enumerate(zip(labels, ended.counts or (), strict=True)):
            shut = "" if k in ended.rows else too_few_chose(chose, how.floor)
            try:
                with self._run.timed():
                    vector, weight = how.slot(ended.rows[k], k, chose) if k in ended.rows else (None, 0)
            except ValueError as error:
                self._run.record.fault(SERVER, f"slot {label}: {error}")
                vector, shut = None, str(error)
            if vector is None:
                answered.append(self._run.record.unsummed(label, (), shut=shut))
                continue
            mean_name = self._models.mean_name(label)
            self._models.means[mean_name] = (vector / weight).astype(np.float32)
            words = "the mean update of a slot" + self._run.setup.carried
            self._run.record.disclose(round, "clients", "slots", clients, how.d, words)
            norm = float(np.linalg.norm(vector)) / weight
            answered.append(Sum(mean_name, "server", clients, float(weight), 0.0, norm, how.error))
        return answered
