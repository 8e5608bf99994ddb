"""Sums into slots, asked of a view: each is what `Plain` answers about the survivors who chose it, and small slots stay shut."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.orthonormal import HadamardRotation
from cloister.fl.cost.measure import measure
from cloister.fl.cost.workload import Workload
from cloister.fl.runs.spoilt_sum import spoilt_by
from cloister.protocol import Encrypted, Masked, Noise, Permuted, Plain, TwoServer
from cloister.protocol.core.errors import OF_NO_WEIGHT, Refused
from cloister.protocol.core.link import Frame
from cloister.protocol.masked.slots import SlotLayout
from cloister.protocol.messages import decode
from cloister.protocol.two_servers.asking import Unanswered
from cloister.protocol.two_servers.run import gram
from cloister.protocol.two_servers.sharing import HeldShares
from cloister.protocol.view.answers import Assignment, BelowFloor, Model, Sum
from cloister.protocol.view.asks import ServerView
from cloister.protocol.view.disclosure import totals
from cloister.protocol.view.functionality import Functionality
from cloister.protocol.view.protection import Protection, Setup
from cloister.protocol.view.work import LocalJob, LocalWork

from . import sides

D, K, MOST = 20, 3, 10
RUN = bytes(range(16))
INITIAL = np.random.default_rng(0).standard_normal(D).astype(np.float32)
MEMBERS = tuple(range(1, 10))
CHOICE = {1: 0, 2: 1, 3: 1, 4: 0, 5: 1, 6: 0, 7: 1, 8: 0, 9: 2}
SHARE = {1: 5, 2: 6, 3: 5, 4: 4, 5: 5, 6: 5, 7: 5, 8: 4, 9: 3}
"""Of those who may be left in a slot in these tests nobody outweighs the others."""
WORK = Assignment(Model("init"), MEMBERS, MEMBERS, (Model("init"), Model("init")))
MASKED = Masked(corrupt=0, slot_spare=1, floor=2)
FIRST = ("Upload", "Ready", "ExplicitShare", "SlotShare")
"""What a client that is lost before the first step does not send."""
PROTECTIONS = [
    Plain(floor=2),
    Permuted(floor=2),
    Permuted(HadamardRotation, floor=2),
    Permuted(keys="session", floor=2),
    MASKED,
    replace(MASKED, ring_bits=64),
    TwoServer(floor=2),
    Encrypted(floor=2),
]


def hard(client: int) -> tuple[int, ...]:
    """All of a client's weight in one slot."""
    return tuple(SHARE[client] if k == CHOICE[client] else 0 for k in range(K))


def soft(client: int) -> tuple[int, ...]:
    """Whole shares that add up to MOST; each leaves one slot out, and all slots together show nobody."""
    shares, first = (7 - client % 2, 3 + client % 2, 0), (client - 1) // 3
    return (*shares[-first:], *shares[:-first]) if first else shares


def once(client: int) -> tuple[int, ...]:
    """As `hard`, where all clients weigh alike."""
    return tuple(int(k == CHOICE[client]) for k in range(K))


def row_of(client: int, slot: int, round: int = 0) -> Any:
    return np.random.default_rng([client, slot, round]).uniform(-0.9, 0.9, D).astype(np.float32)


def working(shares: Callable[[int], tuple[int, ...]], seen: list[LocalJob] | None = None) -> Any:
    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            if seen is not None:
                seen.append(job)
            rows = np.stack([row_of(job.client, k, job.round) * (shares(job.client)[k] > 0) for k in range(K)])
            yield job.client, LocalWork(rows.astype(np.float32), 10, shares(job.client))

    return workers


def open_view(protection: Protection, shares: Any = hard, tap: Any = None, seen: Any = None) -> ServerView:
    return protection.open(Setup(RUN, INITIAL, MEMBERS, working(shares, seen), SimulatedEntropy(1), tap))


def losing(kinds: Sequence[str], clients: Sequence[int], nth: int = 0) -> Callable[[Frame], list[Frame]]:
    """Loses the nth and all later frames of these kinds from these clients."""
    sent: dict[int, int] = {}

    def tap(frame: Frame) -> list[Frame]:
        if frame.kind not in kinds or frame.sender not in clients:
            return [frame]
        sent[frame.sender] = sent.get(frame.sender, 0) + 1
        return [frame] if sent[frame.sender] <= nth else []

    return tap


