"""The event loop of this process' links, in a thread of its own, as the threads beside it use it.

There is one for all links of a process: gRPC hands the events of every loop in a process to whichever is awake, and those for a
loop that was closed are lost together with what came with them.
"""

import asyncio
import concurrent.futures
import ctypes
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


class Gone(ConnectionError):
    """The link has ended."""


_asked = threading.Lock()
_M_ARENA_MAX, _M_MMAP_THRESHOLD, _M_TOP_PAD = -8, -3, -2
"""As malloc.h has them."""
LONG_BYTES = 1 << 13
"""Of a block that is kept apart, at least."""


def _loop() -> asyncio.AbstractEventLoop:
    """Of this process, whoever asks first."""
    with _asked:
        return _begun()


@cache
def _begun() -> asyncio.AbstractEventLoop:
    one_heap()
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="cloister links", daemon=True).start()
    return loop


def one_heap() -> None:
    """Let threads that begin from here on share one heap, where the C library is glibc.

    By itself it gives gRPC's threads up to eight for each core, and each keeps the room of the longest vectors that went through
    it: a coordinator of 60 clients and a million numbers grew by 13 MB a round.
    """
    _told_malloc(_M_ARENA_MAX, 1)


def long_blocks_apart() -> None:
    """Keep what is long out of the heap, where the C library is glibc: for an end of many connections.

    gRPC holds as much ready for each connection as it has read from it at once, in blocks of up to 64 KiB. Of such a block in the
    heap all is in use, as it was used before; of one apart what was written to it, and the rest is given back when it is free.
    """
    _told_malloc(_M_MMAP_THRESHOLD, LONG_BYTES)
    _told_malloc(_M_TOP_PAD, 0)


def _told_malloc(what: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(what, value)


class Background:
    """Plays `main` there until it is done."""

    def __init__(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._main = asyncio.run_coroutine_threadsafe(main(), _loop())

    @property
    def runs(self) -> bool:
        """Whether it is not done."""
        return not self._main.done()

    def soon(self, call: Callable[..., object], *of: object) -> None:
        """Have it call this."""
        _loop().call_soon_threadsafe(call, *of)

    def result(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Have it play this to its end. Raises Gone where `main` ends before."""
        future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
        while True:
            try:
                return future.result(0.5)
            except concurrent.futures.CancelledError:
                raise Gone("the link has ended") from None
            except TimeoutError:
                if not self.runs:
                    future.cancel()
                    raise Gone("the link has ended") from None

    def join(self) -> None:
        """Wait until it is done, in whatever way."""
        with suppress(Exception, concurrent.futures.CancelledError):
            self._main.result()
