"""How a server shows a client who it is: gRPC's Python API checks a server's certificate and does not hand it over.

So a client cannot look its serial number up in a revocation list, and whoever has a server's old key could pass for it until the
certificate expires. The client sends 32 fresh bytes; the server signs them with its identity, for the one client that its own end
of the link showed to be there, so an answer that was got on another link is of no use.
"""

from ...crypto.identity import BadSignature, SigningKey, verify
from .admission import in_good_standing
from .certificates import Untrusted
from .directory import Directory
from .names import name_of
from .revocations import RevocationList

PURPOSE = "link"
CHALLENGE_BYTES = 32


def _content(server: int, client: bytes, challenge: bytes) -> bytes:
    if len(challenge) != CHALLENGE_BYTES:
        raise ValueError(f"a challenge has {CHALLENGE_BYTES} bytes, not {len(challenge)}")
    return server.to_bytes(8, "big", signed=True) + len(client).to_bytes(1, "big") + client + challenge


def answer(identity: SigningKey, server: int, client: int, directory: Directory, challenge: bytes) -> bytes:
    """A 64-byte signature. identity: the server's for `PURPOSE`. client: whom `party_of` found at the other end.

    Raises ValueError for a challenge of another length, KeyError for a client that is not in the directory.
    """
    return identity.sign(PURPOSE, directory.run, _content(server, directory.entries[client].serial, challenge))


def check(
    signature: bytes, server: int, client: int, directory: Directory, revoked: RevocationList, challenge: bytes, now: int
) -> None:
    """Return if this server of the directory, whose certificate is not revoked, answered this client's challenge.

    Raises Untrusted.
    """
    entry = in_good_standing(server, directory, revoked, now)
    try:
        verify(
            entry.identities[PURPOSE],
            signature,
            PURPOSE,
            directory.run,
            _content(server, directory.entries[client].serial, challenge),
        )
    except (BadSignature, KeyError):
        known = f"as directory {directory.header.version} has it"
        remedy = "if its keys were replaced, `cloister keys accept` takes the directory that says so"
        raise Untrusted(f"{name_of(server)} did not show that it holds its identity, {known}: {remedy}") from None
