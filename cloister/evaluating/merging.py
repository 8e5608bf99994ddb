"""Folders of evaluations put together into one: more seeds, attacks or defences of the same scenario, whoever played them.

Lines are taken as they are, and searches of one attack on one defence are joined over their seeds. Two that are of one cell, or
of one search and seed, have to agree in what was measured, but for time and memory: a run that came out otherwise elsewhere is
an error, and no further seed.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..fl.runs.results_folder import DATA, Row, read_results
from ..grids.known import KNOWN
from ..threat_models.evaluation import ABSENT
from ..threat_models.evaluation_folder import EvaluationFolder
from .data import described_in, json_in
from .over_seeds import summed_up

SAME = ("scenario", "strength", "bounds")
"""What evaluations that are put together have in common."""
JOINED = ("attacks", "defences", "protections", "partitions", "limits", "targets", "absent")
"""Of an evaluation, what is by name."""
LISTED = ("strengths", "seeds", "keys", "searches")
DOUBTS = "doubts"
ASKED = {"strength": "evaluation", "steps": "--least, --most and --step", "bounds": "--loss and --success"}
"""Of breakdown searches, what those that are put together have in common, and what sets it."""
ALONE = {
    "comparison.json": (
        "a comparison",
        "for more seeds, methods or data play them in its own folder: cloister compare FILE --seeds 0-4 --out FOLDER --resume",
    ),
    "search.json": (
        "a search for a break",
        "with other seeds it is another search; for more tries give its command a larger --budget, and --out FOLDER --resume",
    ),
    "audit.json": ("an audit", "for more seeds audit once more with all of them: cloister audit FILE --seeds 0-4"),
    "scenario.json": ("a run", "cloister evaluate and cloister compare play several seeds in one folder"),
}
"""By the file that tells it, what has folders that are not put together, and what to do instead."""
OTHERWISE = "was it another version, processor or data? Play one of them again, or leave it out"


def merge(folders: Sequence[Path], out: Path) -> Path:
    """Writes `out`, a folder of one evaluation that holds the cells of all; `cloister report` shows it. Returns it.

    Raises ValueError for folders of different scenarios, strengths or bounds, for a name that means two things, and for a cell
    that two folders have with different results.
    """
    if len(folders) < 2:
        raise ValueError("give two folders at least to put together")
    for folder in folders:
        check_kind(folder)
    abouts = [described_in(folder) for folder in folders]
    about = dict(abouts[0])
    for folder, other in zip(folders[1:], abouts[1:], strict=True):
        about = _joined(about, other, folders[0], folder)
    rows: dict[str, Row] = {}
    of: dict[str, Path] = {}
    lines = {folder: read_results(folder, "evaluation", "evaluate") for folder in folders}
    about["absent"] |= dict.fromkeys(_apart([row for found in lines.values() for row in found.values()]), False)
    not_of_all = set[str]()  # runs without the data of some attackers, where others are at work, too
    for folder in folders:
        for key, row in lines[folder].items():
            if row["status"] == "done" and key in rows and rows[key]["status"] == "done" and measured(rows[key]) != measured(row):
                where = f"{row['attack'] or 'no attack'}, {row['defence']}, seed {row['seed']}"
                raise ValueError(f"{folder} has another result for one cell ({where}) than {of[key]}: {OTHERWISE}")
            if row["attack"] == ABSENT and not about["absent"].get(f"{row['strength']:g}", True):
                not_of_all.add(key)
                continue
            if key not in rows or rows[key]["status"] != "done":
                rows[key], of[key] = row, folder
    about["keys"] = [key for key in about["keys"] if key not in not_of_all]
    searched = _searched(folders, about["seeds"])
    target = EvaluationFolder(out)
    if target.results.exists():
        raise ValueError(f"{out} already holds an evaluation; choose another --out, a folder that is empty or not there yet")
    target.open(about, resume=False)
    if searched:
        target.write_json("breakdown.json", searched)
    target.arrange(rows[key] for key in [*(k for k in about["keys"] if k in rows), *sorted(rows.keys() - set(about["keys"]))])
    (out / "clean").mkdir(exist_ok=True)
    for key, folder in of.items():
        if (file := folder / "clean" / f"{key}.safetensors").is_file():
            shutil.copyfile(file, out / "clean" / file.name)
    return out


def check_kind(folder: Path) -> None:
    """Raise ValueError, with what to do instead, for a folder of what is not put together."""
    for file, (what, instead) in ALONE.items():
        if (folder / file).is_file():
            raise ValueError(f"{folder} holds {what}, and evaluations alone are put together; {instead}")


def _searched(folders: Sequence[Path], seeds: Sequence[int]) -> dict[str, Any]:
    """What breakdown searches found in any of them, over the seeds of all; empty where none was made. seeds: in their order.

    Raises ValueError where two do not go together.
    """
    found = {folder: about for folder in folders if (about := json_in(folder, "breakdown.json"))}
    if not found:
        return {}
    first, by = next(iter(found)), dict[str, tuple[Row, dict[int, tuple[Path, Row]]]]()
    for folder, about in found.items():
        for name, options in ASKED.items():
            if about.get(name) != found[first].get(name):
                raise ValueError(
                    f"{folder} has breakdown searches of other {name} than {first}: search again in one of them with the same"
                    f" {options}, or move its breakdown.json away"
                )
        for one in about["results"]:
            _, known = by.setdefault(one["of"], (one, {}))
            for seed in one["seeds"]:
                where, other = known.setdefault(seed["seed"], (folder, seed))
                if other != seed:
                    place = f"{one['attack']} on {one['defence']}, seed {seed['seed']}"
                    raise ValueError(f"{folder} found something else in a search ({place}) than {where}: {OTHERWISE}")
    order = {seed: k for k, seed in enumerate(seeds)}
    results = []
    for one, known in by.values():
        of = [seed for _, seed in sorted(known.values(), key=lambda pair: order.get(pair[1]["seed"], len(order)))]
        results.append(
            {**one, **_beside([r for about in found.values() for r in about["results"] if r["of"] == one["of"]]), "seeds": of}
        )
    return dict(summed_up({**found[first], "results": results}))


def _beside(several: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is said beside one search, of all folders: which strengths take more than the bound, for how many attackers a defence
    is built, how many there were at most, and where attacks did nothing.
    """
    built = [one["built_for"] for one in several if one.get("built_for") is not None]
    at_work: dict[str, int] = {}
    for one in several:
        for strength, count in (one.get("at_work") or {}).items():
            at_work[strength] = max(count, at_work.get(strength, 0))
    taken = {seed: of for one in several for seed, of in (one.get("taken") or {}).items()}
    vain = list(dict.fromkeys(words for one in several for words in one.get("in_vain") or ()))
    found: dict[str, Any] = {"built_for": min(built), "at_work": at_work} if built else {}
    return found | ({"taken": taken} if taken else {}) | ({"in_vain": vain} if vain else {})


