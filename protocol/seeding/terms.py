"""What all parties of a seed exchange compute alike: the session, tags, seeds, contexts, and what signatures are on.

digest: the session's, 32 bytes.
"""

from collections.abc import Iterable, Mapping

from ...crypto.identity import BadSignature, SigningKey, Verify
from ...crypto.prg import derive_key
from ..core.session import Session
from .messages import Advertise, SeedQuorum, SeedTag

PROTOCOL = "group seed"
TAGS = "group seed tag"
"""Purpose of the signatures on tags."""
SECRET_BYTES = TAG_BYTES = 32
ATTEMPTS = 3
"""Of so many clients the server asks one after another to seal the seed to somebody."""
LIVES = 16
"""Keys of one client that a holder seals to, and that the server passes on once the exchange is open."""


def session_of(use: str, run: bytes, clients: Iterable[int]) -> Session:
    """The session in which the clients of a run agree on the seed of one use. More than half of them must hold it."""
    roster = tuple(sorted(clients))
    return Session(PROTOCOL, run, 0, use, roster, len(roster) // 2 + 1)


def check(session: Session) -> None:
    """Raises ValueError for a threshold that two seeds could reach side by side."""
    if 2 * session.threshold <= len(session.roster):
        raise ValueError(f"a seed must be held by more than half of {len(session.roster)} clients, not by {session.threshold}")


def seed_of(secret: bytes, digest: bytes) -> bytes:
    """The seed, 32 bytes: what is drawn from it is drawn for this protocol and this session alone."""
    return derive_key(secret, PROTOCOL, digest)


def tag_of(secret: bytes, digest: bytes) -> bytes:
    """32 bytes that name the secret: two secrets have different tags, and a tag tells nothing of its secret."""
    return derive_key(secret, TAGS, digest)


def context(digest: bytes, sealer: int, member: int, tag: bytes) -> bytes:
    """What a seal is bound to. The tag is in it, so that a pair of keys never seals two secrets in one context."""
    return digest + sealer.to_bytes(4, "big") + member.to_bytes(4, "big") + tag


def advertise(identity: SigningKey, digest: bytes, public: bytes) -> Advertise:
    return Advertise(public, identity.sign(PROTOCOL, digest, public))


def signed_tag(identity: SigningKey, digest: bytes, tag: bytes) -> SeedTag:
    return SeedTag(tag, identity.sign(TAGS, digest, tag))


def check_key(enrolled: Mapping[int, bytes], client: int, said: Advertise, digest: bytes, verify: Verify) -> None:
    """Raises BadSignature, also for a client that is not enrolled."""
    _check(enrolled, client, said.signature, PROTOCOL, digest, said.public, verify)


def check_tag(enrolled: Mapping[int, bytes], client: int, said: SeedTag, digest: bytes, verify: Verify) -> None:
    """The same of a tag."""
    _check(enrolled, client, said.signature, TAGS, digest, said.tag, verify)


def check_quorum(enrolled: Mapping[int, bytes], quorum: SeedQuorum, session: Session, verify: Verify) -> None:
    """Raises BadSignature unless at least `threshold` clients of the roster signed the tag."""
    if len(quorum.members) < session.threshold or not set(quorum.members) <= set(session.roster):
        raise BadSignature("too few of the roster hold the seed")
    digest = session.digest
    for member, signature in zip(quorum.members, quorum.signatures, strict=True):
        check_tag(enrolled, member, SeedTag(quorum.tag, signature), digest, verify)


def _check(
    enrolled: Mapping[int, bytes], client: int, signature: bytes, purpose: str, digest: bytes, content: bytes, verify: Verify
) -> None:
    if client not in enrolled:
        raise BadSignature(f"client {client} is not enrolled")
    verify(enrolled[client], signature, purpose, digest, content)
