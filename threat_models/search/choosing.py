"""Who fixes a point of the space, but for the optimiser: what is usual, and what was chosen before."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .fields import Choose, Number, Numbers


@dataclass(slots=True)
class Usual:
    """Everything as it is by default but for what `instead` names. chosen: all that was asked; options: of choices by name;
    strengths: numbers that count by their logarithm, by name, with the least and the most that they may be.
    """

    instead: Numbers = field(default_factory=dict)
    chosen: dict[str, Number] = field(default_factory=dict)
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    strengths: dict[str, tuple[float, float]] = field(default_factory=dict)

    def one_of(self, name: str, options: Sequence[str], /) -> str:
        self.options[name] = tuple(options)
        value = str(self.instead.get(name, options[0]))
        self.chosen[name] = value
        return value

    def number(self, name: str, least: float, most: float, logarithmic: bool, usual: float, /) -> float:
        value = float(self.instead.get(name, usual))
        self.strengths |= {name: (least, most)} if logarithmic else {}
        self.chosen[name] = value
        return value

    def whole(self, name: str, least: int, most: int, usual: int, /) -> int:
        value = int(self.instead.get(name, usual))
        self.chosen[name] = value
        return value


@dataclass(frozen=True, slots=True)
class Partly:
    """Somebody else's choice, but for what is fixed: of that there is no other. Raises ValueError where it is no option."""

    choose: Choose
    fixed: Numbers

    def one_of(self, name: str, options: Sequence[str], /) -> str:
        if name in self.fixed and str(self.fixed[name]) not in options:
            raise ValueError(f"{name} is one of {', '.join(options)}, not {self.fixed[name]}")
        return self.choose.one_of(name, [str(self.fixed[name])] if name in self.fixed else options)

    def number(self, name: str, least: float, most: float, logarithmic: bool, usual: float, /) -> float:
        if name not in self.fixed:
            return self.choose.number(name, least, most, logarithmic, usual)
        value = float(self.fixed[name])
        return self.choose.number(name, value, value, logarithmic, value)

    def whole(self, name: str, least: int, most: int, usual: int, /) -> int:
        if name not in self.fixed:
            return self.choose.whole(name, least, most, usual)
        value = int(self.fixed[name])
        return self.choose.whole(name, value, value, value)


@dataclass(frozen=True, slots=True)
class Given:
    """What was chosen before. Raises ValueError where a number is missing or outside of what it may be."""

    numbers: Numbers

    def one_of(self, name: str, options: Sequence[str], /) -> str:
        value = str(self._of(name))
        if value not in options:
            raise ValueError(f"{name} is one of {', '.join(options)}, not {value}")
        return value

    def number(self, name: str, least: float, most: float, logarithmic: bool, usual: float, /) -> float:
        value = float(self._of(name))
        if not least <= value <= most:
            raise ValueError(f"{name} is from {least:g} to {most:g}, not {value}")
        return value

    def whole(self, name: str, least: int, most: int, usual: int, /) -> int:
        value = int(self._of(name))
        if not least <= value <= most:
            raise ValueError(f"{name} is from {least} to {most}, not {value}")
        return value

    def _of(self, name: str) -> Number:
        if name not in self.numbers:
            raise ValueError(f"{name} was not chosen")
        return self.numbers[name]
