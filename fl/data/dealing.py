"""Dealing a data set to clients: how many examples each gets, which, and as whose group's version of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ..field_ranges import need_least, need_whole
from .population import Client, Examples, Population, Source

Positions = NDArray[np.int64]
"""Positions of examples in a split of a source, shape (n,)."""

Change = Callable[[int, Examples], Examples]
"""What the planted group, the first argument, does to examples: the same to training and to test examples."""


class Sizes(Protocol):
    """How unequal clients are: positive shares of the training examples, float64, shape (clients,), that sum to 1."""

    def __call__(self, clients: int, rng: np.random.Generator, /) -> NDArray[np.float64]: ...


@dataclass(frozen=True, slots=True)
class Equal:
    """Every client gets the same share."""

    def __call__(self, clients: int, rng: np.random.Generator, /) -> NDArray[np.float64]:
        return np.full(clients, 1 / clients)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Shares in proportion to exp(sigma * z), z standard normal; sigma = 0 is Equal."""

    sigma: float

    def __post_init__(self) -> None:
        need_least(self, 0, "sigma")

    def __call__(self, clients: int, rng: np.random.Generator, /) -> NDArray[np.float64]:
        weights = np.exp(self.sigma * rng.standard_normal(clients))
        return np.asarray(weights / weights.sum())


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """Shares in proportion to rank ** -exponent, the ranks 1..clients given out at random; exponent = 0 is Equal."""

    exponent: float

    def __post_init__(self) -> None:
        need_least(self, 0, "exponent")

    def __call__(self, clients: int, rng: np.random.Generator, /) -> NDArray[np.float64]:
        weights = (rng.permutation(clients) + 1.0) ** -self.exponent
        return np.asarray(weights / weights.sum())


EQUAL = Equal()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOptions:
    """The options that every partition has.

    sizes: shares of the training examples; the shares of the test examples are equal.
    samples: most training examples that a client may get, of its share of what there is; None for no limit.
    shared_test: every client tests on all test examples that follow its distribution, instead of on a share of its own.
        The inputs are then stored once for each group, not once for each client.
    """

    sizes: Sizes = EQUAL
    samples: int | None = None
    shared_test: bool = False

    def __post_init__(self) -> None:
        need_whole(self, 1, "samples", "clients", "groups")


@dataclass(frozen=True, slots=True, eq=False)
class SharedExamples:
    """Clients that draw from the same examples of a source."""

    clients: Sequence[int]
    train: Positions
    test: Positions


def blocks(clients: int, groups: int) -> dict[int, int]:
    """Contiguous groups: client i is in group i * groups // clients. Where that does not divide, sizes differ by one."""
    if not 1 <= groups <= clients:
        raise ValueError(f"{groups} groups of {clients} clients leave a group empty; ask for 1 to {clients} groups")
    return {client: client * groups // clients for client in range(clients)}


def unchanged(group: int, examples: Examples) -> Examples:
    """The change of a partition whose groups, if there are any, differ in what they are dealt alone."""
    return examples


def require_labels(source: Source) -> None:
    """Raises ValueError for token data, where an example has many targets instead of one label."""
    if source.train.y.ndim != 1:
        raise ValueError(f"{source.name} has no label for each example; take an image data set, or another partition")


def whole(source: Source, clients: int) -> list[SharedExamples]:
    """One pool: every client draws from the whole data set."""
    return [SharedExamples(range(clients), np.arange(len(source.train)), np.arange(len(source.test)))]


def whole_each(source: Source, groups: dict[int, int]) -> list[SharedExamples]:
    """One pool a group, each the whole data set: every example is dealt once in every group."""
    members = [[client for client in groups if groups[client] == group] for group in sorted(set(groups.values()))]
    return [SharedExamples(clients, np.arange(len(source.train)), np.arange(len(source.test))) for clients in members]


def deal(
    source: Source,
    pools: Sequence[SharedExamples],
    groups: dict[int, int],
    change: Change,
    how: PartitionOptions,
    rng: np.random.Generator,
) -> Population:
    """Deal the examples of each pool at random among its clients, each example at most once, changed as their group does.

    What does not divide evenly is not dealt. Raises ValueError when a pool has fewer examples than clients.
    """
    hands: dict[int, tuple[Positions, Positions]] = {}
    for pool in pools:
        m = len(pool.clients)
        train = _split(pool.train, _counts(len(pool.train), how.sizes(m, rng), "training"), rng)
        test = [pool.test] * m if how.shared_test else _split(pool.test, _counts(len(pool.test), EQUAL(m, rng), "test"), rng)
        hands |= dict(zip(pool.clients, zip(train, test, strict=True), strict=True))
    return populate(source, hands, groups, change, how)


def populate(
    source: Source, hands: dict[int, tuple[Positions, Positions]], groups: dict[int, int], change: Change, how: PartitionOptions
) -> Population:
    """The population in which every client holds its hand: positions of its training and of its test examples.

    Test positions that are one array for several clients of a group become one set of examples that they share.
    """
    tests: dict[tuple[int, int], Examples] = {}
    clients = {}
    for client, (train, test) in sorted(hands.items()):
        group, key = groups[client], (groups[client], id(test))
        if key not in tests:
            tests[key] = change(group, _take(source.test, test))
        clients[client] = Client(client, change(group, _take(source.train, train[: how.samples])), tests[key])
    return Population(clients, groups, source.classes, source.shape)


def _take(examples: Examples, positions: Positions) -> Examples:
    """The examples at `positions`; the very same ones, not a copy, if that is all of them in their order."""
    if len(positions) == len(examples) and np.array_equal(positions, np.arange(len(examples))):
        return examples
    return examples.take(torch.from_numpy(positions))


def _counts(available: int, shares: NDArray[np.float64], kind: str) -> Positions:
    """Shares of `available` examples, rounded down but at least 1; what that takes too much comes off the largest."""
    if available < len(shares):
        raise ValueError(f"{available} {kind} examples are too few for {len(shares)} clients; ask for fewer clients")
    counts = np.maximum(np.floor(shares * available + 1e-9), 1).astype(np.int64)  # 49 * (1 / 49) is less than 1
    while counts.sum() > available:
        counts[counts.argmax()] -= 1
    return counts


def _split(positions: Positions, counts: Positions, rng: np.random.Generator) -> list[Positions]:
    """Disjoint random parts of `positions`, of the sizes `counts`."""
    return np.split(rng.permutation(positions)[: counts.sum()], np.cumsum(counts)[:-1])
