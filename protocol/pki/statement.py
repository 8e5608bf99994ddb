"""What goes to the authority beside a certificate request: the party's Ed25519 identities, each of which signed that it is one.

Every identity signs the run, the party, its use and the hash of the request's key, so nobody enrols another's identity as his
own, and nobody puts his identities beside another's request unnoticed: the fingerprint covers both, and people compare it.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import cbor2

from ...crypto.identity import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, BadSignature, SigningKey, verify
from ..core.session import DEALER, MAX_ID
from .authority import FORMAT
from .certificates import Untrusted
from .names import check_run, uses_of
from .reading import Reader

PURPOSE = "enrolment"
MOST_BYTES = 1 << 14


def _context(run: str, party: int, key: bytes) -> bytes:
    return cbor2.dumps([run, party, key], canonical=True)


@dataclass(frozen=True, slots=True)
class Statement:
    """party: who wants to be enrolled. key: SHA-256 of its request's key. identities: public, by use. fingerprint: to compare."""

    run: str
    party: int
    key: bytes
    identities: Mapping[str, bytes]
    fingerprint: bytes

    @classmethod
    def open(cls, content: bytes, run: str) -> Self:
        """Raises Untrusted unless it is of this run, has the identities that this party needs, and each signed it."""
        try:
            if len(content) > MOST_BYTES:
                raise ValueError("it is too long")
            reader = Reader(content, "the identity file")
            reader.items(5, 5, "the statement")
            if (found := reader.integer(0, 2**31, "the format")) != FORMAT:
                raise ValueError(f"an identity file of format {found} where this release reads format {FORMAT}")
            named = reader.text(1, 64, "the run")
            if named != run:
                check_run(named)
                raise ValueError(f"the identity file is for the run {named}, and this is {run}")
            party = reader.integer(DEALER, MAX_ID, "the party")
            key = reader.octets(32, 32, "the hash of a key")
            identities: dict[str, bytes] = {}
            uses = uses_of(party)
            reader.items(len(uses), len(uses), "the identities")
            for use in uses:
                reader.items(3, 3, "an identity")
                if reader.text(1, 32, "a use") != use:
                    raise ValueError(f"the identity file lacks an identity for {use!r}")
                public = reader.octets(PUBLIC_KEY_BYTES, PUBLIC_KEY_BYTES, "an identity")
                signature = reader.octets(SIGNATURE_BYTES, SIGNATURE_BYTES, "a signature")
                verify(public, signature, PURPOSE, _context(run, party, key), use.encode())
                identities[use] = public
            reader.end()
        except BadSignature:
            raise Untrusted(f"the identity for {use!r} did not sign the identity file") from None
        except ValueError as error:
            raise Untrusted(str(error)) from None
        return cls(run, party, key, identities, hashlib.sha256(content).digest())


def stated(run: str, party: int, key: bytes, identities: Mapping[str, SigningKey]) -> bytes:
    """The file. key: SHA-256 of the key of the request that it goes with. identities: those of `uses_of(party)`."""
    context = _context(run, party, key)
    listed = [(use, identities[use]) for use in uses_of(party)]
    signed = [[use, own.public, own.sign(PURPOSE, context, use.encode())] for use, own in listed]
    return cbor2.dumps([FORMAT, run, party, key, signed], canonical=True)
