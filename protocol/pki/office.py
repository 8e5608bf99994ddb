"""The authority's folder, and what is done in it: parties enrolled, their certificates replaced and revoked.

authority.key (P-256) is the one secret of the deployment's operator. public/ has all that others may have: authority.pem,
directory.cbor, revoked.cbor and NAME.pem of each party. parties/NAME/ has the parties whose keys were made here, to be moved to
where they run; parties that make their own send a request, whose identity file is kept as identities/NAME. A change is made when
the new directory is in its place: what a crash leaves before that is a certificate that nobody accepts.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from ..core.session import DEALER, MAX_ROSTER, SECOND_SERVER, SERVER
from . import directory as directories
from . import party as parties
from . import private_keys, revocations
from .authority import Authority, Header
from .certificates import EARLY, Untrusted, host, issue, key_hash, new_authority, pem, read_certificate, read_request, serial_of
from .directory import Directory, Entry
from .names import check_run, id_of, name_of
from .party import AUTHORITY, CERTIFICATE, DIRECTORY, REVOKED
from .private_files import alone, copy, make_folder, read, write
from .private_keys import Passphrase
from .revocations import RevocationList
from .statement import Statement

KEY, PUBLIC, PARTIES, IDENTITIES = "authority.key", "public", "parties", "identities"
AUTHORITY_DAYS = 3650
DAYS = 365


@dataclass(frozen=True, slots=True)
class Office:
    """An authority at work. key: its private key. days: for how long what it signs is valid."""

    folder: Path
    authority: Authority
    key: EllipticCurvePrivateKey = field(repr=False)
    directory: Directory | None
    revoked: RevocationList | None
    now: int
    days: int

    @property
    def public(self) -> Path:
        """What others may have."""
        return self.folder / PUBLIC


@dataclass(frozen=True, slots=True)
class Enrolled:
    """party: who. certificate: where it is. fingerprint: of what was sent, to be compared with what the party's side printed."""

    party: int
    certificate: Path
    fingerprint: bytes


def init(
    folder: Path,
    run: str,
    clients: int,
    hosts: Iterable[str],
    *,
    two_servers: bool,
    now: int,
    days: int = DAYS,
    lock: bytes = b"",
    force: bool = False,
) -> parties.Trust:
    """An authority, its servers, and clients 0, 1 ... with keys made here. lock: passphrase of all keys.

    hosts: names and addresses under which the servers are reached. Raises FileExistsError if there is an authority,
    and not `force`.
    """
    check_run(run)
    if not 0 <= clients <= MAX_ROSTER:
        raise ValueError(f"{clients} clients are out of range")
    at = tuple(dict.fromkeys(hosts))
    for name in at:
        host(name)
    make_folder(folder)
    with alone(folder):
        key = private_keys.new_key()
        certificate = new_authority(key, run, now, max(days, AUTHORITY_DAYS))
        private_keys.save(folder / KEY, key, lock, force)  # first: fails if there is one
        for name in (PUBLIC, PARTIES):
            make_folder(folder / name)
        write(folder / PUBLIC / AUTHORITY, pem(certificate), force)
        office = Office(folder, Authority.read(pem(certificate)), key, None, None, now, days)
        servers = [SERVER, *([SECOND_SERVER, DEALER] if two_servers else [])]
        entries = []
        for party in (*servers, *range(clients)):
            own = folder / PARTIES / name_of(party)
            asked, statement = parties.request(own, run, party, lock=lock, force=force, durable=False)
            entries.append(_certified(office, asked, Statement.open(statement, run), at if party < 0 else (), durable=False))
        os.sync()  # all at once: file by file a thousand parties would take a minute
        office = _published(office, entries, {})
        for entry in entries:
            name = name_of(entry.party)
            for published, here in (
                (AUTHORITY, AUTHORITY),
                (DIRECTORY, DIRECTORY),
                (REVOKED, REVOKED),
                (f"{name}.pem", CERTIFICATE),
            ):
                copy(office.public / published, folder / PARTIES / name / here)
    return parties.Trust(office.authority, _directory(office), _revoked(office))


def _check_told(stated: Statement, told: bytes | None, so: str) -> None:
    if told is not None and told != stated.fingerprint:
        raise Untrusted(
            "the identity file has another fingerprint than the party told: it was swapped on its way, or is of another request;"
            f" {so}"
        )


