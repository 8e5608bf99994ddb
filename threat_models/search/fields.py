"""What a search may set a field of an attack to, told by its type, its default and its name.

- a bool or a Literal: each of its values;
- a float: the name says whether it is a share, from 0 to 1 (`SHARES`), or an angle; any other is a strength, from 0.01 to 100,
  by its logarithm. One that may also be None, or is infinite by default, is that, or a strength;
- an attack, a poison or a trigger: the default as it is, if there is one, or one of those that are there, with its own fields;
- a round (`ROUNDS`): one of the run's;
- a float or int that is annotated with a `Span`: a number inside it;
- anything else: its default. A class with a field of none of these kinds and without a default is not searched.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache, partial
from math import ceil, floor, inf, pi, sqrt
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

Number = float | int | str | bool
Numbers = Mapping[str, Number]
"""A point of the space: what was chosen, by name. Plain JSON values."""

WEAKEST, STRONGEST = 0.01, 100.0
SHARES = frozenset({"a", "alpha", "cosine", "k", "lambda0", "quantile", "rate", "ratio", "share"})
ANGLES = frozenset({"angle"})
ROUNDS = frozenset({"turn"})
FREE, SET = "usual", "set"
"""Of a field that may be None or infinite: as it is by default, or a number."""


@dataclass(frozen=True, slots=True)
class Span:
    """From where to where a search may set an attack's number: `scale: Annotated[float, Span(0.1, 10, log=True)]`.

    log: it is a strength, which counts by its logarithm. Raises ValueError unless least is below most, and above 0 with log.
    """

    least: float
    most: float
    log: bool = False

    def __post_init__(self) -> None:
        ends = (self.least, self.most)
        numbers = all(isinstance(end, int | float) for end in ends) and not any(isinstance(end, bool) for end in ends)
        if not numbers or not -inf < self.least < self.most < inf:
            raise ValueError(f"a span goes from a number up to a greater one, not {self}")
        if self.log and self.least <= 0:
            raise ValueError(f"a span goes from a number up to a greater one, and with log from above 0 on, not {self}")

    @property
    def middle(self) -> float:
        """What is usual where there is no default."""
        return sqrt(self.least * self.most) if self.log else (self.least + self.most) / 2


@dataclass(frozen=True, slots=True)
class Family:
    """What is searched under a name. kind: a dataclass whose fields are chosen. like: one of it, whose values are usual."""

    name: str
    kind: Callable[..., Any]
    like: Any = None


def family_of(name: str, attack: Any) -> Family:
    """An attack of one's own: a dataclass or one that was made of it, or what is taken as it is, as a function is."""
    if isinstance(attack, type):
        return Family(name, attack)
    if is_dataclass(attack):
        return Family(name, type(attack), attack)
    return Family(name, partial(_itself, attack))


def _itself(attack: Any) -> Any:
    return attack


class NotSearched(ValueError):
    """An attack with a field that a search cannot set. reason: without what its author could do about it."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason + advice)
        self.reason = reason


class Choose(Protocol):
    """Whoever fixes a point of the space, one number after the other; which ones are asked for depends on the answers."""

    def one_of(self, name: str, options: Sequence[str], /) -> str:
        """One of the options, of which the first is the usual one."""
        ...

    def number(self, name: str, least: float, most: float, logarithmic: bool, usual: float, /) -> float:
        """A number from least to most. usual: the default, inside them."""
        ...

    def whole(self, name: str, least: int, most: int, usual: int, /) -> int: ...


Makers = Mapping[Any, Sequence[Callable[..., Any]]]
"""What may stand where a field's type is this one."""


def made(kind: Callable[..., Any] | Family, choose: Choose, makers: Makers, rounds: int, within: str = "", **given: Any) -> Any:
    """An attack of this kind, its fields chosen under their names. Raises NotSearched; ValueError where they do not go together.

    kind: a dataclass, or a function without arguments that makes one. within: whose part it is. given: fields that are fixed.
    """
    family = kind if isinstance(kind, Family) else Family(getattr(kind, "__name__", ""), kind)
    of = family.kind
    if not isinstance(of, type):
        return of()
    if not is_dataclass(of):
        return of(**given)
    hints, prefix = hints_of(of), f"{within}{family.name}."
    asked = [f for f in fields(of) if f.init and f.name not in given]
    usual = {f.name: _default(f) if family.like is None else getattr(family.like, f.name) for f in asked}
    return of(
        **given, **{f.name: _value(of, f.name, hints[f.name], usual[f.name], choose, makers, rounds, prefix) for f in asked}
    )


