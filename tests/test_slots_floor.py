"""Slots under two servers and CKKS: nobody opens a slot under the floor, whoever is lost and whatever a first server says."""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.additive import keyed_share
from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import Encrypted, Plain, TwoServer
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.link import Frame
from cloister.protocol.core.session import SECOND_SERVER, SERVER
from cloister.protocol.drivers.roles import Received
from cloister.protocol.encrypted.holders import Holders
from cloister.protocol.encrypted.keys import KeyName, opened_secret
from cloister.protocol.messages import decode
from cloister.protocol.two_servers.messages import SumQuestion
from cloister.protocol.two_servers.questions import slot_question, sum_question
from cloister.protocol.two_servers.slot_messages import SlotAnswer, SlotKey, SlotQuestion, SlotsAgreed, SlotShare
from cloister.protocol.two_servers.slot_terms import SharedSlots
from cloister.protocol.view.answers import Assignment, Model, Sum
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.protocol.wire.codec import Envelope, encode

from . import sides

pytestmark = pytest.mark.sweeps

D, K, MOST, FLOOR = 5, 2, 4, 2
RUN = bytes(range(16))
INITIAL = np.zeros(D, np.float32)
CHOICE = {1: 0, 2: 0, 3: 1, 4: 1}
LIMIT = 1 << 24
Tap = Callable[[Frame], list[Frame]]


def row_of(client: int) -> Any:
    return np.random.default_rng(client).uniform(-0.9, 0.9, D).astype(np.float32)


def shares_of(client: int) -> tuple[int, ...]:
    return tuple(k % MOST + 1 if CHOICE[client] == k else 0 for k in range(K))  # alike in a slot: none outweighs the others


def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
    for job in jobs:
        rows = np.stack([row_of(job.client) * (share > 0) for share in shares_of(job.client)])
        yield job.client, LocalWork(rows.astype(np.float32), 1, shares_of(job.client))


def opened(protection: Any, tap: Tap | None, clients: tuple[int, ...]) -> Any:
    return protection.open(Setup(RUN, INITIAL, clients, workers, SimulatedEntropy(1), tap))


def work(clients: tuple[int, ...]) -> Assignment:
    return Assignment(Model("init"), clients, clients, (Model("init"),))


def expected(alive: set[int]) -> list[int]:
    """The slots that reach the floor, as `Plain` answers them."""
    clients = tuple(CHOICE)
    plain = opened(Plain(floor=FLOOR), lambda f: [] if f.kind == "Upload" and f.sender not in alive else [f], clients)
    return [k for k, answer in enumerate(plain.slots(0, "root", work(clients), MOST)) if isinstance(answer, Sum)]


def check(view: Any, answers: Sequence[Any], alive: set[int]) -> list[int]:
    """Every answered slot is the mean of those of `alive` who chose it. Returns these slots."""
    for k, answer in enumerate(answers):
        if isinstance(answer, Sum):
            weights = {i: shares_of(i)[k] for i in alive if shares_of(i)[k]}
            assert answer.weight == sum(weights.values())
            mean = sum(w * row_of(i).astype(np.float64) for i, w in weights.items()) / answer.weight
            assert np.linalg.norm(view.harness.observe(view.advance(Model("init"), answer)) - mean) < answer.error + 1e-5
    return [k for k, answer in enumerate(answers) if isinstance(answer, Sum)]


class Lines:
    """A tap that loses frames and keeps the others. lost: (kind, client of either end) -> from which of them on."""

    def __init__(self) -> None:
        self.lost: dict[tuple[str, int], int] = {}
        self.frames: list[Frame] = []
        self._seen: dict[tuple[str, int], int] = {}

    def __call__(self, frame: Frame) -> list[Frame]:
        keys = [(frame.kind, party) for party in (frame.sender, frame.receiver) if (frame.kind, party) in self.lost]
        for key in keys:
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] > self.lost[key]:
                return []
        self.frames.append(frame)
        return [frame]

    def begin(self, lost: dict[tuple[str, int], int]) -> None:
        self.lost, self.frames, self._seen = lost, [], {}

    def messages(self, kind: str) -> list[Envelope]:
        return [decode(f.data, f.sender, LIMIT) for f in self.frames if f.kind == kind]


