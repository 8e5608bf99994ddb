"""Encrypted sums: the sum of the survivors or a stated end, under every pattern of dropouts; and servers that cheat."""

import struct
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from cloister.crypto.ckks import PRODUCTS, SUMS, EncryptingContext
from cloister.crypto.projection import TwoStage
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.roles import Deadline, Received, Worked
from cloister.protocol.encrypted import client as encrypted_client
from cloister.protocol.encrypted.client import client_step
from cloister.protocol.encrypted.client_phases import MOST_SPENT, EncryptionPolicy, IdleEncryptor, joined
from cloister.protocol.encrypted.keys import Keyed, KeyName, Shortfall, hash_of, offer, opened_secret, tag_of
from cloister.protocol.encrypted.messages import (
    EncryptedInput,
    EncryptedSum,
    EncryptedSumRequest,
    KeyRequest,
    OpenSlots,
    SumOpened,
)
from cloister.protocol.encrypted.scaling import SCALE, Weighting, mean_error, sum_tolerance
from cloister.protocol.encrypted.slots import PROTOCOL as SLOTS
from cloister.protocol.encrypted.sum import AddingSummands, MeanOpened, server_step
from cloister.protocol.messages import decode
from cloister.protocol.wire.codec import Envelope

from .encrypted_session import RUN, SEED, D, Play, another_key, changing, losing, made_once, secrets_in

NAMES = {"sums": KeyName(RUN, "sums", 0, "root")}


@pytest.fixture(autouse=True)
def few_keys(monkeypatch):
    monkeypatch.setattr(encrypted_client.SecretContext, "generate", made_once)


def check(play, end, weights, times_samples=False):
    """Who opened the sum holds the weighted mean of exactly the clients that it names, within the stated bounds."""
    of = {i: weights[i] * (play.samples[i] if times_samples else 1) for i in end.clients}
    total = sum(of.values())
    unit = max(abs(a) for a in weights.values())
    assert end.weight == pytest.approx(total, rel=1e-6)
    mean = sum(a * play.vectors[i].astype(np.float64) for i, a in of.items()) / total
    size = sum(abs(a) for a in of.values())
    relative = sum_tolerance(D) * sum(abs(a) * np.linalg.norm(play.vectors[i]) for i, a in of.items()) / abs(total)
    bound = relative + mean_error(D, len(of), size / unit, abs(total) / unit) + 2.0**-23 * np.linalg.norm(mean)
    assert bound < 1e-5
    for client in end.opened:
        (found,) = play.learned[client]
        assert np.linalg.norm(found - mean) <= bound


# --- the ideal functionality ----------------------------------------------------------------------------------------------


FATES = set(product([None, "OfferedKey", "EncryptedInput"], repeat=3)) | set(product([None, "SumOpened"], repeat=3))


@pytest.mark.parametrize("fates", sorted(FATES, key=str), ids=str)
@pytest.mark.long
def test_every_pattern_of_dropouts_among_three_ends_in_the_sum_of_the_survivors_or_in_a_stated_end(fates):
    play = Play(3, losing(dict(zip((1, 3, 5), fates, strict=True))))
    end = play.sum()
    makers = [i for i, fate in zip((1, 3, 5), fates, strict=True) if fate != "OfferedKey"]
    silent = {i for i, fate in zip((1, 3, 5), fates, strict=True) if fate == "EncryptedInput"}
    silent |= {i for i, fate in zip((1, 3, 5), fates, strict=True) if fate == "OfferedKey" and i < min(makers, default=9)}
    alive = tuple(i for i in (1, 3, 5) if i not in silent)
    reports = [i for i in alive if fates[(1, 3, 5).index(i)] != "SumOpened"]
    if not makers:
        assert (end.stage, end.have) == ("key", 0)
    elif len(alive) < 2:
        assert end == Shortfall(end.session, "add", len(alive), 2)
    elif len(reports) < 2:  # as many have to open it as a sum has clients
        assert (end.stage, end.have) == ("open", len(reports))
    else:
        assert isinstance(end, MeanOpened)
        assert (end.clients, end.opened, end.blame) == (alive, tuple(reports), ())
        check(play, end, dict.fromkeys(play.roster, 1.0))
        assert all(len(heard) == 1 for heard in play.learned.values())  # members hear it, whether or not they gave anything
    assert not play.network.faults


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_sampled_dropouts_of_eight_with_weights_and_samples(seed):
    rng = np.random.default_rng(seed)
    kinds = rng.choice([None, None, None, "OfferedKey", "EncryptedInput", "SumOpened"], size=8)
    play = Play(8, losing(dict(zip(range(1, 16, 2), kinds, strict=True))), seed=seed, cohort=3)
    weights = {i: float(w) for i, w in zip(play.roster, rng.uniform(0.5, 3, 8) * 10.0 ** rng.integers(-3, 4), strict=True)}
    end = play.sum(weights, times_samples=bool(seed % 2), threshold=3)
    if isinstance(end, MeanOpened):
        check(play, end, weights, bool(seed % 2))
    else:
        assert end.have < end.need
    assert not play.network.faults


