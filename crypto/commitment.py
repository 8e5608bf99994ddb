"""Hash commitments: SHA-256 over a domain, the context, a 32-byte salt and the content.

Binding up to collisions of SHA-256. Hiding when the salt is uniform and used for one commitment only, with SHA-256 as a
random oracle. A commitment made in one context opens in no other.
"""

import hashlib
import hmac

SALT_BYTES = 32
COMMITMENT_BYTES = 32
_DOMAIN = b"cloister/v1/commitment"
_HEAD = len(_DOMAIN).to_bytes(8, "big") + _DOMAIN


class BadCommitment(ValueError):
    """The commitment is not to this content in this context."""


def commit(content: bytes, salt: bytes, context: bytes) -> bytes:
    """A 32-byte commitment to `content`. Raises ValueError for a salt that is not 32 bytes."""
    if len(salt) != SALT_BYTES:
        raise ValueError(f"a salt has {SALT_BYTES} bytes, not {len(salt)}")
    head = _HEAD + len(context).to_bytes(8, "big") + context
    return hashlib.sha256(head + salt + content).digest()  # all parts but the last have a known length: one reading only


def open_commitment(commitment: bytes, content: bytes, salt: bytes, context: bytes) -> None:
    """Return if `commitment` is to exactly this; compares in constant time. Raises BadCommitment, and never says why."""
    if len(salt) != SALT_BYTES or not hmac.compare_digest(commitment, commit(content, salt, context)):
        raise BadCommitment("a commitment does not open")
