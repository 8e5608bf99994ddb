"""The coordinator's end: clients connect, each over one stream, are sent words, and answer every one of them.

A client is who its certificate says, for as long as the authority's directory and list say so. Words to a client go in order, and
what it has not answered is sent again when it is back after a lost connection, but not to another life of its process, which
knows nothing of them. A coordinator that was started again says what is not answered under the same numbers (work/journalled.py);
a client says at once of what it kept no answer. Who owes an answer and moves nothing for `Limits.patience` counts as absent: it
is sent no new words until it has answered the old ones.
"""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..core.halt import Halt
from ..pki.standing import Standing
from .background import Background
from .door import Door, TurnedAway
from .flow import SMALL_BYTES, Arrived, Flow, Misplaced, nothing
from .terms import METHOD, MOST_TERMS_BYTES, SERVICE, TERMS_HEADER, Limits, Run, grpc_or_words, options, server_credentials
from .words import ANSWER, FORGOTTEN, WORD, Heard, Owed, Peer, memory_of, parts_of

if TYPE_CHECKING:
    import grpc.aio

_TICK = 0.1
_LOOK = 0.5
"""Seconds between looks at whether a wait is to end."""
_NEWS, _ANEW = 1.0, 60.0
"""Seconds after which the authority's files are looked at, and after which those who are there are asked about in any case."""
log = logging.getLogger("cloister.link")


