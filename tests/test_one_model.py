"""Two servers answer about updates of one model: whoever was sent another one, or says so, is out, and nobody else.

Of whole clients in a view, and with crafted models, see test_altered_models.py and test_crafted_models.py.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.crypto.entropy import SimulatedEntropy
from cloister.protocol import TwoServer
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.link import Frame, Tap
from cloister.protocol.core.session import SECOND_SERVER, SERVER
from cloister.protocol.drivers.roles import Perform, Received
from cloister.protocol.messages import decode
from cloister.protocol.two_servers.asking import GramAnswered, SumAnswered, Unanswered
from cloister.protocol.two_servers.one_model import of_one_model, started_from
from cloister.protocol.view.answers import Assignment, Model, Sum
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalJob, LocalWork
from cloister.protocol.wire.codec import Envelope, encode
from cloister.protocol.wire.messages import Task

from .two_server_session import LIMIT, Play, changing

ROSTER = (1, 3, 5, 7, 9)
SUBSETS = [odd for size in range(6) for odd in combinations(ROSTER, size)]


def lied_to(victims: Sequence[int], other: Any = None) -> Tap:
    """A first server that sends these clients another model: `other`, or one of their own each."""

    def tap(frame: Frame) -> Iterable[Frame]:
        if frame.kind != "Task" or frame.receiver not in victims:
            return [frame]
        envelope: Any = decode(frame.data, SERVER, LIMIT)
        model = np.frombuffer(envelope.message.vector, "<f4") + (frame.receiver if other is None else other)
        task = replace(envelope.message, vector=model.astype("<f4").tobytes())
        return [replace(frame, data=encode(replace(envelope, message=task)))]

    return tap


def saying(liars: Sequence[int], model: bytes = b"m" * 32) -> Any:
    """Clients that say that they started from this one."""
    return changing("KeyShare", lambda message: replace(message, model=model), senders=liars)


# --- whom the second server takes -------------------------------------------------------------------------------------------


@given(st.dictionaries(st.integers(0, 40), st.sampled_from([b"a", b"b", b"c"]), max_size=12))
def test_those_who_are_taken_are_all_of_one_model_and_more_than_half(models: dict[int, bytes]) -> None:
    taken = of_one_model(models)
    sizes = {model: sum(m == model for m in models.values()) for model in models.values()}
    if taken:
        assert {models[i] for i in taken} == {max(sizes, key=lambda m: sizes[m])}
        assert len(taken) == max(sizes.values())
        assert 2 * len(taken) > len(models)
    else:
        assert not sizes or 2 * max(sizes.values()) <= len(models)


@given(st.integers(1, 20), st.data())
def test_fewer_than_half_leave_out_nobody_but_themselves_whatever_they_say(n: int, data: st.DataObject) -> None:
    liars = data.draw(st.sets(st.integers(0, n - 1), max_size=(n - 1) // 2))
    said = {i: data.draw(st.sampled_from([b"true", b"b", b"c"])) if i in liars else b"true" for i in range(n)}
    taken = of_one_model(said)
    assert set(range(n)) - liars <= set(taken)
    assert all(said[i] == b"true" for i in taken)


# --- sums and inner products ------------------------------------------------------------------------------------------------


def alike(odd: Sequence[int], together: bool) -> tuple[int, ...]:
    """Who is left, of five, when these were told otherwise: one thing all of them, or each another."""
    if len(odd) <= 2:
        return tuple(i for i in ROSTER if i not in odd)
    return tuple(odd) if together else ()


@pytest.mark.parametrize("odd", SUBSETS, ids=str)
@pytest.mark.parametrize("how", ["sent one other model", "sent others each", "says another"])
def test_every_answer_is_about_updates_of_one_model(odd: tuple[int, ...], how: str) -> None:
    tap = saying(odd) if how == "says another" else lied_to(odd, 1.0 if how == "sent one other model" else None)
    play = Play(5, tap)
    survivors = alike(odd, how != "sent others each")
    assert play.upload() == survivors
    out = [i for i in ROSTER if i not in survivors]
    assert [fault.blame for fault in play.network.faults] == out
    assert all("it or the first server lied" in reason for reason in play.reasons())
    held = play.second.sessions[play.session().digest]
    assert set(held.keys) == set(survivors), "keys of the others are forgotten"
    if not survivors:
        return
    whole = play.whole(survivors)
    assert (play.gram().gram == whole @ whole.T).all()
    ended = play.sum(dict.fromkeys(survivors, 1))
    assert isinstance(ended, SumAnswered)
    assert (ended.total == whole.sum(axis=0)).all()


def test_about_an_update_of_another_model_nothing_is_answered() -> None:
    """Not even if the first server, which has its share, pretends that it survived."""
    play = Play(5, lied_to((5,)))
    play.upload()
    share = np.zeros(play.terms.length, np.uint64)
    digest = play.session().digest
    play.collected[0] = replace(play.collected[0], received={**play.collected[0].received, 5: (share, 1)})
    assert isinstance(play.gram([((digest, 5), share)]), Unanswered)
    assert isinstance(play.gram([*play.rows((1, 3)), ((digest, 5), share)]), Unanswered)
    assert isinstance(play.sum({1: 1, 3: 1, 5: 1, 7: 1}), Unanswered)
    assert [fault.blame for fault in play.network.faults] == [5, SERVER, SERVER, SERVER]
    assert isinstance(play.gram(play.rows((1, 3, 7, 9))), GramAnswered)


def test_a_target_alone_with_its_model_is_in_no_sum_and_the_others_without_it_are() -> None:
    """What isolates a client in a sum that nobody looks after: all others get one model at which they learn nothing."""
    play = Play(5, lied_to((1, 3, 7, 9), 1.0))
    assert play.upload() == (1, 3, 7, 9)
    total = play.sum(dict.fromkeys((1, 3, 7, 9), 1)).total
    assert (total == play.whole((1, 3, 7, 9)).sum(axis=0)).all()


def test_with_two_models_for_half_of_the_clients_each_there_is_no_session() -> None:
    play = Play(4, lied_to((5, 7), 1.0))
    assert play.upload() == ()
    assert not play.collected[0].alone, "the second server did answer"
    assert [fault.blame for fault in play.network.faults] == [1, 3, 5, 7]


@pytest.mark.parametrize("lost", [(3,), (3, 5)], ids=str)
def test_of_clients_that_are_lost_no_model_counts(lost: tuple[int, ...]) -> None:
    """Half of five are told otherwise, one of them is lost: the others are left."""

    def tap(frame: Frame) -> Iterable[Frame]:
        return [] if frame.kind == "ExplicitShare" and frame.sender in lost else lied_to((1, 3, 5), 1.0)(frame)

    assert Play(5, tap).upload() == ((7, 9) if len(lost) == 2 else ())


def test_the_model_is_told_to_the_second_server_and_not_to_the_first() -> None:
    play = Play(3, lied_to((3,)), record=True)
    play.upload()
    keys = [decode(f.data, f.sender, LIMIT).message for f in play.network.frames if f.kind == "KeyShare"]
    assert len({key.model for key in keys}) == 2
    to_first = [f.data for f in play.network.frames if f.receiver == SERVER]
    assert not any(key.model in data for key in keys for data in to_first)


# --- what a client starts from ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"vector": b""}, "models of 0 bytes where 36 belong"),
        ({"vector": bytes(32)}, "models of 32 bytes"),
        ({"vector": bytes(72)}, "models of 72 bytes"),
        ({"vector": bytes(72), "own": "mine"}, "a model of the client's own"),
        ({"own": "init"}, "a model of the client's own"),
        ({"models": ("init", "mine")}, "a model of the client's own"),
    ],
    ids=["none", "shorter", "two", "its own behind it", "named as its own", "its own to be pulled to"],
)
def test_a_client_starts_from_nothing_but_what_came_in_its_task(changes: dict[str, Any], match: str) -> None:
    """Else the same bytes might come to all, and be the start of one."""
    play = Play(3)
    session, client = play.session(), play.clients[1]
    task = Task(*session.fields, "update", ("init",), play.model)
    with pytest.raises(ProtocolError, match=match) as failure:
        client.handle(Received(Envelope(session.digest, SERVER, 1, replace(task, **changes))))
    assert failure.value.blame == SERVER
    effects = client.handle(Received(Envelope(session.digest, SERVER, 1, task)))
    assert isinstance(effects[-1], Perform), "the refused one did not spend the round"


def test_models_of_slots_are_told_apart_in_their_order() -> None:
    fields = Play(3).session().fields
    one, other = np.arange(4, dtype="<f4").tobytes(), np.ones(4, "<f4").tobytes()
    task = Task(*fields, "slots", ("a", "b"), one + other, most=1)
    found = {started_from(replace(task, vector=v), 4) for v in (one + other, other + one, one + one, other + other)}
    assert len(found) == 4
    with pytest.raises(ProtocolError, match="16 bytes where 32 belong"):
        started_from(replace(task, vector=one), 4)


# --- slots, and all kinds of work, of whole clients ---------------------------------------------------------------------------

CLIENTS, D, MOST = (1, 2, 3, 4, 5, 6, 7), 5, 4
CHOICE = {1: 0, 2: 0, 3: 0, 4: 0, 5: 1, 6: 1, 7: 1}


def row_of(client: int) -> np.ndarray:
    return np.random.default_rng(client).standard_normal(D).astype(np.float32)


def workers(jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork]]:
    for job in jobs:
        if job.work != "slots":
            yield job.client, LocalWork(row_of(job.client), 2)
            continue
        chosen = np.array([CHOICE[job.client] == k for k in range(2)])
        yield job.client, LocalWork(chosen[:, None] * row_of(job.client), 1, tuple(int(c) for c in chosen))


def opened(tap: Tap | None) -> Any:
    initial = np.linspace(0, 1, D).astype(np.float32)
    return TwoServer(floor=2).open(Setup(bytes(range(16)), initial, CLIENTS, workers, SimulatedEntropy(1), tap))


@pytest.mark.long
@pytest.mark.parametrize("odd", [(), (2,), (5,), (2, 5)], ids=str)
@pytest.mark.parametrize("lie", ["sent another", "says another"])
def test_slots_are_opened_of_clients_with_the_same_models(odd: tuple[int, ...], lie: str) -> None:
    tap = lied_to(odd) if lie == "sent another" else changing("SlotKey", lambda m: replace(m, model=bytes(32)), senders=odd)
    view = opened(tap)
    work = Assignment(Model("init"), CLIENTS, CLIENTS, (Model("init"),))
    answers = view.slots(0, "root", work, MOST)
    for k, answer in enumerate(answers):
        chose = [i for i in CLIENTS if CHOICE[i] == k and i not in odd]
        assert isinstance(answer, Sum)
        assert answer.weight == len(chose)
        mean = view.harness.observe(view.advance(Model("init"), answer)) - view.harness.observe(Model("init"))
        assert np.allclose(mean, np.mean([row_of(i) for i in chose], axis=0), atol=1e-4)
    assert [fault.blame for fault in view.record.faults] == list(odd)


def test_a_slot_that_only_clients_of_another_model_filled_stays_shut() -> None:
    view = opened(lied_to((5, 6, 7), 1.0))
    work = Assignment(Model("init"), CLIENTS, CLIENTS, (Model("init"),))
    answers = view.slots(0, "root", work, MOST)
    assert [isinstance(answer, Sum) for answer in answers] == [True, False]


@pytest.mark.parametrize("kind", ["update", "gradient", "head"])
def test_all_kinds_of_work_are_held_to_one_model(kind: Any) -> None:
    view = opened(lied_to((4,)))
    updates = view.train(0, {"root": Assignment(Model("init"), CLIENTS, CLIENTS)}, kind)["root"]
    assert updates.clients == tuple(i for i in CLIENTS if i != 4)
    assert 4 not in view.gram(updates, origin=True).clients
    assert 4 not in view.helpers.parties[SECOND_SERVER].state.sessions.popitem()[1].keys
    (fault,) = view.record.faults
    assert fault.blame == 4
    assert not fault.rejected
