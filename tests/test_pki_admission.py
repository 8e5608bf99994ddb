"""Who is let in by a certificate, and that each reason to refuse one is found and named."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP384R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cloister.protocol.pki import directory, hello
from cloister.protocol.pki.admission import in_good_standing, party_of
from cloister.protocol.pki.authority import Authority
from cloister.protocol.pki.certificates import Untrusted, issue, key_hash, pem, read_request, request_of, serial_of
from cloister.protocol.pki.directory import Directory
from cloister.protocol.pki.private_keys import new_identity, new_key
from cloister.protocol.pki.statement import Statement, stated

from .pki_sample import DAY, NOW, PARTIES, Deployment, deployment


@pytest.fixture(scope="module")
def made() -> Deployment:
    return deployment()


def test_everybody_is_who_the_directory_says(made: Deployment) -> None:
    for party in PARTIES:
        for certificate in (made.der(party), pem(made.certificates[party])):
            assert party_of(certificate, made.directory, made.revoked(), NOW) == party


def forged(made: Deployment) -> bytes:
    """Client 0's name, key and serial number, by an authority of the same name."""
    other = deployment()
    issuer = replace_serial(other, made.entries[0].serial, made.links[0].public_key())
    return issuer.public_bytes(Encoding.DER)


def replace_serial(made: Deployment, serial: bytes, public: object) -> x509.Certificate:
    certificate = made.certificates[0]
    builder = x509.CertificateBuilder(
        certificate.issuer,
        certificate.subject,
        public,  # type: ignore[arg-type]
        int.from_bytes(serial, "big"),
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        list(certificate.extensions),
    )
    return builder.sign(made.key, SHA256())


def with_another_key(made: Deployment) -> bytes:
    return replace_serial(made, made.entries[0].serial, new_key().public_key()).public_bytes(Encoding.DER)


def never_listed(made: Deployment) -> bytes:
    return issue(made.authority.certificate, made.key, 5, new_key().public_key(), [], NOW, 30).public_bytes(Encoding.DER)


def of_another_name(made: Deployment) -> bytes:
    """Listed as client 2, issued to client 0."""
    certificate = replace_serial(made, made.entries[2].serial, made.links[2].public_key())
    return certificate.public_bytes(Encoding.DER)


def the_authority(made: Deployment) -> bytes:
    return made.authority.certificate.public_bytes(Encoding.DER)


