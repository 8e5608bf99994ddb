"""What a process does that is asked to stop."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STOPPED = {signal.SIGINT: 130, signal.SIGTERM: 143}
"""Exit codes of whoever was asked to stop, as shells have them."""

AGAIN = 0.1
"""Seconds after which a signal comes again that was lost."""


@contextmanager
def on_signals(handle: Callable[[int, Any], None]) -> Iterator[None]:
    """SIGINT and SIGTERM go to this, once: a second one ends the process as any kill does. In the main thread alone.

    What it raises where Python lets nothing through (an object that is freed, a weak reference) is lost: the signal comes again.
    """

    def first(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        handle(number, frame)

    def lost(unraisable: Any) -> None:
        error = unraisable.exc_value
        if isinstance(error, KeyboardInterrupt) and error.args:
            number = error.args[0]
            signal.signal(number, first)
            threading.Timer(AGAIN, os.kill, (os.getpid(), number)).start()
        else:
            hook(unraisable)

    mine = STOPPED if threading.current_thread() is threading.main_thread() else {}
    hook = sys.unraisablehook
    before = {number: signal.signal(number, first) for number in mine}
    sys.unraisablehook = lost if mine else hook
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupting(number: int, _: Any) -> None:
    """For `on_signals`: raises KeyboardInterrupt of the signal's number."""
    raise KeyboardInterrupt(number)
