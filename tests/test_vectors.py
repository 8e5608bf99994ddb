"""The committed vectors: the generator reproduces them, a second reading agrees with them, and broken ones fail."""

import hashlib
import hmac
import json
import runpy
import struct
from pathlib import Path

import cbor2
import numpy as np
import pytest
from scipy.special import ndtri

from cloister.crypto import orthonormal
from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.offset_sketch import OffsetSketch
from cloister.crypto.prg import derive_key, keystream
from cloister.crypto.samplers import discrete_gaussian
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER, Session
from cloister.protocol.messages import decode
from cloister.protocol.wire.codec import encode
from cloister.protocol.wire.messages import Upload

FOLDER = Path(__file__).parent / "vectors"
MAKE = runpy.run_path(str(Path(__file__).parent / "make_vectors.py"))


def read(name):
    return json.loads((FOLDER / name).read_text())


def octets(value):
    return bytes.fromhex(value)


def cases(name):
    return [pytest.param(case, id=case["name"]) for case in read(name)]


def test_no_file_is_missing_or_left_over():
    assert {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.json")} == set(MAKE["FILES"])


LONG = "slots/v1/two_servers_broken.json"


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == LONG else ()) for n in MAKE["FILES"]])
def test_the_generator_reproduces_the_committed_file(name):
    assert MAKE["text_of"](name) == (FOLDER / name).read_text()


def test_session_digests_are_sha256_of_the_canonical_list():
    for case in read("messages/v1/sessions.json"):
        digest = octets(case.pop("digest"))
        case["run"] = octets(case["run"])
        assert hashlib.sha256(cbor2.dumps([2, *case.values()], canonical=True)).digest() == digest
        assert Session(**{**case, "roster": tuple(case["roster"])}).digest == digest


def test_derived_keys_follow_from_hmac():
    case = read("crypto/v1/keys.json")["derive_key"]
    extracted = hmac.digest(bytes(32), octets(case["secret"]), "sha256")
    info = b"cloister/v1/" + case["purpose"].encode() + b"\x00" + octets(case["context"])
    assert hmac.digest(extracted, info + b"\x01", "sha256") == octets(case["key"])


def test_transforms_of_the_published_seed():
    file = read("crypto/v1/transforms.json")
    key = SimulatedEntropy(file["seed"]).secret(file["label"], 32)
    assert key == octets(file["key"])
    for case in file["cases"]:
        drawn = getattr(orthonormal, case["transform"]).draw(key, case["d"])
        vector, expected = (np.frombuffer(octets(case[name]), "<f4") for name in ("vector", "transformed"))
        assert np.array_equal(drawn.apply(vector), expected)
        assert np.array_equal(drawn.invert(expected), vector)


@pytest.mark.parametrize("case", cases("messages/v1/valid.json"))
def test_valid_messages_decode_and_encode_back(case):
    data = octets(case["bytes"])
    envelope = decode(data, case["sender"], len(data))
    assert type(envelope.message).__name__ == case["kind"]
    assert envelope.sender == case["sender"]
    assert encode(envelope) == data
    assert list(cbor2.loads(data))[:5] == [2, envelope.session, envelope.sender, envelope.receiver, envelope.message.kind]


@pytest.mark.parametrize("case", cases("messages/v1/broken.json"))
def test_broken_messages_fail_in_decode(case):
    assert case["must_fail_in"] == "decode"
    with pytest.raises(ProtocolError) as failure:
        decode(octets(case["bytes"]), case["blame"], 1 << 20)
    assert failure.value.blame == case["blame"]


@pytest.mark.parametrize("case", cases("group_seed/v1/broken.json"))
def test_broken_exchanges_end_as_recorded(case):
    found = MAKE["outcome"](*((number, octets(data)) for number, data in case["frames"]))
    assert found == {"holders": case["holders"], "faults": case["faults"]}


