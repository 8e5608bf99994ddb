"""The upload roles alone, step by step, and the in-process driver under a network that drops, replays, delays and alters."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.crypto.orthonormal import Identity
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import ENDS, Deadline, Learned, Party, Perform, Persist, Received, Send, Worked, mark_of
from cloister.protocol.messages import MESSAGES
from cloister.protocol.seeding.messages import Advertise
from cloister.protocol.wire.codec import Envelope
from cloister.protocol.wire.messages import HEAD_BYTES, Mean, Ready, Task, Upload
from cloister.protocol.work.upload_client import IdleUploader, OwingUpload, client_step
from cloister.protocol.work.upload_server import (
    AddingUploads,
    CollectingUploads,
    Hearing,
    HoldersKnown,
    UploadsCollected,
    UploadsSummed,
    invite,
    publish,
    server_step,
)
from cloister.protocol.work.uploads import Policy, to_bytes

RUN = bytes(range(16))
D = 4
ROSTER = (1, 3, 4, 8)


def session(**changes):
    fields = {"protocol": "uploads/update", "run": RUN, "round": 5, "cluster": "root", "roster": ROSTER, "threshold": 2}
    return Session(**{**fields, **changes})


S = session()


def idle(me=3, policy=Policy(), next_round=None):
    return IdleUploader(me, RUN, policy, lambda _: Identity(D), next_round or {})


def task(of=S, work="update", sender=SERVER, digest=None, **changes):
    body = Task(*of.fields, work, ("init",), b"")
    return Received(Envelope(of.digest if digest is None else digest, sender, 3, replace(body, **changes)))


def vector_of(client, d=D):
    return np.full(d, client, dtype=np.float32)


def upload(client, vector=None, samples=10, of=S):
    data = to_bytes(vector_of(client) if vector is None else np.array(vector, dtype=np.float32))
    return Received(Envelope(of.digest, client, SERVER, Upload(data, samples)))


def mean(sender=SERVER, d=D):
    return Received(Envelope(S.digest, sender, 3, Mean("root@5", bytes(4 * d))))


def played(state, step, *events):
    for event in events:
        state, _ = step(state, event)
    return state


# --- the client, alone ----------------------------------------------------------------------------------------------------


def test_a_client_stores_its_round_before_it_works_and_sends():
    working, effects = client_step(idle(), task())
    assert working == OwingUpload(replace(idle(), transform=working.idle.transform, next_round={"update": 6}), S)
    assert [type(effect) for effect in effects] == [Persist, Perform]
    assert effects[0] == Persist("next round update", (6).to_bytes(4, "big"))
    done, effects = client_step(working, Worked(vector_of(3), 7))
    assert done == working.idle
    assert effects == (Send(Envelope(S.digest, 3, SERVER, Upload(to_bytes(vector_of(3)), 7))),)


def test_a_client_sends_the_transform_of_its_session():
    seen = []

    class Doubling:
        length = D

        @staticmethod
        def apply(vector):
            return 2 * vector

    state = replace(idle(), transform=lambda digest: seen.append(digest) or Doubling())
    working, _ = client_step(state, task())
    _, (send,) = client_step(working, Worked(vector_of(3), 7))
    assert send.envelope.message.vector == to_bytes(2 * vector_of(3))
    assert seen == [S.digest]


FOREIGN = session(roster=(1, 4, 8))
BAD_TASKS = {
    "not the server's": task(sender=4),
    "another session's digest": task(digest=session(round=6).digest),
    "another session's digest ": task(round=6),
    "another session's digest  ": task(threshold=1),
    "another session's digest   ": task(cluster="other"),
    "another session's digest    ": task(roster=(1, 3)),
    "another run": task(session(run=bytes(16))),
    "another protocol": task(session(protocol="group seed")),
    "another protocol ": task(session(protocol="uploads/gradient")),
    "unknown kind of work": task(session(protocol="uploads/anything"), work="anything"),
    "for others": task(FOREIGN),
    "already answered": task(session(round=4)),
    "without a valid session": task(threshold=5),
    "cohort under the policy's 3": task(session(roster=(3, 4), threshold=2)),
    "threshold under the policy's 2": task(session(threshold=1)),
}


@pytest.mark.parametrize("reason", BAD_TASKS)
def test_a_client_refuses_bad_tasks_and_stays_as_it_was(reason):
    party = Party(3, idle(policy=Policy(min_cohort=3, min_threshold=2), next_round={"update": 5}), client_step)
    before, copy = party.state, replace(party.state)
    with pytest.raises(ProtocolError, match=reason.strip()) as failure:
        party.handle(BAD_TASKS[reason])
    assert failure.value.blame == BAD_TASKS[reason].envelope.sender
    assert party.state is before
    assert before == copy
    assert before.next_round == {"update": 5}
    party.handle(task())  # and the right task is still taken
    assert isinstance(party.state, OwingUpload)


@pytest.mark.parametrize(("cohort", "threshold"), [(4, 2), (3, 2), (1, 1)])
def test_a_policy_that_is_met_exactly_is_met(cohort, threshold):
    client_step(idle(policy=Policy(cohort, threshold)), task())


def test_a_round_is_answered_once_per_kind_of_work_even_in_another_cluster():
    state = played(idle(), client_step, task(), Worked(vector_of(3), 7))
    for again in (task(), task(session(cluster="other"))):  # a role is told of duplicates only by who has lost its memory
        with pytest.raises(ProtocolError, match="already answered"):
            client_step(state, again)
    assert client_step(state, task(session(round=0))) == (state, ()), "old, and nobody's fault"
    state = played(state, client_step, task(session(protocol="uploads/gradient"), work="gradient"), Worked(vector_of(3), 7))
    assert state.next_round == {"update": 6, "gradient": 6}
    client_step(state, task(session(round=6)))


def test_work_that_was_never_done_still_used_up_its_round():
    state = played(idle(), client_step, task(), Deadline())
    assert isinstance(state, IdleUploader)
    with pytest.raises(ProtocolError, match="already answered"):
        client_step(state, task())


@pytest.mark.parametrize("state", [idle(), played(idle(), client_step, task())], ids=["IdleUploader", "OwingUpload"])
def test_a_mean_is_heard_in_every_phase_if_it_is_the_servers_and_of_the_right_length(state):
    after, effects = client_step(state, mean())
    assert after is state
    assert effects == (Learned("root@5", S.digest, bytes(4 * D)),)
    with pytest.raises(ProtocolError, match="only the server"):
        client_step(state, mean(sender=4))
    for d in (D - 1, D + 1):
        with pytest.raises(ProtocolError, match="bytes where 16 belong") as failure:
            client_step(state, mean(d=d))
        assert failure.value.blame == SERVER


# --- the server, alone ----------------------------------------------------------------------------------------------------


def collecting():
    return CollectingUploads(S, D)


def summing(of=None, times_samples=False):
    return AddingUploads(S, D, of or dict.fromkeys(ROSTER, 1.0), times_samples, np.zeros(D))


def test_the_server_invites_the_roster_and_publishes_to_the_members():
    sends = invite(S, "update", ("init",), b"")
    sent = [s.envelope for s in sends]
    assert [(e.sender, e.receiver, e.session) for e in sent] == [(SERVER, i, S.digest) for i in ROSTER]
    assert {s.envelope.message for s in sends} == {task().envelope.message}
    assert [s.envelope.receiver for s in publish(S, "root@5", vector_of(2), (1, 2))] == [1, 2]


@given(st.permutations(ROSTER), st.integers(0, 4))
def test_what_is_collected_does_not_depend_on_the_order_of_arrival(order, heard):
    state = played(collecting(), server_step, *(upload(i, samples=i) for i in order[:heard]), Deadline())
    assert isinstance(state, UploadsCollected)
    assert list(state.received) == sorted(order[:heard])
    assert all(v.tobytes() == vector_of(i).tobytes() and n == i for i, (v, n) in state.received.items())


@given(st.permutations(ROSTER), st.integers(0, 4), st.lists(st.integers(-3, 3), min_size=4, max_size=4), st.booleans())
def test_a_running_sum_is_the_sum_over_who_was_heard(order, heard, weights, times_samples):
    of = dict(zip(ROSTER, weights, strict=True))
    state = played(summing(of, times_samples), server_step, *(upload(i, samples=i + 1) for i in order[:heard]), Deadline())
    assert isinstance(state, UploadsSummed)
    a = {i: of[i] * (i + 1 if times_samples else 1) for i in order[:heard]}
    assert state.clients == tuple(sorted(order[:heard]))
    assert state.weight == sum(a.values())
    assert state.total.tolist() == [sum(a[i] * i for i in a)] * D


BAD_UPLOADS = {
    "outside the roster": upload(5),
    "outside the roster ": upload(SERVER),
    "second upload": upload(1),
    "second upload ": upload(4),
    "bytes where 16 belong": upload(3, [1] * (D - 1)),
    "bytes where 16 belong ": upload(3, [1] * (D + 1)),
    "out of place": Received(Envelope(S.digest, 3, SERVER, Advertise(bytes(32), bytes(64)))),
    "out of place ": mean(sender=3),
}


@pytest.mark.parametrize("reason", BAD_UPLOADS)
@pytest.mark.parametrize("start", [collecting, summing])
def test_the_server_refuses_bad_uploads_and_stays_as_it_was(start, reason):
    party = Party(SERVER, played(start(), server_step, upload(1), upload(4, [1, 2, math.nan, 3])), server_step)
    before = party.state
    with pytest.raises(ProtocolError, match=reason.strip()) as failure:
        party.handle(BAD_UPLOADS[reason])
    assert failure.value.blame == BAD_UPLOADS[reason].envelope.sender
    assert party.state is before
    party.handle(upload(3))
    end = played(party.state, server_step, Deadline())
    assert tuple(end.received if isinstance(end, UploadsCollected) else end.clients) == (1, 3)
    assert end.rejected == (4,)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38, -2e19])
@pytest.mark.parametrize("start", [collecting, summing])
def test_what_is_not_finite_or_overflows_an_inner_product_counts_as_dropped(start, value):
    state = played(start(), server_step, upload(1), upload(3, [1, 1, value, 1]), Deadline())
    assert state.rejected == (3,)
    assert tuple(state.received if isinstance(state, UploadsCollected) else state.clients) == (1,)
    if isinstance(state, UploadsSummed):
        assert state.total.tolist() == [1.0] * D


@pytest.mark.parametrize("start", [collecting, summing])
def test_after_the_deadline_nothing_is_taken(start):
    state = played(start(), server_step, upload(1), Deadline())
    for event, reason in ((upload(3), "after the deadline"), (upload(1), "after the deadline"), (task(), "out of place")):
        with pytest.raises(ProtocolError, match=reason):
            server_step(state, event)


def test_the_whole_table_of_phases_and_events():
    """Every pair of phase and event: it advances, or a message raises ProtocolError and a driver's mistake ValueError."""
    events = {"task": task(), "upload": upload(1), "mean": mean(), "worked": Worked(vector_of(3), 1), "deadline": Deadline()}
    phases = {
        "IdleUploader": (client_step, idle(), {"task", "mean", "deadline"}),
        "OwingUpload": (client_step, played(idle(), client_step, task()), {"worked", "mean", "deadline"}),
        "CollectingUploads": (server_step, collecting(), {"upload", "deadline"}),
        "AddingUploads": (server_step, summing(), {"upload", "deadline"}),
        "UploadsCollected": (server_step, played(collecting(), server_step, Deadline()), set()),
        "UploadsSummed": (server_step, played(summing(), server_step, Deadline()), set()),
    }
    for phase, (step, state, legal) in phases.items():
        for name, event in events.items():
            party = Party(0, state, step)
            if name in legal:
                party.handle(event)
                continue
            with pytest.raises(ProtocolError if isinstance(event, Received) else ValueError, match=r"out of place|deadline"):
                party.handle(event)
            assert party.state is state, (phase, name)


