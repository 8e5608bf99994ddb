"""Secure aggregation: the server learns sums, by the masked sum, and noisy inner products of differences, by secret sketches.

Clients hold their updates. A sum is one session of the masked sum (specs/masked_sum.md) among the clients that it is about,
with their sample counts inside. Inner products come from sketches (sketch_view.py, offset_view.py), uploaded when they are
asked for. The server owns the models: it knows the sums.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...crypto.fixed_point import FixedPoint
from ..answers import Assignment, BelowFloor, Functionality, Gram, Model, Remembered, Snapshot, Sum, Updates, Weights
from ..disclosure import Party as Recipient
from ..errors import Refused
from ..gate import Rules
from ..group_seed import agree, session_of
from ..held_view import Question
from ..ledger import Ledger, Unit
from ..leverage import Row
from ..messages import Task
from ..model_keeping import UNUSABLE
from ..pairs.question import PairAnswers, PairQuestion
from ..participant import Unfit
from ..personal import PersonalQuestion
from ..receiver_opened.view import OpenedTerms, ReceiverOpenedSums
from ..session import SERVER
from ..sketch_keys import Keys, RatchetedKeys, SketchSecret
from ..slot_work import misfit
from ..uploads import usable
from ..view import LocalWork, Setup
from ..view_base import Clients, unused
from .client_inputs import Numbers
from .input import InputTerms, Total, beyond
from .noise_view import Cohorts, Noise, NoisySums
from .server import Summed
from .sessions import Masking, Shape
from .slots_view import SlotTerms
from .terms import PROTOCOL
from .weights_view import Weighed


@dataclass(frozen=True, slots=True)
class Masked:
    """Clients add masks that cancel in the sum; similarities come from secret sketches.

    sketch: measurements of an update that a sketch has, at most half of its coordinates (fewer are taken then). keys: "session"
    for sketches of differences under keys that are forgotten with their round; "run" for one secret sketch about the origin, so
    that updates of all rounds compare: beside published sums it tells the server most of every update. floor: fewest
    clients in a sum, held by clients too. clip: largest absolute coordinate of an update; a client whose update exceeds it
    sits out and says so. max_samples: likewise for its number of samples, in sums that count them. ring_bits: 32 or 64.
    corrupt: clients of the run, at most, that collude with the server and tell it all they know; 0: the server alone. A sum then
    needs floor + corrupt clients. dropped: largest share of a sum's clients that drops out. noise: what the
    clients add to every sum, so that all sums of a run together are differentially private for a client; a client is in one
    sum a round then, with uniform weights. Updates are scaled down to noise.l2 and not held against clip. Sketches and choices
    have no noise, and are not given beside it unless noise.acknowledge names them.
    slot_spare: clients that may drop out between the counts and the sums of slots. A slot is opened if as many clients chose it
    as the floor, these, and the corrupt together. colluding: groups of clients that may put their personal sums together, which
    are then refused where they would show too much, with the share dropped of a sum's clients left out at most; receivers in no
    group must not collude.
    """

    sketch: int = 64
    keys: Keys = "session"
    floor: int = 3
    clip: float = 4.0
    max_samples: int = 10_000
    ring_bits: int = 32
    corrupt: int = 0
    dropped: float = 0.25
    noise: Noise | None = None
    slot_spare: int = 1
    colluding: tuple[frozenset[int], ...] = ()

    def __post_init__(self) -> None:
        if self.keys not in ("run", "session"):
            raise ValueError(f'keys is "run" or "session", not {self.keys!r}')
        if self.floor < 2:
            raise ValueError(f"floor is at least 2, not {self.floor}: a sum of one update is that update")
        if self.sketch < 1 or self.max_samples < 1 or self.slot_spare < 0:
            raise ValueError("sketch and max_samples are at least 1, and slot_spare at least 0")
        FixedPoint.finest(self.ring_bits, self.clip, self.rules.least, 1)

    @property
    def rules(self) -> Rules:
        return Rules(self.floor, self.corrupt)

    @property
    def gives(self) -> frozenset[Functionality]:
        given = {Functionality.SUMS, Functionality.GRAM, Functionality.CHOICE, Functionality.PAIRS, Functionality.REVISION}
        given |= set() if self.noise else {Functionality.SLOTS, Functionality.PERSONAL_SUMS}
        given |= {Functionality.GRAM_ORIGIN, Functionality.GRAM_EDGE, Functionality.GRAM_RECALL}
        across = {Functionality.GRAM_REMEMBER, Functionality.GRAM_HISTORY}
        return frozenset(given | across if self.keys == "run" else given)

    def open(self, setup: Setup, /) -> "MaskedView":
        return MaskedView(setup, self)


class MaskedView(ReceiverOpenedSums):
    """Answers sums by masked sums. Implements `ServerView`."""

    compares_pairs = True

    def __init__(self, setup: Setup, how: Masked) -> None:
        session = session_of("masked", setup.run, setup.clients)
        d = len(setup.initial)
        self._noisy: NoisySums | None = None
        if how.noise is not None:
            cohorts = Cohorts(how.noise, how.rules, how.dropped, d, how.ring_bits)
            cohorts.parameters(len(session.roster))  # refused here rather than in the first round
            self._noisy = NoisySums(cohorts, session.roster)
        self.tells_energy = self._noisy is None
        agreed = agree(session, setup.entropy, setup.tap, check=setup.verify)
        seed, network = agreed.seed, agreed.network
        k = min(how.sketch, max(d // 2, 1))
        keys = RatchetedKeys(seed, setup.run, d, k, how.clip * math.sqrt(d))
        secret = keys if how.keys == "session" else SketchSecret(seed, setup.run, how.keys, d, k)
        terms = OpenedTerms(how.ring_bits, how.clip, how.colluding)
        numbers = Numbers(d, how.ring_bits, how.clip, how.max_samples, how.rules)
        super().__init__(setup, how.rules, secret, network, how.dropped, unfit_of(how, d), numbers, terms)
        self._how = how

    @property
    def ledgers(self) -> Mapping[tuple[int, Unit], Ledger]:
        """Of every client, for all of its updates together, and for what it released to be compared; empty without noise."""
        if self._noisy is None:
            return super().ledgers
        beside = "the sums of its updates, by an epsilon of their own"
        return {key: ledger.without(beside) for key, ledger in super().ledgers.items()} | self._noisy.ledgers

    def _check_noise(self, *either: Functionality) -> None:
        if self._how.noise is not None:
            self._how.noise.check(*either)

    def _disclose(
        self, round: int, to: Recipient, what: str, about: Clients, scalars: int, words: str, client: int | None = None
    ) -> None:
        super()._disclose(round, to, what, about, scalars, words, client)
        if self._noisy is not None and what not in ("sums", "participation"):  # ledgers name those
            self._noisy.disclosed(about, words)

    # --- sums ---------------------------------------------------------------------------------------------------------

    def _sum(self, questions: Sequence[Question]) -> Mapping[str, Sum]:
        """One masked sum for each question, all in one pass."""
        if self._noisy is not None:
            return self._noisy_sums(self._noisy, questions)
        weighed = self._weigh([q for q in questions if q.times_samples])
        found = self._sum_of([weighed[q.label].question if q.label in weighed else q for q in questions], weighed)
        self._forget_weights(weighed.values())
        return found

    def _sum_of(self, questions: Sequence[Question], weighed: Mapping[str, Weighed]) -> Mapping[str, Sum]:
        """weighed: of those that count samples, what was opened before; without it there is no such sum."""
        questions = [q for q in questions if (q.label in weighed or not q.times_samples) and len(q.row) >= q.fewest]
        inputs = {q.label: self._inputs(q) for q in questions}
        with self._network.timed(SERVER):
            shapes = {q.label: self._shape(q, inputs[q.label], weighed.get(q.label)) for q in questions}
            plans = {q.label: plan for q in questions if (plan := self._planned(q.updates, shapes[q.label])) is not None}
        questions = [q for q in questions if q.label in plans]

        sessions = {q.label: Masking(plans[q.label], q.updates) for q in questions}
        ended = self._mask(sessions)

        def read(question: Question, summed: Summed) -> Total | None:
            return inputs[question.label].decode(summed.total, np.array([question.row[i] for i in summed.clients]))

        found = {q.label: self._read(q, summed, partial(read, q)) for q in questions if (summed := ended[q.label])}
        return {label: answer for label, answer in found.items() if answer is not None}

    def _noisy_sums(self, noisy: NoisySums, questions: Sequence[Question]) -> Mapping[str, Sum]:
        """The same, with noise. Every client's ledger is charged for the fewest survivors before anything is sent."""
        if any(q.fewest for q in questions):
            raise Refused("sums with noise are of whoever answers, which their noise covers; leave complete out")
        with self._network.timed(SERVER):
            able = {q.label: noisy.paying(tuple(sorted(q.row))) for q in questions}
            shapes = {q.label: noisy.shape(q.label, able[q.label][0]) for q in questions}
            plans = {q.label: plan for q in questions if (plan := self._planned(q.updates, shapes[q.label])) is not None}
        questions = [q for q in questions if q.label in plans]
        for _, unable in able.values():
            for client, reason in unable.items():
                self._reject([client], reason)
        inputs = {q.label: noisy.reserve(plans[q.label].session, self._entropy) for q in questions}
        ended = self._mask({q.label: Masking(plans[q.label], q.updates, inputs[q.label].encode) for q in questions})
        for q in questions:
            noisy.settle(inputs[q.label], partial(self._signed, q.updates))
        found = {
            q.label: self._read(q, summed, partial(inputs[q.label].decode, weight=next(iter(q.row.values()))))
            for q in questions
            if (summed := ended[q.label])
        }
        return {label: answer for label, answer in found.items() if answer is not None}

    def _countable(self, updates: Updates, rows: Mapping[str, Row], name: str, weights: Weights) -> None:
        """Clients give one update to sums among the same clients only, and to one that counts samples (given.py)."""
        super()._countable(updates, rows, name, weights)
        earlier = [*self._gate.published[updates.name], *(row for label, row in rows.items() if label != name)]
        if weights.times_samples and any(r != rows[name] and not r.keys().isdisjoint(rows[name]) for r in earlier):
            raise Refused(f"sum {name} would be a second one that counts samples, of other weights: clients give theirs to one")
        summed = [row for row in rows.values() if len(row) >= self._least] if len(rows[name]) >= self._least else []
        for other in [*self._gate.published[updates.name], *summed]:
            if other.keys() != rows[name].keys() and not other.keys().isdisjoint(rows[name]):
                raise Refused(f"sum {name} overlaps with a sum of the same updates over other clients; clients would not answer")
        if self._noisy is not None:
            self._noisy.check(name, updates.round, rows, weights.times_samples)

    def _inputs(self, question: Question) -> InputTerms:
        how = self._how
        largest = max(abs(a) for a in question.row.values())
        counted = how.max_samples if question.times_samples else 0
        return InputTerms(how.ring_bits, how.clip, len(question.row), largest, counted, question.energy)

    def _shape(self, question: Question, inputs: InputTerms, first: Weighed | None) -> Shape:
        size = (self._how.ring_bits, inputs.length(len(self._setup.initial)), inputs.fixed.bits, self._how.clip, 1)
        if first is not None:
            return Shape(question.label, first.protocol, max(first.threshold, question.fewest), size, question.row, True)
        protocol = f"{PROTOCOL}/{self._known(question.updates).kind}/{question.number}"
        return Shape(question.label, protocol, max(self._least, question.fewest), size, question.row)

    def _read(self, question: Question, ended: Summed, decode: Callable[[Summed], Total | None]) -> Sum | None:
        """The answer in the end of a masked sum; None, and a fault on record, if there is none."""
        words = "the sum of the updates" + (", and of the sample counts" if question.times_samples else "")
        words += ", and of their squared norms" if question.energy and self._noisy is None else ""
        words += ", with the noise that its clients added" if self._how.noise is not None else ""
        self._disclose(question.updates.round, "server", "sums", ended.clients, len(ended.total), words)
        try:
            with self._network.timed(SERVER):
                total = decode(ended)
        except ValueError as error:
            self._unreadable(question.label, error)
            return None
        if total is None:
            return None
        self._disclose(
            question.updates.round, "clients", "sums", ended.clients, len(total.mean), "the mean update of their own cluster"
        )
        name = unused(question.label, self._means)
        self._means[name] = total.mean
        norm = float(np.linalg.norm(total.mean.astype(np.float64)))
        of_sum = (ended.clients, total.weight, total.relative, norm, total.error, total.noise, total.energy)
        return Sum(name, "server", *of_sum)

    def slots(self, round: int, name: str, work: Assignment, most: int = 1, /) -> Sequence[Sum | BelowFloor]:
        if self._noisy is not None:
            raise Refused("noise covers one sum of each client a round, not its slots; leave protection.noise out")
        how = self._how
        return self._slots(round, name, work, most, SlotTerms(how.ring_bits, how.clip, how.slot_spare))

    def _personal(self, updates: Updates, questions: list[PersonalQuestion]) -> Mapping[int, Sum]:
        if self._noisy is not None:
            raise Refused("noise covers one sum of each client a round, not its personal ones; leave protection.noise out")
        return super()._personal(updates, questions)

    # --- without noise --------------------------------------------------------------------------------------------------

    def gram(self, updates: Updates, /, *, origin: bool = False) -> Gram:
        self._check_noise(Functionality.GRAM_ORIGIN if origin else Functionality.GRAM)
        return super().gram(updates, origin=origin)

    def edge(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        self._check_noise(Functionality.GRAM_EDGE)
        return super().edge(updates, clients)

    def keep(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        self._check_noise(Functionality.GRAM_RECALL)
        return super().keep(updates, clients)

    def remember(self, updates: Updates, clients: Sequence[int], /) -> Remembered:
        self._check_noise(Functionality.GRAM_REMEMBER, Functionality.GRAM_HISTORY)
        return super().remember(updates, clients)

    def accumulate(
        self,
        updates: Updates,
        weights: Mapping[int, float],
        earlier: Remembered | None = None,
        /,
        *,
        decay: float = 1.0,
        together: bool = False,
    ) -> Remembered:
        self._check_noise(Functionality.GRAM_HISTORY)
        return super().accumulate(updates, weights, earlier, decay=decay, together=together)

    def cosines(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        self._check_noise(Functionality.GRAM_REMEMBER, Functionality.GRAM_EDGE)
        return super().cosines(updates, remembered)

    def gram_with(self, updates: Updates, remembered: Remembered, /) -> NDArray[np.float64]:
        self._check_noise(Functionality.GRAM_HISTORY)
        return super().gram_with(updates, remembered)

    def choose(self, round: int, models: Mapping[str, Model], clients: Sequence[int], /) -> Mapping[int, str]:
        self._check_noise(Functionality.CHOICE)
        return super().choose(round, models, clients)

    def pairs(
        self, round: int, work: Mapping[str, Assignment], updates: Mapping[str, Updates], question: PairQuestion, /
    ) -> PairAnswers:
        self._check_noise(Functionality.PAIRS)
        return super().pairs(round, work, updates, question)

    # --- keeping ------------------------------------------------------------------------------------------------------

    def save(self) -> Snapshot:
        saved = super().save()
        return saved if self._noisy is None else replace(saved, ledgers=self._noisy.save())

    def restore(self, snapshot: Snapshot, remembered: Iterable[Remembered], /) -> None:
        super().restore(snapshot, remembered)
        if self._noisy is not None:
            self._noisy.restore(snapshot.ledgers)


def unfit_of(how: Masked, d: int) -> Unfit:
    """What a client holds its work against before it says that it takes part."""

    def unfit(task: Task, work: LocalWork) -> str | None:
        if task.work == "slots":
            return misfit(work, len(task.models), d, task.most) or beyond(work.vector.ravel(), how.clip)
        if not usable(work.vector):
            return UNUSABLE
        return beyond(work.vector, how.clip) if how.noise is None else None

    return unfit