def enrol(
    folder: Path,
    asked: bytes,
    statement: bytes,
    hosts: Iterable[str],
    *,
    now: int,
    days: int = DAYS,
    fingerprint: bytes | None = None,
    unlock: Passphrase = private_keys.none,
) -> Enrolled:
    """A party that made its keys elsewhere. asked: its certificate request (PKCS #10). statement: its identity file.

    fingerprint: SHA-256 as the party told it; None where whoever enrols it compares it afterwards. Raises Untrusted if it is
    another, if the party is enrolled already, if either file is not in order, or if they are not of one party.
    """
    with alone(folder):
        office = opened(folder, now, days, unlock)
        stated = Statement.open(statement, office.authority.run)
        _check_told(stated, fingerprint, "nobody is enrolled")
        entries = _directory(office).entries
        if stated.party in entries:
            raise Untrusted(f"{name_of(stated.party)} is enrolled already; rotate replaces its certificate")
        entry = _certified(office, asked, stated, tuple(hosts))
        _published(office, [*entries.values(), entry], None)
        _kept(folder, stated.party, statement)
        return Enrolled(entry.party, office.public / f"{name_of(entry.party)}.pem", stated.fingerprint)


def rotate(
    folder: Path,
    party: int,
    sent: tuple[bytes, bytes] | None,
    *,
    identities: bool = False,
    now: int,
    days: int = DAYS,
    fingerprint: bytes | None = None,
    unlock: Passphrase = private_keys.none,
    lock: bytes = b"",
) -> Enrolled:
    """Another key and certificate for a party's link, and other identities if asked for, and always of a server: its clients see
    its identity and not its certificate, so that whoever has its old folder would pass for it. The old certificate is revoked.

    lock: the passphrase of new keys made here, which `unlock` gives, or none. sent: its request and identity file; None: its keys
    are here, and the new ones are made here. The hosts of a server stay. fingerprint: of what it sent, as in `enrol`.
    """
    with alone(folder):
        office = opened(folder, now, days, unlock)
        old = _entry(office, party)
        own = folder / PARTIES / name_of(party)
        if sent is None and not own.is_dir():
            raise ValueError(f"the keys of {name_of(party)} are not here: it sends a request (--request, --identity)")
        run = office.authority.run
        asked, statement = sent or parties.request(own, run, party, again=True, identities=identities, unlock=unlock, lock=lock)
        stated = Statement.open(statement, run)
        _check_told(stated, fingerprint, "nothing is replaced")
        if stated.party != party:
            raise Untrusted(f"the identity file is of {name_of(stated.party)}, not of {name_of(party)}")
        if party < 0 and not {*stated.identities.values()}.isdisjoint(old.identities.values()):
            raise Untrusted(
                f"the identity file has the identity that {name_of(party)} is enrolled with: a server's is replaced with its"
                " certificate, as clients know it by that alone (`cloister keys request --again` makes one)"
            )
        if not identities and party >= 0 and stated.identities != dict(old.identities):
            raise Untrusted(f"the identity file has other identities than {name_of(party)} is enrolled with (--new-identities)")
        hosts = _hosts(read_certificate(read(office.public / f"{name_of(party)}.pem")), party)
        entry = _certified(office, asked, stated, hosts)
        if entry.key == old.key:
            raise Untrusted("the request has the key of the certificate that is to be replaced")
        revoked = {**_revoked(office).when}
        revoked.setdefault(old.serial, now)
        others = [kept for kept in _directory(office).entries.values() if kept.party != party]
        office = _published(office, [*others, entry], revoked)
        if sent is not None:
            _kept(folder, party, statement)
        else:
            parties.accept(own, party, office.public, now, office.authority.fingerprint, unlock)
        return Enrolled(party, office.public / f"{name_of(party)}.pem", stated.fingerprint)


def _kept(folder: Path, party: int, statement: bytes) -> None:
    """Its identity file, so that its fingerprint can be shown again."""
    make_folder(folder / IDENTITIES)
    write(folder / IDENTITIES / name_of(party), statement, True)


def revoke(folder: Path, party: int, *, now: int, days: int = DAYS, unlock: Passphrase = private_keys.none) -> RevocationList:
    """Put a party's certificate on the list, in its next version. Raises Untrusted if it is there, or not in the directory."""
    with alone(folder):
        office = opened(folder, now, days, unlock)
        entry, known = _entry(office, party), _revoked(office).when
        if entry.serial in known:
            raise Untrusted(f"the certificate of {name_of(party)} is revoked already")
        return _revoked(_published(office, None, {**known, entry.serial: now}))


