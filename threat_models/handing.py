"""An attack is handed what it knows; one that asks for what another kind of knowledge has is told which it was given."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from ..fl.functions import Unfit, called, innermost, is_function, own_place
from ..fl.own import is_own, is_part_of_ours
from .knowledge import Colluding, Insider, Level, Omniscient, Own, Situation
from .lent import lent
from .offers import Offered

KINDS: dict[type, Level] = {Situation: Level.OWN, Own: Level.OWN, Colluding: Level.COLLUDING, Omniscient: Level.OMNISCIENT,
                            Insider: Level.INSIDER, Offered: Level.OWN}  # fmt: skip
"""What attacks are handed, the least first, and at which level."""


def handed(attack: Any, known: Any, call: Callable[[Any], Any] | None = None) -> Any:
    """What the attack, or this method of it, makes of what it is told; one of somebody's own of copies (`lent`).

    Raises Unfit, by its name, file and line, where it asks for what it was not given and another kind of knowledge has.
    """
    given = known if is_part_of_ours(attack) and _ours_alone(attack) else lent(known)
    try:
        return (call or attack)(given)
    except AttributeError as error:
        having = [kind for kind in KINDS if error.name in _has(kind)]
        if error.obj is not given or not having:
            raise
        place = own_place(error)
        asks = f"{called(attack)} asks for {error.name!r}{f' in {place}' if place else ''}"
        told = f"was given {_named(type(known))}, which has {', '.join(_has(type(known)))}"
        raise Unfit(f"{asks}, and {told}; {_named(having[0])} has it: {_remedy(attack, having[0])}") from error


def _ours_alone(part: Any) -> bool:
    """Whether nothing in a part of an attack is somebody's own code."""
    if is_part_of_ours(part):
        return all(_ours_alone(getattr(part, one.name)) for one in fields(part))
    return not is_own(innermost(part))


def _remedy(attack: Any, kind: type) -> str:
    """How an attack says that it is of this knowledge."""
    level = f"attacks.Level.{KINDS[kind].name}"
    place = {Situation: "data= or local=", Offered: "choice="}.get(kind)
    if place:
        return f"give the attack as Adversary({place}...)"
    above = f", and in an Adversary knows={level}" if KINDS[kind] > Level.OWN else ""
    if hasattr(attack, "needs"):
        return f"give it needs = {level}{above}"
    call = attack if is_function(attack) else type(attack).__call__
    names = [name for name in inspect.signature(call).parameters if name != "self"]
    return f"write `{names[0] if names else 'known'}: {_named(kind)}`{above}"


def _named(kind: type) -> str:
    return f"attacks.{kind.__name__}"


def _has(kind: type) -> list[str]:
    """Names of its fields and properties."""
    fields = getattr(kind, "__dataclass_fields__", {})
    return sorted({*fields, *(name for name in dir(kind) if isinstance(getattr(kind, name), property))})
