"""Writes the test vectors of the protocol core: `python tests/make_vectors.py`. Run again, it writes the same bytes.

All secrets come from SimulatedEntropy and the labels named in the files, so anyone can rebuild them. Byte strings are in
hexadecimal, vectors are little-endian float32. Rotations use lengths and values at which float32 is exact.
"""

import json
import runpy
import struct
from dataclasses import fields, replace
from pathlib import Path

import cbor2
import numpy as np

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.fixed_point import FixedPoint, Nearest, Stochastic
from cloister.crypto.orthonormal import HadamardRotation, Permutation, SignedPermutation
from cloister.crypto.prg import derive_key, keystream
from cloister.crypto.ring_projection import RingProjection
from cloister.protocol import Permuted
from cloister.protocol.choosing.messages import Choice, Offer
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.drivers.in_process import InProcess
from cloister.protocol.drivers.roles import Worked
from cloister.protocol.encrypted.client_opening import scores_of
from cloister.protocol.encrypted.keys import KeyName, hash_of, sealed_secret, tag_of
from cloister.protocol.encrypted.messages import (
    EncryptedInput,
    EncryptedSum,
    EncryptedSumRequest,
    KeyRequest,
    OfferedKey,
    OpenSlots,
    RoundedScores,
    ScoreRequest,
    SketchRequest,
    SumOpened,
)
from cloister.protocol.masked.gaussian import PAPER_BETA, DistributedGaussian, reserve
from cloister.protocol.masked.receiver_opened.run import Cast, members_of, receiver_opened
from cloister.protocol.masked.receiver_opened.terms import PROTOCOL as OPENED
from cloister.protocol.masked.receiver_opened.terms import OpeningPolicy, ReceiverSum
from cloister.protocol.masked.slots import COUNTING, SlotLayout, Weighted
from cloister.protocol.masked.sum import Plan, parties_of
from cloister.protocol.masked.terms import SumPolicy
from cloister.protocol.messages import MESSAGES as KINDS
from cloister.protocol.messages import decode
from cloister.protocol.parts.charter import Charter, Numbers
from cloister.protocol.parts.members import Members
from cloister.protocol.privacy.ledger import Ledger
from cloister.protocol.seeding.group_seed import agree, session_of
from cloister.protocol.seeding.messages import Advertise, Roster, SealedSeed, SeedQuorum, SeedTag
from cloister.protocol.two_servers.asking import GramAnswered, SumAnswered
from cloister.protocol.two_servers.questions import sum_question
from cloister.protocol.two_servers.run import client_parties, collect, gram, helper_parties, max_bytes, sums
from cloister.protocol.two_servers.terms import ShareTerms
from cloister.protocol.view.answers import Assignment, Model, Weights
from cloister.protocol.view.protection import Setup
from cloister.protocol.view.work import LocalWork
from cloister.protocol.wire.codec import Envelope, encode
from cloister.protocol.wire.messages import Mean, OffsetSketched, Ready, Task, Upload
from cloister.protocol.wire.scores import Evaluate, Score
from cloister.protocol.work.sketch_keys import RatchetedKeys, SketchSecret, SketchTerms
from cloister.protocol.work.uploads import Policy

FOLDER = Path(__file__).parent / "vectors"
SEED = 2020
ENTROPY = SimulatedEntropy(SEED)
LIMIT = 1 << 20


def floats(values):
    return np.array(values, dtype="<f4").tobytes()


def session_fields(session):
    return {f.name: getattr(session, f.name) for f in fields(session) if f.init}


def keys():
    derived = derive_key(bytes(range(32)), "purpose", b"context")
    return {
        "derive_key": {"secret": bytes(range(32)), "purpose": "purpose", "context": b"context", "key": derived},
        "keystream": {"key": derived, "bytes": keystream(derived, 40)},
        "simulated_entropy": [
            {"seed": SEED, "label": label, "bytes": ENTROPY.secret(label, 32)} for label in ("a", "group seed")
        ],
    }


def transforms():
    key = ENTROPY.secret("transform", 32)
    cases = []
    for transform in (Permutation, SignedPermutation, HadamardRotation):
        for d in (1, 4, 13):
            vector = np.arange(1, d + 1, dtype=np.float32)
            drawn = transform.draw(key, d)
            result = drawn.apply(vector)
            if not np.array_equal(drawn.invert(result), vector):
                raise ValueError(f"{transform.__name__} of {d} coordinates is not exact; choose other values")
            cases.append({"transform": transform.__name__, "d": d, "vector": floats(vector), "transformed": floats(result)})
    return {"seed": SEED, "label": "transform", "key": key, "cases": cases}


