"""Which clients attack: drawn from the run's seed, or chosen by what they hold, or by their ids."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...fl.data.population import Client, Population
from ...fl.fields_at_fault import about
from ...fl.runs.parties import seed_of
from ...fl.runs.scenario import Scenario
from ..membership import Fixed, Members, Pool
from .fields import Numbers

WHICH, FIRST = "which", "which.first"
"""Numbers of a point: who attacks, and of those who are chosen by id the place of the first, from 0."""
ANY, FROM, HOLDERS = "any", "from", "holders"


def population_of(scenario: Scenario, data: Path | None) -> Population:
    """The clients of a run with their data, without the run."""
    rng = np.random.default_rng(seed_of(scenario.seed, "partition"))
    with about("data"):
        source = scenario.data(data)
    with about("partition"):
        return scenario.partition(source, rng)


def who(numbers: Numbers) -> Numbers:
    """Who attacks at a point, as the part of its numbers that says so."""
    return {WHICH: numbers.get(WHICH, ANY), **({FIRST: numbers[FIRST]} if FIRST in numbers else {})}


def members(which: str, count: int, clients: Mapping[int, Client], first: int = 0) -> Members:
    """So many clients: "any", drawn from the run's seed, or those with the "most", the "fewest" or the "oddest" examples, the
    "holders" of labels 0 and 1, or "from" a place on: they follow each other in the order of ids, after the last of which comes
    the first again.

    Odd: by the distance of the client's shares of the labels from those of all. Holders have the most examples of the two labels
    that `SwappedLabels` exchanges by default. Equals are taken by id.
    """
    if which == ANY:
        return Pool(count)
    ids = sorted(clients)
    if which == FROM:
        return Fixed(tuple(sorted({ids[(first + k) % len(ids)] for k in range(count)})))
    sizes = {i: len(clients[i].train) for i in ids}
    odd = dict(zip(ids, oddness(clients).tolist(), strict=True))
    held = dict(zip(ids, counts_of_labels(clients)[:, :2].sum(axis=1).tolist(), strict=True))
    order: dict[str, Callable[[int], float]] = {
        "most": lambda i: -sizes[i],
        "fewest": lambda i: sizes[i],
        "oddest": lambda i: -odd[i],
        HOLDERS: lambda i: -held[i],
    }
    if which not in order:
        raise ValueError(f"attackers are any, most, fewest, oddest, holders or from, not {which!r}")
    return Fixed(tuple(sorted(ids, key=order[which])[:count]))


def oddness(clients: Mapping[int, Client]) -> NDArray[np.float64]:
    """Half of the absolute differences between each client's shares of the labels and those of all: float64 (clients,), by id."""
    counts = counts_of_labels(clients).astype(np.float64)
    shares = counts / counts.sum(axis=1, keepdims=True)
    return np.asarray(np.abs(shares - counts.sum(axis=0) / counts.sum()).sum(axis=1) / 2)


def counts_of_labels(clients: Mapping[int, Client]) -> NDArray[np.int64]:
    """How many training examples of each label each client has: int64 (clients, labels), by id, labels from 0."""
    labels = [clients[i].train.y.flatten().numpy() for i in sorted(clients)]
    classes = 1 + max(int(y.max()) for y in labels)
    return np.array([np.bincount(y[y >= 0], minlength=classes) for y in labels], dtype=np.int64)


def differ(clients: Mapping[int, Client]) -> bool:
    """Whether clients differ so much that it may matter which of them attack: in size by half, or in labels by more than .3."""
    sizes = [len(client.train) for client in clients.values()]
    return max(sizes) > 1.5 * min(sizes) or float(oddness(clients).mean()) > 0.3
