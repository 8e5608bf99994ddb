"""Around a grid that is played: its seeds, its folder, its progress, and what happens when somebody stops it."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from ..errors_in_one_line import say
from ..fl.runs.results_folder import Row
from ..progress import shown
from ..signals import STOPPED, interrupting, on_signals
from .ahead import Pace, noted

FAILED = 3
"""The exit code where cells failed."""


def seeds_of(text: str | None, option: str = "--seeds") -> tuple[int, ...]:
    """ "0,1,5" or "0-4" as numbers; nothing as none. option: whose they are. Raises ValueError."""
    if text is None:
        return ()
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{option} takes numbers and ranges, for example 0,1,5 or 0-4, not {text!r}")
        if dash and not int(first) <= int(last) < int(first) + 10_000:
            raise ValueError(f"{option} {part.strip()} is no range upwards of at most 10000 numbers")
        found += range(int(first), int(last) + 1) if dash else [int(first)]
    return tuple(dict.fromkeys(found))


def folder_for(name: str, kind: str, resume: bool) -> Path:
    """runs/NAME-KIND, with a number if that is taken; when resuming, the newest that exists."""
    stem = Path("runs") / f"{name.replace(' ', '-').replace('/', '-')}-{kind}"
    taken = [stem.with_name(f"{stem.name}-{k}") if k > 1 else stem for k in range(1, 10_000)]
    existing = [path for path in taken if path.exists()]
    if resume and not existing:
        raise ValueError(f"there is no folder {stem} to resume; name it by --out (out= in Python)")
    return existing[-1] if resume else next(path for path in taken if not path.exists())


@contextmanager
def stoppable(folder: Path, beside: str = "", by: str = "") -> Iterator[None]:
    """Ctrl-C and SIGTERM say how to go on, once what is inside has ended. beside: what else is to be said of that. by: the
    command that goes on, where it is not the same with --resume.
    """
    try:
        with on_signals(interrupting):
            yield
    except KeyboardInterrupt as stopped:
        going = f"{by or f'the same command with --out {folder} --resume'} {beside or 'goes on'}"
        say(f"stopped; {going if folder.exists() else 'nothing of it was over, and the same command begins again'}")
        raise typer.Exit(STOPPED[stopped.args[0] if stopped.args else signal.SIGINT]) from None


def counted(rows: Iterator[Row], what: str, done: int, total: int, *, always: bool, quiet: bool) -> Iterator[Row]:
    """The same lines, shown on stderr as they come. done: cells that were known before. always: also where no terminal is, and
    with lines on how long it may take, and on the first that fails.
    """
    bad = {"refused": 0, "failed": 0}
    pace = Pace("cells", total - done)
    with shown(sys.stderr, always=always, quiet=quiet) as tell:
        tell(what, done, total, "")
        for row in rows:
            done += 1
            if row["status"] in bad:
                bad[row["status"]] += 1
            if row["status"] == "failed" and bad["failed"] == 1 and always:  # it may be one of many, and the end hours away
                noted(f"a first one failed: {row['reason']}; the others are played, and what failed is again with --resume")
            note = "  ".join(f"{count} {status}" for status, count in bad.items() if count)
            tell(what, done, total, note or ("search" if row.get("protection", "") is None else ""))
            if (words := pace.over(row["status"] == "done")) and always:
                noted(words)
            yield row
