"""Broken messages: whatever arrives, decoding gives an envelope that encodes to the same bytes, or ProtocolError."""

import gc
import random
import tracemalloc

import pytest

from cloister.protocol.choosing.messages import Choice, Offer
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.encrypted.messages import OpenSlots
from cloister.protocol.masked.messages import (
    Accepted,
    MaskedInput,
    MaskKeys,
    MaskWith,
    NeighbourKeys,
    Proposal,
    RelayedShares,
    Reveal,
    SealedShares,
    Survivors,
    SurvivorSignature,
    UnmaskRequest,
)
from cloister.protocol.messages import decode
from cloister.protocol.pairs.messages import PairClouds, PairDistance, PairEdge, PairKey, PairOffer, SealedCloud, SealedEmbedding
from cloister.protocol.seeding.messages import Advertise, Roster, SealedSeed, SeedQuorum, SeedTag
from cloister.protocol.two_servers.slot_messages import SlotAnswer, SlotQuestion, SlotsAgreed
from cloister.protocol.wire.codec import Envelope, encode
from cloister.protocol.wire.messages import Mean, Task, Upload
from cloister.protocol.wire.scores import Evaluate, Score
from cloister.threat_models.peak_memory import forget_peak, peak_mb

pytestmark = pytest.mark.sweeps

LIMIT = 4096
HEADS = [bytes([major << 5 | short]) for major in range(8) for short in (0, 1, 4, 23, 24, 25, 26, 27, 28, 31)]
PROPOSED = ("masked sum/update", bytes(16), 3, "root", (1, 3, 900), 2)
PAIRED = ("pairs", bytes(16), 3, "3-900", (3, 900), 2)
WORDS = ("clouds", "orthonormal", "exchanged", "train", "projected")
SEEDS = [
    encode(Envelope(bytes(range(32)), sender, receiver, message))
    for sender, receiver, message in [
        (-1, 3, Task("uploads/update", bytes(16), 3, "root", (1, 5, 900), 2, "update", ("init",), bytes(range(16)))),
        (-1, 70_000, Task("uploads/gradient", bytes(16), 2**31 - 1, "0.1", (0,), 1, "gradient", ("root@3",), b"")),
        (3, -1, Upload(bytes(range(40)), 2**40)),
        (-1, 3, Mean("root@3", bytes(range(40)))),
        (3, -1, Advertise(bytes(32), bytes(64))),
        (-1, 3, Roster((1, 3, 900), (bytes(96),) * 3)),
        (3, -1, SealedSeed(4, 3, bytes(32), bytes(64), bytes(32), bytes(48))),
        (3, -1, SeedTag(bytes(32), bytes(64))),
        (-1, 3, SeedQuorum(bytes(32), (1, 3, 900), (bytes(64),) * 3)),
        (-1, 3, Offer("choosing", bytes(16), 3, "choice", (1, 3), 1, ("a", "b"), (bytes(range(16)), bytes(16)))),
        (3, -1, Choice(1)),
        (-1, 3, Proposal(*PROPOSED, 32, 9, 8, bytes(8), 16, 2, 2, bytes(32), bytes(32), bytes(32), bytes(24), 1)),
        (3, -1, MaskKeys(bytes(32), bytes(32), bytes(64))),
        (-1, 3, NeighbourKeys((1,), (bytes(32),), (bytes(32),), (bytes(64),))),
        (3, -1, SealedShares(bytes(68), (bytes(188),), bytes(64))),
        (-1, 3, RelayedShares((5,), (bytes(68),), (bytes(188),))),
        (3, -1, Accepted((1, 900))),
        (-1, 3, MaskWith((1, 900))),
        (3, -1, MaskedInput(bytes(range(36)))),
        (-1, 3, Survivors((1, 3, 900))),
        (3, -1, SurvivorSignature(bytes(64), bytes(32))),
        (-1, 3, UnmaskRequest((900,), (bytes(64),), (bytes(32),))),
        (3, -1, Reveal((1,), (bytes(70),), (900,), (bytes(70),))),
        (-1, 3, PairOffer(*PAIRED, *WORDS, 128, 115, 512, 300, "record", bytes(range(24)))),
        (3, -1, PairKey(bytes(32), bytes(64))),
        (-1, 3, SealedEmbedding((bytes(range(40)), bytes(20)))),
        (3, -1, PairClouds(bytes(range(24)), b"", bytes(8))),
        (3, -1, PairClouds(bytes(range(24)), bytes(range(24)), bytes(8))),
        (-1, 3, PairEdge(1)),
        (3, -1, SealedCloud((bytes(range(17)), bytes(30)))),
        (3, -1, PairDistance(bytes(8), bytes(8))),
        (-2, -1, SlotsAgreed((1, 900), bytes(range(256)) * 2)),
        (-1, -2, SlotQuestion(7, bytes(range(32)), bytes(range(40)), bytes(276), (1, 900))),
        (-2, -1, SlotAnswer(bytes(range(16)), bytes(range(40)))),
        (-1, 3, Evaluate(3, ("root@3", "init"))),
        (3, -1, Score(360, 288, bytes(8), 1)),
        (3, -1, Score(0)),
        (-1, 3, OpenSlots(*PROPOSED, (1, 900), (0, 2, 63), 7, 1, bytes(32), bytes(17), bytes(range(44)))),
    ]
]


