"""Subsamples of one size, so that distances are compared like with like: stratified, or by position where noise is claimed.

The distance of two samples of one distribution is not 0 and grows as samples get smaller, so tau and W need samples of the
same size; and most of what is left of their noise is the luck of the labels, which stratification removes. But a stratified
subsample is drawn by all labels together: relabel one record, and others come and go in every stratum, so that noise for one
record covers less than it says. Differential privacy therefore takes rows by position, whatever is in them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ...protocol.core.errors import Refused
from ..data.population import Examples


@dataclass(frozen=True, slots=True)
class Size:
    """How many examples a subsample has: at most `limit` and, where a share is given, at most that share of every set.

    EMD-CFL (section 3) takes "the lesser of 10% and 512 instances": Size(512, 0.1). stratified: by labels, or else by position;
    None for stratified exactly where what it is for has no noise. Noise and stratification do not go together.

    Between processes, where nobody knows how many the others have, every subsample has `limit` examples: `agreed`.
    """

    limit: int = 512
    share: float | None = None
    stratified: bool | None = None

    def __post_init__(self) -> None:
        if self.limit < 1 or (self.share is not None and not 0 < self.share <= 1):
            raise ValueError(f"a subsample needs a limit of at least 1 and a share in (0, 1], not {self.limit} and {self.share}")

    def by_position(self, noisy: bool) -> bool:
        """Whether rows are drawn by position. Raises Refused for a stratified subsample under noise."""
        if noisy and self.stratified:
            raise Refused(
                "a stratified subsample and noise for one record do not go together: one label redraws other records;"
                " leave stratified out of size"
            )
        return noisy if self.stratified is None else not self.stratified

    def common(self, sizes: Iterable[int]) -> int:
        """The one size for all sets of these sizes. Raises ValueError if there is no set, or one too small."""
        counts = list(sizes)
        if not counts:
            raise ValueError("a subsample needs at least one set of examples")
        least = min(counts)
        found = min(self.limit, least if self.share is None else int(self.share * least + 1e-9))
        if found < 1:
            raise ValueError(f"a set of {least} examples gives an empty subsample; leave its client out or raise the share")
        return found

    def agreed(self, sizes: Iterable[int]) -> int:
        """The one size where a party has these sets alone, or none, and others have the rest: `limit`.

        Raises ValueError, which says what would do, if one of these is too small for it.
        """
        counts = list(sizes)
        if counts and (found := self.common(counts)) < self.limit:
            of = "" if self.share is None else f", of which a share of {self.share:g} is taken"
            raise ValueError(
                f"records are compared by samples of {self.limit}, the same number for all, and the smallest set of them here has"
                f" {min(counts)}{of}: agree on algorithm.size.limit={found} or less, or hold out more (validation)"
            )
        return self.limit


def stratified(labels: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Ascending positions of `count` examples, every label in its proportion of the set, at random within a label.

    Counts a label are rounded by largest remainder, ties to the smaller label. Raises ValueError for more than there are.
    """
    if labels.ndim != 1 or not 1 <= count <= len(labels):
        raise ValueError(f"{count} examples cannot be drawn from labels of shape {labels.shape}")
    names, sizes = np.unique(labels, return_counts=True)
    whole, rest = np.divmod(sizes * count, len(labels))
    whole[np.argsort(-rest, kind="stable")[: count - whole.sum()]] += 1
    parts = [rng.permutation(np.flatnonzero(labels == name))[:part] for name, part in zip(names, whole, strict=True)]
    return np.sort(np.concatenate(parts))


def positions(rows: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Ascending positions of the `count` of so many rows with the least priorities, one random number a position.

    They depend on nothing but `rng`: two sets that differ in one row give subsamples that differ in that row, or not at all.
    Raises ValueError for more than there are.
    """
    if not 1 <= count <= rows:
        raise ValueError(f"{count} examples cannot be drawn from {rows} rows")
    return np.sort(np.argsort(rng.random(rows), kind="stable")[:count])


def subsample(examples: Examples, count: int, rng: np.random.Generator, by_position: bool = False) -> Examples:
    """A subsample of labelled examples, stratified or by position. Draw it once a client and use it for tau and for every W."""
    rows = positions(len(examples), count, rng) if by_position else stratified(examples.y.numpy(), count, rng)
    return examples.take(torch.from_numpy(rows))
