"""Private keys in files: PKCS #8 in PEM, mode 0600, with a passphrase if the owner wants one."""

from collections.abc import Callable
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from ...crypto.entropy import OsEntropy
from ...crypto.identity import SigningKey
from .private_files import read, write

Passphrase = Callable[[], bytes]
"""Asked for when it is needed."""
SECRET_BYTES = 32
_MOST_BYTES = 1 << 14


def none() -> bytes:
    """Of who has no passphrase. Raises ValueError."""
    raise ValueError("the private key is encrypted, and no passphrase was given")


def new_key() -> EllipticCurvePrivateKey:
    """A key on P-256, from the operating system's generator: there are no simulated certificates."""
    return generate_private_key(SECP256R1())


def new_identity() -> SigningKey:
    """A key for signatures, from the same."""
    return SigningKey.from_secret(OsEntropy().secret("identity", SECRET_BYTES))


def pem_of(key: EllipticCurvePrivateKey | SigningKey, passphrase: bytes = b"") -> bytes:
    """PKCS #8 in PEM, encrypted if there is a passphrase."""
    how = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    private = Ed25519PrivateKey.from_private_bytes(key.secret) if isinstance(key, SigningKey) else key
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)


def save(
    path: Path, key: EllipticCurvePrivateKey | SigningKey, passphrase: bytes = b"", force: bool = False, durable: bool = True
) -> None:
    """See `write`: never over another key, unless `force`."""
    write(path, pem_of(key, passphrase), force, durable)


def load_link(path: Path, passphrase: Passphrase = none) -> EllipticCurvePrivateKey:
    """A key on P-256. Raises ValueError for a file that others may read, for another kind of key, and for a wrong passphrase."""
    key = _load(path, passphrase)
    if not isinstance(key, EllipticCurvePrivateKey) or key.curve.name != SECP256R1.name:
        raise ValueError(f"{path} holds no key on the curve P-256")
    return key


def load_identity(path: Path, passphrase: Passphrase = none) -> SigningKey:
    """An Ed25519 identity. Raises ValueError likewise."""
    key = _load(path, passphrase)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{path} holds no key for Ed25519")
    return SigningKey.from_secret(key.private_bytes_raw())


def is_locked(path: Path) -> bool:
    """Whether a passphrase opens it."""
    return b"ENCRYPTED" in read(path, secret=True, most=_MOST_BYTES)


def _load(path: Path, passphrase: Passphrase) -> object:
    content = read(path, secret=True, most=_MOST_BYTES)
    given = None
    if b"ENCRYPTED" in content:
        try:
            given = passphrase()
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    try:
        return load_pem_private_key(content, given)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        why = "it is no private key in PEM (PKCS #8)" if given is None else "the passphrase is wrong, or it is damaged"
        raise ValueError(f"{path} does not open: {why}") from None