def test_negative_weights_and_a_member_that_gave_nothing():
    play = Play(4)
    play.samples = dict.fromkeys(play.roster, 1)
    weights = {1: 2.0, 3: -1.0, 5: 0.5, 7: 1.0}
    end = play.sum(weights, members=(1, 7))
    check(play, end, weights)
    assert end.opened == (1, 7)
    assert not play.learned[3]


def test_weights_that_add_up_to_nothing_are_opened_by_nobody():
    play = Play(3)
    end = play.sum({1: 1.0, 3: 1.0, 5: -2.0})
    assert (end.stage, end.have, end.need) == ("open", 0, 2)
    assert "total weight is 0" in play.reasons()


def test_late_and_repeated_frames_change_nothing():
    play = Play(3, lambda f: [replace(f, late=True)] if f.kind == "EncryptedInput" and f.sender == 3 else [f, f])
    end = play.sum()
    assert end.clients == (1, 5)
    check(play, end, dict.fromkeys(play.roster, 1.0))
    assert play.network.faults


# --- keys -----------------------------------------------------------------------------------------------------------------


def test_the_next_client_makes_the_key_where_the_first_is_lost():
    keyed = Play(4, losing({1: "OfferedKey", 3: "OfferedKey"})).key("sums")
    assert isinstance(keyed, Keyed)
    assert keyed.key.holder == 5
    lost = Play(4, lambda f: [] if f.kind == "OfferedKey" else [f]).key("sums")
    assert (lost.stage, lost.have, lost.need) == ("key", 0, 1)


def test_no_state_of_the_server_ever_holds_a_secret_key():
    play = Play(3)
    end = play.sum()
    assert isinstance(end, MeanOpened)
    assert not secrets_in(play.held)
    total = sent_by(play, SERVER, "EncryptedSum").ciphertexts
    assert secrets_in([made_once(SUMS)])  # the search finds one, and what is linked to one
    assert secrets_in([made_once(SUMS).read(total, D + 2)])
    assert not secrets_in([made_once(SUMS).public().read(total, D + 2)])
    assert not secrets_in([decode(f.data, f.sender, 1 << 27).message for f in play.network.frames])
    assert {type(state).__name__ for state in play.held} == {"Keyed", "AddingSummands", "OpeningSum", "MeanOpened"}


def test_the_server_with_the_seed_of_any_client_opens_every_input():
    play = Play(3)
    play.sum()
    frames = {(f.kind, f.sender): decode(f.data, f.sender, 1 << 27).message for f in play.network.frames}
    offered, sent = frames["OfferedKey", 1], frames["EncryptedInput", 5]
    secret = opened_secret(SEED, NAMES["sums"], 1, hash_of(offered.encrypting), offered.sealed)
    values = secret.decrypt(secret.read(sent.ciphertexts, D + 2)).rounded(8)
    assert np.abs(values[:D] / SCALE - play.vectors[5]).max() < 1e-9
    with pytest.raises(ProtocolError, match="does not open"):  # and without a seed it does not
        opened_secret(bytes(32), NAMES["sums"], 1, hash_of(offered.encrypting), offered.sealed)


def test_a_server_cannot_have_clients_encrypt_under_its_own_key():
    own = another_key()

    def swap(message, frame):
        return replace(message, encrypting=own.encrypting_bytes())

    play = Play(3, changing("EncryptedSumRequest", swap))
    assert play.sum().stage == "add"
    assert "no client made" in play.reasons()
    assert play.blamed() == {SERVER}
    forged = EncryptingContext.from_bytes(own.encrypting_bytes(), SUMS)  # what the tag prevents
    weighting = Weighting(dict.fromkeys(play.roster, 1.0), False)
    sent = forged.encrypt(weighting.summand(1, play.vectors[1], 1)).to_bytes()
    stolen = own.decrypt(own.read(sent, D + 2)).rounded(8)
    assert np.abs(stolen[:D] / SCALE - play.vectors[1]).max() < 1e-9


