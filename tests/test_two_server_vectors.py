"""The vectors of the two-server protocol, read a second time: in Python's integers, from the specification's formulas."""

import hashlib
import hmac
import json
import math
import struct
from pathlib import Path

import cbor2
import numpy as np
import pytest

from cloister.crypto.entropy import SimulatedEntropy
from cloister.crypto.prg import derive_key, keystream

FOLDER = Path(__file__).parent / "vectors" / "two_servers" / "v1"
RING = 2**64


def read(name):
    return json.loads((FOLDER / name).read_text())


def octets(value):
    return bytes.fromhex(value)


def unsigned(data):
    return list(struct.unpack(f"<{len(data) // 8}Q", data))


def signed(data):
    return list(struct.unpack(f"<{len(data) // 8}q", data))


def table(values, columns):
    return [values[at : at + columns] for at in range(0, len(values), columns)]


def projection(key, length, width):
    """Two dense matrices of -1, 0 and 1, one above the other."""
    blocks, rows = width // 2, []
    places = -(-length // blocks) * blocks
    for repeat in (0, 1):
        own = derive_key(key, "ring projection", bytes([repeat]))
        order = derive_key(own, "ring projection order", b"")
        signs = keystream(derive_key(own, "ring projection signs", b""), -(-places // 8))
        drawn = unsigned(keystream(order, 8 * places))
        matrix = [[0] * length for _ in range(blocks)]
        for place, coordinate in enumerate(sorted(range(places), key=drawn.__getitem__)):
            if coordinate < length:
                matrix[place % blocks][coordinate] = -1 if signs[place // 8] >> (7 - place % 8) & 1 else 1
        rows += matrix
    return rows


def apply(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def gram_of(rows):
    return [sum(a * b for a, b in zip(one, other, strict=True)) for one in rows for other in rows]


def test_projections_of_the_published_key():
    file = read("projections.json")
    key = SimulatedEntropy(file["seed"]).secret(file["label"], 32)
    assert key == octets(file["key"])
    for case in file["cases"]:
        matrix = projection(key, case["length"], case["width"])
        assert apply(matrix, range(1, case["length"] + 1)) == signed(octets(case["projected"]))


@pytest.mark.parametrize("at", [0, 1])
def test_a_round_follows_from_its_secrets(at):
    file = read("rounds.json")
    case, entropy, digest = file["cases"][at], SimulatedEntropy(file["entropy_seed"]), octets(file["session"]["digest"])
    terms, roster = case["terms"], file["session"]["roster"]
    frames = [(f, cbor2.loads(octets(f["bytes"]))) for f in case["frames"]]
    (question,) = {octets(cbor2.dumps(m[1]).hex())[2:] for f, m in frames if f["kind"] == "Coin"}
    body = {(f["kind"], f["sender"], f["receiver"]): m[5:] for f, m in frames}

    size = [terms["length"], terms["width"], struct.pack(">d", terms["max_norm"]), terms["floor"]]
    fields = hashlib.sha256(cbor2.dumps(size, canonical=True)).digest()
    binding = hashlib.sha256(b"cloister/v1/two servers" + digest + fields).digest()
    assert binding == octets(case["binding"])
    growth = 1 if terms["length"] <= terms["width"] else 2 * -(-terms["length"] // (terms["width"] // 2))

    def radius(bits):
        return 2**bits + (math.isqrt(terms["length"] - 1) + 2) // 2 + terms["length"] * 2**bits // 2**52 + 1

    assert case["bits"] == max(b for b in range(1, 32) if growth * radius(b) ** 2 < 2**63)
    assert case["radius"] == radius(case["bits"])

    encoded = {}
    for client in roster:
        key = entropy.secret(f"two servers {client} {binding.hex()}", 32)
        model = hashlib.sha256(body["Task", -1, client][8]).digest()
        assert body["KeyShare", client, -2] == [binding, key, model]
        bound, share, samples = body["ExplicitShare", client, -1]
        assert (bound, samples) == (binding, 2)
        stream = unsigned(keystream(key, 8 * terms["length"]))
        encoded[client] = [(a + b + RING // 2) % RING - RING // 2 for a, b in zip(unsigned(share), stream, strict=True)]
        update = np.frombuffer(octets(case["updates"][str(client)]), "<f4").astype(float)
        assert encoded[client] == [round(x * 2 ** case["bits"] / terms["max_norm"]) for x in update]
    assert body["Held", -1, -2] == body["Agreed", -2, -1] == [roster]

    rows = [encoded[i] for i in roster]
    coins = [entropy.secret(f"two servers coin {n} {question.hex()}", 32) for n in (1, 2)]
    salt = entropy.secret(f"two servers salt {question.hex()}", 32)
    number, sources, counts, clients, commitment = body["GramQuestion", -1, -2]
    assert (number, sources, counts, clients) == (0, [digest], [3], roster)
    run = octets(file["session"]["run"])
    named = cbor2.dumps([run, "gram", number, sources, counts, clients], canonical=True)
    assert hashlib.sha256(b"cloister/v1/two servers question" + named).digest() == question
    head = b"cloister/v1/commitment"
    context = len(head).to_bytes(8, "big") + head + len(question).to_bytes(8, "big") + question
    assert hashlib.sha256(context + salt + coins[0]).digest() == commitment
    assert body["Coin", -2, -1] == [coins[1]]
    opened_coin, opened_salt, difference = body["Opening", -1, -2]
    assert (opened_coin, opened_salt) == (coins[0], salt)
    if growth > 1:
        matrix = projection(derive_key(b"".join(coins), "two servers projection", question), terms["length"], terms["width"])
        rows = [apply(matrix, row) for row in rows]
    assert gram_of(rows) == signed(octets(case["gram"]))

    width = min(terms["length"], terms["width"])
    other, share = body["GramAnswer", -2, -1]
    mask_one, square_one = body["ExplicitTriple", -3, -1]
    mask_other, square_key = body["KeyedTriple", -3, -2]
    masks = [table(unsigned(keystream(key, 8 * 3 * width)), width) for key in (mask_one, mask_other)]
    a = [[x + y for x, y in zip(*pair, strict=True)] for pair in zip(*masks, strict=True)]
    squares = [unsigned(square_one), unsigned(keystream(square_key, 8 * 9))]
    assert [(x + y) % RING for x, y in zip(*squares, strict=True)] == [v % RING for v in gram_of(a)]
    opened = [(x + y) % RING for x, y in zip(unsigned(difference), unsigned(other), strict=True)]
    flat = [(x - y) % RING for row, m in zip(rows, a, strict=True) for x, y in zip(row, m, strict=True)]
    assert opened == flat
    d = table(opened, width)
    cross = table([sum(p * q for p, q in zip(one, two, strict=True)) for one in d for two in masks[1]], 3)
    expected = [(cross[i][j] + cross[j][i] + squares[1][3 * i + j]) % RING for i in range(3) for j in range(3)]
    assert unsigned(share) == expected

    asked = body["SumQuestion", -1, -2]
    assert asked == [1, digest, roster, case["weights"]]
    total = [sum(q * encoded[i][c] for i, q in zip(roster, case["weights"], strict=True)) for c in range(terms["length"])]
    assert total == signed(octets(case["total"]))
    streams = [unsigned(keystream(body["KeyShare", i, -2][1], 8 * terms["length"])) for i in roster]
    mine = [sum(q * s for q, s in zip(case["weights"], column, strict=True)) % RING for column in zip(*streams, strict=True)]
    assert unsigned(body["SumAnswer", -2, -1][0]) == mine


def test_dealt_keys_follow_from_the_dealers_secret():
    file = read("rounds.json")
    entropy = SimulatedEntropy(file["entropy_seed"])
    for case in file["cases"]:
        sent = {f["kind"]: cbor2.loads(octets(f["bytes"])) for f in case["frames"]}
        secret = entropy.secret(f"two servers triple 0 {sent['TripleRequest'][1].hex()}", 32)
        for kind, party in (("ExplicitTriple", 0), ("KeyedTriple", 1)):
            extracted = hmac.digest(bytes(32), secret, "sha256")
            info = b"cloister/v1/gram triple mask\x00" + bytes([party]) + b"\x01"
            assert hmac.digest(extracted, info, "sha256") == sent[kind][5]


def test_broken_rounds_cover_every_message_and_none_is_answered_wholly():
    whole = {f["kind"] for f in read("rounds.json")["cases"][0]["frames"]}
    frames = read("rounds.json")["cases"][0]["frames"]
    broken = read("broken.json")
    touched = {frames[case["frame"]]["kind"] for case in broken}
    assert whole - touched <= {"Task", "Coin", "TripleRequest", "KeyedTriple"}
    for case in broken:
        assert case["survivors"] != [1, 4, 6] or not case["gram"] or not case["sum"], case["name"]
