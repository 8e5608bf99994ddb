"""The masked sum's vectors, read a second time: from the specification and bare primitives, without the code that made them."""

import hashlib
import hmac
import json
import runpy
import struct
from itertools import combinations
from pathlib import Path

import cbor2
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

HERE = Path(__file__).parent
FILE = json.loads((HERE / "vectors/masked_sum/v1/session.json").read_text())
BROKEN = json.loads((HERE / "vectors/masked_sum/v1/broken.json").read_text())
MAKE = runpy.run_path(str(HERE / "make_masked_vectors.py"))
PRIME = 2**264 - 275
BINDING = bytes.fromhex(FILE["binding"])
CLIENTS = {c["client"]: c for c in FILE["clients"]}
ROSTER = tuple(FILE["session"]["roster"])
ALIVE = tuple(FILE["survivors"])


def octets(value):
    return bytes.fromhex(value)


def four(*ids):
    return b"".join(i.to_bytes(4, "big") for i in ids)


def hkdf(secret, purpose, context):
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, b"cloister/v1/" + purpose.encode() + b"\x00" + context + b"\x01", "sha256")


def stream(key, words):
    data = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(bytes(4 * words))
    return list(struct.unpack(f"<{words}I", data))


def said(kind, client):
    """The fields of the one message of this kind from or to a client."""
    (frame,) = (f for f in FILE["frames"] if f["kind"] == kind and client in (f["sender"], f["receiver"]))
    return cbor2.loads(octets(frame["bytes"]))[5:]


def exchange(mine, theirs):
    return X25519PrivateKey.from_private_bytes(octets(mine)).exchange(X25519PublicKey.from_public_bytes(octets(theirs)))


def check_signed(client, signature, purpose, content):
    parts = (b"cloister/v1/signature/" + purpose.encode(), BINDING, content)
    signed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    Ed25519PublicKey.from_public_bytes(octets(CLIENTS[client]["enrolled"])).verify(signature, signed)


def test_the_binding_is_of_session_terms_and_charter():
    s, t = FILE["session"], FILE["terms"]
    session = [2, s["protocol"], octets(s["run"]), s["round"], s["cluster"], s["roster"], s["threshold"]]
    assert hashlib.sha256(cbor2.dumps(session, canonical=True)).hexdigest() == s["digest"]
    size = [
        t["ring_bits"],
        t["length"],
        t["bits"],
        struct.pack(">d", t["clip"]),
        t["max_weight"],
        t["neighbours"],
        t["threshold"],
    ]
    what = [octets(t[name]) for name in ("graph_seed", "model", "update", "weights")]
    assert hashlib.sha256(cbor2.dumps([*size, *what, t["times_samples"]], canonical=True)).hexdigest() == t["digest"]
    whole = b"cloister/v1/masked sum" + octets(s["digest"]) + octets(t["digest"]) + octets(FILE["charter"]["digest"])
    assert hashlib.sha256(whole).digest() == BINDING
    assert struct.unpack(">4d", octets(t["weights"])) == (1.0, 1.0, 1.0, -1.0)


def test_the_charter_is_what_clients_know_beforehand():
    encoded = octets(FILE["charter"]["encoded"])
    assert hashlib.sha256(b"cloister/v1/charter" + encoded).hexdigest() == FILE["charter"]["digest"]
    run, initial, d, ring_bits, clip, max_samples, floor, corrupt, noisy, dropped, span, sums, apart, who = cbor2.loads(encoded)
    assert cbor2.dumps(cbor2.loads(encoded), canonical=True) == encoded
    assert (run.hex(), initial.hex()) == (FILE["session"]["run"], FILE["terms"]["model"])
    assert (d, ring_bits, struct.unpack(">d", clip), max_samples) == (1, 32, (1.0,), 10)
    assert (floor, corrupt, noisy, dropped, span, sums, apart) == (3, 0, 0, None, 8, None, 0)
    assert who == [item for client, c in CLIENTS.items() for item in (client, octets(c["enrolled"]))]


def test_the_noise_is_in_the_charter():
    encoded, plain = (cbor2.loads(octets(FILE[name]["encoded"])) for name in ("charter_with_noise", "charter"))
    digest = hashlib.sha256(b"cloister/v1/charter" + octets(FILE["charter_with_noise"]["encoded"])).hexdigest()
    assert digest == FILE["charter_with_noise"]["digest"]
    *floats, rounds, adjacency, acknowledged = encoded[8]
    assert [struct.unpack(">d", x) for x in (*floats, encoded[9])] == [(6.0,), (1e-4,), (0.5,), (1e-6,), (0.25,)]
    assert (rounds, adjacency, acknowledged) == (3, "zero out", ["gram"])
    assert encoded[:8] + encoded[10:] == plain[:8] + plain[10:]


def test_a_transcript_is_a_chain_from_the_charter_of_the_proposal_and_the_survivors():
    found = FILE["transcript"]
    (proposal,) = (f for f in FILE["frames"] if f["kind"] == "Proposal" and f["receiver"] == found["client"])
    gave, signed = [0, octets(proposal["bytes"])], [1, BINDING, list(ALIVE)]
    head = octets(FILE["charter"]["digest"])
    for step, encoded, after in zip((gave, signed), found["steps"], found["heads"], strict=True):
        assert cbor2.dumps(step, canonical=True).hex() == encoded
        head = hashlib.sha256(head + octets(encoded)).digest()
        assert head.hex() == after


