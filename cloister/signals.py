"""What a process does that is asked to stop."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STOPPED = {signal.SIGINT: 130, signal.SIGTERM: 143}
"""Exit codes of whoever was asked to stop, as shells have them."""


@contextmanager
def on_signals(handle: Callable[[int, Any], None]) -> Iterator[None]:
    """SIGINT and SIGTERM go to this, once: a second one ends the process as any kill does. In the main thread alone."""

    def first(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        handle(number, frame)

    mine = STOPPED if threading.current_thread() is threading.main_thread() else {}
    before = {number: signal.signal(number, first) for number in mine}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupting(number: int, _: Any) -> None:
    """For `on_signals`: raises KeyboardInterrupt of the signal's number."""
    raise KeyboardInterrupt(number)