def renew(folder: Path, *, now: int, days: int = DAYS, unlock: Passphrase = private_keys.none) -> parties.Trust:
    """Sign the directory and the list anew, each with the next version, before their time is over or after."""
    with alone(folder):
        office = opened(folder, now, days, unlock)
        office = _published(office, list(_directory(office).entries.values()), dict(_revoked(office).when))
    return parties.Trust(office.authority, _directory(office), _revoked(office))


def opened(folder: Path, now: int, days: int, unlock: Passphrase) -> Office:
    """The authority of this folder. Its directory and list may have expired: it signs the next."""
    if not (folder / KEY).exists():
        raise ValueError(f"there is no authority in {folder}; make one by: cloister keys init {folder} --run NAME --clients N")
    authority = Authority.read(read(folder / PUBLIC / AUTHORITY))
    authority.check(now)
    key = private_keys.load_link(folder / KEY, unlock)
    if key.public_key() != authority.key:
        raise Untrusted(f"{folder / KEY} is not the key of {folder / PUBLIC / AUTHORITY}")
    directory = Directory.at_any_time(read(folder / PUBLIC / DIRECTORY), authority)
    revoked = RevocationList.at_any_time(read(folder / PUBLIC / REVOKED), authority)
    return Office(folder, authority, key, directory, revoked, now, days)


def _certified(office: Office, asked: bytes, stated: Statement, hosts: tuple[str, ...], durable: bool = True) -> Entry:
    """Sign the certificate that a request asks for, and write it: nobody accepts it before it is in the directory."""
    named, public = read_request(asked)
    if (party := id_of(named)) != stated.party:
        raise Untrusted(f"the request is of {named}, and the identity file of {name_of(stated.party)}")
    key = key_hash(public)
    if key != stated.key:
        raise Untrusted(
            "the identity file goes with another request: its identities signed another key; a request"
            " that openssl makes has to be of the link.key beside it (openssl req -new -key FOLDER/link.key -subj /CN=client-3)"
        )
    certificate = issue(office.authority.certificate, office.key, party, public, hosts, office.now, office.days)
    write(office.public / f"{name_of(party)}.pem", pem(certificate), True, durable)
    return Entry(party, serial_of(certificate), key, stated.identities)


def _published(office: Office, entries: Iterable[Entry] | None, revoked: Mapping[bytes, int] | None) -> Office:
    """Sign what changed, with the next version; put it into public/, the directory last, and with parties that are here."""
    if revoked is not None:
        header = _header(office, office.revoked.header if office.revoked else None)
        document = revocations.sign(office.key, header, revoked)
        write(office.public / REVOKED, document, force=True)
        office = replace(office, revoked=RevocationList.at_any_time(document, office.authority))
    if entries is not None:
        header = _header(office, office.directory.header if office.directory else None)
        document = directories.sign(office.key, header, entries)
        write(office.public / DIRECTORY, document, force=True)
        office = replace(office, directory=Directory.at_any_time(document, office.authority))
    for own in (office.folder / PARTIES).iterdir():
        if (own / CERTIFICATE).exists():
            for name in (REVOKED, DIRECTORY):
                copy(office.public / name, own / name)
    return office


def _header(office: Office, last: Header | None) -> Header:
    until = min(office.now + 86_400 * office.days, int(office.authority.certificate.not_valid_after_utc.timestamp()))
    version = 1 if last is None else last.version + 1
    return Header(office.authority.run, office.authority.fingerprint, version, office.now - EARLY, until)


def _directory(office: Office) -> Directory:
    if office.directory is None:
        raise ValueError("the authority has no directory yet")
    return office.directory


def _revoked(office: Office) -> RevocationList:
    if office.revoked is None:
        raise ValueError("the authority has no revocation list yet")
    return office.revoked


def _entry(office: Office, party: int) -> Entry:
    if (entry := _directory(office).entries.get(party)) is None:
        raise Untrusted(f"{name_of(party)} is not enrolled")
    return entry


def _hosts(certificate: x509.Certificate, party: int) -> tuple[str, ...]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    named = names.get_values_for_type(x509.DNSName)
    return (*(name for name in named if name != name_of(party)), *map(str, names.get_values_for_type(x509.IPAddress)))
