"""The masked sum: masks cancel, the total is the plain sum of who survived, whatever is lost, and inputs look uniform."""

import re
from dataclasses import fields, replace
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cloister.protocol
from cloister.crypto.agreement import AgreementKey, UnusableKey, check_public
from cloister.crypto.masks import mask
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Deadline, Party, Persist, Received, Send, Worked
from cloister.protocol.masked import server, server_opening
from cloister.protocol.masked.client import Advertised, Idle, client_step
from cloister.protocol.masked.joined import joined_before
from cloister.protocol.masked.messages import MESSAGES
from cloister.protocol.masked.server import Advertising, NoSum, Unmasked, propose, server_step
from cloister.protocol.masked.sum import Plan, max_bytes
from cloister.protocol.masked.terms import sign_of
from cloister.protocol.messages import decode
from cloister.protocol.wire.codec import encode

from .masked_sum_session import KINDS, LOOSE, Play, losing, terms

pytestmark = pytest.mark.sweeps


def test_both_ends_of_a_pair_agree_on_a_key_that_no_one_else_has():
    keys = [AgreementKey(bytes([i]) * 32) for i in range(3)]
    (one,) = keys[0].agree([(keys[1].public, b"c")], "pair mask")
    (other,) = keys[1].agree([(keys[0].public, b"c")], "pair mask")
    assert one == other
    others = {keys[a].agree([(keys[b].public, c)], p) for a, b, c, p in [(0, 2, b"c", "pair mask"), (1, 2, b"c", "pair mask")]}
    others |= {keys[0].agree([(keys[1].public, b"d")], "pair mask"), keys[0].agree([(keys[1].public, b"c")], "seal")}
    assert len(others) == 4
    assert (one,) not in others


@pytest.mark.parametrize("low", [bytes(32), b"\x01" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f"])
def test_points_of_low_order_are_refused(low):
    with pytest.raises(UnusableKey):
        check_public(low)
    with pytest.raises(UnusableKey):
        AgreementKey(bytes(32)).agree([(low, b"")], "pair mask")
    check_public(AgreementKey(bytes(32)).public)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("n", [2, 3, 7])
def test_pair_masks_cancel(dtype, n):
    """Bonawitz et al. 2017, section 3: the signed pair masks of all clients sum to nothing."""
    keys = [AgreementKey(bytes([i + 1]) * 32) for i in range(n)]
    total = np.zeros(9, dtype)
    for i, j in product(range(n), repeat=2):
        if i != j:
            (key,) = keys[i].agree([(keys[j].public, bytes([min(i, j), max(i, j)]))], "pair mask")
            total += (mask(key, 9, dtype) if sign_of(i, j) == 1 else np.subtract(dtype(0), mask(key, 9, dtype))).astype(dtype)
    assert not total.any()


def expected(play, fates):
    """What must come out, from the rules alone. fates: client -> stage from which it is silent. Complete graph."""
    t, floor = play.terms.threshold, play.session.threshold
    alive = play.roster
    for stage, kind in enumerate(KINDS[:4]):
        alive = [i for i in alive if fates.get(i, 9) > stage]
        if len(alive) - 1 < t or len(alive) < floor:  # nobody keeps t neighbours
            return None
        dropped = [i for i in play.roster if fates.get(i, 9) == stage] if kind == "MaskedInput" else []
    holders = alive
    for stage in (4, 5):
        holders = [i for i in holders if fates.get(i, 9) > stage]
        if len(holders) - 1 < t and not (len(holders) >= t and set(holders).isdisjoint(alive)):
            # a survivor outside the holders needs t of them, one inside needs t others
            need_inside = any(i in holders for i in alive)
            if need_inside or len(holders) < t:
                return None
        if dropped and len(holders) < t:
            return None
    return tuple(alive)


def check_pattern(pattern, bits=32):
    play = Play(len(pattern), ring_bits=bits, length=1)
    fates = {i: stage for i, stage in zip(play.roster, pattern, strict=True) if stage < len(KINDS)}
    play.tap = losing(fates)
    end = play.run()
    want = expected(play, fates)
    assert not play.network.faults, pattern
    if want is None:
        assert isinstance(end, NoSum), pattern
        assert end.have < end.need, pattern
    else:
        assert play.right(), pattern
        assert end.clients == want, pattern


@pytest.mark.parametrize(("n", "bits"), [(2, 32), (2, 64), (3, 32)])
@pytest.mark.long
def test_every_pattern_of_dropouts_gives_the_plain_sum_or_a_typed_failure(n, bits):
    """Each client may fall silent at each of the six stages or never: 7^n patterns."""
    for pattern in product(range(7), repeat=n):
        check_pattern(pattern, bits)


@pytest.mark.long
def test_every_pattern_of_four_clients_up_to_their_order():
    """Who is who matters only for signs, which the test of three covers: here, how many fall silent when."""
    for pattern in combinations_with_replacement(range(7), 4):
        check_pattern(pattern)


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 5])
def test_every_single_pattern_of_four_and_five_clients(n):
    for pattern in product(range(7), repeat=n):
        check_pattern(pattern)


