"""A certificate authority for tests: P-256 certificates of parties, as PEM bytes."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


def pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@dataclass(frozen=True)
class Issued:
    key: bytes
    certificate: bytes
    authority: bytes

    def write(self, folder: Path) -> Path:
        """As `--keys` takes it."""
        folder.mkdir(mode=0o700, parents=True)
        for name, content in (("link.key", self.key), ("link.pem", self.certificate), ("authority.pem", self.authority)):
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o600)
        return folder


class SmallAuthority:
    def __init__(self, name: str = "tests") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        built = self._builder(self._name, self._key.public_key(), DAY)
        built = built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.certificate = built.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def issue(self, name: str, lasts: datetime.timedelta = DAY) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        built = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key(), lasts)
        hosts = [x509.DNSName(name), x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        built = built.add_extension(x509.SubjectAlternativeName(hosts if name == "coordinator" else hosts[:1]), critical=False)
        signed = built.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        return Issued(pem_of(key), signed, self.certificate)

    def _builder(
        self, subject: x509.Name, public: ec.EllipticCurvePublicKey, lasts: datetime.timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        begins = min(now, now + lasts) - DAY
        built = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(public)
        return built.serial_number(x509.random_serial_number()).not_valid_before(begins).not_valid_after(now + lasts)
