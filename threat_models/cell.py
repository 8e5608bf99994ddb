"""A cell played and recorded, whatever becomes of it: done, refused with the reason, or failed with the error in one line."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from sysconfig import get_path
from typing import Any

from ..fl.near_names import in_short
from ..fl.runs.lost_round import NothingLearned
from ..fl.runs.results_folder import Row
from ..fl.runs.simulation import Simulation
from ..protocol.core.errors import Refused
from ..protocol.view.answers import Vector
from .cell_metrics import attacked_metrics, clean_metrics
from .evaluation import Cell, Evaluation, attacked_cells, backdoor_of, key_of, resolved, target_of
from .evaluation_attack import ABSENT, adversary_of
from .evaluation_folder import EvaluationFolder
from .trial import acting_in, played

OURS = ("cloister", "crypto", "fl", "protocol", "threat_models")
"""Folders of Cloister's own modules, side by side in a source tree or inside of the package."""
_HOME = Path(__file__).resolve().parents[1]
INSTALLED = tuple(Path(get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")) + tuple(
    _HOME / name for name in OURS
)


def play_cell(evaluation: Evaluation, cell: Cell, clean: Row | None, folder: EvaluationFolder, data: Path | None) -> Row:
    """The cell's line. clean: that of its attack-free run, which is done; None for an attack-free run, whose file is written."""
    key = key_of(evaluation, cell)
    return recorded({"key": key, **asdict(cell)}, lambda: _metrics(evaluation, cell, key, clean, folder, data))


def recorded(row: Row, metrics: Callable[[], Mapping[str, Any]]) -> Row:
    """The line of what was done, or with the reason why there is nothing: refused, or failed."""
    try:
        return {**row, "status": "done", "reason": "", **metrics()}
    except Refused as error:
        return {**row, "status": "refused", "reason": _words(error)}
    except NothingLearned as error:  # of an attack-free run: the protection would not sum, or the training diverged
        return {**row, "status": "refused" if error.refused else "failed", "reason": _words(error)}
    except Exception as error:  # a cell must not end the grid; what went wrong is in its line
        return {**row, "status": "failed", "reason": f"{in_short(error)}{place_of(error)}"}


def _metrics(
    evaluation: Evaluation, cell: Cell, key: str, clean: Row | None, folder: EvaluationFolder, data: Path | None
) -> dict[str, Any]:
    scenario = resolved(evaluation, cell)
    if cell.attack is None:
        last, earlier = ends(evaluation, cell), dict[int, Mapping[int, Vector]]()

        def keep(simulation: Simulation) -> None:
            if (t := simulation.state.round - 1) in last:
                earlier[t] = simulation.vectors()

        trial = played(scenario, None, data, keep)
        return {**clean_metrics(trial), "clean_sha256": folder.write_clean(key, replace(trial.clean(), earlier=earlier))}
    if clean is None:
        raise ValueError("there is no attack-free run to compare with")
    found = folder.read_clean(clean["key"], clean["clean_sha256"])
    if found is None:
        raise ValueError(f"clean/{clean['key']}.safetensors is missing or damaged; delete its line in results.jsonl and resume")
    target = target_of(evaluation, cell, scenario)
    return attacked_metrics(played(scenario, target, data), found, target)


def ends(evaluation: Evaluation, clean: Cell) -> set[int]:
    """The last poisoned rounds of backdoors that are compared with an attack-free run, but for its last round."""
    found, base = set[int](), resolved(evaluation, clean)
    for cell in attacked_cells(evaluation, clean):
        if cell.attack == ABSENT:
            continue
        with suppress(Exception):  # refused, or whatever an attack of the user's raises: the cell's line will say it
            attack = evaluation.attacks[str(cell.attack)]
            adversary = adversary_of(str(cell.attack), attack, float(cell.strength or 0.0), base)
            if str(cell.attack) in evaluation.targets or backdoor_of(adversary) is not None:
                found |= {*acting_in(adversary, base.rounds)[-1:]} - {base.rounds - 1}
    return found


def follows(clean: Row, cell: Any, key: str) -> Row | None:
    """The line of a cell that need not be played because its attack-free run came to nothing; None where it must be."""
    if clean["status"] == "done":
        return None
    reason = clean["reason"] if clean["status"] == "refused" else f"the attack-free run failed: {clean['reason']}"
    return {"key": key, **asdict(cell), "status": clean["status"], "reason": reason}


def idle(clean: Row) -> str:
    """Why no round of an attack-free run that is done moved a model, or empty: such a defence has nothing that could break."""
    idle = [of for name in ("unmoved", "lost") if (of := clean.get(name))]
    rounds = clean.get("rounds") or [0]
    return str(idle[0]["reason"]) if idle and sum(of["rounds"] for of in idle) > rounds[-1] else ""


def place_of(error: Exception) -> str:
    """Where in a file of the user's own it was raised, as the end of a sentence; empty where something installed raised it."""
    trace, frames = error.__traceback__, []
    while trace is not None:
        if not (file := trace.tb_frame.f_code.co_filename).startswith("<"):  # made by `dataclass`, of no file
            frames.append((Path(file), trace.tb_lineno))
        trace = trace.tb_next
    last, line = frames[-1] if frames else (Path(), 0)
    ours = any(last.resolve().is_relative_to(root) for root in INSTALLED)
    return f" ({last.name}, line {line})" if last.is_file() and not ours else ""


def _words(error: Exception) -> str:
    return " ".join((str(error) or type(error).__name__).split())