# --- work that stays with the client --------------------------------------------------------------------------------------


def holding(**changes):
    return replace(idle(**changes), transform=None)


def sent(effects):
    return [effect.envelope.message for effect in effects if isinstance(effect, Send)]


def sketch_task(**changes):
    return task(session(protocol="uploads/update sketch"), "update sketch", **changes)


def test_a_client_that_keeps_its_work_says_ready_and_sketches_once_when_asked():
    party = Party(3, holding(), client_step)
    party.handle(task())
    assert sent(party.handle(Worked(vector_of(3), 12))) == [Ready()]
    party.handle(sketch_task())
    (answer,) = sent(party.handle(Worked(vector_of(3)[:2], 12)))
    assert answer == Upload(vector_of(3)[:2].tobytes(), 1), "the number of samples is not told"
    assert party.handle(sketch_task()) == ()
    with pytest.raises(ProtocolError, match="the server keeps the model"):
        party.handle(mean())


def test_a_client_that_uploads_its_work_sketches_nothing():
    with pytest.raises(ProtocolError, match="work that is uploaded"):
        client_step(idle(), sketch_task())


def ready(client):
    return Received(Envelope(S.digest, client, SERVER, Ready()))


def test_the_server_hears_each_client_of_the_roster_once_and_nobody_late():
    party = Party(SERVER, Hearing(S), server_step)
    for client in (ROSTER[2], ROSTER[0]):
        party.handle(ready(client))
    with pytest.raises(ProtocolError, match="outside the roster"):
        party.handle(ready(99))
    assert party.handle(ready(ROSTER[0])) == ()
    with pytest.raises(ProtocolError, match="a second time"):
        server_step(party.state, ready(ROSTER[0]))
    with pytest.raises(ProtocolError, match="out of place"):
        party.handle(upload(ROSTER[1]))
    party.handle(Deadline())
    assert party.state == HoldersKnown(S, (ROSTER[0], ROSTER[2]))
    with pytest.raises(ProtocolError, match="after the deadline"):
        party.handle(ready(ROSTER[1]))


