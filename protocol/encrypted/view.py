"""Encryption under a key that the clients share: the server adds and compares ciphertexts, and owns no model.

Clients hold their updates. A sum is one session of the encrypted sum (specs/encrypted.md) among the clients that it is about; its
members open it. Inner products are of encrypted secret sketches: one client opens them and says rounded cosines and norms.
Whoever has the seed that all clients share opens every ciphertext: server and any one client together read every update.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...crypto.ckks import MOST_DIGITS
from ..core.errors import Refused
from ..core.session import SERVER, Session
from ..drivers.in_process import Fault
from ..drivers.roles import Party, Worked
from ..held_view import Question
from ..model_keeping import UNUSABLE
from ..parts.gate import Rules
from ..parts.leverage import Row
from ..parts.participant import Unfit
from ..parts.sketch_keys import Keys
from ..parts.slot_work import misfit
from ..personal import PersonalQuestion
from ..uploaded.uploads import usable
from ..view.answers import Functionality, Owner, Sum, Updates, Weights
from ..view.asks import LocalWork, Setup
from ..view_base import unused
from ..wire.messages import Task
from . import sum as encrypted_sum
from .client_phases import SUM, Policy
from .keys import Failed, KeyName
from .scaling import MOST_SAMPLES, Weighting, mean_error, sum_tolerance, unsketchable, unsummable
from .scores_view import EncryptedScores
from .shared_keys import OF_ALL

OF_MEMBERS = "the mean update of their own cluster and its total weight"
OF_ONE = "its own weighted mean of these updates; others' too, if it kept what is not for it"


@dataclass(frozen=True, slots=True)
class Encrypted:
    """Clients encrypt under a key that they share; the server adds and multiplies what it cannot read.

    k: measurements of an update that a sketch has, at most half of its coordinates (fewer are taken then); up to 4096 cost
    the same. digits: decimals of the cosines and of the logarithms of norms that the server is told. keys: "run" for one
    sketch and one key for sketches, so that updates of different rounds compare; "session" for one per (round, cluster).
    Keys of sums are always new. floor: fewest honest clients in a sum, counted by the clients that open it.
    corrupt: clients of the run, at most, that pool what they know with one who sees a sum; 0: that one alone.

    Slots are answered in one sum, opened in two steps: counts, which members tell the server, then those slots that `floor`
    clients chose, by the server's count and by each member's own. Whoever holds the key could open more.
    """

    k: int = 1024
    digits: int = 3
    keys: Keys = "run"
    floor: int = 3
    corrupt: int = 0

    def __post_init__(self) -> None:
        if self.keys not in ("run", "session"):
            raise ValueError(f'keys is "run" or "session", not {self.keys!r}')
        if self.floor < 2:
            raise ValueError(f"floor is at least 2, not {self.floor}: a sum of one update is that update")
        if self.k < 1 or not 1 <= self.digits <= MOST_DIGITS // 2:
            raise ValueError(f"k is at least 1, and digits are 1 to {MOST_DIGITS // 2}: more would show the encryption's noise")
        _ = self.rules

    @property
    def rules(self) -> Rules:
        return Rules(self.floor, self.corrupt)

    @property
    def gives(self) -> frozenset[Functionality]:
        given = {Functionality.SUMS, Functionality.GRAM, Functionality.GRAM_ORIGIN}
        given |= {Functionality.CHOICE, Functionality.SLOTS, Functionality.PERSONAL_SUMS}
        across = {Functionality.GRAM_EDGE, Functionality.GRAM_RECALL, Functionality.GRAM_REMEMBER}
        return frozenset(given | across if self.keys == "run" else given)

    def open(self, setup: Setup, /) -> "EncryptedView":
        return EncryptedView(setup, self)


class EncryptedView(EncryptedScores):
    """Answers sums by encrypted sums, and inner products by encrypted scores. Implements `ServerView`."""

    def __init__(self, setup: Setup, how: Encrypted) -> None:
        policy = Policy(how.rules.least, how.rules.least, how.keys, how.digits)
        super().__init__(setup, policy, how.rules, how.k, unfit_of(len(setup.initial)))

    def _countable(self, updates: Updates, rows: Mapping[str, Row], name: str, weights: Weights) -> None:
        """Nobody can hold sums with sample counts against the floor here: clients have no way to sum their weights first."""
        if weights.times_samples:
            raise Refused(f"sum {name} counts samples, which Encrypted cannot hold against its floor; set by_samples=False")
        super()._countable(updates, rows, name, weights)

    def _sum(self, questions: Sequence[Question]) -> Mapping[str, Sum]:
        """The sums of updates that nothing was shown of in one pass, then the others one by one.

        Before a sum is sent, what survived of it is held against what members have: clients lost after the question was
        found safe could leave a sum that shows too few with another. Disjoint sums of enough clients cannot, so they go together.
        """
        self.server.shown = {name: rows for name, rows in self.server.shown.items() if name in self._made}
        fresh = [q for q in questions if not self.server.shown.get(q.updates.name)]
        found = dict(self._sum_at_once(fresh)) if fresh else {}
        for question in (q for q in questions if q not in fresh):
            found |= self._sum_at_once([question])
        return found

    def _sum_at_once(self, questions: Sequence[Question]) -> Mapping[str, Sum]:
        """One key and one encrypted sum for each question, all in one pass."""
        run, d = self._setup.run, len(self._setup.initial)
        named = {q.label: f"{q.label}/{self._known(q.updates).kind}/{q.number}" for q in questions}
        names = {q.label: KeyName(run, "sums", q.updates.round, named[q.label]) for q in questions}
        keys = self._new_keys({names[q.label]: tuple(sorted(q.row)) for q in questions})
        plans: dict[str, tuple[Question, encrypted_sum.SumPlan]] = {}
        for q in (q for q in questions if names[q.label] in keys):
            least = max(self._least + (q.alone in q.row), q.fewest)
            session = Session(SUM, run, q.updates.round, named[q.label], tuple(sorted(q.row)), least)
            weighting = Weighting(q.row, q.times_samples)
            shown = () if q.alone is not None else tuple(self.server.shown.get(q.updates.name, ()))
            common = session, keys[names[q.label]], weighting, d, q.receivers
            plans[q.label] = q, encrypted_sum.SumPlan(*common, shown=shown, rules=self._gate.rules, receiver=q.alone)
        question_of = {client: q for q, _ in plans.values() for client in q.row}

        def perform(tasks: list[tuple[int, Task]]) -> Iterator[tuple[int, Worked]]:
            for client, work in self._results({i: question_of[i].updates.name for i, _ in tasks}):
                counted = work.samples if question_of[client].times_samples else 1
                if (reason := unsummable(work.vector, counted)) is not None:
                    self._reject([client], reason)
                    continue
                yield client, Worked(work.vector, counted)

        servers = {label: Party(SERVER, encrypted_sum.Adding(p), encrypted_sum.server_step) for label, (_, p) in plans.items()}
        opening = (effect for _, plan in plans.values() for effect in encrypted_sum.invite(plan))
        self._run({plan.session.digest: servers[label] for label, (_, plan) in plans.items()}, opening, perform)
        found = {label: self._read(q, plan, servers[label].state) for label, (q, plan) in plans.items()}
        self._opened.clear()
        return {label: answer for label, answer in found.items() if answer is not None}

    def _read(self, question: Question, plan: encrypted_sum.SumPlan, ended: encrypted_sum.Summed | Failed) -> Sum | None:
        """The answer in the end of an encrypted sum; None, and a fault on record, if there is none."""
        round, d, digest = question.updates.round, plan.length, plan.session.digest
        told = ("sums", OF_MEMBERS) if question.alone is None else ("personal sums", OF_ONE)
        about = ended.clients if isinstance(ended, encrypted_sum.Summed) else ended.shown or tuple(sorted(question.row))
        if question.alone is None:
            sent = isinstance(ended, encrypted_sum.Summed) or bool(ended.shown)
            self._came_true(question, [{i: question.row[i] for i in about}] if sent else [])
        self._disclose(round, "server", "ciphertexts of updates", about, 0, OF_ALL)
        if isinstance(ended, Failed):
            self._failed(ended, f"the encrypted sum {question.label}")
            if digest in self._opened:  # members have it; the server did not hear of it
                self._disclose(round, "clients", told[0], about, d + 1, told[1], question.alone)
            return None
        self._network.faults += [Fault(i, "another total weight than most members found") for i in ended.blame]
        if question.times_samples:
            self._disclose(round, "server", "total weight", about, 1, "the sum of the weights times sample counts, rounded")
        self._disclose(round, "clients", told[0], about, d + 1, told[1], question.alone)
        name = unused(question.label, self._means)
        self._means[name] = self._opened[plan.session.digest]
        unit, of = plan.weighting.unit, [plan.weighting.of[i] for i in about]
        most = sum(map(abs, of)) * MOST_SAMPLES if question.times_samples else sum(map(abs, of))
        weights = abs(ended.weight) if min(of) > 0 or max(of) < 0 else most
        error = mean_error(d, len(about), weights / unit, abs(ended.weight) / unit)
        tolerance = sum_tolerance(d) + plan.weighting.weight_error / abs(ended.weight)
        to: Owner | int = "clients" if question.alone is None else question.alone
        return Sum(name, to, about, ended.weight, tolerance, None, error)

    def _came_true(self, question: Question, rows: list[Row]) -> None:
        """Put the rows of the survivors, if anything was sent, in the place of what was asked for."""
        name = question.updates.name
        self.server.shown.setdefault(name, []).extend(rows)
        self._gate.replace(name, question.row, rows)

    def _personal(self, updates: Updates, questions: list[PersonalQuestion]) -> Mapping[int, Sum]:
        """An encrypted sum for each receiver, which the server sends to nobody else. Whoever holds the key could open it."""
        found: dict[int, Sum] = {}
        for q in questions:
            number = self._numbered[updates.name]
            self._numbered[updates.name] += 1
            asked = Question(q.label, updates, number, q.row, False, (q.receiver,), q.receiver)
            if (answer := self._sum([asked]).get(q.label)) is not None:
                found[q.receiver] = answer
        return found

    def coordinates(self, updates: Updates, name: str, rule: Callable[[NDArray[np.float32]], NDArray[np.float32]], /) -> Sum:
        raise Refused("order statistics of coordinates need the coordinates, which this protection hides; use Plain or Permuted")


def unfit_of(d: int) -> Unfit:
    """What a client holds its work against before it says that it takes part."""

    def unfit(task: Task, work: LocalWork) -> str | None:
        if task.work == "slots":
            return misfit(work, len(task.models), d, task.most) or unsummable(work.vector.ravel(), 1)
        if not usable(work.vector):
            return UNUSABLE
        return unsummable(work.vector, 1) or unsketchable(work.sketched)

    return unfit
