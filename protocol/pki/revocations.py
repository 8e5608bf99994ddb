"""Certificates that are taken back before their time, by serial number, in a list that the authority signs.

gRPC's Python API reads no revocation lists of X.509, so this is not one: it is a document like the directory, and whoever takes
streams asks `party_of` (admission.py) with it, for new streams and, when a newer list comes, for those that are open.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import cbor2
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from .authority import MOST_TIME, Authority, Header, read_signed, signed
from .certificates import SERIAL_BYTES
from .directory import check_newer
from .reading import Reader

KIND = "revocation list"
MOST_REVOKED = 500_000
MOST_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class RevocationList:
    """when: Unix seconds at which each was revoked, by serial number. digest: SHA-256 of the content."""

    header: Header
    when: Mapping[bytes, int] = field(repr=False)
    digest: bytes

    @classmethod
    def open(cls, document: bytes, authority: Authority, now: int) -> Self:
        """Check and read it. now: Unix seconds.

        Raises Untrusted unless this authority signed it, both are valid now, and every serial number is in it once.
        """
        found = cls.at_any_time(document, authority)
        authority.check(now)
        found.header.at(now, KIND)
        return found

    @classmethod
    def at_any_time(cls, document: bytes, authority: Authority) -> Self:
        """The same of one that may have expired: for whoever signs the next, and for nobody else."""
        return cls(*read_signed(document, authority, KIND, MOST_BYTES, _revoked))

    def follows(self, seen: "RevocationList") -> None:
        """Raises Untrusted if this is older than one that was seen, or another of the same version."""
        check_newer(self.header, self.digest, seen.header, seen.digest, KIND)


def sign(key: EllipticCurvePrivateKey, header: Header, when: Mapping[bytes, int]) -> bytes:
    """The document. key: the authority's."""
    content = [*header.items, [[serial, when[serial]] for serial in sorted(when)]]
    return signed(key, KIND, cbor2.dumps(content, canonical=True))


def _revoked(reader: Reader) -> dict[bytes, int]:
    when: dict[bytes, int] = {}
    last = b""
    for _ in range(reader.items(0, MOST_REVOKED, "the serial numbers")):
        reader.items(2, 2, "a revocation")
        serial = reader.octets(1, SERIAL_BYTES, "a serial number")
        if serial <= last:
            raise ValueError("the revocation list does not read: serial numbers are not ascending, each once")
        last = serial
        when[serial] = reader.integer(0, MOST_TIME, "the time of a revocation")
    return when