# --- two servers ------------------------------------------------------------------------------------------------------------

SLOTS = SharedSlots(K, D, MOST, 64.0, FLOOR)
STAGES: dict[str, dict[str, int]] = {"none": {}, "task": {"Task": 0}, "key": {"SlotKey": 0}, "share": {"SlotShare": 0}}
ENDS = {
    "held": ("Held", SERVER),
    "agreed": ("SlotsAgreed", SERVER),
    "asked": ("SlotQuestion", SERVER),
    "answer": ("SlotAnswer", SERVER),
}


def not_opened(lines: Lines, alive: set[int], slots: Sequence[int]) -> None:
    """The second server's share of the sum of these slots, which would open them, is in no frame; nor is the first server's."""
    keys = {e.sender: e.message.key for e in lines.messages("SlotKey")}
    mine = [keyed_share(keys[i], (SLOTS.terms.length,)).values for i in sorted(alive)]
    theirs = [np.frombuffer(e.message.vector, "<u8") for e in lines.messages("SlotShare") if e.sender in alive]
    for shares in (mine, theirs):
        total = np.sum(shares, axis=0, dtype=np.uint64) if shares else np.zeros(SLOTS.terms.length, np.uint64)
        for k in slots if shares else ():
            part = SLOTS.rows(total, (k,)).ravel()
            for frame in lines.frames:
                if frame.sender < 0 and frame.receiver < 0:
                    assert not any(part[at : at + 1].tobytes() in frame.data for at in range(D + 1))


@pytest.mark.slow
def test_two_servers_open_what_plain_opens_whoever_is_lost_where() -> None:
    lines, clients = Lines(), tuple(CHOICE)
    view = opened(TwoServer(floor=FLOOR), lines, clients)
    seen = set()
    for round, fates in enumerate(product(STAGES, repeat=3)):
        stages = dict(zip(clients, (*fates, "none"), strict=True))
        lines.begin({(kind, i): n for i, stage in stages.items() for kind, n in STAGES[stage].items()})
        alive = {i for i, stage in stages.items() if stage == "none"}
        found = check(view, view.slots(round, "root", work(clients), MOST), alive)
        assert found == expected(alive) == [k for k in range(K) if sum(CHOICE[i] == k for i in alive) >= FLOOR]
        answers = lines.messages("SlotAnswer")
        assert all(len(e.message.rows) == 8 * len(found) * (D + 1) for e in answers)
        assert bool(answers) == (len(alive) >= FLOOR)
        not_opened(lines, alive, [k for k in range(K) if k not in found])
        seen.add(tuple(found))
        view.harness.retire([Model("init")], [])
    assert seen == {(0, 1), (0,), (1,), ()}


@pytest.mark.long
@pytest.mark.parametrize("end", ENDS)
def test_two_servers_answer_nothing_where_a_word_between_them_is_lost(end: str) -> None:
    lines = Lines()
    lines.begin({ENDS[end]: 0})
    view = opened(TwoServer(floor=FLOOR), lines, tuple(CHOICE))
    assert check(view, view.slots(0, "root", work(tuple(CHOICE)), MOST), set(CHOICE)) == []
    assert len(view.record.below_floor) == K
    learned = {d.recipient for d in view.record.log if d.scalars}
    assert learned == ({"second server"} if end in ("asked", "answer") else set()), "it may have learned the counts"
    lines.begin({})
    view.harness.retire([Model("init")], [])
    assert check(view, view.slots(1, "root", work(tuple(CHOICE)), MOST), set(CHOICE)) == [0, 1]


def asked_again(frame: Frame, change: Callable[[SlotQuestion], SlotQuestion]) -> Frame:
    """The question changed, under its own right digest."""
    request = change(decode(frame.data, SERVER, LIMIT).message)  # type: ignore[arg-type]
    return replace(frame, data=encode(Envelope(slot_question(RUN, request), SERVER, SECOND_SERVER, request)))