def mutate(data, rng):
    """One to four small changes: a flipped bit, a changed head, a cut, an insertion, a copied or foreign piece."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(8):
            case 0 if at < len(data):
                data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
            case 1 if at < len(data):
                data = data[:at] + rng.choice(HEADS) + data[at + 1 :]
            case 2:
                data = data[:at]
            case 3:
                data = data[:at] + rng.randbytes(rng.randint(1, 9)) + data[at:]
            case 4:
                data = data[:at] + rng.choice(HEADS) + rng.randbytes(rng.choice((0, 1, 2, 4, 8))) + data[at:]
            case 5:
                data = data[:at] + data[at + rng.randint(1, 8) :]
            case 6:
                start = rng.randrange(len(data) + 1)
                data = data[:at] + data[start : start + rng.randint(1, 40)] + data[at:]
            case 7:
                other = rng.choice(SEEDS)
                data = data[:at] + other[rng.randrange(len(other)) :]
    return data


def attempt(data):
    """Whether the data decoded. Anything but an envelope or a blamed ProtocolError fails the test."""
    refusal = None
    try:
        envelope = decode(data, 7, LIMIT)
    except ProtocolError as error:
        refusal = error
    if refusal is not None:
        assert refusal.blame == 7
        assert "\n" not in refusal.reason
        assert len(refusal.reason) < 200
        return False
    assert encode(envelope) == data
    return True


def play(count, seed):
    rng = random.Random(seed)
    return sum(attempt(mutate(rng.choice(SEEDS), rng)) for _ in range(count))


@pytest.mark.parametrize("seed", range(5))
def test_mutated_messages_decode_exactly_or_not_at_all(seed):
    passed = play(2_000, seed)
    assert 0 < passed < 1_000  # a flipped bit inside a vector is another valid message; most changes are not


def test_noise_does_not_decode():
    rng = random.Random(5)
    assert not any(attempt(rng.randbytes(rng.randrange(200))) for _ in range(2_000))


@pytest.mark.slow
def test_every_flipped_bit_and_every_head():
    for data in SEEDS:
        for at in range(len(data)):
            for other in (*(bytes([data[at] ^ (1 << bit)]) for bit in range(8)), *HEADS):
                attempt(data[:at] + other + data[at + 1 :])


@pytest.mark.slow
def test_a_million_mutated_messages_in_bounded_memory():
    play(10_000, 0)  # caches fill
    tracemalloc.start()
    start = tracemalloc.get_traced_memory()[0]
    before = peak_mb() if forget_peak() else None
    for seed in range(100):
        play(10_000, seed)
    peak = tracemalloc.get_traced_memory()[1]
    gc.collect()  # refusals carry tracebacks, which are cycles
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert left - start < 1 << 20
    assert peak - start < 16 << 20
    after = peak_mb()
    if before is not None and after is not None:
        assert after - before < 64
