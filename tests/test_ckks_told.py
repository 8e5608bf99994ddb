"""Encryptions that can be made again: the same bytes, the values that they are of, and what the library refuses without them."""

import numpy as np
import pytest

from cloister.crypto.ckks import PRODUCTS, SUMS
from cloister.crypto.ckks_ciphertexts import EncryptedVector, add, inner_product
from cloister.crypto.ckks_contexts import primes_of, public_key_of
from cloister.crypto.ckks_secret import SecretContext
from cloister.crypto.ckks_told import chunk_of

SEED = bytes(range(32))


@pytest.fixture(scope="module")
def keys():
    return {parameters: SecretContext.generate(parameters) for parameters in (SUMS, PRODUCTS)}


@pytest.mark.parametrize("length", [1, 64, 4096, 5000])
@pytest.mark.parametrize("parameters", [SUMS, PRODUCTS], ids=["sums", "products"])
def test_it_is_made_again_and_opens_to_its_values(keys, parameters, length):
    secret, public = keys[parameters], keys[parameters].public()
    values = np.random.default_rng(length).standard_normal(length)
    values *= 100 / np.linalg.norm(values)
    made = public.encrypt_with(values, SEED)
    assert made.to_bytes() == secret.public().encrypt_with(values, SEED).to_bytes()
    assert np.abs(secret.decrypt(public.read(made.to_bytes(), length)).rounded(8) - values).max() < 1e-7
    other = public.encrypt_with(values, bytes(32))
    assert made.to_bytes() != other.to_bytes()
    if parameters.multiplies:
        for one in (made, other, public.encrypt(values)):
            assert secret.decrypt(inner_product(made, one)).rounded(8)[0] == pytest.approx(1e4, rel=1e-6)


def test_nobody_opens_it_with_another_key(keys):
    made = keys[PRODUCTS].public().encrypt_with(np.ones(64), SEED)
    other = SecretContext.generate(PRODUCTS)
    assert np.abs(other.decrypt(other.read(made.to_bytes(), 64)).rounded(2)).max() > 1e6


def test_vectors_that_cancel_each_other_are_added_in_the_same_way_again(keys):
    """The library refuses what has no randomness left; what was put in its place was drawn, so that no journal had it again."""
    secret, public = keys[SUMS], keys[SUMS].public()
    numbers = public_key_of(public._context, SUMS)[:, :-1]
    one = EncryptedVector(SUMS, 64, (chunk_of(public._context, SUMS, numbers, 64),))
    minus = EncryptedVector(SUMS, 64, (-one.chunks[0],))
    totals = [add([one, minus]) for _ in range(2)]
    assert totals[0].to_bytes() == totals[1].to_bytes()
    assert np.abs(secret.decrypt(totals[0]).rounded(8)).max() < 1e-7


def test_two_that_know_the_public_key_make_no_product_that_cannot_be_computed(keys):
    """Each is the negative of the key in half of the places: with the key itself added to both nothing was left, and the maker of
    an honest key was at fault.
    """
    public = keys[PRODUCTS].public()
    numbers = public_key_of(public._context, PRODUCTS)[:, :-1]
    primes = np.array(primes_of(PRODUCTS), np.uint64)[:, None]
    half = np.arange(PRODUCTS.degree) % 2 == 0
    one, other = (
        EncryptedVector(PRODUCTS, 64, (chunk_of(public._context, PRODUCTS, np.where(places, primes - numbers, 0), 64),))
        for places in (half, ~half)
    )
    found = [inner_product(public.read(one.to_bytes(), 64), public.read(other.to_bytes(), 64)) for _ in range(2)]
    assert found[0].to_bytes() == found[1].to_bytes()
