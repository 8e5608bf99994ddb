"""Broken messages at live roles of the masked sum, in every phase: only ProtocolError, and the state before stays good."""

import random
import runpy
from dataclasses import replace
from pathlib import Path

import cbor2
import pytest

from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.roles import Received
from cloister.protocol.masked.client import client_step
from cloister.protocol.masked.server import NoSum, server_step
from cloister.protocol.messages import decode
from cloister.protocol.wire.codec import encode

from .masked_sum_session import Play
from .test_fuzz_messages import mutate

pytestmark = pytest.mark.sweeps

MAKE = runpy.run_path(str(Path(__file__).parent / "make_masked_vectors.py"))
FRAMES, LIMIT = MAKE["FRAMES"], MAKE["LIMIT"]


def situations():
    """For each frame of a good session: its receiver's state before it, the receiver's step, and the frame."""
    found = []
    for number, frame in enumerate(FRAMES):
        server, parties = MAKE["before"](number)
        party = server if frame.receiver == SERVER else parties[frame.receiver]
        found.append((party.state, server_step if frame.receiver == SERVER else client_step, frame))
    return found


SITUATIONS = situations()


def other(value, rng):
    """A value of the same type that is not far off: flipped, cut, longer, repeated, in another order."""
    match value:
        case int():
            return rng.choice((0, 1, value + 1, max(value - 1, 0), value ^ 1 << rng.randrange(40), -1))
        case bytes() if value:
            at = rng.randrange(len(value))
            flip = value[:at] + bytes([value[at] ^ 1 << rng.randrange(8)]) + value[at + 1 :]
            return rng.choice((flip, flip, flip, bytes(len(value)), value[:at], value + value[:at]))
        case str():
            return rng.choice((value[:-1], value + "x", value.replace("/", "")))
        case list() if value:
            at = rng.randrange(len(value))
            changed = [*value[:at], other(value[at], rng), *value[at + 1 :]]
            return rng.choice(
                (changed, changed, value[:at] + value[at + 1 :], value[::-1], [*value, value[at]], sorted(changed, key=repr))
            )
    return b"" if isinstance(value, list) else [value]


def change_fields(data, rng):
    """One or two fields changed, and the whole encoded as it must be: what gets past the decoder more often."""
    items = cbor2.loads(data)
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(5, len(items)) if rng.random() < 0.95 else rng.randrange(5)
        theirs = cbor2.loads(rng.choice(FRAMES).data)
        items[at] = theirs[at] if at < len(theirs) and rng.random() < 0.2 else other(items[at], rng)
    return cbor2.dumps(items, canonical=True)


def attack(rng):
    """One broken message at one state. Returns whether it was decoded, and whether it was taken."""
    state, step, frame = rng.choice(SITUATIONS)
    source = frame
    if rng.random() < 0.2:  # of another phase, the same link
        source = rng.choice([f for f in FRAMES if (f.sender, f.receiver) == (frame.sender, frame.receiver)])
    data = change_fields(source.data, rng) if rng.random() < 0.8 else mutate(source.data, rng)
    try:
        envelope = decode(data, frame.sender, LIMIT)
        if (envelope.sender, envelope.receiver) != (frame.sender, frame.receiver):  # the driver's check
            return False, False
    except ProtocolError as error:
        if error.blame != frame.sender:
            raise AssertionError("the wrong party is blamed") from None
        return False, False
    try:
        step(state, Received(envelope))
    except ProtocolError as error:
        if "\n" in error.reason or len(error.reason) > 250 or error.blame not in (frame.sender, *MAKE["ROSTER"]):
            raise AssertionError(f"not a good refusal: {error}") from None
        return True, False
    return True, True


def check_states():
    """Every state still takes its good message, with the effects that it has in a session nobody disturbs."""
    answers = {(f.kind, f.sender): f.data for f in FRAMES if f.receiver == SERVER}
    for state, step, frame in SITUATIONS:
        after, effects = step(state, Received(decode(frame.data, frame.sender, LIMIT)))
        assert after is not state
        for effect in effects:
            if hasattr(effect, "envelope"):
                assert encode(effect.envelope) == answers[type(effect.envelope.message).__name__, frame.receiver]


def play(count, seed):
    rng = random.Random(seed)
    tries = [attack(rng) for _ in range(count)]
    check_states()
    return sum(decoded for decoded, _ in tries), sum(taken for _, taken in tries)


def test_every_phase_and_message_is_there():
    assert {type(state).__name__ for state, _, _ in SITUATIONS} == {
        *("Idle", "Advertised", "Shared", "Checked", "Masked", "Signed"),
        *("Advertising", "Sharing", "Accepting", "Summing", "Agreeing", "Unmasking"),
    }
    assert len({frame.kind for _, _, frame in SITUATIONS}) == 12


@pytest.mark.parametrize("seed", range(4))
def test_broken_messages_at_live_roles(seed):
    decoded, taken = play(4_000, seed)
    assert decoded > 800  # most of what gets to a role is refused there
    assert 0 < taken < decoded / 2  # another input, another seal that will not open, other good shares: nobody can tell yet


@pytest.mark.parametrize("seed", range(12))
def test_sessions_under_fire_end_with_the_right_sum_or_fail(seed):
    """Every sixth frame is broken, inputs excepted: a changed input is a client's lie that nobody can notice."""
    rng = random.Random(seed)

    def tap(frame):
        if frame.kind == "MaskedInput" or rng.random() > 1 / 6:
            return [frame]
        return [replace(frame, data=change_fields(frame.data, rng) if rng.random() < 0.8 else mutate(frame.data, rng))]

    session = Play(7, tap, seed=seed)
    end = session.run()
    assert isinstance(end, NoSum) or session.right()


@pytest.mark.slow
def test_two_hundred_thousand_broken_messages_at_live_roles():
    for seed in range(100, 120):
        play(10_000, seed)
