"""The authority's folder and the parties' own: what is written, who can read it, what replaces what, and what is refused."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from cloister.protocol.pki import office, party, private_files, private_keys
from cloister.protocol.pki.admission import party_of
from cloister.protocol.pki.certificates import Untrusted, key_hash, request_of
from cloister.protocol.pki.listing import listing
from cloister.protocol.pki.statement import Statement, stated

from .pki_sample import DAY, NOW

OPENSSL = shutil.which("openssl")
with_openssl = pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    office.init(tmp_path / "pki", "trial", 3, ["fl.example.org", "10.0.0.1"], two_servers=False, now=NOW)
    return tmp_path / "pki"


def own(folder: Path, name: str) -> Path:
    return folder / "parties" / name


def openssl(*arguments: str | Path, cwd: Path) -> str:
    done = subprocess.run([OPENSSL or "", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout + done.stderr


def test_every_file_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        office.init(tmp_path / "pki", "trial", 1, [], two_servers=True, now=NOW)
        office.rotate(tmp_path / "pki", 0, None, now=NOW)
        party.request(tmp_path / "mine", "trial", 4)
    finally:
        os.umask(before)
    paths = [path for root in ("pki", "mine") for path in [tmp_path / root, *(tmp_path / root).rglob("*")]]
    assert len(paths) > 40
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
        assert not path.name.endswith(".tmp")
    names = {path.name for path in (tmp_path / "pki" / "parties").iterdir()}
    assert names == {"coordinator", "second-server", "dealer", "client-0"}


def test_no_private_key_is_outside_of_its_owners_folder(folder: Path) -> None:
    for path in (folder / "public").iterdir():
        assert b"PRIVATE" not in path.read_bytes()
    for path in folder.rglob("*"):
        if path.is_file() and b"PRIVATE" in path.read_bytes():
            assert path.suffix == ".key"


@pytest.mark.parametrize("name", ["link.key", "identity-sums.key"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_secret_that_others_may_read_is_not_used(folder: Path, name: str, mode: int) -> None:
    path = own(folder, "client-1") / name
    path.chmod(mode)
    with pytest.raises(ValueError, match=f"chmod 600 {path}") as caught:
        party.identities(own(folder, "client-1"), 1, NOW)
    assert "\n" not in str(caught.value)
    path.chmod(0o600)
    party.identities(own(folder, "client-1"), 1, NOW)


def test_a_folder_that_others_may_write_to_gets_no_keys(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine").chmod(0o770)
    with pytest.raises(ValueError, match="chmod 700"):
        party.request(tmp_path / "mine", "trial", 4)


def test_nothing_is_written_over(folder: Path) -> None:
    def content() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    before = content()
    with pytest.raises(FileExistsError, match=r"authority.key exists already, and is not written over without --force"):
        office.init(folder, "trial", 3, [], two_servers=False, now=NOW)
    with pytest.raises(FileExistsError, match=r"link\.key exists already"):
        party.request(own(folder, "client-0"), "trial", 0)
    assert content() == before
    known = party.trusted(own(folder, "client-0"), NOW).authority.fingerprint
    office.init(folder, "trial", 3, [], two_servers=False, now=NOW, force=True)
    assert party.trusted(own(folder, "client-0"), NOW).authority.fingerprint != known
    party.credentials(own(folder, "client-0"), 0, NOW)


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private_files.write(tmp_path / "file", b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        private_files.write(tmp_path / "file", b"new", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_one_command_at_a_time(folder: Path) -> None:
    with private_files.alone(folder), pytest.raises(ValueError, match="another command changes"):
        office.revoke(folder, 0, now=NOW)
    office.revoke(folder, 0, now=NOW)


def test_a_party_that_makes_its_own_keys(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    sent = party.request(mine, "trial", 7)
    before = party.trusted(own(folder, "client-0"), NOW)
    done = office.enrol(folder, *sent, [], now=NOW)
    assert done.party == 7
    with pytest.raises(Untrusted, match="told once, by its fingerprint"):
        party.accept(mine, 7, folder / "public", NOW)
    with pytest.raises(Untrusted, match="another fingerprint than was given"):
        party.accept(mine, 7, folder / "public", NOW, bytes(32))
    assert not (mine / "link.pem").exists()
    trust = party.accept(mine, 7, folder / "public", NOW, before.authority.fingerprint)
    assert trust.directory.header.version == before.directory.header.version + 1
    found = party.credentials(mine, 7, NOW)
    assert party_of(found.certificate, trust.directory, trust.revoked, NOW) == 7
    assert "PRIVATE" not in repr(found)
    signer = party.identities(mine, 7, NOW)["sums"]
    assert signer.public == trust.directory.enrolled((7,))["sums"][7]
    assert party.trusted(own(folder, "client-0"), NOW).directory.digest == trust.directory.digest
    party.accept(mine, 7, folder / "public", NOW)  # again, the same


def test_requests_that_are_refused(folder: Path, tmp_path: Path) -> None:
    seventh, eighth = (party.request(tmp_path / str(i), "trial", i) for i in (7, 8))
    taken = party.request(tmp_path / "taken", "trial", 1)
    other = party.request(tmp_path / "other", "other", 9)
    again = party.request(tmp_path / "again", "trial", 7)
    before = (folder / "public" / "directory.cbor").read_bytes()
    for sent, reason in [
        (taken, "client-1 is enrolled already"),
        (other, "for the run other, and this is trial"),
        ((seventh[0], eighth[1]), "the request is of client-7, and the identity file of client-8"),
        ((seventh[0], again[1]), r"goes with another request.*has to be of the link.key"),
        ((seventh[0], b""), "does not read"),
        ((seventh[1], seventh[1]), "no certificate request"),
    ]:
        with pytest.raises(Untrusted, match=reason):
            office.enrol(folder, *sent, [], now=NOW)
    assert (folder / "public" / "directory.cbor").read_bytes() == before


def test_rotation_revokes_the_old_certificate(folder: Path) -> None:
    mine = own(folder, "client-1")
    old, identity = party.credentials(mine, 1, NOW), party.identities(mine, 1, NOW)["sums"].public
    office.rotate(folder, 1, None, now=NOW + 1)
    new, trust = party.credentials(mine, 1, NOW + 1), party.trusted(mine, NOW + 1)
    assert new.key != old.key
    assert party.identities(mine, 1, NOW + 1)["sums"].public == identity
    with pytest.raises(Untrusted, match="is revoked"):
        party_of(old.certificate, trust.directory, trust.revoked, NOW + 1)
    assert party_of(new.certificate, trust.directory, trust.revoked, NOW + 1) == 1
    office.rotate(folder, 1, None, identities=True, now=NOW + 2)
    assert party.identities(mine, 1, NOW + 2)["sums"].public != identity
    office.rotate(folder, -1, None, now=NOW + 2)
    certificate = x509.load_pem_x509_certificate(party.credentials(own(folder, "coordinator"), -1, NOW + 2).certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["coordinator", "fl.example.org", "10.0.0.1"]


def test_what_follows_an_encrypted_key_is_encrypted(tmp_path: Path) -> None:
    """`keys rotate` without --encrypt wrote the new keys in clear, without a word."""
    office.init(tmp_path / "pki", "trial", 1, ["localhost"], two_servers=False, now=NOW, lock=b"correct horse")
    for who, name in ((-1, "coordinator"), (0, "client-0")):
        office.rotate(tmp_path / "pki", who, None, now=NOW, unlock=lambda: b"correct horse")
        keys = own(tmp_path / "pki", name).glob("*.key")
        assert all(b"ENCRYPTED" in key.read_bytes() for key in keys)


def test_a_servers_identity_is_replaced_with_its_certificate(folder: Path) -> None:
    """Clients know it by its identity alone: whoever had a copy of its folder would pass for it until the directory expires."""
    coordinator = own(folder, "coordinator")
    before = party.identities(coordinator, -1, NOW)["link"].public
    office.rotate(folder, -1, None, now=NOW + 1)
    after = party.identities(coordinator, -1, NOW + 1)["link"].public
    assert after != before
    party.request(coordinator, "trial", -1, again=True)  # of its own accord it makes another, too
    key = private_keys.load_link(coordinator / "next-link.key", private_keys.none)
    asked = request_of(key, "trial", -1).public_bytes(Encoding.PEM)
    kept = private_keys.load_identity(coordinator / "identity-link.key", private_keys.none)
    with pytest.raises(Untrusted, match="a server's is replaced with its certificate"):
        office.rotate(folder, -1, (asked, stated("trial", -1, key_hash(key.public_key()), {"link": kept})), now=NOW + 2)


def test_rotation_of_keys_that_are_elsewhere(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    office.enrol(folder, *party.request(mine, "trial", 7), [], now=NOW)
    fingerprint = party.trusted(own(folder, "client-0"), NOW).authority.fingerprint
    party.accept(mine, 7, folder / "public", NOW, fingerprint)
    old = party.credentials(mine, 7, NOW)
    with pytest.raises(ValueError, match="keys of client-7 are not here"):
        office.rotate(folder, 7, None, now=NOW)
    with pytest.raises(Untrusted, match="other identities than client-7 is enrolled with"):
        office.rotate(folder, 7, party.request(tmp_path / "thief", "trial", 7), now=NOW)
    sent = party.request(mine, "trial", 7, again=True)
    assert party.credentials(mine, 7, NOW) == old  # until the new one is certified
    office.revoke(folder, 0, now=NOW)
    party.accept(mine, 7, folder / "public", NOW)  # news that came between
    before = (folder / "public" / "directory.cbor").read_bytes()
    with pytest.raises(Untrusted, match=r"another fingerprint than the party told: .*; nothing is replaced"):
        office.rotate(folder, 7, sent, now=NOW, fingerprint=bytes(32))
    assert (folder / "public" / "directory.cbor").read_bytes() == before
    office.rotate(folder, 7, sent, now=NOW, fingerprint=Statement.open(sent[1], "trial").fingerprint)
    party.accept(mine, 7, folder / "public", NOW)
    assert party.credentials(mine, 7, NOW).key != old.key
    assert not list(mine.glob("next-*"))
    with pytest.raises(Untrusted, match="the key of the certificate that is to be replaced"):
        office.rotate(folder, 7, sent, now=NOW)


def test_an_acceptance_that_is_cut_short_is_gone_through_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash after each file that is written: the party can use what it has, or accept again."""
    mine = tmp_path / "mine"
    office.enrol(folder, *party.request(mine, "trial", 7), [], now=NOW)
    fingerprint = party.trusted(own(folder, "client-0"), NOW).authority.fingerprint
    party.accept(mine, 7, folder / "public", NOW, fingerprint)
    office.rotate(folder, 7, party.request(mine, "trial", 7, again=True, identities=True), identities=True, now=NOW)
    whole = private_files.write
    for writes in range(5):
        copy = tmp_path / f"copy{writes}"
        shutil.copytree(mine, copy)
        left = [writes]

        def cut(path: Path, content: bytes, force: bool = False, left: list[int] = left) -> None:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            whole(path, content, force)

        monkeypatch.setattr(party, "write", cut)
        if writes < 4:
            with pytest.raises(KeyboardInterrupt):
                party.accept(copy, 7, folder / "public", NOW)
        monkeypatch.setattr(party, "write", whole)
        party.accept(copy, 7, folder / "public", NOW)
        party.credentials(copy, 7, NOW)
        party.identities(copy, 7, NOW)