def check(view: ServerView, answers: Sequence[Sum | BelowFloor], shares: Any, alive: Sequence[int], round: int = 0) -> list[int]:
    """Each answered slot is the weighted mean of those of `alive` who chose it. Returns the slots that were answered."""
    found = []
    for k, answer in enumerate(answers):
        if isinstance(answer, BelowFloor):
            continue
        weights = {i: shares(i)[k] for i in alive if shares(i)[k]}
        assert set(weights) <= set(answer.clients) <= set(MEMBERS)
        assert answer.weight == sum(weights.values())
        expected = sum(w * row_of(i, k, round).astype(np.float64) for i, w in weights.items()) / answer.weight
        moved = view.harness.observe(view.advance(Model("init"), answer)).astype(np.float64) - INITIAL
        assert np.linalg.norm(moved - expected) <= answer.error + 1e-5 * (1 + answer.tolerance)
        assert answer.error < 0.05
        assert answer.norm is None or answer.norm == pytest.approx(np.linalg.norm(expected), abs=answer.error + 1e-5)
        found.append(k)
    return found


named = pytest.mark.parametrize("protection", PROTECTIONS, ids=repr)
SLOWLY = [pytest.param(p, marks=pytest.mark.slow if isinstance(p, Encrypted) else ()) for p in PROTECTIONS]
named_slowly = pytest.mark.parametrize("protection", SLOWLY, ids=repr)


@named
@pytest.mark.parametrize("shares", [hard, soft])
@pytest.mark.long
def test_every_slot_is_the_weighted_mean_of_who_chose_it(protection: Protection, shares: Any) -> None:
    view = open_view(protection, shares)
    answers = view.slots(0, "root", WORK, MOST)
    open_slots = check(view, answers, shares, MEMBERS)
    assert open_slots == ([0, 1] if shares is hard else [0, 1, 2]), "one client alone in slot 2 is never opened"
    assert len(view.record.below_floor) == K - len(open_slots)
    view.harness.retire([Model("init")], [])
    assert check(view, view.slots(1, "root", WORK, MOST), shares, MEMBERS, 1) == open_slots


@pytest.mark.parametrize("protection", PROTECTIONS[:4], ids=repr)
def test_a_slot_in_which_one_outweighs_the_others_stays_shut_where_shares_are_known(protection: Protection) -> None:
    def heavy(client: int) -> tuple[int, ...]:
        return (MOST, 0, 0) if client == 1 else hard(client)

    view = open_view(protection, heavy)
    answers = view.slots(0, "root", WORK, MOST)
    assert check(view, answers, heavy, MEMBERS) == [1]
    assert isinstance(answers[0], BelowFloor)
    assert answers[0].clients == (1, 4, 6, 8)


@pytest.mark.parametrize("protection", PROTECTIONS[:4], ids=repr)
def test_of_slots_that_together_show_one_client_the_later_ones_stay_shut(protection: Protection) -> None:
    def mixed(client: int) -> tuple[int, ...]:
        return (MOST - client % 4, client % 4, 0) if client < 6 else (0, 3, MOST - 3)

    view = open_view(protection, mixed)
    assert check(view, view.slots(0, "root", WORK, MOST), mixed, MEMBERS) == [0, 1]


@named_slowly
@pytest.mark.parametrize("lost", [*combinations((1, 2, 5, 9), 1), (1, 2), (2, 3), (1, 2, 5)], ids=str)
@pytest.mark.long
def test_whoever_drops_out_before_is_in_no_slot(protection: Protection, lost: tuple[int, ...]) -> None:
    alive = [i for i in MEMBERS if i not in lost]
    plain = open_view(Plain(floor=2), tap=losing(FIRST, lost))
    expected = check(plain, plain.slots(0, "root", WORK, MOST), hard, alive)
    view = open_view(protection, tap=losing(FIRST, lost))
    found = check(view, view.slots(0, "root", WORK, MOST), hard, alive)
    counts = [sum(CHOICE[i] == k for i in alive) for k in range(K)]
    assert expected == [k for k in range(K) if counts[k] >= 2]
    assert found == [k for k in range(K) if counts[k] >= (3 if isinstance(protection, Masked) else 2)], "one more may drop out"