# --- the driver -----------------------------------------------------------------------------------------------------------


class Run:
    """Four clients and a server over the driver. Client i uploads the vector of i's, so a mix-up shows."""

    def __init__(self, tap=None, record=False):
        self.network = InProcess(tap, kinds=MESSAGES, max_bytes=HEAD_BYTES + 4 * D, record=record)
        self.clients = {i: Party(i, idle(i), client_step) for i in ROSTER}

    def round(self, number=5, perform=None):
        of = session(round=number)
        server = Party(SERVER, CollectingUploads(of, D), server_step)
        opening = ((SERVER, effect) for effect in invite(of, "update", ("init",), b""))
        self.network.run(self.clients, {of.digest: server}, opening, perform or self.work, lambda *_: None)
        assert isinstance(server.state, UploadsCollected)
        self.rejected = server.state.rejected
        return server.state.received

    @staticmethod
    def work(tasks):
        return ((client, Worked(vector_of(client), 10)) for client, _ in tasks)

    def reasons(self):
        return [(fault.blame, fault.reason) for fault in self.network.faults]


def whole(received):
    return {i: v.tolist() for i, (v, _) in received.items()} == {i: vector_of(i).tolist() for i in received}


def test_a_perfect_network_carries_everything():
    run = Run(record=True)
    received = run.round()
    assert tuple(received) == ROSTER
    assert whole(received)
    assert not run.network.faults
    assert [(f.kind, f.sender, f.receiver) for f in run.network.frames] == [
        *(("Task", SERVER, i) for i in ROSTER),
        *(("Upload", i, SERVER) for i in ROSTER),
    ]
    assert [f.number for f in run.network.frames] == list(range(8))
    assert run.network.messages == 8
    assert run.network.bytes_down == sum(len(f.data) for f in run.network.frames[:4])
    assert run.network.bytes_up == sum(len(f.data) for f in run.network.frames[4:])
    assert run.network.persisted == {(i, "next round update"): (6).to_bytes(4, "big") for i in ROSTER}