def sessions():
    examples = [
        Session("uploads/update", bytes(range(16)), 0, "root", (0, 1, 2), 2),
        Session("uploads/gradient", bytes(16), 2**31 - 1, "0.1", (7,), 1),
        Session("group seed", b"\xff" * 16, 3, "gruppe \u00fc", (1, 23, 24, 255, 256, 65536, 2**31 - 1), 4),
    ]
    return [{**session_fields(s), "digest": s.digest} for s in examples]


SESSION = Session("uploads/update", bytes(range(16)), 3, "root", (1, 5, 900), 2)
CHOOSING = Session("choosing", bytes(range(16)), 3, "choice", (1, 5, 900), 1)
MESSAGES = {
    "task with a model": Task(*session_fields(SESSION).values(), "update", ("init",), floats([1.0, -2.5])),
    "task without": Task(*session_fields(SESSION).values(), "update", ("root@2",), b""),
    "upload": Upload(floats([0.0, 1.0, -1.0]), 300),
    "offset sketched": OffsetSketched(bytes(range(16))),
    "mean": Mean("root@3", floats([0.5])),
    "advertise": Advertise(bytes(range(32)), bytes(range(64))),
    "roster": Roster((1, 900), (bytes(96), b"\x01" * 96)),
    "sealed seed": SealedSeed(5, 1, bytes(32), bytes(64), bytes(range(32)), bytes(48)),
    "seed tag": SeedTag(bytes(range(32)), bytes(64)),
    "seed quorum": SeedQuorum(bytes(range(32)), (1, 900), (bytes(64), b"\x01" * 64)),
    "ready": Ready(),
    "offer": Offer(*session_fields(CHOOSING).values(), ("community 1", "init"), (floats([1.0, -2.5]), floats([0.0, 0.5]))),
    "offer where clients own the models": Offer(*session_fields(CHOOSING).values(), ("community 1", "init"), ()),
    "choice": Choice(1),
    "evaluate": Evaluate(3, ("root@3",)),
    "score": Score(360, 288, struct.pack(">d", 0.625), 0),
    "score that is not said": Score(0),
}
TO_SERVER = (Upload, Advertise, SealedSeed, SeedTag, Ready, Choice, Score)


def envelope(message):
    ends = (5, SERVER) if isinstance(message, TO_SERVER) else (SERVER, 5)
    return Envelope(SESSION.digest, *ends, message)


def messages():
    return [
        {"name": name, "kind": type(m).__name__, "sender": envelope(m).sender, "bytes": encode(envelope(m))}
        for name, m in MESSAGES.items()
    ]


def broken_messages():
    good = encode(envelope(MESSAGES["upload"]))
    items = cbor2.loads(good)

    def with_item(at, value):
        return cbor2.dumps([*items[:at], value, *items[at + 1 :]], canonical=True)

    task = encode(envelope(MESSAGES["task without"]))
    cases = {
        "nothing": b"",
        "cut by one byte": good[:-1],
        "one byte too many": good + b"\x00",
        "twice": good + good,
        "an indefinite list": b"\x9f" + good[1:] + b"\xff",
        "a longer head than needed": b"\x98\x07" + good[1:],
        "an integer in more bytes than needed": good[:1] + b"\x18\x01" + good[2:],
        "a tag before the message": b"\xd9\xd9\xf7" + good,
        "a map": cbor2.dumps({0: 1}),
        "another version": with_item(0, 1),
        "true for the version": with_item(0, True),
        "a float for the sender": with_item(2, 5.0),
        "a session of 31 bytes": with_item(1, bytes(31)),
        "a sender below the dealer": with_item(2, -4),
        "a receiver out of range": with_item(3, 2**31),
        "an unknown kind": with_item(4, 99),
        "a field too few": cbor2.dumps(items[:-1], canonical=True),
        "a field too many": cbor2.dumps([*items, 1], canonical=True),
        "an empty vector": with_item(5, b""),
        "half a float": with_item(5, bytes(6)),
        "no samples": with_item(6, 0),
        "a big number for the samples": with_item(6, 2**64),
        "text that is not UTF-8": task.replace(b"root", b"ro\xff\xfe", 1),
        "a roster in a roster": cbor2.dumps([*cbor2.loads(task)[:9], [[1]], *cbor2.loads(task)[10:]], canonical=True),
        "a length of 2^64 - 1 bytes": good[:38] + b"\x5b" + b"\xff" * 8,
    }
    return [{"name": name, "must_fail_in": "decode", "blame": 5, "bytes": data} for name, data in cases.items()]