REFUSED: dict[str, Callable[[Deployment], bytes]] = {
    "unknown authority": forged,
    "key is not the one of the directory": with_another_key,
    "not in the directory": never_listed,
    "does not name client-2": of_another_name,
    "not in the directory: ": the_authority,
    "no X.509 certificate": lambda made: b"\x30\x82\xff\xff",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_certificate_is_refused_for_its_reason(made: Deployment, reason: str) -> None:
    with pytest.raises(Untrusted, match=reason):
        party_of(REFUSED[reason](made), made.directory, made.revoked(), NOW)


def test_an_expired_and_a_revoked_one(made: Deployment) -> None:
    later, long = NOW + 31 * DAY, Directory.open(made.document(until=NOW + 300 * DAY), made.authority, NOW)
    with pytest.raises(Untrusted, match="the certificate expired at"):
        party_of(made.der(0), long, made.revoked(until=NOW + 300 * DAY), later)
    with pytest.raises(Untrusted, match="the directory expired at"):
        party_of(made.der(0), made.directory, made.revoked(until=NOW + 300 * DAY), later)
    with pytest.raises(Untrusted, match="the revocation list expired at"):
        party_of(made.der(0), long, made.revoked(), later)
    early = issue(made.authority.certificate, made.key, 0, made.links[0].public_key(), [], NOW + DAY, 30)
    with pytest.raises(Untrusted, match="not yet by a clock that says"):
        party_of(pem(early), made.directory, made.revoked(), NOW)
    with pytest.raises(Untrusted, match="is revoked"):
        party_of(made.der(0), made.directory, made.revoked(0), NOW)
    assert party_of(made.der(1), made.directory, made.revoked(0), NOW) == 1
    with pytest.raises(Untrusted, match="another authority than the directory"):
        party_of(made.der(0), made.directory, deployment().revoked(0), NOW)


def test_an_identity_that_is_bound_to_anothers_certificate_is_known_by_it(made: Deployment) -> None:
    """An authority that mixes up two requests: the certificate of 0 brings the identities of 1, and 0 finds that out (accept)."""
    one, two = made.entries[0], made.entries[1]
    mixed = [made.entries[-1], replace(one, identities=two.identities), replace(two, identities=one.identities)]
    found = Directory.open(directory.sign(made.key, made.header(), mixed), made.authority, NOW)
    party = party_of(made.der(0), found, made.revoked(), NOW)
    assert found.entries[party].identities["sums"] == made.identities[1]["sums"].public


@pytest.mark.sweeps
@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_no_byte_of_a_certificate_can_be_altered(made: Deployment) -> None:
    """Of what the authority signed: X.509 wraps a signature with a count of unused bits, which may be said in two ways."""
    certificate, found, revoked = made.der(0), made.directory, made.revoked()
    signed = made.certificates[0].tbs_certificate_bytes
    for at in range(len(certificate)):
        for flip in (0x01, 0x80):
            altered = certificate[:at] + bytes([certificate[at] ^ flip]) + certificate[at + 1 :]
            try:
                assert party_of(altered, found, revoked, NOW) == 0
            except Untrusted:
                continue
            assert x509.load_der_x509_certificate(altered).tbs_certificate_bytes == signed


def test_what_certificates_may_be_used_for(made: Deployment) -> None:
    authority = made.authority.certificate
    limits = authority.extensions.get_extension_for_class(x509.BasicConstraints)
    assert limits.critical
    assert (limits.value.ca, limits.value.path_length) == (True, 0)
    for party in PARTIES:
        found = made.certificates[party].extensions
        purposes = set(found.get_extension_for_class(x509.ExtendedKeyUsage).value)
        assert ExtendedKeyUsageOID.CLIENT_AUTH in purposes
        assert (ExtendedKeyUsageOID.SERVER_AUTH in purposes) == (party < 0)
        assert not found.get_extension_for_class(x509.BasicConstraints).value.ca
        assert not found.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
        assert made.certificates[party].version == x509.Version.v3
    with pytest.raises(ValueError, match="not reached at hosts"):
        issue(authority, made.key, 0, new_key().public_key(), ["localhost"], NOW, 1)
    for host in ("a b", "-a", "a..b", "", "ä.example", "a/b", "*"):
        with pytest.raises(ValueError, match="neither a host's name nor an address"):
            issue(authority, made.key, -1, new_key().public_key(), [host], NOW, 1)


def test_what_is_no_authority(made: Deployment) -> None:
    for content in (pem(made.certificates[0]), pem(made.certificates[-1]), b"", b"-----BEGIN CERTIFICATE-----\n"):
        with pytest.raises(Untrusted):
            Authority.read(content)


def test_requests(made: Deployment) -> None:
    key = new_key()
    request = request_of(key, "trial", 7)
    for form in (Encoding.PEM, Encoding.DER):
        name, public = read_request(request.public_bytes(form))
        assert (name, key_hash(public)) == ("client-7", key_hash(key.public_key()))
    der = bytearray(request.public_bytes(Encoding.DER))
    der[-1] ^= 1
    with pytest.raises(Untrusted, match=r"not signed by its own key|no certificate request"):
        read_request(bytes(der))
    name_of_7 = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client-7")])
    builder = x509.CertificateSigningRequestBuilder()
    for other in (generate_private_key(SECP384R1()), Ed25519PrivateKey.generate()):
        how = None if isinstance(other, Ed25519PrivateKey) else SHA256()
        sent = builder.subject_name(name_of_7).sign(other, how)  # type: ignore[arg-type]
        with pytest.raises(Untrusted, match="not on P-256"):
            read_request(sent.public_bytes(Encoding.DER))
    with pytest.raises(Untrusted, match="no single common name"):
        read_request(builder.subject_name(x509.Name([])).sign(key, SHA256()).public_bytes(Encoding.DER))
    for noise in (b"", b"-----BEGIN CERTIFICATE REQUEST-----", b"\x30\x84\xff\xff\xff\xff", made.der(0)):
        with pytest.raises(Untrusted, match="no certificate request"):
            read_request(noise)


@pytest.mark.sweeps
def test_an_identity_file_is_signed_by_every_identity_that_it_lists(made: Deployment) -> None:
    own = {use: new_identity() for use in made.identities[0]}
    content = stated("trial", 7, b"k" * 32, own)
    assert Statement.open(content, "trial").identities == {use: one.public for use, one in own.items()}
    for at in range(len(content)):
        with pytest.raises(Untrusted):
            Statement.open(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :], "trial")
        with pytest.raises(Untrusted):
            Statement.open(content[:at], "trial")
    with pytest.raises(Untrusted, match="for the run trial, and this is other"):
        Statement.open(content, "other")


def test_a_server_shows_who_it_is_on_one_link_alone(made: Deployment) -> None:
    found, own, challenge = made.directory, made.identities[-1]["link"], b"c" * 32
    said = hello.answer(own, -1, 0, found, challenge)
    hello.check(said, -1, 0, found, made.revoked(), challenge, NOW)
    for server, client, asked in ((-1, 1, challenge), (-1, 0, b"d" * 32), (-2, 0, challenge), (2, 0, challenge)):
        with pytest.raises(Untrusted):
            hello.check(said, server, client, found, made.revoked(), asked, NOW)
    with pytest.raises(Untrusted, match="certificate of coordinator is revoked"):
        hello.check(said, -1, 0, found, made.revoked(-1), challenge, NOW)
    with pytest.raises(Untrusted, match="did not show"):
        hello.check(hello.answer(new_identity(), -1, 0, found, challenge), -1, 0, found, made.revoked(), challenge, NOW)
    with pytest.raises(ValueError, match="32 bytes"):
        hello.answer(own, -1, 0, found, b"short")
    with pytest.raises(Untrusted, match="client-9 is not in the directory"):
        in_good_standing(9, found, made.revoked(), NOW)


def test_serial_numbers_are_as_short_as_they_can_be(made: Deployment) -> None:
    for party in PARTIES:
        serial = serial_of(made.certificates[party])
        assert serial[0] != 0
        assert int.from_bytes(serial, "big") == made.certificates[party].serial_number
