"""What a folder says of its parties, for people: of the authority's folder, its public part, or a party's own."""

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .authority import Authority
from .certificates import Untrusted, read_certificate, read_request, serial_of
from .directory import MOST_BYTES, Directory, Entry
from .names import name_of
from .office import IDENTITIES, PARTIES
from .party import AUTHORITY, CERTIFICATE, DIRECTORY, REQUEST, REVOKED, STATEMENT
from .private_files import read
from .revocations import RevocationList
from .statement import Statement


@dataclass(frozen=True, slots=True)
class ListedParty:
    """until: Unix seconds at which the certificate ends, None where it is not in the folder. identities: fingerprints by use.

    revoked: Unix seconds, or None. fingerprint: of its identity file, as `cloister keys request` printed it, in hexadecimal;
    empty where that file is not here.
    """

    party: int
    serial: str
    until: int | None
    identities: dict[str, str]
    revoked: int | None
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """problem: why a link would not accept this now, or empty."""

    run: str
    fingerprint: str
    directory: int
    revoked: int
    until: int
    problem: str
    rows: tuple[ListedParty, ...]


def listing(folder: Path, now: int) -> Listing:
    """Raises Untrusted for what its authority did not sign, ValueError for a file that is missing. What expired is shown."""
    public = folder / "public" if (folder / "public").is_dir() else folder
    authority = Authority.read(read(public / AUTHORITY))
    document, revocations = read(public / DIRECTORY, most=MOST_BYTES), read(public / REVOKED)
    directory = Directory.at_any_time(document, authority)
    revoked = RevocationList.at_any_time(revocations, authority)
    problem = ""
    try:
        authority.check(now)
        directory.header.at(now, "directory")
        revoked.header.at(now, "revocation list")
    except Untrusted as error:
        problem = str(error)
    rows = []
    for party, entry in directory.entries.items():
        until = next(
            (end for path in (public / f"{name_of(party)}.pem", public / CERTIFICATE) if (end := _end(path, entry.serial))), None
        )
        shown = {use: public_key.hex()[:16] for use, public_key in entry.identities.items()}
        rows.append(
            ListedParty(
                party, entry.serial.hex(), until, shown, revoked.when.get(entry.serial), _told(folder, authority.run, entry)
            )
        )
    until = min(directory.header.until, revoked.header.until)
    versions = directory.header.version, revoked.header.version
    return Listing(authority.run, authority.fingerprint.hex(), *versions, until, problem, tuple(rows))


def own_fingerprint(folder: Path) -> tuple[str, str] | None:
    """Of a party's own folder that has no authority yet: its name, and the fingerprint that it tells; None of any other folder.

    Raises Untrusted for an identity file that is not in order.
    """
    if (folder / AUTHORITY).exists() or not (folder / STATEMENT).is_file() or not (folder / REQUEST).is_file():
        return None
    stated = read(folder / STATEMENT)
    return read_request(read(folder / REQUEST))[0], hashlib.sha256(stated).hexdigest()


def pending(folder: Path) -> tuple[str, str] | None:
    """Of a party's own folder with a request that is not certified yet: its name, and the fingerprint that it tells.

    Raises Untrusted for an identity file, or a directory, that is not in order.
    """
    if not (folder / AUTHORITY).exists() or not (folder / STATEMENT).is_file() or not (folder / REQUEST).is_file():
        return None
    authority = Authority.read(read(folder / AUTHORITY))
    stated = Statement.open(read(folder / STATEMENT), authority.run)
    listed = Directory.at_any_time(read(folder / DIRECTORY, most=MOST_BYTES), authority).entries.get(stated.party)
    return None if listed is not None and listed.key == stated.key else (name_of(stated.party), stated.fingerprint.hex())


def _told(folder: Path, run: str, entry: Entry) -> str:
    name = name_of(entry.party)
    for path in (folder / IDENTITIES / name, folder / PARTIES / name / STATEMENT, folder / STATEMENT):
        if path.is_file():
            with suppress(Untrusted, ValueError):
                stated = Statement.open(read(path), run)
                if stated.party == entry.party and stated.identities == dict(entry.identities):
                    return stated.fingerprint.hex()
    return ""


def _end(path: Path, serial: bytes) -> int | None:
    if not path.is_file():
        return None
    certificate = read_certificate(read(path))
    return int(certificate.not_valid_after_utc.timestamp()) if serial_of(certificate) == serial else None