@pytest.mark.parametrize("kind", ["MaskKeys", "SealedShares", "MaskedInput", "SurvivorSignature", "Reveal"])
@pytest.mark.parametrize("nth", [0, 1], ids=["while counting", "while summing"])
def test_dropouts_at_every_stage_of_both_sessions(kind: str, nth: int) -> None:
    view = open_view(MASKED, tap=losing((kind,), (4,), nth))
    answers = view.slots(0, "root", WORK, MOST)
    gone = kind in ("MaskKeys", "SealedShares", "MaskedInput") or (nth == 0 and kind == "SurvivorSignature")
    first = next(answer for answer in answers if isinstance(answer, Sum))
    assert gone >= (4 not in first.clients)
    assert check(view, answers, hard, first.clients) == [0, 1]


def test_more_dropouts_than_are_spare_open_nothing() -> None:
    view = open_view(MASKED, tap=losing(("MaskedInput",), (2, 4), 1))
    assert all(isinstance(answer, BelowFloor) for answer in view.slots(0, "root", WORK, MOST))
    assert any("failed at stage" in fault.reason for fault in view.record.faults)
    spare = open_view(replace(MASKED, slot_spare=2), tap=losing(("MaskedInput",), (2, 4), 1))
    assert check(spare, spare.slots(0, "root", WORK, MOST), hard, [i for i in MEMBERS if i not in (2, 4)]) == [0, 1]
    shut = open_view(replace(MASKED, slot_spare=3))
    assert all(isinstance(answer, BelowFloor) for answer in shut.slots(0, "root", WORK, MOST))
    assert any("no slot was chosen by 5 clients" in fault.reason for fault in shut.record.faults)


def test_a_slot_whose_weight_its_choosers_cannot_have_given_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """One counts itself, and gives its levels the weight 0: the mean of its slot was taken as one of honest clients."""
    encode, lied = SlotLayout.encode, list[int]()

    def lying(layout: SlotLayout, chosen: Any, opened: frozenset[int], rounding: Any) -> Any:
        ring = encode(layout, chosen, opened, rounding)
        if 1 in chosen and not lied:
            lied.append(1)
            ring[2 * (D + 1) - 1] = 0
        return ring

    monkeypatch.setattr(SlotLayout, "encode", lying)
    view = open_view(MASKED, once)
    answers = view.slots(0, "root", WORK, 1)
    assert check(view, answers, once, MEMBERS) == [0]
    assert lied
    assert isinstance(answers[1], BelowFloor)
    assert answers[1].shut == f"slot 1 has a weight that no 4 {OF_NO_WEIGHT}"
    assert spoilt_by(answers[1], ())
    assert [f.reason for f in view.record.faults] == [f"the slots of root@0: {answers[1].shut}"]


def test_who_is_lost_between_counts_and_sums_weighs_nothing_and_spoils_nothing() -> None:
    view = open_view(MASKED, once, tap=losing(("MaskedInput",), (5,), 1))
    assert check(view, view.slots(0, "root", WORK, 1), once, [i for i in MEMBERS if i != 5]) == [0, 1]


def test_clients_that_did_not_sign_who_was_counted_send_nothing_into_slots() -> None:
    """Client 4 never hears who survived the counting; it cannot know among whom it would sum."""
    view = open_view(MASKED, tap=lambda frame: [] if frame.kind == "Survivors" and frame.receiver == 4 else [frame])
    answers = view.slots(0, "root", WORK, MOST)
    assert check(view, answers, hard, [i for i in MEMBERS if i != 4]) == [0, 1]
    assert {f.blame for f in view.record.faults if f.rejected} == {4}
    assert any("not among the clients that were counted" in f.reason for f in view.record.faults)


