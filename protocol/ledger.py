"""The privacy ledger: what one client's unit has spent, checked before anything more is released.

What happened (`Release`, around a `dp_accounting.DpEvent`) is apart from what it costs (the accountant). Any event goes in:
Gaussians, DP-SGD (a Poisson-sampled Gaussian, self-composed), zCDP, sampling without replacement, compositions; what the
accountant does not know it refuses. Use a ledger in this order, so that what is refused was never released:

    ledger = ledger + release      # raises BudgetExceeded
    publish(value + noise)
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import dp_accounting
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

Unit = Literal["client", "record", "attribute"]
Adjacency = Literal["add or remove", "replace", "zero out"]
Accountant = Literal["rdp", "pld"]

_RELATIONS = {
    "add or remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace": dp_accounting.NeighboringRelation.REPLACE_ONE,
    "zero out": dp_accounting.NeighboringRelation.REPLACE_SPECIAL,
}


class BudgetExceeded(ValueError):
    """The release would take the client past its budget, so it must not happen."""


class UnknownEvent(ValueError):
    """The ledger's accountant cannot account for this event under this adjacency."""


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

    not_covered: what is disclosed about the client without any noise, in words (cohort, cluster membership, norms, timing).
    Formal guarantee: the releases together are (epsilon(delta), delta)-differentially private for the unit, if each of them is
    what its event says; later ones may depend on earlier ones. Nothing in `not_covered` is protected.
    """

    client: int
    unit: Unit
    adjacency: Adjacency
    budget: float
    delta: float
    accountant: Accountant = "rdp"
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
        after = _epsilon(releases, self.adjacency, self.accountant, self.delta)
        if not after <= self.budget:
            raise BudgetExceeded(
                f"{release.covers} would take client {self.client} from epsilon {self.spent:.4g} to {after:.4g}, "
                f"past its budget of {self.budget:.4g} at delta {self.delta:.1g}"
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
        return _epsilon(self.releases, self.adjacency, self.accountant, delta)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` reads them back."""
        return {
            "client": self.client,
            "unit": self.unit,
            "adjacency": self.adjacency,
            "budget": self.budget,
            "delta": self.delta,
            "accountant": self.accountant,
            "epsilon": self.spent,
            "releases": [release.as_dict() for release in self.releases],
            "not_covered": list(self.not_covered),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any], *events: type[dp_accounting.DpEvent]) -> Self:
        """The ledger of `as_dict`, with its epsilon computed anew and its budget checked. Raises ValueError.

        events: classes of events that dp_accounting does not have.
        """
        ledger = cls(*(plain[name] for name in ("client", "unit", "adjacency", "budget", "delta", "accountant")))
        releases = tuple(Release(**{**each, "event": _event_from_plain(each["event"], events)}) for each in plain["releases"])
        if releases:  # the last one checks the budget for all
            ledger = replace(ledger, releases=releases[:-1]) + releases[-1]
        return ledger.without(*plain["not_covered"])


def disjoint_epsilon(ledgers: Iterable[Ledger], delta: float) -> float:
    """Epsilon of several ledgers together when no unit is in more than one of them (parallel composition): the largest."""
    return max((ledger.epsilon(delta) for ledger in ledgers), default=0.0)


def _epsilon(releases: Sequence[Release], adjacency: Adjacency, accountant: Accountant, delta: float) -> float:
    if not releases:
        return 0.0
    relation = _RELATIONS[adjacency]
    account = RdpAccountant(neighboring_relation=relation) if accountant == "rdp" else PLDAccountant(relation)
    times: list[tuple[Release, int]] = []  # equal events are composed at once, which is much faster
    for release in releases:
        known = next((at for at, (other, _) in enumerate(times) if other.event == release.event), None)
        if known is None:
            times.append((release, 1))
        else:
            times[known] = (times[known][0], times[known][1] + 1)
    for release, count in times:
        event = _relative_to_norm(release.event) if (accountant, adjacency) == ("pld", "replace") else release.event
        if not account.supports(event):
            name = type(release.event).__name__
            raise UnknownEvent(f"the {accountant} accountant does not know {name} of {release.covers} under '{adjacency}'")
        account.compose(event, count)
    return float(account.get_epsilon(delta))