@cache
def hints_of(kind: Any) -> Mapping[str, Any]:
    """The types of a class's fields, with what they are annotated with. Raises NotSearched where a name in them is unknown."""
    try:
        return get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise NotSearched(f"the types of {kind.__name__} cannot be read: {error}") from None


def _value(kind: type, field: str, hint: Any, default: Any, choose: Choose, makers: Makers, rounds: int, prefix: str) -> Any:
    name = f"{prefix}{field}"
    spans = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Span)]
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if spans:
        return _within(kind, field, spans[0], hint, default, choose, name)
    optional = type(None) in get_args(hint) and get_origin(hint) in (Union, types.UnionType)
    of = tuple(k for k in get_args(hint) if k is not type(None)) if optional else (hint,)
    if float in of and (optional or default == inf):
        return strength(choose, name) if choose.one_of(f"{name}?", (FREE, SET)) == SET else default
    if field in ROUNDS and int in of:
        return choose.whole(name, 0, rounds - 1, rounds // 4)
    if hint is bool:
        options = ("true", "false") if default is True else ("false", "true")
        return choose.one_of(name, options) == "true"
    if get_origin(hint) is Literal:
        rest = [str(v) for v in get_args(hint) if v != default]
        return choose.one_of(name, [str(default), *rest] if default is not MISSING else rest)
    if hint is float:
        return _float(choose, field, name, default)
    if found := next((makers[k] for k in of if _known(k, makers)), None):
        own = type(default).__name__ if default not in (MISSING, None) else None
        others = [one.__name__ for one in found if one.__name__ != own]
        chosen = choose.one_of(name, others if own is None else [own, *others])
        return default if chosen == own else made(next(o for o in found if o.__name__ == chosen), choose, makers, rounds, prefix)
    if default is MISSING:
        if optional:
            return None
        raise NotSearched(
            f"{kind.__name__}.{field}, a {getattr(hint, '__name__', hint)}, has no default",
            f": give it one, or a span, as in {field}: Annotated[float, Span(0.1, 10, log=True)]",
        )
    return default


def _within(kind: type, field: str, span: Span, hint: Any, default: Any, choose: Choose, name: str) -> float:
    """A number of a span."""
    if hint not in (int, float):
        raise NotSearched(f"{kind.__name__}.{field} has a span and is a {getattr(hint, '__name__', hint)}, not a float or an int")
    usual = span.middle if default is MISSING else default
    if not span.least <= usual <= span.most:
        raise NotSearched(f"{kind.__name__}.{field} is {usual:g} by default, outside of its {span}")
    if hint is int:
        least, most = ceil(span.least), floor(span.most)
        if least > most:
            raise NotSearched(f"{kind.__name__}.{field} is an int, and there is none in its {span}")
        return choose.whole(name, least, most, min(max(round(usual), least), most))
    return choose.number(name, span.least, span.most, span.log, usual)


def _known(kind: Any, makers: Makers) -> bool:
    try:
        return kind in makers
    except TypeError:
        return False


def _float(choose: Choose, field: str, name: str, default: Any) -> float:
    if field in SHARES:
        return choose.number(name, 0.0, 1.0, False, 0.5 if default is MISSING else default)
    if field in ANGLES:
        return choose.number(name, 0.0, pi, False, pi / 2 if default is MISSING else default)
    return strength(choose, name, default if default is not MISSING and default > 0 else 1.0)


def strength(choose: Choose, name: str, usual: float = 1.0) -> float:
    """A number from 0.01 to 100, or from the usual one where that lies outside, by its logarithm."""
    return choose.number(name, min(WEAKEST, usual), max(STRONGEST, usual), True, usual)


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default
