"""The defended scenario that is attacked: from a file and the name of a defence, or an expression for one."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from .. import algorithms, rules
from ..fl.algorithms.robust_fedavg import RobustFedAvg
from ..fl.algorithms.usual import usual_fields
from ..fl.field_types import made
from ..fl.near_names import near
from ..fl.runs.scenario import Scenario
from ..reading_a_file import Unbuilt
from ..scenario_file import load, load_evaluation, with_settings
from ..threat_models.evaluation import Cell, Evaluation, resolved


@dataclass(frozen=True, slots=True)
class Subject:
    """What is attacked. scenario: under its defence, without an adversary. evaluation: that it is of, or None. partition: of the
    evaluation's, by name; empty for the scenario's own. limit: the attackers in a round that the evaluation says the defence is
    built for; None where it does not.
    """

    scenario: Scenario
    evaluation: Evaluation | None = None
    partition: str = ""
    limit: int | None = None


def subject_of(where: str, against: str | None, settings: Sequence[str] = (), partition: str | None = None) -> Subject:
    """The scenario that FILE[:NAME] holds, or that its evaluation is about, under a defence.

    against: the name of one of the evaluation's defences, or an expression of `cloister.algorithms` and `cloister.rules`; None
    for the scenario's own algorithm. partition: one of the evaluation's; None for its first. Raises ValueError of one line;
    Refused where a protection cannot give what is needed.
    """
    evaluation = _evaluation(where)
    scenario = with_settings(load(where) if evaluation is None else evaluation.scenario, settings)
    return subject(scenario if evaluation is None else replace(evaluation, scenario=scenario), against, partition)


def subject(of: Scenario | Evaluation, against: str | None, partition: str | None = None) -> Subject:
    """The same of a value."""
    evaluation = of if isinstance(of, Evaluation) else None
    places = {} if evaluation is None else evaluation.partitions
    if partition is not None and partition not in places:
        known = f"; the evaluation's are: {', '.join(places)}" if places else ", for no evaluation names any"
        raise ValueError(f"there is no partition {partition!r}{known}")
    named = partition or next(iter(places), "")
    scenario: Scenario = of if evaluation is None else evaluation.scenario  # type: ignore[assignment]
    scenario = replace(scenario, adversary=None, partition=places[named] if named else scenario.partition)
    if against is None:
        return Subject(scenario, evaluation, named)
    if evaluation is not None and against in evaluation.defences:
        about = replace(evaluation, scenario=scenario)
        cell = Cell(None, against, None, next(iter(about.named_protections)), scenario.seed, named)
        return Subject(resolved(about, cell), evaluation, named, evaluation.limits.get(against))
    known = "" if evaluation is None else f"; the evaluation's defences are: {', '.join(evaluation.defences)}"
    return Subject(replace(scenario, algorithm=expressed(against, scenario.rounds, known)), evaluation, named)


def _evaluation(where: str) -> Evaluation | None:
    """The evaluation that the file holds under the name, or under its usual one; None where that is a scenario."""
    try:
        return load_evaluation(where)
    except Unbuilt:
        raise
    except ValueError as error:
        try:
            load(where)
        except ValueError:
            raise error from None
    return None


def expressed(text: str, rounds: int, known: str = "") -> Any:
    """The algorithm of an expression such as HardenedFLIC(rounds_before=10, every=5), or of one for a rule, MultiKrum(6).

    What it must be told of rounds and is not: what is usual (`fl.algorithms.usual`). Raises ValueError.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(f"{text!r} is no defence and no expression for one, such as MultiKrum(6){known}") from None
    value = _value(tree, rounds, f"{known}")
    if hasattr(value, "needs"):
        return value
    if not hasattr(value, "sees"):
        raise ValueError(f"{text} is no algorithm and no robust rule{known}")
    return RobustFedAvg(rule=value)


def _names() -> Mapping[str, Any]:
    return {name: getattr(module, name) for module in (rules, algorithms) for name in module.__all__}


def _value(node: ast.expr, rounds: int, known: str) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.Tuple(elements) | ast.List(elements):
            return tuple(_value(e, rounds, known) for e in elements)
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            return -value
        case ast.Name(name):
            return _made(name, [], {}, rounds, known)
        case ast.Call(ast.Name(name), given, keywords):
            named = {str(k.arg): _value(k.value, rounds, known) for k in keywords}
            return _made(name, [_value(a, rounds, known) for a in given], named, rounds, known)
        case _:
            raise ValueError(f"{ast.unparse(node)} is no part of a defence: write names, calls and numbers, as in MultiKrum(6)")


def _made(name: str, given: Sequence[Any], named: dict[str, Any], rounds: int, known: str) -> Any:
    kinds = _names()
    if name not in kinds:
        raise ValueError(f"there is no algorithm or rule {name!r}{near(name, kinds)}{known}")
    kind = kinds[name]
    if is_dataclass(kind) and hasattr(kind, "needs"):
        named = usual_fields(kind, rounds) | named
    needed = [f for f in fields(kind) if f.default is f.default_factory] if is_dataclass(kind) else []
    if needed and not given and not named:
        raise ValueError(f"{name} is written as it is made: {made(kind)}{known}")
    try:
        return kind(*given, **named)
    except TypeError as error:
        takes = f"; it takes {', '.join(f.name for f in fields(kind))}" if is_dataclass(kind) else ""
        raise ValueError(f"{name}: {error}{takes}") from None
