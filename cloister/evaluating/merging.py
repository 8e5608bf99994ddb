"""Folders of evaluations put together into one: more seeds, attacks or defences of the same scenario, whoever played them.

Lines are taken as they are. Two that are of one cell have to agree in what was measured, but for time and memory: a run that
came out otherwise elsewhere is an error, and no further seed.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..fl.runs.results_folder import Row, read_results
from ..threat_models.evaluation_folder import EvaluationFolder
from .data import described_in, json_in

SAME = ("scenario", "strength", "bounds")
"""What evaluations that are put together have in common."""
JOINED = ("attacks", "defences", "protections", "partitions", "limits", "targets", "absent")
"""Of an evaluation, what is by name."""
LISTED = ("strengths", "seeds", "keys", "searches")


def merge(folders: Sequence[Path], out: Path) -> Path:
    """Writes `out`, a folder of one evaluation that holds the cells of all; `cloister report` shows it. Returns it.

    Raises ValueError for folders of different scenarios, strengths or bounds, for a name that means two things, and for a cell
    that two folders have with different results.
    """
    if len(folders) < 2:
        raise ValueError("give two folders at least to put together")
    abouts = [described_in(folder) for folder in folders]
    about = dict(abouts[0])
    for folder, other in zip(folders[1:], abouts[1:], strict=True):
        about = _joined(about, other, folders[0], folder)
    rows: dict[str, Row] = {}
    of: dict[str, Path] = {}
    for folder in folders:
        for key, row in read_results(folder, "evaluation", "evaluate").items():
            if row["status"] == "done" and key in rows and rows[key]["status"] == "done" and measured(rows[key]) != measured(row):
                where = f"{row['attack'] or 'no attack'}, {row['defence']}, seed {row['seed']}"
                raise ValueError(f"{folder} has another result for one cell ({where}): another version, processor or data")
            if key not in rows or rows[key]["status"] != "done":
                rows[key], of[key] = row, folder
    searched = _searched(folders)
    target = EvaluationFolder(out)
    target.open(about, resume=False)
    if searched:
        target.write_json("breakdown.json", searched)
    target.arrange(rows[key] for key in [*(k for k in about["keys"] if k in rows), *sorted(rows.keys() - set(about["keys"]))])
    (out / "clean").mkdir(exist_ok=True)
    for key, folder in of.items():
        if (file := folder / "clean" / f"{key}.safetensors").is_file():
            shutil.copyfile(file, out / "clean" / file.name)
    return out


def _searched(folders: Sequence[Path]) -> dict[str, Any]:
    """What breakdown searches found in any of them; empty where none was made. Raises ValueError where two do not go together."""
    found = {folder: about for folder in folders if (about := json_in(folder, "breakdown.json"))}
    if not found:
        return {}
    first, *others = found
    joined, by = dict(found[first]), {one["of"]: (first, one) for one in found[first]["results"]}
    for folder in others:
        if other := [name for name in ("strength", "steps", "bounds") if found[folder].get(name) != joined.get(name)]:
            raise ValueError(f"{folder} has breakdown searches of other {other[0]} than {first}; put one of them aside")
        for one in found[folder]["results"]:
            where, known = by.setdefault(one["of"], (folder, one))
            if known != one:
                place = f"{one['attack']} on {one['defence']}"
                raise ValueError(f"{folder} and {where} have each searched {place}, with other seeds; put one of them aside")
    return joined | {"results": [one for _, one in by.values()]}


def measured(row: Row) -> dict[str, Any]:
    """What of a line is the same wherever it is played: not what it cost."""
    return {name: value for name, value in row.items() if name not in ("cost", "clean_sha256")}


def _joined(one: Mapping[str, Any], other: Mapping[str, Any], first: Path, second: Path) -> dict[str, Any]:
    for name in SAME:
        if one[name] != other[name]:
            raise ValueError(f"{second} has another {name} than {first}: {_differs(one[name], other[name])}")
    joined = dict(one)
    for name in JOINED:
        for key in one[name].keys() & other[name].keys():
            if name not in ("attacks", "absent") and one[name][key] != other[name][key]:
                raise ValueError(f"{second} means something else by {key!r}, one of {name}, than {first}")
        joined[name] = {**one[name], **other[name]}
    for key in one["attacks"].keys() & other["attacks"].keys():
        joined["attacks"][key] = _attack(one["attacks"][key], other["attacks"][key], key, first, second)
    return joined | {name: list(dict.fromkeys([*one[name], *other[name]])) for name in LISTED}


def _attack(one: Any, other: Any, name: str, first: Path, second: Path) -> Any:
    """An attack's adversaries by strength; one that knows the run says the same in both."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        same = one == other
    else:
        same = all(one[strength] == other[strength] for strength in one.keys() & other.keys())
    if not same:
        raise ValueError(f"{second} means something else by {name!r}, one of attacks, than {first}")
    return {**one, **other} if isinstance(one, Mapping) else one


def _differs(one: Any, other: Any, path: str = "") -> str:
    """The first place in which two descriptions differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in [*one, *other]:
            if one.get(key) != other.get(key):
                return _differs(one.get(key), other.get(key), f"{path}.{key}" if path else str(key))
    return f"{path or 'it'} is {other!r}, not {one!r}"
