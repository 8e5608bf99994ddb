"""The committed vectors of slots, read a second time: with pow, SHA and AES only, and by encrypting the published numbers."""

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest

from cloister.crypto.ckks_secret import SecretContext
from cloister.crypto.pedersen import PRIME
from cloister.crypto.prg import keystream
from cloister.protocol.encrypted.slots import EncryptedSlots

FOLDER = Path(__file__).parent / "vectors" / "slots" / "v1"


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


def generator(index: int) -> int:
    hashed = hashlib.shake_256(b"cloister/v1/pedersen" + struct.pack(">I", index)).digest(272)
    return int.from_bytes(hashed, "big") ** 2 % PRIME


def test_two_servers_follow_from_what_was_sent() -> None:
    file = read("two_servers.json")
    slots, count, d = file["slots"], 3, 2
    fields = [count, d, slots["most"], struct.pack(">d", slots["max_norm"]), slots["floor"]]
    digest = bytes.fromhex(file["session"]["digest"])
    hashed = hashlib.sha256(cbor2.dumps(fields, canonical=True)).digest()
    assert hashlib.sha256(b"cloister/v1/two servers slots" + digest + hashed).hexdigest() == file["binding"]
    body: dict[tuple[str, int], list[Any]] = {}
    for frame in file["frames"]:
        body[frame["kind"], frame["sender"]] = cbor2.loads(bytes.fromhex(frame["bytes"]))[5:]
    roster, size = file["session"]["roster"], count * (d + 2)
    step, one = file["slots"]["max_norm"] / file["one"], file["one"]
    explicit, product, totals = [0] * count, 1, [0] * size
    for i in roster:
        shares, vectors = file["shares"][str(i)], file["vectors"][str(i)]
        rows = [[*(w * x / step for x in row), w * one] for w, row in zip(shares, vectors, strict=True)]
        plain = [*((w > 0) * one for w in shares), *(round(x) for row in rows for x in row)]
        assert plain == file["shared"][str(i)]
        binding, vector, blinding = body["SlotShare", i]
        _, key, commitment, model = body["SlotKey", i]
        assert model == hashlib.sha256(body["Task", -1][8]).digest()
        assert binding.hex() == file["binding"]
        words = np.frombuffer(vector, "<u8")
        stream = np.frombuffer(keystream(key, 8 * size), "<u8")
        assert (words + stream).astype(np.int64).tolist() == plain
        expected = pow(generator(0), int.from_bytes(blinding, "big"), PRIME)
        above = struct.unpack(">3Q", hashlib.shake_256(b"cloister/v1/two servers slot words" + blinding).digest(24))
        for k in range(count):
            committed = int(words[k]) + (above[k] << 64)
            expected = expected * pow(generator(k + 1), committed, PRIME) % PRIME
            explicit[k] += committed
        assert int.from_bytes(commitment, "big") == expected
        product = product * expected % PRIME
        totals = [a + b for a, b in zip(totals, plain, strict=True)]
    alive, commitments = body["SlotsAgreed", -2]
    assert alive == roster
    assert commitments == b"".join(body["SlotKey", i][2] for i in roster)
    _, source, counts, blinding, without = body["SlotQuestion", -1]
    assert source == digest
    assert without == []
    assert [int.from_bytes(counts[at : at + 20], "big") for at in (0, 20, 40)] == explicit
    found = pow(generator(0), int.from_bytes(blinding, "big"), PRIME)
    for k in range(count):
        found = found * pow(generator(k + 1), explicit[k], PRIME) % PRIME
    assert found == product
    assert file["counts"] == [total // one for total in totals[:count]] == [2, 2, 1]
    assert file["rows"] == {str(k): totals[3 + 3 * k : 6 + 3 * k] for k in (0, 1)}, "slot 2 is under the floor"
    assert len(body["SlotAnswer", -2][1]) == 8 * 2 * (d + 1)


def test_broken_frames_open_no_small_slot() -> None:
    cases = read("two_servers_broken.json")
    floor, chosen = 2, read("two_servers.json")["shares"]
    for case in cases:
        for k in case["opened"]:
            assert sum(chosen[str(i)][k] > 0 for i in case["survivors"]) >= floor, case["name"]
    assert {case["name"] for case in cases if case["blame"] is None} <= {
        "a lost key", "a lost share", "fewer survivors", "a lost question", "a lost answer", "counts that are not whole",
    }  # fmt: skip
    assert sum(not case["opened"] for case in cases) >= 12


ENCRYPTED = read("encrypted.json")


def test_encrypted_inputs_have_the_published_layout() -> None:
    most = ENCRYPTED["slots"]["most"]
    for i, values in ENCRYPTED["inputs"].items():
        expected = {3: 2.0**14}
        for k, w in enumerate(ENCRYPTED["shares"][i]):
            if w:
                row = [*(w / most * x for x in ENCRYPTED["vectors"][i][k]), w / most * 1024, 1.0]
                expected |= {k: 1024.0} | {4096 * (1 + k) + at: 1024 * x for at, x in enumerate(row)}
        assert {int(at): x for at, x in values.items()} == {at: pytest.approx(x) for at, x in expected.items() if x}


@pytest.mark.parametrize("case", ENCRYPTED["totals"], ids=lambda case: case["name"])
def test_members_read_or_refuse_the_published_totals(case: Any) -> None:
    slots, key = EncryptedSlots(**ENCRYPTED["slots"]), SecretContext.generate()
    values = np.zeros(case["length"])
    for at, value in case["values"].items():
        values[int(at)] = value
    data = key.public().encrypt(values).to_bytes()

    def opens() -> None:
        if case["slots"] is None:
            assert list(slots.counts(key, data, tuple(case["alive"])).counts) == case["counts"] == [2, 2, 1]
            return
        weights, means = slots.means(key, data, dict.fromkeys(case["slots"], 2))
        assert weights == case["weights"]
        assert np.allclose(means, case["means"], atol=1e-5)
        assert not means[[k for k in range(3) if k not in case["slots"]]].any()

    if "refused" in case:
        with pytest.raises(ValueError) as refusal:
            opens()
        assert str(refusal.value) == case["refused"]
    else:
        opens()
