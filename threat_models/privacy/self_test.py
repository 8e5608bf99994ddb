"""The auditors' own test: shipped code is never flagged, and every fault that is put into it is, by the auditor named for it.

Correct code is audited once a seed, by every auditor that holds for it, each time at a confidence such that all of these audits
together are right with probability `JOINT`. Faults are audited at the same confidence, so that the two are judged alike.

What it cannot see, at 1,000 trials and 20 seeds: noise that is there, and a little too small. It was flagged in three of three
tries at half of the noise where trials are repeated, and in five of five at a fifth of it in one run; not at 0.7 and 0.3.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .bound import LowerBound
from .fault import Fault
from .faults import FAULTS
from .head_release import head_gradients
from .local_training import loop, sampled, stacked
from .mechanism import Auditor, InOneRun, Mechanism
from .noisy_sum import noisy_sum
from .pair_releases import clouds, mean_sketch

JOINT = 0.999

Audited = Mechanism | InOneRun

SHIPPED: tuple[Callable[[], Audited], ...] = (
    noisy_sum,
    mean_sketch,
    clouds,
    head_gradients,
    stacked,
    sampled,
    loop,
)
"""What is audited: functions that build a mechanism from shipped code, as it is when they are called. To add one, write
such a function beside these, name its faults in `faults.FAULTS`, and put it here."""


@dataclass(frozen=True, slots=True)
class Row:
    """One audit. fault: what was put into the code, or None. claimed, bound: epsilon at the mechanism's delta."""

    mechanism: str
    fault: str | None
    auditor: Auditor
    seed: int
    claimed: float
    bound: float
    confidence: float

    @property
    def flagged(self) -> bool:
        return self.bound > self.claimed

    @property
    def right(self) -> bool:
        """Faults are flagged, and correct code is not."""
        return self.flagged == (self.fault is not None)

    def __str__(self) -> str:
        what = f"{self.mechanism}, {self.fault or 'as shipped'}"
        verdict = ("flagged" if self.flagged else "not flagged") + ("" if self.right else ": WRONG")
        return f"{what}: {verdict} by {self.auditor}, epsilon at least {self.bound:.3g}, claimed {self.claimed:.3g}"


def self_test(
    trials: int = 1000,
    seeds: Iterable[int] = range(20),
    shipped: Iterable[Callable[[], Audited]] = SHIPPED,
    faults: Iterable[Fault] = FAULTS,
) -> tuple[Row, ...]:
    """All audits. trials: on each side of a neighbouring pair. seeds: one repetition of correct code for each; faults are played
    with the first. Whether it passed: `all(row.right for row in rows)`."""
    return tuple(rows(trials, seeds, shipped, faults))


def rows(
    trials: int,
    seeds: Iterable[int],
    shipped: Iterable[Callable[[], Audited]] = SHIPPED,
    faults: Iterable[Fault] = FAULTS,
) -> Iterator[Row]:
    """As `self_test`, one by one. Raises ValueError without seeds, and for a fault of a mechanism that is not there."""
    numbers, built = tuple(seeds), [(make(), make) for make in shipped]
    if not numbers:
        raise ValueError("a self-test needs a seed")
    makers = {mechanism.name: make for mechanism, make in built}
    audits = len(numbers) * sum(len(_auditors(mechanism)) for mechanism, _ in built)
    confidence = 1 - (1 - JOINT) / audits
    for mechanism, _ in built:
        for seed in numbers:
            yield from _audited(mechanism, None, _auditors(mechanism), trials, seed, confidence)
    for fault in faults:
        if fault.mechanism not in makers:
            raise ValueError(f"{fault.name} is a fault of {fault.mechanism}, which is not audited")
        with fault.injected():
            yield from _audited(makers[fault.mechanism](), fault.name, (fault.auditor,), trials, numbers[0], confidence)


def _auditors(mechanism: Audited) -> tuple[Auditor, ...]:
    """All that hold for it."""
    if isinstance(mechanism, InOneRun):
        return ("one run",)
    return ("GDP", "Clopper-Pearson") if mechanism.gaussian else ("Clopper-Pearson",)


def _audited(
    mechanism: Audited, fault: str | None, auditors: tuple[Auditor, ...], trials: int, seed: int, confidence: float
) -> Iterator[Row]:
    found: dict[Auditor, LowerBound]
    if isinstance(mechanism, InOneRun):
        found = {"one run": mechanism.audit(seed, confidence)}
    else:
        observed = mechanism.observe(trials, seed)
        found = {auditor: observed.lower_bound(auditor, confidence) for auditor in auditors}
    for auditor, bound in found.items():
        yield Row(mechanism.name, fault, auditor, seed, mechanism.epsilon, bound.epsilon, confidence)
