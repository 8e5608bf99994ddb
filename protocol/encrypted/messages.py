"""The messages of the encrypted sum and of encrypted scores. Spec: specs/encrypted.md; schema: messages.cddl."""

from dataclasses import dataclass, field
from typing import ClassVar

from ...crypto.ckks import MOST_DIGITS, PRODUCTS, SUMS
from ...crypto.envelope import OVERHEAD_BYTES
from ..core.session import MAX_ID
from ..wire.fields import DIGEST_BYTES, MAX_VECTOR_BYTES, SessionFields, by_kind, clients, each, integer, octets
from ..wire.messages import MOST_SHARES

MOST_PRODUCTS = 8192
"""Inner products in one request: at 131 kB each, 1.1 GB, which is the Gram matrix of 127 clients."""
ENCRYPTING_BYTES = max(SUMS.encrypting_bytes, PRODUCTS.encrypting_bytes)
SEALED_BYTES = max(SUMS.secret_bytes, PRODUCTS.secret_bytes) + OVERHEAD_BYTES
_PREFIX_BYTES = 4


@dataclass(frozen=True, slots=True)
class KeyRequest(SessionFields):
    """Server to one client: make a key for this session's protocol, "encrypted key/sums" or "encrypted key/products"."""

    kind: ClassVar[int] = 60


@dataclass(frozen=True, slots=True)
class OfferedKey:
    """Client to server: a fresh key. encrypting: the public key. evaluating: the same with keys for products, or nothing.

    tag: shows the other clients that the public key is one of theirs. sealed: the secret key, for the clients alone.
    """

    kind: ClassVar[int] = 61
    encrypting: bytes = field(repr=False)
    evaluating: bytes = field(repr=False)
    tag: bytes
    sealed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        octets(self.encrypting, 1, ENCRYPTING_BYTES, "public key")
        octets(self.evaluating, 0, PRODUCTS.context_bytes, "keys for products")
        octets(self.tag, 32, 32, "tag")
        octets(self.sealed, OVERHEAD_BYTES + 1, SEALED_BYTES, "sealed key")


