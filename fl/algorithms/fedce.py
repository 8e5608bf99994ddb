"""FedCE: clients belong to every cluster by how often, and how nearly, its model served them best (Cai et al., ACM MM 2023).

Known at second hand: neither the paper's text nor its authors' code was at hand, what is here is what others' re-implementation
does (it cites the paper's Eqs. 3 and 5), without what looks like its slip: it counts the best model several times a round.

A client finds the model s1 of the least loss on what it holds out for validation, over batches b, and adds to its history h
    h_s1 += 1;  h_j += exp(-delta sqrt(sum_b (l_b,s1 - l_b,j)^2)) for j != s1;
it trains from model s1, and the server puts theta_k = sum_i a_ik w_i, a_.k the softmax of h_.k over clients. Sizes do not count;
every client contributes to every model. h never decays, so that the softmax becomes hard.

Choices of ours:
- a_ik is a whole share: `most` exp(h_ik - r_i), rounded, with r_i the rounds that the client took part in, which h_ik never
  exceeds. So shares are bounded, and in the proportions of exp(h_ik) among clients that took part as often: with
  fixed cohorts the softmax of h, with random samples not. Whose shares would all be 0 has 1 in its largest slot, and a share that
  rounds to 0 is none. h never leaves the client.
- The same w_i is in several slots: the server learns K sums of the same models, under a protection that hides updates with
  weights that it does not know.
- Without validation data a client goes by its training examples. Batches are of `batch` examples in their order.
- Clients predict with the model of the least loss by the same measure. K = 1 is FedAvg of equal clients.
"""

from dataclasses import dataclass

import numpy as np

from ..clients.slots import InSlots, Piece, SlotInputs, SlotWork, best
from .algorithm import check_counts
from .several_models import WeighedModels

HISTORY, ROUNDS = "h", "rounds"


@dataclass(frozen=True, slots=True, kw_only=True)
class FedCE(WeighedModels):
    """delta: how fast a model that is worse loses hold. batch: examples of one loss l_b. most: the largest share."""

    delta: float = 0.5
    batch: int = 64

    def __post_init__(self) -> None:
        WeighedModels.__post_init__(self)
        check_counts(batch=self.batch)
        if not 0 <= self.delta < np.inf:
            raise ValueError(f"delta is a finite number of 0 or more, not {self.delta}")

    @property
    def in_slots(self) -> InSlots:
        """What a client does."""
        return InSlots(self._work, best, by="validation")

    def _work(self, seen: SlotInputs) -> SlotWork:
        count, s1 = len(seen.models), int(np.argmin(seen.mean))
        rounds = int(seen.kept.get(ROUNDS, np.zeros(1))[0]) + 1
        history = seen.kept.get(HISTORY, np.zeros(count)) + self.gained(seen, s1)
        shares = np.rint(self.most * np.exp(history - rounds)).astype(int)
        if not shares.any():
            shares[np.argmax(history)] = 1
        kept = {HISTORY: history, ROUNDS: np.array([rounds])}
        slots = tuple(k for k in range(count) if shares[k])
        return SlotWork(tuple(shares.tolist()), (Piece(seen.models[s1], slots),), kept)

    def gained(self, seen: SlotInputs, s1: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """What a round adds to h: float64 (K,), 1 for the best model, and below for the others."""
        places = np.arange(self.batch, len(seen.targets), self.batch)
        weights = np.array([max(1, part.sum()) for part in np.split(seen.targets, places)])
        batches = np.stack([part.sum(axis=1) for part in np.split(seen.losses * seen.targets, places, axis=1)], axis=1) / weights
        with np.errstate(invalid="ignore"):
            apart = np.sqrt(np.square(batches - batches[s1]).sum(axis=1))
        apart = np.where(np.isnan(apart), np.inf, apart)  # of models whose losses are both infinite
        gained = np.where(np.isinf(apart), 0.0, np.exp(-self.delta * np.minimum(apart, np.finfo(float).max)))
        return np.where(np.arange(len(batches)) == s1, 1.0, gained)
