"""The directory of a run: which certificate and which Ed25519 identities belong to which party, signed by the authority.

A certificate says who is at the other end of a link, an identity who signed a message. That both are one party is what the
directory says; without it, a certificate of client 3 with identities of client 5 would be two honest halves of an impostor.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import cbor2
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from ...crypto.identity import PUBLIC_KEY_BYTES
from ..core.session import DEALER, MAX_ID, MAX_ROSTER, RUN_BYTES
from .authority import Authority, Header, read_signed, signed
from .certificates import SERIAL_BYTES, Untrusted
from .names import CLIENT_USES, name_of
from .reading import Reader

KIND = "directory"
MOST_PARTIES = MAX_ROSTER - DEALER
MOST_USES = 16
MOST_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Entry:
    """A party. serial: of its certificate, 1 to 20 bytes, big-endian. key: SHA-256 of its certificate's key.

    identities: 32-byte Ed25519 keys, by what it signs for with each.
    """

    party: int
    serial: bytes
    key: bytes
    identities: Mapping[str, bytes]

    def __post_init__(self) -> None:
        name_of(self.party)
        if not 1 <= len(self.serial) <= SERIAL_BYTES or self.serial[0] == 0 or len(self.key) != 32:
            raise ValueError(f"the entry of {name_of(self.party)} has no serial number or key of a certificate")
        if len(self.identities) > MOST_USES or any(
            not 0 < len(use.encode()) <= 32 or len(public) != PUBLIC_KEY_BYTES for use, public in self.identities.items()
        ):
            raise ValueError(f"the entry of {name_of(self.party)} has identities out of range")

    @property
    def items(self) -> list[object]:
        """As they are encoded: uses ascending."""
        return [self.party, self.serial, self.key, [[use, self.identities[use]] for use in sorted(self.identities)]]

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Raises ValueError."""
        reader.items(4, 4, "an entry")
        party = reader.integer(DEALER, MAX_ID, "a party")
        serial = reader.octets(1, SERIAL_BYTES, "a serial number")
        key = reader.octets(32, 32, "the hash of a key")
        identities: dict[str, bytes] = {}
        for _ in range(reader.items(0, MOST_USES, "the identities")):
            reader.items(2, 2, "an identity")
            use = reader.text(1, 32, "a use")
            if identities and use <= max(identities):
                raise ValueError("the directory does not read: uses are not ascending, each once")
            identities[use] = reader.octets(PUBLIC_KEY_BYTES, PUBLIC_KEY_BYTES, "an identity")
        return cls(party, serial, key, identities)


@dataclass(frozen=True)
class Directory:
    """What the authority says of its parties. authority: who signed it. digest: SHA-256 of the content."""

    authority: Authority
    header: Header
    entries: Mapping[int, Entry] = field(repr=False)
    digest: bytes

    @classmethod
    def open(cls, document: bytes, authority: Authority, now: int) -> Self:
        """Check and read it. now: Unix seconds.

        Raises Untrusted unless this authority signed it, both are valid now, and every party, serial number and key
        is in it once.
        """
        found = cls.at_any_time(document, authority)
        authority.check(now)
        found.header.at(now, KIND)
        return found

    @classmethod
    def at_any_time(cls, document: bytes, authority: Authority) -> Self:
        """The same of one that may have expired: for whoever signs the next, and for nobody else."""
        header, entries, digest = read_signed(document, authority, KIND, MOST_BYTES, _entries)
        return cls(authority, header, {entry.party: entry for entry in entries}, digest)

    @cached_property
    def by_serial(self) -> Mapping[bytes, Entry]:
        """Parties by the serial numbers of their certificates."""
        return {entry.serial: entry for entry in self.entries.values()}

    @property
    def run(self) -> bytes:
        """The 16 bytes that name what this directory is for: of this authority and this name of a run, and no other."""
        name = b"cloister/v1/run" + self.authority.fingerprint + self.header.run.encode()
        return hashlib.sha256(name).digest()[:RUN_BYTES]

    def run_of(self, drawn: bytes) -> bytes:
        """The 16 bytes that name a run of this directory's parties in its sessions. drawn: 16 bytes, other ones for each run.

        So nothing that is signed in a run of another authority or name means anything in it. Raises ValueError.
        """
        if len(drawn) != RUN_BYTES:
            raise ValueError(f"a run is told from others by {RUN_BYTES} bytes, not {len(drawn)}")
        name = b"cloister/v1/run of" + self.authority.fingerprint + drawn + self.header.run.encode()
        return hashlib.sha256(name).digest()[:RUN_BYTES]

    @property
    def clients(self) -> tuple[int, ...]:
        """Their ids, ascending."""
        return tuple(party for party in self.entries if party >= 0)

    def enrolled(self, clients: Iterable[int]) -> Mapping[str, Mapping[int, bytes]]:
        """These clients' identities by use and id, as `InProcessClient.enrol` takes them.

        Raises Untrusted for who is not listed.
        """
        who = tuple(clients)
        if unknown := [name_of(party) for party in who if party < 0 or party not in self.entries]:
            raise Untrusted(
                f"{', '.join(unknown[:5])} {'is' if len(unknown) == 1 else 'are'} not in the directory of version"
                f" {self.header.version} here: take the authority's newest with `cloister keys accept KEYS public --authority"
                f" FINGERPRINT`; where it is that, the scenario has others than the {len(self.clients)} enrolled"
            )
        try:
            return {use: {party: self.entries[party].identities[use] for party in who} for use in CLIENT_USES}
        except KeyError as use:
            raise Untrusted(f"the directory lacks an identity for {use} of a client") from None

    def follows(self, seen: "Directory") -> None:
        """Raises Untrusted if this is older than one that was seen, or another of the same version."""
        check_newer(self.header, self.digest, seen.header, seen.digest, KIND)


def sign(key: EllipticCurvePrivateKey, header: Header, entries: Iterable[Entry]) -> bytes:
    """The document. key: the authority's. Raises ValueError for a party, serial number or key that is in it twice."""
    listed = sorted(entries, key=lambda entry: entry.party)
    check_apart(listed)
    return signed(key, KIND, cbor2.dumps([*header.items, [entry.items for entry in listed]], canonical=True))


def check_apart(entries: Iterable[Entry]) -> None:
    """Raises ValueError unless parties ascend and no serial number, certificate's key or identity is there twice."""
    last, seen = DEALER - 1, set[tuple[str, bytes]]()
    for entry in entries:
        if entry.party <= last:
            raise ValueError("the directory lists parties in ascending order, each once")
        last = entry.party
        for what, value in [
            ("serial number", entry.serial),
            ("key", entry.key),
            *(("identity", i) for i in entry.identities.values()),
        ]:
            if (what, value) in seen:
                raise ValueError(f"the directory has the {what} of {name_of(entry.party)} twice")
            seen.add((what, value))


def check_newer(offered: Header, digest: bytes, seen: Header, known: bytes, what: str) -> None:
    """Raises Untrusted if what is offered is of another authority, older, or another of the same version."""
    if offered.authority != seen.authority:
        raise Untrusted(f"the {what} is of another authority than the one before")
    if offered.version < seen.version:
        raise Untrusted(f"the {what} has version {offered.version}, older than version {seen.version}, which was seen before")
    if offered.version == seen.version and digest != known:
        raise Untrusted(f"there are two of version {seen.version} of the {what}, which differ: ask the authority")


def _entries(reader: Reader) -> list[Entry]:
    found = [Entry.read(reader) for _ in range(reader.items(0, MOST_PARTIES, "the parties"))]
    check_apart(found)
    return found
