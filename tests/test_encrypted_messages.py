"""Messages of encrypted sums and scores: one encoding each, fields in range or refused, the schema, and the committed vectors."""

import hashlib
import hmac
import json
import random
import re
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

import cbor2
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import MAX_ID, MAX_ROSTER, SERVER
from cloister.protocol.encrypted.client_opening import scores_of
from cloister.protocol.encrypted.keys import KeyName, opened_secret
from cloister.protocol.encrypted.messages import MESSAGES as KINDS
from cloister.protocol.encrypted.messages import (
    MOST_PRODUCTS,
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
    products_of,
)
from cloister.protocol.messages import decode
from cloister.protocol.wire import messages as messages_module
from cloister.protocol.wire.codec import Envelope, encode

FOLDER = Path(__file__).parent / "vectors" / "encrypted" / "v1"
LIMIT = 1 << 20
ids = st.integers(0, MAX_ID)
rosters = st.lists(ids, min_size=1, max_size=6, unique=True).map(lambda roster: tuple(sorted(roster)))
octets = {n: st.binary(min_size=n, max_size=n) for n in (8, 16, 32)}
some = st.binary(min_size=1, max_size=40)
sealed = st.binary(min_size=17, max_size=40)
parts = st.binary(min_size=5, max_size=20)


def names(high):
    return st.text(st.characters(codec="utf-8"), min_size=1, max_size=high)


@st.composite
def sessions(draw, roster=rosters):
    return (
        draw(names(64)),
        draw(octets[16]),
        draw(st.integers(0, 2**31 - 1)),
        draw(names(256)),
        draw(roster),
        draw(st.integers(1, MAX_ROSTER)),
    )


@st.composite
def weighted(draw):
    head = draw(sessions())
    return (
        *head,
        draw(st.binary(min_size=8 * len(head[4]), max_size=8 * len(head[4]))),
        draw(st.integers(0, 1)),
        draw(st.integers(1, 2**20)),
    )


@st.composite
def score_requests(draw):
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    count = products_of(rows, columns) + 1  # that of the test vector
    products = draw(st.lists(parts, min_size=count, max_size=count).map(tuple))
    return ScoreRequest(
        *draw(sessions()), rows, columns, draw(st.integers(1, 8)), draw(ids), draw(octets[32]), draw(sealed), products
    )


words = st.integers(0, 6).flatmap(lambda n: st.binary(min_size=4 * n, max_size=4 * n))
MESSAGES = {
    KeyRequest: sessions().map(lambda head: KeyRequest(*head)),
    OfferedKey: st.builds(OfferedKey, some, st.binary(max_size=40), octets[32], sealed),
    EncryptedSumRequest: st.builds(
        lambda head, *rest: EncryptedSumRequest(*head, *rest), weighted(), ids, some, octets[32], sealed, octets[32]
    ),
    EncryptedInput: st.builds(EncryptedInput, parts),
    EncryptedSum: st.builds(lambda head, *rest: EncryptedSum(*head, *rest), weighted(), rosters, ids, octets[32], sealed, parts),
    SumOpened: st.builds(SumOpened, st.integers(1, 65).flatmap(lambda n: st.binary(min_size=8 * n, max_size=8 * n))),
    OpenSlots: st.builds(
        lambda head, *rest: OpenSlots(*head, *rest),
        sessions(),
        rosters,
        st.sets(st.integers(0, 63), min_size=1).map(lambda slots: tuple(sorted(slots))),
        st.integers(1, 1 << 24),
        ids,
        octets[32],
        sealed,
        parts,
    ),
    SketchRequest: st.builds(
        lambda head, *rest: SketchRequest(*head, *rest),
        sessions(),
        st.integers(1, 2**20),
        ids,
        some,
        octets[32],
        sealed,
        octets[32],
    ),
    ScoreRequest: score_requests(),
    RoundedScores: st.builds(RoundedScores, words, words),
}


@pytest.mark.parametrize("kind", MESSAGES)
@given(data=st.data())
@settings(max_examples=30)
def test_every_message_survives_its_encoding(kind, data):
    envelope = Envelope(data.draw(octets[32]), 3, SERVER, data.draw(MESSAGES[kind]))
    sent = encode(envelope)
    assert decode(sent, 3, len(sent)) == envelope
    assert cbor2.dumps(cbor2.loads(sent), canonical=True) == sent


