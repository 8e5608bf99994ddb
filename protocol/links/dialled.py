"""A client's end: one stream to the coordinator, or to another server, connected again with growing pauses whenever it is lost.

What the coordinator says is handed out word by word; an answer that a lost connection may have taken with it is given again when
the word comes again, without doing anything twice. So it is with a coordinator that was started again, which says again what it
knows no answer to. Who has no answer of before to give, because another life of this process gave it, says that it has none.

Whose own certificate is revoked, with no other in its place, gives up (LinkRevoked) when that is so for REVOKED_FOR seconds: of a
rotation the list may be there before the directory.

At the beginning of every stream the coordinator shows that it holds its identity, for a challenge; what it says of its run counts
only then. A stream to one whose certificate is revoked or expires is ended, also in its midst, and tried again later.
"""

import asyncio
import logging
import os
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ..core.errors import Revoked
from ..core.session import SERVER
from ..pki.certificates import Untrusted
from ..pki.hello import CHALLENGE_BYTES
from ..pki.names import name_of
from ..pki.standing import Proven, Standing
from .background import Background, Gone
from .dialling import BROKE_OFF, channel_to, why_ended
from .flow import Flow, Misplaced
from .pauses import Pauses
from .taken_words import TakenWords
from .terms import (
    BOOT_BYTES,
    ID_HEADER,
    METHOD,
    MOST_BYTES,
    SERVICE,
    TERMS_HEADER,
    ClientRun,
    LinkRefused,
    LinkRevoked,
    grpc_or_words,
    hello,
    reply_of,
)
from .words import ANSWER, WORD, behind_head

if TYPE_CHECKING:
    import grpc.aio

REVOKED_FOR = 3.0
"""Seconds after which a client believes that its certificate is revoked."""
MOST_WAITING, MOST_BYTES_WAITING = 64, 64 << 20
"""Words, and bytes of them, that are taken ahead of the one that is worked on; one word at least, however long."""
GOODBYE = 2.0
"""Seconds in which the other end may take what this one says when it leaves."""
BEAT = 1.0
"""Seconds between signs that a word is worked on, and between looks at what the authority says."""
log = logging.getLogger("cloister.link")