@pytest.mark.parametrize(
    "change",
    [
        lambda m, _: replace(m, tag=bytes(32)),
        lambda m, _: replace(m, holder=3),
        lambda m, _: replace(m, tag=tag_of(bytes(32), NAMES["sums"].context(1, hash_of(m.encrypting)))),
        lambda m, _: replace(m, tag=tag_of(SEED, KeyName(RUN, "sums", 1, "root").context(1, hash_of(m.encrypting)))),
        lambda m, _: replace(m, tag=tag_of(SEED, KeyName(RUN, "products", 0, "root").context(1, hash_of(m.encrypting)))),
    ],
)
def test_keys_of_others_of_other_sessions_and_purposes_are_refused(change):
    play = Play(3, changing("EncryptedSumRequest", change))
    assert play.sum().stage == "add"
    assert play.blamed() == {SERVER}
    assert not any(f.kind == "EncryptedInput" for f in play.network.frames)


def test_offers_that_are_not_what_they_should_be_are_refused_with_blame_and_the_next_client_is_asked():
    secret = made_once(SUMS)
    changes = [
        lambda m, f: (
            replace(m, encrypting=secret.secret_bytes()) if len(secret.secret_bytes()) <= 409_600 else replace(m, encrypting=b"x")
        ),
        lambda m, f: replace(m, encrypting=b"no key"),
        lambda m, f: replace(m, evaluating=b"something"),
        lambda m, f: replace(m, encrypting=made_once(PRODUCTS).encrypting_bytes()),
    ]
    for change in changes:
        play = Play(3, changing("OfferedKey", lambda m, f, change=change: change(m, f) if f.sender == 1 else m))
        assert play.key("sums").key.holder == 3
        assert play.blamed() == {1}


def test_a_key_seals_once_and_only_for_its_name():
    name, secret = NAMES["sums"], made_once(SUMS)
    one, other = offer(SEED, name, 1, secret), offer(SEED, name, 1, secret)
    assert hash_of(one.encrypting) != hash_of(other.encrypting)  # another error, so another public key and another seal
    assert one.tag != other.tag
    assert one.sealed[:64] != other.sealed[:64]
    public = hash_of(one.encrypting)
    opened_secret(SEED, name, 1, public, one.sealed)
    for wrong in ((name, 2, public), (replace(name, round=1), 1, public), (name, 1, bytes(32))):
        with pytest.raises(ProtocolError, match="does not open"):
            opened_secret(SEED, *wrong, one.sealed)
    third = offer(SEED, name, 1, another_key())
    assert third.sealed[:64] != one.sealed[:64]


# --- servers that cheat, and clients that do ------------------------------------------------------------------------------


def sent_by(play, sender, kind):
    return next(decode(f.data, f.sender, 1 << 27).message for f in play.network.frames if (f.sender, f.kind) == (sender, kind))


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m, one: replace(m, ciphertexts=one), "a sum of other clients than the 3"),
        (lambda m, one: replace(m, alive=(1,)), "too few"),
        (lambda m, one: replace(m, alive=(1, 3)), "a sum of other clients than the 2"),
        (lambda m, one: replace(m, alive=(1, 3, 9)), "not on the roster"),
        (lambda m, one: replace(m, weights=struct.pack(">3d", 1.0, 1.0, 2.0)), "other weights"),
        (lambda m, one: replace(m, weights=struct.pack(">3d", 1.0, 0.0, 2.0)), "cannot be"),
        (lambda m, one: replace(m, sealed=m.sealed[:-1] + bytes([m.sealed[-1] ^ 1])), "does not open"),
        (lambda m, one: replace(m, ciphertexts=m.ciphertexts[:-1]), "wrong length"),
        (lambda m, one: replace(m, length=D + 1), "coordinates where 40 belong"),
        (lambda m, one: replace(m, threshold=1), "another session's digest"),
        (lambda m, one: [m, replace(m, alive=(1, 3))], "already answered"),
    ],
)
def test_sums_that_are_not_what_was_agreed_on_are_not_opened(change, reason):
    seen = []

    def keep(frame):
        if frame.kind == "EncryptedInput" and frame.sender == 1:
            seen.append(decode(frame.data, 1, 1 << 27).message.ciphertexts)
        return changing("EncryptedSum", lambda m, f: change(m, seen[0]))(frame)

    play = Play(3, keep)
    end = play.sum()
    assert reason in play.reasons()
    assert play.blamed() == {SERVER}
    if "already" not in reason:
        assert end.stage == "open"
        assert not any(play.learned.values())


