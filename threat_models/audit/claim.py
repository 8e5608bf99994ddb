"""Claims as values: what is said to hold of a protection, against whom, and by which experiment it would fall."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan
from typing import Any, Literal

from .experiment import Anchor, Examined
from .observer import Observer
from .scoring import Leakage, remedy
from .view import Public, PublishedSum

LEAST = 0.005
"""What is found of a victim beyond the anchor, to be worth its name: two digits are shown."""
Verdict = Literal["refuted", "not refuted", "inconclusive", "not covered"]
Whose = Literal["Cloister", "paper"]
Given = Callable[[Sequence[PublishedSum]], bool]


def always(sums: Sequence[PublishedSum]) -> bool:
    """Whatever was published."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """id: how a threat model names it. statement: in words, of the whole run. whose: who says so.

    applies: whether it is about a run under this protection of this algorithm. adversary: whether it is about this observer.
    side_information: what the adversary knows beside its view. experiment: the name of the one that would refute it. bound: on
    the normalised leakage, 0 for what the published sums tell and 1 for what the updates tell. where, who: the runs that it
    applies to and the adversary, in words. kin: whether a run is of the kind that it is about, be it that it applies or not.
    given: whether it is about a run in which these sums were published, as clients may have dropped out.
    """

    id: str
    statement: str
    whose: Whose
    applies: Callable[[Any, Any], bool] = field(repr=False)
    adversary: Callable[[Observer], bool] = field(repr=False)
    side_information: str
    experiment: str
    bound: float
    where: str = ""
    who: str = ""
    kin: Callable[[Any, Any], bool] = field(default=lambda protection, algorithm: False, repr=False)
    given: Given = field(default=always, repr=False)

    def about(self, public: Public, runs: Iterable[Sequence[PublishedSum]]) -> bool:
        """Whether it is about such recorded runs: of one scenario, with these sums each."""
        return self.applies(public.protection, public.algorithm) and all(map(self.given, runs))


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim against what was measured. witness: what refutes it, or what it would take to know, in words. upper: what was found
    at most, at 95 % one-sided; None where that says nothing."""

    claim: Claim
    verdict: Verdict
    witness: str
    upper: float | None = None


@dataclass(frozen=True, slots=True)
class Victim:
    """A client of the run of this seed. called: its name, if it has one."""

    client: int
    seed: int
    called: str = ""

    def __str__(self) -> str:
        name = f" ({self.called})" if self.called else ""
        return f"client {self.client}{name} of seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Worst:
    """The victim of whom most was found beyond the anchor. value, anchor, everything: of it, here, at the anchor and in clear; in
    `unit`. beside: what was found of all by another anchor that is shown with it, in words.
    """

    victim: Victim
    value: float
    anchor: float
    of: Anchor
    unit: str
    beside: str = ""
    everything: float = nan

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        of = {"client": self.victim.client} | ({"name": self.victim.called} if self.victim.called else {})
        clear = {"everything": self.everything} if isfinite(self.everything) else {}
        return of | {"seed": self.victim.seed, "value": self.value, "anchor": self.anchor} | clear

    def __str__(self) -> str:
        if self.value <= self.anchor + LEAST:
            return f"of nobody more was found than by {self.of}"
        return f"worst off: {self.victim}, {self.value:.2f} where {self.of} gives {self.anchor:.2f} ({self.unit})"


def judged(
    claim: Claim,
    found: Leakage | None,
    reason: str = "",
    worst: Worst | None = None,
    victims: Sequence[Victim] = (),
    seeds: int = 0,
) -> Judged:
    """The verdict; "not refuted" is never "proven". reason: why nothing was found. victims: of every value, in order. seeds:
    that were played, if not those of the victims.

    Refuted where the whole interval is above the bound, or where single victims are exposed: a claim is of each of them.
    Not refuted where its upper bound is not above; everything between, and all where the attack does not even succeed in
    clear, is inconclusive, with what it would take to know.
    """
    if found is None:
        return Judged(
            claim, "not covered", f"not tried: {reason or f'no experiment on {claim.experiment} could be made of this run'}"
        )
    seeds = seeds or len({victim.seed for victim in victims}) or 1
    if not found.valid and not found.lone:
        return Judged(claim, "inconclusive", remedy(found, seeds, claim.bound))
    upper = max(0.0, found.upper)
    beyond = "" if worst is None else f" beyond {worst.of}" + (f" ({worst.beside})" if worst.beside else "")
    most, claimed = "" if worst is None else f"; {worst}", f"at most {claim.bound:.2f} is claimed"
    if found.exposed:
        named = ", ".join([str(victims[k]) if victims else f"victim {k}" for k in found.exposed][:3])
        share = f"{len(found.exposed)} of {found.victims} victims exposed ({named}), {found.value:.3f} on the mean"
        return Judged(claim, "refuted", f"{share}, where {claimed} of each{most}", upper)
    if found.low > claim.bound:
        between = f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}]"
        return Judged(claim, "refuted", f"{between} was found{beyond}, where {claimed}{most}", upper)
    if found.upper <= claim.bound:
        at_most = f"at most {found.upper:.3f} was found{beyond}, at 95 % one-sided, where {claimed}"
        return Judged(claim, "not refuted", f"{at_most}{most}", upper)
    may = (
        f"{max(found.value, 0.0):.3f} was found{beyond}, which at 95 % one-sided may be up to {found.upper:.3f}, where {claimed}"
    )
    return Judged(claim, "inconclusive", f"{may}: {remedy(found, seeds, claim.bound)}{most}", upper)


def tested(claim: Claim, found: Sequence[Examined], seeds: Sequence[int]) -> Judged:
    """The verdict of exact tests, of each seed's run: refuted by any witness, and not covered where not all was looked at."""
    for seed, one in zip(seeds, found, strict=True):
        if one.witness:
            return Judged(claim, "refuted", f"seed {seed}: {one.witness}")
    for seed, one in zip(seeds, found, strict=True):
        if one.missed:
            rest = "" if one.nothing else f"; nothing in {one.looked}"
            return Judged(claim, "not covered", f"seed {seed}: not looked at: {one.missed}{rest}")
    looked = [f"seed {seed}: nothing in {one.looked}" for seed, one in zip(seeds, found, strict=True)]
    return Judged(claim, "not refuted", "; ".join(looked))
