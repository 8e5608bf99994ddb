"""What is no defence and no attack, said when an evaluation is built, before any cell is played: by name, file and line."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

from ..fl.functions import Unfit, brief, called, misfit
from ..fl.near_names import in_short
from ..fl.robust.function import KNOWN
from ..fl.runs.scenario import Scenario
from ..protocol.core.errors import Refused
from ..protocol.uploaded.plain import Plain
from .evaluation_attack import ABSENT, Informed, adversary_of
from .functions import no_level, of_others_form, place_of

NO_ATTACK = "no attack"
"""What the run without any is called in tables."""
ATTACKERS = "attackers"
"""What strengths are where nothing else is said."""
A_RULE = "a robust rule stands in an algorithm: RobustFedAvg(rule={})"
A_CHANGE = "a defence is an algorithm, or a function from a scenario to a scenario"
TYPES = (
    "give its first parameter the type of what it attacks, own: attacks.Own for a member's update, known: attacks.Omniscient for"
    " all of them, situation: attacks.Situation for data and training"
)


def check_strengths(strengths: Sequence[float], word: str, partitions: Iterable[Any]) -> None:
    """Raises ValueError of one line where strengths count attackers, and are no whole numbers from 0 to as many as a partition
    makes clients.
    """
    if word == ATTACKERS and (wrong := [s for s in strengths if s < 0 or s != int(s)]):
        raise ValueError(
            f"strengths are numbers of attackers, whole ones, and not {wrong[0]:g}; where yours are something else, say what in a"
            " word, strength='share of the clients', and let each attack be a function of it"
        )
    if word == ATTACKERS and not any(strengths):
        raise ValueError("strengths are numbers of attackers, and 0 alone is no attack: the run without is played anyway")
    for clients in (getattr(one, "clients", None) for one in partitions):
        if word == ATTACKERS and isinstance(clients, int) and max(strengths) > clients:
            raise ValueError(f"strengths are numbers of attackers, and {max(strengths):g} are more than all {clients} clients")


def check_limits(limits: Mapping[str, Any], partitions: Iterable[Any]) -> None:
    """Raises ValueError of one line where a defence is said to be built for what is no number of attackers among the clients."""
    most = max((n for one in partitions if isinstance(n := getattr(one, "clients", None), int)), default=None)
    for name, limit in limits.items():
        if type(limit) is not int or limit < 0:
            raise ValueError(f"limits[{name!r}] is {limit!r}; give the attackers that it is built for, a whole number from 0 on")
        if most is not None and limit > most:
            raise ValueError(f"limits[{name!r}]: {limit} attackers are more than all {most} clients")


def check_somebody_loyal(
    attacks: Mapping[str, Any], strengths: Sequence[float], scenario: Scenario, partitions: Iterable[Any]
) -> None:
    """Raises ValueError of one line where all clients that a partition makes attack in the first round: a defence is judged by
    the accuracy of loyal clients. What an attack raises by itself, its cells say.
    """
    counts = {n for one in partitions if isinstance(n := getattr(one, "clients", None), int)}
    for n, strength, (name, attack) in product(sorted(counts), strengths, attacks.items()):
        corrupt: frozenset[int] = frozenset()
        with suppress(Exception):
            members: Any = getattr(adversary_of(name, attack, float(strength), scenario), "members", None)
            corrupt = members.among(range(n), range(n), 0, scenario.seed)
        if n and len(corrupt) == n:
            raise ValueError(
                f"attack {name!r} of strength {strength:g} makes attackers of all {n} clients: nobody loyal is left, by whose"
                " accuracy a defence is judged"
            )


def check_defences(defences: Mapping[str, Any], scenario: Scenario) -> None:
    """Raises ValueError of one line for the first that is none."""
    for name, defence in defences.items():
        if wrong := _no_defence(defence, scenario):
            raise ValueError(f"defence {name!r}: {wrong}")


def _no_defence(defence: Any, scenario: Scenario) -> str:
    """Why it is none; empty for one."""
    is_rule = hasattr(defence, "sees") or any(callable(getattr(defence, method, None)) for method in KNOWN)
    if isinstance(defence, type):
        made = f"{defence.__name__}(...)"
        more = f"; {A_RULE.format(made)}" if is_rule and not hasattr(defence, "needs") else ""
        return f"{called(defence)} is a class; make one of it, with parentheses: {made}{more}"
    if hasattr(defence, "needs") and hasattr(defence, "round"):
        return ""
    if is_rule:
        return f"{called(defence)} is a rule; {A_RULE.format(type(defence).__name__ + '(...)')}"
    if not callable(defence):
        return f"{brief(defence)} is none; {A_CHANGE}"
    if wrong := misfit(defence, ["scenario"]):
        return f"{called(defence)}: {wrong}; {A_CHANGE}"
    return _no_change(defence, scenario)


def _no_change(defence: Any, scenario: Scenario) -> str:
    """Why a function is no change of a scenario, by what it makes of this one."""
    name = getattr(defence, "__name__", None) or f"{type(defence).__name__}(...)"
    rule = f"{A_RULE.format(name)}, and so does an aggregator of ByzFL"
    try:
        found: Any = defence(replace(scenario, protection=Plain()))
    except Refused:
        return ""  # its cells say so
    except Exception as error:  # whatever a function of the user's raises
        return f"{called(defence)} was called with the scenario and raised {in_short(error)}; {A_CHANGE}, and {rule}"
    if isinstance(found, Scenario):
        return ""
    return f"{called(defence)} was called with the scenario and returned {brief(found)}; {A_CHANGE}, and {rule}"


def check_attacks(attacks: Mapping[str, Any], strengths: Sequence[float], scenario: Scenario) -> None:
    """Raises ValueError of one line for the first that is none, or has as many members as a strength says that is no number of
    them, whatever strengths are said to be. What an attack raises by itself, its cells say.
    """
    if taken := [name for name in (ABSENT, NO_ATTACK) if name in attacks]:
        raise ValueError(
            f"no attack is called {taken[0]!r}, the name of the run without "
            + ("the attackers' data, which harm is held against: give it another name" if taken[0] == ABSENT else "any")
        )
    for name, attack in attacks.items():
        if wrong := _no_attack(name, attack, strengths[0], scenario):
            raise ValueError(wrong)
        if (broken := [s for s in strengths if s < 0 or s != int(s)]) and (place := _by_itself(attack)):
            raise ValueError(
                f"attack {name!r} stands there by itself, so that a strength is its number of members, which {broken[0]:g} is"
                f" not; let it be a function of the strength: lambda s: Adversary(members=attacks.Share(s), {place}=...)"
            )


def _by_itself(attack: Any) -> str | None:
    """The field of `Adversary` that an attack belongs in which is no function of a strength."""
    return None if isinstance(attack, Informed | type) else place_of(attack)


def _no_attack(name: str, attack: Any, strength: float, scenario: Scenario) -> str:
    """Why it is none; empty for one."""
    if isinstance(attack, Informed):
        wrong = misfit(attack.make, ["strength", "scenario"])
        return f"attack {name!r}: {called(attack.make)}: {wrong}" if wrong else ""
    if isinstance(attack, type):
        return f"attack {name!r}: {called(attack)} is a class; make one of it, with parentheses: {attack.__name__}(...)"
    if place_of(attack) is not None:
        given = "what it attacks"
        wrong = misfit(attack, [given]) if callable(attack) else "it cannot be called: it has `needs`, and no __call__"
        wrong = wrong or no_level(attack)
        return f"attack {name!r}: {called(attack)}: {wrong}" if wrong else ""
    if other := of_others_form(attack):
        return f"attack {name!r}: {called(attack)}: {other}"
    if callable(attack) and (wrong := misfit(attack, ["a strength"])):
        return f"attack {name!r}: {called(attack)}: {wrong}"
    try:
        adversary_of(name, attack, float(strength), scenario)
    except Unfit as error:
        return f"{error}" + (f" ({called(attack)})" if callable(attack) else "")
    except (AttributeError, TypeError) as error:
        if not _raised_by(attack, error):
            return ""
        said = f"attack {name!r}: {called(attack)} says no type, so that it was called with a strength, {strength:g}"
        return f"{said}, and raised {in_short(error)}; {TYPES}"
    except Exception:  # of the attack's own: its cells' lines say it
        return ""
    return ""


def _raised_by(attack: Any, error: Exception) -> bool:
    """Whether the attack's own lines raised it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = getattr(attack, "__code__", None) or getattr(type(attack).__call__, "__code__", None)
    return trace is not None and trace.tb_frame.f_code is code
