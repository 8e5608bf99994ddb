"""What a party's folder says of it and of all others, as long as its links last.

The authority's two documents are looked at again when their files change. A newer one takes the place of the one before; an older
one, another of the same version, or one that is not the authority's is refused, in the log, and changes nothing. Certificates and
keys are read at every connection, so one that was replaced is used at the next. A server's identity is replaced with its
certificate, and read again when the directory has another; a client's is that of its run. When any of it is about to expire, and
when it has, the log says so.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from ...crypto.identity import SigningKey
from ..core.errors import Refused
from ..core.session import SERVER
from . import hello, private_keys
from .admission import in_good_standing, party_of, shown_by
from .certificates import Untrusted, check_time, der, read_certificate, serial_of
from .directory import MOST_BYTES, Directory, Entry
from .ends import IS_FAR, IS_OVER, End, ToldEnds, ends_of
from .names import name_of
from .party import CERTIFICATE, DIRECTORY, REVOKED, Credentials, Trust, credentials, identities, trusted
from .private_files import make_folder, read, write
from .private_keys import Passphrase
from .revocations import RevocationList

T = TypeVar("T", Directory, RevocationList)
AUTHORITYS = (DIRECTORY, REVOKED)
LINK = (DIRECTORY, CERTIFICATE, "link.key", "next-link.key")
"""By which it is told that a server shows another certificate."""
OWN = (*LINK, "identity-link.key", "next-identity-link.key")
"""The same of its keys."""
RUNS = "runs"
"""Folder of the runs that a party's identities have signed in, a file each."""
log = logging.getLogger("cloister.link")


@dataclass(frozen=True, slots=True)
class Proven:
    """A server that showed who it is. entry: of the directory. certificate: the one that this lists."""

    entry: Entry
    certificate: x509.Certificate