def test_swapped_choices_look_the_same_to_the_server() -> None:
    """Two clients swap slots, updates and shares: all frames of the views have the same sizes, and the sums are equal."""
    frames, sums = [], []
    for swapped in (False, True):
        other = {1: 2, 2: 1} if swapped else {}

        def workers(jobs: Sequence[LocalJob], /, other: dict[int, int] = other) -> Iterator[tuple[int, LocalWork]]:
            for client, work in working(hard)([replace(job, client=other.get(job.client, job.client)) for job in jobs]):
                yield other.get(client, client), work

        heard: list[Frame] = []
        view = MASKED.open(
            Setup(RUN, INITIAL, MEMBERS, workers, SimulatedEntropy(1), lambda frame, h=heard: [h.append(frame) or frame])  # type: ignore[misc, func-returns-value]
        )
        answers = view.slots(0, "root", WORK, MOST)
        sums.append([view.harness.observe(view.advance(Model("init"), answer)) for answer in answers if isinstance(answer, Sum)])
        frames.append([(f.kind, f.sender, f.receiver, len(f.data)) for f in heard])
    assert frames[0] == frames[1]
    assert all(np.array_equal(a, b) for a, b in zip(*sums, strict=True))


def test_what_the_server_learns_is_said() -> None:
    view = open_view(MASKED)
    view.slots(0, "root", WORK, MOST)
    learned = totals(view.record.log)["server"]
    assert {row["scalars"] for row in learned} == {0, K, 2 * (D + 1)}
    assert {row["what"] for row in learned if row["scalars"]} == {"slots"}
    assert {row["what"] for row in learned} == {"slots", "participation"}
    plain = open_view(Plain(floor=2))
    plain.slots(0, "root", WORK, MOST)
    (row,) = totals(plain.record.log)["server"]
    assert "which slots it chose" in row["words"]
    assert row["scalars"] == len(MEMBERS) * K * (D + 1)


def test_no_frame_to_the_server_shows_a_choice_under_masks_and_every_upload_does_without() -> None:
    for protection, shown in ((MASKED, False), (Permuted(floor=2), True)):
        heard: list[Frame] = []
        view = open_view(protection, tap=lambda frame, h=heard: [h.append(frame) or frame])  # type: ignore[misc, func-returns-value]
        view.slots(0, "root", WORK, MOST)
        uploads = [f for f in heard if f.kind == "Upload" and f.receiver == -1]
        assert bool(uploads) == shown
        for frame in uploads:
            rows = np.frombuffer(decode(frame.data, frame.sender, len(frame.data)).message.vector, "<f4").reshape(K, D + 1)
            assert tuple(rows[:, -1].astype(int)) == hard(frame.sender)
        inputs = {len(f.data) for f in heard if f.kind == "MaskedInput"}
        assert len(inputs) == (0 if shown else 2), "every client sends an input of the same size in each session"


@pytest.mark.parametrize("protection", [TwoServer(floor=2), Encrypted(floor=2)], ids=repr)
@pytest.mark.parametrize("kind", ["SlotKey", "SlotShare", "EncryptedInput"])
@pytest.mark.slow
@pytest.mark.parametrize(("lost", "left"), [((4,), [0, 1]), ((1, 4, 6), [1]), ((1, 4, 6, 2, 3, 5), []), ((9,), [0, 1])], ids=str)
def test_whoever_is_lost_while_it_sends_is_in_no_sum_and_small_slots_are_not_answered(
    protection: Protection, kind: str, lost: tuple[int, ...], left: list[int]
) -> None:
    if (kind == "EncryptedInput") != isinstance(protection, Encrypted):
        return
    view = open_view(protection, tap=losing((kind,), lost))
    answers = view.slots(0, "root", WORK, MOST)
    assert check(view, answers, hard, [i for i in MEMBERS if i not in lost]) == left
    assert len(view.record.below_floor) == K - len(left)
    assert all(set(lost).isdisjoint(answer.clients) for answer in answers if isinstance(answer, Sum))


@pytest.mark.long
def test_two_servers_and_encryption_say_what_everybody_learns_of_slots() -> None:
    shared = open_view(TwoServer(floor=2))
    shared.slots(0, "root", WORK, MOST)
    learned = [(d.recipient, d.scalars) for d in shared.record.log if d.what == "slots"]
    clients = [("clients", D)] * 2
    assert learned == [("second server", K), ("server", K), ("server", 2 * (D + 1)), *clients]
    sealed = open_view(Encrypted(floor=2))
    sealed.slots(0, "root", WORK, MOST)
    learned = [(d.recipient, d.scalars) for d in sealed.record.log if d.what == "slots"]
    assert learned == [("clients", K), ("server", K), ("clients", 2 * (D + 1)), ("server", 2)]
    assert any(
        "they hold the key to every client's ciphertexts" in d.words for d in sealed.record.log if d.recipient == "clients"
    )
    assert sum(d.what == "ciphertexts of slots" and "seed" in d.words for d in sealed.record.log) == 1


