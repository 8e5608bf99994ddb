"""What can be known of a run before it is trained: sums that no cohort could have, splits that could never be served."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any

from ...protocol.masked.graph import fewest
from ...protocol.masked.protection import Masked
from ...protocol.view.functionality import Functionality
from ..algorithms.cfl import CFL, ScaleFree
from ..algorithms.cohorts import Sampling, cohort_sizes
from ..algorithms.fedsac import ENOUGH, FedSaC
from ..algorithms.hardened_flic import HardenedFLIC
from ..algorithms.pfed_graph import PFedGraph
from ..fields_at_fault import about
from .grouping_check import late_grouping
from .scenario import Scenario

GROUPS = frozenset({Functionality.GRAM, Functionality.GRAM_ORIGIN, Functionality.GRAM_EDGE, Functionality.GRAM_RECALL,
                    Functionality.GRAM_REMEMBER, Functionality.SLOTS, Functionality.CHOICE, Functionality.PAIRS})  # fmt: skip
"""Who asks for one of these puts clients into groups, each with sums of its own."""
SUMMED = frozenset({Functionality.SUMS, Functionality.SLOTS})
"""Who asks for one of these gets sums, none below the floor."""


class Doubt(UserWarning):
    """Something in a scenario cannot come to anything; the run is played all the same."""


def check_feasible(scenario: Scenario, clients: int, samples: Iterable[int] | None = None) -> None:
    """Raises ValueError where no sum of these many clients is ever opened, so that nothing could be learned.

    samples: how many each has; None where that is not known.
    """
    floor, corrupt = getattr(scenario.protection, "floor", 0), getattr(scenario.protection, "corrupt", 0)
    if floor > 1 and scenario.algorithm.needs & SUMMED and clients < floor + corrupt:
        of = f" ({floor}, and {corrupt} corrupt)" if corrupt else ""
        who = f"{clients} client{'s are' if clients != 1 else ' is'}"
        with about("protection"):
            raise ValueError(
                f"{who} below the floor of {floor + corrupt}{of}: no sum is ever opened; take more clients, or a lower"
                f" protection.floor{' or protection.corrupt' if corrupt else ''}"
            )
    counted = Functionality.SUMS in scenario.algorithm.needs and getattr(scenario.algorithm, "by_samples", False)
    if isinstance(scenario.protection, Masked) and samples is not None and counted:
        sizes = sizes_of_sums(scenario, clients)
        with about("protection"):
            _check_counted(scenario.protection, sorted(samples, reverse=True)[: max(sizes)])


def fewest_in_a_sum(scenario: Scenario) -> int:
    """How many clients have to be there for any sum: floor and corrupt, under `Masked` as many as masks can hide; 0 where nothing
    is summed, or no floor is kept.
    """
    floor, corrupt = getattr(scenario.protection, "floor", 0), getattr(scenario.protection, "corrupt", 0)
    if floor < 2 or not scenario.algorithm.needs & SUMMED:
        return 0
    least = floor + corrupt
    return fewest(least, corrupt, scenario.protection.dropped) if isinstance(scenario.protection, Masked) else least


def sizes_of_sums(scenario: Scenario, clients: int) -> tuple[int, ...]:
    """How many clients are in a sum while there is one cluster, of so many in all."""
    algorithm: Any = scenario.algorithm
    share: float = getattr(algorithm, "participation", 1.0)
    sampling: Sampling = getattr(algorithm, "sampling", "cohorts")
    return cohort_sizes(clients, share, sampling, max(fewest_in_a_sum(scenario), getattr(algorithm, "least", 1)))


def _check_counted(protection: Masked, samples: list[int]) -> None:
    """Raises ValueError where corrupt clients could claim more samples than all in a sum have: no client would give its count."""
    claimed = protection.corrupt * protection.max_samples
    if protection.corrupt and sum(samples) <= claimed:
        raise ValueError(
            f"sums count samples: {len(samples)} clients have {sum(samples):,} together, and {protection.corrupt} corrupt may"
            f" claim {claimed:,}, so that no sum is ever opened. Bring protection.max_samples ({protection.max_samples:,}) near"
            f" what the largest client has ({max(samples):,}), or take algorithm.by_samples=False, or a lower protection.corrupt"
        )


NOISE_OF = "protection.noise is made for"
"""How a doubt begins that budgets may be spent before the run is over."""


def doubts(scenario: Scenario, clients: int, groups: Mapping[int, int]) -> list[str]:
    """A line for each. clients: how many there are in all. groups: those planted, by client, or empty."""
    return list(dict.fromkeys(_doubts(scenario, clients, groups)))


def _doubts(scenario: Scenario, clients: int, groups: Mapping[int, int]) -> Iterator[str]:
    protection: Any = scenario.protection
    floor, corrupt = getattr(protection, "floor", 0), getattr(protection, "corrupt", 0)
    yield from _weak_delta(scenario, clients)
    made_for = getattr(getattr(protection, "noise", None), "rounds", scenario.rounds)
    if made_for < scenario.rounds and Functionality.SUMS in scenario.algorithm.needs:
        yield (
            f"{NOISE_OF} {made_for} rounds, and the run has {scenario.rounds}: budgets may be spent before"
            f" it is over, and nothing is learned then; take protection.noise.rounds={scenario.rounds}"
        )
    yield from _no_shares(scenario.algorithm)
    yield from filter(None, [late_grouping(scenario)])
    if floor > 1:
        yield from _uneven(scenario.algorithm, floor + corrupt)
    if isinstance(protection, Masked) and isinstance(scenario.algorithm, FedSaC) and protection.sketch < ENOUGH:
        yield (
            f"cosines of {protection.sketch} measurements may lead FedSaC to mix groups for good, and clients that train"
            f" alone were better off then: take protection.sketch={ENOUGH} or more"
        )
    if not (least := fewest_in_a_sum(scenario)):
        return
    why = f"the floor of {floor + corrupt}" + (f" ({floor}, and {corrupt} corrupt)" if corrupt else "")
    if least > floor + corrupt:
        why = f"the {least} that can be masked together with {corrupt} corrupt and {100 * protection.dropped:.0f} % dropped"
    if isinstance(scenario.algorithm, CFL) and clients < 2 * least:
        yield (
            f"every split of {clients} clients leaves a side below {why}, and is turned down: take {2 * least} clients or more"
            f"{_within(scenario, clients // 2)}"
        )
    sizes = Counter(groups.values())
    if scenario.algorithm.needs & GROUPS and sizes and (small := min(sizes.values())) < least:
        yield (
            f"a planted group has {small} clients, which is below {why}: {_by_itself(scenario.algorithm)}; take larger groups"
            f"{_within(scenario, small)}"
        )


def _within(scenario: Scenario, room: int) -> str:
    """Fields of the protection that let sums be of so many clients, each by itself, with values that just do: ", or ..." each.

    Fewer corrupt clients are named where nothing else does: how many collude is not for a run to choose.
    """
    protection: Any = scenario.protection
    tried: dict[str, Iterable[float]] = {"floor": range(protection.floor - 1, 1, -1)}
    corrupt: int = getattr(protection, "corrupt", 0)
    if isinstance(protection, Masked):
        tried["dropped"] = [share for share in (0.2, 0.15, 0.1, 0.05, 0.0) if share < protection.dropped]
    ways = [f"{name}={value:g}" for name in tried if (value := _first(scenario, name, tried[name], room)) is not None]
    if not ways and (value := _first(scenario, "corrupt", range(corrupt - 1, -1, -1), room)) is not None:
        return (
            f", or, where {'nobody colludes' if value == 0 else f'no more than {value:g} collude'}, protection.corrupt={value:g}"
        )
    return "".join(f", or protection.{way}" for way in ways)


def _first(scenario: Scenario, name: str, values: Iterable[float], room: int) -> float | None:
    """Of values of a field of the protection, the first by which a sum of so many clients is opened and that goes together with
    the rest; None where there is none.
    """
    protection: Any = scenario.protection
    for value in values:
        with suppress(ValueError):
            other = replace(scenario, protection=replace(protection, **{name: value}))
            if 0 < fewest_in_a_sum(other) <= room:
                return value
    return None


def _weak_delta(scenario: Scenario, clients: int) -> Iterator[str]:
    """Where a delta is so large that giving away some records, or clients, as they are would keep it."""
    privacy, noise = scenario.training.privacy, getattr(scenario.protection, "noise", None)
    if privacy is not None and privacy.records is not None and privacy.delta > 1 / privacy.records:
        yield _weak("training.privacy", privacy.delta, privacy.records, "record", "records of a client")
    delta = getattr(noise, "delta", None)
    if delta is not None and delta > 1 / clients:
        yield _weak("protection.noise", delta, clients, "client", "clients")


def _weak(field: str, delta: float, count: int, what: str, several: str) -> str:
    return (
        f"{field}.delta is {delta:g}, above 1 / {count}: to give one of {count} {several} away as it is, drawn by chance, keeps"
        f" such a promise, so that its epsilon says little of a {what}; take a delta far below {1 / count:.2g}"
    )


def _uneven(algorithm: object, least: int) -> Iterator[str]:
    """Means for single clients in which one of the others outweighs the rest: weights differ by cosines over twice `lam`."""
    if isinstance(algorithm, PFedGraph):
        lam, change = algorithm.lam, f"a larger algorithm.lam, such as {least}"
    elif isinstance(algorithm, FedSaC):
        lam, change = 1 / max(algorithm.l1 + algorithm.l2, 1e-9), "smaller algorithm.l1 and algorithm.l2"
    else:
        return
    if lam < least:
        yield (
            f"a client's mean in which another one has more than 1/{least} of the squared weights is not opened, and with"
            f" weights as uneven as these many clients go on by themselves: take {change}, or a lower protection.floor"
        )


def _no_shares(algorithm: object) -> Iterator[str]:
    """Thresholds that are shares, above 1: as percentages would be. Who says infinity means always, or never."""
    thresholds = algorithm.thresholds if isinstance(algorithm, CFL) else None
    if not isinstance(thresholds, ScaleFree):
        return
    where = "algorithm.thresholds"
    if 1 < thresholds.eps1 < inf:
        yield f"{where}.eps1 is {thresholds.eps1:g}, and no mean of updates is longer than they are: every cluster looks settled"
    if 1 < thresholds.eps2 < inf:
        yield (
            f"{where}.eps2 is {thresholds.eps2:g}: a cluster is split while its updates are longer than {thresholds.eps2:g} times"
            " those of the first round, which they hardly ever are; it is a share, 0.74 for instance"
        )


def _by_itself(algorithm: object) -> str:
    """What becomes of a group that is too small for a sum."""
    if isinstance(algorithm, CFL | HardenedFLIC):
        return "it gets no model of its own"
    if getattr(algorithm, "alone_if_few", False):
        return "each of its clients trains alone"
    return "by itself it is trained no more"