class Standing:
    """Of the party whose folder this is. party: its id. clock: Unix seconds.

    Raises Untrusted where its certificate would not be let in, or its keys are not those of the directory; ValueError for a file
    that is missing or unsafe.
    """

    def __init__(self, folder: Path, unlock: Passphrase = private_keys.none, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._unlock, self._clock = folder, unlock, clock
        self._seen = self._stamps_of(AUTHORITYS)
        self._trust = trusted(folder, self._now)
        self._certified = self._stamps_of((CERTIFICATE,)), self._trust.directory.digest
        self._certificate = read(folder / CERTIFICATE)
        self.party = party_of(self._certificate, self._trust.directory, self._trust.revoked, self._now)
        self._told = ToldEnds()
        self.identities: Mapping[str, SigningKey] = identities(folder, self.party, self._now, unlock)
        self._shown = self._no_good = self._stamps_of(LINK), self._trust.directory.digest
        self._behind: list[tuple[int, ...]] | None = None

    @property
    def directory(self) -> Directory:
        """The newest that is known."""
        return self._trust.directory

    @property
    def certificate(self) -> bytes:
        """Its own, as its links show it: DER."""
        return der(self._certificate)

    @property
    def ends(self) -> tuple[End, ...]:
        """Of what its links rest on."""
        return ends_of(self.party, self._certificate, self._trust.directory, self._trust.revoked)

    @property
    def soon_over(self) -> tuple[End, ...]:
        """Of these, which are near, or past."""
        return tuple(end for end in self.ends if end.stage(self._now) > IS_FAR)

    @property
    def expired(self) -> str:
        """What of it is over, in words; empty while all is valid."""
        return "; ".join(f"the {end.of} expired at {end.at}" for end in self.soon_over if end.stage(self._now) == IS_OVER)

    def credentials(self) -> Credentials:
        """For its link, as its folder has them now. Raises Untrusted, ValueError."""
        return credentials(self._folder, self.party, self._now, self._unlock)

    def other_credentials(self) -> Credentials | None:
        """Of a server, where its folder has others than when this was asked before; None where it has not, or none that serve."""
        now = self._stamps_of(LINK), self._trust.directory.digest
        if now in (self._shown, self._no_good):
            return None
        try:
            found = self.credentials()
            serial = serial_of(read_certificate(found.certificate))
        except (ValueError, OSError, UnsupportedAlgorithm):
            self._no_good = now  # a file may be on its way, and `look_again` says what is wrong
            return None
        if (own := self._trust.directory.entries.get(self.party)) is None or own.serial != serial:
            self._no_good = now  # it has not looked again yet; or its folder was put back
            return None
        self._shown = self._no_good = now
        return found

    @property
    def known(self) -> tuple[bytes, bytes]:
        """Digests of the directory and the list: others when anything is new."""
        return self._trust.directory.digest, self._trust.revoked.digest

    def look_again(self) -> None:
        """Take what is new in the folder, and say what is about to expire, or has."""
        self._take()
        self._take_certificate()
        self._told.look(self.ends, self._now)

    def _take(self) -> None:
        """What the authority says, and a server's own keys."""
        if self._behind is not None and self._stamps_of(OWN) != self._behind:
            self._with_its_keys()
        if (stamps := self._stamps_of(AUTHORITYS)) == self._seen:
            return
        self._seen, known, now = stamps, self._trust, self._now
        directory = self._newer(
            DIRECTORY, known.directory, lambda it: Directory.open(it, known.authority, now), Directory.follows
        )
        revoked = self._newer(
            REVOKED, known.revoked, lambda it: RevocationList.open(it, known.authority, now), RevocationList.follows
        )
        self._trust = Trust(known.authority, directory, revoked)
        if (directory.digest, revoked.digest) != (known.directory.digest, known.revoked.digest):
            versions = {"directory": directory.header.version, "revocation_list": revoked.header.version}
            log.info("news of the authority", extra=versions | {"revoked_certificates": len(revoked.when)})
        if self.party < 0 and directory.entries.get(self.party) != known.directory.entries.get(self.party):
            self._with_its_keys()

    def _take_certificate(self) -> None:
        """Its own, where that was replaced by the one that the directory lists now."""
        if (stamps := (self._stamps_of((CERTIFICATE,)), self._trust.directory.digest)) == self._certified:
            return
        self._certified = stamps
        try:
            found = read(self._folder / CERTIFICATE)
            serial = serial_of(read_certificate(found))
        except (ValueError, OSError):
            return  # it is on its way
        if (own := self._trust.directory.entries.get(self.party)) is not None and own.serial == serial:
            self._certificate = found

    def _with_its_keys(self) -> None:
        """Of a server that the authority has given others: take its identity, as soon as it is here. Its link's keys are read at
        the next connection.
        """
        stamps, before = self._stamps_of(OWN), self._behind
        try:
            self.identities = identities(self._folder, self.party, self._now, self._unlock)
        except (ValueError, OSError, UnsupportedAlgorithm) as error:
            if before is None:
                remedy = "until its folder has what the directory lists, clients that have the directory do not come"
                log.warning("its own keys are others now", extra={"why": str(error), "then": remedy})
            self._behind = stamps
        else:
            self._behind = None

    # --- who others are ---------------------------------------------------------------------------------------------------

    def party_of(self, certificate: bytes) -> int:
        """Whose certificate this is, as `party_of` of admission.py. Raises Untrusted."""
        return party_of(certificate, self._trust.directory, self._trust.revoked, self._now)

    def took_back(self, party: int) -> bool:
        """Whether the authority revoked the party's certificate, and gave it no other."""
        entry = self._trust.directory.entries.get(party)
        return entry is not None and entry.serial in self._trust.revoked.when

    def check_in_good_standing(self, server: int = SERVER, proven: Proven | None = None) -> None:
        """Raises Untrusted where it is not listed, its certificate is revoked, or it is not the one that was proven, or that one
        has expired.
        """
        entry = in_good_standing(server, self._trust.directory, self._trust.revoked, self._now)
        if proven is not None and entry != proven.entry:
            raise Untrusted(f"{name_of(server)} has other keys by now, and is asked again who it is")
        if proven is not None:
            check_time(proven.certificate, self._now, f"the certificate of {name_of(server)}")

    def proof(self, client: int, challenge: bytes) -> bytes:
        """Of a server, that it is who it is: 64 bytes. client: at the other end of the link. Raises ValueError, KeyError."""
        return hello.answer(self.identities[hello.PURPOSE], self.party, client, self._trust.directory, challenge)

    def check_proof(self, proof: bytes, shown: bytes, challenge: bytes, server: int = SERVER) -> Proven:
        """Of a client: that the server gave this for its challenge on this link, and shows the certificate that the directory
        lists for it. Raises Untrusted.
        """
        trust = self._trust
        hello.check(proof, server, self.party, trust.directory, trust.revoked, challenge, self._now)
        certificate = shown_by(server, shown, trust.directory, trust.revoked, self._now)
        return Proven(trust.directory.entries[server], certificate)

    # --- its own past -----------------------------------------------------------------------------------------------------

    def enter(self, run: bytes, by: bytes = b"") -> None:
        """Note that its identities sign in this run from now on. by: what names the journal that goes on with it; empty of one
        that does not. Raises Refused where they did before by another.

        Keys and answers of two lives in one run would otherwise be signed alike: a run is played once, or gone on with.
        """
        make_folder(self._folder / RUNS)
        note = self._folder / RUNS / run.hex()
        try:
            write(note, by)
        except FileExistsError:
            if by and read(note) == by:
                return
            raise Refused(
                f"{name_of(self.party)} took part in this run before, and what it kept of it is not here: go on with the folder "
                "that it had, or wait for the next run"
            ) from None

    # ----------------------------------------------------------------------------------------------------------------------

    @property
    def _now(self) -> int:
        return int(self._clock())

    def _stamps_of(self, names: Sequence[str]) -> list[tuple[int, ...]]:
        """By which a file that was replaced or written to is told; none of one that is missing."""
        found: list[tuple[int, ...]] = []
        for name in names:
            try:
                about = (self._folder / name).stat()
            except OSError:
                found.append(())
            else:
                found.append((about.st_ino, about.st_mtime_ns, about.st_size))
        return found

    def _newer(self, name: str, known: T, opened: Callable[[bytes], T], follows: Callable[[T, T], None]) -> T:
        """What the file has now, or what is known where that is not to be had."""
        try:
            found = opened(read(self._folder / name, most=MOST_BYTES))
            follows(found, known)
        except (ValueError, OSError) as error:
            log.warning("not taken", extra={"file": name, "why": str(error)})
            return known
        return found
