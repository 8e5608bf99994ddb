"""One stream between two processes: whole messages in pieces of at most 256 KiB, long ones only after they were admitted.

A piece has a head of its own: (kind, number, index, of, total), `>BQIIQ`. A message of at most 64 KiB is one piece. A longer one
is offered first, with its size; the other side grants so many pieces at a time, and reserves memory for it when it does. So a
length that is only declared costs nobody anything, and what a side does not take stays with whoever sends it.
"""

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field

HEAD = struct.Struct(">BQIIQ")
PIECE_BYTES = 1 << 18
SMALL_BYTES = 1 << 16
"""Messages of at most so many bytes are sent unasked."""
WINDOW = 8
"""Pieces that are granted ahead."""
MOST_PIECE = HEAD.size + PIECE_BYTES
_PIECE, _OFFER, _GRANT, _WORKING, _OVER, _LEAVING = range(2, 8)
MOST_REASON = 600
"""Bytes of why a side leaves, or why it is done."""

Read = Callable[[], Awaitable[bytes | None]]
Write = Callable[[bytes], Awaitable[None]]


class Misplaced(Exception):
    """The other side does not keep to the order of pieces. The message says how."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How many pieces a second a side takes, in the mean, and how many at once; more wait."""

    a_second: float = 2000.0
    at_once: int = 4000


@dataclass(slots=True)
class Arrived:
    """A whole message. free: to be called, from the loop's thread, when it is done with: another long one may come then."""

    data: bytes | bytearray = field(repr=False)
    free: Callable[[], None]


