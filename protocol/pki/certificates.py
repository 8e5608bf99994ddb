"""X.509 v3 certificates of one deployment (RFC 5280): one authority, and one certificate for each party's link.

Keys are on P-256: gRPC's handshake fails with Ed25519 certificates. A party's certificate says its name (`client-3`) as a DNS
name, for servers their hosts too; servers may be servers and clients of a link, clients only clients.
"""

import datetime as dt
import hashlib
import ipaddress
import re
from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .names import name_of

SERIAL_BYTES = 20
MOST_BYTES = 1 << 14
"""Of a certificate or a request."""
EARLY = 300
"""Seconds before it is signed from which on a certificate is valid: clocks differ."""


class Untrusted(ValueError):
    """A certificate, a directory or a list is not accepted. The message says why, in one line."""


def when(seconds: int) -> dt.datetime:
    """Unix seconds as X.509 has them."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def by_clock(now: int) -> str:
    """What words about a time that is over, or to come, end with: it may be that clock which is wrong. now: Unix seconds."""
    return f"by a clock that says {when(now):%Y-%m-%d %H:%M} UTC"


def check_time(certificate: x509.Certificate, now: int, what: str = "the certificate") -> None:
    """Raises Untrusted where it is not valid then. now: Unix seconds."""
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if when(now) < begins:
        raise Untrusted(f"{what} is valid from {begins:%Y-%m-%d %H:%M} UTC on, and not yet {by_clock(now)}")
    if when(now) > ends:
        raise Untrusted(f"{what} expired at {ends:%Y-%m-%d %H:%M} UTC, {by_clock(now)}")


def key_hash(key: EllipticCurvePublicKey) -> bytes:
    """SHA-256 of the key as certificates have it (SubjectPublicKeyInfo, DER)."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


def on_p256(key: object, what: str) -> EllipticCurvePublicKey:
    """The key. Raises Untrusted for any other kind."""
    if not isinstance(key, EllipticCurvePublicKey) or key.curve.name != SECP256R1.name:
        raise Untrusted(f"{what} has a key that is not on P-256 (openssl: -newkey ec -pkeyopt ec_paramgen_curve:P-256)")
    return key


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(True, False, False, False, False, authority, authority, False, False)


def new_authority(key: EllipticCurvePrivateKey, run: str, now: int, days: int) -> x509.Certificate:
    """Self-signed; it signs parties' certificates and no further authority (path length 0)."""
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, run), x509.NameAttribute(NameOID.COMMON_NAME, "Cloister CA")])
    public = key.public_key()
    subject = x509.SubjectKeyIdentifier.from_public_key(public)
    made = x509.CertificateBuilder(name, name, public, x509.random_serial_number(), when(now - EARLY), when(now + 86_400 * days))
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    made = made.add_extension(_usage(authority=True), critical=True).add_extension(subject, critical=False)
    return made.sign(key, SHA256())


def host(name: str) -> x509.GeneralName:
    """A host's name or address. Raises ValueError for what is neither."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        if len(name) > 253 or re.fullmatch(r"(?!-)[A-Za-z0-9-]{1,63}(\.(?!-)[A-Za-z0-9-]{1,63})*", name) is None:
            raise ValueError(f"{name[:80]!r} is neither a host's name nor an address") from None
        return x509.DNSName(name)


def issue(
    authority: x509.Certificate,
    key: EllipticCurvePrivateKey,
    party: int,
    public: EllipticCurvePublicKey,
    hosts: Sequence[str],
    now: int,
    days: int,
) -> x509.Certificate:
    """A certificate for this party's link. key: the authority's. hosts: where a server is reached; clients are at none.

    It ends with the authority's at the latest. Raises ValueError for hosts of a client.
    """
    if hosts and party >= 0:
        raise ValueError("clients are not reached at hosts")
    organization = authority.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0]
    subject = x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, name_of(party))])
    until = min(when(now + 86_400 * days), authority.not_valid_after_utc)
    names = x509.SubjectAlternativeName([x509.DNSName(name_of(party)), *map(host, hosts)])
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if party < 0 else [])]
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(on_p256(authority.public_key(), "the authority"))
    made = x509.CertificateBuilder(authority.subject, subject, public, x509.random_serial_number(), when(now - EARLY), until)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(_usage(authority=False), critical=True)
    made = made.add_extension(x509.ExtendedKeyUsage(purposes), critical=False).add_extension(names, critical=False)
    return made.add_extension(signer, critical=False).sign(key, SHA256())


def request_of(key: EllipticCurvePrivateKey, run: str, party: int) -> x509.CertificateSigningRequest:
    """A request (PKCS #10) for this party's certificate, as openssl makes one, too."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, run), x509.NameAttribute(NameOID.COMMON_NAME, name_of(party))]
    return x509.CertificateSigningRequestBuilder().subject_name(x509.Name(attributes)).sign(key, SHA256())


def read_request(content: bytes) -> tuple[str, EllipticCurvePublicKey]:
    """The common name and the key of a request, in PEM or DER, that its key signed. What else it asks for is not read.

    Raises Untrusted for any other.
    """
    pem = content.lstrip().startswith(b"-----BEGIN")
    try:
        load = x509.load_pem_x509_csr if pem else x509.load_der_x509_csr
        request = load(content)
        named = [str(found.value) for found in request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        key = on_p256(request.public_key(), "the request")
        signed = request.is_signature_valid
    except Untrusted:
        raise
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion):
        raise Untrusted("this is no certificate request (PKCS #10, in PEM or DER)") from None
    if not signed:
        raise Untrusted("the request is not signed by its own key")
    if len(named) != 1:
        raise Untrusted("the request has no single common name (openssl: -subj /CN=client-3)")
    return named[0], key


def read_certificate(content: bytes) -> x509.Certificate:
    """One in PEM or DER. Raises Untrusted for anything else."""
    try:
        if len(content) > MOST_BYTES:
            raise ValueError
        pem = content.lstrip().startswith(b"-----BEGIN")
        return x509.load_pem_x509_certificate(content) if pem else x509.load_der_x509_certificate(content)
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
        raise Untrusted("this is no X.509 certificate") from None


def pem(certificate: x509.Certificate) -> bytes:
    """As files and gRPC have it."""
    return certificate.public_bytes(Encoding.PEM)


def der(content: bytes) -> bytes:
    """As links have it, of one in PEM or DER. Raises Untrusted for anything else."""
    return read_certificate(content).public_bytes(Encoding.DER)


def serial_of(certificate: x509.Certificate) -> bytes:
    """Its serial number, big-endian, without leading zeros. Raises Untrusted for one of more than 20 bytes, or below 1."""
    number = certificate.serial_number
    if not 0 < number < 1 << (8 * SERIAL_BYTES):
        raise Untrusted("the certificate has a serial number out of range")
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def common_name(content: bytes) -> str:
    """What a certificate calls its party, for the log; empty where it says nothing of the kind."""
    try:
        named = read_certificate(content).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:
        return ""
    return str(named[0].value)[:64] if named else ""
