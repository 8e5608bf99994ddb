"""Whether the numbers in a part's fields lie where they mean something, in a user's words: ValueError of one line where not."""

from collections.abc import Callable
from math import inf, isfinite
from numbers import Integral, Real

from .functions import brief


def need_whole(part: object, least: int, *names: str) -> None:
    """Whole numbers from `least` on."""
    _check(part, names, lambda value: isinstance(value, Integral) and int(value) >= least, f"a whole number, {least} or more")


def need_least(part: object, least: float, *names: str, endless: bool = False) -> None:
    """Numbers from `least` on. endless: infinity among them, as of a bound that is none."""
    _check(part, names, lambda value: least <= value and (endless or value < inf), f"a {_kind(endless)} of {least:g} or more")


def need_above(part: object, least: float, *names: str, endless: bool = False) -> None:
    """Numbers above `least`. endless: as of `need_least`."""
    _check(part, names, lambda value: least < value and (endless or value < inf), f"a {_kind(endless)} above {least:g}")


def need_shares(part: object, *names: str) -> None:
    """From 0 to 1."""
    _check(part, names, lambda value: 0 <= value <= 1, "a share from 0 to 1")


def need_between(part: object, least: float, most: float, *names: str) -> None:
    """Numbers between these two, neither of them included."""
    _check(part, names, lambda value: least < value < most, f"a number above {least:g} and below {most:g}")


def need_finite(part: object, *names: str) -> None:
    """Numbers of either sign."""
    _check(part, names, isfinite, "a finite number")


def need_numbers(part: object, *names: str) -> None:
    """Any that are some: what somebody corrupt sends may be endless, and NaN is a slip of whoever reckoned it."""
    _check(part, names, lambda value: value == value, "a number")


def _kind(endless: bool) -> str:
    return "number" if endless else "finite number"


def _check(part: object, names: tuple[str, ...], fits: Callable[..., bool], words: str) -> None:
    """None fits, where a field may be None; of a tuple each has to."""
    for name in names:
        value = getattr(part, name, None)
        for one in value if isinstance(value, tuple | list) else () if value is None else (value,):
            if not isinstance(one, Real) or not fits(one):
                raise ValueError(f"{type(part).__name__}.{name} is {words}, not {brief(one)}")
