"""What the authority signs besides certificates: documents of one run, each with a version and a time.

A document is signed as the bytes that it is sent as, by ECDSA on P-256 with SHA-256 over a domain of its own, so neither
kind passes for the other, nor for a certificate. The file is the list [content, signature]; a signature has 64 bytes, r and s.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self, TypeVar

import cbor2
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from .certificates import Untrusted, by_clock, key_hash, on_p256, read_certificate, when
from .names import check_run
from .reading import Reader

T = TypeVar("T")
FORMAT = 1
SIGNATURE_BYTES = 64
MOST_VERSION = 2**31 - 1
MOST_TIME = 2**40


def _signed(kind: str, content: bytes) -> bytes:
    head = b"cloister/v1/" + kind.encode()
    return b"".join(len(part).to_bytes(8, "big") + part for part in (head, content))


@dataclass(frozen=True, slots=True)
class Authority:
    """The authority as others know it. fingerprint: SHA-256 of its key, which people compare. run: the name of its run."""

    certificate: x509.Certificate
    key: EllipticCurvePublicKey = field(repr=False)
    fingerprint: bytes
    run: str

    @classmethod
    def read(cls, content: bytes) -> Self:
        """From its certificate, in PEM or DER. Raises Untrusted for one that is no authority's of ours."""
        certificate = read_certificate(content)
        key = on_p256(certificate.public_key(), "the authority")
        try:
            certificate.verify_directly_issued_by(certificate)
            limits = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
            (run,) = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
            check_run(str(run.value))
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.ExtensionNotFound):
            raise Untrusted("this is no certificate of a run's authority") from None
        if not limits.ca or limits.path_length != 0:
            raise Untrusted("this certificate is not of an authority with path length 0")
        return cls(certificate, key, key_hash(key), str(run.value))

    def check(self, now: int) -> None:
        """Raises Untrusted if its own time is over, or has not begun."""
        begins, ends = self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc
        if not begins <= when(now) <= ends:
            times = f"from {begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} UTC"
            raise Untrusted(f"the authority's own certificate is valid {times}, and not {by_clock(now)}")

    def opened(self, document: bytes, kind: str, most: int) -> bytes:
        """The content of a document of this kind. Raises Untrusted unless this authority signed exactly that."""
        what = f"the {kind}"
        if len(document) > most:
            raise Untrusted(f"{what} has {len(document)} bytes, over the limit of {most}")
        try:
            reader = Reader(document, what)
            reader.items(2, 2, "the document")
            content = reader.octets(1, most, "the content")
            signature = reader.octets(SIGNATURE_BYTES, SIGNATURE_BYTES, "the signature")
            reader.end()
            r, s = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
            self.key.verify(encode_dss_signature(r, s), _signed(kind, content), ECDSA(SHA256()))
        except InvalidSignature:
            raise Untrusted(f"{what} is not signed by this authority") from None
        except ValueError as error:
            raise Untrusted(str(error)) from None
        return content


def read_signed(
    document: bytes, authority: Authority, kind: str, most: int, body: Callable[[Reader], T]
) -> "tuple[Header, T, bytes]":
    """Its header, what `body` reads behind that, and the SHA-256 of the content. Raises Untrusted."""
    content = authority.opened(document, kind, most)
    try:
        reader = Reader(content, f"the {kind}")
        reader.items(7, 7, "the content")
        header = Header.read(reader)
        header.of(authority, kind)
        found = body(reader)
        reader.end()
    except Untrusted:
        raise
    except ValueError as error:
        raise Untrusted(str(error)) from None
    return header, found, hashlib.sha256(content).digest()


def signed(key: EllipticCurvePrivateKey, kind: str, content: bytes) -> bytes:
    """The document. key: the authority's."""
    r, s = decode_dss_signature(key.sign(_signed(kind, content), ECDSA(SHA256())))
    return cbor2.dumps([content, r.to_bytes(32, "big") + s.to_bytes(32, "big")], canonical=True)


@dataclass(frozen=True, slots=True)
class Header:
    """What every document begins with. run: its name. authority: fingerprint. version: from 1, higher with every change.

    since, until: Unix seconds between which it is valid.
    """

    run: str
    authority: bytes
    version: int
    since: int
    until: int

    def __post_init__(self) -> None:
        if not (1 <= self.version <= MOST_VERSION and 0 <= self.since < self.until <= MOST_TIME):
            raise ValueError("a document's version or time is out of range")

    @property
    def items(self) -> list[object]:
        """As they are encoded."""
        return [FORMAT, self.run, self.authority, self.version, self.since, self.until]

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Raises ValueError for another format, which it names."""
        found = reader.integer(0, MOST_VERSION, "the format")
        if found != FORMAT:
            raise ValueError(f"a document of format {found} where this release reads format {FORMAT}")
        return cls(
            reader.text(1, 64, "the run"),
            reader.octets(32, 32, "the authority"),
            reader.integer(1, MOST_VERSION, "the version"),
            reader.integer(0, MOST_TIME, "the time of its start"),
            reader.integer(0, MOST_TIME, "the time of its end"),
        )

    def of(self, authority: Authority, what: str) -> None:
        """Raises Untrusted if it names another authority or run."""
        if self.authority != authority.fingerprint or self.run != authority.run:
            raise Untrusted(f"the {what} is of another run or authority")

    def at(self, now: int, what: str) -> None:
        """Raises Untrusted if it is not valid then."""
        if now < self.since:
            since = f"{when(self.since):%Y-%m-%d %H:%M} UTC"
            raise Untrusted(f"the {what} is valid from {since} on, which is still to come {by_clock(now)}: is that clock right?")
        if now > self.until:
            raise Untrusted(f"the {what} expired at {when(self.until):%Y-%m-%d %H:%M} UTC, {by_clock(now)}")