def test_policies_bind_the_server():
    for options, reason in (
        ({"cohort": 4}, "a cohort under the policy's 4"),
        ({"cohort": 3}, "a threshold under the policy's 3"),
    ):
        play = Play(3, **options)
        assert play.sum(threshold=2).stage == "add"
        assert reason in play.reasons()
        assert play.blamed() == {SERVER}


@pytest.mark.long
def test_no_session_and_no_earlier_round_is_answered_twice():
    play = Play(3)
    assert isinstance(play.sum(round=4), MeanOpened)
    again = play.sum(round=4)
    assert again.stage == "add"
    assert "already answered" in play.reasons()
    before = list(play.network.faults)
    assert play.sum(round=3).stage == "key"
    assert play.network.faults == before, "what is old is nobody's fault"
    play.learned = {i: [] for i in play.roster}
    assert isinstance(play.sum(round=4, name="other"), MeanOpened)
    assert isinstance(play.sum(round=5), MeanOpened)
    stored = {key for (party, key) in play.network.persisted if party == 1}
    assert len(stored) == 3 * 3  # key, input and sum of three sessions, each stored before it was answered
    spent = frozenset(("EncryptedSumRequest", n.to_bytes(32, "big")) for n in range(MOST_SPENT))
    play.parties[1].state = replace(play.parties[1].state, spent=spent)
    assert play.key("sums", "more", 5).key.holder == 3
    assert "more sessions than one round has" in play.reasons()


@pytest.mark.long
def test_what_a_client_may_not_send_the_server_refuses_with_blame():
    play = Play(3)
    plan = play.plan(play.key("sums").key)
    secret = made_once(SUMS)
    good = secret.public().encrypt(np.ones(D + 2)).to_bytes()
    state, _ = server_step(AddingSummands(plan), Received(Envelope(plan.session.digest, 1, SERVER, EncryptedInput(good))))
    for sender, data, reason in (
        (1, good, "a second time"),
        (9, good, "outside the roster"),
        (3, good[:-1], "cannot be used"),
        (3, secret.public().encrypt(np.ones(D + 1)).to_bytes(), "cannot be used"),
        (3, made_once(PRODUCTS).public().encrypt(np.ones(D + 2)).to_bytes(), "cannot be used"),
    ):
        with pytest.raises(ProtocolError, match=reason) as failure:
            server_step(state, Received(Envelope(plan.session.digest, sender, SERVER, EncryptedInput(data))))
        assert failure.value.blame == sender
    with pytest.raises(ProtocolError, match="out of place"):
        server_step(state, Received(Envelope(plan.session.digest, 3, SERVER, SumOpened(bytes(8)))))
    state, _ = server_step(state, Received(Envelope(plan.session.digest, 3, SERVER, EncryptedInput(good))))
    state, effects = server_step(state, Deadline())
    assert len(effects) == 4
    with pytest.raises(ProtocolError, match="not finite"):
        server_step(state, Received(Envelope(plan.session.digest, 3, SERVER, SumOpened(struct.pack(">d", float("nan"))))))
    with pytest.raises(ProtocolError, match="not asked"):
        server_step(state, Received(Envelope(plan.session.digest, 8, SERVER, SumOpened(bytes(8)))))


def test_a_member_that_reports_another_weight_is_outvoted_and_blamed():
    play = Play(3, changing("SumOpened", lambda m, f: SumOpened(struct.pack(">d", 7.0)) if f.sender == 1 else m))
    end = play.sum(times_samples=True)
    assert end.blame == (1,)
    check(play, end, dict.fromkeys(play.roster, 1.0), times_samples=True)


def test_messages_out_of_place_leave_a_client_as_it_was():
    play = Play(3)
    party = play.parties[1]
    idle = party.state
    stranger = Envelope(bytes(32), 5, 1, KeyRequest("encrypted key/sums", RUN, 0, "root", (1, 3, 5), 1))
    for message, blame in (
        (stranger, 5),
        (replace(stranger, sender=SERVER), SERVER),
        (replace(stranger, sender=SERVER, message=SumOpened(bytes(8))), SERVER),
    ):
        with pytest.raises(ProtocolError) as failure:
            party.handle(Received(message))
        assert failure.value.blame == blame
        assert party.state is idle
    with pytest.raises(ValueError, match="out of place"):
        party.handle(Worked(play.vectors[1], 1))
    assert party.handle(Deadline()) == ()


