"""Keys, streams, transforms, seals and signatures: published vectors, second computations, and what must fail."""

import hashlib
import hmac

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, norm

from cloister.crypto import agreement, orthonormal
from cloister.crypto import identity as identity_module
from cloister.crypto.agreement import AgreementKey, ExchangedOnce, exchange_keys
from cloister.crypto.entropy import OsEntropy, SimulatedEntropy
from cloister.crypto.identity import BadSignature, SigningKey, VerifyingOnce, verify
from cloister.crypto.orthonormal import HadamardRotation, Permutation, SignedPermutation
from cloister.crypto.prg import derive_key, keystream, random_permutation, random_signs, random_uint64
from cloister.crypto.sealing import InvalidSeal, SealingKey

TRANSFORMS = [orthonormal.Identity, Permutation, SignedPermutation, HadamardRotation]
SECRET_TRANSFORMS = TRANSFORMS[1:]
keys = st.binary(min_size=32, max_size=32)
lengths = st.integers(1, 300)


# --- independent computations ---------------------------------------------------------------------------------------------


def hkdf(secret, info, size, salt=bytes(32)):
    """RFC 5869 with SHA-256, from hmac alone."""
    pseudorandom = hmac.digest(salt, secret, "sha256")
    blocks, block = b"", b""
    for i in range(1, -(-size // 32) + 1):
        block = hmac.digest(pseudorandom, block + info + bytes([i]), "sha256")
        blocks += block
    return blocks[:size]


def x25519(scalar, u):
    """RFC 7748 section 5, the Montgomery ladder on integers."""
    p = 2**255 - 19
    k = (int.from_bytes(scalar, "little") & ~7 & ((1 << 255) - 1)) | (1 << 254)
    x = int.from_bytes(u, "little") & ((1 << 255) - 1)
    x2, z2, x3, z3 = 1, 0, x, 1
    for bit in reversed(range(255)):
        swap = k >> bit & 1
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % p, b * b % p, d * a % p, c * b % p
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % p, x * (da - cb) ** 2 % p
        x2, z2 = aa * bb % p, e * (aa + 121665 * e) % p
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, p - 2, p) % p).to_bytes(32, "little")


# --- published vectors ----------------------------------------------------------------------------------------------------


def test_second_hkdf_gives_rfc_5869_case_3():
    expected = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
    assert hkdf(bytes([0x0B] * 22), b"", 42) == bytes.fromhex(expected)


@given(st.binary(min_size=16, max_size=80), st.text(max_size=20), st.binary(max_size=40))
@settings(max_examples=50)
def test_derived_keys_are_hkdf_sha256_with_a_domain(secret, purpose, context):
    info = b"cloister/v1/" + purpose.encode() + b"\x00" + context
    assert derive_key(secret, purpose, context) == hkdf(secret, info, 32)


def test_keystream_under_the_zero_key_is_that_of_the_gcm_specification():
    """McGrew and Viega 2004, cases 13 and 14: H = E(0), the tag of nothing = E(1), the first ciphertext block = E(2)."""
    blocks = ["dc95c078a2408989ad48a21492842087", "530f8afbc74536b9a963b4f1c4cb738b", "cea7403d4d606b6e074ec5d3baf39d18"]
    assert keystream(bytes(32), 48) == bytes.fromhex("".join(blocks))