def test_a_round_is_stored_before_its_upload_is_sent():
    stored = []

    def tap(frame):
        if frame.kind == "Upload":
            stored.append((frame.sender, "next round update") in run.network.persisted)
        return [frame]

    run = Run(tap)
    run.round()
    assert stored == [True] * 4


@pytest.mark.parametrize("kind", ["Task", "Upload"])
def test_dropped_frames_drop_their_client_for_one_round(kind):
    run = Run(lambda f: [] if f.kind == kind and 3 in (f.sender, f.receiver) and f.number < 8 else [f])
    assert tuple(run.round()) == (1, 4, 8)
    assert tuple(run.round(6)) == ROSTER
    assert not run.network.faults


@pytest.mark.parametrize("kind", ["Task", "Upload"])
def test_duplicated_frames_are_nobodys_fault(kind):
    run = Run(lambda f: [f, f] if f.kind == kind else [f])
    received = run.round()
    assert whole(received)
    assert tuple(received) == ROSTER
    assert run.reasons() == []


def test_frames_of_an_earlier_round_are_dead_in_a_later_one():
    old = []

    def tap(frame):
        if frame.number < 8:
            old.append(frame)
            return [frame]
        return [*(f for f in old if f.kind == frame.kind), frame]

    run = Run(tap)
    run.round()
    received = run.round(6)
    assert tuple(received) == ROSTER
    assert whole(received)
    assert run.reasons() == []


