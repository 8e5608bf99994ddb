"""A party's own folder: its private keys, which never leave it, its certificate, and what the authority says of all parties.

link.key (P-256) and link.pem are for the link, identity-USE.key (Ed25519) for signatures, next-*.key for what was asked for
and is not certified yet. authority.pem, directory.cbor and revoked.cbor are the authority's. All have mode 0600, the folder 0700.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding

from ...crypto.identity import SigningKey
from . import certificates, private_keys
from .admission import party_of
from .authority import Authority
from .certificates import Untrusted, key_hash
from .directory import MOST_BYTES, Directory
from .names import check_run, name_of, uses_of
from .private_files import alone, make_folder, read, write
from .private_keys import Passphrase
from .revocations import RevocationList
from .statement import stated

AUTHORITY, DIRECTORY, REVOKED = "authority.pem", "directory.cbor", "revoked.cbor"
CERTIFICATE, REQUEST, STATEMENT = "link.pem", "request.csr", "request.identity"
K = TypeVar("K", EllipticCurvePrivateKey, SigningKey)


@dataclass(frozen=True, slots=True)
class Trust:
    """What the authority says, checked."""

    authority: Authority
    directory: Directory
    revoked: RevocationList


@dataclass(frozen=True, slots=True)
class Credentials:
    """For gRPC with mutual TLS, all in PEM.

    ssl_server_credentials([(key, certificate)], authority, require_client_auth=True),
    ssl_channel_credentials(authority, key, certificate). The key is not encrypted here.
    """

    authority: bytes
    certificate: bytes
    key: bytes = field(repr=False)


def _link(fresh: bool = False) -> str:
    return "next-link.key" if fresh else "link.key"


def _identity(use: str, fresh: bool = False) -> str:
    return f"{'next-' if fresh else ''}identity-{use.replace(' ', '-')}.key"


def request(
    folder: Path,
    run: str,
    party: int,
    *,
    again: bool = False,
    identities: bool = False,
    link: Path | None = None,
    unlock: Passphrase = private_keys.none,
    lock: bytes = b"",
    force: bool = False,
    durable: bool = True,
) -> tuple[bytes, bytes]:
    """Make keys here, and the certificate request (PEM) and identity file that go to the authority; both are written, too.

    again: another key for the link, used once it is certified; identities: and other identities, as servers' always are. link: a
    file with a key on P-256 that is to be the link's. lock: passphrase of keys written here.
    Raises ValueError if there is no key to follow, FileExistsError if there is one that would be written over.
    """
    check_run(run)
    uses = uses_of(party)
    if again and not (folder / _link()).is_file():
        raise ValueError(f"there is no key in {folder} that another could follow")
    if again and (whose := _whose(folder)) not in ("", name_of(party)):
        raise ValueError(f"the keys in {folder} are those of {whose}: another key of {name_of(party)} is made in its own folder")
    if again and (folder / AUTHORITY).is_file() and (known := Authority.read(read(folder / AUTHORITY)).run) != run:
        raise ValueError(f"the keys in {folder} are of the run {known!r}, and not of {run!r}: for another run make a new folder")
    make_folder(folder)
    with alone(folder):
        if not again:
            for name in (_link(), *map(_identity, uses)):
                if (folder / name).exists() and not force:
                    raise FileExistsError(
                        f"{folder / name} exists already: --again makes another key beside it, --force new ones in its place"
                    )
        if again and not lock and private_keys.is_locked(folder / _link()):
            lock = unlock()  # what follows an encrypted key is encrypted
        key = private_keys.new_key() if link is None else private_keys.load_link(link, unlock)
        fresh = not again or identities or party < 0
        own = {
            use: private_keys.new_identity() if fresh else private_keys.load_identity(folder / _identity(use), unlock)
            for use in uses
        }
        for stale in folder.glob("next-*.key") if again else ():
            stale.unlink()  # asked for before, and certified never: it would not be used
        for use in uses if fresh else ():
            private_keys.save(folder / _identity(use, again), own[use], lock, force, durable)
        private_keys.save(folder / _link(again), key, lock, force, durable)
        asked = certificates.request_of(key, run, party).public_bytes(Encoding.PEM)
        statement = stated(run, party, key_hash(key.public_key()), own)
        write(folder / REQUEST, asked, True, durable)
        write(folder / STATEMENT, statement, True, durable)
    return asked, statement


def _whose(folder: Path) -> str:
    """Whom the certificate in this folder names or, before there is one, the request; empty where neither is there."""
    if (folder / CERTIFICATE).is_file():
        return certificates.common_name(read(folder / CERTIFICATE))
    return certificates.read_request(read(folder / REQUEST))[0] if (folder / REQUEST).is_file() else ""


def trusted(folder: Path, now: int) -> Trust:
    """What the authority says, from this folder. Raises Untrusted, or ValueError for a file that is missing."""
    return _opened(_documents(folder), now)


def _documents(folder: Path) -> dict[str, bytes]:
    """Raises ValueError for a folder without them: with what to do, of a party that has no authority yet, or an authority's."""
    if not (folder / AUTHORITY).exists():
        if (folder / "public" / AUTHORITY).is_file():
            own, of_all = folder / "parties", folder / "public"
            raise ValueError(f"{folder} is the authority's: a party's folder is in {own}, and what all may have in {of_all}")
        if (folder / REQUEST).is_file():
            raise ValueError(
                f"{folder} knows no authority yet: `cloister keys accept {folder} PUBLIC --authority FINGERPRINT` takes what the"
                " authority hands out when this party is enrolled"
            )
        if meant := sorted(found.parent for name in (AUTHORITY, REQUEST) for found in folder.glob(f"*/{name}")):
            raise ValueError(f"{folder} holds no keys itself: is {meant[0]} meant?")
    return {name: read(folder / name, most=MOST_BYTES) for name in (AUTHORITY, REVOKED, DIRECTORY)}


