"""A run in the terminal, while it goes on: round, cohort, stage, and whom it waits for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..fl.runs.vitals import Vitals

SHOWN = 5
"""Of those who owe an answer."""
PATIENT = 2.0
"""Seconds that an answer may take before it is worth a line."""


@contextmanager
def live(now: Callable[[], Vitals], console: Console) -> Iterator[None]:
    """The view, several times a second, on a terminal; on anything else nothing, where log lines are better."""
    if not console.is_terminal:
        yield
        return
    over = False

    def moment() -> RenderableType:
        return Text() if over else shown(now())  # at the end nobody is connected, and nobody missing

    with Live(console=console, refresh_per_second=4, get_renderable=moment, transient=True):
        try:
            yield
        finally:
            over = True


def shown(vitals: Vitals) -> RenderableType:
    """One moment."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", justify="right")
    grid.add_column()
    bar = ProgressBar(total=max(vitals.rounds, 1), completed=vitals.round, width=30)
    playing = f", round {vitals.round} in progress" if vitals.running and vitals.round < vitals.rounds else ""
    grid.add_row("rounds", Group(Text(f"{vitals.round} of {vitals.rounds} played{playing}"), bar))
    grid.add_row("clients", f"{vitals.connected} of {vitals.cohort} connected")
    if vitals.missing:
        away = sorted(vitals.missing.items(), key=lambda one: (-one[1], one[0]))
        words = ", ".join(f"client {client} ({seconds:.0f} s)" for client, seconds in away[:SHOWN])
        more = f" and {len(away) - SHOWN} more" if len(away) > SHOWN else ""
        grid.add_row("missing", Text(words + more, style="yellow"))
    if vitals.expired:
        grid.add_row("expired", Text(f"{vitals.expired}: nobody can come", style="yellow"))
    if vitals.clusters:
        accuracy = "" if vitals.accuracy is None else f", accuracy {100 * vitals.accuracy:.1f} %"
        grid.add_row("groups", f"{vitals.clusters}{accuracy}")
    if vitals.stopped:
        still = ", ".join(f"{name} (since round {since})" for name, since in [*vitals.stopped.items()][:SHOWN])
        more = f" and {len(vitals.stopped) - SHOWN} more" if len(vitals.stopped) > SHOWN else ""
        grid.add_row("stand still", Text(f"groups {still}{more}: no sum of theirs is opened", style="yellow"))
    if vitals.unplaced:
        grid.add_row("in no group", Text(f"{vitals.unplaced} clients", style="yellow"))
    grid.add_row("stage", vitals.stage or "-")
    waiting = [(client, seconds) for client, seconds in vitals.stragglers if seconds >= PATIENT]
    if waiting:
        words = ", ".join(f"client {client} ({seconds:.0f} s)" for client, seconds in waiting[:SHOWN])
        more = f" and {len(waiting) - SHOWN} more" if len(waiting) > SHOWN else ""
        grid.add_row("waiting for", Text(words + more, style="yellow"))
    elif vitals.owing:
        grid.add_row("waiting for", f"{len(vitals.owing)} answer{'s' * (len(vitals.owing) != 1)}")
    grid.add_row("traffic", f"{vitals.bytes_in / 1e6:.1f} MB in, {vitals.bytes_out / 1e6:.1f} MB out")
    troubles = {
        "unanswered": vitals.unanswered,
        "late": vitals.late,
        "displaced": vitals.displaced,
        "refused": vitals.refused,
        "slow": vitals.slow,
    }
    if any(troubles.values()):
        grid.add_row("so far", ", ".join(f"{count} {what}" for what, count in troubles.items() if count))
    return grid