def transcript(frames):
    return [{"kind": f.kind, "sender": f.sender, "receiver": f.receiver, "bytes": f.data} for f in frames]


EXCHANGE = session_of("example", bytes(range(16)), (1, 4, 6))


def play_exchange(*tampers):
    """The exchange with frames replaced by bytes (empty: dropped), each (number, bytes); how it ended, and its frames."""
    frames, changed = [], dict(tampers)

    def tap(frame):
        frames.append(frame)
        data = changed.get(frame.number, frame.data)
        return [replace(frame, data=data)] if data else []

    return agree(EXCHANGE, ENTROPY, tap), frames


def exchange():
    agreed, frames = play_exchange()
    begins = f"group seed {EXCHANGE.digest.hex()}"
    return {
        "entropy_seed": SEED,
        "labels": [f"{begins} {what} of client ID" for what in ("identity", "sealing key 1", "fresh secret 1")],
        "session": {**session_fields(EXCHANGE), "digest": EXCHANGE.digest},
        "frames": transcript(frames),
        "secret": agreed.parties[1].state.secret,
        "tag": decode(frames[-1].data, SERVER, LIMIT).message.tag,
        "seed": agreed.seed,
    }


def broken_exchanges():
    """Replaced or dropped frames. Says who holds the seed then, and what was refused, by whom to blame and why."""
    _, frames = play_exchange()
    sent = [decode(f.data, f.sender, LIMIT) for f in frames]

    def changed(number, **parts):
        return number, encode(replace(sent[number], message=replace(sent[number].message, **parts)))

    spy = b"\x09" + bytes(31)
    relayed = [f.number for f in frames if f.kind == "SealedSeed" and f.sender == SERVER]
    tags = [f.number for f in frames if f.kind == "SeedTag"]
    quorums = [f.number for f in frames if f.kind == "SeedQuorum"]
    keys, quorum = sent[3].message.keys, sent[quorums[0]].message
    cases = {
        "a lost key": [(1, b"")],
        "a lost roster": [(3, b"")],
        "a lost seal": [(relayed[0], b"")],
        "a lost tag": [(tags[1], b"")],
        "a lost quorum": [(quorums[2], b"")],
        "a swapped key": [changed(1, public=spy)],
        "a swapped key in the roster": [changed(3, keys=(keys[0], spy + keys[1][32:], keys[2]))],
        "signatures in another order": [
            changed(3, keys=tuple(k[:32] + other[32:] for k, other in zip(keys, keys[::-1], strict=True)))
        ],
        "a roster too short": [changed(3, members=(1,), keys=keys[:1])],
        "a seal for another member": [changed(relayed[0], sealed=sent[relayed[1]].message.sealed)],
        "a changed seal": [changed(relayed[0], sealed=bytes(48))],
        "another leader's key": [changed(relayed[0], public=spy)],
        "another tag on a seal": [changed(relayed[0], tag=bytes(32))],
        "an unsigned tag": [changed(tags[1], tag=bytes(32))],
        "a quorum of one": [changed(quorums[2], members=(1,), signatures=quorum.signatures[:1])],
        "a quorum under other names": [changed(quorums[2], members=(1, 6))],
        "another session": [(2, frames[2].data.replace(EXCHANGE.digest, SESSION.digest))],
        "two lost keys": [(1, b""), (2, b"")],
    }
    return [{"name": name, "frames": [list(t) for t in tampers], **outcome(*tampers)} for name, tampers in cases.items()]


def outcome(*tampers):
    """How the exchange ends: its holders and faults, or for what it fails."""
    try:
        agreed, _ = play_exchange(*tampers)
    except ProtocolError as error:
        return {"holders": [], "faults": [[error.blame, error.reason]]}
    return {"holders": list(agreed.holders), "faults": [[f.blame, f.reason] for f in agreed.network.faults]}


def play_round(transform):
    """One round of the upload protocol: three clients whose updates are small integers, their mean published."""
    frames = []
    clients, updates = (1, 4, 7), {i: [float(i + k) for k in range(4)] for i in (1, 4, 7)}
    setup = Setup(
        run=ENTROPY.secret("run", 16),
        initial=np.zeros(4, dtype=np.float32),
        clients=clients,
        workers=lambda jobs: ((j.client, LocalWork(np.array(updates[j.client], dtype=np.float32), 2)) for j in jobs),
        entropy=ENTROPY,
        tap=lambda frame: frames.append(frame) or [frame],
    )
    view = Permuted(transform, "session", floor=3).open(setup)
    start = len(frames)
    work = {"root": Assignment(Model("init"), clients, clients)}
    collected = view.train(0, work)["root"]
    mean = view.sums(collected, {"root": Weights(dict.fromkeys(clients, 1.0), times_samples=True)})["root"]
    return setup.run, updates, view.harness.observe(view.advance(Model("init"), mean)), frames[start:]


