"""Which runs an audit is of, and the differential privacy that they promise, in lines."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..fl.runs.origin import ORIGIN
from ..reporting.headline import up
from ..reporting.run_data import number
from ..threat_models.audit.recording import SUMS

RECORDING = "recording"
"""The folder in a run's, that holds what parties saw. Both have an `ORIGIN`."""
SHORT = 16
"""Digits of a checksum that are shown; audit.json has them all."""


def recorded_in(folder: Path) -> dict[str, Any]:
    """The folder of a recorded run as it was named, SHA-256 of its recording's SHA256SUMS, commit and checksum of the data as the
    run folder says them, None where it does not.
    """
    try:
        said = json.loads((folder / ORIGIN).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        said = {}
    known = {k: v for k, v in said.items() if isinstance(v, str)} if isinstance(said, dict) else {}
    sums = hashlib.sha256((folder / RECORDING / SUMS).read_bytes()).hexdigest()
    return {"folder": str(folder), "sha256sums": sums, "commit": known.get("commit"), "data_sha256": known.get("data_sha256")}


def runs_in_words(found: Mapping[str, Any]) -> str:
    """Which runs were audited; empty of an audit of before, which does not say."""
    where, commit = found.get("recorded_in", {}), found.get("commit")
    if "commit" not in found:
        return ""
    parts = []
    for seed in found["seeds"]:
        if (of := where.get(str(seed))) is None:
            continue
        made = f", commit {of['commit'][:SHORT]}" if of["commit"] else ""
        lacks = f", which lacks {', '.join(of['left_out'])}" if of.get("left_out") else ""
        sums = f"sha256 of its SHA256SUMS {of['sha256sums'][:SHORT]}..."
        parts.append(f"seed {seed} as recorded in {of['folder']} ({sums}{made}){lacks}")
    if anew := [str(seed) for seed in found["seeds"] if str(seed) not in where]:
        parts.append(f"seed{'s' * (len(anew) > 1)} {', '.join(anew)} played anew")
    code = f" by commit {commit[:SHORT]}{'-dirty' * commit.endswith('-dirty')}" if commit else " by an installed version"
    data = dict.fromkeys(of[:SHORT] for of in found["data_sha256"].values())
    sums = ", ".join(f"{of}..." for of in data)
    return f"audited: {', '.join(parts)};{code}; data_sha256 of the records as clients have them {sums}"


def epsilon_in_words(found: Mapping[str, Any]) -> Iterator[str]:
    """What the runs promise, a line for each seed, and that this is not what was audited."""
    for seed, units in found.get("privacy", {}).items():
        for unit, of in units.items():
            worst, budget = up(number(of.get("epsilon_worst"))), of.get("budget")
            words = f"epsilon {worst} at delta {of.get('delta')} for any {unit}, adjacency: {of.get('adjacency')}"
            yield f"the run of seed {seed} promises {words}" + (f" (budget {budget})" if budget is not None else "")