@pytest.mark.parametrize("kind", ["Task", "Upload"])
def test_late_frames_come_after_the_deadline_and_break_nothing(kind):
    run = Run(lambda f: [replace(f, late=True)] if f.kind == kind and 3 in (f.sender, f.receiver) and f.number < 8 else [f])
    assert tuple(run.round()) == (1, 4, 8)
    assert run.reasons() == ([(3, "an upload after the deadline")] if kind == "Upload" else [])
    assert all(isinstance(party.state, IdleUploader) for party in run.clients.values())
    assert tuple(run.round(6)) == ROSTER


def test_altered_bytes_never_crash_and_blame_their_link():
    """Every byte of every frame of a round, one at a time."""
    clean = Run(record=True)
    clean.round()
    for victim in clean.network.frames:
        for at in range(len(victim.data)):

            def tap(frame, victim=victim, at=at):
                if frame.number != victim.number:
                    return [frame]
                return [replace(frame, data=frame.data[:at] + bytes([frame.data[at] ^ 0x55]) + frame.data[at + 1 :])]

            run = Run(tap)
            received = run.round()
            assert {fault.blame for fault in run.network.faults} <= {victim.sender}
            touched = victim.sender if victim.kind == "Upload" else victim.receiver
            if touched not in received:
                assert run.network.faults or run.rejected == (touched,)
            assert set(ROSTER) - {touched} <= set(received)
            assert whole({i: r for i, r in received.items() if i != touched})


def test_a_frame_moved_to_another_link_is_refused():
    swap = {1: 3, 3: 1}

    def tap(frame):
        return [replace(frame, sender=swap.get(frame.sender, frame.sender), receiver=swap.get(frame.receiver, frame.receiver))]

    run = Run(tap)
    assert tuple(run.round()) == (4, 8)
    assert run.reasons() == [(SERVER, "a message that names other parties than its link")] * 2
    run = Run(lambda f: [replace(f, sender=swap.get(f.sender, f.sender))])
    assert tuple(run.round()) == (4, 8)
    assert [blame for blame, _ in run.reasons()] == [3, 1]
    for nowhere in (2, 99):
        run = Run(lambda f, nowhere=nowhere: [replace(f, receiver=nowhere)])
        assert not run.round()
        assert len(run.network.faults) == 4