def rounds():
    cases = []
    for transform in (Permutation, SignedPermutation, HadamardRotation):
        run, updates, model, frames = play_round(transform)
        clear = {str(i): floats(v) for i, v in updates.items()}
        cases.append({"transform": transform.__name__, "updates": clear, "model": floats(model), "frames": transcript(frames)})
    return {"entropy_seed": SEED, "labels": ["run", "identity ID", "sealing key ID", "group seed"], "run": run, "cases": cases}


def words(values):
    return np.asarray(values).astype(np.int64).astype("<i8").tobytes()


def ring_projections():
    """Projections of the vector 1, 2, 3, ..., as signed 64-bit integers."""
    key = ENTROPY.secret("ring projection", 32)
    cases = []
    for length, width in ((2, 2), (7, 4), (40, 6)):
        drawn = RingProjection.draw(key, length, width).apply(np.arange(1, length + 1, dtype=np.uint64))
        cases.append({"length": length, "width": width, "projected": words(drawn.view(np.int64))})
    return {"seed": SEED, "label": "ring projection", "key": key, "cases": cases}


TWO_SERVERS = Session("two servers/update", bytes(range(16)), 0, "root", (1, 4, 6), 1)


def play_two_servers(length, width, tap=None):
    """Uploads, a Gram question and a sum with weights 1, -1, 1; returns terms, updates, answers, network."""
    terms = ShareTerms(length, width, 8.0, 3)
    updates = {i: np.array([(i + k) % 5 / 4 for k in range(length)], np.float32) for i in TWO_SERVERS.roster}
    network = InProcess(tap, kinds=KINDS, max_bytes=max_bytes(terms, 3), record=True)
    parties = client_parties(TWO_SERVERS.roster, TWO_SERVERS.run, terms, Policy(), ENTROPY)
    parties |= helper_parties(TWO_SERVERS.run, terms, Policy(), ENTROPY)

    def perform(tasks):
        return ((i, Worked(updates[i], 2)) for i, _ in tasks)

    model = floats(range(length))
    (collected,) = collect(network, parties, terms, [(TWO_SERVERS, "update", ("init",), model)], perform)
    held = collected.received
    rows = [((TWO_SERVERS.digest, i), share) for i, (share, _) in held.items()]
    inner = gram(network, parties, terms, TWO_SERVERS.run, 0, rows, ENTROPY) if rows else None
    weights = [(i, q, held[i][0]) for i, q in zip(TWO_SERVERS.roster, (1, -1, 1), strict=True) if i in held]
    total = sums(network, parties, terms, TWO_SERVERS.run, 1, TWO_SERVERS.digest, weights) if rows else None
    return terms, updates, collected, inner, total, network


def two_server_rounds():
    cases = []
    for length, width in ((4, 4), (16, 4)):
        terms, updates, _, inner, total, network = play_two_servers(length, width)
        cases.append(
            {
                "terms": {"length": length, "width": width, "max_norm": 8.0, "floor": 3},
                "bits": terms.bits,
                "radius": terms.radius,
                "binding": terms.binding(TWO_SERVERS),
                "updates": {str(i): floats(u) for i, u in updates.items()},
                "gram": words(inner.gram),
                "weights": [1, -1, 1],
                "total": words(total.total),
                "frames": transcript(network.frames),
            }
        )
    labels = ["two servers ID BINDING", "two servers triple NUMBER QUESTION"]
    labels += [f"two servers {name} QUESTION" for name in ("coin 1", "coin 2", "salt")]
    session = {**session_fields(TWO_SERVERS), "digest": TWO_SERVERS.digest}
    return {"entropy_seed": SEED, "labels": labels, "session": session, "cases": cases}


