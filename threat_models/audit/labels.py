"""Label histograms of clients, regressed on all that the observer saw of each."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from ...fl.models.vector import load_vector, to_vector
from ..inference.label_regression import Compared, LabelRegression, Seen, features, total_variation
from ..inference.labels_of_update import labels_from_layer
from .estimates import Estimate
from .estimates import means as of_sums
from .experiment import Anchor, Budget, Evidence, Finding
from .membership import spaced, start_of
from .permuted_labels import read_permuted
from .reading import Instance
from .truth import Matrix, Truth
from .unread import unread
from .view import CorruptView

ROUNDS = 4
"""Updates of each client whose output layers are read, at most, evenly spaced."""
FOLDS = 4


@dataclass(frozen=True, slots=True)
class LabelInference:
    """1 - the total variation between a client's label histogram and its estimate.

    Of some guesses the one is used that does best on clients of the attacker's own run that it was not learned from: a ridge
    regression on published means, on what is known of updates beyond them, and on places in Gram matrices, learned there; the
    mean over some rounds of what the output layer of each estimated update says, read by public examples; where uploads are under
    a permutation, what updates of clients that the attacker makes up say of labels and places by turns; and the mean histogram of
    the attacker's own clients, which is best where labels are spread evenly.
    """

    name: str = "labels"
    unit: str = "1 - total variation of label histograms"
    side: str = "a run of its own of the same kind, whose data it knows, and public examples"
    source: str = "shadow regression; output layers (after Wainakh et al. 2022); made-up clients"
    anchor: Anchor = "sums alone"

    def applies(self, evidence: Evidence, /) -> str:
        public = evidence.view.public
        if public.auxiliary.y.ndim == 2:
            return "targets are tokens"
        known = [set(view.public.auxiliary.y.tolist()) for view in (evidence.view, evidence.shadow)]
        if missing := ", ".join(map(str, sorted(set(range(public.classes)) - set.intersection(*known)))):
            return f"public data have no example of label {missing}"
        return unread(evidence)

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view, shadow = evidence.view, evidence.shadow
        victims, own = honest(view), honest(shadow)
        known = np.stack([evidence.known.histogram(i) for i in own])
        about = slice(len(view.public.initial) - view.public.classes, len(view.public.initial))
        both = ((view, victims), (shadow, own))
        rows, of_own = (centred(features(seen(v, evidence.estimated(v)), at, about)) for v, at in both)
        parts = rng.permutation(len(own)) % FOLDS
        crossed, usual = (np.full_like(known, 1 / view.public.classes) for _ in range(2))
        for part in range(min(FOLDS, len(own)) if len(own) > 1 else 0):  # of one client there is no other to learn from
            rest = parts != part
            crossed[~rest] = LabelRegression.learned(of_own[rest], known[rest]).histograms(of_own[~rest])
            usual[~rest] = known[rest].mean(axis=0)
        read, read_own = (read_out(v, at, evidence.estimated(v)) for v, at in both)
        guesses = [
            (usual, np.broadcast_to(known.mean(axis=0), (len(victims), view.public.classes))),
            (crossed, LabelRegression.learned(of_own, known).histograms(rows)),
            (read_own, read),
        ]
        placed = [read_permuted(v, at, evidence.known, budget.clients, rng) for v, at in both]
        if placed[0] is not None and placed[1] is not None:
            guesses.append((placed[1], placed[0]))
        _, guess = min(guesses, key=lambda pair: float(total_variation(pair[0], known).mean()))
        truly = np.stack([truth.histogram(i) for i in victims])
        return Finding(victims, 1 - total_variation(guess, truly))


def centred(rows: Matrix) -> Matrix:
    """Features less their mean over the run's clients: what all have in common differs from run to run, and tells no client."""
    found: Matrix = rows - rows.mean(axis=0)
    return found


def honest(view: CorruptView) -> tuple[int, ...]:
    """Clients that are not corrupt."""
    return tuple(i for i in view.public.clients if i not in view.observer.clients)


def read_out(view: CorruptView, clients: Sequence[int], of: Mapping[Instance, Estimate]) -> Matrix:
    """Histograms that output layers tell, the mean over ROUNDS of them: float64 (clients, classes); even where there is nothing.

    of: estimates of updates.
    """
    public = view.public
    known: dict[tuple[bytes, bytes], Matrix] = {}  # clients whose estimate is their cluster's mean have the same
    module = deepcopy(public.module).cpu().eval()
    d, found = len(to_vector(module)), np.full((len(clients), public.classes), 1 / public.classes)
    for k, i in enumerate(clients):
        starts = {t: s for t, kind, j in of if (j, kind) == (i, "update") and (s := start_of(view, t, i)) is not None}
        told = []
        for t in spaced(sorted(starts), ROUNDS):
            start, update = starts[t][:d], np.asarray(of[t, "update", i].vector, np.float32)[:d]
            pair = start.tobytes(), update.tobytes()
            if pair not in known:
                load_vector(module, start)
                known[pair] = labels_from_layer(module, update, public.auxiliary, public.classes)
            told.append(known[pair])
        found[k] = np.mean(told, axis=0) if told else found[k]
    return found


def seen(view: CorruptView, known: Mapping[Instance, Estimate]) -> Seen:
    """What a regression takes of the view. known: estimates of updates."""
    means = {(t, i): mean.astype(np.float32) for (t, _, i), mean in of_sums(view).items()}
    beyond = {(t, i): e.vector.astype(np.float32) for (t, _, i), e in known.items() if e.how != "mean"}
    grams = [c for c in view.compared if c.gram and c.rows]
    compared = [Compared(c.round, c.rows, c.matrix, c.origin, means.get((c.round, c.rows[0]))) for c in grams]
    return Seen(view.public.rounds, means, compared, beyond)