def _opened(documents: Mapping[str, bytes], now: int) -> Trust:
    authority = Authority.read(documents[AUTHORITY])
    directory = Directory.open(documents[DIRECTORY], authority, now)
    return Trust(authority, directory, RevocationList.open(documents[REVOKED], authority, now))


def accept(
    folder: Path, party: int, public: Path, now: int, fingerprint: bytes | None = None, unlock: Passphrase = private_keys.none
) -> Trust:
    """Take what the authority published in `public`, and this party's certificate if there is one, after all checks.

    fingerprint: of the authority, told by another way than `public` came; not needed if the folder knows the authority.
    Raises Untrusted: for another authority, a document older than the one here, a certificate or identities that are not this
    party's. The folder is then as before.
    """
    if public.exists() and not public.is_dir():
        raise ValueError(f"{public} is a file: give a copy of the authority's folder public/")
    documents = _documents(public)  # read once: what is checked is what is written
    offered = _opened(documents, now)
    with alone(folder):
        if (folder / AUTHORITY).exists():
            known = Authority.read(read(folder / AUTHORITY)).fingerprint
            if fingerprint not in (None, known):
                raise Untrusted("this folder trusts another authority than the one of that fingerprint")
        elif fingerprint is None:
            raise Untrusted("whose authority this is must be told once, by its fingerprint (--authority)")
        else:
            known = fingerprint
        if offered.authority.fingerprint != known and not (folder / AUTHORITY).exists():
            raise Untrusted(
                "these files are of an authority with another fingerprint than was given (--authority): of another authority, or"
                " a digit is wrong; nothing is accepted"
            )
        if offered.authority.fingerprint != known:
            raise Untrusted("this is of another authority than the one that is trusted here")
        _check_newer(folder, offered)
        issued = public / f"{name_of(party)}.pem"
        if not issued.is_file() and not (folder / CERTIFICATE).is_file():
            raise Untrusted(f"{public} has no certificate of {name_of(party)}: the authority has not enrolled it yet")
        certificate = read(issued if issued.is_file() else folder / CERTIFICATE)
        link, own = _checked(folder, party, certificate, offered, now, unlock)
        for name, document in documents.items():
            write(folder / name, document, force=True)
        write(folder / CERTIFICATE, certificate, force=True)
        for fresh, settled in [(link, _link()), *((own[use][0], _identity(use)) for use in own)]:
            if fresh != folder / settled:
                fresh.replace(folder / settled)
    return offered