def broken_two_servers():
    """One changed or dropped frame each: who survives, whether the questions are answered, and the first fault."""
    _, _, _, _, _, whole = play_two_servers(4, 4)
    first = {}
    for frame in whole.frames:
        first.setdefault(frame.kind, frame)

    def changed(kind, receiver=None, **parts):
        if receiver is not None:
            first[kind] = next(f for f in whole.frames if (f.kind, f.receiver) == (kind, receiver))
        sent = decode(first[kind].data, first[kind].sender, LIMIT)
        return kind, encode(replace(sent, message=replace(sent.message, **parts)))

    triple = decode(first["ExplicitTriple"].data, -3, LIMIT).message
    sum_asked = decode(first["SumQuestion"].data, SERVER, LIMIT).message
    cases = {
        "a lost key": ("KeyShare", b""),
        "a lost share": ("ExplicitShare", b""),
        "a share of other terms": changed("ExplicitShare", binding=bytes(32)),
        "a share too short": changed("ExplicitShare", vector=bytes(24)),
        "a key of another session": changed("KeyShare", binding=bytes(32)),
        "a key of work from another model": changed("KeyShare", model=bytes(32)),
        "a task with another model": changed("Task", receiver=1, vector=floats([9, 1, 2, 3])),
        "a task without its model": changed("Task", receiver=1, vector=b""),
        "a task from a model of the client's own": changed("Task", receiver=1, own="mine"),
        "survivors from outside the roster": changed("Held", clients=(1, 4, 5)),
        "a survivor whose share is not held": changed("Agreed", clients=(1, 2)),
        "a lost agreement": ("Agreed", b""),
        "another row than in the digest": changed("GramQuestion", clients=(1, 4, 7)),
        "another commitment": changed("GramQuestion", commitment=bytes(32)),
        "another half of the coin": changed("Opening", coin=bytes(32)),
        "a difference too short": changed("Opening", difference=bytes(8)),
        "a square too short": changed("ExplicitTriple", square=bytes(64)),
        "a square that is not symmetric with the other": changed("ExplicitTriple", square=bytes(8) + triple.square[:8] * 8),
        "a false share of the Gram matrix": changed("GramAnswer", gram=words([[0, 1, 0], [0, 0, 0], [0, 0, 0]])),
        "another weight than in the digest": changed("SumQuestion", weights=(*sum_asked.weights[:2], -1)),
        "a sum of two": ("SumQuestion", two_in_a_sum(first["SumQuestion"])),
        "a share of a sum too short": changed("SumAnswer", vector=bytes(8)),
    }
    results = []
    for name, (kind, data) in cases.items():
        number = first[kind].number

        def tap(frame, number=number, data=data):
            if frame.number != number:
                return [frame]
            return [replace(frame, data=data)] if data else []

        _, _, collected, inner, total, network = play_two_servers(4, 4, tap)
        fault = network.faults[0] if network.faults else None
        results.append(
            {
                "name": name,
                "frame": number,
                "bytes": data,
                "survivors": list(collected.received),
                "gram": isinstance(inner, GramAnswered),
                "sum": isinstance(total, SumAnswered),
                "blame": None if fault is None else fault.blame,
                "reason": None if fault is None else fault.reason,
            }
        )
    return results


def two_in_a_sum(frame):
    """The request for a sum of two clients, under its own right digest."""
    sent = decode(frame.data, SERVER, LIMIT)
    asked = replace(sent.message, clients=(1, 4), weights=(1, 1))
    return encode(replace(sent, session=sum_question(TWO_SERVERS.run, asked), message=asked))


def encrypted_keys():
    """Tags and seals of keys. The public and secret keys here are any bytes: those of the library are fresh each time."""
    seed, public, secret = (ENTROPY.secret(label, 32) for label in ("group seed", "public key", "secret key"))
    cases = []
    for purpose, round, name, holder in (("sums", 3, "root@3/update/0", 1), ("products", 0, "all", 5)):
        named = KeyName(SESSION.run, purpose, round, name)
        context = named.context(holder, hash_of(public))
        tagged, sealed = tag_of(seed, context), sealed_secret(seed, context, secret)
        parts = {"purpose": purpose, "run": SESSION.run, "round": round, "name": name, "holder": holder, "context": context}
        cases.append({**parts, "tag": tagged, "sealed": sealed})
    return {"entropy_seed": SEED, "seed": seed, "public": public, "secret": secret, "cases": cases}


def encrypted_scores():
    """What is told of opened products, at values that are far from a boundary of rounding; the last update is zero."""
    lengths, cosines = np.array([100.0, 88.5, 112.3, 0.0]), np.array([[1, 0.23], [-0.5, 1]])
    pairs = np.triu_indices(4)
    all_cosines = np.pad(cosines, ((0, 2), (0, 2)), constant_values=0.1) + np.diag([0, 0, 0.9, 0.9])
    products = (all_cosines * np.outer(lengths, lengths))[pairs]
    cases = []
    for digits in (1, 3):
        scores = scores_of(products, 4, 0, digits)
        cases.append({"digits": digits, "norms": scores.norms, "cosines": scores.cosines})
    return {"rows": 4, "products": products.tolist(), "cases": cases}


