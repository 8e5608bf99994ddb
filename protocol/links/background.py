"""An event loop in a thread of its own, as the thread beside it uses it."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class Gone(ConnectionError):
    """The loop has ended."""


class Background:
    """Runs `main` until it is done. begun, from within: the loop is there."""

    def __init__(self, main: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._main = main
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._play()), name=name, daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def runs(self) -> bool:
        """Whether it is not done."""
        return self._thread.is_alive()

    def soon(self, call: Callable[..., object], *of: object) -> None:
        """Have it call this; nothing where it has ended."""
        with suppress(RuntimeError):
            self._there.call_soon_threadsafe(call, *of)

    def result(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Have it play this to its end. Raises Gone."""
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._there)
        except RuntimeError:
            coroutine.close()
            raise Gone("the link has ended") from None
        while True:
            try:
                return future.result(1.0)
            except concurrent.futures.CancelledError:
                raise Gone("the link has ended") from None
            except TimeoutError:
                if not self.runs:
                    raise Gone("the link has ended") from None

    def join(self) -> None:
        """Wait until it is done."""
        self._thread.join()

    @property
    def _there(self) -> asyncio.AbstractEventLoop:
        if self.loop is None:
            raise RuntimeError("the loop did not begin")
        return self.loop

    async def _play(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._ready.set()
        await self._main()
