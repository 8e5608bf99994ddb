"""Who has more than its share of the sums that count samples, so that every one with it is withheld.

While there is one cluster. How many samples others have is secret in a deployment: there a client can know no more than how many
they would have to have.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from ...protocol.core.errors import Refused
from ...protocol.masked.protection import Masked
from ...protocol.masked.weighing import COARSEST, WeightEncoding
from ...protocol.view.functionality import Functionality
from .feasibility import sizes_of_sums
from .scenario import Scenario

APART = frozenset({Functionality.PAIRS, Functionality.FUSION})
"""Who asks for one of these begins with clients that are alone, and has no sum of all."""


def least_share(scenario: Scenario) -> int:
    """A client may have 1 / so many of the squared weights of a sum; 0 where no sum counts samples, or any may be opened."""
    floor: int = getattr(scenario.protection, "floor", 0)
    corrupt: int = getattr(scenario.protection, "corrupt", 0)
    counted = Functionality.SUMS in scenario.algorithm.needs and getattr(scenario.algorithm, "by_samples", False)
    return 0 if floor < 2 or not counted or scenario.algorithm.needs & APART else floor + corrupt


def outweighing(scenario: Scenario, samples: Mapping[int, int]) -> tuple[int, ...]:
    """Clients with which no sum is opened, whoever else is in it. samples: of every client, those that come later too.

    Where not all take part in a round, a client is held against those that have the most.
    """
    if not least_share(scenario):
        return ()
    most = getattr(scenario.protection, "max_samples", max(samples.values()))
    there = {i: count for i, count in samples.items() if count <= most}  # others sit out, and say so
    largest, size = sorted(there, key=lambda i: -there[i]), max(sizes_of_sums(scenario, len(samples)))
    counts = {i: [there[i], *[there[j] for j in largest if j != i][: size - 1]] for i in largest[: size + 1]}
    return tuple(sorted(i for i, those in counts.items() if not _opened(scenario, there[i], those)))


def outweighed(scenario: Scenario, samples: Mapping[int, int], names: Mapping[int, str]) -> list[str]:
    """A line where there are such clients: who they are, and what to do. names: of those that have one."""
    if not (found := outweighing(scenario, samples)):
        return []
    one = len(found) == 1
    who = ", ".join(f"{names.get(i, str(i))} ({samples[i]:,})" for i in found[:4]) + (", ..." if len(found) > 4 else "")
    share = f"1/{least_share(scenario)} of the squares of all counts"
    protection: Any = scenario.protection
    claimed = protection.corrupt if isinstance(protection, Masked) else 0
    beside = f", beside what {claimed} corrupt may claim" if claimed else ""
    return [
        f"sums count samples, and of {sum(samples.values()):,} in all client{'' if one else 's'} {who} ha{'s' if one else 've'}"
        f" more than {share}{beside}: every sum with {'it' if one else 'one of them'} is withheld, and a run without a sum ends"
        f" by itself; take {' or '.join(_ways(scenario, samples))}"
    ]


def _ways(scenario: Scenario, samples: Mapping[int, int]) -> Iterator[str]:
    """What would do, by these numbers."""
    protection, most = scenario.protection, max(samples.values())
    yield "algorithm.by_samples=False"
    if isinstance(protection, Masked) and protection.corrupt and _helps(scenario, samples, max_samples=most):
        yield f"protection.max_samples near what the largest client has ({most:,})"
    lower = (floor for floor in range(getattr(protection, "floor", 0) - 1, 1, -1) if _helps(scenario, samples, floor=floor))
    yield from (f"protection.floor={floor}" for floor in islice(lower, 1))


def _helps(scenario: Scenario, samples: Mapping[int, int], **changed: int) -> bool:
    """Whether nobody would have too much of every sum if these fields of the protection were other ones."""
    protection: Any = scenario.protection
    try:
        other = replace(scenario, protection=replace(protection, **changed))
    except (ValueError, Refused):
        return False
    return not outweighing(other, samples)


TRIED = 256
"""Numbers of samples that are tried, each about 1.04 times the one before."""


def least_of_others(scenario: Scenario, clients: int, own: int) -> int | None:
    """How many samples each of the others needs, as many as one another, so that a sum of all with this client is opened.

    None where no number will do. own: how many it has itself. With too many each of the others weighs too much in turn, so that
    those that will do lie together, and may be as many as it has alone.
    """
    size = max(sizes_of_sums(scenario, clients))
    most = int(getattr(scenario.protection, "max_samples", own * size))

    def opened(others: int) -> bool:
        return _opened(scenario, max(own, others), [own] + [others] * (size - 1))

    tried = sorted({1, own, most, *(round(most ** (k / TRIED)) for k in range(TRIED))})
    fits = next((others for others in tried if others <= most and opened(others)), None) if own <= most else None
    if fits is None:
        return None
    low, high = max((others for others in tried if others < fits), default=0) + 1, fits
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if opened(middle) else (middle + 1, high)
    return low


def _opened(scenario: Scenario, own: int, counts: list[int]) -> bool:
    """Whether a client of so many samples lets a sum be opened, whose clients have these, where all of them answer."""
    if not isinstance(scenario.protection, Masked):
        return least_share(scenario) * own * own <= sum(n * n for n in counts) * (1 + COARSEST)
    weights = [n / scenario.protection.max_samples for n in counts]
    sums = math.fsum(weights), math.fsum(a * a for a in weights)
    weighing = WeightEncoding((1.0,) * len(counts), scenario.protection.rules)
    return weighing.holds(own / scenario.protection.max_samples, sums, len(counts), len(counts))