ENCRYPTED = {
    "key request": KeyRequest("encrypted key/sums", bytes(range(16)), 3, "root", (1, 5, 900), 1),
    "offered key": OfferedKey(b"public key", b"", bytes(range(32)), b"sealed key and its tag"),
    "sum request": EncryptedSumRequest(
        *session_fields(SESSION).values(),
        floats([0.0] * 6),
        1,
        10,
        1,
        b"public key",
        bytes(range(32)),
        b"sealed key and its tag",
        bytes(range(32, 64)),
    ),
    "encrypted input": EncryptedInput(b"ciphertexts"),
    "encrypted sum": EncryptedSum(
        *session_fields(SESSION).values(),
        floats([0.0] * 6),
        0,
        10,
        (1, 900),
        1,
        bytes(32),
        b"sealed key and its tag",
        b"ciphertexts",
    ),
    "sum opened": SumOpened(bytes(8)),
    "slots to open": OpenSlots(
        *session_fields(SESSION).values(), (1, 900), (0, 2), 3, 5, bytes(32), b"sealed key and its tag", b"ciphertexts"
    ),
    "sketch request": SketchRequest(
        *session_fields(SESSION).values(), 16, 5, b"public key", bytes(range(32)), b"sealed key and its tag", bytes(range(32, 64))
    ),
    "score request": ScoreRequest(
        *session_fields(SESSION).values(),
        2,
        0,
        3,
        5,
        bytes(32),
        b"sealed key and its tag",
        (b"(0, 0)", b"(0, 1)", b"(1, 1)", b"(t, t)"),
    ),
    "rounded scores": RoundedScores(bytes(8), bytes(4)),
}


def encrypted_messages():
    to_server = (OfferedKey, EncryptedInput, SumOpened, RoundedScores)
    cases = []
    for name, message in ENCRYPTED.items():
        ends = (5, SERVER) if isinstance(message, to_server) else (SERVER, 5)
        sent = encode(Envelope(SESSION.digest, *ends, message))
        cases.append({"name": name, "kind": type(message).__name__, "sender": ends[0], "bytes": sent})
    return cases


def distributed_gaussian():
    """A client's input, and what the ledger is told for each number of survivors."""
    cases = []
    for ring_bits, variance, d in ((32, 25, 13), (64, 2**24, 4)):
        p = DistributedGaussian(d, 8.0, 2.0**-4, variance, 5, 1, ring_bits, PAPER_BETA, 2.0**-20)
        session = Session(p.protocol, bytes(range(16)), 2, "root", (1, 2, 4, 5, 7), 4)
        place = reserve(p, session, Ledger(2, "client", "zero out", 1e9, 1e-5))
        vector = np.arange(d, dtype=np.float32) / 4 - 1
        cases.append(
            {
                "parameters": {f.name: getattr(p, f.name) for f in fields(p)},
                "bits": p.bits,
                "flat": p.flat,
                "session": {**session_fields(session), "digest": session.digest},
                "client": place.client,
                "label": f"distributed gaussian {place.client} {session.digest.hex()}",
                "vector": floats(vector),
                "input": place.encode(vector, ENTROPY).astype(f"<u{ring_bits // 8}").tobytes(),
                "rho": {str(survivors): p.release(survivors, "zero out").event.zcdp.rho for survivors in (5, 4)},
            }
        )
    return {"entropy_seed": SEED, "cases": cases}


def slots():
    """Inputs of both sessions, with the second one's name: slots 0 and 2 of four are open."""
    plan = SlotLayout(4, 3, FixedPoint(32, 16, 2.0, 10, 100), 3, 1)
    counting = Session(COUNTING, bytes(range(16)), 5, "root", tuple(range(10)), 8)
    opened = frozenset({0, 2})
    one, other = (np.array(x, np.float32) for x in ([0.5, -2.0, 0.3], [0.1, 0.2, 3.0]))
    chosen = {"one": {2: Weighted(one, 100)}, "a closed one": {1: Weighted(one, 7)}}
    chosen["several"] = {0: Weighted(one, 60), 1: Weighted(one, 30), 2: Weighted(other, 10)}
    cases = []
    for rounding in (Nearest(), Stochastic(ENTROPY.secret("slot rounding", 32))):
        for name, choice in chosen.items():
            cases.append(
                {
                    "name": name,
                    "rounding_key": getattr(rounding, "key", b""),
                    "chosen": [[k, floats(w.vector), w.weight] for k, w in choice.items()],
                    "counts": plan.encode_count(choice).astype("<u4").tobytes(),
                    "input": plan.encode(choice, opened, rounding).astype("<u4").tobytes(),
                }
            )
    parameters = {f.name: getattr(plan.grid, f.name) for f in fields(plan.grid)}
    return {
        "slots": {"count": plan.count, "d": plan.d, "grid": parameters, "floor": plan.floor, "corrupt": plan.corrupt},
        "counting": {**session_fields(counting), "digest": counting.digest},
        "counts": [6, 1, 6, 0],
        "threshold": 8,
        "opened": sorted(plan.opened((6, 1, 6, 0), 10, 8)),
        "protocol": plan.protocol(counting, opened),
        "cases": cases,
    }


