"""When what a party shows at its links, and what it holds others against, ends: said in time, and once more when it is over.

Another certificate takes people at several places, and no link lasts or comes back without: whoever looks after a party is told a
week before, an hour before, and then.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from .certificates import read_certificate, when
from .directory import KIND as DIRECTORY
from .directory import Directory
from .names import name_of
from .revocations import KIND as REVOCATION_LIST
from .revocations import RevocationList

CERTIFICATE = "certificate"
SOON, AT_HAND = 7 * 86_400, 3600
"""Seconds before an end at which it is said, or the third and the tenth part of the whole time, where that is less."""
IS_FAR, IS_SOON, IS_AT_HAND, IS_OVER = range(4)
THEN = "links end, and none is let in, until another is in its place"
log = logging.getLogger("cloister.link")


@dataclass(frozen=True, slots=True)
class End:
    """of: what ends. since, until: Unix seconds between which it is valid. instead: what puts another in its place."""

    of: str
    since: int
    until: int
    instead: str

    def stage(self, now: int) -> int:
        """How near it is. now: Unix seconds."""
        life, left = self.until - self.since, self.until - now
        if left < 0:
            return IS_OVER
        if left <= min(AT_HAND, life / 10):
            return IS_AT_HAND
        return IS_SOON if left <= min(SOON, life / 3) else IS_FAR

    @property
    def at(self) -> str:
        """For people to read."""
        return f"{when(self.until):%Y-%m-%d %H:%M} UTC"


def ends_of(party: int, certificate: bytes, directory: Directory, revoked: RevocationList) -> tuple[End, ...]:
    """Of what this party's links rest on. certificate: its own."""
    found, name = read_certificate(certificate), name_of(party)
    times = int(found.not_valid_before_utc.timestamp()), int(found.not_valid_after_utc.timestamp())
    rotate = f"`cloister keys rotate PKI {name}` at the authority, for this folder, and all others accept its directory"
    renew = "`cloister keys renew PKI` at the authority, and all parties accept what it hands out"
    running = "; nothing is started again"
    signed = ((DIRECTORY, directory.header), (REVOCATION_LIST, revoked.header))
    return (
        End(CERTIFICATE, *times, rotate + running),
        *(End(kind, header.since, header.until, renew + running) for kind, header in signed),
    )


class ToldEnds:
    """What was said last of the ends of a party, so that each stage is said once."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[int, int]] = {}

    def look(self, ends: Iterable[End], now: int) -> None:
        """Say in the log what is nearer than it was. now: Unix seconds."""
        for end in ends:
            until, said = self._said.get(end.of, (end.until, IS_FAR))
            stage = end.stage(now)
            if stage > (said if until == end.until else IS_FAR):
                left = {} if stage == IS_OVER else {"seconds_left": end.until - now}
                about = {"its": end.of, "at": end.at, **left, "then": THEN, "instead": end.instead}
                log.warning("expired" if stage == IS_OVER else "expires", extra=about)
            self._said[end.of] = end.until, stage