@pytest.mark.long
@given(st.data())
@settings(max_examples=15)
def test_sampled_dropouts_on_larger_graphs(data):
    n = data.draw(st.integers(6, 10))
    k = data.draw(st.sampled_from([*range(4, n - 1, 2), n - 1]))
    seed = data.draw(st.integers(0, 99))
    bits = data.draw(st.sampled_from([32, 64]))
    play = Play(n, neighbours=k, ring_bits=bits, seed=seed, graph_seed=bytes([seed]) * 32)
    lost = data.draw(st.dictionaries(st.sampled_from(play.roster), st.integers(0, 5), max_size=n // 2))
    play.tap = losing(lost)
    end = play.run()
    assert not play.network.faults
    if isinstance(end, NoSum):
        assert lost
        assert end.have < end.need
    else:
        assert play.right()
        assert set(end.clients) >= {i for i in play.roster if i not in lost} - {
            i for i in play.roster if sum(lost.get(j, 9) > 2 for j in play.plan.graph.neighbours(i)) < play.terms.threshold
        }
        assert not set(end.clients) & {i for i, stage in lost.items() if stage < 4}


@given(st.data())
@settings(max_examples=15)
def test_lost_repeated_and_late_frames_never_corrupt_a_sum(data):
    """Any fate of any frame, of either direction: the end is the right sum of whom it names, or a failure."""
    fates = data.draw(st.lists(st.sampled_from(["pass"] * 12 + ["drop", "replay", "late"]), min_size=60, max_size=60))

    def tap(frame):
        fate = fates[frame.number] if frame.number < len(fates) else "pass"
        return {"pass": [frame], "drop": [], "replay": [frame, frame], "late": [replace(frame, late=True)]}[fate]

    play = Play(6, tap)
    end = play.run()
    assert isinstance(end, NoSum) or play.right()
    assert all(isinstance(party.state, Idle) for party in play.parties.values())


@pytest.mark.long
@pytest.mark.parametrize("stage", range(6))
def test_dropouts_at_every_stage_are_survived_down_to_the_threshold_and_no_further(stage):
    """Seven clients, t = 4: a secret needs four of the other six, so five must answer to the end and four are too few."""
    for lost in range(7):
        play = Play(7, losing(dict.fromkeys((1, 5, 7, 9, 11, 13)[:lost], stage)))
        end = play.run()
        if lost <= 2:
            assert play.right()
            assert len(end.clients) == (7 if stage > 3 else 7 - lost)
        else:
            assert isinstance(end, NoSum)
            assert end.stage == ("advertise", "share", "accept", "mask", "agree", "unmask")[stage]
            assert end.have < end.need


def test_a_session_under_its_own_threshold_fails_and_says_where_and_by_how_many():
    end = Play(7, losing({1: 3, 3: 3}), threshold=6).run()
    assert (end.stage, end.have, end.need, end.client, end.blame) == ("mask", 5, 6, None, ())


def test_the_total_is_the_sum_of_any_inputs_of_the_ring_and_wraps_only_when_terms_allow_it():
    extremes = {i: np.array([0, 2**8 - 1, 1], np.uint32) * np.uint32(16) for i in (1, 3, 5, 7)}
    play = Play(4, vectors=extremes, length=3)
    assert play.run().total.tolist() == [0, 4 * 16 * 255, 64]


def test_clusters_have_a_session_each_and_do_not_touch():
    """Several sums at once over one network: one session per cluster."""
    whole = Play(4)
    parts = []
    for name, roster in (("a", (1, 3)), ("b", (5, 7))):
        session = replace(whole.session, cluster=name, roster=roster)
        parts.append(Plan.of(session, terms(2), whole.charter))
    servers = {plan.session.digest: Party(SERVER, Advertising(plan), server_step) for plan in parts}
    network = InProcess(kinds=MESSAGES, max_bytes=max_bytes(whole.terms))
    opening = [(SERVER, send) for plan in parts for send in propose(plan)]
    network.run(
        whole.parties, servers, opening, lambda tasks: ((i, Worked(whole.vectors[i], 0)) for i, _ in tasks), lambda *_: None
    )
    ends = [server.state for server in servers.values()]
    assert [(end.clients, end.total.tolist()) for end in ends] == [(c, whole.plain(c)) for c in ((1, 3), (5, 7))]
    assert not network.faults


# --- what the server sees --------------------------------------------------------------------------------------------------


def inputs_seen(play):
    seen = {}
    for frame in play.network.frames:
        if frame.kind == "MaskedInput":
            data = decode(frame.data, frame.sender, 1 << 30).message.vector
            seen[frame.sender] = np.frombuffer(data, "<u4" if play.terms.ring_bits == 32 else "<u8")
    return seen


def chi_square(data, cells=256):
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=cells)
    mean = counts.sum() / cells
    return float(((counts - mean) ** 2).sum() / mean)


@pytest.mark.parametrize("bits", [32, 64])
def test_masked_inputs_are_uniform_also_jointly_up_to_their_sum(bits):
    """Bytes of each input, of pairs' differences and of all but one of the sum: chi-square with 255 degrees of freedom.

    The inputs are constant, so without masks every one of these figures is huge.
    """
    dtype = np.uint32 if bits == 32 else np.uint64
    play = Play(4, ring_bits=bits, length=16384, record=True, vectors={i: np.full(16384, 7, dtype) for i in (1, 3, 5, 7)})
    play.run()
    seen = inputs_seen(play)
    low, high = 160.0, 370.0  # both tails of chi-square with 255 degrees of freedom below 1e-5
    views = [*seen.values(), seen[1] - seen[3], seen[1] + seen[3], seen[1] + seen[3] + seen[5], sum(seen.values())]
    assert all(low < chi_square(view.tobytes()) < high for view in views)  # even the sum: self masks are still on it
    assert chi_square(play.vectors[1].tobytes()) > 1e4


def test_different_inputs_with_the_same_sum_give_frames_that_differ_in_the_inputs_alone():
    """What the server sees of two runs with the same secrets: all but the masked inputs is equal, byte by byte; and those

    are as far apart as the inputs are, so that one pair of runs under fresh secrets cannot be told from the other.
    """
    one = {i: np.array([i, 2, 3], np.uint32) for i in (1, 3, 5)}
    other = {1: one[3], 3: one[5], 5: one[1]}
    runs = [Play(3, losing({}), length=3, vectors=v, record=True) for v in (one, other)]
    ends = [play.run() for play in runs]
    assert ends[0].total.tolist() == ends[1].total.tolist()
    frames = [play.network.frames for play in runs]
    assert len(frames[0]) == len(frames[1])
    for a, b in zip(*frames, strict=True):
        assert (a.kind, a.sender, a.receiver, len(a.data)) == (b.kind, b.sender, b.receiver, len(b.data))
        assert a.kind == "MaskedInput" or a.data == b.data
    seen = [inputs_seen(play) for play in runs]
    for i in (1, 3, 5):
        assert ((seen[0][i] - one[i]) == (seen[1][i] - other[i])).all()  # the masks, which do not depend on the inputs


def test_over_fresh_secrets_one_masked_word_is_uniform_whatever_the_input():
    """A word of client 1's masked input over 20 sessions of 30 words, least and largest inputs: top 3 bits, 7 degrees."""
    for value in (0, 16 * 255):
        tops = []
        for seed in range(20):
            vectors = {i: np.full(30, value, np.uint32) for i in (1, 3)}
            play = Play(2, seed=seed, length=30, vectors=vectors, record=True)
            play.run()
            tops += (inputs_seen(play)[1] >> 29).tolist()
        counts = np.bincount(tops, minlength=8)
        assert ((counts - 75) ** 2).sum() / 75 < 40.5  # P = 1e-6


# --- roles and messages -----------------------------------------------------------------------------------------------------


def test_a_round_is_stored_before_anything_is_sent_and_is_dead_after_a_restart():
    play = Play(3)
    party = play.parties[1]
    proposal = Received(propose(play.plan)[0].envelope)
    fresh = party.state
    effects = party.handle(proposal)
    assert [type(effect) for effect in effects] == [Persist, Send]
    key, value = effects[0].key, effects[0].value
    restarted = replace(fresh, next_round=joined_before({key: value}))
    with pytest.raises(ProtocolError, match="already taken"):
        client_step(restarted, proposal)
    with pytest.raises(ProtocolError, match="out of place"):
        client_step(party.state, proposal)
    assert party.handle(proposal) == ()
    assert isinstance(party.state, Advertised)


def test_illegal_messages_leave_every_state_as_it_was():
    """Every message of a good session is shown to every party in every phase: it is taken in one place only, once.

    One that was taken before is a duplicate, and nothing; any other is its sender's fault.
    """
    good = Play(3, record=True)
    good.run()
    everything = [decode(frame.data, frame.sender, 1 << 30) for frame in good.network.frames]
    play = Play(3)
    server = Party(SERVER, Advertising(play.plan), server_step)
    taken = 0
    opened = {"Proposal"}
    for number, envelope in enumerate(everything):
        kind = type(envelope.message).__name__
        if envelope.sender == SERVER and kind not in opened:
            opened.add(kind)
            server.handle(Deadline())
        party = server if envelope.receiver == SERVER else play.parties[envelope.receiver]
        before = party.state
        for at, wrong in enumerate(everything):
            if at == number or (wrong.receiver, wrong.sender) != (envelope.receiver, envelope.sender):
                continue
            if at < number:
                assert party.handle(Received(wrong)) == ()
            else:
                with pytest.raises(ProtocolError) as failure:
                    party.handle(Received(wrong))
                assert failure.value.blame == wrong.sender
            assert party.state is before
        party.handle(Received(envelope))
        taken += 1
        if kind == "MaskWith":
            party.handle(Worked(play.vectors[party.id], 0))
    server.handle(Deadline())
    assert taken == len(everything) == 36
    assert isinstance(server.state, Unmasked)
    assert server.state.total.tolist() == play.plain(play.roster)


def test_states_forget_what_their_phase_may_not_know():
    from cloister.protocol.masked import client as masked_client
    from cloister.protocol.masked import server as masked_server

    of = {name: {f.name for f in fields(getattr(masked_client, name))} for name in ("Idle", "Masked", "Signed")}
    assert not any("secrets" in names for names in of.values())
    assert not {"held"} & of["Idle"]
    for state in ("Sharing", "Accepting", "Summing", "Agreeing", "Unmasking"):
        assert not {"vectors", "inputs", "received"} & {f.name for f in fields(getattr(masked_server, state))}


def test_secrets_do_not_print():
    play = Play(3, losing({}))
    shown = []

    def tap(frame):
        shown.extend(repr(party.state) for party in play.parties.values())
        return [frame]

    play.tap = tap
    play.run()
    root = play.entropy.secret("masked sum 1 " + play.plan.binding.hex(), 32)
    assert not any(repr(root)[2:-1] in text or "self_seed=" in text or "value=" in text for text in shown)


def test_every_message_of_a_session_has_one_encoding_and_its_schema():
    play = Play(4, losing({3: 3}), record=True)
    play.run()
    seen = set()
    for frame in play.network.frames:
        envelope = decode(frame.data, frame.sender, 1 << 20)
        assert encode(envelope) == frame.data
        seen.add(type(envelope.message))
        for cut in (len(frame.data) - 1, len(frame.data) // 2, 3):
            with pytest.raises(ProtocolError):
                decode(frame.data[:cut], frame.sender, 1 << 20)
    assert seen == set(MESSAGES.values())
    schema = (Path(cloister.protocol.__file__).parent / "wire" / "messages.cddl").read_text()
    rules = re.findall(r"^[a-z-]+ = \[\n  version: 2, [^\n]*, kind: (2\d|3[01]),\n(.*?)^\]", schema, re.M | re.S)
    found = {int(kind): re.findall(r"^  (\w+):", body, re.M) for kind, body in rules}
    assert found == {m.kind: [f.name for f in fields(m)] for m in MESSAGES.values()}


@pytest.mark.long
def test_altered_bytes_never_corrupt_a_sum():
    """One byte of each frame of a session of three is changed, at five places: no crash, and no wrong sum but the liar's own.

    An altered masked input is the one thing that nobody can notice: it changes the sum, as a client that lies does.
    """
    clean = Play(3, record=True)
    clean.run()
    for victim in clean.network.frames:
        for part in (40, len(victim.data) // 2, len(victim.data) - 70, len(victim.data) - 1):

            def tap(frame, victim=victim, at=part % len(victim.data)):
                if frame.number != victim.number:
                    return [frame]
                return [replace(frame, data=frame.data[:at] + bytes([frame.data[at] ^ 0x41]) + frame.data[at + 1 :])]

            play = Play(3, tap)
            end = play.run()
            assert isinstance(end, NoSum) or play.right() or victim.kind == "MaskedInput"


def test_inputs_that_could_wrap_around_are_refused_by_their_own_client():
    for vector, reason in [
        (np.full(5, 16 * 255 + 1, np.uint32), "cannot wrap around"),
        (np.full(4, 1, np.uint32), "a vector of 5 uint32"),
        (np.full(5, 1, np.uint64), "a vector of 5 uint32"),
        (np.full(5, 1, np.float32), "a vector of 5 uint32"),
    ]:
        play = Play(3)
        play.vectors[3] = vector
        with pytest.raises(ValueError, match=reason):
            play.run()


def test_a_policy_that_would_open_single_inputs_cannot_be_written():
    from cloister.protocol.masked.sum import SumPolicy

    for floor in ({"min_cohort": 1}, {"min_survivors": 1}):
        with pytest.raises(ValueError, match="a sum of one client is its input"):
            SumPolicy(**floor)
    assert LOOSE.problems(Play(2).session, terms(2)) == ()


@pytest.mark.parametrize("waiting", [1, 40, 10**9])
def test_the_sum_is_the_same_however_many_inputs_are_added_at_once(monkeypatch, waiting):
    monkeypatch.setattr(server_opening, "WAITING_BYTES", waiting)
    held = []
    add = server_opening.add
    monkeypatch.setattr(server, "add", lambda *given: held.append(add(*given)) or held[-1])
    play = Play(7)
    play.run()
    assert play.right()
    sizes = [len(state.waiting) * state.plan.terms.input_bytes for state in held]
    assert len(sizes) == 7
    assert max(sizes) < waiting
    assert (max(sizes) > 0) == (waiting > 20)