def test_keystream_encrypts_the_counter_block_by_block():
    """The block cipher itself is checked by SP 800-38A, F.1.5."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    block = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305
    assert block.update(bytes.fromhex("6bc1bee22e409f96e93d7e117393172a")).hex() == "f3eed1bdb5d2a03c064b5a7e3db181f8"
    counters = b"".join(i.to_bytes(16, "big") for i in range(300))
    assert keystream(key, 4800) == block.update(counters)


def test_identity_is_ed25519_of_rfc_8032_case_1():
    secret = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    expected = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert SigningKey.from_secret(secret).public.hex() == expected


def test_a_seal_is_x25519_then_hkdf_then_chacha20_poly1305():
    ours, theirs, context = SealingKey(bytes(range(32))), SealingKey(bytes(range(32, 64))), b"context"
    assert ours.public == x25519(ours.secret, (9).to_bytes(32, "little"))
    agreed = x25519(ours.secret, theirs.public)
    key = hkdf(agreed, b"cloister/v1/seal\x00" + context, 32)
    expected = ChaCha20Poly1305(key).encrypt(bytes(12), b"the content", context)
    assert ours.seal(theirs.public, b"the content", context) == expected


# --- streams --------------------------------------------------------------------------------------------------------------


def test_every_key_bit_reaches_the_stream_and_all_that_is_drawn_from_it():
    key = hashlib.sha256(b"key bits").digest()
    flipped = [bytes(b ^ (1 << bit % 8) if i == bit // 8 else b for i, b in enumerate(key)) for bit in range(256)]
    for draw in (
        lambda k: keystream(k, 32),
        lambda k: derive_key(k, "p", b""),
        lambda k: random_permutation(k, 64).tobytes(),
        lambda k: random_signs(k, 128).tobytes(),
        lambda k: HadamardRotation.draw(k, 100).first.tobytes(),
        lambda k: SignedPermutation.draw(k, 100).permutation.order.tobytes(),
    ):
        assert len({draw(k) for k in [key, *flipped]}) == 257


def test_a_longer_stream_begins_with_the_shorter_one():
    key = bytes(range(32))
    assert keystream(key, 100)[:37] == keystream(key, 37)
    assert keystream(key, 0) == b""
    words = [int.from_bytes(keystream(key, 80)[i : i + 8], "little") for i in range(0, 80, 8)]
    assert random_uint64(key, 10).tolist() == words


def test_purposes_contexts_and_secrets_give_different_keys():
    pairs = [("a", b""), ("a", b"b"), ("ab", b""), ("", b"ab"), ("a", b"\x00b")]
    assert len({derive_key(secret, *pair) for secret in (bytes(16), bytes([1] * 16)) for pair in pairs}) == 2 * len(pairs)


@pytest.mark.parametrize("size", [0, 1, 15])
def test_short_secrets_are_refused(size):
    with pytest.raises(ValueError, match="too short"):
        derive_key(bytes(size), "p", b"")


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_keys_of_another_length_are_refused(size):
    with pytest.raises(ValueError, match="32 bytes"):
        keystream(bytes(size), 1)


@given(keys, st.integers(0, 400))
def test_a_permutation_permutes(key, count):
    order = random_permutation(key, count)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(count))


def test_permutations_are_uniform():
    """Chi-square over the 24 permutations of 4; the threshold is passed by a fair generator except once in 10^6 keys."""
    draws = 24_000
    seen = {}
    for i in range(draws):
        order = tuple(random_permutation(i.to_bytes(32, "big"), 4).tolist())
        seen[order] = seen.get(order, 0) + 1
    statistic = sum((n - draws / 24) ** 2 / (draws / 24) for n in seen.values())
    assert len(seen) == 24
    assert statistic < chi2.isf(1e-6, 23)


def test_signs_are_fair_and_pairwise_independent():
    signs = random_signs(hashlib.sha256(b"signs").digest(), 200_000).astype(np.float64)
    limit = norm.isf(1e-6) * np.sqrt(200_000)
    assert set(signs.tolist()) == {-1.0, 1.0}
    assert abs(signs.sum()) < limit
    assert all(abs(signs[lag:] @ signs[:-lag]) < limit for lag in (1, 2, 7, 8, 64, 128))


# --- transforms -----------------------------------------------------------------------------------------------------------


def vectors(key, d, count=2):
    return np.random.default_rng(list(key)).standard_normal((count, d)).astype(np.float32)


@pytest.mark.parametrize("transform", TRANSFORMS)
@given(key=keys, d=lengths)
@settings(max_examples=60)
def test_transforms_are_linear_isometries_that_invert(transform, key, d):
    drawn = transform.draw(key, d)
    a, b = vectors(key, d)
    x, y = drawn.apply(a), drawn.apply(b)
    scale = float(np.linalg.norm(a) * np.linalg.norm(b))
    assert x.dtype == np.float32
    assert x.shape == (drawn.length,)
    assert drawn.length >= d
    assert (
        abs(float(x.astype(np.float64) @ y.astype(np.float64) - a.astype(np.float64) @ b.astype(np.float64)))
        <= (drawn.tolerance + 1e-12) * scale
    )
    assert np.linalg.norm(drawn.invert(x) - a) <= drawn.tolerance * np.linalg.norm(a)
    mixed = drawn.apply(np.float32(2) * a - b)
    assert np.linalg.norm(mixed - (2 * x - y)) <= (drawn.tolerance + 1e-6) * (2 * np.linalg.norm(a) + np.linalg.norm(b))


@pytest.mark.parametrize("d", [1, 2, 3, 64, 100, 127, 128, 129, 256, 300])
def test_the_matrix_of_a_rotation_has_orthonormal_columns(d):
    drawn = HadamardRotation.draw(hashlib.sha256(b"matrix").digest(), d)
    columns = np.stack([drawn.apply(unit) for unit in np.eye(d, dtype=np.float32)]).astype(np.float64)
    assert np.allclose(columns @ columns.T, np.eye(d), atol=drawn.tolerance)


@pytest.mark.parametrize("bits", [0, 1, 3, 7, 8, 10])
def test_walsh_hadamard_is_its_definition(bits):
    """Entry (i, j) is (-1)^popcount(i & j) / sqrt(n)."""
    n = 1 << bits
    matrix = np.array([[(-1) ** (i & j).bit_count() for j in range(n)] for i in range(n)]) / np.sqrt(n)
    ones, vector = np.ones(n, dtype=np.float32), vectors(bytes(32), n, 1)[0]
    assert np.allclose(HadamardRotation(n, ones, ones).apply(vector), matrix @ (matrix @ vector), atol=1e-5)
    signs = random_signs(bytes(32), n)
    assert np.allclose(HadamardRotation(n, ones, signs).apply(vector), matrix @ (signs * (matrix @ vector)), atol=1e-5)


def test_a_rotation_keeps_inner_products_at_the_length_of_a_model():
    drawn = HadamardRotation.draw(bytes(32), 200_001)
    a, b = vectors(bytes(32), 200_001)
    x, y = drawn.apply(a).astype(np.float64), drawn.apply(b).astype(np.float64)
    scale = np.linalg.norm(a) * np.linalg.norm(b)
    assert abs(x @ y - a.astype(np.float64) @ b) <= drawn.tolerance * scale
    assert np.linalg.norm(drawn.invert(drawn.apply(a)) - a) <= drawn.tolerance * np.linalg.norm(a)


def test_a_rotation_spreads_every_single_value():
    drawn = HadamardRotation.draw(bytes(32), 1024)
    for i in (0, 1, 500, 1023):
        assert np.abs(drawn.apply(np.eye(1024, dtype=np.float32)[i])).max() < 0.2


@pytest.mark.parametrize("transform", [Permutation, SignedPermutation])
@given(key=keys, d=lengths)
@settings(max_examples=30)
def test_permutations_are_exact_and_leak_what_they_say(transform, key, d):
    (vector,) = vectors(key, d, 1)
    hidden = transform.draw(key, d).apply(vector)
    assert transform.draw(key, d).invert(hidden).tobytes() == vector.tobytes()
    shown = np.abs if transform is SignedPermutation else np.asarray
    assert np.array_equal(np.sort(shown(hidden)), np.sort(shown(vector)))


@pytest.mark.parametrize("transform", SECRET_TRANSFORMS)
@given(key=keys, other=keys)
@settings(max_examples=20)
def test_the_key_alone_decides_the_transform(transform, key, other):
    (vector,) = vectors(bytes(32), 100, 1)
    once, again, elsewhere = (transform.draw(k, 100).apply(vector).tobytes() for k in (key, key, other))
    assert once == again
    assert (once == elsewhere) == (key == other)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_refuse_other_lengths(transform):
    drawn = transform.draw(bytes(32), 5)
    for call, length in ((drawn.apply, 5), (drawn.invert, drawn.length)):
        for shape in ((length - 1,), (length + 1,), (1, length), ()):
            with pytest.raises(ValueError, match="coordinates"):
                call(np.zeros(shape, dtype=np.float32))


# --- seals and signatures -------------------------------------------------------------------------------------------------


@given(keys, keys, st.binary(max_size=100), st.binary(max_size=50))
@settings(max_examples=50)
def test_a_seal_opens_for_its_receiver(mine, theirs, content, context):
    sender, receiver = SealingKey(mine), SealingKey(theirs)
    sealed = sender.seal(receiver.public, content, context)
    assert len(sealed) == len(content) + 16
    assert receiver.open(sender.public, sealed, context) == content


def test_a_seal_opens_nowhere_else_and_never_says_why():
    sender, receiver, other = (SealingKey(bytes([i] * 32)) for i in (1, 2, 3))
    sealed = sender.seal(receiver.public, bytes(32), b"here")
    attempts = [(receiver, sender.public, sealed, context) for context in (b"", b"her", b"here ", b"there")]
    attempts += [(other, sender.public, sealed, b"here"), (receiver, other.public, sealed, b"here")]
    attempts += [(receiver, key, sealed, b"here") for key in (b"", bytes(31), bytes(32), bytes([1] + [0] * 31))]
    attempts += [(receiver, sender.public, sealed[:n], b"here") for n in (0, 15, 16, 47)]
    attempts += [(receiver, sender.public, sealed + b"\x00", b"here")]
    attempts += [
        (receiver, sender.public, sealed[:i] + bytes([sealed[i] ^ (1 << bit)]) + sealed[i + 1 :], b"here")
        for i in range(len(sealed))
        for bit in (0, 7)
    ]
    reasons = set()
    for key, peer, data, context in attempts:
        with pytest.raises(InvalidSeal) as failure:
            key.open(peer, data, context)
        reasons.add(str(failure.value))
    assert len(reasons) == 1


@pytest.mark.parametrize("peer", [b"", bytes(31), bytes(32), bytes([1] + [0] * 31)])
def test_sealing_to_an_unusable_key_fails(peer):
    with pytest.raises(InvalidSeal):
        SealingKey(bytes([1] * 32)).seal(peer, b"content", b"")


@pytest.mark.parametrize("kept", [0, 1 << 14])
@pytest.mark.parametrize("key_of", [AgreementKey, SealingKey])
def test_what_two_parties_of_one_process_agree_on_is_found_once_and_forgotten(key_of, kept, monkeypatch):
    found = []
    monkeypatch.setattr(agreement, "exchange_keys", lambda *given: found.append(exchange_keys(*given)) or found[-1])
    once = ExchangedOnce(kept)
    secrets = [bytes([i] * 32) for i in range(1, 5)]

    def between(exchange):
        keys = [key_of(secret, exchange) for secret in secrets]
        agree = AgreementKey.agree if key_of is AgreementKey else lambda key, peers, purpose: [key.between(p) for p, _ in peers]
        return [agree(a, [(b.public, b"between") for b in keys if b is not a], "mask") for a in keys]

    assert between(once) == between(exchange_keys)
    assert len(found) == (6 if kept else 12)
    assert not once._found
    with pytest.raises(ValueError):
        once(AgreementKey(secrets[0])._private, bytes(32))


@pytest.mark.parametrize("check", [verify, VerifyingOnce(), VerifyingOnce(1)], ids=["each time", "once", "the last one"])
def test_a_signature_is_for_one_purpose_context_and_content(check):
    noted = check.note if isinstance(check, VerifyingOnce) else None
    identity, other = SigningKey(bytes([1] * 32), noted), SigningKey.from_secret(bytes([2] * 32))
    said = ("purpose", b"context", b"content")
    signature = identity.sign(*said)
    check(identity.public, signature, *said)
    wrong = [
        ("purposes", b"context", b"content"),
        ("purpose", b"contex", b"tcontent"),  # the border between the parts counts
        ("purposecontext", b"", b"content"),
        ("purpose", b"", b"contextcontent"),
        ("purpose", b"context", b""),
    ]
    attempts = [(identity.public, signature, *w) for w in wrong]
    attempts += [(key, signature, *said) for key in (other.public, b"", bytes(32), bytes(33))]
    attempts += [(identity.public, data, *said) for data in (b"", signature[:-1], signature + b"\x00", bytes(64))]
    attempts += [
        (identity.public, signature[:i] + bytes([signature[i] ^ 1]) + signature[i + 1 :], *said) for i in range(len(signature))
    ]
    for attempt in attempts:
        with pytest.raises(BadSignature):
            check(*attempt)


def test_signatures_that_were_right_or_made_here_are_checked_once(monkeypatch):
    checked = []
    monkeypatch.setattr(identity_module, "verify", lambda *given: checked.append(verify(*given)))
    once = VerifyingOnce(2)
    here, elsewhere = SigningKey(bytes([1] * 32), once.note), SigningKey(bytes([2] * 32))
    said = [("purpose", b"", bytes([i])) for i in range(3)]
    signed = [(here.public, here.sign(*said[0]), *said[0]), *((elsewhere.public, elsewhere.sign(*s), *s) for s in said[1:])]
    for attempt in (signed[0], signed[1], signed[1], signed[0]):
        once(*attempt)
    assert len(checked) == 1
    once(*signed[2])  # the first one is forgotten
    once(*signed[0])
    assert len(checked) == 3


@pytest.mark.parametrize("size", [0, 31, 33])
def test_identities_need_32_bytes(size):
    with pytest.raises(ValueError):
        SigningKey.from_secret(bytes(size))


# --- entropy and secrets --------------------------------------------------------------------------------------------------


def test_simulated_entropy_is_a_function_of_seed_and_label():
    labels = ["a", "b", "ab", ""]
    drawn = {(seed, label): SimulatedEntropy(seed).secret(label, 32) for seed in (-1, 0, 1, 2**64) for label in labels}
    assert len(set(drawn.values())) == len(drawn)
    assert SimulatedEntropy(1).secret("a", 32) == drawn[1, "a"]


def test_entropy_of_the_system_repeats_nothing_and_is_another_type():
    assert OsEntropy().secret("a", 32) != OsEntropy().secret("a", 32)
    assert len(OsEntropy().secret("a", 7)) == 7
    assert not isinstance(SimulatedEntropy(0), OsEntropy)
    assert not isinstance(OsEntropy(), SimulatedEntropy)


def test_secrets_do_not_print():
    secret = bytes(range(100, 132))
    holders = [SealingKey(secret), SigningKey.from_secret(secret), *(t.draw(secret, 7) for t in SECRET_TRANSFORMS)]
    for holder in holders:
        shown = repr(holder) + str(holder) + f"{holder}"
        assert "array" not in shown
        assert not any(part in shown for part in (repr(secret), str(secret)[2:-1], secret.hex(), "order", "signs", "secret"))
    assert "987654321" not in repr(SimulatedEntropy(987654321))
