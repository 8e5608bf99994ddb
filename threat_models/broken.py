"""When a defence is broken: the one definition that `evaluate`, `breakdown` and `attack` judge by.

Lost is accuracy of loyal clients, late in a run (the last quarter of its evaluations, ten at most), below the lower of two runs
of the same seed on the same clients: without attack, and without the attackers' data. So nothing that the defence costs by
itself, or that the missing data cost, is the attack's doing. Where the second was not played, a round of it came to nothing, or
it is no better than a guess though the first is (`chance.gave_up`), it is held against the first alone. Gained is a backdoor's
success in its last poisoned round above that of its trigger on the models that the run without attack has after the same round.
A run breaks a defence where more is lost, or gained, than the bound.

A mean late in the run would hide an attack that strikes at the very end, and ruins the model that is delivered. So a run breaks
a defence, too, where its last evaluation alone lies more than the bound below what it has late itself, and below all that
either of the two others has late and at its end (`ruined`): less may be the chance of one evaluation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import isfinite, nan
from typing import Any

LOWER = "the lower of the runs without attack and without the attackers' data"
CLEAN = "the run without attack"
LATE = "the last quarter of its evaluations, ten at most"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """When a defence is called broken.

    loss: accuracy that loyal clients lose against the lower of the runs without attack and without the attackers' data. success:
    of a backdoor in its last poisoned round, above what the models of the attack-free run after that round have of it.
    """

    loss: float = 0.05
    success: float = 0.1

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, int | float) or not 0 < value <= 1:
                raise ValueError(f"bounds are shares: {name} is above 0 and at most 1, not {value!r}")


def lost(attacked: float, clean: float, absent: float | None) -> float:
    """Accuracy lost to an attack. absent: without the attackers' data; None where that is no measure."""
    return (clean if absent is None else min(clean, absent)) - attacked


def gained(success: Mapping[str, Any] | None) -> float | None:
    """What a backdoor gained, of a run's line of success; None where the attack is no backdoor."""
    return None if success is None else float(success["last_poisoned"]) - float(success["clean_mean"])


def lost_at_end(final: float, held: Iterable[float]) -> float:
    """Accuracy that the last evaluation alone shows lost; NaN where it is not known. held: what the runs that it is held against
    have late and at their end, of which the lowest counts.
    """
    return min(filter(isfinite, held), default=nan) - final


def ruined(end: float, late: float, final: float, bound: float) -> bool:
    """Whether a run ends ruined, whatever it loses late. end: lost in the last evaluation; late, final: its own accuracies."""
    return end > bound and late - final > bound


def breaks(loss: float, gain: float | None, bounds: Bounds, ends_ruined: bool = False) -> str:
    """What broke in one run: "accuracy" late in it, else "accuracy at the end", "backdoor", one of these and it, or nothing."""
    found = ["accuracy"] if loss > bounds.loss else ["accuracy at the end"] if ends_ruined else []
    found += ["backdoor"] if gain is not None and isfinite(gain) and gain > bounds.success else []
    return " and ".join(found)


def points(share: float) -> str:
    """A share in points of 100."""
    return f"{100 * share:g} point{'' if share == 0.01 else 's'}"


def loss_words(bounds: Bounds, against: str = LOWER) -> str:
    """What breaks a defence by accuracy, as a clause."""
    return (
        f"loyal clients lose more than {points(bounds.loss)} of accuracy, late in the run ({LATE}), against {against}, or in the"
        " last evaluation alone if that lies as far below what they have late"
    )


def backdoor_words(bounds: Bounds) -> str:
    """What breaks it by a backdoor, as a clause."""
    return (
        f"a backdoor succeeds over {points(bounds.success)} more often in its last poisoned round than on the models that"
        f" {CLEAN} has then"
    )


def broken_words(bounds: Bounds, goal: str = "any") -> str:
    """The definition with its bounds, as the end of "broken is a defence where ...". goal: "accuracy" or "backdoor" for one."""
    words = {"accuracy": loss_words(bounds), "backdoor": backdoor_words(bounds)}
    return ", or ".join(text for name, text in words.items() if goal in ("any", name)) + "; all in runs of one seed"
