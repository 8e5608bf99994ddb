"""An audit played into a folder, with the record by which it is played again."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors_in_one_line import said_in_a_line
from ..fl.runs.scenario import Scenario
from ..grids.watching import seeds_of, stoppable
from ..kept_source import source_of
from ..scenario_file import load, load_attack, with_settings
from ..threat_models.audit.experiment import FULL, QUICK
from ..threat_models.audit.recorded import Recorded
from .audited import audited
from .folder import claimed, folder_to_write, write_audit
from .recorded_runs import read_recorded
from .which_runs import recorded_in

BUDGETS = {"quick": QUICK, "full": FULL}


def play_audit(
    where: str,
    budget: str,
    out: Path | None,
    seeds: str | None,
    data: Path | None,
    settings: Sequence[str],
    attacks: Sequence[str],
    against: Sequence[str],
    quiet: bool = False,
    resume: bool = False,
    origin: Mapping[str, Any] | None = None,
    again: Path | None = None,
) -> Path:
    """The folder that it was written to. where: the scenario's FILE[:NAME], or the folder of a recorded run. attacks: FILE[:NAME]
    each. origin: for the record, where it is not of these files. again: the folder of the audit that this one repeats. Raises
    ValueError of one line.
    """
    scenario, recorded = _to_audit(where, settings)
    folder, further = folder_to_write(out, scenario.name, resume), tuple(load_attack(attack) for attack in attacks)
    origin = origin or {
        "of": {"file": where} if Path(where).is_dir() else source_of(where),
        "settings": list(settings),
        "attacks": [source_of(attack) for attack in attacks],
        "against": list(against),
    }
    with stoppable(folder, by="" if again is None else f"cloister rerun {again} --out {folder}"), claimed(folder):
        found = audited(
            scenario, BUDGETS[budget], seeds_of(seeds), data, quiet, against, recorded, further, into=folder, resume=resume
        )
        found["recorded_in"] = {
            str(seed): recorded_in(Path(where)) | {"left_out": list(run.left_out)} for seed, run in recorded.items()
        }
        write_audit(folder, found | {"origin": origin})
    return folder


def _to_audit(where: str, settings: Sequence[str]) -> tuple[Scenario, Mapping[int, Recorded]]:
    """The scenario of a file, or of a recorded run with that run by its seed. Raises ValueError of one line."""
    if not Path(where).is_dir():
        with said_in_a_line():
            return with_settings(load(where), settings), {}
    if settings:
        raise ValueError(f"--set would make it another scenario than that of the run in {where}; name a file, or leave it out")
    scenario, run = read_recorded(Path(where))
    return scenario, {scenario.seed: run}
