"""A scenario played from Python or a notebook: `run` at once, `iterate` round by round; `load` reads what was played."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from .fl.runs.experiment import Engine, Round
from .fl.runs.experiment import run as play
from .fl.runs.scenario import Scenario
from .fl.runs.telling import Tell
from .fl.runs.yardsticks import add_yardsticks
from .loading import load
from .progress import shown, watched
from .reading_a_file import check_not_reading
from .reporting.report import write_report
from .result import Result
from .result import load as load_run
from .scenario_file import load as load_scenario
from .watchers import Watcher, watchers
from .what_was_given import check_given, said

__all__ = ["Result", "Round", "free_folder", "iterate", "load", "run"]


@said()
def run(
    scenario: Scenario | str,
    out: str | Path | None = None,
    data: str | Path | None = None,
    *,
    resume: bool = False,
    quiet: bool = False,
    yardsticks: bool = False,
    callbacks: Watcher | Iterable[Watcher] = (),
    engine: Engine | None = None,
) -> Result:
    """Play the scenario to its end; what came out.

    scenario: or where a file has one, "FILE.py:NAME". out: the run folder to write; by default a new one under runs/. data:
    folder of data sets; by default CLOISTER_DATA, or a cache folder. resume: go on with an interrupted run of this scenario.
    quiet: no progress, which else is shown where a person looks: in a terminal, or a notebook. yardsticks: play one model for
    all, every client alone, and other seeds beside it, which say what the groups are worth. callbacks: called after each round
    (`cloister.callbacks`). engine: where clients train; by default here.

    Raises ValueError of one line for input that does not fit, Refused for what a protection does not allow, TypeError for what
    is no scenario, or no callback.
    """
    check_not_reading("run")
    check_given(scenario, "run", Scenario, files=True)
    scenario = load_scenario(scenario) if isinstance(scenario, str) else scenario
    told = watchers(callbacks)
    folder = Path(out) if out is not None else free_folder(scenario, resume)

    def rounds(tell: Tell | None) -> Iterator[Round]:
        return play(scenario, folder, None if data is None else Path(data), resume, engine=engine, tell=tell)

    try:
        for done in rounds(None) if quiet else watched(rounds, scenario.name, scenario.rounds, sys.stderr):
            for call in told:
                call(done)
    except KeyboardInterrupt as stopped:  # a notebook shows a note below the traceback, which is long
        stopped.add_note(f"The run was stopped; cloister.run(scenario, {str(folder)!r}, resume=True) goes on.")
        raise
    if yardsticks:
        with shown(sys.stderr, quiet=quiet) as show:
            where = None if data is None else Path(data)
            add_yardsticks(scenario, folder, where, lambda what, done, of: show(what, done, of, ""))
    write_report(folder)
    return load_run(folder)


@said()
def iterate(
    scenario: Scenario | str,
    out: str | Path | None = None,
    data: str | Path | None = None,
    *,
    resume: bool = False,
) -> Iterator[Round]:
    """Play the scenario round by round: an iterator, which plays a round when it is asked for the next one. See `run`."""
    check_not_reading("iterate")
    check_given(scenario, "iterate", Scenario, files=True)
    scenario = load_scenario(scenario) if isinstance(scenario, str) else scenario
    folder = Path(out) if out is not None else free_folder(scenario, resume)
    return play(scenario, folder, None if data is None else Path(data), resume)


def free_folder(scenario: Scenario, resume: bool = False) -> Path:
    """runs/NAME-seedS, with a number if that is taken; when resuming, the newest that exists. Raises ValueError for none."""
    stem = Path("runs") / f"{scenario.name.replace(' ', '-').replace('/', '-')}-seed{scenario.seed}"
    taken = [stem.with_name(f"{stem.name}-{k}") if k > 1 else stem for k in range(1, 10_000)]
    existing = [path for path in taken if path.exists()]
    if resume:
        if not existing:
            raise ValueError(f"there is no run folder {stem} to resume; name it")
        return existing[-1]
    return next(path for path in taken if not path.exists())
