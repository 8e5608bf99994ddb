"""What to try next, by the tree-structured Parzen estimator (Bergstra et al. 2011) of Optuna, which takes conditional spaces.

The estimator is made anew for every batch, from what is known and a seed: it has no state to lose. Optuna is an extra, and is
imported where a batch is proposed.
"""

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .fields import Choose, Number, Numbers

Known = Sequence[tuple[Numbers, float]]
"""Points that were tried, and how severe each was."""
Point = Callable[[Choose], Numbers]
"""Fixes a point of the space by asking for its numbers."""


def available() -> None:
    """Raise ValueError of one line without Optuna."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise ValueError("the search needs Optuna, which is not installed: pip install 'cloister[search]'") from None


@dataclass(slots=True)
class _Asked:
    """A trial of Optuna as `Choose`. ranges: what was asked for, by name."""

    trial: Any
    chosen: dict[str, Number] = field(default_factory=dict)

    def one_of(self, name: str, options: Sequence[str], /) -> str:
        value: str = self.trial.suggest_categorical(name, list(options)) if len(options) > 1 else options[0]
        self.chosen[name] = value
        return value

    def number(self, name: str, least: float, most: float, logarithmic: bool, usual: float, /) -> float:
        value = float(f"{self.trial.suggest_float(name, least, most, log=logarithmic):.6g}")
        self.chosen[name] = min(max(value, least), most)
        return float(self.chosen[name])

    def whole(self, name: str, least: int, most: int, usual: int, /) -> int:
        value: int = self.trial.suggest_int(name, least, most)
        self.chosen[name] = value
        return value


@dataclass(slots=True)
class _Recorded:
    """Answers with what was chosen before, and keeps the range of every number."""

    numbers: Numbers
    ranges: dict[str, Any] = field(default_factory=dict)

    def one_of(self, name: str, options: Sequence[str], /) -> str:
        from optuna.distributions import CategoricalDistribution

        if len(options) > 1:
            self.ranges[name] = CategoricalDistribution(list(options))
        return str(self.numbers[name])

    def number(self, name: str, least: float, most: float, logarithmic: bool, usual: float, /) -> float:
        from optuna.distributions import FloatDistribution

        self.ranges[name] = FloatDistribution(least, most, log=logarithmic)
        return float(self.numbers[name])

    def whole(self, name: str, least: int, most: int, usual: int, /) -> int:
        from optuna.distributions import IntDistribution

        self.ranges[name] = IntDistribution(least, most)
        return int(self.numbers[name])


def proposed(point: Point, known: Known, count: int, seed: int) -> list[Numbers]:
    """So many points to try next, each different from all that are known; fewer where chance finds no other.

    Every fourth is drawn at random, so that no part of the space is given up. The same arguments give the same points.
    """
    import optuna
    from optuna.exceptions import ExperimentalWarning

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # of conditional spaces
        return _proposed(point, known, count, seed)


def _proposed(point: Point, known: Known, count: int, seed: int) -> list[Numbers]:
    import optuna
    from optuna.samplers import RandomSampler, TPESampler

    seen = {_name(numbers) for numbers, _ in known}
    found: list[Numbers] = []
    tpe = TPESampler(seed=seed, n_startup_trials=0, multivariate=True, group=True, constant_liar=True)
    studies = [optuna.create_study(direction="maximize", sampler=s) for s in (tpe, RandomSampler(seed=seed))]
    for numbers, severity in known:
        recorded = _Recorded(numbers)
        try:
            point(recorded)
        except (ValueError, KeyError):
            continue  # it could not be played either
        params = {name: numbers[name] for name in recorded.ranges}
        studies[0].add_trial(optuna.trial.create_trial(params=params, distributions=recorded.ranges, value=severity))
    for attempt in range(10 * count):
        if len(found) == count:
            break
        asked = _Asked(studies[attempt % 4 == 3].ask())
        try:
            point(asked)
        except ValueError:
            continue  # numbers that do not go together
        if (name := _name(asked.chosen)) not in seen:
            seen.add(name)
            found.append(asked.chosen)
    return found


def _name(numbers: Numbers) -> str:
    return repr(sorted(numbers.items()))


def seed_for(*parts: object) -> int:
    """A seed of 32 bits from what a batch is about."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big")
