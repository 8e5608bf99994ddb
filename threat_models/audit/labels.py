"""Label histograms of clients, regressed on all that the observer saw of each."""

from dataclasses import dataclass

import numpy as np

from ..inference.label_regression import Compared, LabelRegression, Seen, features, total_variation
from .estimates import estimates
from .estimates import means as of_sums
from .experiment import Budget, Evidence, Finding
from .truth import Matrix, Truth
from .view import CorruptView


@dataclass(frozen=True, slots=True)
class LabelInference:
    """1 - the total variation between a client's label histogram and its estimate: a ridge regression learned on the shadow run.

    Features are of published means, of what is known of the client's updates beyond them, and of its place in Gram matrices.
    """

    name: str = "labels"
    unit: str = "1 - total variation of label histograms"
    side: str = "a run of its own of the same kind, whose data it knows"
    source: str = "label_regression.py; shadow features as of privacy attacks A6"

    def applies(self, evidence: Evidence, /) -> str:
        of = evidence.known.population
        tokens = next(iter(of.clients.values())).train.y.ndim == 2
        return "targets are tokens" if tokens else ""

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view, shadow = evidence.view, evidence.shadow
        victims = tuple(i for i in view.public.clients if i not in view.observer.clients)
        read = slice(len(view.public.initial) - view.public.classes, len(view.public.initial))
        of = [i for i in shadow.public.clients if i not in shadow.observer.clients]
        learned = LabelRegression.learned(
            features(seen(shadow, evidence.prior), of, read), np.stack([evidence.known.histogram(i) for i in of])
        )
        guessed = learned.histograms(features(seen(view, evidence.prior), victims, read))
        return Finding(victims, 1 - total_variation(guessed, np.stack([truth.histogram(i) for i in victims])))


def seen(view: CorruptView, prior: Matrix | None) -> Seen:
    """What a regression takes of the view."""
    known = estimates(view, prior)
    means = {(t, i): mean.astype(np.float32) for (t, _, i), mean in of_sums(view).items()}
    beyond = {(t, i): e.vector.astype(np.float32) for (t, _, i), e in known.items() if e.how != "mean"}
    grams = [c for c in view.compared if c.rows == c.columns and c.rows]
    compared = [Compared(c.round, c.rows, c.matrix, c.origin, means.get((c.round, c.rows[0]))) for c in grams]
    return Seen(view.public.rounds, means, compared, beyond)
