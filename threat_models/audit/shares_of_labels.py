"""What the observer makes of clients' labels as a whole, where clients are compared by embeddings (`protocol.pairs`)."""

from dataclasses import dataclass

import numpy as np

from .embedding_models import Networks
from .experiment import Anchor, Budget, Evidence, Finding, victims_of
from .record_labels import Attack
from .truth import Truth
from .unread import uncompared


@dataclass(frozen=True, slots=True)
class LabelShares:
    """1 - the total variation between the shares of labels among the records that a client is compared by and those guessed.

    By what the observer has: of a mean and its projection, non-negative least squares of the mean of each label; of a cloud,
    the labels that `EmbeddingInference` names; of means alone, or distances, clients' one label each; where there is
    nothing, and of the sums alone, the shares among public examples.
    """

    name: str = "label shares"
    unit: str = "1 - total variation of the labels of records that are compared"
    side: str = "public examples of the same distribution, with labels"
    source: str = "least squares on the simplex, and what names the labels of clouds"
    anchor: Anchor = "sums alone"

    def applies(self, evidence: Evidence, /) -> str:
        return uncompared(evidence)

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view, classes = evidence.view, evidence.view.public.classes
        victims = tuple(i for i in victims_of(view, budget.victims, rng) if i in truth.compared)

        def shares(labels: np.ndarray) -> np.ndarray:
            return np.bincount(labels, minlength=classes) / len(labels)

        true = {i: shares(truth.compared[i].y.numpy()) for i in victims}
        if evidence.pooled is None:
            usual = shares(view.public.auxiliary.y.numpy())
            guessed = dict.fromkeys(victims, usual) | Attack(evidence, Networks(view.public)).shares(victims, rng)
        else:
            guessed = true
        return Finding(victims, np.array([1 - np.abs(guessed[i] - true[i]).sum() / 2 for i in victims]))
