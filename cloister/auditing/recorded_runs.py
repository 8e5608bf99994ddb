"""Runs that are recorded as they are played, and read again with the scenario they are runs of.

A run folder's `recording/` holds what parties saw (`threat_models.audit.recording`) and `origin.json`: the source of the
scenario's file, its name there and the settings it was changed by. No path is stored.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..fl.runs.begun_with import other_fields
from ..fl.runs.codec import from_plain
from ..fl.runs.experiment import Engine, Round, run
from ..fl.runs.origin import ORIGIN, checksum
from ..fl.runs.scenario import Scenario, described
from ..fl.runs.simulation import Simulation
from ..fl.runs.telling import Tell
from ..reporting.run_data import STOPPED
from ..scenario_origin import Origin
from ..threat_models.audit.recorded import Recorded
from ..threat_models.audit.recorder import Recorder
from ..threat_models.audit.recording import files_of, load, save
from ..threat_models.audit.stage import READINGS
from .folder import PLAYING
from .which_runs import RECORDING, recorded_in

ANEW = "cloister run FILE --record"
BEGUN = "scenario.json"


def recorded(
    scenario: Scenario,
    out: Path,
    data: Path | None,
    origin: Origin,
    engine: Engine | None = None,
    file: str | None = None,
    tell: Tell | None = None,
) -> Iterator[Round]:
    """Play the scenario as `run` does, yielding after each round, and write the recording at the end.

    file: what the scenario's file was called, for the run folder's own record. tell: as in `run`. All that parties send is in
    memory until then.
    Raises ValueError where there is a recording already.
    """
    if (out / RECORDING).exists():
        raise ValueError(f"{out} already holds a recording; choose another --out")
    recorders: list[Recorder] = []

    def listened_to(scenario: Scenario, data: Path | None) -> Simulation:
        recorders.append(Recorder(scenario, data, readings=READINGS))
        return recorders[0].simulation

    given = {"file": file, **asdict(origin)}
    for done in run(scenario, out, data, make=listened_to, engine=engine, given=given, tell=tell):
        recorders[0].read_meters()
        yield done
    save(recorders[0].recorded, out / RECORDING, {ORIGIN: json.dumps(asdict(origin), indent=1).encode()})


def read_recorded(folder: Path) -> tuple[Scenario, Recorded]:
    """The scenario of a run folder, made anew from its source, and its recorded run.

    Raises ValueError of one line where the folder has none, is damaged, holds parts of two runs, or the source makes another
    scenario by now.
    """
    inside = folder / RECORDING
    if (folder / PLAYING).is_dir():
        raise ValueError(f"{folder} {STOPPED}")
    if not inside.is_dir():
        raise ValueError(f"{folder} holds no audit and no recorded run; play one with: {ANEW}")
    with _what_to_do():
        origin = _origin(inside)
    scenario = origin.scenario(str(inside / ORIGIN))
    with _what_to_do():
        begun, now = _begun(folder), json.loads(json.dumps(described(scenario)))
        if differing := other_fields(begun, now) or [key for key in now if begun.get(key) != now[key]]:
            raise ValueError(f"the run in {folder} is not of the scenario that was recorded: another {', '.join(differing)}")
        found = load(inside, scenario)
        if found.public.rounds != scenario.rounds:
            raise ValueError(f"the recording {inside} has {found.public.rounds} of its {scenario.rounds} rounds")
        if (of := recorded_in(folder)["data_sha256"]) is not None and of != checksum(found.truth.population):
            raise ValueError(f"the recording {inside} is of other data than the run in {folder}")
    return scenario, found


@contextmanager
def _what_to_do() -> Iterator[None]:
    """A recording that cannot be audited is to be made again."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error}; take a whole copy of the run's folder, or record it anew: {ANEW}") from None


def _origin(inside: Path) -> Origin:
    try:
        origin: Origin = from_plain(Origin, json.loads(files_of(inside)[ORIGIN]))
    except KeyError:
        raise ValueError(f"the recording {inside} does not say what it is a run of: it has no {ORIGIN}") from None
    except RecursionError:
        raise ValueError(f"the recording {inside} does not say what it is a run of: {ORIGIN} nests too deep") from None
    return origin


def _begun(folder: Path) -> Mapping[str, Any]:
    """The scenario that the run's own folder names. Raises ValueError."""
    try:
        begun = json.loads((folder / BEGUN).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        begun = None
    if not isinstance(begun, dict):
        raise ValueError(f"{folder / BEGUN} is missing, or damaged")
    return begun
