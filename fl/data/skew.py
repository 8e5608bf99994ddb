"""Partitions that differ in what clients hold: topics, halves of the labels, or proportions of the labels."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..field_ranges import need_above
from .dealing import PartitionOptions, Positions, SharedExamples, blocks, deal, populate, require_labels, unchanged
from .population import Population, Source


@dataclass(frozen=True, slots=True)
class TopicPerClient(PartitionOptions):
    """Every client holds one topic (CFL, section VI-C: AG-News; EMD-CFL: one domain of PACS); the topics are the groups.

    The clients of a topic share it equally, so clients of a larger topic get more; `samples` evens that out.
    per_topic: clients of each topic, in rising order of the topics, (4, 4, 3, 7) for PACS in EMD-CFL; None for blocks of
        (almost) equal length.
    """

    clients: int
    per_topic: tuple[int, ...] | None = None

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        if source.train.topic is None or source.test.topic is None:
            raise ValueError(f"{source.name} has no topics; take AG-News or PACS, or another partition")
        topics = np.unique(source.train.topic.numpy()).tolist()
        groups = blocks(self.clients, len(topics))
        if self.per_topic is not None:
            if len(self.per_topic) != len(topics) or min(self.per_topic) < 1 or sum(self.per_topic) != self.clients:
                raise ValueError(
                    f"per_topic must be {len(topics)} positive numbers that sum to {self.clients}, not {self.per_topic}"
                )
            groups = dict(enumerate(np.repeat(np.arange(len(topics)), self.per_topic).tolist()))
        pools = [
            SharedExamples(
                [client for client in groups if groups[client] == group],
                _positions(source.train.topic == topic),
                _positions(source.test.topic == topic),
            )
            for group, topic in enumerate(topics)
        ]
        return deal(source, pools, groups, unchanged, self, rng)


@dataclass(frozen=True, slots=True)
class CongruentHalves(PartitionOptions):
    """Clients of the first half hold the lower half of the labels, the others the upper half (CFL, section VI-B, figure 7).

    One model can serve all of them, so they are congruent: one planted group, 0. The paper has two clients, with the digits
    0-4 and 5-9.
    """

    clients: int = 2

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        require_labels(source)
        halves = blocks(self.clients, 2)
        pools = []
        for half in (0, 1):
            lower, upper = half * source.classes // 2, (half + 1) * source.classes // 2
            train, test = (_positions((lower <= split.y) & (split.y < upper)) for split in (source.train, source.test))
            pools.append(SharedExamples([client for client in halves if halves[client] == half], train, test))
        return deal(source, pools, blocks(self.clients, 1), unchanged, self, rng)


@dataclass(frozen=True, slots=True)
class Dirichlet(PartitionOptions):
    """Label skew: every label is dealt in proportions drawn from a Dirichlet distribution; one planted group, 0.

    For each label, p ~ Dirichlet(alpha * clients * sizes), which is the symmetric Dirichlet(alpha) of Yurochkin et al. 2019
    for equal sizes; both the training and the test examples of the label are then cut in proportions p.
    A client left without training examples is given one of those of the client that has most at that point. A client left
    without test examples gets a copy of one with its most frequent training label.
    """

    clients: int
    alpha: float

    def __post_init__(self) -> None:
        PartitionOptions.__post_init__(self)
        need_above(self, 0, "alpha")

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        require_labels(source)
        groups = blocks(self.clients, 1)
        if self.clients > len(source.train):
            raise ValueError(
                f"{len(source.train)} training examples are too few for {self.clients} clients; ask for fewer clients"
            )
        concentration = self.alpha * self.clients * self.sizes(self.clients, rng)
        train: list[list[Positions]] = [[] for _ in range(self.clients)]
        test: list[list[Positions]] = [[] for _ in range(self.clients)]
        for label in range(source.classes):
            shares = rng.dirichlet(concentration)
            for hands, split in ((train, source.train), (test, source.test)):
                members = rng.permutation(_positions(split.y == label))
                cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
                for hand, part in zip(hands, np.split(members, cuts), strict=True):
                    hand.append(part)
        held = _fill([rng.permutation(np.concatenate(hand)) for hand in train])
        tested = [np.concatenate(hand) for hand in test]
        whole_test = np.arange(len(source.test))
        for client, positions in enumerate(tested):
            if self.shared_test:
                tested[client] = whole_test
            elif len(positions) == 0:
                label = int(source.train.y[torch.from_numpy(held[client])].bincount().argmax())
                tested[client] = rng.permutation(_positions(source.test.y == label))[:1]
        return populate(source, dict(enumerate(zip(held, tested, strict=True))), groups, unchanged, self)


def _fill(hands: list[Positions]) -> list[Positions]:
    """The same positions, dealt so that no hand is empty: each empty hand takes one from the hand that is largest then."""
    hands = list(hands)
    for client, hand in enumerate(hands):
        if len(hand) == 0:
            largest = max(range(len(hands)), key=lambda other: len(hands[other]))
            hands[client], hands[largest] = hands[largest][-1:], hands[largest][:-1]
    return hands


def _positions(mask: Tensor) -> Positions:
    return np.flatnonzero(mask.numpy())
