"""Rules that trust by direction: FLTrust's root update, FoolsGold's distrust of clients that always agree."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..clustering.separation import cosine_similarity, norms
from ..field_ranges import need_above
from .rule import Matrix, Sight, check_count


@dataclass(frozen=True, slots=True)
class FLTrust:
    """Updates as long as the root update, weighted by relu(cos) to it (Cao et al. 2021, eq. 4).

    The extra row is the update of a clean root data set; its own weight is 0. All weights are 0 where nobody points its way.
    """

    sees: ClassVar[Sight] = Sight.GRAM

    def weights_with(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram) - 1
        check_count(self, n, 1)
        trust = np.maximum(cosine_similarity(gram)[n, :n], 0.0)
        norm = norms(gram)
        weights = np.zeros(n + 1)
        if trust.sum() > 0:
            weights[:n] = trust * np.divide(norm[n], norm[:n], out=np.zeros(n), where=norm[:n] > 0) / trust.sum()
        return weights


@dataclass(frozen=True, slots=True)
class FoolsGold:
    """Less weight for clients whose updates resemble each other (Fung et al. 2020, algorithm 1).

    The Gram matrix is of updates *accumulated* over the rounds (give them to `aggregate` as `judged`; `RobustFedAvg` gives mean
    cosines over the rounds instead, see `algorithms.rule_history`); on those of one round it is the paper's variant without
    memory. kappa: confidence. The paper adds up alpha_i x_i; here the
    alphas are divided by their sum, so that equal trust is the mean. A client with no similarity above 0 is never scaled down.
    If all are the same, nobody is trusted and all weights are 0.
    """

    kappa: float = 1.0
    sees: ClassVar[Sight] = Sight.GRAM
    shift_invariant: ClassVar[bool] = False

    def __post_init__(self) -> None:
        need_above(self, 0, "kappa")

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        n = len(gram)
        check_count(self, n, 2)
        similarity = cosine_similarity(gram)
        np.fill_diagonal(similarity, -np.inf)
        v = np.maximum(similarity.max(axis=1), 0.0)
        pardon = np.divide(v[:, None], v[None, :], out=np.ones((n, n)), where=v[None, :] > v[:, None])
        np.fill_diagonal(similarity, 0.0)
        alpha = np.clip(1 - np.maximum((similarity * pardon).max(axis=1), 0.0), 0.0, 1.0)
        if alpha.max() <= 8 * np.finfo(np.float64).eps:
            return np.zeros(n)
        alpha = np.clip(alpha / alpha.max(), 0.0, 0.99)
        with np.errstate(divide="ignore"):
            alpha = np.clip(self.kappa * (np.log(alpha / (1 - alpha)) + 0.5), 0.0, 1.0)
        return np.asarray(alpha / alpha.sum()) if alpha.sum() > 0 else np.zeros(n)
