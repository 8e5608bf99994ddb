"""Progress of a run, or of a grid of runs, where somebody looks: a bar in a terminal, a line in a notebook, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html import escape
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.markup import escape as as_text
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from .fl.runs.experiment import Round

COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TextColumn("clusters {task.fields[clusters]}  {task.fields[score]}"),
    TimeElapsedColumn(),
    TimeRemainingColumn(),
)

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


def watched(rounds: Iterator[Round], name: str, total: int, out: TextIO, *, always: bool = False) -> Iterator[Round]:
    """The same rounds, shown as they pass. always: also where `out` is no terminal, as a line at the end."""
    if (display := _notebook()) is not None:
        yield from _in_a_notebook(rounds, name, display)
    elif always or out.isatty():
        yield from _in_a_terminal(rounds, name, total, out)
    else:
        yield from rounds


def _in_a_terminal(rounds: Iterator[Round], name: str, total: int, out: TextIO) -> Iterator[Round]:
    bar = Progress(*COLUMNS, console=_console(out), transient=True)  # nothing is left of it where an error comes before any round
    task = bar.add_task(name, total=total, clusters=1, score="accuracy -")
    known: dict[str, Any] = {}
    if out.isatty():
        bar.start()
    try:
        for done in rounds:
            bar.live.transient = False
            bar.start()
            if score := _score(done):
                known["score"] = score
            bar.update(task, completed=done.round, clusters=done.clusters, **known)
            yield done
    finally:
        if bar.live.is_started:
            bar.stop()


def _in_a_notebook(rounds: Iterator[Round], name: str, display: Any) -> Iterator[Round]:
    shown, score = None, "accuracy -"
    for done in rounds:
        score = _score(done) or score
        words = f"{name}: round {done.round} of {done.rounds}, clusters {done.clusters}, {score}"
        bar = f'<progress value="{done.round}" max="{done.rounds}" style="vertical-align: middle"></progress> {escape(words)}'
        data = {"text/html": bar, "text/plain": words}
        if shown is None:
            shown = display(data, raw=True, display_id=True)
        else:
            shown.update(data, raw=True)
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
