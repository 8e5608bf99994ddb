"""Personal sums against `Plain` on the survivors, whatever gets lost; views that answer them wrongly are caught."""

from collections import Counter
from dataclasses import replace
from itertools import combinations_with_replacement, product

import pytest

from cloister.protocol import Encrypted, Masked, Plain
from cloister.protocol.masked.receiver_opened.opening import ReceiverOpened
from cloister.protocol.parts.personal import Personal
from cloister.protocol.view.answers import BelowFloor, Sum

from . import sides
from .ideal_functionality import Case, Drive, NotIdeal
from .test_ideal_functionality import CASES, ENCRYPTED, MASKED, SUMMING, Broken, breaks, opens_anothers_sum, others, wrap

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
@pytest.mark.long
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
@pytest.mark.long
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
@pytest.mark.long
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
@pytest.mark.long
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

    def breaking(view):
        wrap(view, "personal_sums", lambda right, updates, weights: change(view, dict(right(updates, weights)), updates, weights))

    breaking.__name__ = change.__name__
    return breaking


def itself(view, answers, updates, weights):
    return answers


def handed_to_another(view, answers, updates, weights):
    """The first two receivers open each other's sum."""
    sums = [r for r, a in answers.items() if isinstance(a, Sum)][:2]
    if len(sums) == 2:
        a, b = sums
        one, other = (sides.mean_of(view, answers[i].name) for i in (a, b))
        sides.change_mean(view, answers[a].name, other)
        sides.change_mean(view, answers[b].name, one)
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


def personal(view):
    return sides.part(view, Personal)


@breaks("_answer", personal)
def without_its_own(view, right, updates, questions):
    return right(updates, [replace(q, row={i: q.row[i] for i in q.others}) for q in questions])


@breaks("_allies", personal)
def counts_the_receiver(view, right, receiver):
    return frozenset()


@breaks("personal_sums")
def answers_twice(view, right, updates, weights):
    sides.gate(view).told[updates.name].receivers.clear()
    personal(view).served.clear()
    return right(updates, weights)


@breaks("personal_sums")
def answers_both(view, right, updates, weights):
    told = sides.gate(view).told[updates.name]
    rows, told.rows = told.rows, []
    try:
        return right(updates, weights)
    finally:
        told.rows = rows


@breaks("disclose", lambda view: view.record)
def logs_nobody(view, right, *entry):
    right(*entry[:6])


WRONG = {
    changed(handed_to_another): "counts|has not the weight|is off by|its norm is off",
    changed(for_all_clients): "about these clients there is",
    changed(of_all_survivors): "what arrived came from|some were not asked|has not the weight|counts",
    changed(withheld): "withheld for no reason",
    without_its_own: "what arrived came from",
    counts_the_receiver: "beside its receiver",
    answers_twice: "more than one sum to a receiver",
    answers_both: "more than one sum to a receiver",
    logs_nobody: "not in the disclosure log as that client's",
}


def driven(view):
    Drive(Case(Broken(view), personal=0.7), tuple(range(6)), seed=3).some_rounds(90)


@pytest.mark.parametrize("view", [lambda view: None, changed(itself)], ids=["itself", "wrapped"])
@pytest.mark.long
def test_what_is_not_broken_passes_as_the_broken_are_driven(view):
    driven(view)


@pytest.mark.long
@pytest.mark.parametrize(("view", "reason"), WRONG.items(), ids=[view.__name__ for view in WRONG])
def test_a_view_that_is_wrong_is_caught(view, reason):
    with pytest.raises(NotIdeal, match=reason):
        driven(view)


def opened(view):
    return sides.part(view, ReceiverOpened)


@breaks("_opened_sum", opened)
def takes_anothers_row(view, right, updates, question, agreed, summed):
    """Senders blind with what they were offered, and the receiver weighs by it; the server says that it was another row."""
    answer = right(updates, question, agreed, summed)
    return answer if answer is None else others(answer, weight=answer.weight + question.row[question.others[0]])


def forgets_the_receiver(view):
    for opener in opened(view).openers.values():
        opener._own = lambda opening, own=opener._own: None if (found := own(opening)) is None else 0 * found


@breaks("_answer", personal)
def names_all_senders(view, right, updates, questions):
    row = {q.receiver: tuple(sorted(q.row)) for q in questions}
    return {r: replace(a, clients=row[r]) for r, a in right(updates, questions).items()}


@breaks("_answer", personal)
def states_no_error(view, right, updates, questions):
    return {r: replace(a, error=0.0) for r, a in right(updates, questions).items()}


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (takes_anothers_row, "counts|has not the weight"),
        (forgets_the_receiver, "counts 0 times|what arrived came from"),
        (names_all_senders, "counts|has not the weight|not in the disclosure log"),
        (states_no_error, "counts|is off by"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.long
def test_a_masked_view_that_is_wrong_is_caught(view, reason):
    case = replace(MASKED[0], protection=Broken(view, right=Masked(sketch=100, max_samples=32)))
    with pytest.raises(NotIdeal, match=reason):
        Drive(case, tuple(range(8)), seed=4).some_rounds(40)


def test_an_encrypted_view_that_is_wrong_is_caught():
    with pytest.raises(NotIdeal, match=r"client . counts|is off by"):
        Drive(
            replace(ENCRYPTED[0], protection=Broken(opens_anothers_sum, right=Encrypted())), tuple(range(4)), seed=3
        ).every_personal_pattern([(9,) * 4])


def test_plain_with_a_floor_of_one_gives_sums_of_one_other_client():
    drive = Drive(Case(Plain(floor=1)), (0, 1), 0)
    assert drive.every_personal_pattern([(2, 2)]) == {"Sum": 2, "BelowFloor": 0, "no handle": 0}