def test_keys_follow_from_the_roots():
    for client, c in CLIENTS.items():
        root = octets(c["root"])
        assert [hkdf(root, p, BINDING).hex() for p in ("self seed", "mask key", "sealing key")] == [
            c["self_seed"],
            c["mask_key"],
            c["sealing_key"],
        ]
        for secret, public in (("mask_key", "mask_public"), ("sealing_key", "seal_public")):
            assert X25519PrivateKey.from_private_bytes(octets(c[secret])).public_key().public_bytes_raw().hex() == c[public]
        identity = Ed25519PrivateKey.from_private_bytes(octets(c["identity"]))
        assert identity.public_key().public_bytes_raw().hex() == c["enrolled"]
        mask_public, seal_public, signature = said("MaskKeys", client)
        assert (mask_public.hex(), seal_public.hex()) == (c["mask_public"], c["seal_public"])
        check_signed(client, signature, "masked sum keys", mask_public + seal_public)


def test_masks_and_masked_inputs():
    for client, c in CLIENTS.items():
        own = hkdf(octets(c["self_seed"]), "self mask", BINDING + four(client))
        assert own.hex() == c["self_mask_key"]
        assert stream(own, 3) == c["self_mask"]
        masked = [a + b for a, b in zip(c["input"], c["self_mask"], strict=True)]
        for peer, key in c["pair_mask_keys"].items():
            ends = four(*sorted((client, int(peer))))
            pair = hkdf(exchange(c["mask_key"], CLIENTS[int(peer)]["mask_public"]), "pair mask", BINDING + ends)
            assert pair.hex() == key == CLIENTS[int(peer)]["pair_mask_keys"][str(client)]
            sign = 1 if client < int(peer) else -1
            masked = [a + sign * b for a, b in zip(masked, stream(pair, 3), strict=True)]
        if client in ALIVE:
            (vector,) = said("MaskedInput", client)
            assert list(struct.unpack("<3I", vector)) == [a % 2**32 for a in masked]


def test_dealings_commit_to_shares_that_any_two_recover():
    for client, c in CLIENTS.items():
        dealing, sealed, signature = said("SealedShares", client)
        check_signed(client, signature, "masked sum dealing", dealing)
        others = [i for i in ROSTER if i != client]
        assert dealing[:12] == four(*others)
        for kind, name, secret in ((1, "self_seed_shares", "self_seed"), (2, "mask_key_shares", "mask_key")):
            shares = [octets(share) for share in c[name]]
            terms = bytes([kind]) + four(2, 3, *others) + BINDING + four(client)
            context = hashlib.sha256(b"cloister/v1/shamir" + terms).digest()
            points = []
            for at, (holder, share) in enumerate(zip(others, shares, strict=True)):
                assert share[:5] == bytes([kind]) + four(holder)
                value, salt = share[5:38], share[38:]
                domain, bound = b"cloister/v1/commitment", context + four(holder)
                head = b"".join(len(part).to_bytes(8, "big") + part for part in (domain, bound))
                commitment = dealing[12 + 96 * (kind - 1) + 32 * at :][:32]
                assert hashlib.sha256(head + salt + value).digest() == commitment
                points.append((holder + 1, int.from_bytes(value, "big")))
            for (x, a), (y, b) in combinations(points, 2):
                assert (a * y - b * x) * pow(y - x, -1, PRIME) % PRIME == int(c[secret], 16)
        for holder, box, *shares in zip(others, sealed, c["self_seed_shares"], c["mask_key_shares"], strict=True):
            context = BINDING + four(client, holder)
            key = hkdf(exchange(CLIENTS[holder]["sealing_key"], c["seal_public"]), "seal", context)
            content = b"".join(map(octets, shares)) + hashlib.sha256(dealing).digest()
            assert ChaCha20Poly1305(key).decrypt(bytes(12), box, context) == content


def test_survivors_signatures_and_what_they_open():
    silent = FILE["silent_before_its_input"]
    assert tuple(i for i in ROSTER if i != silent) == ALIVE
    digest = hashlib.sha256(four(*ALIVE)).digest()
    assert digest.hex() == FILE["survivors_digest"]
    for client in ALIVE:
        assert said("Survivors", client) == [list(ALIVE)]
        signature, head = said("SurvivorSignature", client)
        check_signed(client, signature, "masked sum survivors", digest + head)
        if client == FILE["transcript"]["client"]:
            assert head.hex() == FILE["transcript"]["heads"][-1]
        alive, seeds, dropped, keys = said("Reveal", client)
        assert (alive, dropped) == ([i for i in ALIVE if i != client], [silent])
        for peer, share in [*zip(alive, seeds, strict=True), *zip(dropped, keys, strict=True)]:
            kind = "mask_key_shares" if peer == silent else "self_seed_shares"
            assert share.hex() == CLIENTS[peer][kind][[i for i in ROSTER if i != peer].index(client)]


def test_the_sum_is_that_of_the_survivors_and_the_transcript_gives_it():
    assert FILE["sum"] == [sum(CLIENTS[i]["input"][c] for i in ALIVE) for c in range(3)]
    total = np.sum([np.frombuffer(said("MaskedInput", i)[0], "<u4") for i in ALIVE], axis=0, dtype=np.uint32).astype(object)
    silent = FILE["silent_before_its_input"]
    for i in ALIVE:
        total -= np.array(CLIENTS[i]["self_mask"], object)
        sign = 1 if i < silent else -1
        total -= sign * np.array(stream(octets(CLIENTS[silent]["pair_mask_keys"][str(i)]), 3), object)
    assert [value % 2**32 for value in total] == FILE["sum"]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in BROKEN])
def test_broken_messages_are_refused_where_and_as_told(case):
    told = {name: case[name] for name in ("must_fail_in", "blame", "reason")}
    assert MAKE["refusal"](case["frame"], octets(case["bytes"])) == told


def test_every_kind_of_message_has_vectors_of_both_signs():
    kinds = {f["kind"] for f in FILE["frames"]}
    assert {FILE["frames"][case["frame"]]["kind"] for case in BROKEN} == kinds
    assert len(kinds) == 12
