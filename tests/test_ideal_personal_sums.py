"""Personal sums against `Plain` on the survivors, whatever gets lost; views that answer them wrongly are caught."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product

import pytest

from cloister.protocol import Encrypted, Masked, Plain
from cloister.protocol.encrypted.view import EncryptedView
from cloister.protocol.masked.view import MaskedView
from cloister.protocol.uploaded.view import UploadView
from cloister.protocol.view.answers import BelowFloor, Sum

from . import sides
from .ideal_functionality import Case, Drive, NotIdeal
from .test_ideal_functionality import CASES, ENCRYPTED, MASKED, SUMMING, Broken

pytestmark = pytest.mark.sweeps

OPENED = (("Task",), ("Ready",), ("OpeningOffer",), ("ReceiverKey",), ("SenderKey",), *SUMMING, ("OpenedTotal",))
MASKED = [replace(case, stages=OPENED, personal=1.0) for case in MASKED]
ENCRYPTED = [replace(case, personal=1.0) for case in ENCRYPTED]


class Counting(Drive):
    """Counts the answers by their type, and those that lost somebody."""

    def __init__(self, *given):
        self.seen = Counter()
        super().__init__(*given)

    def _check_personal(self, asked, receiver, answer, weights, *rest):
        counted = [i for i in asked.updates.clients if weights.of.get(i)]
        self.seen[type(answer)] += 1
        self.seen["lost somebody"] += isinstance(answer, Sum) and len(answer.clients) < len(counted)
        self.seen["not in it"] += isinstance(answer, Sum) and receiver not in answer.clients
        super()._check_personal(asked, receiver, answer, weights, *rest)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_pattern_of_dropouts_over_the_stages_of_four_clients(case):
    outcomes = Drive(case, (1, 3, 5, 7), seed=0).every_personal_pattern()
    everyone, alive = product(range(3), repeat=4), Counter()
    for pattern in everyone:
        alive[pattern.count(2)] += 1
    others = case.rules.least
    # a receiver that is left needs so many beside itself; one that is not is in no row, and needs as many
    sums = sum(n * ((k if k > others else 0) + (4 - k if k >= others else 0)) for k, n in alive.items())
    assert outcomes == {"Sum": sums, "BelowFloor": 4 * (81 - alive[0]) - sums, "no handle": alive[0]}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_random_rows_over_rounds_with_random_losses(case):
    drive = Counting(replace(case, personal=0.8), tuple(range(0, 18, 3)), 5)
    drive.some_rounds(30)
    assert min(drive.seen[kind] for kind in (Sum, BelowFloor, "not in it")) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("case", MASKED[1:], ids=str)
def test_masked_every_stage_at_which_one_or_all_of_four_clients_fall_silent(case):
    stages = len(case.stages)
    alone = [tuple(s if i == k else stages for i in range(4)) for k in (0, 2) for s in range(stages)]
    together = [(s,) * 4 for s in range(stages + 1)]
    outcomes = Drive(case, (1, 3, 5, 7), 0).every_personal_pattern([*alone, *together])
    assert outcomes["Sum"] >= 2 * stages
    assert outcomes["no handle"] == 2
    assert outcomes["BelowFloor"] >= stages


@pytest.mark.parametrize("case", MASKED, ids=str)
def test_masked_random_rows_over_rounds_with_random_losses(case):
    seen = Counter()
    for n, rounds in ((7, 12), (10, 8)):
        drive = Counting(case, tuple(range(n)), 10 * n)
        drive.some_rounds(rounds)
        seen += drive.seen
    assert seen[Sum] >= 15
    assert min(seen[BelowFloor], seen["lost somebody"], seen["not in it"]) >= 1


@pytest.mark.slow
def test_masked_every_pattern_of_dropouts_up_to_the_order_of_four_clients():
    case = replace(MASKED[0], protection=replace(MASKED[0].protection, floor=2))
    patterns = combinations_with_replacement(range(len(case.stages) + 1), 4)
    assert Drive(case, tuple(range(4)), seed=0).every_personal_pattern(patterns)["Sum"] >= 40


@pytest.mark.slow
@pytest.mark.parametrize("case", MASKED, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_masked_many_random_rows(case, seed):
    Drive(case, tuple(range(6)), seed).some_rounds(60)
    Drive(case, tuple(range(14)), seed).some_rounds(10)


@pytest.mark.parametrize("case", ENCRYPTED[1:], ids=str)
def test_encrypted_every_stage_at_which_one_of_four_clients_falls_silent(case):
    stages = len(case.stages)
    outcomes = Drive(case, (1, 3, 5, 7), 0).every_personal_pattern([(s, *[stages] * 3) for s in (0, 2, 4, 6)])
    assert outcomes["Sum"] >= 9
    assert outcomes["no handle"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("case", ENCRYPTED, ids=str)
def test_encrypted_random_rows_over_rounds_with_random_losses(case):
    drive = Counting(case, tuple(range(8)), 2)
    drive.some_rounds(12)
    assert drive.seen[Sum] >= 5
    assert min(drive.seen[BelowFloor], drive.seen["lost somebody"], drive.seen["not in it"]) >= 1


# --- views that are wrong -------------------------------------------------------------------------------------------------------


def changed(change):
    """A view over uploads whose personal sums are changed: change(view, answers, updates, weights) -> answers."""

    class Changed(UploadView):
        def personal_sums(self, updates, weights, /):
            return change(self, dict(super().personal_sums(updates, weights)), updates, weights)

    Changed.__name__ = change.__name__
    return Changed


def itself(view, answers, updates, weights):
    return answers


def handed_to_another(view, answers, updates, weights):
    """The first two receivers open each other's sum."""
    sums = [r for r, a in answers.items() if isinstance(a, Sum)][:2]
    if len(sums) == 2:
        a, b = sums
        means = sides.clients(view).means
        means[answers[a].name], means[answers[b].name] = means[answers[b].name], means[answers[a].name]
    return answers


