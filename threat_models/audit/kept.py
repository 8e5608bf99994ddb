"""What an audit has done so far, kept in a folder until it is over: one that was stopped goes on without doing it again.

Runs are kept as recordings, what attacks of ours found as lines. What an audit comes to is the same, bit for bit: each try draws
from a seed of its own. Attacks of the user's own are tried anew, as they may have been mended meanwhile.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...fl.runs.held_alone import ANOTHER
from ...fl.runs.results_folder import ResultsFolder, Row, strict
from ...fl.runs.scenario import Scenario
from .experiment import Examined, Finding
from .recorded import Recorded
from .recording import load, save

KIND = "asked"
ARRAYS = ("values", "members", "others", "moves", "chances")


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """folder: where it is kept, None to keep nothing. It holds all clients' data, as recordings do. left_out: by option, what the
    audit was begun with and is not asked for now.
    """

    folder: Path | None = None
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _tries: ResultsFolder | None = field(default=None, repr=False)
    _known: dict[str, Row] = field(default_factory=dict, repr=False)

    def run(self, name: str, scenario: Scenario, play: Callable[[], Recorded]) -> Recorded:
        """The run of this name, played where it is not there. Raises ValueError where what is there is damaged."""
        if self.folder is None:
            return play()
        at = self.folder / name
        if at.is_dir():
            return load(at, scenario)
        played = play()
        save(played, at)
        return played

    def finding(self, key: str, find: Callable[[], Finding]) -> Finding:
        """What was found by the try of this name, which is made where it is not known."""
        if key in self._known:
            return _finding(self._known[key])
        found = find()
        if self._tries is not None:
            self._tries.append({"key": key, **_plain(found)})
        return found


NOTHING_KEPT = Kept()
NONE: Mapping[str, Sequence[str]] = {}


def kept_in(folder: Path, asked: Mapping[str, Any], resume: bool, beside: Mapping[str, Sequence[str]] = NONE) -> Kept:
    """What is kept in this folder, which is inside of the audit's. asked: what it is an audit of, by words. beside: what it
    tries, by option, which may be other things than before. resume: whether it is there already. Raises ValueError of one line
    where that was an audit of something else, or cannot be read.
    """
    tries, left_out = ResultsFolder(folder, KIND), dict[str, Sequence[str]]()
    if resume:
        begun = _begun(folder / f"{KIND}.json")
        if differing := [name for name, value in asked.items() if begun.get(name) != json.loads(json.dumps(strict(value)))]:
            raise ValueError(f"the audit in {folder.parent} was begun with another {', another '.join(differing)}; {ANOTHER}")
        earlier = {name: [str(one) for one in begun.get(name, ())] for name in beside}
        left_out = {name: lost for name, old in earlier.items() if (lost := [one for one in old if one not in beside[name]])}
    return Kept(folder, left_out, tries, tries.open({**asked, **beside}, resume))


def _begun(path: Path) -> Mapping[str, Any]:
    try:
        begun = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        begun = None
    if not isinstance(begun, dict):
        raise ValueError(f"{path} is missing, or damaged; {ANOTHER}")
    return begun


def is_empty(folder: Path) -> bool:
    """Whether nothing is kept there that would be missed: no run, and no try."""
    tries = folder / "results.jsonl"
    return not any(one.is_dir() and one.suffix != ".partial" for one in folder.glob("*")) and not (
        tries.is_file() and tries.stat().st_size
    )


def _plain(found: Finding) -> dict[str, Any]:
    arrays = {name: getattr(found, name).tolist() for name in ARRAYS}
    records = [[i, *counts] for i, counts in found.records.items()]
    examined = None if found.examined is None else asdict(found.examined)
    beside = {"figures": dict(found.figures), "pictures": dict(found.pictures), "noticed": found.noticed, "why": found.why}
    return {"victims": list(found.victims), **arrays, **beside, "records": records, "examined": examined}


def _finding(row: Row) -> Finding:
    arrays = {name: np.array(row.get(name, ()), np.float64) for name in ARRAYS}
    records = {i: (read, of) for i, read, of in row["records"]}
    examined = None if row["examined"] is None else Examined(**row["examined"])
    figures = {name: float(value) for name, value in row["figures"].items()}
    noticed, why, pictures, victims = row["noticed"], row.get("why", ""), row["pictures"], tuple(row["victims"])
    beside: dict[str, Any] = {"records": records, "examined": examined, "noticed": noticed, "why": why, **arrays}
    return Finding(victims, figures=figures, pictures=pictures, **beside)