class Listener:
    """Takes streams of these clients, in a thread of its own, from `start` to `stop`.

    greeting: what a client is told when it has said who it is. standing: the coordinator's own; None on the loopback device
    alone, where clients are who they say. run: what clients' first messages are held against. back: seconds in which clients may
    be back that another life of the coordinator had. halt: ends every wait with Halted. noted: told by what a client that
    connects works, as it says.

    Counted: bytes_in, bytes_out; displaced, refused, slow, revoked: how often.
    """

    def __init__(
        self,
        address: str,
        clients: tuple[int, ...],
        greeting: Callable[[int], bytes],
        standing: Standing | None,
        limits: Limits | None = None,
        run: Run | None = None,
        back: float = 0.0,
        halt: Halt | None = None,
        noted: Callable[[int, str], None] = lambda client, terms: None,
    ) -> None:
        grpc_or_words()
        if standing is None and not address.startswith(("127.0.0.1:", "localhost:", "[::1]:", "unix:")):
            raise ValueError(f"without certificates a coordinator listens on the loopback device alone, not on {address}")
        self.limits = limits or Limits()
        self.bytes_in = self.bytes_out = self.displaced = self.refused = self.slow = self.revoked = 0
        self._address, self._greeting, self._standing = address, greeting, standing
        self._run = run or Run()
        self._halt = halt or Halt()
        self._noted = noted
        self._door = Door(clients, standing, self.limits, self._run)
        self._begun = time.monotonic()
        self._peers = {i: Peer(i, until=time.monotonic() + back) for i in clients}
        self._heard: queue.SimpleQueue[Heard] = queue.SimpleQueue()
        self._unsent = 0
        self._last: tuple[bytes, ...] = ()
        self._room = threading.Condition()
        self._changed = threading.Condition()
        self._background: Background | None = None
        self._over, self._why = True, ""
        self._ending = asyncio.Event()
        self._slots = asyncio.Semaphore(self.limits.slots)
        self.port = 0

    # --- for whoever plays the coordinator --------------------------------------------------------------------------------

    def start(self) -> int:
        """Listen; the port. Raises OSError where the address cannot be bound."""
        begun: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._background = Background(lambda: self._serve(begun))
        if (failed := begun.get()) is not None:
            raise OSError(f"cannot listen on {self._address}: {failed}")
        return self.port

    def stop(self, over: bool = True, why: str = "") -> None:
        """Tell every client that it is over, or that the coordinator stops and may be back, and end. why: it refuses all."""
        if self._background is not None:
            if self._background.runs:
                self._over, self._why = over and not why, why
            self._background.soon(self._ending.set)
            self._background.join()

    def present(self) -> tuple[int, ...]:
        """Who is connected."""
        return tuple(sorted(i for i, peer in self._peers.items() if peer.flow is not None))

    def barred(self) -> tuple[int, ...]:
        """Whom the authority sent away, and who is not back with another certificate."""
        return tuple(sorted(i for i, peer in self._peers.items() if peer.barred))

    def missing(self) -> dict[int, float]:
        """By client that is not connected, seconds since it was, or since this is there."""
        now, back = time.monotonic(), self.limits.back
        away = [peer for peer in self._peers.values() if peer.id >= 0 and peer.flow is None]
        return {peer.id: now - (peer.until - back if peer.boot else self._begun) for peer in away}

    def wait_for(self, clients: int, seconds: float, also: Sequence[int] = ()) -> tuple[int, ...]:
        """Wait until so many clients are connected, and these servers beside them, or that long; who is. Raises Halted."""

        def there() -> bool:
            present = set(self.present())
            return present.issuperset(also) and sum(party >= 0 for party in present) >= clients

        self._wait(self._changed, there, seconds)
        return self.present()

    def owing(self) -> dict[int, float]:
        """By client that owes an answer, seconds since the oldest word without one."""
        now = time.monotonic()
        oldest = ((peer.id, next(iter(list(peer.owed.values())), None)) for peer in self._peers.values())
        return {client: now - owed.since for client, owed in oldest if owed is not None}

    def stalled(self) -> float:
        """Seconds since anything came from or went to anybody, or since this is there."""
        return time.monotonic() - max(self._begun, *(peer.moved for peer in self._peers.values()))

    def post(self, client: int, data: bytes, number: int | None = None) -> int:
        """Send a word, and return its number; its answer will be `heard`. Waits while too much is on its way.

        number: its own, greater than those before to this client; None for the next one.
        """
        self._wait(self._room, lambda: self._unsent <= self.limits.ahead, self.limits.at_most)
        with self._room:
            self._unsent += len(data)
        parts: tuple[bytes, ...] = (data,)
        if len(data) > SMALL_BYTES:  # short words come in between, and are like nothing
            parts = self._last = parts_of(data, self._last)
        return self._there.result(self._posted(client, parts, number))

    def heard(self) -> Heard:
        """The next answer, of whomever; every word has one. Raises ConnectionError where the listener has ended, Halted."""
        while True:
            with suppress(queue.Empty):
                return self._heard.get(timeout=_LOOK)
            self._halt.check()
            if not self._there.runs:
                raise ConnectionError("the coordinator's link has ended")

    def heard_already(self) -> Heard | None:
        """An answer that is there, if there is one."""
        with suppress(queue.Empty):
            return self._heard.get_nowait()
        return None

    def done_with(self, heard: Heard) -> None:
        """Its memory is free for another."""
        if heard.free is not nothing:
            self._there.soon(heard.free)

    def _wait(self, on: threading.Condition, until: Callable[[], bool], seconds: float) -> None:
        """Until it is so, or that long. Raises Halted."""
        end = time.monotonic() + seconds
        with on:
            while not on.wait_for(until, max(0.0, min(_LOOK, end - time.monotonic()))) and time.monotonic() < end:
                self._halt.check()

    @property
    def _there(self) -> Background:
        if self._background is None:
            raise ConnectionError("the coordinator does not listen yet")
        return self._background

    # --- in the loop ------------------------------------------------------------------------------------------------------

    async def _serve(self, begun: "queue.SimpleQueue[BaseException | None]") -> None:
        import grpc

        known = [*options(), ("grpc.server_handshake_timeout_ms", round(1000 * self.limits.greeting))]
        server = grpc.aio.server(options=known, maximum_concurrent_rpcs=2 * len(self._peers) + 16)
        handler = grpc.stream_stream_rpc_method_handler(self._stream)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
        try:
            if self._standing is None:
                self.port = server.add_insecure_port(self._address)
            else:
                self.port = server.add_secure_port(self._address, server_credentials(self._standing.credentials()))
            await server.start()
        except BaseException as error:
            begun.put(error)
            return
        begun.put(None)
        watch = asyncio.create_task(self._watch())
        await self._ending.wait()
        watch.cancel()
        flows = [peer.flow for peer in self._peers.values() if peer.flow is not None and self._over]
        await asyncio.gather(*(asyncio.wait_for(flow.end(), 2) for flow in flows), return_exceptions=True)
        for peer in self._peers.values():
            if peer.leave is not None and not self._over:
                stopped = ("UNAVAILABLE", "the coordinator is stopped, and may be started again")
                peer.leave(*(("FAILED_PRECONDITION", self._why) if self._why else stopped))
        await server.stop(2)

    async def _posted(self, client: int, parts: tuple[bytes, ...], given: int | None) -> int:
        peer = self._peers[client]
        number = peer.number = peer.number + 1 if given is None else given
        if peer.expired is not None or (peer.flow is None and not self._may_be_back(peer)):
            self._heard.put(Heard(client, number, None))
            self._sent_off(sum(map(len, parts)))
        else:
            peer.owed[number] = Owed(parts, time.monotonic())
            peer.news.set()
        return number

    def _may_be_back(self, peer: Peer) -> bool:
        return not peer.barred and time.monotonic() < peer.until

    def _sent_off(self, size: int) -> None:
        with self._room:
            self._unsent -= size
            self._room.notify_all()

    def _drop(self, peer: Peer, why: str) -> None:
        """Nothing that it owes is waited for any more."""
        if peer.owed:
            log.warning("absent", extra={"client": peer.id, "why": why, "owed": len(peer.owed)})
        for number, owed in peer.owed.items():
            self._heard.put(Heard(peer.id, number, None))
            if not owed.sent:
                self._sent_off(owed.size)
        peer.owed.clear()

    async def _watch(self) -> None:
        """Find out who owes an answer and moves nothing, who keeps a slot from others, and whom the authority has sent away."""
        looked = asked = time.monotonic()
        known = self._standing and self._standing.known
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            if self._standing is not None and now - looked > _NEWS:
                looked = now
                self._standing.look_again()
                if known != self._standing.known or now - asked > _ANEW:
                    known, asked = self._standing.known, now
                    self._ask_anew()
            for peer in self._peers.values():
                if (
                    peer.leave is not None
                    and peer.flow is not None
                    and peer.flow.stalled(self.limits.patience, self.limits.at_most)
                ):
                    peer.leave("DEADLINE_EXCEEDED", "its long message moves too slowly, and others wait for its slot")
                if not peer.owed:
                    continue
                since = next(iter(peer.owed.values())).since
                if peer.flow is None:
                    if not self._may_be_back(peer):
                        self._drop(peer, "its connection is lost")
                    continue
                if peer.flow.waits:  # for a slot: it is not its fault
                    peer.moved = now
                if now - max(since, peer.moved) > self.limits.patience or now - since > self.limits.at_most:
                    self.slow += 1
                    peer.expired = max((n for n, owed in peer.owed.items() if owed.sent), default=None)
                    self._drop(peer, "slow")

    def _ask_anew(self) -> None:
        """Whether those who are there may still be; others leave, and nobody waits for them."""
        for peer in self._peers.values():
            if peer.leave is None:
                continue
            try:
                self._door.whose(peer.certificate)
            except TurnedAway as away:
                self.revoked += 1
                log.warning("sent away", extra={"client": peer.id, "why": str(away)})
                peer.barred = True
                self._drop(peer, str(away))
                peer.leave(away.code, away.words)

    async def _stream(self, _: object, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        import grpc

        try:
            entered = await self._door.enter(context)
            peer = self._peers[entered.client]
            if peer.leave is not None:
                self._door.may_displace(peer.id)
                self.displaced += 1
                log.warning("displaced", extra={"client": peer.id, "peer": context.peer()})
                peer.leave("ABORTED", "another stream of this client took its place: if that is not yours, have its key revoked")
        except TurnedAway as away:
            self.refused += 1
            log.warning("refused", extra={"peer": context.peer(), "who": away.who, "why": str(away)})
            await context.abort(grpc.StatusCode[away.code], away.words)
            raise
        said = next((value for key, value in context.invocation_metadata() or () if key == TERMS_HEADER), "")
        if isinstance(said, str) and 0 < len(said) <= MOST_TERMS_BYTES:
            self._noted(entered.client, said)
        if entered.boot != peer.boot:
            if peer.boot:  # else what is owed was said, or said again, for whoever comes
                self._drop(peer, "its process is a new one")
            peer.boot = entered.boot
        peer.expired, peer.barred, peer.certificate = None, False, entered.certificate
        ended = await self._talk(peer, context, entered.reply(self._run, self._greeting(peer.id)))
        if ended is not None:
            level = logging.INFO if self._ending.is_set() else logging.WARNING
            log.log(level, "stream ended", extra={"client": peer.id, "why": ended[1]})
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
        try:
            await context.write(first)
            flow = Flow(read, write, self.limits.most, self._slots, moved)
            return leaving.result() if leaving.done() else await self._carried(peer, flow, leaving)
        finally:
            if peer.leave is leave:
                peer.leave = None

    async def _carried(self, peer: Peer, flow: Flow, leaving: "asyncio.Future[tuple[str, str]]") -> tuple[str, str] | None:
        """By this flow, until it ends or the peer is to leave."""
        peer.flow, peer.moved = flow, time.monotonic()
        for owed in peer.owed.values():  # sent again: the connection before may have lost them
            if owed.sent:
                owed.sent = False
                self._unsent += owed.size
        peer.news.set()
        log.info("connected", extra={"client": peer.id})
        with self._changed:
            self._changed.notify_all()
        if self._ending.is_set() and self._over:  # it came when the others had been told
            await flow.end()
        parts: list[Coroutine[Any, Any, object]] = [self._hear(peer, flow), self._tell(peer, flow)]
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            waited: list[asyncio.Future[Any]] = [*tasks, leaving]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                return leaving.result()
            wrong = next((task.exception() for task in tasks if task.done() and task.exception()), None)
            return ("INVALID_ARGUMENT", str(wrong)) if isinstance(wrong, Misplaced) else None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if peer.flow is flow:
                peer.flow, peer.until = None, time.monotonic() + self.limits.back
                log.info("disconnected", extra={"client": peer.id})

    async def _tell(self, peer: Peer, flow: Flow) -> None:
        """Send what is owed an answer, in order."""
        while True:
            word = next(((n, owed) for n, owed in peer.owed.items() if not owed.sent), None)
            if word is None:
                peer.news.clear()
                await peer.news.wait()
                continue
            number, owed = word
            await flow.send(WORD.pack(number, self._settled(peer)), *owed.parts)
            if not owed.sent and number in peer.owed:
                self._sent_off(owed.size)
            owed.sent = True

    def _settled(self, peer: Peer) -> int:
        """Up to which number the client need keep no answer."""
        lasting = self._run.settled
        return peer.settled if lasting is None else min(peer.settled, lasting.get(peer.id, 0))

    async def _hear(self, peer: Peer, flow: Flow) -> None:
        """Take answers. Raises Misplaced."""
        async for arrived in flow.messages():
            self._answered(peer, arrived)
            del arrived  # its memory is another's, while this client says nothing

    def _answered(self, peer: Peer, arrived: Arrived) -> None:
        if len(arrived.data) < ANSWER.size:
            raise Misplaced("an answer without a head")
        (number,) = ANSWER.unpack_from(arrived.data)
        number, forgotten = number & ~FORGOTTEN, number >= FORGOTTEN
        owed = peer.owed.pop(number, None)
        late = owed is None
        if late and (peer.expired is None or not 0 < number <= peer.expired):
            arrived.free()  # given already
            return
        if owed is not None and not owed.sent:
            self._sent_off(owed.size)
        if late and number == peer.expired:
            peer.expired = None
            log.info("caught up", extra={"client": peer.id})
        for later in peer.owed.values():
            later.since = max(later.since, time.monotonic())  # its time runs from when the one before is answered
        if forgotten:
            arrived.free()
            self._heard.put(Heard(peer.id, number, None, late))
        else:
            self._heard.put(Heard(peer.id, number, memory_of(arrived), late, arrived.free))