def raised(request: SlotQuestion, slot: int, by: int) -> SlotQuestion:
    parts = [int.from_bytes(request.counts[at : at + 20], "big") for at in range(0, len(request.counts), 20)]
    parts[slot] = (parts[slot] + by) % 2**160
    return replace(request, counts=b"".join(part.to_bytes(20, "big") for part in parts))


LIES: dict[str, Callable[[SlotQuestion], SlotQuestion]] = {
    "one more in the small slot": lambda q: raised(q, 1, SLOTS.one),
    "one more in the small slot, a wrap later": lambda q: raised(q, 1, SLOTS.one + 2**64),
    "the same count a wrap later": lambda q: raised(q, 1, 2**64),
    "one less in the large slot": lambda q: raised(q, 0, -SLOTS.one % 2**160),
    "another blinding": lambda q: replace(q, blinding=bytes(275) + b"\x01"),
    "counts of fewer slots": lambda q: replace(q, counts=q.counts[:20]),
    "another session": lambda q: replace(q, source=bytes(32)),
    "without one": lambda q: replace(q, without=(3,)),
    "without all but one": lambda q: replace(q, without=(2, 3)),
    "without one that is not there": lambda q: replace(q, without=(9,)),
}


@pytest.mark.long
@pytest.mark.parametrize("lie", LIES)
def test_the_second_server_opens_nothing_for_a_false_share_of_the_counts(lie: str) -> None:
    clients, frames = (1, 2, 3), []

    def tap(frame: Frame) -> list[Frame]:
        frame = asked_again(frame, LIES[lie]) if frame.kind == "SlotQuestion" else frame
        frames.append(frame)
        return [frame]

    view = opened(TwoServer(floor=FLOOR), tap, clients)
    assert check(view, view.slots(0, "root", work(clients), MOST), set(clients)) == []
    assert not any(f.kind == "SlotAnswer" for f in frames)
    assert next(f for f in view.record.faults).blame == SERVER


def test_a_first_server_that_hides_survivors_gets_the_counts_and_open_slots_of_those_it_names_and_no_second_answer() -> None:
    clients = tuple(CHOICE)

    def tap(frame: Frame) -> list[Frame]:
        if frame.kind not in ("Held", "SlotQuestion"):
            return [frame]
        sent = decode(frame.data, SERVER, LIMIT)
        if frame.kind == "SlotQuestion":  # and asks twice
            more = replace(sent.message, number=sent.message.number + 1)  # type: ignore[call-arg, union-attr, type-var]
            return [frame, asked_again(frame, lambda _: more)]  # type: ignore[arg-type, return-value]
        return [replace(frame, data=encode(replace(sent, message=replace(sent.message, clients=(1, 2, 3)))))]  # type: ignore[call-arg, type-var]

    view = opened(TwoServer(floor=FLOOR), tap, clients)
    assert check(view, view.slots(0, "root", work(clients), MOST), {1, 2, 3}) == [0], "slot 1 is one client's now"
    assert [f.reason for f in view.record.faults] == ["slots that were opened before"]


def test_the_second_server_sums_no_slots_otherwise() -> None:
    lines = Lines()
    view = opened(TwoServer(floor=FLOOR), lines, tuple(CHOICE))
    view.slots(0, "root", work(tuple(CHOICE)), MOST)
    (source,) = {e.session for e in lines.messages("SlotShare")}
    request = SumQuestion(9, source, tuple(CHOICE), (1,) * 4)
    with pytest.raises(ProtocolError, match=r"not held, .*or no longer for sums"):
        view.helpers.parties[SECOND_SERVER].handle(Received(Envelope(sum_question(RUN, request), SERVER, SECOND_SERVER, request)))