def test_oversized_and_empty_frames_are_faults():
    for data in (b"", bytes(HEAD_BYTES + 4 * D + 1), b"\xff" * 100):
        run = Run(lambda f, data=data: [replace(f, data=data)] if f.sender == 3 else [f])
        assert tuple(run.round()) == (1, 4, 8)
        assert [blame for blame, _ in run.reasons()] == [3]


@pytest.mark.parametrize("number", range(8))
def test_a_tap_that_raises_leaves_no_half_state(number):
    def tap(frame):
        if frame.number == number:
            raise RuntimeError("the wire broke")
        return [frame]

    run = Run(tap)
    with pytest.raises(RuntimeError, match="the wire broke"):
        run.round()
    assert all(isinstance(party.state, IdleUploader) for party in run.clients.values())
    received = run.round(6)
    assert tuple(received) == ROSTER
    assert whole(received)


@pytest.mark.parametrize("done", range(5))
def test_work_that_raises_leaves_no_half_state(done):
    def work(tasks):
        for client, _ in tasks[:done]:
            yield client, Worked(vector_of(client), 10)
        raise RuntimeError("out of memory")

    run = Run()
    with pytest.raises(RuntimeError, match="out of memory"):
        run.round(perform=work)
    assert all(isinstance(party.state, IdleUploader) for party in run.clients.values())
    assert tuple(run.round(6)) == ROSTER


def test_work_that_is_not_given_back_counts_as_dropped():
    run = Run()
    assert tuple(run.round(perform=lambda tasks: Run.work(tasks[1:]))) == ROSTER[1:]
    assert tuple(run.round(6)) == ROSTER


@pytest.mark.long
@given(st.lists(st.sampled_from(["pass", "drop", "replay", "late", "swap", "raise"]), min_size=24, max_size=24))
@settings(max_examples=150)
def test_no_fate_of_frames_breaks_the_next_round(fates):
    """Fates for three rounds; then a round on a perfect network gets everything."""

    def tap(frame):
        fate = fates[frame.number] if frame.number < len(fates) and not over else "pass"
        if fate == "raise":
            raise RuntimeError("the wire broke")
        others = {1: 3, 3: 4, 4: 8, 8: 1, SERVER: SERVER}
        return {
            "pass": [frame],
            "drop": [],
            "replay": [frame] * 3,
            "late": [replace(frame, late=True), frame],
            "swap": [replace(frame, sender=others[frame.sender], receiver=others[frame.receiver])],
        }[fate]

    over = False
    run = Run(tap)
    for number in (5, 6, 7):
        try:
            received = run.round(number)
        except RuntimeError:
            continue
        assert whole(received)
    over = True
    received = run.round(8)
    assert tuple(received) == ROSTER
    assert whole(received)


def test_a_long_message_is_known_by_its_length_and_its_ends():
    long = bytearray(4 * ENDS)
    marks = [mark_of(bytes(long)), mark_of(bytes(long[:-1]))]
    for at in (0, ENDS - 1, len(long) - ENDS, len(long) - 1):
        other = bytearray(long)
        other[at] = 1
        marks.append(mark_of(bytes(other)))
    assert len(set(marks)) == len(marks)
    middle = bytearray(long)
    middle[2 * ENDS] = 1
    assert mark_of(bytes(middle)) == marks[0], "which reading a long vector once more would tell"
    short = bytearray(2 * ENDS)
    short[ENDS - 5] = 1
    assert mark_of(bytes(short)) != mark_of(bytes(2 * ENDS))
