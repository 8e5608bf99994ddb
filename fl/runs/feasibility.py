"""What can be known of a run before it is trained: sums that no cohort could have, splits that could never be served."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import Any

from ...protocol.masked.graph import agreed
from ...protocol.masked.protection import Masked
from ...protocol.view.functionality import Functionality
from ..algorithms.algorithm import Sampling, cohort_sizes
from ..algorithms.cfl import CFL
from .scenario import Scenario

GROUPS = frozenset({Functionality.GRAM, Functionality.GRAM_ORIGIN, Functionality.GRAM_EDGE, Functionality.GRAM_RECALL,
                    Functionality.GRAM_REMEMBER, Functionality.SLOTS, Functionality.CHOICE, Functionality.PAIRS})  # fmt: skip
"""Who asks for one of these puts clients into groups, each with sums of its own."""


class Doubt(UserWarning):
    """Something in a scenario cannot come to anything; the run is played all the same."""


def check_feasible(scenario: Scenario, clients: int, samples: Iterable[int] | None = None) -> None:
    """Raises ValueError where no sum of these many clients is ever opened, so that nothing could be learned.

    samples: how many each has; None where that is not known.
    """
    floor, corrupt = getattr(scenario.protection, "floor", 0), getattr(scenario.protection, "corrupt", 0)
    if floor > 1 and Functionality.SUMS in scenario.algorithm.needs and clients < floor + corrupt:
        of = f" ({floor}, and {corrupt} corrupt)" if corrupt else ""
        who = f"{clients} client{'s are' if clients != 1 else ' is'}"
        raise ValueError(
            f"{who} below the floor of {floor + corrupt}{of}: no sum is ever opened; take more clients, or a lower"
            " protection.floor"
        )
    if isinstance(scenario.protection, Masked) and Functionality.SUMS in scenario.algorithm.needs:
        sizes = _cohorts(scenario, scenario.protection, clients)
        _check_masked(scenario.protection, sizes, clients)
        if samples is not None and getattr(scenario.algorithm, "by_samples", False):
            _check_counted(scenario.protection, sorted(samples, reverse=True)[: max(sizes)])


def _cohorts(scenario: Scenario, protection: Masked, clients: int) -> tuple[int, ...]:
    """How many clients are in a sum while there is one cluster."""
    algorithm: Any = scenario.algorithm
    share: float = getattr(algorithm, "participation", 1.0)
    sampling: Sampling = getattr(algorithm, "sampling", "cohorts")
    return cohort_sizes(clients, share, sampling, max(protection.rules.least, getattr(algorithm, "least", 1)))


def _check_masked(protection: Masked, sizes: tuple[int, ...], clients: int) -> None:
    """Raises ValueError where no cohort can be masked, whatever clients do: every sum would end below the floor."""
    reasons = []
    for size in sizes:
        try:
            agreed(size, protection.corrupt, protection.dropped)
        except ValueError as error:
            reasons.append(str(error))
        else:
            return
    enough = next((n for n in range(max(sizes) + 1, clients + 1) if _can_be_masked(n, protection)), None)
    raise ValueError(
        f"a cohort of {max(sizes)} of the {clients} clients cannot be masked, so that no sum is ever opened ({reasons[-1]}):"
        + (f" let at least {enough} take part (algorithm.participation)," if enough else " take more clients,")
        + " or lower protection.corrupt or protection.dropped"
    )


def _can_be_masked(clients: int, protection: Masked) -> bool:
    try:
        agreed(clients, protection.corrupt, protection.dropped)
    except ValueError:
        return False
    return True


def _check_counted(protection: Masked, samples: list[int]) -> None:
    """Raises ValueError where corrupt clients could claim more samples than all in a sum have: no client would give its count."""
    claimed = protection.corrupt * protection.max_samples
    if protection.corrupt and sum(samples) <= claimed:
        raise ValueError(
            f"sums count samples: {len(samples)} clients have {sum(samples):,} together, and {protection.corrupt} corrupt may"
            f" claim {claimed:,}, so that no sum is ever opened. Bring protection.max_samples ({protection.max_samples:,}) near"
            f" what the largest client has ({max(samples):,}), or take algorithm.by_samples=False"
        )


def doubts(scenario: Scenario, clients: int, groups: Mapping[int, int]) -> list[str]:
    """A line for each. clients: how many there are in all. groups: those planted, by client, or empty."""
    return list(dict.fromkeys(_doubts(scenario, clients, groups)))


def _doubts(scenario: Scenario, clients: int, groups: Mapping[int, int]) -> Iterator[str]:
    protection: Any = scenario.protection
    floor, corrupt = getattr(protection, "floor", 0), getattr(protection, "corrupt", 0)
    if floor < 2 or Functionality.SUMS not in scenario.algorithm.needs:
        return
    least, why = floor + corrupt, f"the floor of {floor + corrupt}" + (f" ({floor}, and {corrupt} corrupt)" if corrupt else "")
    if isinstance(scenario.algorithm, CFL) and clients < 2 * least:
        yield (
            f"a split of {clients} clients leaves a side below {why}, which is then trained no more: take {2 * least} clients or"
            " more, or a lower protection.floor"
        )
    sizes = Counter(groups.values())
    if scenario.algorithm.needs & GROUPS and sizes and (small := min(sizes.values())) < least:
        yield (
            f"a planted group has {small} clients, which is below {why}: by itself it is trained no more; take larger groups, or"
            " a lower protection.floor"
        )
    if isinstance(protection, Masked):
        share = float(getattr(scenario.algorithm, "participation", 1.0))
        whole = max(least, ceil(share * clients - 1e-9))
        small = min(sizes.values(), default=0)
        part = {"the smallest planted group": small} if small >= least else {"a cluster at the floor": least}
        cohorts = {"a cohort": whole, **part}
        yield from _unmasked(protection, cohorts, bool(scenario.algorithm.needs & GROUPS))


def _unmasked(protection: Masked, cohorts: Mapping[str, int], grouped: bool) -> Iterator[str]:
    """Sums that the solver of the masking graph finds no threshold for."""
    for what, size in cohorts.items():
        if what != "a cohort" and not grouped:
            continue
        try:
            agreed(size, protection.corrupt, protection.dropped)
        except ValueError as error:
            yield (
                f"{what}, of {size} clients, cannot be masked, and is not summed: {error}; take more clients, or a lower"
                " protection.corrupt or protection.dropped"
            )
