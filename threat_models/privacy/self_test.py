"""The auditors' own test: shipped code is never flagged, and every fault that is put into it is, by the auditor named for it.

Correct code is audited once a seed, by the auditor that is named for it, each time at a confidence such that all of these audits
together are right with probability `JOINT`. Faults are audited at the same confidence, so that the two are judged alike.

Claims are large where the noise is Gaussian and trials are repeated, so that noise that is a little too small shows: half of it
does in noisy sums, mean sketches and DP-SGD without sampling, .7 of it in the last of these. Not seen is half of the noise where
records are sampled, and a fifth of it in one run (of head gradients, a twentieth); `examples/results/privacy_audit.md` has more.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .central_sum import central_sum
from .distance_releases import distances
from .fault import Fault
from .faults import FAULTS
from .head_release import head_gradients
from .local_training import loop, rare, sampled, stacked
from .mechanism import Auditor, InOneRun, Mechanism
from .names import MECHANISMS, check_mechanisms
from .noisy_sum import noisy_sum
from .pair_releases import clouds, mean_sketch

JOINT = 0.999
TRIALS = 400
"""On each side of a neighbouring pair; `Fault.times` says where a fault takes more."""

Audited = Mechanism | InOneRun

SHIPPED: tuple[Callable[[], Audited], ...] = (
    noisy_sum,
    central_sum,
    mean_sketch,
    clouds,
    distances,
    head_gradients,
    stacked,
    sampled,
    rare,
    loop,
)
"""What is audited: functions that build a mechanism from shipped code, as it is when they are called. To add one, write
such a function beside these, its name in `names.py`, name its faults in `faults.FAULTS`, and put it here."""
QUICK: tuple[Fault, ...] = tuple(fault for fault in FAULTS if fault.times == 1)
"""Faults that show in as few trials as any."""


@dataclass(frozen=True, slots=True)
class Row:
    """One audit. fault: what was put into the code, or None. claimed, bound: epsilon at the mechanism's delta, for one unit."""

    mechanism: str
    fault: str | None
    auditor: Auditor
    seed: int
    claimed: float
    bound: float
    confidence: float
    delta: float
    unit: str = ""

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


def named(only: Iterable[str], faults: Iterable[Fault]) -> tuple[tuple[Callable[[], Audited], ...], tuple[Fault, ...]]:
    """Of `SHIPPED` those that build mechanisms of these names, and their faults; all where there are none. Raises ValueError."""
    wanted = set(only)
    check_mechanisms(wanted)
    makers = dict(zip(MECHANISMS, SHIPPED, strict=True))
    chosen = {name: make for name, make in makers.items() if not wanted or name in wanted}
    return tuple(chosen.values()), tuple(fault for fault in faults if fault.mechanism in chosen)


def self_test(
    trials: int = TRIALS,
    seeds: Iterable[int] = range(20),
    shipped: Iterable[Callable[[], Audited]] = SHIPPED,
    faults: Iterable[Fault] = FAULTS,
    fault_seeds: int = 1,
) -> tuple[Row, ...]:
    """All audits. trials: on each side of a neighbouring pair. seeds: one repetition of correct code for each; every fault is
    played with the first `fault_seeds` of them. Whether it passed: `all(row.right for row in rows)`."""
    return tuple(rows(trials, seeds, shipped, faults, fault_seeds))


def rows(
    trials: int,
    seeds: Iterable[int],
    shipped: Iterable[Callable[[], Audited]] = SHIPPED,
    faults: Iterable[Fault] = FAULTS,
    fault_seeds: int = 1,
) -> Iterator[Row]:
    """As `self_test`, one by one. Raises ValueError without seeds, and for a fault of a mechanism that is not there."""
    numbers, built = tuple(seeds), [(make(), make) for make in shipped]
    if not numbers or fault_seeds < 1:
        raise ValueError("a self-test needs a seed")
    makers = {mechanism.name: make for mechanism, make in built}
    confidence = 1 - (1 - JOINT) / (len(numbers) * len(built))
    for mechanism, _ in built:
        for seed in numbers:
            yield _audited(mechanism, None, mechanism.auditor, trials, seed, confidence)
    for fault in faults:
        if fault.mechanism not in makers:
            raise ValueError(f"{fault.name} is a fault of {fault.mechanism}, which is not audited")
        with fault.injected():
            faulty = makers[fault.mechanism]()
            for seed in numbers[:fault_seeds]:
                yield _audited(faulty, fault.name, fault.auditor, fault.times * trials, seed, confidence)


def _audited(mechanism: Audited, fault: str | None, auditor: Auditor, trials: int, seed: int, confidence: float) -> Row:
    if isinstance(mechanism, InOneRun):
        bound = mechanism.audit(seed, confidence)
    else:
        bound = mechanism.audit(trials, seed, confidence, auditor)
    return Row(
        mechanism.name, fault, auditor, seed, mechanism.epsilon, bound.epsilon, confidence, mechanism.delta, mechanism.unit
    )