def for_all_clients(view, answers, updates, weights):
    return {r: replace(a, recipient="clients") if isinstance(a, Sum) else a for r, a in answers.items()}


def of_all_survivors(view, answers, updates, weights):
    return {r: replace(a, clients=updates.clients) if isinstance(a, Sum) else a for r, a in answers.items()}


def withheld(view, answers, updates, weights):
    for r, a in answers.items():
        if isinstance(a, Sum):
            answers[r] = BelowFloor(a.name, a.clients, sides.gate(view).rules.least)
            view.record.below_floor.append(answers[r])
    return answers


class WithoutItsOwn(UploadView):
    def _personal(self, updates, questions):
        return super()._personal(updates, [replace(q, row={i: q.row[i] for i in q.others}) for q in questions])


class CountsTheReceiver(UploadView):
    def _allies(self, receiver):
        return frozenset()


class AnswersTwice(UploadView):
    def personal_sums(self, updates, weights, /):
        self.server.receivers.clear()
        self.server.served.clear()
        return super().personal_sums(updates, weights)


class AnswersBoth(UploadView):
    def personal_sums(self, updates, weights, /):
        rows, self._gate.published[updates.name] = self._gate.published[updates.name], []
        try:
            return super().personal_sums(updates, weights)
        finally:
            self._gate.published[updates.name] = rows


class LogsNobody(UploadView):
    def _disclose(self, *entry):
        super()._disclose(*entry[:6])


WRONG = {
    changed(handed_to_another): "counts|has not the weight|is off by|its norm is off",
    changed(for_all_clients): "about these clients there is",
    changed(of_all_survivors): "what arrived came from|some were not asked|has not the weight|counts",
    changed(withheld): "withheld for no reason",
    WithoutItsOwn: "what arrived came from",
    CountsTheReceiver: "beside its receiver",
    AnswersTwice: "more than one sum to a receiver",
    AnswersBoth: "more than one sum to a receiver",
    LogsNobody: "not in the disclosure log as that client's",
}


def driven(view):
    Drive(Case(Broken(view), personal=0.7), tuple(range(6)), seed=3).some_rounds(90)


@pytest.mark.parametrize("view", [UploadView, changed(itself)], ids=["itself", "through the wrapper"])
def test_what_is_not_broken_passes_as_the_broken_are_driven(view):
    driven(view)


@pytest.mark.parametrize(("view", "reason"), WRONG.items(), ids=[view.__name__ for view in WRONG])
def test_a_view_that_is_wrong_is_caught(view, reason):
    with pytest.raises(NotIdeal, match=reason):
        driven(view)


class TakesAnothersRow(MaskedView):
    """Senders blind with what they were offered; the server says that it was another row."""

    def _opened_sum(self, updates, question, agreed, summed):
        row = {i: question.row[i] * (2.0 if i == question.others[0] else 1.0) for i in question.row}
        return super()._opened_sum(updates, replace(question, row=row), agreed, summed)


class ForgetsTheReceiver(MaskedView):
    def _opened_sum(self, updates, question, agreed, summed):
        row = {i: question.row[i] for i in question.others}
        return super()._opened_sum(updates, replace(question, row=row), agreed, summed)


class NamesAllSenders(MaskedView):
    def _personal(self, updates, questions):
        row = {q.receiver: tuple(sorted(q.row)) for q in questions}
        return {r: replace(a, clients=row[r]) for r, a in super()._personal(updates, questions).items()}


class StatesNoError(MaskedView):
    def _personal(self, updates, questions):
        return {r: replace(a, error=0.0) for r, a in super()._personal(updates, questions).items()}


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (TakesAnothersRow, "counts|has not the weight"),
        (ForgetsTheReceiver, "what arrived came from|has not the weight"),
        (NamesAllSenders, "counts|has not the weight|not in the disclosure log"),
        (StatesNoError, "counts|is off by"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_masked_view_that_is_wrong_is_caught(view, reason):
    @dataclass(frozen=True)
    class BrokenMasked(Masked):
        def open(self, setup):
            return view(setup, self)

    case = replace(MASKED[0], protection=BrokenMasked(sketch=100, max_samples=32))
    with pytest.raises(NotIdeal, match=reason):
        Drive(case, tuple(range(8)), seed=4).some_rounds(40)


def test_an_encrypted_view_that_is_wrong_is_caught():
    class SendsItToAnother(EncryptedView):
        def _learn(self, client, effect):
            super()._learn(client, replace(effect, vector=effect.vector[4:] + effect.vector[:4]))

    @dataclass(frozen=True)
    class BrokenEncrypted(Encrypted):
        def open(self, setup):
            return SendsItToAnother(setup, self)

    with pytest.raises(NotIdeal, match=r"client . counts|is off by"):
        Drive(replace(ENCRYPTED[0], protection=BrokenEncrypted()), tuple(range(4)), seed=3).every_personal_pattern([(9,) * 4])


def test_plain_with_a_floor_of_one_gives_sums_of_one_other_client():
    drive = Drive(Case(Plain(floor=1)), (0, 1), 0)
    assert drive.every_personal_pattern([(2, 2)]) == {"Sum": 2, "BelowFloor": 0, "no handle": 0}
