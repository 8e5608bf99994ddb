"""Label histograms of clients, regressed on all that the observer saw of each."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from ...fl.models.vector import load_vector, to_vector
from ..inference.label_regression import Compared, LabelRegression, Seen, features, total_variation
from ..inference.labels_of_update import labels_from_layer
from .estimates import estimates
from .estimates import means as of_sums
from .experiment import Budget, Evidence, Finding
from .membership import spaced, start_of
from .truth import Matrix, Truth
from .view import CorruptView


@dataclass(frozen=True, slots=True)
class LabelInference:
    """1 - the total variation between a client's label histogram and its estimate.

    Two attacks, of which the one that does better on the attacker's own run is used: a ridge regression on published means, on
    what is known of updates beyond them, and on places in Gram matrices, learned there; and the mean over rounds of what the
    output layer of each estimated update says, read by public examples.
    """

    name: str = "labels"
    unit: str = "1 - total variation of label histograms"
    side: str = "a run of its own of the same kind, whose data it knows, and public examples"
    source: str = "shadow regression; output layers (after Wainakh et al. 2022)"

    def applies(self, evidence: Evidence, /) -> str:
        return "targets are tokens" if evidence.view.public.auxiliary.y.ndim == 2 else ""

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view, shadow = evidence.view, evidence.shadow
        victims, own = honest(view), honest(shadow)
        known = np.stack([evidence.known.histogram(i) for i in own])
        about = slice(len(view.public.initial) - view.public.classes, len(view.public.initial))
        rows, of_own = (features(seen(v, evidence.prior), at, about) for v, at in ((view, victims), (shadow, own)))
        halves = rng.permutation(len(own)) % 2 == 0
        crossed = np.zeros_like(known)
        for half in (halves, ~halves):
            crossed[half] = LabelRegression.learned(of_own[~half], known[~half]).histograms(of_own[half])
        regressed = LabelRegression.learned(of_own, known).histograms(rows)
        read, read_own = (read_out(v, at, evidence.prior, budget) for v, at in ((view, victims), (shadow, own)))
        better = total_variation(read_own, known).mean() < total_variation(crossed, known).mean()
        truly = np.stack([truth.histogram(i) for i in victims])
        return Finding(victims, 1 - total_variation(read if better else regressed, truly))


def honest(view: CorruptView) -> tuple[int, ...]:
    """Clients that are not corrupt."""
    return tuple(i for i in view.public.clients if i not in view.observer.clients)


def read_out(view: CorruptView, clients: Sequence[int], prior: Matrix | None, budget: Budget) -> Matrix:
    """Histograms that output layers tell, the mean over some rounds: float64 (clients, classes); even where there is nothing."""
    public, of = view.public, estimates(view, prior)
    module = deepcopy(public.module).cpu()
    d, found = len(to_vector(module)), np.full((len(clients), public.classes), 1 / public.classes)
    for k, i in enumerate(clients):
        starts = {t: s for t, kind, j in of if (j, kind) == (i, "update") and (s := start_of(view, t, i)) is not None}
        told = []
        for t in spaced(sorted(starts), budget.rounds):
            load_vector(module, starts[t][:d])
            update = np.asarray(of[t, "update", i].vector, np.float32)[:d]
            told.append(labels_from_layer(module, update, public.auxiliary, public.classes))
        found[k] = np.mean(told, axis=0) if told else found[k]
    return found


def seen(view: CorruptView, prior: Matrix | None) -> Seen:
    """What a regression takes of the view."""
    known = estimates(view, prior)
    means = {(t, i): mean.astype(np.float32) for (t, _, i), mean in of_sums(view).items()}
    beyond = {(t, i): e.vector.astype(np.float32) for (t, _, i), e in known.items() if e.how != "mean"}
    grams = [c for c in view.compared if c.rows == c.columns and c.rows]
    compared = [Compared(c.round, c.rows, c.matrix, c.origin, means.get((c.round, c.rows[0]))) for c in grams]
    return Seen(view.public.rounds, means, compared, beyond)
