"""A run that is to be seen while it lasts: over HTTP, and on a terminal."""

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..fl.runs.vitals import Control


@contextmanager
def operated(control: "Control", metrics: str | None, least: int, log: logging.Logger) -> Iterator[None]:
    """While it lasts, the run is to be seen: over HTTP, if that is asked for, and on a terminal."""
    from rich.console import Console

    from .live import live
    from .metrics import Metrics

    def now() -> Any:
        return control.vitals()

    with ExitStack() as stack:
        if metrics is not None:
            served = Metrics(metrics, now, least)
            log.info("metrics", extra={"at": f"{served.start()}/metrics"})
            stack.callback(served.stop)
        stack.enter_context(live(now, Console(stderr=True, force_terminal=sys.stderr.isatty())))  # FORCE_COLOR is no terminal
        yield
