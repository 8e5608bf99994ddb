"""What becomes of a rule once updates have been rejected: they were some of the faulty ones that it stands."""

from dataclasses import is_dataclass, replace
from typing import Any, TypeVar

from .coordinates import RobustLearningRate, TrimmedMean
from .krum import MultiKrum
from .mixing import Mixed, Step
from .rule import Rule

Part = TypeVar("Part", bound=Rule | Step)


def after_rejecting(rule: Part, rejected: int, left: int) -> Part:
    """The rule, or step, for the `left` updates of a round in which so many others were rejected.

    A rejected update is one of the f that the rule is built for, so it runs for max(0, f - rejected) on the rest, and its steps
    do: a rule that takes n updates takes the n - f that are left where all f are rejected. Otherwise f senders of NaN would
    stop it in every round. f is the field of that name, or what stands for it: TrimmedMean drops so many values less at either
    end, and RobustLearningRate asks for so many agreeing signs less, by which the faulty ones that are left can still not pass
    for agreement. MultiKrum averages its m, or all that are left if those are fewer. Other rules are as they were.
    """
    if rejected == 0:
        return rule
    lowered: dict[str, Any] = {}
    match rule:
        case Mixed():
            lowered["steps"] = tuple(after_rejecting(step, rejected, left) for step in rule.steps)
            lowered["rule"] = after_rejecting(rule.rule, rejected, left)
        case TrimmedMean():
            lowered["b"] = max(0, rule.b - rejected)
        case RobustLearningRate():
            lowered["theta"] = max(0.0, rule.theta - rejected)
        case MultiKrum(m=int(m)):
            lowered["m"] = min(m, left)
    if type(f := getattr(rule, "f", None)) is int:
        lowered["f"] = max(0, f - rejected)
    changeable: Any = rule
    return replace(changeable, **lowered) if is_dataclass(rule) and lowered else rule
