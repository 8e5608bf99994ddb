"""FedSaC: pFedGraph with a second thought, that those help who are similar and yet complementary (Yan et al., ICML 2024).

The weights of client i are x_i = argmin over the simplex of |x|^2 + (l1 c_i + l2 s_i - 2p)^T x, in closed form the projection of
p - (l1 c_i + l2 s_i) / 2. s_ij = -cos(w_i - w^0, w_j - w^0), -1 where that is below -.9. c_ij is the cosine of the mean of the k
principal angles between what i's and j's training embeddings vary in most, each under its client's own model as just trained:
between bases of k principal axes. Who is complementary has a small c_ij, and weighs more.

Models move, and bases with them, so each client releases one in every round: k times as many floats as an embedding has, made of
its data. The paper's clients send them as they are (`PRINTED`, where the server sees updates anyway). Here the default is under a
rotation that all clients share in that round and the server lacks, which moves no angle: the server is told all inner products
between vectors of one round's bases, and none between rounds. Who joins it with one client sees the bases. No release is for a
pair, no model is shown to anybody, and whoever is asked twice in a round says the same (specs/pairs.md). `Encrypted`, which
compares no pairs, is refused unless l1 = 0, which is pFedGraph with lambda = 1 / l2; and so is `TwoServer`.

Where paper and authors' code differ or are silent, this is what happens; for the rest see `personal_graph`:
- Angles are principal, as printed. The code matches axes one to one by the largest signed cosine; but axes have no sign, so that
  what it finds hangs on its solver. That is left out.
- Of fewer axes than k (few examples, dead units) there are as many angles as the smaller basis has. Who has no axis, sends none,
  or sends what is not finite complements nobody: c = 1, as it is to itself, so that silence earns no weight.
- Embeddings are what comes before the last linear layer, in evaluation mode; axes are about their mean.
- l1 is 0 from round `until` on (the code: after a share of the rounds, by default never); then nothing is released.
- l1 = .9, l2 = 1.4, k = 3 and mu = .01 are those of the code's readme.
- Cosines need `ENOUGH` measurements where they come from sketches. Clients of a group soon move alike, so that all their cosines
  to another group are off by one error of a round. Where that takes the cosine past what the closed form leaves out, all of them
  take in some of the other group, come nearer to it, and once every cosine counts as 1 it is the other group that complements
  them most: no round leads back. On 16 clients of two groups of turned digits the others' cosine was .39 and from .65 on had
  weight, 2.5 standard deviations of 64 measurements and 3.5 of 128: of 5 seeds 64 lost the groups in 2 (.84 and .82, alone .86),
  128 to 1024 in none (.91 to .93, that of exact cosines). A `Doubt` says so of fewer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np
from torch import nn

from ...protocol.pairs.choices import PerRound
from ...protocol.pairs.question import PairQuestion
from ...protocol.view.asks import ComparesPairs
from ...protocol.view.functionality import Functionality
from ..clients.bases import EmbeddingBases
from ..clustering.subspaces import Angles, Pair, Unmeasured, mean_angle
from ..data.population import Population
from ..emd.embedding import LAST_LINEAR, Embedding
from .algorithm import check_counts
from .personal_graph import PersonalGraph, PersonalGraphView, State, Trained, Values, rows_by_similarity

ROTATED = PerRound()
PRINTED = PerRound(projection="none")
"""What clients release: under the round's rotation, or as they are."""
ENOUGH = 128
"""Measurements of an update by which cosines are near enough."""


class FedSaCView(PersonalGraphView, ComparesPairs, Protocol):
    """What FedSaC asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FedSaC(PersonalGraph):
    """l1, l2: of complementarity and similarity. axes: k. until: the round from which on l1 is 0. choice: how bases are released.

    embedding: where the model is cut. The rest as in `PersonalGraph`.
    """

    l1: float = 0.9
    l2: float = 1.4
    snap: float | None = 0.9
    axes: int = 3
    until: int | None = None
    choice: PerRound = ROTATED
    embedding: Embedding = LAST_LINEAR

    def __post_init__(self) -> None:
        PersonalGraph.__post_init__(self)
        check_counts(axes=self.axes)
        if not (0 <= self.l1 < np.inf and 0 <= self.l2 < np.inf):
            raise ValueError(f"l1 and l2 are 0 or more and finite, not {self.l1} and {self.l2}")
        if self.until is not None and (type(self.until) is not int or self.until < 0):
            raise ValueError(f"until is a round, 0 or more, not {self.until!r}")
        if not isinstance(self.choice, PerRound):
            raise ValueError(f"bases are of models that move, and released in every round: take PerRound, not {self.choice!r}")

    @property
    def needs(self) -> frozenset[Functionality]:
        of = {Functionality.GRAM_ORIGIN, Functionality.PERSONAL_SUMS}
        return frozenset(of | {Functionality.PAIRS} if self._complements(0) else of)

    def embedders(self, population: Population, module: nn.Module, /) -> EmbeddingBases:
        """What clients are compared by."""
        return EmbeddingBases(population, module, self.axes, self.embedding)

    def round(self, state: State, view: FedSaCView, rng: np.random.Generator, /) -> State:
        """Local training from each client's model, both thoughts, and everybody's mean."""
        done = self.trained(state, view, rng)
        if done is None:
            return state.over()
        wanted = self.l2 * self.snapped(done.cosines)
        if self._complements(state.round):
            wanted = wanted - self.l1 * _overlaps(done.gram.clients, self._angles(state, view, done))
        return self.mixed(state, view, done, rows_by_similarity(wanted, 1.0))

    def _complements(self, round: int) -> bool:
        return self.l1 > 0 and (self.until is None or round < self.until)

    def _angles(self, state: State, view: FedSaCView, done: Trained) -> dict[Pair, float]:
        """Of the pairs of which both released a basis in this round, in degrees."""
        judge = Angles(mean_angle)
        pairs = tuple(combinations(done.gram.clients, 2))
        view.pairs(
            state.round, done.work, {done.updates.cluster: done.updates}, PairQuestion(pairs, self.choice, Unmeasured(), judge)
        )
        return judge.found


def _overlaps(clients: Sequence[int], angles: dict[Pair, float]) -> Values:
    """c: float64 (n, n), 1 on the diagonal and where nothing is known."""
    found = [[angles.get((min(i, j), max(i, j)), 0.0) for j in clients] for i in clients]
    return np.cos(np.radians(np.array(found, np.float64).reshape(len(clients), len(clients))))
