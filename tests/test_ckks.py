"""CKKS: sums and inner products within their error bounds, and contexts that cannot be taken for one another."""

import numpy as np
import pytest

from cloister.crypto.ckks import MOST_DIGITS, PRODUCTS, SUMS, EncryptingContext, PublicContext
from cloister.crypto.ckks_ciphertexts import InvalidCiphertext, add, inner_product
from cloister.crypto.ckks_contexts import InvalidContext
from cloister.crypto.ckks_parameters import CkksParameters
from cloister.crypto.ckks_secret import SecretContext

RNG = np.random.default_rng(5)


@pytest.fixture(scope="module")
def sums() -> SecretContext:
    return SecretContext.generate()


@pytest.fixture(scope="module")
def products() -> SecretContext:
    return SecretContext.generate(PRODUCTS)


@pytest.fixture(scope="module")
def products_public(products) -> PublicContext:
    return products.public()


@pytest.mark.parametrize("length", [1, 100, 4096, 4097, 10_000])
def test_sums_of_encrypted_vectors(sums, length):
    public = sums.public()
    vectors = RNG.normal(size=(5, length))
    total = add([public.encrypt(vector) for vector in vectors])
    assert total.length == length
    opened = sums.decrypt(total)
    assert len(opened) == length
    assert np.abs(opened.rounded(MOST_DIGITS) - vectors.sum(axis=0)).max() < 1e-7


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_one_encryption_is_exact_to_the_stated_error(sums, scale):
    values = scale * RNG.uniform(-1, 1, size=4096)
    error = np.abs(sums.decrypt(sums.public().encrypt(values)).rounded(8) - values).max()
    assert error < 2e-8 + 5e-9 + 1e-12 * scale


def test_ciphertexts_survive_the_wire_and_never_repeat(sums):
    public, values = sums.public(), RNG.normal(size=5000)
    sent, again = public.encrypt(values).to_bytes(), public.encrypt(values).to_bytes()
    assert sent != again
    assert len(sent) <= 2 * (SUMS.ciphertext_bytes + 4)
    received = PublicContext.from_bytes(public.to_bytes(), SUMS).read(sent, 5000)
    assert np.abs(sums.decrypt(add([received, public.encrypt(values)])).rounded(8) - 2 * values).max() < 1e-7
    assert np.abs(sums.decrypt(sums.read(sent, 5000)).rounded(8) - values).max() < 3e-8


@pytest.mark.parametrize("length", [3, 1024, 4096, 6000])
@pytest.mark.parametrize("norm", [1.0, 60.0, 700.0])
def test_inner_products_without_a_key(products, products_public, length, norm):
    x, z = RNG.normal(size=(2, length))
    x, z = norm * x / np.linalg.norm(x), norm * z / np.linalg.norm(z)
    left, right = products_public.encrypt(x), products_public.encrypt(z)
    bound = 3e-7 * norm**2 + 1e-4
    for a, b, exact in ((left, right, x @ z), (left, left, x @ x)):
        sent = inner_product(a, b).to_bytes()
        assert len(sent) <= PRODUCTS.ciphertext_bytes
        opened = products.decrypt(products.read_product(sent))
        assert len(opened) == 1
        assert abs(opened.rounded(8)[0] - exact) < bound


def test_parameters_whose_products_would_be_noise_cannot_multiply(sums):
    """At NVFlare's parameters the last prime is too small: TenSEAL's own dot product is off by more than a tenth, silently."""
    import tenseal

    context = tenseal.context(tenseal.SCHEME_TYPE.CKKS, 8192, -1, [60, 40, 40])
    context.global_scale = 2**40
    context.generate_galois_keys()
    ones = tenseal.ckks_vector(context, [1.0] * 1000)
    assert abs(ones.dot(ones).decrypt()[0] - 1000) > 0.01
    encrypted = sums.public().encrypt(np.ones(10))
    with pytest.raises(ValueError, match="cannot multiply"):
        inner_product(encrypted, encrypted)


