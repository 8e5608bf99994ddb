"""Runs that are recorded as they are played, and read again with the scenario they are runs of.

A run folder's `recording/` holds what parties saw (`threat_models.audit.recording`) and `origin.json`: the source of the
scenario's file, its name there and the settings it was changed by. No path is stored.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from ..fl.runs.codec import from_plain
from ..fl.runs.experiment import Engine, Round, run
from ..fl.runs.run_folder import RunFolder
from ..fl.runs.scenario import Scenario, described
from ..fl.runs.simulation import Simulation
from ..scenario_origin import Origin
from ..threat_models.audit.recorded import Recorded
from ..threat_models.audit.recorder import Recorder
from ..threat_models.audit.recording import SUMS, files_of, load, save
from ..threat_models.audit.stage import READINGS

RECORDING = "recording"
ORIGIN = "origin.json"


def recorded(
    scenario: Scenario,
    out: Path,
    data: Path | None,
    origin: Origin,
    engine: Engine | None = None,
    file: str | None = None,
) -> Iterator[Round]:
    """Play the scenario as `run` does, yielding after each round, and write the recording at the end.

    file: what the scenario's file was called, for the run folder's own record. All that parties send is in memory until then.
    Raises ValueError where there is a recording already.
    """
    if (out / RECORDING).exists():
        raise ValueError(f"{out} already holds a recording; choose another --out")
    recorders: list[Recorder] = []

    def listened_to(scenario: Scenario, data: Path | None) -> Simulation:
        recorders.append(Recorder(scenario, data, readings=READINGS))
        return recorders[0].simulation

    for done in run(scenario, out, data, make=listened_to, engine=engine, given={"file": file, **asdict(origin)}):
        recorders[0].read_meters()
        yield done
    save(recorders[0].recorded, out / RECORDING, {ORIGIN: json.dumps(asdict(origin), indent=1).encode()})


def read_recorded(folder: Path) -> tuple[Scenario, Recorded]:
    """The scenario of a run folder, made anew from its source, and its recorded run.

    Raises ValueError of one line where the folder has none, or is damaged, or the source makes another scenario by now.
    """
    inside = folder / RECORDING
    if not (inside / SUMS).is_file():
        raise ValueError(f"{folder} holds no audit and no recorded run; play one with: cloister run FILE --record")
    try:
        origin: Origin = from_plain(Origin, json.loads(files_of(inside)[ORIGIN]))
    except KeyError:
        raise ValueError(f"the recording {inside} does not say what it is a run of: it has no {ORIGIN}") from None
    scenario = origin.scenario(str(inside / ORIGIN))
    begun, now = RunFolder(folder).scenario(), json.loads(json.dumps(described(scenario)))
    if differing := [key for key in now if begun.get(key) != now[key]]:
        raise ValueError(f"the run in {folder} is not of the scenario that was recorded: another {', '.join(differing)}")
    return scenario, load(inside, scenario)
