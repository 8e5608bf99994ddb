"""The privacy ledger: what one client's unit has spent, checked before anything more is released.

What happened (`Release`, around a `dp_accounting.DpEvent`) is apart from what it costs (`accountant`). Any event goes in:
Gaussians, DP-SGD (a Poisson-sampled Gaussian, self-composed), zCDP, sampling without replacement, compositions; what no
accountant knows is refused. Use a ledger in this order, so that what is refused was never released:

    ledger = ledger + release      # raises BudgetExceeded
    publish(value + noise)
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import dp_accounting
from dp_accounting import dp_event

from ..core.errors import PAST_BUDGET
from .accountant import Bound, Spent, UnknownEvent, spent
from .adjacency import Adjacency
from .gaussian import SummedDiscreteGaussians

__all__ = ["Adjacency", "BudgetExceeded", "Ledger", "Release", "Unit", "UnknownEvent", "disjoint_epsilon"]

Unit = Literal["client", "record", "attribute"]


class BudgetExceeded(ValueError):
    """The release would take the client past its budget, so it must not happen."""


@dataclass(frozen=True, slots=True)
class Release:
    """One differentially private answer, before it is given.

    event: what the accountant is told, with all noise multipliers relative to `sensitivity`. sensitivity: L2, in the units of
    the released values, under `adjacency` (for a sum of vectors of norm C: 2C under replace, else C). noise: the distribution
    and its standard deviation in those units, in words.
    covers: which answer this is, in words.
    """

    event: dp_accounting.DpEvent
    sensitivity: float
    adjacency: Adjacency
    unit: Unit
    noise: str
    covers: str

    def __post_init__(self) -> None:
        if not 0 < self.sensitivity < math.inf:
            raise ValueError(f"a release needs a finite sensitivity above 0, not {self.sensitivity}; clip first")

    def as_dict(self) -> dict[str, Any]:
        return {
            "event": _event_to_plain(self.event),
            "sensitivity": self.sensitivity,
            "adjacency": self.adjacency,
            "unit": self.unit,
            "noise": self.noise,
            "covers": self.covers,
        }


@dataclass(frozen=True, slots=True)
class Ledger:
    """All releases about one client, for one unit and adjacency, within a budget of epsilon at delta.

    of: what the releases are, in words. acknowledged: functionalities by which noise-free answers about the same data are given
    beside them, as the scenario says by name; with them, epsilon bounds what the releases themselves tell and nothing more.
    not_covered: what is disclosed about the client without any noise, in words (cohort, cluster membership, norms, timing).
    Formal guarantee: the releases together are (epsilon(delta), delta)-differentially private for the unit, if each of them is
    what its event says; later ones may depend on earlier ones. Nothing in `not_covered` or
    `acknowledged` is protected.
    """

    client: int
    unit: Unit
    adjacency: Adjacency
    budget: float
    delta: float
    of: str = "what it released"
    acknowledged: tuple[str, ...] = ()
    releases: tuple[Release, ...] = ()
    not_covered: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (0 < self.delta < 1 and self.budget > 0):
            raise ValueError(f"a budget needs epsilon above 0 and delta between 0 and 1, not {self.budget} and {self.delta}")

    def __add__(self, release: Release) -> Self:
        """The ledger after the release. Raises BudgetExceeded, or ValueError for another unit or adjacency."""
        if (release.unit, release.adjacency) != (self.unit, self.adjacency):
            raise ValueError(
                f"a release for {release.unit}/{release.adjacency} cannot enter a ledger for {self.unit}/{self.adjacency}"
            )
        releases = (*self.releases, release)
        after = replace(self, releases=releases).spent
        if not after <= self.budget:
            raise BudgetExceeded(
                f"{release.covers} would take client {self.client} from epsilon {self.spent:.4g} to {after:.4g}, "
                f"{PAST_BUDGET} of {self.budget:.4g} at delta {self.delta:.1g}"
            )
        return replace(self, releases=releases)

    def without(self, *disclosures: str) -> Self:
        """The ledger that also names these disclosures as not covered."""
        new = tuple(words for words in dict.fromkeys(disclosures) if words not in self.not_covered)
        return replace(self, not_covered=self.not_covered + new)

    @property
    def spent(self) -> float:
        """Epsilon so far, at the budget's delta."""
        return self.epsilon(self.delta)

    def epsilon(self, delta: float) -> float:
        """Epsilon of all releases together, at this delta."""
        return self._spent(delta).epsilon

    @property
    def bound(self) -> Bound:
        """Which bound of the accountant's `spent` is."""
        return self._spent(self.delta).bound

    def _spent(self, delta: float) -> Spent:
        return spent([release.event for release in self.releases], self.adjacency, delta)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` reads them back."""
        return {
            "client": self.client,
            "unit": self.unit,
            "adjacency": self.adjacency,
            "budget": self.budget,
            "delta": self.delta,
            "of": self.of,
            "acknowledged": list(self.acknowledged),
            "accountant": self.bound,
            "epsilon": self.spent,
            "releases": [release.as_dict() for release in self.releases],
            "not_covered": list(self.not_covered),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], *events: type[dp_accounting.DpEvent]) -> Self:
        """The ledger of `as_dict`, with its epsilon computed anew and its budget checked. Raises ValueError.

        events: classes of events that dp_accounting does not have.
        """
        ledger = cls(*(plain[name] for name in ("client", "unit", "adjacency", "budget", "delta")))
        ledger = replace(ledger, of=plain["of"], acknowledged=tuple(plain["acknowledged"]))
        releases = tuple(Release(**{**each, "event": _event_from_plain(each["event"], events)}) for each in plain["releases"])
        if releases:  # the last one checks the budget for all
            ledger = replace(ledger, releases=releases[:-1]) + releases[-1]
        return ledger.without(*plain["not_covered"])


def disjoint_epsilon(ledgers: Iterable[Ledger], delta: float) -> float:
    """Epsilon of several ledgers together when no unit is in more than one of them (parallel composition): the largest."""
    return max((ledger.epsilon(delta) for ledger in ledgers), default=0.0)


def _event_to_plain(value: Any) -> Any:
    """A DpEvent as {"class": its name, field: value ...}, recursively."""
    if isinstance(value, dp_event.DpEvent):
        fields = [attribute.name for attribute in type(value).__attrs_attrs__]
        return {"class": type(value).__name__} | {name: _event_to_plain(getattr(value, name)) for name in fields}
    if isinstance(value, list | tuple):
        return [_event_to_plain(item) for item in value]
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    raise ValueError(f"an event holds a {type(value).__name__}, which has no plain form; use Python numbers")


def _event_from_plain(value: Any, more: Sequence[type[dp_accounting.DpEvent]]) -> Any:
    """The DpEvent of `_event_to_plain`, if its class is one of dp_accounting's or of `more`. Raises ValueError for others."""
    if isinstance(value, Mapping):
        name = str(value["class"])
        known = (*more, SummedDiscreteGaussians)
        kind = next((kind for kind in known if kind.__name__ == name), getattr(dp_event, name, None))
        if not (isinstance(kind, type) and issubclass(kind, dp_event.DpEvent)):
            raise ValueError(f"{name} is not an event of dp_accounting; pass its class")
        return kind(**{key: _event_from_plain(item, more) for key, item in value.items() if key != "class"})
    return [_event_from_plain(item, more) for item in value] if isinstance(value, list) else value
