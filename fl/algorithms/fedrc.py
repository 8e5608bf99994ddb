"""FedRC: K models that part clients by concept alone, not by labels or inputs (Guo, Tang, Lin, ICML 2024).

As FedEM, but how much model k answers for an example is measured against how often the label is the model's anyway:
q_ks = softmax_k(log omega_ik - loss_k(s) - log p_k(y_s)), omega_i = mean_s q. p_k(y) = T_k(y) / sum_y' T_k(y') is public, with
T_k(y) the sum of q_ks over all clients' examples of label y, at least 1e-8.

T_k goes along in slot k: beside the model's d coordinates a client puts T_ik(y) over the number of its examples, at most 1, so
that the slot's mean, weighted by shares, is T_k(y) over their sum, which differs from p_k by a factor that is the same for all y.
(A client of more than `most` examples counts in the table as it does in the model.) It comes back with the model in the next
round. So the table is told to whomever the models are, and is in the disclosure log: of each model, how the labels of the
examples that it answers for are distributed.

Where paper and authors' code differ or are silent:
- Averages and tables are over those who take part. E-step, training and table are of one round, so tables lag by one, as in the
  authors' code; before there is one, p_k(y) = 1 / K for all.
- 1e-8 is the least of T_k(y) over the sum of shares; what fixed point leaves of a label that nobody has may be more
  (`Sum.error`).
- Shares, prediction by the mixture, and clients that never took part are as in FedEM.
- Labels are of images; of text, whose examples have many targets, there is no table: refused.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..clients.expectation import soft, weighed
from ..clients.slots import InSlots, SlotInputs, SlotWork, Values
from .several_models import WeighedModels

LEAST = 1e-8
"""Of T_k(y) over the sum of shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FedRC(WeighedModels):
    """K models that part clients by concept alone. In a round the tables of labels move with the models."""

    @property
    def in_slots(self) -> InSlots:
        """What a client does."""
        return InSlots(self._work, lambda seen: weighed(seen, scores(seen)))

    def beside(self, classes: int) -> tuple[int, str]:
        """The numbers that go with each model, and what they say."""
        return classes, f"; its last {classes} numbers say how the labels of the examples that it answers for are distributed"

    def _work(self, seen: SlotInputs) -> SlotWork:
        def table(q: Values) -> NDArray[np.float32]:
            return (q @ one_hot_labels(seen) / len(seen.targets)).astype(np.float32)

        return soft(seen, scores(seen), min(seen.samples, self.most), table)


def scores(seen: SlotInputs) -> Values:
    """-loss_k(s) - log p_k(y_s): float64 (K, n)."""
    return np.asarray(-seen.losses - np.log(shares_of_labels(seen.beside)) @ one_hot_labels(seen).T)


def shares_of_labels(tables: NDArray[np.float32]) -> Values:
    """p_k(y): float64 (K, labels), of public tables. Of a table of nothing but 0, as before the first round, all are 1 / K."""
    total = np.maximum(tables.astype(np.float64), LEAST)
    there = (tables > 0).any(axis=1, keepdims=True)
    return np.where(there, total / total.sum(axis=1, keepdims=True), 1 / len(tables))


def one_hot_labels(seen: SlotInputs) -> Values:
    """Float64 (n, labels). Raises ValueError for examples with many targets."""
    if seen.y.ndim != 1:
        raise ValueError("FedRC's tables are of one label an example; of text there are none")
    return np.asarray(np.eye(seen.beside.shape[1])[seen.y])