def test_seed_and_tag_follow_from_the_secret():
    file = read("group_seed/v1/exchange.json")
    digest = octets(file["session"]["digest"])
    label = file["labels"][2].replace("ID", "1")
    assert SimulatedEntropy(file["entropy_seed"]).secret(label, 32) == octets(file["secret"])
    extracted = hmac.digest(bytes(32), octets(file["secret"]), "sha256")
    for name, purpose in (("seed", b"group seed"), ("tag", b"group seed tag")):
        assert hmac.digest(extracted, b"cloister/v1/" + purpose + b"\x00" + digest + b"\x01", "sha256") == octets(file[name])


def test_a_sketch_is_the_keystream_through_the_normal_quantile():
    """A second reading of specs/sketch.md from bare primitives, where d is small and there is no public projection."""
    file = read("sketch/v1/sketches.json")
    for case in file["cases"]:
        context = octets(file["run"] if case["keys"] == "run" else file["session"])
        secret = derive_key(octets(file["seed"]), "sketch", context)
        block = derive_key(derive_key(secret, "secret sketch", b""), "gaussian projection", bytes(16))
        words = np.frombuffer(keystream(block, 8 * case["k"] * case["d"]), "<u8") >> np.uint64(12)
        omega = ndtri((words.astype(np.float64) + 0.5) * 2.0**-52).reshape(case["k"], case["d"]) / np.sqrt(case["k"])
        vector, sketch = (np.frombuffer(octets(case[name]), "<f4") for name in ("vector", "sketch"))
        np.testing.assert_allclose(sketch, omega @ vector.astype(np.float64), rtol=1e-6, atol=1e-6)


def test_an_offset_is_the_keystream_of_a_chain_of_keys():
    """The same of sketches behind an offset: the chain moved on twice, the session's key, its offsets, and what these hide."""
    file = read("sketch/v1/offset_sketches.json")
    chain = derive_key(octets(file["seed"]), "sketch chain", octets(file["run"]))
    for _ in range(file["round"]):
        chain = derive_key(chain, "next sketch chain", b"")
    key, k, d = derive_key(chain, "sketch", octets(file["session"])), file["k"], file["d"]
    for part, offset in enumerate(file["offsets"]):
        assert keystream(derive_key(key, "sketch offset", part.to_bytes(4, "big")), 8 * k) == octets(offset)
    block = derive_key(derive_key(key, "secret sketch", b""), "gaussian projection", bytes(16))
    words = np.frombuffer(keystream(block, 8 * k * d), "<u8") >> np.uint64(12)
    omega = ndtri((words.astype(np.float64) + 0.5) * 2.0**-52).reshape(k, d) / np.sqrt(k)
    step = 16 * file["radius"] / 2**61
    drawn = OffsetSketch.draw(bytes(32), key, d, k, file["radius"])
    for vector, unmasked in zip(file["vectors"], file["unmasked"], strict=True):
        x = np.frombuffer(octets(vector), "<f4")
        np.testing.assert_allclose(np.frombuffer(octets(unmasked), "<f4"), omega @ x.astype(np.float64), rtol=1e-6, atol=1e-6)
        hidden = (drawn.apply(x) - np.frombuffer(octets(file["offsets"][0]), "<u8")).view(np.int64)
        np.testing.assert_allclose(hidden * step, omega @ x.astype(np.float64), rtol=1e-9, atol=1e-9)


def test_noisy_inputs_are_the_rotated_vector_and_the_samplers_noise():
    file = read("distributed_gaussian/v1/inputs.json")
    for case in file["cases"]:
        p, digest = case["parameters"], octets(case["session"]["digest"])
        ring = np.frombuffer(octets(case["input"]), f"<u{p['ring_bits'] // 8}")
        secret = SimulatedEntropy(file["entropy_seed"]).secret(case["label"], 32)
        noise = discrete_gaussian(derive_key(secret, "distributed noise", digest), len(ring) - 1, p["variance"])
        levels = ring[:-1].astype(np.int64) - (2 ** (case["bits"] - 1) - 1) - noise
        turn = orthonormal.HadamardRotation.draw(derive_key(digest, "distributed gaussian rotation", b""), p["d"])
        vector = np.frombuffer(octets(case["vector"]), "<f4")
        assert np.abs(levels * p["granularity"] - turn.apply(vector)).max() < p["granularity"]
        assert ring[-1] == 1