@pytest.mark.parametrize("protection", [TwoServer(floor=2), Encrypted(floor=2)], ids=repr)
@pytest.mark.long
def test_no_frame_to_a_server_holds_a_choice_in_the_clear(protection: Protection) -> None:
    """Two clients swap slots and shares: frames keep kind, parties and, but for ciphertexts, size; and none holds their input."""
    shapes, sums = [], []
    for swapped in (False, True):
        other = {1: 2, 2: 1} if swapped else {}

        def workers(jobs: Sequence[LocalJob], /, other: dict[int, int] = other) -> Iterator[tuple[int, LocalWork]]:
            for client, work in working(hard)([replace(job, client=other.get(job.client, job.client)) for job in jobs]):
                yield other.get(client, client), work

        heard: list[Frame] = []
        setup = Setup(RUN, INITIAL, MEMBERS, workers, SimulatedEntropy(1), lambda f, h=heard: [h.append(f) or f])  # type: ignore[misc, func-returns-value]
        view = protection.open(setup)
        answers = view.slots(0, "root", WORK, MOST)
        sums.append([view.harness.observe(view.advance(Model("init"), answer)) for answer in answers if isinstance(answer, Sum)])
        exact = not isinstance(protection, Encrypted)
        shapes.append([(f.kind, f.sender, f.receiver, len(f.data) if exact else 0) for f in heard])
        for frame in (f for f in heard if f.sender >= 0 and f.receiver < 0):
            k = CHOICE[other.get(frame.sender, frame.sender)]
            row = row_of(other.get(frame.sender, frame.sender), k)
            ones = np.eye(K)[k]
            clear = [ones.astype(t).tobytes() for t in ("<f4", "<f8", "<u4", "<i8")]
            clear += [(ones * 2**b).astype("<i8").tobytes() for b in range(20, 40)]
            assert not any(part in frame.data for part in [*clear, row.tobytes(), row.astype("<f8").tobytes()])
    assert shapes[0] == shapes[1]
    assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(*sums, strict=True))


def test_the_second_server_multiplies_no_choices() -> None:
    """Inner products of counts would show who chose alike: a Gram question about them is refused, whoever asks it."""
    heard: list[Frame] = []
    view: Any = open_view(TwoServer(floor=2), tap=lambda frame: [heard.append(frame) or frame])  # type: ignore[func-returns-value]
    view.slots(0, "root", WORK, MOST)
    shares = [decode(f.data, f.sender, len(f.data)) for f in heard if f.kind == "SlotShare"]
    for source in sorted({share.session for share in shares}):
        words = {s.sender: np.frombuffer(s.message.vector, "<u8") for s in shares if s.session == source}
        rows = [((source, i), words[i]) for i in sorted(words)]
        terms, entropy = sides.part(view, HeldShares).terms, SimulatedEntropy(2)
        ended = gram(sides.network(view), view.helpers.everybody, terms, RUN, view.helpers.number(), rows, entropy)
        assert isinstance(ended, Unanswered)
        assert view.record.faults[-1].reason == "a Gram question about slots"


@pytest.mark.long
def test_clients_start_from_the_models_of_all_slots() -> None:
    for protection in (Plain(floor=2), MASKED, Permuted(floor=2), TwoServer(floor=2), Encrypted(floor=2)):
        seen: list[LocalJob] = []
        view = open_view(protection, seen=seen)
        models = []
        for answer in view.slots(0, "root", WORK, MOST):
            models.append(view.advance(Model("init"), answer) if isinstance(answer, Sum) else Model("init"))
        expected = [view.harness.observe(model) for model in models]
        view.harness.retire([Model("init"), *models], [])
        view.slots(1, "root", Assignment(models[0], MEMBERS, MEMBERS, tuple(models[1:])), MOST)
        assert len(seen) == 2 * len(MEMBERS)
        for job in seen[len(MEMBERS) :]:
            assert job.work == "slots"
            assert all(np.array_equal(a, b) for a, b in zip(job.starts, expected, strict=True))
            assert np.array_equal(job.start, expected[0])


