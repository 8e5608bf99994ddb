"""What a client or a server can write of CKKS that the library itself would not: it is refused by name, or does no harm."""

import struct
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import tenseal

from cloister.crypto.ckks import PRODUCTS, SUMS, EncryptingContext, PublicContext
from cloister.crypto.ckks_bytes import wrapped
from cloister.crypto.ckks_ciphertexts import EncryptedVector, InvalidCiphertext, Uncomputable, add, inner_product
from cloister.crypto.ckks_contexts import InvalidContext, key_primes_of, new_public_key, public_key_of, secret_key_of
from cloister.crypto.ckks_secret import SecretContext
from cloister.crypto.ckks_told import numbers_of
from cloister.crypto.ntt import coefficients
from cloister.protocol.core.errors import ProtocolError
from cloister.protocol.core.session import SERVER
from cloister.protocol.drivers.roles import Received
from cloister.protocol.encrypted.keys import (
    AskingKey,
    KeyName,
    RelayedKey,
    checked_key,
    hash_of,
    offer,
    sealed_secret,
    server_step,
    tag_of,
)
from cloister.protocol.encrypted.messages import OfferedKey, SketchRequest
from cloister.protocol.wire.codec import Envelope

from .encrypted_session import another_key
from .hostile_ckks import carrying, ciphertext, compressed, parameters_of, parts_of, public_key, sealed, zeros

LENGTH = 65


@pytest.fixture(scope="module")
def products() -> SecretContext:
    return SecretContext.generate(PRODUCTS)


def test_a_ciphertext_that_anybody_can_read_is_refused_where_it_comes_in(products):
    for read in (products.public().read, products.read):
        with pytest.raises(InvalidCiphertext, match="anybody can read"):
            read(ciphertext(PRODUCTS, LENGTH, first=1), LENGTH)
        assert read(ciphertext(PRODUCTS, LENGTH, first=1, second=1), LENGTH).length == LENGTH


def test_a_ciphertext_in_another_form_is_refused(products):
    """It was added to others', which ended the coordinator, or multiplied, which was laid to whoever had made the key."""
    with pytest.raises(InvalidCiphertext, match="not a ciphertext"):
        products.public().read(ciphertext(PRODUCTS, LENGTH, second=1, ntt=0), LENGTH)


def test_bytes_that_inflate_to_more_than_a_ciphertext_are_refused_before_the_library_sees_them(products, monkeypatch):
    public = products.public()
    one = compressed(bytes(1 << 18))
    hostile = [carrying(PRODUCTS, LENGTH, *[one] * 900), carrying(PRODUCTS, LENGTH, compressed(bytes(1 << 30)))]
    monkeypatch.setattr(tenseal, "ckks_vector_from", lambda *_, **__: pytest.fail("the library was asked"))
    tracemalloc.start()
    for data in hostile:
        assert len(data) <= PRODUCTS.ciphertext_bytes
        with pytest.raises(InvalidCiphertext, match="not a ciphertext"):
            public.read(data, LENGTH)
    assert tracemalloc.get_traced_memory()[1] < 8 * PRODUCTS.ciphertext_bytes
    tracemalloc.stop()


def test_two_vectors_whose_product_has_no_randomness_left_end_nobody(products):
    public = products.public()
    left, right = (public.read(ciphertext(PRODUCTS, LENGTH, second=3, half=half), LENGTH) for half in (0, 1))
    with pytest.raises(RuntimeError, match="transparent"):
        left.chunks[0] * right.chunks[0]
    assert len(products.decrypt(inner_product(left, right))) == 1
    honest = public.encrypt(np.ones(LENGTH))
    assert products.decrypt(inner_product(honest, honest)).rounded(2) == pytest.approx([LENGTH])


@pytest.mark.long
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 2, 1)])
def test_vectors_that_cancel_each_other_are_added_like_others(products, order):
    public = products.public()
    lying = public.encrypt(np.arange(LENGTH) / LENGTH)
    against = EncryptedVector(PRODUCTS, LENGTH, tuple(-chunk for chunk in lying.chunks))
    vectors = [lying, against, public.encrypt(np.ones(LENGTH))]
    total = add([vectors[k] for k in order])
    assert products.decrypt(total).rounded(6) == pytest.approx(np.ones(LENGTH))
    assert products.decrypt(add([lying, against])).rounded(6) == pytest.approx(np.zeros(LENGTH))