@pytest.mark.parametrize("case", cases("receiver_opened/v1/broken.json"))
def test_broken_openings_fail_with_their_reason(case):
    played, _ = MAKE["play_opening"](MAKE["OPENINGS"][32], (case["frame"], octets(case["bytes"])))
    assert (case["blame"], case["reason"]) in {(fault.blame, fault.reason) for fault in played.faults}
    assert not played.opened


def test_opened_sums_are_the_weighted_sums_of_the_clear_updates():
    for case in read("receiver_opened/v1/exchange.json")["cases"]:
        clear = {int(i): np.frombuffer(octets(v), "<f4").astype(float) for i, v in case["updates"].items()}
        plain = sum(w * clear[i] for i, w in zip(case["session"]["roster"], case["weights"], strict=True))
        assert np.frombuffer(octets(case["total"]), "<f4") == pytest.approx(plain, abs=3 / 4095)
        (total,) = [f for f in case["frames"] if f["kind"] == "OpenedTotal"]
        words = np.frombuffer(decode(octets(total["bytes"]), SERVER, 1 << 20).message.total, "<u4")
        assert int(words.max()) < 2 ** case["mask_bits"]
        head = b"cloister/v1/receiver opened" + octets(case["session"]["digest"])
        row = struct.pack(">3d", *case["weights"])
        terms = [
            case["receiver"],
            row,
            case["ring_bits"],
            3,
            12,
            struct.pack(">d", 1.0),
            bytes(32),
            bytes(range(32)),
            struct.pack(">d", 0.25),
        ]
        terms = cbor2.dumps(terms, canonical=True)
        assert hashlib.sha256(head + hashlib.sha256(terms).digest()).digest() == octets(case["binding"])


def test_slot_inputs_hold_what_was_chosen_where_it_is_open_and_zeros():
    file = read("slots/v1/inputs.json")
    plan, grid = file["slots"], file["slots"]["grid"]
    half = 2 ** (grid["bits"] - 1) - 1
    assert file["opened"] == [
        k for k, n in enumerate(file["counts"]) if n >= plan["floor"] + 10 - file["threshold"] + plan["corrupt"]
    ]
    for case in file["cases"]:
        ring = np.frombuffer(octets(case["input"]), "<u4").reshape(plan["count"], plan["d"] + 1)
        counts = np.frombuffer(octets(case["counts"]), "<u4")
        chosen = {k: (np.frombuffer(octets(v), "<f4"), w) for k, v, w in case["chosen"]}
        assert np.flatnonzero(counts).tolist() == sorted(chosen)
        for k in range(plan["count"]):
            if k not in chosen or k not in file["opened"]:
                assert not ring[k].any()
                continue
            vector, weight = chosen[k]
            clipped = np.clip(vector, -grid["clip"], grid["clip"])
            levels = ring[k, :-1].astype(float) / weight - half
            assert np.abs(levels - clipped * half / grid["clip"]).max() <= (1 if case["rounding_key"] else 0.5) + 1e-6
            assert ring[k, -1] == weight


def test_rounds_end_in_the_mean_of_the_clear_updates():
    for case in read("uploads/v1/rounds.json")["cases"]:
        clear = {int(i): np.frombuffer(octets(v), "<f4") for i, v in case["updates"].items()}
        assert np.array_equal(
            np.frombuffer(octets(case["model"]), "<f4"), np.mean(list(clear.values()), axis=0, dtype=np.float32)
        )
        uploads = [f for f in case["frames"] if f["kind"] == "Upload"]
        assert [f["sender"] for f in uploads] == [1, 4, 7]
        for frame in uploads:
            message = decode(octets(frame["bytes"]), frame["sender"], 1 << 20).message
            assert isinstance(message, Upload)
            sent = np.frombuffer(message.vector, "<f4")
            assert not np.array_equal(sent, clear[frame["sender"]])
            assert np.linalg.norm(sent) == pytest.approx(np.linalg.norm(clear[frame["sender"]]))
