"""Claims as values: what is said to hold of a protection, against whom, and by which experiment it would fall."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from .observer import Observer
from .scoring import Leakage

Verdict = Literal["refuted", "not refuted", "inconclusive", "not covered"]
Whose = Literal["Cloister", "paper"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """id: how a threat model names it. statement: in words, of the whole run. whose: who says so.

    applies: whether it is about a run under this protection of this algorithm. adversary: whether it is about this observer.
    side_information: what the adversary knows beside its view. experiment: the name of the one that would refute it. bound: on
    the normalised leakage, 0 for what the published sums tell and 1 for what the updates tell.
    """

    id: str
    statement: str
    whose: Whose
    applies: Callable[[Any, Any], bool] = field(repr=False)
    adversary: Callable[[Observer], bool] = field(repr=False)
    side_information: str
    experiment: str
    bound: float


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim against what was measured. witness: what refutes it, or what it would take to know, in words."""

    claim: Claim
    verdict: Verdict
    witness: str


def judged(claim: Claim, found: Leakage | None, worst: tuple[int, float] | None = None, victims: Sequence[int] = ()) -> Judged:
    """The verdict; "not refuted" is never "proven". worst: the victim of whom most was found, and how much. victims: all ids.

    Refuted where the whole interval is above the bound, or where single victims are exposed: a claim is of each of them.
    Not refuted where its upper bound is not above; everything between, and all where the attack does not even succeed in
    clear, is inconclusive.
    """
    if found is None:
        return Judged(claim, "not covered", f"no experiment on {claim.experiment} could be made of this run")
    if not found.valid:
        apart = max(0.0, found.plain - found.aggregate)
        return Judged(
            claim, "inconclusive", f"in clear the attack finds but {apart:.2f} more than sums tell: its failing says nothing"
        )
    most = "" if worst is None else f"; worst off: client {worst[0]}, {worst[1]:.2f}"
    if found.exposed:
        named = ", ".join(sorted({f"client {victims[k]}" if victims else f"victim {k}" for k in found.exposed})[:3])
        share = f"{len(found.exposed)} of {found.victims} victims exposed ({named})"
        return Judged(claim, "refuted", f"{share}, {found.value:.3f} of what there is to find on the mean{most}")
    if found.low > claim.bound:
        return Judged(claim, "refuted", f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}] of what there is to find{most}")
    if found.upper <= claim.bound:
        return Judged(claim, "not refuted", f"at most {found.upper:.3f} of what there is to find, at 95 %{most}")
    settle = f"about {found.needed} victims would tell" if found.needed else "more victims would not tell at this value"
    return Judged(claim, "inconclusive", f"up to {found.upper:.3f} with {found.victims} victims; {settle}{most}")