def test_a_revoked_party_and_an_older_list(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "public", tmp_path / "before")
    assert office.revoke(folder, 2, now=NOW).header.version == 2
    with pytest.raises(Untrusted, match="is revoked"):
        party.credentials(own(folder, "client-2"), 2, NOW)
    mine = own(folder, "client-0")
    with pytest.raises(Untrusted, match="revocation list has version 1, older than version 2, which was seen before"):
        party.accept(mine, 0, tmp_path / "before", NOW)
    office.renew(folder, now=NOW)
    shutil.copytree(folder / "public", tmp_path / "mixed")
    shutil.copy(tmp_path / "before" / "directory.cbor", tmp_path / "mixed" / "directory.cbor")
    with pytest.raises(Untrusted, match="directory has version 1, older than version 2"):
        party.accept(mine, 0, tmp_path / "mixed", NOW)
    assert party.trusted(mine, NOW).revoked.header.version == 3
    with pytest.raises(Untrusted, match="revoked already"):
        office.revoke(folder, 2, now=NOW)
    with pytest.raises(Untrusted, match="client-9 is not enrolled"):
        office.revoke(folder, 9, now=NOW)
    office.rotate(folder, 2, None, now=NOW)
    party.credentials(own(folder, "client-2"), 2, NOW)


def test_what_expired_is_renewed(folder: Path) -> None:
    later = NOW + 400 * DAY
    with pytest.raises(Untrusted, match="the directory expired"):
        party.credentials(own(folder, "client-0"), 0, later)
    assert "expired" in listing(folder, later).problem
    office.renew(folder, now=later)
    with pytest.raises(Untrusted, match="the certificate expired"):
        party.credentials(own(folder, "client-0"), 0, later)
    office.rotate(folder, 0, None, now=later)
    party.credentials(own(folder, "client-0"), 0, later)
    with pytest.raises(Untrusted, match="authority's own"):
        office.renew(folder, now=NOW + 4000 * DAY)