def vectors(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


@pytest.mark.parametrize("case", vectors("messages"), ids=lambda case: case["name"])
def test_committed_messages_decode_and_encode_back_and_no_part_of_them_does(case):
    data = bytes.fromhex(case["bytes"])
    envelope = decode(data, case["sender"], LIMIT)
    assert type(envelope.message).__name__ == case["kind"]
    assert encode(envelope) == data
    for end in range(len(data)):
        with pytest.raises(ProtocolError):
            decode(data[:end], case["sender"], LIMIT)
    rng = random.Random(0)
    for _ in range(300):
        at = rng.randrange(len(data))
        changed = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        with suppress(ProtocolError):
            assert encode(decode(changed, 7, LIMIT)) == changed


def test_all_kinds_have_vectors_and_the_schema_names_their_fields():
    kinds = {kind.__name__: kind for kind in KINDS.values()}
    assert {case["kind"] for case in vectors("messages")} == set(kinds)
    assert set(MESSAGES) == set(kinds.values())
    schema = (Path(messages_module.__file__).parent / "messages.cddl").read_text()
    rules = re.findall(r"^([a-z-]+) = \[\n  version: 2, [^\n]*, kind: (6\d),\n(.*?)^\]", schema, re.M | re.S)
    found = {int(kind): re.findall(r"^  (\w+):", body, re.M) for _, kind, body in rules}
    assert found == {kind.kind: [f.name for f in fields(kind)] for kind in kinds.values()}
    (union,) = re.findall(r"^message = (.*?)\n\n", schema, re.M | re.S)
    assert {name for name, _, _ in rules} <= {name.strip() for name in union.split("/")}


HEAD = ("encrypted sum", bytes(16), 0, "root", (1, 2), 2)
BROKEN = [
    (EncryptedSumRequest, (*HEAD, bytes(15), 0, 1, 0, b"key", bytes(32), bytes(17), bytes(32))),
    (EncryptedSumRequest, (*HEAD, bytes(16), 2, 1, 0, b"key", bytes(32), bytes(17), bytes(32))),
    (EncryptedSumRequest, (*HEAD, bytes(16), 0, 0, 0, b"key", bytes(32), bytes(17), bytes(32))),
    (EncryptedSumRequest, (*HEAD, bytes(16), 0, 1, -1, b"key", bytes(32), bytes(17), bytes(32))),
    (EncryptedSumRequest, (*HEAD, bytes(16), 0, 1, 0, b"", bytes(32), bytes(17), bytes(32))),
    (EncryptedSumRequest, (*HEAD, bytes(16), 0, 1, 0, bytes(409_601), bytes(32), bytes(17), bytes(32))),
    (EncryptedSumRequest, (*HEAD, bytes(16), 0, 1, 0, b"key", bytes(31), bytes(17), bytes(32))),
    (EncryptedSumRequest, (*HEAD[:4], (2, 1), 2, bytes(16), 0, 1, 0, b"key", bytes(32), bytes(17), bytes(32))),
    (EncryptedSumRequest, (*HEAD, bytes(16), 0, 1, 0, b"key", bytes(32), bytes(16), bytes(32))),
    (EncryptedSumRequest, (*HEAD, bytes(16), 0, 1, 0, b"key", bytes(32), bytes(819_217), bytes(32))),
    (SketchRequest, (*HEAD, 1, 0, b"key", bytes(32), bytes(16), bytes(32))),
    (KeyRequest, (*HEAD[:2], -1, *HEAD[3:])),
    (KeyRequest, (*HEAD[:5], 0)),
    (OfferedKey, (b"key", bytes(22_429_697), bytes(32), bytes(17))),
    (OfferedKey, (b"key", b"", bytes(32), bytes(16))),
    (OfferedKey, (b"key", b"", bytes(32), bytes(819_217))),
    (EncryptedInput, (bytes(4),)),
    (EncryptedSum, (*HEAD, bytes(16), 0, 1, (), 0, bytes(32), bytes(17), bytes(5))),
    (EncryptedSum, (*HEAD, bytes(16), 0, 1, (1,), 0, bytes(31), bytes(17), bytes(5))),
    (SumOpened, (bytes(7),)),
    (SumOpened, (bytes(8 * 66),)),
    (OpenSlots, (*HEAD, (1, 2), (), 1, 0, bytes(32), bytes(17), bytes(5))),
    (OpenSlots, (*HEAD, (1, 2), (1, 0), 1, 0, bytes(32), bytes(17), bytes(5))),
    (OpenSlots, (*HEAD, (1, 2), (64,), 1, 0, bytes(32), bytes(17), bytes(5))),
    (OpenSlots, (*HEAD, (), (0,), 1, 0, bytes(32), bytes(17), bytes(5))),
    (OpenSlots, (*HEAD, (1, 2), (0,), 1, 0, bytes(32), bytes(16), bytes(5))),
    (OpenSlots, (*HEAD, (1, 2), (0,), 0, 0, bytes(32), bytes(17), bytes(5))),
    (SketchRequest, (*HEAD, 0, 0, b"key", bytes(32), bytes(17), bytes(32))),
    (SketchRequest, (*HEAD, 1, 0, b"key", bytes(32), bytes(17), bytes(31))),
    (ScoreRequest, (*HEAD, 2, 0, 3, 0, bytes(32), bytes(17), (bytes(5),) * 2)),
    (ScoreRequest, (*HEAD, 1, 1, 3, 0, bytes(32), bytes(17), (bytes(5),) * 2)),
    (ScoreRequest, (*HEAD, 1, 0, 9, 0, bytes(32), bytes(17), (bytes(5),))),
    (ScoreRequest, (*HEAD, 1, 0, 3, 0, bytes(32), bytes(17), (bytes(4),))),
    (ScoreRequest, (*HEAD, 1, 0, 3, 0, bytes(32), bytes(17), (bytes(266_245),))),
    (ScoreRequest, (*HEAD, 1, MOST_PRODUCTS, 3, 0, bytes(32), bytes(17), (bytes(5),))),
    (RoundedScores, (bytes(3), b"")),
    (RoundedScores, (b"", bytes(4 * MOST_PRODUCTS + 4))),
]


@pytest.mark.parametrize(("kind", "values"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_fields_out_of_range_are_refused(kind, values):
    with pytest.raises(ValueError):
        kind(*values)


def test_committed_tags_and_seals_follow_from_hmac_and_chacha():
    file = vectors("keys")
    seed, public, secret = (bytes.fromhex(file[name]) for name in ("seed", "public", "secret"))
    for case in file["cases"]:
        head = [case["purpose"], bytes.fromhex(case["run"]), case["round"], case["name"], case["holder"]]
        context = cbor2.dumps([*head, hashlib.sha256(public).digest()], canonical=True)
        assert context.hex() == case["context"]
        extracted = hmac.digest(bytes(32), seed, "sha256")

        def key(purpose, extracted=extracted, context=context):
            return hmac.digest(extracted, b"cloister/v1/" + purpose + b"\x00" + context + b"\x01", "sha256")

        assert key(b"ckks public key").hex() == case["tag"]
        assert ChaCha20Poly1305(key(b"ckks secret key")).decrypt(bytes(12), bytes.fromhex(case["sealed"]), context) == secret
        name = KeyName(head[1], case["purpose"], case["round"], case["name"])
        with pytest.raises(ProtocolError, match="does not open"):  # a bit of the seal
            opened_secret(
                seed, name, case["holder"], hashlib.sha256(public).digest(), bytes.fromhex(case["sealed"])[:-1] + b"\x00"
            )


def test_committed_scores_are_the_rounded_cosines_and_logarithms():
    file = vectors("scores")
    rows, products = file["rows"], np.array(file["products"])
    square = np.zeros((rows, rows))
    square[np.triu_indices(rows)] = products
    lengths = np.sqrt(np.diag(square))
    for case in file["cases"]:
        scores = scores_of(products, rows, 0, case["digits"])
        assert (scores.norms.hex(), scores.cosines.hex()) == (case["norms"], case["cosines"])
        unit = 10 ** case["digits"]
        logarithms = [round((length - 100) / 5 * unit) if length else -(2**31) for length in lengths]
        assert np.frombuffer(scores.norms, "<i4").tolist() == logarithms
        pairs = [(i, j) for i in range(rows) for j in range(i + 1, rows)]
        cosines = [round(square[i, j] / lengths[i] / lengths[j] * unit) if lengths[i] and lengths[j] else 0 for i, j in pairs]
        assert np.frombuffer(scores.cosines, "<i4").tolist() == cosines
