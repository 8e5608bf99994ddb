"""What a search for a breakdown says beside its strengths: what was learned without attack, what an attack takes of that,
whether it did anything at all, and for how many attackers a defence is built.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Any

from ..fl.runs.results_folder import Row
from ..grids.spread import metric
from ..threat_models.broken import Bounds
from ..threat_models.chance import nothing_words
from ..threat_models.evaluation import Evaluation
from ..threat_models.evaluation_check import ATTACKERS
from .losses import cannot_gain


def beside(
    evaluation: Evaluation, bounds: Bounds, rows: Sequence[Row], attack: str, defence: str, protection: str, partition: str
) -> dict[str, Any]:
    """Of one search over its seeds, as far as there is something to say. rows: of all cells that were played."""
    place = {"defence": defence, "protection": protection, "partition": partition}
    there = [row for row in rows if all(row.get(key) == value for key, value in place.items())]
    clean, attacked = ([row for row in there if row.get("attack") == of and row["status"] == "done"] for of in (None, attack))
    about = _nothing_learned(clean) | _of_clean(attacked, bounds) | _in_vain(attacked, bounds)
    return about | (_built_for(evaluation, attacked, defence) if evaluation.strength == ATTACKERS else {})


def _nothing_learned(clean: Sequence[Row]) -> dict[str, Any]:
    """nothing: that a defence is at chance without attack, in words; no such key where it is not."""
    late = [value for row in clean if isfinite(value := metric(row, "accuracy", "late"))]
    words = nothing_words(sum(late) / len(late), clean) if late else ""
    return {"nothing": words} if words else {}


def _of_clean(attacked: Sequence[Row], bounds: Bounds) -> dict[str, Any]:
    """taken: by seed, the strengths that take more than the bound of the accuracy without attack, whatever is missing without the
    attackers' data; no such key where none does.
    """
    found: dict[str, list[float]] = {}
    for row in attacked:
        if metric(row, "clean", "late") - metric(row, "accuracy", "late") > bounds.loss:
            found.setdefault(str(row["seed"]), []).append(float(row["strength"]))
    return {"taken": {seed: sorted(strengths) for seed, strengths in found.items()}} if found else {}


def _in_vain(attacked: Sequence[Row], bounds: Bounds) -> dict[str, Any]:
    """in_vain: why what was tried of the attack says little, in words each; no such key where nothing is wrong with it."""
    runs = [row for row in attacked if row["strength"]]
    kinds = {
        "no attacker was at work in any round": [row.get("attackers") == 0 for row in runs],
        "updates of attackers were refused, as not finite or too large": [bool(_refused(row)) for row in runs],
        "every loyal client ended with the very model that it has without attack": [
            bool(row.get("attackers") and row.get("same_models")) for row in runs
        ],
        "its trigger works on the models without attack already, so that a backdoor could gain no more than the bound": [
            bool(row.get("success")) and cannot_gain(row, bounds.success) for row in runs
        ],
    }
    said = [f"in {sum(of)} of {len(of)} runs {words}" for words, of in kinds.items() if any(of)]
    return {"in_vain": said} if said else {}


def _refused(row: Row) -> int:
    """Updates of attackers that nobody could use."""
    return int((row.get("rejected") or {}).get("members") or 0)


def _built_for(evaluation: Evaluation, attacked: Sequence[Row], defence: str) -> dict[str, Any]:
    """built_for: how many attackers in a round a defence is built for, as the evaluation or it says of the clients that there are
    under attack, more than in a run without the attackers'; at_work: by strength, how many there were at most. Neither key where
    nothing says that.
    """
    told = [evaluation.limits.get(defence)] if defence in evaluation.limits else [row.get("built_for") for row in attacked]
    least = min((n for n in told if n is not None), default=None)
    if least is None:
        return {}
    at_work: dict[str, int] = {}
    for row in attacked:
        key = f"{row['strength']:g}"
        at_work[key] = max(at_work.get(key, 0), int(row.get("attackers") or 0))
    return {"built_for": least, "at_work": at_work}
