"""Whether two run folders are of one run: models, numbers, answers and accounts, bit for bit, and what differs around them."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from .origin import ORIGIN

TIMED = ("seconds",)
"""Of a round's line, what no two runs share."""
AROUND = ("seconds", "versions", "machine")
"""Of a summary, what no two runs need to share; `Repetition.different` says the last two."""
BESIDE = "yardsticks"
"""Of a summary, runs beside the run that were asked for: compared where both have them."""
NAMED = 5
"""Places that differ, of a file, which are named."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """same: whether models, numbers, answers, the accounts of privacy and of sums, and the summary are, bit for bit. apart: by
    how much not, in words. different: versions, processor, data, scenario, in words. models, rounds, answers: how many were
    compared. computed: whether all of these are the same, so that only what is computed from them may not be.
    """

    same: bool
    apart: tuple[str, ...]
    different: tuple[str, ...]
    models: int
    rounds: int
    answers: int
    computed: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def compared(first: Path, second: Path) -> Repetition:
    """What two runs that are over came to. Raises ValueError where a folder holds none."""
    for folder in (first, second):
        if not (folder / "summary.json").is_file():
            raise ValueError(f"{folder} holds no run that is over")
    models = _models(first), _models(second)
    rounds = _lines(first, "metrics.jsonl"), _lines(second, "metrics.jsonl")
    answers = _lines(first, "disclosure.jsonl"), _lines(second, "disclosure.jsonl")
    apart = [*_models_apart(*models), *_rounds_apart(*rounds)]
    computed = not apart and answers[0] == answers[1]
    if answers[0] != answers[1]:
        k = next((k for k, (a, b) in enumerate(zip(*answers, strict=False)) if a != b), min(map(len, answers)))
        apart.append(f"what parties were told differs from answer {k + 1} on")
    apart += _records_apart(first, second)
    different = tuple(_different(first, second))
    return Repetition(not apart, tuple(apart), different, len(models[0]), len(rounds[0]), len(answers[0]), computed)


def _models_apart(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    if first.keys() != second.keys():
        return [f"{len(first)} models against {len(second)}, of other clusters"]
    if any({n: t.shape for n, t in first[m].items()} != {n: t.shape for n, t in second[m].items()} for m in first):
        return ["models of another shape"]
    pairs = [(tensor, second[model][name]) for model, tensors in first.items() for name, tensor in tensors.items()]
    if all(a.tobytes() == b.tobytes() for a, b in pairs):
        return []
    most = max((float(np.abs(a.astype(np.float64) - b).max(initial=0.0)) for a, b in pairs), default=0.0)
    size = max((float(np.abs(a).max(initial=0.0)) for a, _ in pairs), default=0.0)
    return [f"models are up to {most:.2g} apart, where parameters are up to {size:.2g}"]


def _rounds_apart(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[str]:
    if len(first) != len(second):
        return [f"{len(first)} rounds against {len(second)}"]
    pairs = [({k: v for k, v in line.items() if k not in TIMED} for line in pair) for pair in zip(first, second, strict=True)]
    differing = [(a, b) for a, b in pairs if a != b]
    if not differing:
        return []
    a, b = differing[0]
    words = [f"numbers differ from round {a.get('round', 0)} on, first in {', '.join(k for k in a if a[k] != b.get(k))}"]
    cut = next((a for a, b in differing if a.get("clusters") != b.get("clusters")), None)
    words += [] if cut is None else [f"clusters differ from round {cut.get('round', 0)} on"]
    means = [line.get("accuracy_mean") for line in (first[-1], second[-1])]
    if all(isinstance(mean, int | float) and math.isfinite(mean) for mean in means) and means[0] != means[1]:
        words.append(f"accuracy at the end {means[0]:.4f} against {means[1]:.4f}")
    return words


def _records_apart(first: Path, second: Path) -> list[str]:
    """What is said of the privacy that was spent, of the sums that were opened, and of the run as a whole."""
    words = []
    if _text(first / "account.jsonl") != _text(second / "account.jsonl"):
        words.append("the account of opened sums (account.jsonl) differs")
    since = ("exposure.json",) if all((folder / "exposure.json").is_file() for folder in (first, second)) else ()
    for name in ("privacy.json", "summary.json", *since):  # folders of before have no exposure of single clients
        both = [record(folder / name) for folder in (first, second)]
        aside = AROUND if all(BESIDE in found for found in both) else (*AROUND, BESIDE)
        one, two = ({k: v for k, v in found.items() if k not in aside} for found in both)
        if places := differing(one, two):
            more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
            words.append(f"{name} differs in {', '.join(places[:NAMED])}{more}")
    return words


def differing(one: Any, two: Any, place: str = "") -> list[str]:
    """Where two values of JSON are not the same, as names with dots between."""
    if isinstance(one, dict) and isinstance(two, dict):
        keys = {**one, **two}
        return [at for k in keys for at in differing(one.get(k), two.get(k), f"{place}.{k}" if place else k)]
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        pairs = zip(one, two, strict=True)
        return [at for k, (a, b) in enumerate(pairs) for at in differing(a, b, f"{place}.{k}")]
    return [] if json.dumps(one) == json.dumps(two) else [place]  # as text: what is not a number is the same as itself


def _different(first: Path, second: Path) -> list[str]:
    """Of the surroundings, as far as both folders record them."""
    one, two = _json(first / ORIGIN), _json(second / ORIGIN)
    words = []
    for part in ("versions", "machine"):
        a, b = one.get(part) or {}, two.get(part) or {}
        words += [f"{name}: {a.get(name)} then, {b.get(name)} now" for name in {**a, **b} if a.get(name) != b.get(name)]
    if one.get("commit") != two.get("commit"):
        words.append(f"commit: {one.get('commit') or 'an installed version'} then, {two.get('commit') or 'installed'} now")
    for commit in (c for c in {one.get("commit"): 0, two.get("commit"): 0} if c and c.endswith("-dirty")):
        words.append(f"commit {commit[:12]}... had changes that were not committed")
    if one.get("data_sha256") != two.get("data_sha256"):
        words.append("the data: their checksums differ")
    plain = _json(first / "scenario.json"), _json(second / "scenario.json")
    if fields := [key for key in {**plain[0], **plain[1]} if plain[0].get(key) != plain[1].get(key)]:
        words.append(f"the scenario: another {', '.join(fields)}")
    return words


def _models(folder: Path) -> dict[str, Any]:
    try:
        return {path.stem: load_file(path) for path in sorted((folder / "models").glob("*.safetensors"))}
    except (OSError, SafetensorError) as error:
        raise ValueError(f"a model in {folder} cannot be read: {' '.join(str(error).split())}") from None


def _lines(folder: Path, name: str) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder / name} cannot be read: {' '.join(str(error).split())}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from None


def record(path: Path) -> dict[str, Any]:
    """Empty where there is none. Raises ValueError where it is damaged, which is not the same as being empty."""
    try:
        found = json.loads(_text(path) or "{}")
        if not isinstance(found, dict):
            raise TypeError
    except (ValueError, TypeError):
        raise ValueError(f"{path} is damaged") from None
    return found


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
