"""What two robust rules carry from round to round.

- FoolsGold judges every two clients by the mean of their cosines over the rounds that they had in common: of all that could be
  compared in their round, whatever came of it. Fung et al. (2020, algorithm 1) take the cosine of the sums of all updates so
  far, for which updates of different rounds must be comparable, and a sketch that lives as long as the run tells the server
  much of what it should not know. The price: noise of a client's own averages out of sums of its updates, and not out of
  cosines, so that sybils who hide one direction under enough noise are found by sums alone. The cosines are about the origin,
  as in the paper: about the mean, two long sybils would make all others look alike, and a majority of them hide in the mean.
- Centred clipping starts from the result of the round before, v (Karimireddy et al. 2021, eq. 7). That is a weighted sum of
  earlier updates, which a view keeps that compares sums of updates of several rounds. What is left of v in the new result moves
  the model on along its last movement, v.

Rules behind steps (`Mixed`) carry nothing. Where the Gram matrix is one of sketches, a client that sketches one vector and sums
another makes the v that is compared another than the v that moves the model, for as long as v lasts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...protocol.view.answers import Gram, Remembered, Sum, Updates
from ...protocol.view.asks import Histories
from ..clustering.separation import cosine_similarity
from ..robust.rule import Matrix, Rule
from ..robust.similarity import FoolsGold
from ..robust.weiszfeld import CenteredClipping


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """How alike every two clients were. clients: ascending. cosines: their sums, float64 (m, m). rounds: in how many, (m, m)."""

    clients: tuple[int, ...] = ()
    cosines: Matrix = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    rounds: Matrix = field(default_factory=lambda: np.zeros((0, 0)), repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Agreement):
            return NotImplemented
        same = np.array_equal(self.cosines, other.cosines) and np.array_equal(self.rounds, other.rounds)
        return self.clients == other.clients and same

    def __hash__(self) -> int:
        return hash(self.clients)

    def with_round(self, clients: Sequence[int], cosines: Matrix) -> "Agreement":
        """One round more, of these clients. cosines: float64 (n, n), in their order."""
        ids = tuple(sorted({*self.clients, *clients}))
        before, now = np.searchsorted(ids, self.clients), np.searchsorted(ids, clients)
        sums, rounds = np.zeros((2, len(ids), len(ids)))
        sums[np.ix_(before, before)], rounds[np.ix_(before, before)] = self.cosines, self.rounds
        sums[np.ix_(now, now)] += cosines
        rounds[np.ix_(now, now)] += 1
        return Agreement(ids, sums, rounds)

    def means(self, clients: Sequence[int]) -> Matrix:
        """The mean cosines of these clients: float64 (n, n), 1 on the diagonal, 0 of two that never met."""
        at = np.searchsorted(self.clients, clients)
        sums, rounds = self.cosines[np.ix_(at, at)], self.rounds[np.ix_(at, at)]
        mean: Matrix = np.divide(sums, rounds, out=np.zeros_like(sums), where=rounds > 0)
        np.fill_diagonal(mean, 1.0)
        return mean


@dataclass(frozen=True, slots=True)
class Past:
    """What is carried. kept: centred clipping's last result, a handle. agreement: FoolsGold's, numbers."""

    kept: Remembered | None = None
    agreement: Agreement = field(default_factory=Agreement)


@dataclass(frozen=True, slots=True, eq=False)
class RoundWeights:
    """weights: of the round's updates, float64 (n,). carried: the weight of the last result."""

    weights: Matrix = field(repr=False)
    carried: float = 0.0


def carries(rule: Rule) -> bool:
    """Whether the rule looks back beyond the round."""
    return isinstance(rule, FoolsGold | CenteredClipping)


def keeps(rule: Rule) -> bool:
    """Whether it has the view keep updates for that."""
    return isinstance(rule, CenteredClipping)


def before_weighing(rule: Rule, gram: Gram, past: Past) -> Past:
    """What is carried once these updates are there: FoolsGold's means with them, and centred clipping's result as it was."""
    if isinstance(rule, FoolsGold):
        return replace(past, agreement=past.agreement.with_round(gram.clients, cosine_similarity(gram.matrix)))
    return past


def weighed(rule: Rule, view: Histories, these: Updates, gram: Gram, past: Past, rng: np.random.Generator) -> RoundWeights:
    """The weights of a rule that looks back. these: the updates of the clients of `gram`. past: what is carried by now.

    Raises ValueError where the rule cannot give any.
    """
    if isinstance(rule, FoolsGold):
        return RoundWeights(rule.weights(past.agreement.means(gram.clients), rng))
    if isinstance(rule, CenteredClipping) and past.kept is not None:
        weights = rule.weights_with(view.gram_with(these, past.kept), rng)
        return RoundWeights(weights[:-1], float(weights[-1]))
    if isinstance(rule, CenteredClipping):
        return RoundWeights(rule.weights(gram.matrix, rng))
    raise ValueError(f"{rule} does not look back beyond the round")


def after_publishing(
    rule: Rule, view: Histories, these: Updates, past: Past, answer: Sum, of: Mapping[int, float], carried: float
) -> Past:
    """What is carried to the next round. answer: the published mean with the weights `of`; the model moves by it times their sum.

    Clients that were lost on the way to it are not in it, and the others count for them.
    """
    if not keeps(rule):
        return past
    scale = sum(of.values()) / answer.weight
    shares = {i: scale * of[i] for i in answer.clients}
    return replace(past, kept=view.accumulate(these, shares, past.kept, decay=carried, together=True))