@pytest.mark.long
@named
def test_work_that_fits_no_slots_sits_out(protection: Protection) -> None:
    wrong = {1: (0, 0, 0), 2: (0, MOST + 1, 0), 3: (1, 0)}

    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for client, work in working(hard)(jobs):
            vector = work.vector.copy()
            vector[0, 0] = np.nan if client == 9 else vector[0, 0]
            yield client, replace(work, vector=vector, shares=wrong.get(client, work.shares))

    view = protection.open(Setup(RUN, INITIAL, MEMBERS, workers, SimulatedEntropy(1)))
    check(view, view.slots(0, "root", WORK, MOST), hard, (4, 5, 6, 7, 8))
    assert {f.blame for f in view.record.faults if f.rejected} == {1, 2, 3, 9}


def test_who_gives_slots() -> None:
    for protection in PROTECTIONS:
        assert Functionality.SLOTS in protection.gives
    noisy = replace(MASKED, noise=Noise(epsilon=6, delta=1e-4, rounds=3, l2=1.0))
    assert Functionality.SLOTS not in noisy.gives
    with pytest.raises(Refused):
        open_view(noisy).slots(0, "root", WORK, MOST)
    for most, models in ((0, K), (2**24 + 1, K), (1, 65)):
        with pytest.raises(Refused):
            open_view(Plain()).slots(0, "root", replace(WORK, others=(Model("init"),) * (models - 1)), most)
    coarse = open_view(MASKED).slots(0, "root", WORK, 2**24)
    assert all(isinstance(answer, BelowFloor) or answer.error > 1 for answer in coarse), "room for shares is not left for levels"


@pytest.mark.long
@pytest.mark.parametrize("protection", [Plain(), Permuted(), Masked()], ids=repr)
def test_the_cost_of_slots_is_that_of_a_k_fold_vector(protection: Protection) -> None:
    sent = {}
    for slots in (2, 4):
        load = Workload(needs=frozenset({Functionality.SLOTS}), clients=16, parameters=2000, rounds=1, slots=slots, seed=3)
        measured = measure(protection, load, lambda _: None)
        assert all(10 <= phase.summed <= 16 for phase in measured.rounds), "small slots may be shut"
        sent[slots] = [cost.bytes_up for i, cost in measured.rounds[0].costs.items() if i >= 0]
    growth = np.array(sent[4]) - np.array(sent[2])
    assert all(4 * 2 * 2000 <= more <= 4 * 2 * 2000 + 100 for more in growth), "two more slots of 4 bytes for each parameter"


@pytest.mark.parametrize("protection", [Plain(floor=2), Permuted(floor=2), MASKED, TwoServer(floor=2)], ids=repr)
@pytest.mark.parametrize("first", [pytest.param(0, marks=pytest.mark.slow), 10**6])
@pytest.mark.long
def test_sixty_four_slots_work_in_late_rounds(protection: Protection, first: int) -> None:
    """Their models are named one by one, however long the names are."""

    def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            k = job.client % 2
            rows = np.zeros((64, D), np.float32)
            rows[k] = row_of(job.client, k, job.round)
            yield job.client, LocalWork(rows, 10, tuple(int(slot == k) for slot in range(64)))

    view = protection.open(Setup(RUN, INITIAL, MEMBERS, workers, SimulatedEntropy(1)))
    models = [Model("init")] * 64
    for round in range(first, first + 2):
        work = Assignment(models[0], MEMBERS, MEMBERS, tuple(models[1:]))
        answers = view.slots(round, "a cluster with a long name of its own", work)
        assert [isinstance(answer, Sum) for answer in answers] == [True] * 2 + [False] * 62
        moved = [view.advance(m, a) if isinstance(a, Sum) else m for m, a in zip(models, answers, strict=True)]
        view.harness.retire(moved, [])
        models = moved
    assert len({view.harness.observe(model).tobytes() for model in models}) == 3