class Dialled:
    """A link to the coordinator at `address`, in a thread of its own, from `start` to `stop`.

    standing: the client's own; None without certificates, on the loopback device, where client says who it is. patience: seconds
    without a connection after which it gives up. server: who must be at the other end, if it is not the coordinator. over:
    whether that end said that all is over. why: what it said of that. terms: by what the client works, for the coordinator's
    log, in ASCII. noted: told, in that thread, of every change: True and "" when the connection is
    there, False and why when it is lost, or cannot be had. ended: set when it goes on no more.
    """

    def __init__(
        self,
        address: str,
        standing: Standing | None,
        client: int | None = None,
        *,
        patience: float = 600.0,
        most: int = MOST_BYTES,
        server: int = SERVER,
        noted: Callable[[bool, str], None] = lambda there, why: None,
    ) -> None:
        grpc_or_words()
        self.standing = standing
        self.terms = ""
        self.noted = noted
        self._server = server
        self._address, self._client, self._patience, self._most = address, client, patience, most
        self._boot = os.urandom(BOOT_BYTES)
        self._words: queue.SimpleQueue[tuple[int, bytes | memoryview] | BaseException | None] = queue.SimpleQueue()
        self._bytes_put = self._bytes_got = 0  # of words, each written by one thread
        self._greeted: queue.SimpleQueue[bytes | BaseException] = queue.SimpleQueue()
        self._seen, self._greeting = ClientRun(), b""
        self._taken = TakenWords(0)
        self._sending: dict[int, asyncio.Future[None]] = {}  # answers that are said again, by the number of the word
        self._flow: Flow | None = None
        self._waiting = False
        self._proven: Proven | None = None
        self._background: Background | None = None
        self._ending = asyncio.Event()
        self._slot = asyncio.Semaphore(1)
        self.bytes_in = self.bytes_out = self.connections = 0
        self._since = 0.0
        self._said = ""  # why it is not there, since it was last
        self.over = False
        self.why = ""
        self.ended = threading.Event()
        self._unwanted = False
        self._leaving = False
        self._hung_up = asyncio.Event()

    @property
    def seen(self) -> ClientRun:
        """What is known of the run."""
        return self._seen

    def give_up_after(self, seconds: float) -> None:
        """Try no longer than this, or than `patience` where that is shorter."""
        self._patience = min(self._patience, seconds)

    def start(self, seen: ClientRun | None = None) -> bytes:
        """Connect; what the coordinator says first. seen: what an earlier life of this process knew. Raises LinkRefused,
        LinkRevoked, ConnectionError.
        """
        self._seen = seen or ClientRun()
        self._taken = TakenWords(self._seen.number)
        self._background = Background(self._stay)
        if self._unwanted:  # it was stopped before it began
            self._background.soon(self._ending.set)
        greeting = self._greeted.get()
        if isinstance(greeting, BaseException):
            raise greeting
        return greeting

    def words(self) -> Iterator[tuple[int, bytes | memoryview]]:
        """What the coordinator says, each with its number, until it is over. Raises LinkRefused, ConnectionError."""
        while (found := self._words.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            self._bytes_got += WORD.size + len(found[1])
            yield found
            del found  # it may be long, and the next one may be long in coming

    def answer(self, number: int, data: bytes) -> None:
        """To the word of this number. Where the link has ended, `words` says so."""
        if self._background is not None:
            with suppress(Gone):
                self._background.result(self._answer(number, data))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While this party waits for another one and works on no word: its coordinator counts it absent, if that takes long."""
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False

    def leave(self, why: str) -> bool:
        """Say that this party takes no further part, and why, in words without secrets; whether there was somebody to say it to.

        `stop` comes after it all the same.
        """
        with suppress(Gone):
            return self._background is not None and self._background.result(self._left(why))
        return False

    def stop(self) -> None:
        """End the connection, also one that is yet to begin."""
        self._unwanted = True
        if self._background is not None:
            self._background.soon(self._ending.set)
            self._background.join()

    # --- in the loop ------------------------------------------------------------------------------------------------------

    async def _stay(self) -> None:
        staying, ending = asyncio.create_task(self._connect_again()), asyncio.create_task(self._ending.wait())
        await asyncio.wait({staying, ending}, return_when=asyncio.FIRST_COMPLETED)
        if staying.done() and (failed := staying.exception()) is not None:
            self._greeted.put(failed)
            self._words.put(failed)
        for task in (staying, ending):
            task.cancel()
        await asyncio.gather(staying, ending, return_exceptions=True)
        self._words.put(None)
        whom = f"the link to the {name_of(self._server)} at {self._address}" if self._said else "the link"
        why = f": {self._said}" if self._said else ""
        self._greeted.put(ConnectionError(f"{whom} was ended before it was there{why}"))  # for who still waits for a greeting
        self.ended.set()

    async def _connect_again(self) -> None:
        """Until it is over. Raises LinkRefused, LinkRevoked, ConnectionError."""
        pauses, lost, told = Pauses(), time.monotonic(), ""
        revoked: float | None = None
        refusal: LinkRevoked | None = None
        while True:
            before = self.connections
            try:
                why = await self._connected()
                if self.connections > before:  # an end that is not there says nothing of certificates
                    revoked, refusal = None, None
            except LinkRevoked as error:
                revoked, refusal = time.monotonic() if revoked is None else revoked, error
                if time.monotonic() - revoked > min(REVOKED_FOR, self._patience):
                    raise
                why = str(error)
            if why is None:
                self.over = True
                return
            if self._leaving:
                return
            if self.connections > before:
                pauses.connected(time.monotonic() - self._since)
            if self.connections > before or not told:
                lost, told, self._said = time.monotonic(), "", ""
            if why != BROKE_OFF or not self._said:  # as it does where a refusal comes while this end still writes
                self._said = why
            if time.monotonic() - lost > self._patience:
                if refusal is not None:
                    raise refusal
                raise ConnectionError(f"the {name_of(self._server)} at {self._address} cannot be reached: {self._said}")
            if (kind := why.partition(":")[0]) != told:  # once for each, and not at every attempt
                told = kind
                self.noted(False, why)
                again = {} if revoked is not None else {"tries_at_most_seconds": self._patience}
                log.warning("not connected", extra={name_of(self._server): self._address, "why": why, **again})
            await asyncio.sleep(pauses.next() * random.uniform(0.5, 1.0))

    async def _left(self, why: str) -> bool:
        """The other end hangs up when it has heard it: what is still on its way when a connection is torn down may be lost."""
        self._leaving = True
        if (flow := self._flow) is None:
            return False
        try:
            async with asyncio.timeout(GOODBYE):
                await flow.leave(why)
                await self._hung_up.wait()
        except Exception:
            return False
        return True

    async def _connected(self) -> str | None:
        """One connection, to its end: why, None when all is over. Raises LinkRefused, LinkRevoked."""
        import grpc

        try:
            channel = channel_to(self._address, self._server, self.standing)
        except Revoked as error:
            raise LinkRevoked(f"{error}: this party takes no further part, unless the authority gives it another") from None
        except ValueError as error:  # of the authority, or of this client's own folder: both may change
            return str(error)
        async with channel:
            metadata = () if self._client is None else ((ID_HEADER, str(self._client)),)
            if self.terms:
                metadata = (*metadata, (TERMS_HEADER, self.terms))
            call = channel.stream_stream(f"/{SERVICE}/{METHOD}")(metadata=metadata)
            challenge = b"" if self.standing is None else os.urandom(CHALLENGE_BYTES)
            try:
                await call.write(hello(self._boot, challenge, replace(self._seen, number=self._taken.latest)))
                first = await call.read()
                if isinstance(first, bytes):
                    proof, shown, run, life, greeting = reply_of(first)
                    if self.standing is not None:
                        self._proven = self.standing.check_proof(proof, shown, challenge, self._server)
                    self._greet(run, life, greeting)
                    log.info("connected", extra={name_of(self._server): self._address, "life": life})
                    if await self._talk(call):
                        return None
                code, details = await call.code(), await call.details()
            except grpc.aio.AioRpcError as error:
                code, details = error.code(), error.details()
            except asyncio.InvalidStateError:
                code, details = await call.code(), await call.details()
            except Untrusted as error:
                return str(error)
            except Misplaced as error:
                raise LinkRefused(f"the {name_of(self._server)} does not keep to the order of pieces: {error}") from None
            return why_ended(code, details, self._server, self.standing is not None)

    def _greet(self, run: bytes, life: int, greeting: bytes) -> None:
        """Raises LinkRefused for the coordinator of another run, or an older life of this one's."""
        if self._seen.run and run != self._seen.run:
            raise LinkRefused(f"another run is played at the {name_of(self._server)}'s address")
        if self.connections and greeting != self._greeting:
            raise LinkRefused(f"the {name_of(self._server)} says otherwise than before who is in this run, or by what terms")
        if life < self._seen.life:
            raise LinkRefused(f"the {name_of(self._server)}'s journal is an older copy: a later life of it is known here")
        self._seen, self._greeting = replace(self._seen, run=run, life=life), greeting
        self.connections += 1
        self._since = time.monotonic()
        self.noted(True, "")
        if self.connections == 1:
            self._greeted.put(greeting)

    async def _talk(self, call: "grpc.aio.StreamStreamCall[bytes, bytes]") -> bool:
        """Take words until the stream ends; whether all is over. Raises Misplaced, Untrusted."""

        async def read() -> bytes | None:
            piece = await call.read()
            if not isinstance(piece, bytes):
                return None
            self.bytes_in += len(piece)
            return piece

        async def write(piece: bytes) -> None:
            self.bytes_out += len(piece)
            await call.write(piece)

        flow = self._flow = Flow(read, write, self._most, self._slot, lambda: None)
        self._hung_up.clear()
        tasks = hearing, beating = asyncio.create_task(self._hear(flow)), asyncio.create_task(self._beat(flow))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if beating.done() and isinstance(failed := beating.exception(), Untrusted):
                raise failed
            await hearing
            self.why = flow.why
            return flow.over
        finally:
            for task in tasks:
                task.cancel()
            try:
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:
                self._flow = None
                self._hung_up.set()

    async def _hear(self, flow: Flow) -> None:
        """Take words. Raises Misplaced."""
        async for arrived in flow.messages():
            await self._take(arrived.data)
            arrived.free()
            del arrived  # its memory is another's, while the coordinator says nothing

    async def _beat(self, flow: Flow) -> None:
        """While a word is worked on, say so. Raises Untrusted when the other end's certificate is revoked, replaced or over."""
        while True:
            await asyncio.sleep(BEAT)
            if self.standing is not None:
                self.standing.look_again()
                self.standing.check_in_good_standing(self._server, self._proven)
            if self._taken.doing is not None and not self._waiting:
                await flow.working()

    async def _take(self, data: bytes | bytearray) -> None:
        if len(data) < WORD.size:
            raise Misplaced("a word without a head")
        number, settled = WORD.unpack_from(data)
        given = self._taken.again(number, settled)
        if given is not None:
            if number not in self._sending:  # once, however often it is asked for while nothing is taken
                sending = self._sending[number] = asyncio.ensure_future(self._send(*given))
                sending.add_done_callback(lambda _: self._sending.pop(number, None))
        elif number > self._taken.latest:
            while self._is_enough(len(data)):
                await asyncio.sleep(0.05)
            self._taken.take(number)
            self._bytes_put += len(data)
            self._words.put((number, behind_head(data, WORD)))

    def _is_enough(self, more: int) -> bool:
        """Whether so many words wait, or bytes of them, that one of `more` bytes is not taken yet."""
        waiting = self._bytes_put - self._bytes_got
        return self._words.qsize() >= MOST_WAITING or (waiting > 0 and waiting + more > MOST_BYTES_WAITING)

    async def _answer(self, number: int, data: bytes) -> None:
        self._taken.answered(number, data)
        await self._send(ANSWER.pack(number), data)

    async def _send(self, *parts: bytes) -> None:
        """What is lost with the connection is asked for again, however it was lost."""
        if (flow := self._flow) is not None:
            try:
                await flow.send(*parts)
            except Exception as error:
                log.info("an answer waits for the next connection", extra={"why": type(error).__name__})