@pytest.mark.long
@pytest.mark.parametrize("liars", [(3,), (3, 4), (4,)], ids=str)
def test_clients_whose_commitment_is_to_other_counts_are_named_and_left_out(liars: tuple[int, ...]) -> None:
    def tap(frame: Frame) -> list[Frame]:
        if frame.kind != "SlotKey" or frame.sender not in liars:
            return [frame]
        sent = decode(frame.data, frame.sender, LIMIT)
        return [replace(frame, data=encode(replace(sent, message=replace(sent.message, commitment=bytes(255) + b"\x04"))))]  # type: ignore[call-arg, type-var]

    view = opened(TwoServer(floor=FLOOR), tap, tuple(CHOICE))
    assert check(view, view.slots(0, "root", work(tuple(CHOICE)), MOST), set(CHOICE) - set(liars)) == [0], "slot 1 is small now"
    named = [f.blame for f in view.record.faults if f.reason == "a commitment that is not to the shares that it sent"]
    assert named == list(liars)
    assert not any(f.blame == SERVER and "committed to" in f.reason for f in view.record.faults)


def test_the_second_server_is_not_shown_how_often_shares_wrap() -> None:
    """Whoever knows the other shares and the number of wraps knows, now and then, a choice: 64 hashed bits above hide it."""
    lines = Lines()
    view = opened(TwoServer(floor=FLOOR), lines, tuple(CHOICE))
    view.slots(0, "root", work(tuple(CHOICE)), MOST)
    (question,), shares = lines.messages("SlotQuestion"), lines.messages("SlotShare")
    for k in range(K):
        shown = int.from_bytes(question.message.counts[20 * k : 20 * k + 20], "big")  # type: ignore[union-attr]
        words = [int(np.frombuffer(e.message.vector, "<u8")[k]) for e in shares]  # type: ignore[union-attr]
        assert shown % 2**64 == sum(words) % 2**64
        assert shown >> 64 > 2**48, "not the number of wraps, but for a chance of 2^-16"
    assert SLOTS.committed([1, 2], b"a") != SLOTS.committed([1, 2], b"b")
    assert [c % 2**64 for c in SLOTS.committed([1, 2**64 - 1], b"a")] == [1, 2**64 - 1]


def test_a_row_out_of_range_shuts_its_slot_alone() -> None:
    """Client 3 shares a row that is no update's: slot 1, which it chose, is not answered, and slot 0 is."""

    def tap(frame: Frame) -> list[Frame]:
        if frame.kind != "SlotShare" or frame.sender != 3:
            return [frame]
        sent = decode(frame.data, 3, LIMIT)
        words = np.frombuffer(sent.message.vector, "<u8").copy()  # type: ignore[union-attr]
        words[K + D + 1] += np.uint64(2**62)
        return [replace(frame, data=encode(replace(sent, message=replace(sent.message, vector=words.tobytes()))))]  # type: ignore[call-arg, type-var]

    view = opened(TwoServer(floor=FLOOR), tap, tuple(CHOICE))
    assert check(view, view.slots(0, "root", work(tuple(CHOICE)), MOST), set(CHOICE)) == [0]
    assert "out of range" in view.record.faults[-1].reason


words = st.integers(1, 4).flatmap(lambda n: st.binary(min_size=8 * n, max_size=8 * n))
binding, blinding = st.binary(min_size=32, max_size=32), st.binary(min_size=272, max_size=272)
MESSAGES = st.one_of(
    st.builds(SlotShare, binding, words, blinding),
    st.builds(SlotKey, binding, binding, st.binary(min_size=256, max_size=256), binding),
    st.builds(
        SlotQuestion, st.integers(0, 2**62), binding, st.just(bytes(40)), st.binary(min_size=276, max_size=276), st.just((3, 9))
    ),
    st.builds(SlotsAgreed, st.just((3, 9)), st.binary(min_size=512, max_size=512)),
    st.builds(SlotAnswer, words, st.one_of(words, st.just(b""))),
)


@given(MESSAGES, st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_messages_about_slots_have_one_encoding(message: Any, rng: Any) -> None:
    envelope = Envelope(bytes(32), 3, SERVER, message)
    data = encode(envelope)
    assert decode(data, 3, len(data)) == envelope
    at = rng.randrange(len(data))
    changed = rng.choice([data[:at], data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]])
    with suppress(ProtocolError):
        assert encode(decode(changed, 3, LIMIT)) == changed