def _relative_to_norm(event: dp_accounting.DpEvent) -> dp_accounting.DpEvent:
    """The event with noise relative to one record's norm C instead of to the sensitivity 2C of replacing it.

    The PLD accountant of dp_accounting reads events so under replacement, where the RDP accountant reads them as they are: the
    same `GaussianDpEvent` costs twice the noise in one of them. Events that are not known to follow this are refused.
    """
    match event:
        case dp_event.GaussianDpEvent(noise_multiplier=noise):
            return dp_event.GaussianDpEvent(2 * noise)
        case dp_event.PoissonSampledDpEvent(sampling_probability=probability, event=inner):
            return dp_event.PoissonSampledDpEvent(probability, _relative_to_norm(inner))
        case dp_event.SelfComposedDpEvent(event=inner, count=count):
            return dp_event.SelfComposedDpEvent(_relative_to_norm(inner), count)
        case dp_event.ComposedDpEvent(events=events):
            return dp_event.ComposedDpEvent([_relative_to_norm(inner) for inner in events])
        case dp_event.NoOpDpEvent() | dp_event.NonPrivateDpEvent():
            return event
    return dp_event.UnsupportedDpEvent()


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
        kind = next((kind for kind in more if kind.__name__ == name), getattr(dp_event, name, None))
        if not (isinstance(kind, type) and issubclass(kind, dp_event.DpEvent)):
            raise ValueError(f"{name} is not an event of dp_accounting; pass its class")
        return kind(**{key: _event_from_plain(item, more) for key, item in value.items() if key != "class"})
    return [_event_from_plain(item, more) for item in value] if isinstance(value, list) else value


def closeness(variance: float, clients: int) -> float:
    """tau of Kairouz, Liu and Steinke 2021: how far the sum of `clients` discrete Gaussians is from one discrete Gaussian.

    tau = 10 sum_{k=1}^{n-1} exp(-2 pi^2 variance k / (k + 1)), for the variance of each and variance >= 1/4 (Proposition 14).
    """
    return 10 * math.fsum(math.exp(-2 * math.pi**2 * variance * k / (k + 1)) for k in range(1, clients))


def summed_discrete_gaussians(
    *, variance: float, honest: int, dimension: int, l2: float, l1: float | None = None
) -> dp_accounting.DpEvent:
    """The event of publishing an integer vector plus the sum of `honest` independent discrete Gaussians of this variance each.

    honest: clients that survive and add their noise as they should; noise of others counts for nothing. dimension: of the
    vector. l2, l1: sensitivities in the integer grid, after rounding (`rounded_l2`); l1 is at most min(sqrt(dimension) l2, l2^2).

    Kairouz, Liu and Steinke 2021, "The distributed discrete Gaussian mechanism for federated learning with secure aggregation",
    Proposition 14: for the sum Z of n vectors of discrete Gaussians of parameter s^2 >= 1/4 and integer shifts v, for all a >= 1,

        D_a(Z || Z + v) <= min { a |v|_2^2 / (2 n s^2) + tau d,
                                 a/2 (|v|_2^2 / (n s^2) + 2 |v|_1 tau / (sqrt(n) s) + tau^2 d),
                                 a/2 (|v|_2 / (sqrt(n) s) + tau sqrt(d))^2 },

    with tau from `closeness`. All three are (xi, rho)-zCDP; the one that is least at order 10 is taken. One summand is a
    discrete Gaussian itself (tau = 0), with rho = l2^2 / 2 s^2 exactly as for the continuous one (Canonne et al. 2020).
    """
    if honest < 1 or dimension < 1 or l2 <= 0:
        raise ValueError("noise needs at least one honest client, one dimension and a sensitivity above 0")
    if variance < 0.25:
        raise ValueError(f"the bound holds for a variance of at least 1/4, not {variance}; scale the values up")
    tau, scale = closeness(variance, honest), l2 / math.sqrt(honest * variance)
    l1_scale = min(math.sqrt(dimension) * l2, l2**2, math.inf if l1 is None else l1) / math.sqrt(honest * variance)
    bounds = (
        (scale**2 / 2, tau * dimension),
        ((scale**2 + 2 * l1_scale * tau + tau**2 * dimension) / 2, 0.0),
        ((scale + tau * math.sqrt(dimension)) ** 2 / 2, 0.0),
    )
    rho, xi = min(bounds, key=lambda bound: 10 * bound[0] + bound[1])
    return dp_accounting.ZCDpEvent(rho=rho, xi=xi)


def rounded_l2(l2: float, dimension: int, beta: float) -> float:
    """L2 bound, in the grid, of a vector of L2 norm `l2` in the grid after conditional stochastic rounding with parameter beta.

    min { l2 + sqrt(d), sqrt(l2^2 + d/4 + sqrt(2 ln(1/beta)) (l2 + sqrt(d) / 2)) } (Kairouz, Liu and Steinke 2021, Theorem 1
    with the grid as unit). Clients repeat the rounding until the bound holds; beta = exp(-1/2) is the paper's choice.
    """
    if not 0 < beta < 1:
        raise ValueError(f"beta lies between 0 and 1, not {beta}")
    root = math.sqrt(dimension)
    return min(l2 + root, math.sqrt(l2**2 + dimension / 4 + math.sqrt(2 * math.log(1 / beta)) * (l2 + root / 2)))