def test_a_certificate_that_came_with_anothers_identities_is_not_accepted(folder: Path, tmp_path: Path) -> None:
    """The authority was sent identities of somebody else with the request: the party finds its name bound to them."""
    mine, thief = tmp_path / "mine", tmp_path / "thief"
    asked, _ = party.request(mine, "trial", 7)
    party.request(thief, "trial", 7)
    shutil.copy(mine / "link.key", thief / "link.key")  # at the worst, the thief has the link's key too
    link = private_keys.load_link(thief / "link.key")
    uses = ("pair seed", "pairs", "seed", "sums")
    own_keys = {use: private_keys.load_identity(thief / f"identity-{use.replace(' ', '-')}.key") for use in uses}
    statement = stated("trial", 7, key_hash(link.public_key()), own_keys)
    office.enrol(folder, asked, statement, [], now=NOW)
    fingerprint = party.trusted(own(folder, "client-0"), NOW).authority.fingerprint
    with pytest.raises(
        Untrusted,
        match=r"binds another identity for 'pair seed' to client-7 than the one in .*: put there the keys that this party made",
    ):
        party.accept(mine, 7, folder / "public", NOW, fingerprint)


def test_a_folder_is_of_one_party(folder: Path) -> None:
    with pytest.raises(Untrusted, match="is of client-0, not of client-1"):
        party.credentials(own(folder, "client-0"), 1, NOW)
    shutil.copy(own(folder, "client-1") / "link.key", own(folder, "client-0") / "link.key")
    with pytest.raises(Untrusted, match="another key of client-0's link"):
        party.credentials(own(folder, "client-0"), 0, NOW)
    (own(folder, "client-2") / "link.pem").unlink()
    with pytest.raises(ValueError, match=r"there is no file .*link.pem"):
        party.credentials(own(folder, "client-2"), 2, NOW)