OPENINGS = {
    bits: ReceiverSum(
        Session(OPENED, bytes(range(16)), 4, f"for 7 in {bits}", (1, 2, 5), 3),
        *(7, (1.0, -1.0, 0.5), bits, 3, 12, 1.0, bytes(32), bytes(range(32)), 0.25),
    )
    for bits in (32, 64)
}


def play_opening(opening, tamper=None):
    """The opening with frame number `tamper[0]` replaced by the bytes `tamper[1]`; returns what was played and the frames."""
    clients = (*opening.session.roster, opening.receiver)
    identities = Members.enrol(clients, ENTROPY)
    held = {opening.update: (opening.session.round, opening.model)}
    members = members_of(identities, opening.session.run, OpeningPolicy(2), ENTROPY, held)
    sums = SumPolicy(unheld=frozenset({"opened"}))
    numbers = Numbers(opening.d, opening.ring_bits, opening.clip, 1, sums.rules)
    charter = Charter(opening.session.run, opening.model, numbers, None, identities.enrolled)
    parties = parties_of(identities, charter, opening.model, sums, ENTROPY)

    def tap(frame):
        if frame.kind not in ("OpeningOffer", "ReceiverKey", "SenderKey", "OpenedTotal"):
            return [frame]
        return [replace(frame, data=tamper[1])] if tamper is not None and frame.number == tamper[0] else [frame]

    def plan(opening, senders):
        return Plan.of(opening.sum_session(senders), opening.sum_terms(2, 2, bytes(32)), charter)

    def update(client, _):
        return np.arange(3, dtype=np.float32) / 4 - np.float32(client) / 8, Nearest()

    played = receiver_opened([opening], Cast(members, parties, identities.enrolled), plan, update, tap, record=True)
    return played, played.networks[0].frames


def receiver_opened_sums():
    """Frames of the key exchange and of the opened total, with the sum that the receiver learns."""
    cases = []
    for opening in OPENINGS.values():
        played, frames = play_opening(opening)
        cases.append(
            {
                "session": {**session_fields(opening.session), "digest": opening.session.digest},
                "receiver": opening.receiver,
                "weights": opening.weights,
                "ring_bits": opening.ring_bits,
                "mask_bits": opening.mask_bits,
                "binding": opening.binding,
                "updates": {str(i): floats(np.arange(3) / 4 - i / 8) for i in opening.session.roster},
                "frames": transcript(frames),
                "total": floats(played.opened[opening.receiver].total),
            }
        )
    return {"entropy_seed": SEED, "labels": ["identity ID", "receiver opened ID BINDING"], "cases": cases}


def broken_receiver_opened():
    """One replaced frame each; a party must then refuse it with this blame and reason."""
    opening = OPENINGS[32]
    _, frames = play_opening(opening)
    _, others = play_opening(OPENINGS[64])
    at = {(f.kind, f.sender, f.receiver): f.number for f in frames}
    spy = b"\x09" + bytes(31)

    def changed(kind, sender, receiver, **parts):
        frame = frames[at[kind, sender, receiver]]
        sent = decode(frame.data, sender, LIMIT)
        return frame.number, encode(replace(sent, message=replace(sent.message, **parts)))

    total = decode(frames[at["OpenedTotal", SERVER, 7]].data, SERVER, LIMIT).message
    elsewhere = next(decode(f.data, 7, LIMIT).message for f in others if f.kind == "ReceiverKey" and f.sender == 7)
    cases = {
        "a swapped receiver's key": changed("ReceiverKey", SERVER, 2, public=spy),
        "a receiver's key of another session": changed(
            "ReceiverKey", SERVER, 2, public=elsewhere.public, signature=elsewhere.signature
        ),
        "a receiver's key of low order": changed("ReceiverKey", 7, SERVER, public=bytes(32)),
        "a sender's key under another signature": changed("SenderKey", 5, SERVER, signature=bytes(64)),
        "another row for one sender": changed("OpeningOffer", SERVER, 1, weights=struct.pack(">3d", 1.0, -1.0, 0.75)),
        "another threshold for one sender": changed("OpeningOffer", SERVER, 1, threshold=1),
        "a swapped sender's key": changed("OpenedTotal", SERVER, 7, publics=(spy, *total.publics[1:])),
        "survivors in another order of keys": changed("OpenedTotal", SERVER, 7, signatures=total.signatures[::-1]),
        "a survivor too few": changed(
            "OpenedTotal", SERVER, 7, survivors=(1, 2), publics=total.publics[:2], signatures=total.signatures[:2]
        ),
        "another count": changed("OpenedTotal", SERVER, 7, total=total.total[:-4] + bytes(4)),
        "a shorter total": changed("OpenedTotal", SERVER, 7, total=total.total[4:]),
    }
    results = []
    for name, (number, data) in cases.items():
        played, _ = play_opening(opening, (number, data))
        fault = played.faults[0]
        results.append({"name": name, "frame": number, "bytes": data, "blame": fault.blame, "reason": fault.reason})
    return results