def measured(row: Row) -> dict[str, Any]:
    """What of a line is the same wherever it is played: not what it cost."""
    return {name: value for name, value in row.items() if name not in ("cost", "clean_sha256")}


def _joined(one: Mapping[str, Any], other: Mapping[str, Any], first: Path, second: Path) -> dict[str, Any]:
    for name in SAME:
        if one[name] != other[name]:
            raise ValueError(f"{second} has another {name} than {first}: {_differs(one[name], other[name])}")
    if one.get(DATA) and other.get(DATA) and one[DATA] != other[DATA]:
        raise ValueError(f"{second} was played with other data than {first}: play one of them again, or leave it out")
    joined = dict(one)
    for name in JOINED:
        for key in one[name].keys() & other[name].keys():
            if name not in ("attacks", "absent") and one[name][key] != other[name][key]:
                raise ValueError(f"{second} means something else by {key!r}, one of {name}, than {first}")
        joined[name] = {**one[name], **other[name]}
    joined["absent"] = {s: bool(one["absent"].get(s) or other["absent"].get(s)) for s in joined["absent"]}
    for key in one["attacks"].keys() & other["attacks"].keys():
        joined["attacks"][key] = _attack(one["attacks"][key], other["attacks"][key], key, first, second)
    apart = [s for s in joined["absent"] if len(_members(joined["attacks"], s)) > 1]
    joined["absent"] |= dict.fromkeys(apart, False)
    joined[KNOWN] = {**one.get(KNOWN, {}), **other.get(KNOWN, {})}
    joined[DOUBTS] = list(dict.fromkeys([*(one.get(DOUBTS) or ()), *(other.get(DOUBTS) or ())]))
    return joined | {name: list(dict.fromkeys([*one[name], *other[name]])) for name in LISTED}


def _members(attacks: Mapping[str, Any], strength: str) -> set[str]:
    """Who the attackers of this strength are, as described: one run without the data of several is that of none of them."""
    found = [of.get(strength) for of in attacks.values() if isinstance(of, Mapping)]
    return {json.dumps(of.get("members"), sort_keys=True) for of in found if isinstance(of, Mapping)}


def _apart(rows: Sequence[Row]) -> set[str]:
    """Strengths at which attackers are other clients under one attack than under another, as the runs of a seed have them: of an
    attack that knows the run nothing else says who they are.
    """
    who: dict[tuple[str, Any], set[tuple[int, ...]]] = {}
    for row in rows:
        if row["status"] == "done" and row["attack"] and row["strength"] and "members" in row:
            who.setdefault((f"{row['strength']:g}", row["seed"]), set()).add(tuple(row["members"]))
    return {strength for (strength, _), members in who.items() if len(members) > 1}


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