def test_a_public_context_never_holds_a_secret_key(sums, products):
    for secret in (sums, products):
        public = secret.public()
        assert not hasattr(public, "decrypt")
        with pytest.raises(ValueError, match="secret_key"):
            public.encrypt([1.0]).chunks[0].decrypt()
        with pytest.raises(InvalidContext, match="secret key" if secret is products else "at most"):
            PublicContext.from_bytes(secret.secret_bytes(), secret.parameters)
        with pytest.raises(InvalidContext):
            SecretContext.from_secret_bytes(public.to_bytes(), secret.parameters)


def test_a_secret_context_can_be_handed_to_another_key_holder(products, products_public):
    other = SecretContext.from_secret_bytes(products.secret_bytes(), PRODUCTS)
    encrypted = products_public.encrypt([3.0, 4.0])
    assert other.decrypt(encrypted).rounded(6) == pytest.approx([3, 4])
    own = products_public.encrypt([3.0, 4.0])
    assert other.decrypt(inner_product(own, own)).rounded(3) == pytest.approx([25])
    assert other.encrypting_bytes() == products.encrypting_bytes()


def test_another_key_opens_nothing(sums):
    values = RNG.normal(size=100)
    opened = SecretContext.generate().decrypt(sums.public().encrypt(values)).rounded(3)
    assert np.abs(opened - values).max() > 100


def test_contexts_of_other_parameters_are_refused(sums, products_public):
    other = CkksParameters(8192, (60, 40, 60), 40)
    with pytest.raises(InvalidContext, match="parameters"):
        PublicContext.from_bytes(sums.public().to_bytes(), other)
    with pytest.raises(InvalidContext, match="bytes"):
        PublicContext.from_bytes(products_public.to_bytes(), SUMS)  # too long to be looked at
    with pytest.raises(InvalidContext, match="parameters"):
        PublicContext.from_bytes(sums.public().to_bytes(), CkksParameters(8192, (60, 40, 40), 30))
    for garbage in (b"", b"x" * 1000, sums.public().to_bytes()[:-100]):
        with pytest.raises(InvalidContext):
            PublicContext.from_bytes(garbage, SUMS)


def test_ciphertexts_of_wrong_size_or_level_are_refused(sums, products, products_public):
    public, sent = sums.public(), sums.public().encrypt(np.ones(5000)).to_bytes()
    first = int.from_bytes(sent[:4], "little")
    bad = {
        "another length": (sent, 5001),
        "one chunk more": (sent, 9000),
        "one chunk less": (sent, 4096),
        "nothing": (b"", 5000),
        "a tail": (sent + b"x", 5000),
        "a short prefix": (sent[:3], 10),
        "a length beyond the end": ((2**31).to_bytes(4, "little") + sent[4:], 5000),
        "truncated": ((first - 200).to_bytes(4, "little") + sent[4 : 4 + first - 200], 4096),
        "zeros": ((1000).to_bytes(4, "little") + bytes(1000), 10),
    }
    for name, (data, length) in bad.items():
        with pytest.raises(InvalidCiphertext):
            print(name, public.read(data, length))
    one = products_public.encrypt([1.0])
    with pytest.raises(InvalidCiphertext):
        products.read_product(one.to_bytes())
    with pytest.raises(InvalidCiphertext):
        products_public.read(inner_product(one, one).to_bytes(), 1)
    with pytest.raises(InvalidCiphertext):
        public.read(one.to_bytes(), 1)


def test_decryptions_come_out_rounded_or_as_bits_only(sums):
    values = np.array([0.123456789123, -2.0, 1.5])
    opened = sums.decrypt(sums.public().encrypt(values))
    assert opened.rounded(3).tolist() == [0.123, -2.0, 1.5]
    assert opened.at_least(0.0).tolist() == [True, False, True]
    assert "0.12" not in repr(opened)
    for escape in (float, list, iter):
        with pytest.raises(TypeError):
            escape(opened)
    with pytest.raises(ValueError, match="at most 8"):
        opened.rounded(9)


