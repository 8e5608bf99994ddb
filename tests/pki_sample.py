"""A small deployment: an authority, a coordinator and three clients, in memory."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from cloister.crypto.identity import SigningKey
from cloister.protocol.pki import directory, revocations
from cloister.protocol.pki.authority import Authority, Header
from cloister.protocol.pki.certificates import issue, key_hash, new_authority, pem, serial_of
from cloister.protocol.pki.directory import Directory, Entry
from cloister.protocol.pki.names import uses_of
from cloister.protocol.pki.private_keys import new_key
from cloister.protocol.pki.revocations import RevocationList

NOW = 1_800_000_000
DAY = 86_400
PARTIES = (-1, 0, 1, 2)


@dataclass
class Deployment:
    """Everything about it, private keys too."""

    key: EllipticCurvePrivateKey
    authority: Authority
    links: Mapping[int, EllipticCurvePrivateKey]
    certificates: Mapping[int, x509.Certificate]
    identities: Mapping[int, Mapping[str, SigningKey]]
    entries: dict[int, Entry] = field(default_factory=dict)

    def header(self, version: int = 1, since: int = NOW - DAY, until: int = NOW + DAY) -> Header:
        return Header(self.authority.run, self.authority.fingerprint, version, since, until)

    def document(self, version: int = 1, until: int = NOW + DAY) -> bytes:
        return directory.sign(self.key, self.header(version, until=until), self.entries.values())

    @property
    def directory(self) -> Directory:
        return Directory.open(self.document(), self.authority, NOW)

    def revoked(self, *parties: int, version: int = 1, until: int = NOW + DAY) -> RevocationList:
        when = {self.entries[party].serial: NOW for party in parties}
        return RevocationList.open(revocations.sign(self.key, self.header(version, until=until), when), self.authority, NOW)

    def der(self, party: int) -> bytes:
        return self.certificates[party].public_bytes(Encoding.DER)


def deployment(run: str = "trial", days: int = 30) -> Deployment:
    key = new_key()
    certificate = new_authority(key, run, NOW, 365)
    links = {party: new_key() for party in PARTIES}
    issued = {i: issue(certificate, key, i, links[i].public_key(), ["localhost"] if i < 0 else [], NOW, days) for i in PARTIES}
    own = {
        i: {use: SigningKey.from_secret(hashlib.sha256(f"{i} {use}".encode()).digest()) for use in uses_of(i)} for i in PARTIES
    }
    entries = {
        i: Entry(i, serial_of(issued[i]), key_hash(links[i].public_key()), {use: one.public for use, one in own[i].items()})
        for i in PARTIES
    }
    return Deployment(key, Authority.read(pem(certificate)), links, issued, own, entries)