def sketches():
    """Secret sketches of the vector with k/8 at place k, under the keys of a run and of a session."""
    seed = ENTROPY.secret("group seed", 32)
    cases = []
    for keys, d, k in (("run", 24, 6), ("session", 24, 12)):
        drawn = SketchSecret(seed, SketchTerms(keys, SESSION.run, d, k))(SESSION.digest)
        vector = np.arange(d, dtype=np.float32) / 8
        cases.append({"keys": keys, "d": d, "k": k, "vector": floats(vector), "sketch": floats(drawn.apply(vector))})
    return {
        "entropy_seed": SEED,
        "label": "group seed",
        "seed": seed,
        "run": SESSION.run,
        "session": SESSION.digest,
        "cases": cases,
    }


def offset_sketches():
    """Offsets of two parts in round 2, and what they hide of the vectors with (k + i)/8 at place k, i their number.

    The sum of the two is exact in its last words only up to the rounding of float64 products, so it is not in here.
    """
    seed, d, k, radius = ENTROPY.secret("group seed", 32), 24, 6, 4.0 * 24**0.5
    keys = RatchetedKeys(seed, SketchTerms("session", SESSION.run, d, k, radius))
    keys.advance(2)
    vectors = [(np.arange(d, dtype=np.float32) + i) / 8 for i in range(2)]
    drawn = [keys.offset(SESSION.digest).part(part.to_bytes(4, "big")) for part in (0, 1)]
    return {
        "entropy_seed": SEED,
        "label": "group seed",
        "seed": seed,
        "run": SESSION.run,
        "session": SESSION.digest,
        "round": 2,
        "d": d,
        "k": k,
        "radius": radius,
        "vectors": [floats(vector) for vector in vectors],
        "offsets": [one.offset.astype("<u8").tobytes() for one in drawn],
        "unmasked": [floats(drawn[0].sketch.apply(vector)) for vector in vectors],
    }


FILES = {
    "crypto/v1/keys.json": keys,
    "crypto/v1/transforms.json": transforms,
    "messages/v1/sessions.json": sessions,
    "messages/v1/valid.json": messages,
    "messages/v1/broken.json": broken_messages,
    "group_seed/v1/exchange.json": exchange,
    "group_seed/v1/broken.json": broken_exchanges,
    "uploads/v1/rounds.json": rounds,
    "sketch/v1/sketches.json": sketches,
    "sketch/v1/offset_sketches.json": offset_sketches,
    "two_servers/v1/projections.json": ring_projections,
    "two_servers/v1/rounds.json": two_server_rounds,
    "two_servers/v1/broken.json": broken_two_servers,
    "encrypted/v1/keys.json": encrypted_keys,
    "encrypted/v1/messages.json": encrypted_messages,
    "encrypted/v1/scores.json": encrypted_scores,
    "distributed_gaussian/v1/inputs.json": distributed_gaussian,
    "slots/v1/inputs.json": slots,
    "receiver_opened/v1/exchange.json": receiver_opened_sums,
    "receiver_opened/v1/broken.json": broken_receiver_opened,
}


def text_of(name):
    """The file's content: JSON, byte strings in hexadecimal."""
    return json.dumps(FILES[name](), indent=1, default=lambda value: value.hex()) + "\n"


FILES |= runpy.run_path(str(Path(__file__).parent / "make_masked_vectors.py"))["FILES"]
FILES |= runpy.run_path(str(Path(__file__).parent / "make_pairs_vectors.py"))["FILES"]
FILES |= runpy.run_path(str(Path(__file__).parent / "make_slot_vectors.py"))["FILES"]


def main():
    for name in FILES:
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(name))


if __name__ == "__main__":
    main()