BROKEN = [
    (SlotShare, (bytes(31), bytes(8), bytes(272))),
    (SlotShare, (bytes(32), bytes(4), bytes(272))),
    (SlotShare, (bytes(32), bytes(8), bytes(271))),
    (SlotKey, (bytes(32), bytes(31), bytes(256), bytes(32))),
    (SlotKey, (bytes(32), bytes(32), bytes(257), bytes(32))),
    (SlotKey, (bytes(32), bytes(32), bytes(256), bytes(31))),
    (SlotQuestion, (-1, bytes(32), bytes(20), bytes(276))),
    (SlotQuestion, (0, bytes(32), bytes(21), bytes(276))),
    (SlotQuestion, (0, bytes(32), bytes(20 * 65), bytes(276))),
    (SlotQuestion, (0, bytes(32), bytes(20), bytes(272))),
    (SlotQuestion, (0, bytes(32), bytes(20), bytes(276), (2, 1))),
    (SlotsAgreed, ((1, 2), bytes(256))),
    (SlotsAgreed, ((2, 1), bytes(512))),
    (SlotAnswer, (b"", b"")),
    (SlotAnswer, (bytes(8 * 65), b"")),
    (SlotAnswer, (bytes(8), bytes(7))),
]


@pytest.mark.parametrize(("kind", "values"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_fields_out_of_range_are_refused(kind: Any, values: Any) -> None:
    with pytest.raises(ValueError):
        kind(*values)


# --- CKKS -------------------------------------------------------------------------------------------------------------------


def counts_shown(view: Any, lines: Lines) -> list[tuple[int, ...]]:
    """How many chose each slot whose row is in a ciphertext that anybody was sent in this round, by decryption."""
    shown = []
    seed = next(iter(sides.part(view, Holders).parties.values())).state.seed
    for envelope in lines.messages("OpenSlots"):
        m: Any = envelope.message
        key = opened_secret(seed, KeyName(RUN, "slots", m.round, m.cluster), m.holder, m.public, m.sealed)
        values = key.decrypt(key.read(m.ciphertexts, len(m.slots) * 4096)).rounded(3).reshape(len(m.slots), 4096)
        shown.append(tuple(np.round(values[:, D + 1] / 2**10).astype(int)))
    for envelope in lines.messages("EncryptedSum"):
        m = envelope.message
        key = opened_secret(seed, KeyName(RUN, "slots", m.round, m.cluster), m.holder, m.public, m.sealed)
        rest = key.decrypt(key.read(m.ciphertexts, 4096)).rounded(3)[K + 1 :]
        assert not rest.any(), "counts come without any row"
    return shown


FATES: dict[str, dict[str, int]] = {
    "none": {},
    "input": {"EncryptedInput": 0},
    "count": {"SumOpened": 0},
    "counted": {"OpenSlots": 0},
    "opened": {"SumOpened": 1},
}


@pytest.mark.slow
def test_encrypted_slots_open_what_plain_opens_whoever_is_lost_where() -> None:
    lines, clients = Lines(), (1, 2, 3)
    view = opened(Encrypted(floor=FLOOR), lines, clients)
    seen = set()
    pairs = [*combinations_with_replacement(("none", "input", "count", "opened"), 2), ("none", "counted"), ("counted", "counted")]
    cases = [(*pair, last) for pair in pairs for last in ("none", "input")]  # 1 and 2 choose alike
    for round, fates in enumerate(cases):
        stages = dict(zip(clients, fates, strict=True))
        lines.begin({(kind, i): n for i, stage in stages.items() for kind, n in FATES[stage].items()})
        alive = {i for i, stage in stages.items() if stage != "input"}
        found = check(view, view.slots(round, "root", work(clients), MOST), alive)
        chosen = [k for k in range(K) if len(alive) >= FLOOR and sum(CHOICE[i] == k for i in alive) >= FLOOR]
        told = sum(stage in ("none", "input") for stage in stages.values())
        assert found == (chosen if told >= FLOOR else []), "the sum is opened by enough of those that are left"
        shown = counts_shown(view, lines)
        assert all(count >= FLOOR for counts in shown for count in counts)
        assert all(set(e.message.slots) <= set(chosen) for e in lines.messages("OpenSlots"))  # type: ignore[union-attr]
        seen.add(tuple(found))
        view.harness.retire([Model("init")], [])
    assert seen == {(0,), ()}


def tampered(change: Callable[[Any], Any]) -> Tap:
    def tap(frame: Frame) -> list[Frame]:
        if frame.kind != "OpenSlots":
            return [frame]
        sent = decode(frame.data, SERVER, LIMIT)
        changed = change(sent.message)
        return [
            replace(frame, data=encode(replace(sent, message=m))) for m in (changed if isinstance(changed, list) else [changed])
        ]

    return tap


ENCRYPTED_LIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a small slot": (lambda m: replace(m, slots=(1,)), "fewer than 2 clients chose"),
    "a small slot beside": (lambda m: replace(m, slots=(0, 1), ciphertexts=m.ciphertexts * 2), "fewer than 2 clients chose"),
    "a slot that is not there": (lambda m: replace(m, slots=(63,)), "fewer than 2 clients chose"),
    "fewer survivors": (lambda m: replace(m, alive=(1, 2)), "other clients than were counted"),
    "another session's name": (lambda m: replace(m, cluster="other"), "under another session's digest"),
    "no row": (lambda m: replace(m, ciphertexts=m.ciphertexts[:100]), "cannot be used"),
}


@pytest.mark.long
@pytest.mark.parametrize("lie", ENCRYPTED_LIES)
def test_members_open_no_slot_that_is_small_by_their_own_count(lie: str) -> None:
    change, reason = ENCRYPTED_LIES[lie]
    view = opened(Encrypted(floor=FLOOR), tampered(change), (1, 2, 3))
    assert check(view, view.slots(0, "root", work((1, 2, 3)), MOST), {1, 2, 3}) == []
    assert [f.blame for f in view.record.faults if reason in f.reason] == [SERVER] * 3


def test_all_slots_are_opened_where_weights_are_the_counts() -> None:
    """Shares of 1, and no slot shut: what members say of the weights is what they said of the counts, and no duplicate of it."""
    several = {1: 0, 2: 1, 3: 0, 5: 1}

    def ones(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            shares = tuple(int(several[job.client] == k) for k in range(K))
            yield job.client, LocalWork(np.stack([row_of(job.client) * s for s in shares]).astype(np.float32), 1, shares)

    clients = tuple(several)
    view = Encrypted(floor=2).open(Setup(RUN, INITIAL, clients, ones, SimulatedEntropy(1), None))
    answers = view.slots(0, "root", work(clients), 1)
    assert [answer.weight for answer in answers if isinstance(answer, Sum)] == [2.0, 2.0]
    assert not view.record.faults


def test_members_that_lie_about_a_count_are_not_sent_a_small_slot() -> None:
    lines, told, liars = Lines(), struct.pack(">2d", 2.0, 3.0), [1, 2]

    def tap(frame: Frame) -> list[Frame]:
        sent = decode(frame.data, frame.sender, LIMIT)
        if frame.kind == "SumOpened" and frame.sender in liars:
            liars.remove(frame.sender)  # of weights it says what it opened
            frame = replace(frame, data=encode(replace(sent, message=replace(sent.message, weight=told))))  # type: ignore[call-arg, type-var]
        return lines(frame)

    view = opened(Encrypted(floor=FLOOR), tap, (1, 2, 3))
    assert check(view, view.slots(0, "root", work((1, 2, 3)), MOST), {1, 2, 3}) == [0]
    assert [e.message.slots for e in lines.messages("OpenSlots")] == [(0,)] * 3  # type: ignore[union-attr]


def test_of_two_that_say_other_counts_each_is_held_against_its_own() -> None:
    """What the lowest id says is taken where as many say another thing; who was honest was at fault for its weights."""

    def tap(frame: Frame) -> list[Frame]:
        if frame.kind != "SumOpened" or frame.sender == 2:
            return [frame]
        if frame.sender == 3:
            return []
        sent = decode(frame.data, 1, LIMIT)
        size = len(sent.message.weight)  # type: ignore[union-attr]
        numbers = (3.0, 3.0) if told else (3.0, 1.0)
        told.append(size)
        lie = replace(sent.message, weight=struct.pack(f">{size // 8}d", *numbers))  # type: ignore[call-arg, type-var]
        return [replace(frame, data=encode(replace(sent, message=lie)))]

    told: list[int] = []
    view = opened(Encrypted(floor=2), tap, (1, 2, 3))
    view.slots(0, "root", work((1, 2, 3)), MOST)
    assert told == [16, 16]
    assert view.record.faults == []


def test_members_open_a_session_once() -> None:
    view = opened(Encrypted(floor=FLOOR), tampered(lambda m: [m, m, replace(m, alive=m.alive[1:])]), (1, 2, 3))
    assert check(view, view.slots(0, "root", work((1, 2, 3)), MOST), {1, 2, 3}) == [0]
    assert [f.reason for f in view.record.faults] == ["a session already answered"] * 3


def test_members_that_were_not_sent_the_counts_open_nothing() -> None:
    held: list[Frame] = []

    def tap(frame: Frame) -> list[Frame]:
        if frame.kind == "EncryptedSum" and frame.receiver == 2:
            return []
        if frame.kind == "OpenSlots" and frame.receiver == 1:
            sent = decode(frame.data, SERVER, LIMIT)
            held.append(replace(frame, receiver=2, data=encode(replace(sent, receiver=2))))
            return [frame, *held]
        return [frame]

    view = opened(Encrypted(floor=FLOOR), tap, (1, 2, 3))
    assert check(view, view.slots(0, "root", work((1, 2, 3)), MOST), {1, 2, 3}) == [0]
    assert [f.reason for f in view.record.faults] == ["sums of slots whose counts were not opened here"]


@pytest.mark.long
def test_the_row_of_another_slot_is_refused_by_its_own_count() -> None:
    """The server has one row sent twice: a member counted three clients in slot 0 and two in slot 1, and reads three in both."""
    several = {**CHOICE, 5: 0}

    def more(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
        for job in jobs:
            shares = tuple(int(several[job.client] == k) for k in range(K))
            yield job.client, LocalWork(np.stack([row_of(job.client) * s for s in shares]).astype(np.float32), 1, shares)

    def twice(m: Any) -> Any:
        half = len(m.ciphertexts) // 2
        size = 4 + int.from_bytes(m.ciphertexts[:4], "little")
        assert half > 1000
        return replace(m, ciphertexts=m.ciphertexts[:size] * 2)

    clients = tuple(several)
    view = Encrypted(floor=FLOOR).open(Setup(RUN, INITIAL, clients, more, SimulatedEntropy(1), tampered(twice)))
    assert check(view, view.slots(0, "root", work(clients), MOST), set(clients)) == []
    assert sum("a sum of 3 clients in slot 1, which 2 chose" in f.reason for f in view.record.faults) == 5


@pytest.mark.long
@pytest.mark.parametrize(
    ("numbers", "reason"),
    [((9.0, 1.0), "not of these clients"), ((0.5, 1.0), "not of these clients"), ((2.0,), "bytes of a report")],
)
def test_counts_that_cannot_be_are_no_report(numbers: tuple[float, ...], reason: str) -> None:
    def tap(frame: Frame) -> list[Frame]:
        if frame.kind != "SumOpened" or frame.sender != 1:
            return [frame]
        sent = decode(frame.data, 1, LIMIT)
        told = replace(sent.message, weight=struct.pack(f">{len(numbers)}d", *numbers))  # type: ignore[call-arg, type-var]
        return [replace(frame, data=encode(replace(sent, message=told)))]

    view = opened(Encrypted(floor=FLOOR), tap, (1, 2, 3))
    assert check(view, view.slots(0, "root", work((1, 2, 3)), MOST), {1, 2, 3}) == [0]
    assert [f.blame for f in view.record.faults] == [1]
    assert reason in view.record.faults[0].reason
