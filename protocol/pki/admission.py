"""Who is at the other end of a link: what is held against the certificate that TLS let in."""

import hmac

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from ..core.errors import Revoked
from .certificates import Untrusted, check_time, key_hash, on_p256, read_certificate, serial_of
from .directory import Directory, Entry
from .names import name_of
from .revocations import RevocationList

REVOKED = "the certificate is revoked"
"""What is said of one that nothing takes the place of."""


class TakenBack(Untrusted, Revoked):
    """A certificate is revoked, and the directory lists no other of the party that it names."""


def party_of(certificate: bytes, directory: Directory, revoked: RevocationList, now: int) -> int:
    """The party whose certificate this is (DER, or the PEM of gRPC's `x509_pem_cert`). now: Unix seconds.

    Raises Untrusted, with the reason: no certificate, of an unknown authority, expired, revoked, not in the directory, of another
    key or name than the directory's; or the directory or the list expired; TakenBack where it is revoked for good. A stream that
    is open is asked about again when a newer directory or list comes.
    """
    found = read_certificate(certificate)
    try:
        found.verify_directly_issued_by(directory.authority.certificate)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        raise Untrusted("the certificate is of an unknown authority") from None
    _in_force(directory, revoked, now)
    check_time(found, now)
    serial = serial_of(found)
    if serial in revoked.when:
        raise _revoked(found, serial, directory)
    if (entry := directory.by_serial.get(serial)) is None:
        raise Untrusted("the certificate is not in the directory: it was replaced by a newer one, or was never listed")
    if not hmac.compare_digest(key_hash(on_p256(found.public_key(), "the certificate")), entry.key):
        raise Untrusted("the certificate's key is not the one of the directory")
    if name_of(entry.party) not in _names(found):
        raise Untrusted(f"the certificate does not name {name_of(entry.party)}, as which the directory lists it")
    return entry.party


def in_good_standing(party: int, directory: Directory, revoked: RevocationList, now: int) -> Entry:
    """The party's entry. Raises Untrusted for one that is not in the directory or whose certificate is revoked.

    For who sees an identity's signature and no certificate, as clients do of a server behind gRPC.
    """
    _in_force(directory, revoked, now)
    if (entry := directory.entries.get(party)) is None:
        raise Untrusted(f"{name_of(party)} is not in the directory")
    if entry.serial in revoked.when:
        raise Untrusted(f"the certificate of {name_of(party)} is revoked")
    return entry


def shown_by(server: int, certificate: bytes, directory: Directory, revoked: RevocationList, now: int) -> x509.Certificate:
    """The certificate that a server says it has, which gRPC does not hand over. Raises Untrusted unless it is the one that the
    directory lists for it, as `party_of` has it: no other can be passed for it, as the authority signed that.
    """
    found = read_certificate(certificate)
    check_time(found, now, f"the certificate of {name_of(server)}")
    if (party := party_of(certificate, directory, revoked, now)) != server:
        raise Untrusted(f"{name_of(server)} shows the certificate of {name_of(party)}")
    return found


def _in_force(directory: Directory, revoked: RevocationList, now: int) -> None:
    if revoked.header.authority != directory.header.authority:
        raise Untrusted("the revocation list is of another authority than the directory")
    directory.authority.check(now)
    directory.header.at(now, "directory")
    revoked.header.at(now, "revocation list")


def _revoked(certificate: x509.Certificate, serial: bytes, directory: Directory) -> Untrusted:
    """Why one is not let in that is on the list: was it taken back, or did another take its place?"""
    names = _names(certificate)
    newer = [entry for entry in directory.entries.values() if name_of(entry.party) in names and entry.serial != serial]
    if newer:
        return Untrusted(f"{REVOKED}: a newer one of {name_of(newer[0].party)} took its place; take it by `cloister keys accept`")
    return TakenBack(REVOKED)


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return names.get_values_for_type(x509.DNSName)
