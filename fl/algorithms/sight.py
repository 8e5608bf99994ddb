"""What CFL looks at: norms of a cluster's round, and similarities, in every round or once norms leave a split possible."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal, Protocol

import numpy as np

from ...protocol.parts.gram import centred
from ...protocol.view.answers import Assignment, BelowFloor, Gram, Sum, Updates, Weights
from ...protocol.view.asks import Similarities, Sums, Trains
from ..clustering.bipartition import Bipartition
from ..clustering.separation import cosine_similarity, norm_of_combination, norms
from ..clustering.split_gate import DOUBT, cross_about_origin, in_doubt
from .algorithm import Measured, mean_of

Compared = Literal["when ripe", "every round"]
Similarity = Literal["update", "gradient"]


class SightView(Trains, Sums, Similarities, Protocol):
    """What is asked to see norms and similarities."""


@dataclass(frozen=True, slots=True)
class SimilaritySchedule:
    """similarities: when they are asked for. similarity: of updates or of gradients. by_samples: how means are weighted."""

    similarities: Compared
    similarity: Similarity
    by_samples: bool

    @property
    def printed(self) -> bool:
        """Whether Algorithm 5 is played as printed."""
        return self.similarities == "every round"

    def weights(self, clients: Sequence[int]) -> Weights:
        return replace(mean_of(clients, self.by_samples), energy=not self.printed)

    def before_sum(self, view: SightView, updates: Updates, gradients: Updates | None) -> Gram | None:
        """The Gram matrix about the origin, where it is asked for before the sum: who is rejected by it is not in the mean.

        As printed, of gradients where those are compared, None if there are none.
        """
        if self.printed and self.similarity == "gradient":
            return None if gradients is None else _restricted(view.gram(gradients, origin=True), updates.clients)
        return view.gram(updates, origin=True) if self.printed or not view.tells_energy else None

    def norms(self, updates: Updates, mean: Sum | BelowFloor, gram: Gram | None) -> Measured | None:
        """The norms of the round, from the sum or a Gram matrix about the origin, and as printed its similarities."""
        if gram is None:
            if self.printed or not isinstance(mean, Sum) or mean.norm is None or mean.energy is None:
                return None
            return Measured(mean.norm, None, updates.clients, rms=sqrt(max(mean.energy, 0.0)))
        if not gram.clients:
            return None
        published = self.by_samples and isinstance(mean, Sum) and not (self.printed and self.similarity == "gradient")
        known = mean.norm if published and isinstance(mean, Sum) else None  # of gradients no mean by n_i is ever published
        uniform = np.full(len(gram.clients), 1 / len(gram.clients))
        of_mean = norm_of_combination(gram.matrix, uniform) if known is None else known
        if self.printed:
            return Measured(of_mean, float(norms(gram.matrix).max()), gram.clients, cosine_similarity(gram.matrix))
        return Measured(of_mean, None, gram.clients, rms=float(np.sqrt(np.square(norms(gram.matrix)).mean())))

    def similarities_of(self, view: SightView, round: int, work: Assignment, updates: Updates, gram: Gram | None) -> Gram | None:
        """What a cluster that may be split is cut by: as printed what there is, else the Gram matrix about the mean.

        None where fewer than two clients can be compared.
        """
        found = gram
        if not self.printed and self.similarity == "gradient":
            gradients = view.train(round, {updates.cluster: work}, "gradient").get(updates.cluster)
            found = None if gradients is None else _restricted(view.gram(gradients), updates.clients)
        elif not self.printed and found is None:
            found = view.gram(updates)
        if found is None or len(found.clients) < 2:
            return None
        return found if self.printed else Gram(found.clients, centred(found.matrix), found.tolerance)

    def shown(self, seen: Measured, gram: Gram) -> Measured:
        """The record of the round with the similarities that a cut is made by."""
        if self.printed:
            return seen
        return replace(seen, clients=gram.clients, similarity=cosine_similarity(gram.matrix), centred=True)

    def of_cut(self, cut: Bipartition, seen: Measured, gram: Gram) -> Bipartition:
        """The cut with the cross similarity that gamma_max bounds: about the origin, where its mean is known."""
        if self.printed or self.similarity == "gradient":
            return cut
        return replace(cut, cross=cross_about_origin(gram.matrix, seen.mean or 0.0, gram.clients, cut))

    def doubtful(self, cut: Bipartition, seen: Measured, gram: Gram, gamma_max: float) -> bool:
        """Whether another look could show another cut. As printed the first one counts."""
        if self.printed or seen.similarity is None:
            return False
        return in_doubt(seen.similarity, gram.clients, cut, gamma_max, DOUBT * gram.tolerance)


def size(seen: Measured) -> float:
    """The size of single updates: the largest norm as printed, else the root mean square."""
    return (seen.rms if seen.largest is None else seen.largest) or 0.0


def _restricted(gram: Gram, clients: Sequence[int]) -> Gram:
    """The part of a Gram matrix about these clients: who sent a gradient but no update cannot be split by it."""
    kept = [k for k, i in enumerate(gram.clients) if i in set(clients)]
    return Gram(tuple(gram.clients[k] for k in kept), gram.matrix[np.ix_(kept, kept)], gram.tolerance)