def test_a_client_keeps_nothing_of_a_session():
    play = Play(3)
    play.sum()
    for party in play.parties.values():
        assert not secrets_in(party.state)
        assert party.state.seed not in repr(party.state).encode()
    assert isinstance(play.sketch(b""), TwoStage)
    assert isinstance(sent_by(play, SERVER, "EncryptedSum"), EncryptedSum)
    assert isinstance(sent_by(play, SERVER, "EncryptedSumRequest"), EncryptedSumRequest)


def asked_to_open(session, *, samples=0):
    return EncryptedSum(
        *session.fields, bytes(8 * len(session.roster)), samples, D, session.roster, 1, bytes(32), bytes(64), bytes(64)
    )


def idle(**policy):
    return IdleEncryptor(9, RUN, EncryptionPolicy(2, 2, **policy), SEED, None, D)


@pytest.mark.parametrize("change", [{"threshold": 3}, {"roster": (1, 3, 5, 7, 9)}, {"roster": (1, 3)}])
def test_a_sum_of_the_same_name_is_no_other_sum_whatever_its_roster_and_threshold(change):
    """Its key follows from its name: a server had members open what it made of one client's input, again and again."""
    first = Session("encrypted sum", RUN, 0, "root", (1, 3, 5, 7), 2)
    state, _, _ = joined(idle(), first.digest, asked_to_open(first), "encrypted sum", member=False)
    second = replace(first, **change)
    with pytest.raises(ProtocolError, match="already answered"):
        joined(state, second.digest, asked_to_open(second), "encrypted sum", member=False)
    other = replace(first, cluster="other")
    joined(state, other.digest, asked_to_open(other), "encrypted sum", member=False)


@pytest.mark.parametrize("kind", ["request", "counts", "rows"])
def test_an_input_counts_and_rows_of_slots_are_of_one_session_of_a_name(kind):
    first = Session(SLOTS, RUN, 0, "root", (1, 3, 5, 7, 9), 2)

    def asked(session):
        ones = np.ones(len(session.roster)).astype(">f8").tobytes()
        head, key = session.fields, (1, bytes(32), bytes(64))
        return {
            "request": EncryptedSumRequest(*head, ones, 0, D, 1, bytes(64), bytes(32), bytes(64), bytes(32)),
            "counts": EncryptedSum(*head, ones, 0, 2, session.roster, *key, bytes(64)),
            "rows": OpenSlots(*head, session.roster, (0,), 1, *key, bytes(64)),
        }[kind]

    state, _, _ = joined(idle(), first.digest, asked(first), "encrypted sum", member=False)
    second = replace(first, threshold=3)
    with pytest.raises(ProtocolError, match="already answered") as refused:
        joined(state, second.digest, asked(second), "encrypted sum", member=False)
    assert refused.value.blame == SERVER
    joined(state, (whole := replace(first, protocol="encrypted sum")).digest, asked(whole), "encrypted sum", member=False)


@pytest.mark.parametrize("count", [1, 3, 63])
def test_counts_are_of_as_many_slots_as_the_client_gave_an_input_for(count):
    session = Session(SLOTS, RUN, 0, "root", (1, 3, 5, 7, 9), 2)
    ones = np.ones(5).astype(">f8").tobytes()
    gave = EncryptedSumRequest(*session.fields, ones, 0, D, 1, bytes(64), bytes(32), bytes(64), bytes(32))
    state, _, _ = joined(idle(), session.digest, gave, "encrypted sum")
    state = replace(state, slots=state.slots_of(2, 1))
    counts = EncryptedSum(*session.fields, ones, 0, count, session.roster, 1, bytes(32), bytes(64), bytes(64))
    with pytest.raises(ProtocolError, match=f"counts of {count} slots where 2 belong"):
        client_step(state, Received(Envelope(session.digest, SERVER, 9, counts)))


def test_a_session_of_clients_that_are_not_in_the_run_is_refused():
    session = Session("encrypted sum", RUN, 0, "root", (1, 3, 5, 1000), 2)
    with pytest.raises(ProtocolError, match="not in the run"):
        joined(idle(clients=frozenset({1, 3, 5, 7, 9})), session.digest, asked_to_open(session), "encrypted sum", member=False)


def test_a_client_of_a_run_answers_no_sum_that_counts_samples():
    """The total weight that it told was a coordinate of another's update, where the server had multiplied that."""
    session = Session("encrypted sum", RUN, 0, "root", (1, 3, 5, 7), 2)
    with pytest.raises(ProtocolError, match="counts samples"):
        client_step(idle(), Received(Envelope(session.digest, SERVER, 9, asked_to_open(session, samples=1))))