class Flow:
    """Both directions of one stream, for use in one event loop.

    read: the next piece, None at the end. write: puts a piece on the stream. most: bytes of a message. slots: of long messages
    that are taken at once; several streams may share them. moved: told whenever anything came or went.
    """

    def __init__(
        self,
        read: Read,
        write: Write,
        most: int,
        slots: asyncio.Semaphore,
        moved: Callable[[], None],
        rate: Rate | None = None,
    ) -> None:
        self._read = read
        self._write_piece = write
        self._most = most
        self._slots = slots
        self._moved = moved
        self._rate = rate or Rate()
        self._one_piece, self._one_message = asyncio.Lock(), asyncio.Lock()
        self._sent = 0
        self._granted = 0
        self._grant = asyncio.Event()
        self._next = 0  # number of the next message to come
        self._pieces = 0
        self._total = 0
        self._granting: set[asyncio.Future[None]] = set()
        self._buffer: bytearray | None = None
        self._admitting: asyncio.Task[None] | None = None
        self._ended = False
        self.over = False
        """Whether the other side said that it is done."""
        self.why = ""
        """Why it is, in its own words, in one printable line; empty where it said nothing of it."""
        self.left: str | None = None
        """Why the other side takes no further part, in its own words, in one printable line; None where it said nothing of it."""
        self.waits = False
        """Whether what the other side offered waits for a slot: it cannot move then."""
        self._admitted = self._filled = 0.0  # of the long message that holds a slot

    async def begin(self, first: bytes) -> None:
        """Put this on the stream as it is, before all messages."""
        async with self._one_piece:
            await self._write_piece(first)

    async def send(self, *parts: bytes) -> None:
        """Put a message on the stream, after those before: what these parts are together."""
        async with self._one_message:
            number, total = self._sent, sum(map(len, parts))
            self._sent += 1
            if total <= SMALL_BYTES:
                await self._put(_PIECE, number, 0, 1, total, *parts)
                return
            self._granted = 0
            await self._put(_OFFER, number, 0, 0, total)
            found, pieces = cut(parts, PIECE_BYTES), pieces_of(total)
            for index in range(pieces):
                while index >= self._granted:
                    self._grant.clear()
                    if not self._ended:
                        await self._grant.wait()
                    if self._ended:
                        raise ConnectionResetError("the stream has ended")
                await self._put(_PIECE, number, index, pieces, total, *next(found))

    def stalled(self, patience: float, at_most: float) -> bool:
        """Whether what the other side sends holds a slot, and no piece came for `patience` seconds, or not all in `at_most`."""
        now = time.monotonic()
        return self._buffer is not None and (now - self._filled > patience or now - self._admitted > at_most)

    async def working(self) -> None:
        """Say that there is no answer yet, and that there will be one."""
        await self._put(_WORKING, 0, 0, 0, 0)

    async def end(self, why: str = "") -> None:
        """Say that no more will come, and why."""
        said = why.encode()[:MOST_REASON]
        await self._put(_OVER, 0, 0, 0, len(said), said)

    async def leave(self, why: str) -> None:
        """Say that this side takes no further part, and why."""
        said = why.encode()[:MOST_REASON]
        await self._put(_LEAVING, 0, 0, 0, len(said), said)

    async def messages(self) -> AsyncIterator[Arrived]:
        """Whole messages, in the order in which they were sent, until the stream ends. Raises Misplaced."""
        tokens, since = float(self._rate.at_once), time.monotonic()
        try:
            while (piece := await self._read()) is not None:
                now = time.monotonic()
                tokens, since = min(self._rate.at_once, tokens + (now - since) * self._rate.a_second), now
                if (tokens := tokens - 1) < 0:
                    await asyncio.sleep(-tokens / self._rate.a_second)
                self._moved()
                found = self._taken(piece)
                del piece  # neither is kept while the next one is waited for
                if found is not None:
                    yield found
                del found
                if self.over or self.left is not None:
                    return
        finally:
            self._ended = True
            self._grant.set()
            if self._admitting is not None:
                self._admitting.cancel()
            if self._buffer is not None:
                self._buffer = None
                self._slots.release()

    def _taken(self, piece: bytes) -> Arrived | None:
        if not HEAD.size <= len(piece) <= MOST_PIECE:
            raise Misplaced(f"a piece of {len(piece)} bytes")
        kind, number, index, of, total = HEAD.unpack_from(piece)
        match kind:
            case 2:
                return self._add(number, index, of, total, memoryview(piece)[HEAD.size :])
            case 3:
                self._offered(number, total)
            case 4:
                if number == self._sent - 1:  # else of a message that is over: the next one is not admitted by it
                    self._granted = max(self._granted, index)
                    self._grant.set()
            case 5:
                pass
            case 6:
                self.over, said = True, piece[HEAD.size :]
                self.why = one_line(said) if said else ""
            case 7:
                self.left = one_line(piece[HEAD.size :])
            case _:
                raise Misplaced(f"a piece of the unknown kind {kind}")
        return None

    def _offered(self, number: int, total: int) -> None:
        if number != self._next or self._admitting is not None or self._buffer is not None:
            raise Misplaced("an offer before the message before was over")
        if not SMALL_BYTES < total <= self._most:
            raise Misplaced(f"an offer of {total} bytes, where a long message has at most {self._most}")
        self._admitting = asyncio.create_task(self._admit(number, total))

    async def _admit(self, number: int, total: int) -> None:
        self.waits = True
        try:
            await self._slots.acquire()
        finally:
            self.waits = False
        self._buffer, self._pieces, self._total = bytearray(total), 0, total
        self._admitted = self._filled = time.monotonic()
        self._admitting = None
        self._moved()
        await self._put(_GRANT, number, WINDOW, 0, total)

    def _add(self, number: int, index: int, of: int, total: int, content: memoryview) -> Arrived | None:
        if number != self._next:
            raise Misplaced(f"a piece of message {number} where {self._next} is due")
        if self._buffer is None:
            if (index, of) != (0, 1) or total != len(content) or total > SMALL_BYTES:
                raise Misplaced("a piece of a message that was not admitted")
            self._next += 1
            return Arrived(bytes(content), nothing)
        at = index * PIECE_BYTES
        due = min(PIECE_BYTES, self._total - at)
        if index != self._pieces or total != self._total or of != pieces_of(total) or len(content) != due:
            raise Misplaced(f"piece {index} of {of} where {self._pieces} is due")
        memoryview(self._buffer)[at : at + due] = content  # a slice of the buffer itself would be given a copy of them
        self._pieces += 1
        self._filled = time.monotonic()
        if self._pieces == of:
            whole, self._buffer, self._next = self._buffer, None, self._next + 1
            return Arrived(whole, self._slots.release)
        if self._pieces % (WINDOW // 2) == 0:
            granting = asyncio.ensure_future(self._put(_GRANT, number, self._pieces + WINDOW, 0, total))
            self._granting.add(granting)  # a loop holds tasks weakly
            granting.add_done_callback(self._granting.discard)
            granting.add_done_callback(_quiet)
        return None

    async def _put(self, kind: int, number: int, index: int, of: int, total: int, *content: bytes | memoryview) -> None:
        async with self._one_piece:
            await self._write_piece(b"".join((HEAD.pack(kind, number, index, of, total), *content)))
        self._moved()


def pieces_of(total: int) -> int:
    """How many pieces a message of so many bytes has."""
    return max(1, -(-total // PIECE_BYTES))


def cut(parts: Iterable[bytes], size: int) -> Iterator[list[memoryview]]:
    """What these parts are together, in pieces of this size, the last one of what is left; each as views, which copy nothing."""
    gathered: list[memoryview] = []
    left = size
    for part in parts:
        rest = memoryview(part)
        while rest:
            gathered.append(rest[:left])
            rest = rest[left:]
            left -= len(gathered[-1])
            if not left:
                yield gathered
                gathered, left = [], size
    if gathered:
        yield gathered


def one_line(said: bytes) -> str:
    """Of what another party says for people to read: printable, with single spaces, and no more than MOST_REASON characters.

    So it can neither end a line of a log, nor move a terminal's cursor. Raises Misplaced for what is longer.
    """
    if len(said) > MOST_REASON:
        raise Misplaced(f"{len(said)} bytes of why it leaves, where {MOST_REASON} are enough")
    text = "".join(c if c.isprintable() else " " for c in said.decode(errors="replace"))
    return " ".join(text.split()) or "it does not say why"


def nothing() -> None:
    """Of a message that held no slot."""


def _quiet(done: "asyncio.Future[None]") -> None:
    """A grant that could not be sent: the stream is over, which its reader sees too."""
    if not done.cancelled():
        done.exception()
