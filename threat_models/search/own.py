"""Attacks of the user's own in a search: which of an evaluation's are, and adversaries that are made whole."""

import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ...fl.functions import Unfit, called, is_function
from ...fl.near_names import in_short
from ...fl.runs.scenario import Scenario, described
from ..adversary import Adversary
from ..evaluation import Evaluation
from ..evaluation_attack import Informed, adversary_of
from ..membership import Fixed, Members, Pool
from .fields import NotSearched

OURS = "cloister."
COUNTED = "attackers"


def own_attacks(evaluation: Evaluation, asked: tuple[str, ...]) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """The attacks of an evaluation that are somebody's own, or asked for by name, and why others of those are left out.

    Those of this package, as its suites have them, are points of the space already. An attack that is a function of a strength
    is taken where strengths count attackers.
    """
    found: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for name, attack in evaluation.attacks.items():
        if name not in asked and (asked or is_ours(attack)):
            continue
        found[name] = attack
    if evaluation.strength != COUNTED:
        for name in [name for name, attack in found.items() if _is_of_strength(attack)]:
            del found[name]
            left_out[name] = f"it is made of a {evaluation.strength}, and a search counts attackers"
    return found, left_out


def _is_of_strength(attack: Any) -> bool:
    from ..functions import place_of

    return isinstance(attack, Informed) or place_of(attack) is None


def _without_type(attack: Any) -> str:
    """What to write where an attack's first parameter has no type, so that it was taken for a function of a strength; else
    empty.
    """
    if isinstance(attack, Informed) or not callable(attack):
        return ""
    call = attack if is_function(attack) else type(attack).__call__
    first = next((p for p in inspect.signature(call).parameters.values() if p.name != "self"), None)
    if first is None or first.annotation is not inspect.Parameter.empty:
        return ""
    return (
        f"the first parameter of {called(attack)} has no type, so it was taken for one of a number of attackers, and"
        f" failed; an attack on uploads says what it is handed: write `{first.name}: attacks.Own`, or another of"
        " attacks.Colluding, attacks.Omniscient and attacks.Insider"
    )


def is_ours(attack: Any) -> bool:
    """Whether it is an attack of this package, or made by a function of it, and so are its parts, such as a trigger."""
    made_by = attack.make if isinstance(attack, Informed) else attack
    module = getattr(made_by, "__module__", None) or type(made_by).__module__
    return str(module).startswith(OURS) and all(map(is_ours, _parts(made_by)))


def _parts(made_by: Any) -> list[Any]:
    """What a dataclass holds that may be somebody's own."""
    if isinstance(made_by, type) or not is_dataclass(made_by):
        return []
    values = [getattr(made_by, f.name) for f in fields(made_by)]
    found = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    return [part for part in found if is_dataclass(part) or callable(part) or hasattr(part, "stamp")]


def whole_adversary(attack: Any, name: str, members: Members | int, scenario: Scenario) -> Adversary:
    """The adversary that an attack makes of a number of attackers, of these members. Raises NotSearched."""
    who = Pool(members) if isinstance(members, int) else members
    count = who.count if isinstance(who, Pool) else len(who.ids) if isinstance(who, Fixed) else 0
    try:
        found: Any = adversary_of(name, attack, float(count), scenario)
    except Unfit as error:
        raise NotSearched(str(error)) from None
    except Exception as error:  # whatever an attack of the user's raises
        raise NotSearched(_without_type(attack) or in_short(error)) from None
    if not hasattr(found, "members"):
        raise NotSearched("its adversary has no members, whose data could be left out")
    if described(found.members) == described(who):
        adversary: Adversary = found
        return adversary
    if type(found) is not Adversary:
        raise NotSearched("its members are its own")
    return replace(found, members=who)
