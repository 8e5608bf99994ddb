"""Who is let in at a coordinator's links, and how often: what a stream has to show before it is told anything.

Whoever lacks a certificate of the authority does not get this far: TLS ends. A certificate that is not, or no longer, a client's
of the run is told why by its own fault alone, never who else is there.
"""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.errors import Revoked
from ..pki.certificates import Untrusted, common_name
from ..pki.names import name_of
from ..pki.standing import Standing
from .terms import ID_HEADER, CoordinatorRun, JournalLost, Limits, LinkRefused, hello_of, reply

if TYPE_CHECKING:
    import grpc.aio

NOT_IN_FORCE, NOBODY, WRONG, OFTEN = "UNAUTHENTICATED", "PERMISSION_DENIED", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED"
"""gRPC's names of why a stream is turned away: try again when the authority has spoken; never; never; later."""
TAKEN_BACK = NOBODY
"""Of a certificate that is revoked, and nothing takes its place."""


class TurnedAway(Exception):
    """A stream is not let in, or not any more. code: gRPC's name. words: for whoever is at its other end. why: for the log.

    who: it is by its certificate, for the log too. lost: whose journal is an older copy; None where that is not why.
    """

    def __init__(self, code: str, words: str, why: str = "", who: str = "", lost: int | None = None) -> None:
        super().__init__(why or words)
        self.code, self.words, self.who, self.lost = code, words, who, lost


@dataclass(slots=True)
class _Known:
    """Of a client: its streams that have not said who they are, and that are not over; how many may still displace one another at
    `since`."""

    opening: int
    unended: int
    left: float
    since: float


@dataclass(frozen=True, slots=True)
class Entered:
    """Who is at the other end of a stream. certificate: PEM. boot: of its process. proof: for its challenge. shown: the
    coordinator's own certificate.
    """

    client: int
    certificate: bytes
    boot: bytes
    proof: bytes
    shown: bytes

    def reply(self, run: CoordinatorRun, greeting: bytes) -> bytes:
        """What it is told first."""
        return reply(self.proof, self.shown, run, greeting)


class Door:
    """Of a coordinator whose clients these are. standing: its own; None without certificates. run: what they must agree with."""

    def __init__(self, clients: Iterable[int], standing: Standing | None, limits: Limits, run: CoordinatorRun) -> None:
        self._standing, self._limits, self._run = standing, limits, run
        now = time.monotonic()
        self._known = {client: _Known(0, 0, float(limits.displacing), now) for client in clients}

    async def enter(self, context: "grpc.aio.ServicerContext[bytes, bytes]") -> Entered:
        """Hear what a stream says first. Raises TurnedAway."""
        if self._standing is not None:
            self._standing.look_again()
        certificate = self._certificate(context)
        client = self.whose(certificate) if self._standing is not None else self._said(context)
        known = self._known[client]
        if known.opening >= self._limits.opening:
            raise TurnedAway(OFTEN, "other streams of this client have not said anything yet", who=name_of(client))
        if known.unended >= self._limits.unended:
            words = "earlier streams of this client are not over: it takes nothing of what it is told"
            raise TurnedAway(OFTEN, words, who=name_of(client))
        known.opening += 1
        known.unended += 1
        context.add_done_callback(lambda _: self._over(known))
        try:
            async with asyncio.timeout(self._limits.greeting):
                first = await context.read()
            boot, challenge, seen = hello_of(first if isinstance(first, bytes) else b"")
            self._run.check(client, seen)
        except TimeoutError:
            raise TurnedAway(WRONG, "nothing was said in time", who=name_of(client)) from None
        except LinkRefused as error:
            lost = client if isinstance(error, JournalLost) else None
            raise TurnedAway(WRONG, str(error), who=name_of(client), lost=lost) from None
        finally:
            known.opening -= 1
        if self._standing is None:
            return Entered(client, b"", boot, b"", b"")
        self.whose(certificate)  # the authority may have spoken meanwhile
        try:
            return Entered(client, certificate, boot, self._standing.proof(client, challenge), self._standing.certificate)
        except ValueError:
            words = "a client does not ask who this is: all parties need the same release"
            raise TurnedAway(WRONG, words, who=name_of(client)) from None

    def _over(self, known: _Known) -> None:
        """A stream of this client has ended, for its connection too."""
        known.unended -= 1

    def whose(self, certificate: bytes) -> int:
        """The client whose certificate this is, and who may be here now. Raises TurnedAway."""
        if self._standing is None:
            raise TurnedAway(NOBODY, "")
        try:
            client = self._standing.party_of(certificate)
        except Untrusted as error:
            code = TAKEN_BACK if isinstance(error, Revoked) else NOT_IN_FORCE
            raise TurnedAway(code, str(error), who=common_name(certificate)) from None
        if client not in self._known:
            raise TurnedAway(NOBODY, "", "nobody of this run", name_of(client))
        return client

    def may_displace(self, client: int) -> None:
        """A stream of a client that has one is about to take its place. Raises TurnedAway where that goes on and on."""
        known, now = self._known[client], time.monotonic()
        known.left = min(float(self._limits.displacing), known.left + (now - known.since) / self._limits.calm)
        known.since = now
        if known.left < 1:
            words = "streams of this client take each other's place: is its key in use elsewhere? then have it revoked"
            raise TurnedAway(OFTEN, words, who=name_of(client))
        known.left -= 1

    def _certificate(self, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        found = context.auth_context().get("x509_pem_cert") if self._standing is not None else None
        return found[0] if found else b""

    def _said(self, context: "grpc.aio.ServicerContext[bytes, bytes]") -> int:
        """Who it says it is, where nothing shows it."""
        said = next((value for key, value in context.invocation_metadata() or () if key == ID_HEADER), "")
        found = int(said) if isinstance(said, str) and said.isdecimal() and len(said) < 10 else None
        if found is None or found not in self._known:
            raise TurnedAway(NOBODY, "", "nobody of this run")
        return found
