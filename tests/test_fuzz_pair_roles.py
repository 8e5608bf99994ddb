"""Broken messages at live roles of pairs, in every phase: only ProtocolError, states stay good, and no decision is wrong."""

import random
from dataclasses import replace

import cbor2
import pytest

from cloister.protocol import Plain
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Party, Received
from cloister.protocol.messages import MESSAGES, decode
from cloister.protocol.pairs.choices import DISTANCES, ONE_RELEASE, PER_PAIR, PUBLIC
from cloister.protocol.pairs.client import peer_step
from cloister.protocol.pairs.server import Pairing, offer, server_step, tell
from cloister.protocol.wire.codec import encode

from .pairs_sample import all_pairs, ask, expected, opened, two
from .test_fuzz_masked_roles import other
from .test_fuzz_messages import mutate

pytestmark = pytest.mark.sweeps

LIMIT = 1 << 20
HEARD = ("PairClouds", "PairDistance")
"""What a client says about its own data: changed, it is a client's lie that nobody can notice."""


def situations():
    """For each frame of good sessions: its receiver's state before it, the receiver's step, and the frame."""
    found = []
    for choice in (PER_PAIR, PUBLIC, DISTANCES):
        terms, parties, identities = two(choice)
        server = Party(SERVER, Pairing(terms, {i: k.public for i, k in identities.items()}), server_step)

        def tap(frame, server=server, parties=parties):
            party = server if frame.receiver == SERVER else parties[frame.receiver]
            found.append((party.state, server_step if frame.receiver == SERVER else peer_step, frame))
            return [frame]

        network = InProcess(tap, kinds=MESSAGES, max_bytes=LIMIT)
        for opening, sessions in ((offer(terms), {terms.session.digest: server}), (tell(terms, True), {})):
            network.run(parties, sessions, ((SERVER, e) for e in opening), lambda _: iter(()), lambda *_: None)
    return found


SITUATIONS = situations()
FRAMES = [frame for _, _, frame in SITUATIONS]


def change_fields(data, rng):
    """One or two fields changed, and the whole encoded as it must be."""
    items = cbor2.loads(data)
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(5, len(items))
        items[at] = other(items[at], rng)
    return cbor2.dumps(items, canonical=True)


def attack(rng):
    """One broken message at one state: whether it was decoded, and whether it was taken."""
    state, step, frame = rng.choice(SITUATIONS)
    links = [f for f in FRAMES if (f.sender, f.receiver) == (frame.sender, frame.receiver)]
    source = rng.choice(links) if rng.random() < 0.3 else frame
    data = change_fields(source.data, rng) if rng.random() < 0.8 else mutate(source.data, rng)
    try:
        envelope = decode(data, frame.sender, LIMIT)
    except ProtocolError as error:
        return refused(error, (frame.sender,), False)
    if (envelope.sender, envelope.receiver) != (frame.sender, frame.receiver):  # the driver's check
        return False, False
    try:
        step(state, Received(envelope))
    except ProtocolError as error:
        return refused(error, (frame.sender, SERVER, 1, 5), True)
    return True, True


def refused(error, blamed, decoded):
    assert "\n" not in error.reason
    assert len(error.reason) < 250
    assert error.blame in blamed
    return decoded, False


def test_every_phase_and_message_is_there():
    assert {frame.kind for frame in FRAMES} == {
        *("PairOffer", "PairKey", "SealedEmbedding", "SealedCloud", "PairClouds", "PairDistance", "PairEdge")
    }
    phases = {type(p).__name__ for state, step, _ in SITUATIONS if step is peer_step for p in state.phases.values()}
    assert phases == {"AwaitingKey", "Meeting", "Showing", "AwaitingEdge"}


@pytest.mark.parametrize("seed", range(4))
def test_broken_messages_at_live_roles(seed):
    rng = random.Random(seed)
    tries = [attack(rng) for _ in range(3000)]
    decoded, taken = (sum(column) for column in zip(*tries, strict=True))
    assert decoded > 500
    assert 0 < taken < decoded / 2
    for state, step, frame in SITUATIONS:  # every state still takes its good message
        step(state, Received(decode(frame.data, frame.sender, LIMIT)))


@pytest.mark.parametrize("choice", [PER_PAIR, PUBLIC, DISTANCES, ONE_RELEASE], ids=repr)
@pytest.mark.parametrize("seed", range(6))
def test_pairs_under_fire_are_decided_rightly_or_not_at_all(choice, seed):
    """Every eighth frame is broken, answers excepted."""
    rng = random.Random(seed)

    def tap(frame):
        if not frame.kind.startswith(("Pair", "Sealed")) or frame.kind in (*HEARD, "SealedSeed") or rng.random() > 1 / 8:
            return [frame]
        return [replace(frame, data=change_fields(frame.data, rng) if rng.random() < 0.8 else mutate(frame.data, rng))]

    answers = ask(opened(Plain(), tap), choice)
    truth = expected()
    assert all(truth[pair] == value for pair, value in answers.accepts.items())
    assert {tuple(sorted(pair)) for pair in answers.accepts} | set(answers.lost) <= set(all_pairs())


def test_one_encoding_each():
    for frame in FRAMES:
        assert encode(decode(frame.data, frame.sender, LIMIT)) == frame.data
