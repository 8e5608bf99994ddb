"""The secret key of CKKS from shared decryptions, and what the shipped protocol shares instead."""

import math

import numpy as np
import pytest

from cloister.crypto.ckks import MOST_DIGITS, PRODUCTS, SUMS
from cloister.crypto.ckks_ciphertexts import add
from cloister.crypto.ckks_parameters import CkksParameters
from cloister.crypto.ckks_secret import SecretContext
from cloister.protocol.core.session import SERVER
from cloister.protocol.encrypted.keys import KeyName, opened_secret
from cloister.protocol.encrypted.messages import EncryptedInput, EncryptedSum, RoundedScores, ScoreRequest, SumOpened
from cloister.protocol.encrypted.scaling import MIDDLE, PER_LOG, SCALE
from cloister.protocol.messages import decode
from cloister.threat_models.inference.ckks_key import flooding_bits, opened, opened_by_client, recovered_key
from cloister.threat_models.inference.ckks_ring import Ciphertext, coefficients, decoded, encoded, values_of

from .encrypted_session import LIMIT, RUN, SEED, D, Play, made_once

SLOTS = 4096


@pytest.fixture(autouse=True)
def once(monkeypatch):
    monkeypatch.setattr(SecretContext, "generate", made_once)


def summed(parameters, seed=0):
    """Two sums that a server made of clients' ciphertexts, a third client's ciphertext, and their values."""
    rng = np.random.default_rng(seed)
    key = SecretContext.generate(parameters)
    public = key.public()
    values = rng.standard_normal((5, SLOTS))
    inputs = [public.encrypt(v) for v in values]
    totals = [add(inputs[:2]), add(inputs[2:4])]
    return key, totals, inputs[4], values


def ring(encrypted):
    return Ciphertext.of(encrypted.chunks[0])


@pytest.mark.long
@pytest.mark.parametrize("parameters", [SUMS, CkksParameters(8192, (60, 40, 40, 60), 40)], ids=["ours", "four primes"])
def test_two_shared_decryptions_give_the_key_and_with_it_everything(parameters):
    key, totals, victim, values = summed(parameters)
    shared = [key.decrypt(total)._values for total in totals]
    secret = recovered_key([ring(total) for total in totals], shared)
    assert secret is not None
    assert set(secret) == {-1, 0, 1}
    np.testing.assert_allclose(opened(ring(victim), secret), values[4], atol=1e-6)


@pytest.mark.parametrize(("digits", "found"), [(12, True), (MOST_DIGITS, False)])
def test_what_may_be_said_of_a_decryption_does_not_give_the_key(digits, found):
    """Twelve decimals are below the encryption's noise; as many as `Decrypted` hands out are above it."""
    key, totals, _, _ = summed(SUMS)
    shared = [np.round(key.decrypt(total)._values, digits) for total in totals]
    assert (recovered_key([ring(total) for total in totals], shared) is not None) == found
    with pytest.raises(ValueError, match="decimals"):
        key.decrypt(totals[0]).rounded(12)


def test_one_decryption_said_twice_gives_nothing():
    key, totals, _, _ = summed(SUMS)
    values = key.decrypt(totals[0])._values
    assert recovered_key([ring(totals[0])] * 2, [values] * 2) is None


def messages(play, kind):
    found = [decode(f.data, f.sender, LIMIT) for f in play.network.frames]
    return [e for e in found if isinstance(e.message, kind)]


@pytest.mark.long
def test_the_rounded_scores_that_the_server_is_sent_do_not_give_the_key():
    """All that a server is told of decrypted products: it takes them for the slots of the ciphertexts that it made."""
    play = Play(3)
    key = play.key("products").key
    sketches = play.collect(key).received
    play.compare(key, sketches.values())
    request = messages(play, ScoreRequest)[0].message
    (scores,) = [e.message for e in messages(play, RoundedScores) if e.receiver == SERVER]
    lengths = MIDDLE + PER_LOG * np.frombuffer(scores.norms, "<i4") / 10**request.digits
    cosines = np.eye(3)
    cosines[np.triu_indices(3, 1)] = np.frombuffer(scores.cosines, "<i4") / 10**request.digits
    products = (cosines * np.outer(lengths, lengths))[np.triu_indices(3)]
    owner = SecretContext.generate(PRODUCTS)
    exact = [owner.decrypt(owner.read_product(p))._values[0] for p in request.products]
    assert exact.pop() == pytest.approx(MIDDLE**2, rel=1e-6), "that of its own test vector, of which it is told nothing"
    np.testing.assert_allclose(products, exact, atol=0.1 * MIDDLE)  # it knows the values, to as many digits as it was told
    held = [Ciphertext.of(owner.read_product(p).chunks[0]) for p in request.products]
    for values in (products, exact):
        assert recovered_key(held[:2], [np.full(SLOTS, value) for value in values[:2]]) is None
    assert not {type(e.message) for e in messages(play, object) if e.receiver == SERVER} & {EncryptedSum}


def test_of_a_sum_the_server_is_told_its_weight_alone():
    play = Play(3)
    play.sum()
    (told,) = {e.message.weight for e in messages(play, SumOpened)}
    assert len(told) == 8
    assert all(e.receiver != SERVER for e in messages(play, EncryptedSum))


def test_any_client_opens_what_all_others_encrypted():
    play = Play(3)
    play.sum()
    total = messages(play, EncryptedSum)[0].message
    sent = {e.sender: e.message.ciphertexts for e in messages(play, EncryptedInput)}
    name = KeyName(RUN, "sums", total.round, total.cluster)
    key = opened_secret(SEED, name, total.holder, total.public, total.sealed)  # as client 1 opens it: all have the seed
    for other, ciphertexts in sent.items():
        found = opened_by_client(key, ciphertexts, D + 2)[:D] / SCALE
        np.testing.assert_allclose(found, play.vectors[other], atol=1e-6)


def test_flooding_bits_are_those_of_the_formula():
    assert flooding_bits(1e-3, 2.7e-9, 1) == pytest.approx(33.4, abs=0.1)
    assert flooding_bits(1e-2, 2.7e-9, 1000) == pytest.approx(30.1, abs=0.1)
    for bits, queries in ((30.0, 1), (40.0, 128)):
        assert flooding_bits(math.sqrt(12 * queries) * 2 ** (bits / 2), 1.0, queries) == pytest.approx(bits)
    with pytest.raises(ValueError, match="above 0"):
        flooding_bits(0.0, 1.0, 1)


def test_the_ring_is_that_of_the_library():
    """Encoding and decoding are inverse, and so are the two orders; what TenSEAL encrypts is what is decoded."""
    rng = np.random.default_rng(0)
    slots = rng.standard_normal(64)
    np.testing.assert_allclose(decoded(encoded(slots, 2.0**40), 2.0**40), slots, atol=1e-9)
    prime = 1152921504606830593
    values = np.array([int(x) for x in rng.integers(prime, size=128)], dtype=object)
    assert list(values_of(coefficients(values, prime), prime)) == list(values)
