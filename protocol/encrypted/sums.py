"""Sums in the view of encryption: one key and one encrypted sum for each question, opened by members or by one receiver."""

from collections.abc import Mapping, Sequence

from ..core.errors import Refused
from ..core.session import SERVER, Session
from ..drivers.roles import Party
from ..parts.held import HeldUpdates
from ..parts.held_sums import Question
from ..parts.leverage import Row
from ..parts.models import Models
from ..parts.personal import PersonalQuestion
from ..parts.run import Run, nothing
from ..view.answers import Owner, Remembered, Snapshot, Sum, Updates
from . import sum as encrypted_sum
from .client_phases import SUM
from .holders import OF_ALL, Holders
from .keys import KeyName, Shortfall
from .scaling import MOST_SAMPLES, Weighting, mean_error, sum_tolerance

OF_MEMBERS = "the mean update of their own cluster and its total weight"
OF_ONE = "its own weighted mean of these updates; others' too, if it kept what is not for it"


class EncryptedSums:
    """Answers questions for sums of what clients hold. shown: rows of the sums that members were sent, by the updates' handle."""

    def __init__(self, run: Run, models: Models, held: HeldUpdates, holders: Holders) -> None:
        self.shown: dict[str, list[Row]] = {}
        self._run = run
        self._models = models
        self._held = held
        self._holders = holders

    def check(self, question: Question, rows: Mapping[str, Row]) -> None:
        """Nobody can hold sums with sample counts against the floor here: clients have no way to sum their weights first."""
        if question.times_samples:
            raise Refused(
                f"sum {question.label} counts samples, which Encrypted cannot hold against its floor; set by_samples=False"
            )

    def answer(self, questions: Sequence[Question]) -> Mapping[str, Sum]:
        """The sums of updates that nothing was shown of in one pass, then the others one by one.

        Before a sum is sent, what survived of it is held against what members have: clients lost after the question was
        found safe could leave a sum that shows too few with another. Disjoint sums of enough clients cannot, so they go together.
        """
        self.shown = {name: rows for name, rows in self.shown.items() if name in self._held.made}
        fresh = [q for q in questions if not self.shown.get(q.updates.name)]
        found = dict(self._at_once(fresh)) if fresh else {}
        for question in (q for q in questions if q not in fresh):
            found |= self._at_once([question])
        return found

    def personal(self, updates: Updates, questions: list[PersonalQuestion]) -> Mapping[int, Sum]:
        """An encrypted sum for each receiver, which the server sends to nobody else. Whoever holds the key could open it."""
        found: dict[int, Sum] = {}
        for q in questions:
            asked = Question(q.label, updates, self._held.number(updates), q.row, False, (q.receiver,), q.receiver)
            if (answer := self.answer([asked]).get(q.label)) is not None:
                found[q.receiver] = answer
        return found

    def _at_once(self, questions: Sequence[Question]) -> Mapping[str, Sum]:
        """One key and one encrypted sum for each question, all in one pass."""
        setup, rules, d = self._run.setup, self._run.gate.rules, len(self._run.setup.initial)
        named = {q.label: f"{q.label}/{self._held.known(q.updates).kind}/{q.number}" for q in questions}
        names = {q.label: KeyName(setup.run, "sums", q.updates.round, named[q.label]) for q in questions}
        keys = self._holders.new_keys({names[q.label]: tuple(sorted(q.row)) for q in questions})
        plans: dict[str, tuple[Question, encrypted_sum.SumPlan]] = {}
        for q in (q for q in questions if names[q.label] in keys):
            least = max(rules.least + (q.alone in q.row), q.fewest)
            session = Session(SUM, setup.run, q.updates.round, named[q.label], tuple(sorted(q.row)), least)
            weighting = Weighting(q.row, q.times_samples)
            shown = () if q.alone is not None else tuple(self.shown.get(q.updates.name, ()))
            work = self._held.known(q.updates).session
            common = session, keys[names[q.label]], weighting, d, q.receivers
            plans[q.label] = q, encrypted_sum.SumPlan(*common, work, shown, rules, q.alone)
        servers = {
            label: Party(SERVER, encrypted_sum.AddingSummands(p), encrypted_sum.server_step) for label, (_, p) in plans.items()
        }
        opening = (effect for _, plan in plans.values() for effect in encrypted_sum.invite(plan))
        self._holders.play({plan.session.digest: servers[label] for label, (_, plan) in plans.items()}, opening)
        found = {label: self._read(q, plan, servers[label].state) for label, (q, plan) in plans.items()}
        self._holders.opened.clear()
        return {label: answer for label, answer in found.items() if answer is not None}

    def _read(self, question: Question, plan: encrypted_sum.SumPlan, ended: encrypted_sum.MeanOpened | Shortfall) -> Sum | None:
        """The answer in the end of an encrypted sum; None, and a fault on record, if there is none."""
        run, opened = self._run, self._holders.opened
        round, d, digest = question.updates.round, plan.length, plan.session.digest
        told = ("sums", OF_MEMBERS) if question.alone is None else ("personal sums", OF_ONE)
        about = ended.clients if isinstance(ended, encrypted_sum.MeanOpened) else ended.shown or tuple(sorted(question.row))
        if question.alone is None:
            sent = isinstance(ended, encrypted_sum.MeanOpened) or bool(ended.shown)
            self._came_true(question, [{i: question.row[i] for i in about}] if sent else [])
        run.record.disclose(round, "server", "ciphertexts of updates", about, 0, f"each update, encrypted: {OF_ALL}")
        if isinstance(ended, Shortfall):
            self._holders.failed(ended, f"the encrypted sum {question.label}", None if ended.stage == "leverage" else plan.key)
            if digest in opened:  # members have it; the server did not hear of it
                run.record.disclose(round, "clients", told[0], about, d + 1, told[1], question.alone)
            return None
        for i in ended.blame:
            run.record.fault(i, "another total weight than most members found")
        if question.times_samples:
            words = "the sum of the weights times sample counts, rounded"
            run.record.disclose(round, "server", "total weight", about, 1, words)
        run.record.disclose(round, "clients", told[0], about, d + 1, told[1], question.alone)
        name = self._models.taught(question.label, plan.members, digest.hex())
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
        self.shown.setdefault(name, []).extend(rows)
        self._run.gate.replace(name, question.row, rows)

    # --- keeping ------------------------------------------------------------------------------------------------------

    def retire(self, models: set[str], remembered: Mapping[str, Remembered]) -> None:
        """See `Part`."""
        self.shown.clear()

    def save(self) -> Snapshot:
        """See `Part`."""
        return nothing()

    def restore(self, snapshot: Snapshot, remembered: Sequence[Remembered]) -> None:
        """See `Part`."""
        self.shown.clear()
