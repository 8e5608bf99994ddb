"""Around a grid that is played: its seeds, its folder, its progress, and what happens when somebody stops it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..errors_in_one_line import say

FAILED = 3
"""The exit code where cells failed."""


def seeds_of(text: str | None) -> tuple[int, ...]:
    """ "0,1,5" or "0-4" as numbers; nothing as none. Raises ValueError."""
    if text is None:
        return ()
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"--seeds takes numbers and ranges, for example 0,1,5 or 0-4, not {text!r}")
        if dash and not int(first) <= int(last) < int(first) + 10_000:
            raise ValueError(f"--seeds {part.strip()} is no range of at most 10000 seeds")
        found += range(int(first), int(last) + 1) if dash else [int(first)]
    return tuple(dict.fromkeys(found))


def folder_for(name: str, kind: str, resume: bool) -> Path:
    """runs/NAME-KIND, with a number if that is taken; when resuming, the newest that exists."""
    stem = Path("runs") / f"{name.replace(' ', '-').replace('/', '-')}-{kind}"
    taken = [stem.with_name(f"{stem.name}-{k}") if k > 1 else stem for k in range(1, 10_000)]
    existing = [path for path in taken if path.exists()]
    if resume and not existing:
        raise ValueError(f"there is no folder {stem} to resume; name it with --out")
    return existing[-1] if resume else next(path for path in taken if not path.exists())


@contextmanager
def stoppable(folder: Path) -> Iterator[None]:
    """Ctrl-C says how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"stopped; the same command with --out {folder} --resume goes on")
        raise typer.Exit(130) from None


def on_stderr() -> Console:
    """A console that moves its cursor on terminals alone: FORCE_COLOR, which notebooks set, is about colours."""
    return Console(stderr=True, force_terminal=sys.stderr.isatty())


def progress_bar(what: str, total: int, done: int) -> tuple[Progress, TaskID]:
    """A bar of cells on stderr, with a note."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
    bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=on_stderr())
    return bar, bar.add_task(escape(what), total=total, completed=done, note="")
