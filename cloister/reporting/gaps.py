"""What a run folder has lost since it was written, or while: rounds, ends of lines, answers."""

import json
from collections.abc import Mapping, Sequence
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..fl.runs.held_alone import GO_ON
from ..fl.runs.privacy import headline
from ..protocol.view.disclosure import is_unanswered

if TYPE_CHECKING:
    from .run_data import Run

DAMAGED = "the folder is damaged; take a whole copy of it, or play the run anew into another folder"


def check_rounds(path: Path, summary: Mapping[str, Any], rounds: Sequence[object]) -> None:
    """Raise ValueError where a run that is over has fewer rounds in this file than its summary counts."""
    count = summary.get("rounds")
    if not isinstance(count, int) or len(rounds) >= count:
        return
    over = f"the run was over after {count} round{'s' * (count != 1)}"
    if not path.is_file():
        raise ValueError(f"{path} is missing, and {over}: {DAMAGED}")
    raise ValueError(f"{path} has {len(rounds)} whole lines, one a round, and {over}: {DAMAGED}")


def gaps(run: "Run") -> list[str]:
    """A sentence for each thing that is missing where the rest can be read, and what to do; none of a whole folder."""
    found = [_cut_off(run, name) for name in run.torn]
    if run.interrupted and not run.rounds and not (Path(run.path) / "metrics.jsonl").is_file():
        found.append(f"{Path(run.path) / 'metrics.jsonl'} is missing, so the run has no rounds to read: {DAMAGED}")
    return [*found, *filter(None, [missing_answers(run), other_privacy(run)])]


def _cut_off(run: "Run", name: str) -> str:
    what = f"the last line of {Path(run.path) / name} is cut off and left out"
    if not run.interrupted:
        return f"{what}, and the run is over: {DAMAGED}"
    count = len(run.rounds)
    return f"{what}; {count} whole round{'s are' if count != 1 else ' is'} read; {GO_ON} goes on with the run"


def missing_answers(run: "Run") -> str:
    """A sentence where the log of disclosures has not as many answers as were counted when the run ended; empty where it has, or
    where nothing was counted.
    """
    counted = [row.get("times") for rows in (run.summary.get("disclosed") or {}).values() for row in rows]
    given = [of for of in run.answers if not is_unanswered(of.get("recipient"), of.get("what"), of.get("scalars"))]
    if not counted or not all(isinstance(times, int) for times in counted) or sum(counted) in (len(given), len(run.answers)):
        return ""
    return (
        f"disclosure.jsonl has {len(given):,} answer{'s' * (len(given) != 1)}, where {sum(counted):,}"
        f" {'was' if sum(counted) == 1 else 'were'} counted when the run ended: the log was"
        " changed since, and what is said here of who learned what is not of the whole run"
    )


def other_privacy(run: "Run") -> str:
    """A sentence where privacy.json says of what was spent anything else than the summary; empty where it says the same, or where
    the run is not over.
    """
    told = run.summary.get("privacy")
    if not isinstance(told, Mapping):
        return ""
    if json.loads(json.dumps(headline(run.privacy))) != told or not all(map(_of_its_clients, run.privacy.values())):
        return (
            f"privacy.json and summary.json say different things of the privacy that was spent; one was changed since: {DAMAGED}"
        )
    return ""


def _of_its_clients(of: Mapping[str, Any]) -> bool:
    """Whether what is said of all clients together is what single ones have spent, where that is there."""
    clients = of.get("clients") or {}
    spent = [row.get("epsilon") for row in clients.values()]
    if not spent or not all(isinstance(one, int | float) for one in spent):
        return not spent
    return bool(isclose(max(spent), of["epsilon_worst"]) and isclose(sum(spent) / len(spent), of["epsilon_mean"]))