def test_contexts_of_other_parameters_are_refused_before_the_library_builds_them(products, monkeypatch):
    own, other = products.public_bytes(), parameters_of(16384, [30] * 4)
    head = own[: 2 + own[1]]
    monkeypatch.setattr(tenseal, "context_from", lambda *_, **__: pytest.fail("the library was asked"))
    hostile = (
        other,
        own[: len(head)] + other,
        own + other,
        own + head,
        own + wrapped(9, b"x"),
        head + b"\x12",
        head + b"\x12\xff",
    )
    for data in hostile:
        for kind in (EncryptingContext, PublicContext):
            with pytest.raises(InvalidContext):
                kind.from_bytes(data[: PRODUCTS.context_bytes], PRODUCTS)
        with pytest.raises(InvalidContext, match=r"other parameters|not a (secret )?context"):
            SecretContext.from_secret_bytes(data, PRODUCTS)
    with pytest.raises(InvalidContext, match="other parameters"):
        EncryptingContext.from_bytes(products.encrypting_bytes(), SUMS)


def test_a_context_that_names_more_than_it_holds_is_refused(products):
    own = products.public_bytes()
    head = own[: 2 + own[1]]
    for data in (head, head + wrapped(2, b""), own[:-1], head + wrapped(2, b"\x0a\xff\xff\xff\xff\x0f"), own[:5000]):
        with pytest.raises(InvalidContext):
            PublicContext.from_bytes(data, PRODUCTS)


NAME = KeyName(bytes(16), "sums", 0, "root")


def asking(name: KeyName, holder: int, key: bytes, secret: bytes, tag: bytes | None = None) -> SketchRequest:
    """What a client is asked under a key, tagged and sealed by whoever made it."""
    context = name.context(holder, hash_of(key))
    sealed = sealed_secret(bytes(32), context, secret)
    fields = name.session((1, 2)).fields
    return SketchRequest(*fields, 16, holder, key, tag_of(bytes(32), context) if tag is None else tag, sealed, bytes(32))


def said_of(name: KeyName, key: EncryptingContext, secret: SecretContext | None = None) -> str:
    """What a client that is to encrypt says of a key that client 1 offers, rightly tagged; empty where it takes it."""
    asked = asking(name, 1, key.to_bytes(), b"none" if secret is None else secret.secret_bytes())
    try:
        checked_key(bytes(32), name, asked)
    except ProtocolError as error:
        return str(error) if error.blame == 1 else f"blame on {error.blame}"
    return ""


def with_public_key(secret: SecretContext, first=None, second=None) -> SecretContext:
    """The same secret key with other polynomials in its public one."""
    own = public_key_of(secret._context, secret.parameters)
    numbers = np.stack([own[0] if first is None else first, own[1] if second is None else second])
    return SecretContext(secret.parameters, new_public_key(secret._context, secret.parameters, numbers))


def last_prime_times(secret: SecretContext, values) -> np.ndarray:
    """What a public key's polynomial grows by, so that what it encrypts grows by these values times what is drawn."""
    parameters, public = secret.parameters, secret.public()
    one, zero = (
        numbers_of(public.encrypt_with(np.asarray(v, float), bytes(32)).chunks[0], parameters) for v in (values, 0 * values)
    )
    *primes, last = key_primes_of(parameters)
    rows = [(one[0, k].astype(object) - zero[0, k]) * last % prime for k, prime in enumerate(primes)]
    return np.stack([*rows, np.zeros_like(rows[0])])


def plus(secret: SecretContext, polynomial: np.ndarray) -> np.ndarray:
    """The first polynomial of its public key with another added."""
    primes = np.array(key_primes_of(secret.parameters), object)[:, None]
    return ((public_key_of(secret._context, secret.parameters)[0] + polynomial) % primes).astype(np.uint64)


