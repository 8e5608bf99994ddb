"""The streams of a coordinator's clients, each from its first words to its end: who comes in, what goes over it, why it ends."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .door import Door, TurnedAway
from .flow import Flow, Misplaced
from .owing import Owing
from .terms import MOST_TERMS_BYTES, TERMS_HEADER, CoordinatorRun, Limits
from .words import WORD, Peer

if TYPE_CHECKING:
    import grpc.aio

log = logging.getLogger("cloister.link")


@dataclass(slots=True)
class Ending:
    """Of a coordinator. over: clients are told that all is, and not that it may be back, and what is said of it. why: it refuses
    all, unless empty.
    """

    over: bool = True
    why: str = ""
    said: str = ""
    begun: asyncio.Event = field(default_factory=asyncio.Event)


class Streams:
    """door: who is let in. owing: what clients owe. ending: of the coordinator. run, greeting, noted: as of a `Listener`.

    changed: notified when somebody has come. Counted: bytes_in, bytes_out; displaced, refused: how often.
    lost: by party that was refused for its journal since it was here, what it was told.
    """

    def __init__(
        self,
        door: Door,
        owing: Owing,
        ending: Ending,
        limits: Limits,
        run: CoordinatorRun,
        greeting: Callable[[int], bytes],
        noted: Callable[[int, str], None],
    ) -> None:
        self.changed = threading.Condition()
        self.bytes_in = self.bytes_out = self.displaced = self.refused = 0
        self.lost: dict[int, str] = {}
        self._door, self._owing, self._ending, self._limits = door, owing, ending, limits
        self._run, self._greeting, self._noted = run, greeting, noted
        self._slots = asyncio.Semaphore(limits.slots)

    async def serve(self, _: object, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        """One, which takes the place of an older one of its client."""
        import grpc

        try:
            entered = await self._door.enter(context)
            peer = self._owing.peers[entered.client]
            if peer.leave is not None:
                self._door.may_displace(peer.id)
                self.displaced += 1
                log.warning("displaced", extra=peer.who | {"peer": context.peer()})
                peer.leave("ABORTED", "another stream of this client took its place: if that is not yours, have its key revoked")
        except TurnedAway as away:
            self.refused += 1
            if away.lost is not None:
                self.lost[away.lost] = away.words
            log.warning("refused", extra={"peer": context.peer(), "who": away.who, "why": str(away)})
            await context.abort(grpc.StatusCode[away.code], away.words)
            raise
        said = next((value for key, value in context.invocation_metadata() or () if key == TERMS_HEADER), "")
        if isinstance(said, str) and 0 < len(said) <= MOST_TERMS_BYTES:
            self._noted(entered.client, said)
        self.lost.pop(peer.id, None)
        if entered.boot != peer.boot:
            if peer.boot:  # else what is owed was said, or said again, for whoever comes
                self._owing.drop(peer, "its process is a new one")
            peer.boot = entered.boot
        peer.expired, peer.barred, peer.revoked, peer.left, peer.certificate = set(), False, False, "", entered.certificate
        ended = await self._talk(peer, context, entered.reply(self._run, self._greeting(peer.id)))
        if ended is not None:
            level = logging.INFO if self._ending.begun.is_set() else logging.WARNING
            log.log(level, "stream ended", extra=peer.who | {"why": ended[1]})
            await context.abort(grpc.StatusCode[ended[0]], ended[1])

    async def _talk(self, peer: Peer, context: "grpc.aio.ServicerContext[bytes, bytes]", first: bytes) -> tuple[str, str] | None:
        """Carry words and answers until the stream ends; with what code and words it is ended from here. first: said at first."""
        leaving: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

        def leave(code: str, words: str) -> None:
            if not leaving.done():
                leaving.set_result((code, words))

        def moved() -> None:
            peer.moved = time.monotonic()

        async def read() -> bytes | None:
            piece = await context.read()
            if not isinstance(piece, bytes):
                return None
            self.bytes_in += len(piece)
            return piece

        async def write(piece: bytes) -> None:
            self.bytes_out += len(piece)
            await context.write(piece)

        peer.leave = leave
        flow = Flow(read, write, self._limits.most, self._slots, moved)
        try:
            return await self._carried(peer, flow, leaving, first)
        finally:
            if peer.leave is leave:
                peer.leave = None

    async def _carried(
        self, peer: Peer, flow: Flow, leaving: "asyncio.Future[tuple[str, str]]", first: bytes
    ) -> tuple[str, str] | None:
        """By this flow, until it ends or the peer is to leave."""
        peer.flow, peer.moved = flow, time.monotonic()  # before it hears that it is there: a word to it then is to one who is
        tasks: list[asyncio.Task[object]] = []
        try:
            await flow.begin(first)
            if leaving.done():
                return leaving.result()
            self._owing.anew(peer)
            log.info("connected", extra=peer.who)
            with self.changed:
                self.changed.notify_all()
            if self._ending.begun.is_set() and self._ending.over:  # it came when the others had been told
                await flow.end(self._ending.said)
            parts: list[Coroutine[Any, Any, object]] = [self._hear(peer, flow), self._tell(peer, flow)]
            tasks += [asyncio.create_task(part) for part in parts]
            waited: list[asyncio.Future[Any]] = [*tasks, leaving]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                return leaving.result()
            if flow.left is not None and peer.flow is flow:
                log.warning("left", extra=peer.who | {"why": flow.left})
                peer.barred, peer.left = True, flow.left
                self._owing.drop(peer, f"it left: {flow.left}")
                return None
            wrong = next((task.exception() for task in tasks if task.done() and task.exception()), None)
            return ("INVALID_ARGUMENT", str(wrong)) if isinstance(wrong, Misplaced) else None
        finally:
            for task in tasks:
                task.cancel()
            try:
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:  # also where the peer's end cancels this in the middle of it: else it would be there for ever
                if peer.flow is flow:
                    peer.flow, peer.until = None, time.monotonic() + self._limits.back
                    log.info("disconnected", extra=peer.who)

    async def _tell(self, peer: Peer, flow: Flow) -> None:
        """Send what is owed an answer, in order."""
        while True:
            word = next(((n, owed) for n, owed in peer.owed.items() if not owed.sent), None)
            if word is None:
                peer.news.clear()
                await peer.news.wait()
                continue
            number, owed = word
            await flow.send(WORD.pack(number, self._owing.settled(peer)), *owed.parts)
            if not owed.sent and number in peer.owed:
                self._owing.sent_off(owed.size)
            owed.sent = True
            del word, owed  # else it is here until the next one, when its answer has long come

    async def _hear(self, peer: Peer, flow: Flow) -> None:
        """Take answers. Raises Misplaced."""
        async for arrived in flow.messages():
            self._owing.answered(peer, arrived)
            del arrived  # its memory is another's, while this client says nothing
