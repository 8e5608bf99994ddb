"""Progress of a run, or of a grid of runs, where somebody looks: a bar in a terminal, a line in a notebook, nothing elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from html import escape
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.markup import escape as as_text
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from .fl.runs.experiment import Round
    from .fl.runs.telling import Tell as Told

EVERY = 5.0
"""Seconds between lines where there is no bar."""
SLOW = 3.0
"""Seconds of a round after which what is done in it is shown."""

COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TextColumn("{task.fields[note]}"),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
)

Play = Callable[["Told | None"], "Iterator[Round]"]
"""Begins a run, given whom to tell what is done within its rounds, if anybody."""
Tell = Callable[[str, int, int, str], None]
"""(what is done, how many of it are, of how many or 0 where nobody knows, a note)."""


@contextmanager
def shown(out: TextIO, *, always: bool = False, quiet: bool = False) -> Iterator[Tell]:
    """Told how far things are, shows it: a bar for each thing. always: also where `out` is no terminal. quiet: never."""
    if quiet:
        yield _silent
    elif (display := _notebook()) is not None:
        yield _line(display)
    elif always or out.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
        with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=_console(out)) as bar:
            tasks: dict[str, Any] = {}

            def tell(what: str, done: int, total: int, note: str) -> None:
                if what not in tasks:
                    tasks[what] = bar.add_task(as_text(what), total=total or None, note="")
                bar.update(tasks[what], completed=done, total=total or None, note=as_text(note))

            yield tell
    else:
        yield _silent


def _console(out: TextIO) -> Console:
    """It moves its cursor on terminals alone: FORCE_COLOR, which notebooks set, is about colours."""
    return Console(file=out, force_terminal=out.isatty())


def _silent(what: str, done: int, total: int, note: str) -> None:
    pass


def _line(display: Any) -> Tell:
    handles: dict[str, Any] = {}

    def tell(what: str, done: int, total: int, note: str) -> None:
        words = f"{what}: {done}{f' of {total}' if total else ''}{f', {note}' if note else ''}"
        bar = f'<progress value="{done}" max="{total or max(done, 1)}" style="vertical-align: middle"></progress>'
        data = {"text/html": f"{bar} {escape(words)}", "text/plain": words}
        if what in handles:
            handles[what].update(data, raw=True)
        else:
            handles[what] = display(data, raw=True, display_id=True)

    return tell


def watched(play: Play, name: str, total: int, out: TextIO, *, always: bool = False) -> Iterator[Round]:
    """The rounds of a run, shown as they pass, and what is done within them.
    always: also where `out` is no terminal, as a line now and then and one at the end.
    """
    if (display := _notebook()) is not None:
        yield from _in_a_notebook(play, _Now(name, total), display)
    elif always or out.isatty():
        yield from _in_a_terminal(play, _Now(name, total), out)
    else:
        yield from play(None)


@dataclass(slots=True)
class _Now:
    """How far a run is. stage: what is done within its round; since: when that began."""

    name: str
    total: int
    round: int = 0
    clusters: int = 1
    score: str = "accuracy -"
    stage: str = ""
    clock: Callable[[], float] = time.monotonic
    since: float = field(init=False)

    def __post_init__(self) -> None:
        self.since = self.clock()

    def told(self, what: str, done: int, of: int) -> None:
        self.stage = f"{what}{f': {done}' if done or of else ''}{f' of {of}' if of else ''}"

    def over(self, done: Round) -> None:
        self.round, self.clusters, self.stage, self.since = done.round, done.clusters, "", self.clock()
        self.score = _score(done) or self.score

    @property
    def note(self) -> str:
        """Beside a bar: the stage before the first round and in one that takes long, else what is known of the model."""
        if self.stage and (not self.round or self.clock() - self.since > SLOW):
            return self.stage
        return f"clusters {self.clusters}  {self.score}"

    @property
    def words(self) -> str:
        """A line of its own."""
        known = [self.score] * (self.round > 0) + [self.stage] * bool(self.stage)
        return "; ".join((f"{self.name}: {self.round} of {self.total} rounds are over", *known))


def _in_a_terminal(play: Play, now: _Now, out: TextIO) -> Iterator[Round]:
    bar = Progress(*COLUMNS, console=_console(out), transient=True)  # nothing is left of it where an error comes before any round
    task = bar.add_task(as_text(now.name), total=now.total, note=now.note)

    def tell(what: str, done: int, of: int) -> None:
        now.told(what, done, of)
        bar.update(task, note=now.note)

    if out.isatty():
        bar.start()
    try:
        with (
            nullcontext() if out.isatty() else _lines(out, now)
        ):  # ends before the bar is written: two writers would mix their lines
            for done in play(tell):
                bar.live.transient = False
                bar.start()
                now.over(done)
                bar.update(task, completed=done.round, note=now.note)
                yield done
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def _lines(out: TextIO, now: _Now) -> Iterator[None]:
    """Inside, a line now and then of how far things are, by a thread of its own: some steps take minutes and tell nothing."""
    over = Event()

    def write() -> None:
        waited = 0.0
        while not over.wait(wait := max(EVERY, waited / 10)):  # of a run of hours some dozens of lines
            waited += wait
            out.write(f"{now.words}\n")
            out.flush()

    thread = Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _in_a_notebook(play: Play, now: _Now, display: Any) -> Iterator[Round]:
    line, shown = _line(display), now.clock()

    def show() -> None:
        line(now.name, now.round, now.total, now.note)

    def tell(what: str, done: int, of: int) -> None:
        nonlocal shown
        now.told(what, done, of)
        if not done or now.clock() - shown > 1:  # a second: a notebook keeps all that it is sent
            shown = now.clock()
            show()

    for done in play(tell):
        now.over(done)
        show()
        yield done


def _score(done: Round) -> str:
    """Accuracy of labels, R2 or loss of numbers; empty in a round without evaluation."""
    if done.accuracy is not None:
        return f"accuracy {100 * done.accuracy:.1f} %"
    found = next((name for name in ("R2", "loss_mean") if name in done.numbers), None)
    return f"{found.partition('_')[0]} {done.numbers[found]:.3g}" if found else ""


def _notebook() -> Any:
    """IPython's `display`, in a notebook; else None."""
    with suppress(ImportError, AttributeError):
        from IPython import get_ipython
        from IPython.display import display

        if type(get_ipython()).__name__ == "ZMQInteractiveShell":
            return display
    return None
