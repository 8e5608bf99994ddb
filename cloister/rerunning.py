"""What `cloister rerun` does: make the scenario from a run folder's record, play it, say what was found."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors_in_one_line import Failure, said_in_a_line
from .fl.runs.experiment import Round, run
from .fl.runs.held_alone import ANOTHER, folder_may_be
from .fl.runs.origin import ORIGIN, commit
from .fl.runs.repetition import Repetition, differing, record
from .fl.runs.run_folder import versions
from .fl.runs.scenario import Scenario, described
from .fl.runs.telling import Tell
from .progress import watched
from .repeated_words import where_and_what
from .repeating import OTHERWISE
from .reporting.folders_within import near_folder
from .reporting.gaps import gaps
from .reporting.repeat import CKKS_DRAWS, DRAWN, ENCRYPTED, is_finished_module
from .reporting.report import write_report
from .reporting.run_data import read_run
from .running import free_folder
from .scenario_file import load, with_settings
from .scenario_origin import Origin
from .shipped import file_and_name

OTHERS = {"a comparison": "comparison", "a search": "search"}
"""Folders that are of no run, by the file that says so."""


def play_again(folder: Path, out: Path | None, data: Path | None) -> Path:
    """The folder of a run of the same scenario.

    Raises ValueError where the record does not say of which, and Failure with `OTHERWISE` where it is at odds with itself.
    """
    if not folder.is_dir():
        meant = near_folder(folder) or "; runs that a report names are seen from where they were made"
        raise ValueError(f"there is no folder {folder}{meant}")
    recorded = record_of(folder)
    if recorded.get("served"):
        raise ValueError(
            f"the run in {folder} was served: its clients trained on data that stayed with them, so it cannot be played again"
            " from here; serve the scenario again, or simulate it with `cloister run`"
        )
    if not (folder / "summary.json").is_file():
        raise ValueError(f"the run in {folder} is not over; go on with it by --resume, and repeat it then")
    if recorded["file"] is None:
        raise ValueError(
            f"the run in {folder} was played from Python, which has its scenario: play it there again, cloister.run(scenario),"
            f" and compare: cloister rerun {folder} --against OTHER_FOLDER"
        )
    if lost := gaps(read_run(folder)):
        raise ValueError(f"{lost[0]}; there is no whole run to compare with")
    scenario = _scenario(folder, recorded)
    if places := _at_odds(record(folder / "scenario.json"), json.loads(json.dumps(described(scenario))), recorded):
        raise Failure(
            f"{folder} is inconsistent, or files that its scenario reads have changed: its scenario.json is not of the scenario"
            f" that its {ORIGIN} makes; another {', '.join(places)}",
            OTHERWISE,
        )
    into = out or free_folder(scenario)
    folder_may_be(into, "run")
    if (into / "scenario.json").exists():
        raise ValueError(f"{into} already holds a run; {ANOTHER}")
    given = {key: recorded[key] for key in ("file", "source", "name", "settings")}

    def again(tell: Tell | None) -> Iterator[Round]:
        return run(scenario, into, data, given=given, tell=tell)

    try:
        with said_in_a_line():
            for _ in watched(again, f"{scenario.name}, again", scenario.rounds, sys.stderr, always=True):
                pass
    except ValueError as error:  # it was played to its end once, so that something else is not as it was
        since = "its data are not where they are looked for, from where this command runs, or what reads them has changed since"
        error.args = (f"{error}; the run in {folder} met no such thing: {since}",)
        raise
    write_report(into)
    return into


def _at_odds(begun: Mapping[str, Any], made: Mapping[str, Any], recorded: Mapping[str, Any]) -> list[str]:
    """Where a recorded scenario is not the one that its source makes, and neither another release nor drawn weights are why."""
    if (recorded.get("commit"), (recorded.get("versions") or {}).get("cloister")) != (commit(), versions().get("cloister")):
        return []
    return [place for place in differing(begun, made) if not (is_finished_module(begun) and place.split(".")[0] == "model")]


def record_of(folder: Path) -> dict[str, Any]:
    """What the folder says it is a run of. Raises ValueError where it does not, or is damaged."""
    try:
        found: dict[str, Any] = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
        text = (found["source"], found["name"], *found["settings"])
        if not all(isinstance(part, str) for part in text) or not isinstance(found["file"], str | None):
            raise TypeError
    except FileNotFoundError:
        kinds = (kind for kind, name in OTHERS.items() if (folder / f"{name}.json").is_file())
        if (kind := next(kinds, None)) is not None:
            again = "play it anew by its own command with another --out; cloister rerun repeats a run of cloister run"
            raise ValueError(f"{folder} is the folder of {kind}: {again}") from None
        raise ValueError(f"{folder} does not say what it is a run of: it has no {ORIGIN}") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"{folder / ORIGIN} is damaged") from None
    return found


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _scenario(folder: Path, recorded: dict[str, Any]) -> Scenario:
    """From its file where that is still the same, which may need what lies beside it; else from the recorded text."""
    path, file, name = Path(), recorded["file"], recorded["name"]
    try:
        path, _, _ = file_and_name(file)
        unchanged = path.read_text(encoding="utf-8") == recorded["source"]
    except (OSError, ValueError):
        unchanged = False
    if unchanged:
        with said_in_a_line():
            return with_settings(load(file), recorded["settings"])
    return Origin(recorded["source"], name, tuple(recorded["settings"])).scenario(str(folder / ORIGIN))


def in_words(found: Repetition, other: Path, played: bool = True) -> list[str]:
    """A line on whether it is the same, then what is not, then what is different here. played: whether just now."""
    if found.same:
        parts = (_counted(found.models, "model"), _counted(found.rounds, "round"), _counted(found.answers, "answer"))
        counted = "{}, the numbers of {}, {}, accounts and summary".format(*parts)
        lines = [f"the same, bit for bit: {counted}"]
    else:
        lines = [f"not the same: {'; '.join(found.apart)}"]
    lines += where_and_what(found.different, found.same, other, played)
    if found.different:
        if any(what.startswith("the scenario:") and "model" in what for what in found.different) and _finished(other):
            lines.append(f"  its model is a finished module: {DRAWN}")
    elif not found.same and found.computed:
        lines.append(
            "versions, processor, data, scenario, models, rounds and answers are the same: what differs is computed of these, and"
            " was changed in one of the folders"
        )
    elif not found.same:
        lines.append("versions, processor, data and scenario are the same; a library may draw or order by itself")
    if not found.same and _encrypted(other):
        lines.append(CKKS_DRAWS)
    return lines


def _encrypted(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / "summary.json").read_text(encoding="utf-8")).get("protection") == ENCRYPTED)
    except (OSError, ValueError):
        return False


def _finished(folder: Path) -> bool:
    try:
        return is_finished_module(json.loads((folder / "scenario.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return False