@pytest.mark.parametrize("numbers", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_under_a_public_key_of_such_numbers_nobody_encrypts(numbers):
    key = EncryptingContext.from_bytes(public_key(SUMS, *numbers), SUMS)
    assert not key.hides
    assert "no half follows" in (said_of(NAME, key))


@pytest.mark.parametrize("of", ["nothing", "another maker", "another round", "another purpose"])
def test_half_of_a_public_key_is_that_of_its_name(of):
    """Of somebody's choice it can leave open what is encrypted, in some places too, or make the server's other ones."""
    other = {
        "another maker": NAME.label(2),
        "another round": replace(NAME, round=1).label(1),
        "another purpose": replace(NAME, purpose="slots").label(1),
    }
    secret = another_key(SUMS)
    secret = secret if of == "nothing" else secret.under(other[of])
    assert secret.fits
    assert secret.public().encrypting().hides
    assert "no half follows" in (said_of(NAME, secret.public().encrypting()))
    offered = OfferedKey(secret.encrypting_bytes(), b"", bytes(32), bytes(64))
    session = NAME.session((1, 2))
    with pytest.raises(ProtocolError, match="no half follows") as refused:
        server_step(AskingKey(NAME, session), Received(Envelope(session.digest, 1, SERVER, offered)))
    assert refused.value.blame == 1


@pytest.mark.parametrize("where", ["everywhere", "but for the first two places"])
def test_a_key_whose_other_half_hides_nothing_is_refused(where):
    """Ciphertexts were looked at in two places of 4,096: any key opened all others."""
    secret = another_key(SUMS).under(NAME.label(1))
    values = np.zeros(SUMS.slots)
    if where != "everywhere":
        values[:2] = 2.0**18
    first = last_prime_times(secret, values).astype(np.uint64)
    assert "hides nothing" in (said_of(NAME, with_public_key(secret, first).public().encrypting()))


def test_a_key_whose_error_is_none_is_refused():
    """Whoever divides it has the secret key: the server read every input, and nobody was at fault."""
    secret = another_key(SUMS).under(NAME.label(1))
    assert not said_of(NAME, secret.public().encrypting(), secret)
    b, a = public_key_of(secret._context, SUMS)
    s, primes = secret_key_of(secret._context, SUMS).astype(object), np.array(key_primes_of(SUMS), object)[:, None]
    bare = with_public_key(secret, (-a.astype(object) * s % primes).astype(np.uint64))
    assert bare.fits
    assert "hides nothing" in said_of(NAME, bare.public().encrypting(), bare)
    half = with_public_key(secret, np.where(np.arange(SUMS.degree) % 2, b, public_key_of(bare._context, SUMS)[0]))
    assert "does not open" in said_of(NAME, half.public().encrypting(), half)


@pytest.mark.parametrize("error", ["a multiple of the last prime", "the same plus one", "one", "twice as large"])
def test_a_key_whose_error_is_not_as_it_is_drawn_is_refused(error):
    """Modulo the prime by which what is encrypted is divided such a key lay open, and no two places were zero: the server, which
    only looked on, read every input, and nobody was at fault.
    """
    secret = another_key(SUMS).under(NAME.label(1))
    primes, last = np.array(key_primes_of(SUMS), object)[:, None], key_primes_of(SUMS)[-1]
    a, s = public_key_of(secret._context, SUMS)[1].astype(object), secret_key_of(secret._context, SUMS).astype(object)
    drawn = public_key_of(secret._context, SUMS)[0].astype(object) + a * s
    e = {"a multiple of the last prime": last, "the same plus one": last + 1, "one": 1}.get(error, 2 * drawn)
    bad = with_public_key(secret, ((e - a * s) % primes).astype(np.uint64))
    assert secret.errs
    assert not bad.errs
    assert said_of(NAME, bad.public().encrypting(), bad)


def test_polynomials_come_back_from_their_values():
    secret = another_key(SUMS)
    primes = key_primes_of(SUMS)
    values = secret_key_of(secret._context, SUMS)
    found = coefficients(values, primes)
    assert (found == found[0]).all()
    assert set(found[0]) == {-1, 0, 1}
    assert (coefficients(values.astype(object) * 5 % np.array(primes, object)[:, None], primes) == 5 * found).all()
    assert coefficients(np.ones_like(values), primes).astype(int).tolist() == [[1] + [0] * (SUMS.degree - 1)] * len(primes)


def test_a_key_that_does_not_open_is_refused_before_anything_is_encrypted_under_it():
    """Under one with a large multiple of what is drawn added anybody read inputs by rounding; garbage cost all rounds."""
    secret = another_key(SUMS).under(NAME.label(1))
    public = secret.public().encrypting()
    assert "cannot be used" in said_of(NAME, public)
    assert "does not open" in said_of(NAME, public, another_key(SUMS).under(NAME.label(1)))
    large = with_public_key(secret, plus(secret, last_prime_times(secret, np.full(SUMS.slots, 2.0**20))))
    assert "does not open" in said_of(NAME, large.public().encrypting(), large)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_key_that_opens_other_values_in_some_places_does_not_fit(size):
    """Two places were looked at: who made the key of a sum could ruin it, in it or not, and nobody was at fault."""
    secret = another_key(SUMS).under(NAME.label(1))
    values = np.full(SUMS.slots, size)
    values[[0, 1]] = 0
    assert secret.fits
    assert not with_public_key(secret, plus(secret, last_prime_times(secret, values))).fits


def test_the_ciphertexts_of_a_server_have_the_form_of_all_others():
    """They were a public key times something, and so were zero modulo a prime where that was; those of clients are full there."""
    secret = another_key(PRODUCTS)
    second = public_key_of(secret._context, PRODUCTS)[1].copy()
    second[1] = 0
    public = with_public_key(secret, second=second).public()
    told, drawn = (
        numbers_of(x.chunks[0], PRODUCTS) for x in (public.encrypt_with(np.ones(64), bytes(32)), public.encrypt(np.ones(64)))
    )
    assert drawn[1, 1].all()
    assert told[1, 1].all()


@pytest.mark.long
@pytest.mark.parametrize("rows", [(0, 1, 2), (0, 1), (1,)])
def test_a_public_key_of_zeros_ends_no_server(rows):
    """What the server encrypts itself has no randomness under it, which the library refuses with an error of its own."""
    secret = another_key(PRODUCTS)
    second = public_key_of(secret._context, PRODUCTS)[1].copy()
    second[list(rows)] = 0
    hostile = with_public_key(secret, second=second)
    assert hostile.public().can_multiply in (False, True)
    offered = OfferedKey(hostile.encrypting_bytes(), hostile.public_bytes(), bytes(32), bytes(64))
    name = replace(NAME, purpose="products")
    session = name.session((1, 2))
    with pytest.raises(ProtocolError, match="no half follows"):
        server_step(AskingKey(name, session), Received(Envelope(session.digest, 1, SERVER, offered)))


def test_what_a_key_hides_is_asked_of_who_encrypts_and_of_nobody_that_plays_again(monkeypatch):
    """Of a key at the border it is chance: a coordinator that had taken it refused it when it read its journal or a snapshot."""
    secret, name = another_key(PRODUCTS), KeyName(bytes(16), "products", 0, "all")
    offered = offer(bytes(32), name, 3, secret)
    monkeypatch.setattr(EncryptingContext, "hides", property(lambda _: False))
    session = name.session((3, 4))
    keyed, _ = server_step(AskingKey(name, session), Received(Envelope(session.digest, 3, SERVER, offered)))
    again = RelayedKey.unpacked(name, keyed.key.packed)
    assert again.hash == keyed.key.hash
    with pytest.raises(ProtocolError, match="hides nothing"):
        checked_key(bytes(32), name, asking(name, 3, again.encrypting, secret.secret_bytes(), again.tag))


def test_a_secret_key_without_its_public_key_is_refused(products):
    """The library read where nothing was: the process ended."""
    head, _, secret = parts_of(products.secret_bytes())
    with pytest.raises(InvalidContext, match="not a context"):
        SecretContext.from_secret_bytes(head + secret, PRODUCTS)
    without = bytes(products._context.serialize(False, True, False, False))
    with pytest.raises(InvalidContext, match="without a public key"):
        SecretContext.from_secret_bytes(without, PRODUCTS)


@pytest.mark.long
def test_keys_for_products_that_do_not_serve_are_noticed_and_end_nobody(products):
    hostile = PublicContext.from_bytes(_with_keys(products, rotations=zeros(PRODUCTS, "rotations")), PRODUCTS)
    assert not hostile.can_multiply
    assert products.public().can_multiply
    vector = hostile.encrypt(np.ones(LENGTH))
    with pytest.raises(Uncomputable):
        inner_product(vector, vector)


def _bombs() -> dict[str, tuple[str, bytes]]:
    """Objects of a few kilobytes that the library makes a gigabyte of, or reads past the end of."""
    small = compressed(zeros(PRODUCTS, "public_key")[16:])
    parms = zeros(PRODUCTS, "public_key")[16:48]
    many = b"".join(struct.pack("<Q", 60) + small * 60 for _ in range(60))
    few = struct.pack("<QQ", 1, 1) + zeros(PRODUCTS, "public_key")
    return {
        "a list of thousands of keys": ("relinearisation", sealed(parms + struct.pack("<Q", 60) + many)),
        "the same, compressed": ("rotations", compressed(parms + struct.pack("<Q", 60) + many)),
        "zeros without end": ("relinearisation", compressed(bytes(1 << 30))),
        "a list that is too short": ("relinearisation", sealed(parms + few)),
        "keys of another kind": ("rotations", zeros(PRODUCTS, "relinearisation")),
        "no list at all": ("rotations", sealed(parms + bytes(8))),
    }


@pytest.mark.long
@pytest.mark.parametrize("name", _bombs())
def test_keys_that_the_library_would_build_much_of_are_refused_before_it_sees_them(products, name, monkeypatch):
    kind, keys = _bombs()[name]
    data = _with_keys(products, **{kind: keys})
    assert len(data) <= PRODUCTS.context_bytes
    monkeypatch.setattr(tenseal, "context_from", lambda *_, **__: pytest.fail("the library was asked"))
    tracemalloc.start()
    with pytest.raises(InvalidContext, match="not a context"):
        PublicContext.from_bytes(data, PRODUCTS)
    assert tracemalloc.get_traced_memory()[1] < 2 * PRODUCTS.context_bytes
    tracemalloc.stop()


@pytest.mark.parametrize("kind", ["relinearisation", "rotations"])
def test_keys_for_products_in_a_context_that_needs_none_are_refused(kind, monkeypatch):
    """The library is not shown them, within the size that a public key may have."""
    key = SecretContext.generate(SUMS)
    head, public = parts_of(key.encrypting_bytes())
    small = sealed(struct.pack("<4QQ", 0, 0, 0, 0, 0))
    hostile = head + wrapped(2, b"".join(_inner(public)) + wrapped({"relinearisation": 4, "rotations": 5}[kind], small))
    monkeypatch.setattr(tenseal, "context_from", lambda *_, **__: pytest.fail("the library was asked"))
    with pytest.raises(InvalidContext, match="not a context"):
        EncryptingContext.from_bytes(hostile, SUMS)
    _, _, secret = parts_of(key.secret_bytes())
    with pytest.raises(InvalidContext, match="not a context"):
        SecretContext.from_secret_bytes(hostile + secret, SUMS)


def _with_keys(key: SecretContext, **other: bytes) -> bytes:
    """Its public context with other keys for products."""
    head, public = parts_of(key.public_bytes())[:2]
    own = dict(zip(("key", "numbers", "relinearisation", "rotations"), _inner(public), strict=True))
    named = {"relinearisation": 4, "rotations": 5}
    return head + wrapped(2, b"".join((own | {kind: wrapped(named[kind], keys) for kind, keys in other.items()}).values()))


def _inner(public: bytes) -> list[bytes]:
    """The public key, the two numbers behind it, and the two kinds of keys for products, as they stand in a context."""
    body = public[1:]
    while body[0] & 128:
        body = body[1:]
    body = body[1:]
    key = parts_of(body)[0]
    numbers = body[len(key) : len(key) + 11]
    return [key, numbers, *parts_of(body[len(key) + 11 :])]