def _check_newer(folder: Path, offered: Trust) -> None:
    if (folder / DIRECTORY).exists():
        known = read(folder / DIRECTORY, most=MOST_BYTES)
        offered.directory.follows(Directory.at_any_time(known, offered.authority))
    if (folder / REVOKED).exists():
        offered.revoked.follows(RevocationList.at_any_time(read(folder / REVOKED), offered.authority))


def credentials(folder: Path, party: int, now: int, unlock: Passphrase = private_keys.none) -> Credentials:
    """What this party's link needs. Raises Untrusted if its certificate would not be let in, ValueError for unsafe files."""
    certificate = read(folder / CERTIFICATE)
    (path, _) = _checked(folder, party, certificate, trusted(folder, now), now, unlock)
    key = private_keys.load_link(path, unlock)
    return Credentials(read(folder / AUTHORITY), certificate, private_keys.pem_of(key))


def identities(folder: Path, party: int, now: int, unlock: Passphrase = private_keys.none) -> Mapping[str, SigningKey]:
    """This party's identities by use, each the one that the directory has. Raises Untrusted, or ValueError for unsafe files."""
    _, found = _checked(folder, party, read(folder / CERTIFICATE), trusted(folder, now), now, unlock)
    return {use: identity for use, (_, identity) in found.items()}


def _checked(
    folder: Path, party: int, certificate: bytes, trust: Trust, now: int, unlock: Passphrase
) -> tuple[Path, dict[str, tuple[Path, SigningKey]]]:
    """Where the link's key is, and each identity, if they are those of the certificate and of the directory's entry."""
    found = party_of(certificate, trust.directory, trust.revoked, now)
    if found != party:
        raise Untrusted(f"this certificate is of {name_of(found)}, not of {name_of(party)}")
    entry = trust.directory.entries[party]
    link = _held(
        folder, _link, lambda path: private_keys.load_link(path, unlock), lambda key: key_hash(key.public_key()), entry.key
    )
    if link is None:
        raise Untrusted(
            f"the directory lists another key of {name_of(party)}'s link than the one in {folder}: if the authority made it"
            f" another (keys rotate), take its folder parties/{name_of(party)} in the place of this one"
        )
    own = {}
    for use, public in entry.identities.items():
        name = partial(_identity, use)
        key = _held(folder, name, lambda path: private_keys.load_identity(path, unlock), lambda key: key.public, public)
        if key is None:
            raise Untrusted(
                f"the directory binds another identity for {use!r} to {name_of(party)} than the one in {folder}:"
                " put there the keys that this party made, all of one folder; if these are newer,"
                f" `cloister keys accept {folder} PUBLIC` takes a directory that knows them"
            )
        own[use] = key
    return link[0], own


def _held(
    folder: Path, name: Callable[[bool], str], load: Callable[[Path], K], of: Callable[[K], bytes], wanted: bytes
) -> tuple[Path, K] | None:
    """The private key, settled or fresh, whose public half is wanted; None if neither is."""
    paths = folder / name(False), folder / name(True)
    if not any(path.exists() for path in paths):
        raise ValueError(
            f"there is no key {paths[0]}: put it back from where it is kept, or make others by `cloister keys request` (--force),"
            " which the authority takes by `cloister keys rotate --new-identities`"
        )
    for path in paths:
        if path.exists() and of(key := load(path)) == wanted:
            return path, key
    return None
