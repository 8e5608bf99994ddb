"""X25519 agreement on keys: two parties that know each other's public keys hold the same 32 bytes, and nobody else does.

The agreed secret only enters HKDF-SHA256 together with a purpose and a context, so each use has its own key of 256 bits.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from .prg import derive_key


class UnusableKey(ValueError):
    """Nothing can be agreed on with this public key (a point of low order)."""


KeyExchange = Callable[[X25519PrivateKey, bytes], bytes]
"""`exchange_keys`, or what stands for it."""


def exchange_keys(private: X25519PrivateKey, peer: bytes) -> bytes:
    """32 bytes that the holder of `peer` finds too. Raises ValueError for a point of low order."""
    return private.exchange(X25519PublicKey.from_public_bytes(peer))


class ExchangedOnce:
    """`exchange_keys` for a process in which both ends of a pair do it: the other end takes what the first found, and it is gone.

    kept: of what was found and not yet taken, after which the oldest is forgotten.
    """

    def __init__(self, kept: int = 1 << 16) -> None:
        self._found: dict[bytes, bytes] = {}
        self._kept = kept

    def __call__(self, private: X25519PrivateKey, peer: bytes, /) -> bytes:
        """See `exchange_keys`."""
        own = private.public_key().public_bytes_raw()
        pair = own + peer if own < peer else peer + own
        found = self._found.pop(pair, None)
        if found is None:
            found = self._found[pair] = exchange_keys(private, peer)
            if len(self._found) > self._kept:
                del self._found[next(iter(self._found))]
        return found


@dataclass(frozen=True, slots=True)
class AgreementKey:
    """A one-session X25519 key for one purpose. secret: 32 uniform bytes. exchange: how it does it."""

    secret: bytes = field(repr=False)
    exchange: KeyExchange = field(default=exchange_keys, repr=False, compare=False)
    _private: X25519PrivateKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_private", X25519PrivateKey.from_private_bytes(self.secret))  # a base point multiplication

    @property
    def public(self) -> bytes:
        """32 bytes."""
        return self._private.public_key().public_bytes_raw()

    def agree(self, peers: Iterable[tuple[bytes, bytes]], purpose: str) -> tuple[bytes, ...]:
        """One 32-byte key per (public key, context), the same at the other end. Raises UnusableKey."""
        try:
            agreed = [(self.exchange(self._private, peer), context) for peer, context in peers]
        except ValueError:
            raise UnusableKey("nothing can be agreed on with this public key") from None
        return tuple(derive_key(secret, purpose, context) for secret, context in agreed)


_PROBE = X25519PrivateKey.from_private_bytes(bytes(range(32)))


def check_public(public: bytes) -> None:
    """Return if keys can be agreed on with `public`. Raises UnusableKey for low order: such points fail with every key."""
    try:
        _PROBE.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise UnusableKey("nothing can be agreed on with this public key") from None