@dataclass(frozen=True, slots=True)
class EncryptedSumRequest(SessionFields):
    """Server to client: encrypt your vector times your weight. weights: a binary64 for each client of the roster, big-endian.

    times_samples: 1 where the weight counts once per sample, else 0. length: of the vector. holder: who made the key, whose
    sealed secret is with it, as a client looks at a key before it encrypts. work: digest of the session that the vector is of.
    """

    kind: ClassVar[int] = 62
    weights: bytes
    times_samples: int
    length: int
    holder: int
    encrypting: bytes = field(repr=False)
    tag: bytes
    sealed: bytes = field(repr=False)
    work: bytes

    def __post_init__(self) -> None:
        SessionFields.__post_init__(self)
        octets(self.work, DIGEST_BYTES, DIGEST_BYTES, "work")
        octets(self.weights, 8 * len(self.roster), 8 * len(self.roster), "weights")
        integer(self.times_samples, 0, 1, "times samples")
        integer(self.length, 1, MAX_VECTOR_BYTES // 64, "length")
        integer(self.holder, 0, MAX_ID, "holder")
        octets(self.encrypting, 1, ENCRYPTING_BYTES, "public key")
        octets(self.tag, 32, 32, "tag")
        octets(self.sealed, OVERHEAD_BYTES + 1, SEALED_BYTES, "sealed key")


@dataclass(frozen=True, slots=True)
class EncryptedInput:
    """Client to server: a vector in ciphertexts, each after its length in 4 bytes, little-endian."""

    kind: ClassVar[int] = 63
    ciphertexts: bytes = field(repr=False)

    def __post_init__(self) -> None:
        octets(self.ciphertexts, _PREFIX_BYTES + 1, MAX_VECTOR_BYTES, "ciphertexts")


@dataclass(frozen=True, slots=True)
class EncryptedSum(SessionFields):
    """Server to a member of the cluster: the sum of the inputs of `alive`, and the sealed key that opens it.

    weights, times_samples, length, holder: as in the request. public: SHA-256 of the public key.
    """

    kind: ClassVar[int] = 64
    weights: bytes
    times_samples: int
    length: int
    alive: tuple[int, ...]
    holder: int
    public: bytes
    sealed: bytes = field(repr=False)
    ciphertexts: bytes = field(repr=False)

    def __post_init__(self) -> None:
        SessionFields.__post_init__(self)
        octets(self.weights, 8 * len(self.roster), 8 * len(self.roster), "weights")
        integer(self.times_samples, 0, 1, "times samples")
        integer(self.length, 1, MAX_VECTOR_BYTES // 64, "length")
        clients(self.alive, 1, "survivors")
        integer(self.holder, 0, MAX_ID, "holder")
        octets(self.public, DIGEST_BYTES, DIGEST_BYTES, "hash of the public key")
        octets(self.sealed, OVERHEAD_BYTES + 1, SEALED_BYTES, "sealed key")
        octets(self.ciphertexts, _PREFIX_BYTES + 1, MAX_VECTOR_BYTES, "ciphertexts")


MOST_SLOTS = 64


@dataclass(frozen=True, slots=True)
class SumOpened:
    """Client to server: it has the mean. weight: the total weight, rounded, a binary64, big-endian.

    Of slots, several such numbers: first the counts of all; then the weights of the open ones, and their sum, so that no second
    message is a duplicate of the first.
    """

    kind: ClassVar[int] = 65
    weight: bytes

    def __post_init__(self) -> None:
        octets(self.weight, 8, 8 * (MOST_SLOTS + 1), "weight")
        if len(self.weight) % 8:
            raise ValueError("weight is not of whole numbers of 8 bytes")


@dataclass(frozen=True, slots=True)
class OpenSlots(SessionFields):
    """Server to a member that told it the counts: the sums of these slots, of the inputs of `alive`, and the sealed key.

    slots: ascending. most: the largest share of a client in one. public: SHA-256 of the public key. ciphertexts: of the slots'
    rows, one after the other.
    """

    kind: ClassVar[int] = 69
    alive: tuple[int, ...]
    slots: tuple[int, ...]
    most: int
    holder: int
    public: bytes
    sealed: bytes = field(repr=False)
    ciphertexts: bytes = field(repr=False)

    def __post_init__(self) -> None:
        SessionFields.__post_init__(self)
        clients(self.alive, 1, "survivors")
        clients(self.slots, 1, "slots")
        integer(self.slots[-1], 0, MOST_SLOTS - 1, "slots")
        integer(self.most, 1, MOST_SHARES, "largest share")
        integer(self.holder, 0, MAX_ID, "holder")
        octets(self.public, DIGEST_BYTES, DIGEST_BYTES, "hash of the public key")
        octets(self.sealed, OVERHEAD_BYTES + 1, SEALED_BYTES, "sealed key")
        octets(self.ciphertexts, _PREFIX_BYTES + 1, MAX_VECTOR_BYTES, "ciphertexts")


@dataclass(frozen=True, slots=True)
class SketchRequest(SessionFields):
    """Server to client: encrypt the sketch of your vector. length: of the sketch. holder: who made the key. work: as in a sum."""

    kind: ClassVar[int] = 66
    length: int
    holder: int
    encrypting: bytes = field(repr=False)
    tag: bytes
    sealed: bytes = field(repr=False)
    work: bytes

    def __post_init__(self) -> None:
        SessionFields.__post_init__(self)
        octets(self.work, DIGEST_BYTES, DIGEST_BYTES, "work")
        integer(self.length, 1, 2**20, "length")
        integer(self.holder, 0, MAX_ID, "holder")
        octets(self.encrypting, 1, ENCRYPTING_BYTES, "public key")
        octets(self.tag, 32, 32, "tag")
        octets(self.sealed, OVERHEAD_BYTES + 1, SEALED_BYTES, "sealed key")


@dataclass(frozen=True, slots=True)
class ScoreRequest(SessionFields):
    """Server to one client: open these inner products, and say them rounded to so many digits.

    columns 0: of `rows` sketches with themselves and each other: (0, 0), (0, 1) .. (1, 1) .. Else: every row with itself,
    every column with itself, then every row with every column.
    """

    kind: ClassVar[int] = 67
    rows: int
    columns: int
    digits: int
    holder: int
    public: bytes
    sealed: bytes = field(repr=False)
    products: tuple[bytes, ...] = field(repr=False)

    def __post_init__(self) -> None:
        SessionFields.__post_init__(self)
        integer(self.rows, 1, MOST_PRODUCTS, "rows")
        integer(self.columns, 0, MOST_PRODUCTS, "columns")
        integer(self.digits, 1, MOST_DIGITS, "digits")
        integer(self.holder, 0, MAX_ID, "holder")
        octets(self.public, DIGEST_BYTES, DIGEST_BYTES, "hash of the public key")
        octets(self.sealed, OVERHEAD_BYTES + 1, SEALED_BYTES, "sealed key")
        count = products_of(self.rows, self.columns)
        integer(count, 1, MOST_PRODUCTS, "number of products")
        each(self.products, count + 1, _PREFIX_BYTES + 1, PRODUCTS.ciphertext_bytes + _PREFIX_BYTES, "products")


@dataclass(frozen=True, slots=True)
class RoundedScores:
    """Client to server: what it opened, as little-endian int32 in units of 10^-digits. Nothing of it is a raw decryption.

    norms: logarithms of the rows' norms, -2^31 for a norm of 0; empty where there are columns. cosines: of pairs, in order.
    """

    kind: ClassVar[int] = 68
    norms: bytes
    cosines: bytes

    def __post_init__(self) -> None:
        for name, value in (("norms", self.norms), ("cosines", self.cosines)):
            octets(value, 0, 4 * MOST_PRODUCTS, name)
            if len(value) % 4:
                raise ValueError(f"{name} are not whole words of 4 bytes")


def products_of(rows: int, columns: int) -> int:
    """How many inner products a request over so many sketches holds."""
    return rows + columns + rows * columns if columns else rows * (rows + 1) // 2


MESSAGES = by_kind(
    KeyRequest,
    OfferedKey,
    EncryptedSumRequest,
    EncryptedInput,
    EncryptedSum,
    SumOpened,
    OpenSlots,
    SketchRequest,
    ScoreRequest,
    RoundedScores,
)