def test_a_passphrase(tmp_path: Path) -> None:
    office.init(tmp_path / "pki", "trial", 1, [], two_servers=False, now=NOW, lock=b"correct horse")
    mine = own(tmp_path / "pki", "client-0")
    for path in (tmp_path / "pki").rglob("*.key"):
        assert b"ENCRYPTED PRIVATE KEY" in path.read_bytes()
    with pytest.raises(ValueError, match="no passphrase was given"):
        party.credentials(mine, 0, NOW)
    with pytest.raises(ValueError, match="the passphrase is wrong, or it is damaged"):
        party.credentials(mine, 0, NOW, lambda: b"wrong")
    load_pem_private_key(party.credentials(mine, 0, NOW, lambda: b"correct horse").key, None)
    office.rotate(tmp_path / "pki", 0, None, now=NOW, unlock=lambda: b"correct horse", lock=b"correct horse")
    assert b"ENCRYPTED" in (mine / "link.key").read_bytes()
    with pytest.raises(ValueError, match="no passphrase"):
        office.revoke(tmp_path / "pki", 0, now=NOW)


@pytest.mark.parametrize(
    "content", [b"", b"noise", b"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n", b"x" * 20_000]
)
def test_what_is_no_private_key(tmp_path: Path, content: bytes) -> None:
    private_files.write(tmp_path / "link.key", content)
    with pytest.raises(ValueError, match=r"does not open|longer than"):
        private_keys.load_link(tmp_path / "link.key")