def test_what_cannot_be_encrypted_is_refused(sums, products_public):
    public = sums.public()
    for bad in ([], [[1.0]], [np.nan], [np.inf], [1e13]):
        with pytest.raises(ValueError, match=r"finite|too large"):
            public.encrypt(bad)
    with pytest.raises(ValueError, match="too large"):
        products_public.encrypt(np.full(4096, 12.0))  # norm 768: its square would wrap round
    with pytest.raises(ValueError, match="same length"):
        add([public.encrypt([1.0]), public.encrypt([1.0, 2.0])])
    with pytest.raises(ValueError, match="same length"):
        add([])
    with pytest.raises(ValueError, match="same length"):
        inner_product(public.encrypt([1.0]), products_public.encrypt([1.0]))
    with pytest.raises(ValueError, match="other parameters"):
        sums.decrypt(products_public.encrypt([1.0]))
    with pytest.raises(ValueError):
        SecretContext.generate(CkksParameters(4096, (60, 40, 40), 40))  # under 128 bits


@pytest.mark.long
def test_a_public_key_alone_encrypts_for_the_holder_and_for_products(products, products_public):
    values = RNG.normal(size=300)
    alone = EncryptingContext.from_bytes(products.encrypting_bytes(), PRODUCTS)
    assert alone.to_bytes() == products.encrypting_bytes() == products_public.encrypting().to_bytes()
    assert len(alone.to_bytes()) <= PRODUCTS.encrypting_bytes < PRODUCTS.context_bytes / 40
    sent = products_public.read(alone.encrypt(values).to_bytes(), 300)
    assert abs(products.decrypt(inner_product(sent, sent)).rounded(8)[0] - values @ values) < 1e-3
    assert products.public_bytes() == products_public.to_bytes()


def test_a_public_key_alone_is_refused_with_a_secret_key_or_of_other_parameters(sums, products):
    for data, reason in (
        (sums.secret_bytes(), "bytes"),
        (products.encrypting_bytes(), "other parameters"),
        (b"no key", "other parameters"),
        (bytes(SUMS.encrypting_bytes + 1), "at most"),
    ):
        with pytest.raises(InvalidContext, match=reason):
            EncryptingContext.from_bytes(data, SUMS)
    with pytest.raises(InvalidContext, match="lacks keys"):
        PublicContext.from_bytes(products.encrypting_bytes(), PRODUCTS)
    assert len(products.secret_bytes()) <= PRODUCTS.secret_bytes
    assert len(sums.secret_bytes()) <= SUMS.secret_bytes


@pytest.mark.long
@pytest.mark.parametrize(
    ("degree", "bits", "scale"), [(4096, (54, 54), 30), (8192, (60, 40, 40, 60), 40), (16384, (60, 40, 60), 40)]
)
def test_bytes_of_other_rings_and_primes_are_read_as_strictly(degree, bits, scale):
    """What must stand between coefficients follows from the parameters, not from those of this module."""
    parameters = CkksParameters(degree, bits, scale)
    key = SecretContext.generate(parameters)
    other = SecretContext.from_secret_bytes(key.secret_bytes(), parameters)
    values = RNG.normal(size=parameters.slots + 7) / 20
    sent = key.public().read(
        EncryptingContext.from_bytes(key.encrypting_bytes(), parameters).encrypt(values).to_bytes(), len(values)
    )
    assert np.abs(other.decrypt(sent).rounded(4) - values).max() < 1e-3
    if parameters.multiplies:
        product = other.read_product(inner_product(sent, sent).to_bytes())
        assert abs(other.decrypt(product).rounded(4)[0] - values @ values) < 0.05