def test_keys_of_the_wrong_kind(tmp_path: Path) -> None:
    private_keys.save(tmp_path / "identity.key", private_keys.new_identity())
    private_keys.save(tmp_path / "link.key", private_keys.new_key())
    with pytest.raises(ValueError, match="no key on the curve P-256"):
        private_keys.load_link(tmp_path / "identity.key")
    with pytest.raises(ValueError, match="no key for Ed25519"):
        private_keys.load_identity(tmp_path / "link.key")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(ValueError, match="is no file"):
        private_keys.load_link(tmp_path / "pipe")


@with_openssl
def test_openssl_agrees_with_the_certificates(folder: Path) -> None:
    now = ["-attime", str(NOW)]
    for name, purpose in (("coordinator", "sslserver"), ("coordinator", "sslclient"), ("client-0", "sslclient")):
        arguments = ["verify", "-x509_strict", *now, "-purpose", purpose, "-CAfile", "public/authority.pem"]
        assert "OK" in openssl(*arguments, f"public/{name}.pem", cwd=folder)
    for arguments in (
        ["-purpose", "sslserver", "-CAfile", "public/authority.pem", "public/client-0.pem"],
        ["-purpose", "sslclient", "-CAfile", "public/client-1.pem", "public/client-0.pem"],
    ):
        with pytest.raises(subprocess.CalledProcessError):
            openssl("verify", "-x509_strict", *now, *arguments, cwd=folder)


@with_openssl
def test_a_request_by_openssl_is_enrolled(folder: Path, tmp_path: Path) -> None:
    """The key of the link was made by openssl; the identities, and the file that binds them to it, by us."""
    mine = tmp_path / "mine"
    party.request(mine, "trial", 7)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=client-7"]
    openssl("req", "-new", *curve, "-keyout", "theirs.key", "-out", "theirs.csr", cwd=tmp_path)
    (tmp_path / "theirs.key").chmod(0o600)
    sent = party.request(mine, "trial", 7, link=tmp_path / "theirs.key", force=True)
    assert "verify OK" in openssl("req", "-in", mine / "request.csr", "-noout", "-verify", cwd=tmp_path)
    office.enrol(folder, (tmp_path / "theirs.csr").read_bytes(), sent[1], [], now=NOW)
    fingerprint = party.trusted(own(folder, "client-0"), NOW).authority.fingerprint
    party.accept(mine, 7, folder / "public", NOW, fingerprint)
    assert party.credentials(mine, 7, NOW).key == private_keys.pem_of(private_keys.load_link(tmp_path / "theirs.key"))
