"""What the observer makes of clients' records, one by one, where clients are compared by embeddings (`protocol.pairs`)."""

from dataclasses import dataclass

import numpy as np

from ...protocol.pairs.choices import Distances, MeanSketch
from ..inference.projection_scores import accuracy, median_error
from .embedding_models import Networks, true_weights
from .experiment import Anchor, Budget, Evidence, Finding, victims_of
from .record_labels import Attack, Guess, named
from .truth import Truth
from .unread import uncompared

SHARE, ERROR = "share of labels named", "relative error of embeddings"


@dataclass(frozen=True, slots=True)
class EmbeddingInference:
    """(a - m) / (1 - m), or 0 if that is less, over the records that a client is compared by: a, the share of them whose label is
    named right; m, the share of their most frequent label. So it is 0 for who gives all of them one label, and 1 for all right.

    By what the observer has: a cloud and its projection, of which embeddings follow; clouds alone, which are matched to public
    embeddings by their shape. Sums alone tell nothing of single records: there it is the most frequent label of all. Where no
    record has a row of its own, in means and in distances between clients, this value could be nothing but 0: there the
    experiment does not apply, and `LabelShares` measures what they tell. Everything is the embeddings in clear, each
    labelled like the nearest public ones. Clients with one label are left out, as nothing sets their records apart.

    Figures, over all victims: the share of records whose label is named, which shows what is told of a client's labels as a whole
    too; and the median over records of |z' - z| / |z|, z the embedding, mean over victims.
    """

    name: str = "embeddings"
    unit: str = "share of a client's records whose label is named, beyond its most frequent one"
    side: str = "public examples of the same distribution, with labels"
    source: str = "Liu et al. 2006; Giannella et al. 2013; matching by shape after Grave, Joulin and Berthet 2019"
    anchor: Anchor = "sums alone"

    def applies(self, evidence: Evidence, /) -> str:
        if reason := uncompared(evidence):
            return reason
        public = evidence.view.public
        choice, served = public.algorithm.choice, not evidence.view.observer.clients
        if isinstance(choice, MeanSketch) or (isinstance(choice, Distances) and served):
            return "it has nothing of single records, so that this measures nothing: see label shares"
        return ""

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view, networks = evidence.view, Networks(evidence.view.public)
        victims = tuple(i for i in victims_of(view, budget.victims, rng) if i in truth.compared)
        weights = {i: true_weights(networks, truth, i) for i in victims}
        exact = {i: networks(truth.compared[i].x, weights[i]) for i in victims}
        if evidence.pooled is None:
            guesses = Attack(evidence, networks)(victims, rng)
        else:
            x, y = view.public.auxiliary.x, view.public.auxiliary.y.numpy()
            guesses = {i: Guess(named(exact[i], networks(x, weights[i]), y), exact[i].astype(np.float64)) for i in victims}
        right, errors, values = list[float](), list[float](), dict[int, float]()
        for i, guess in guesses.items():
            labels = truth.compared[i].y.numpy()
            most = float(np.bincount(labels).max()) / len(labels)
            right.append(accuracy(np.broadcast_to(guess.labels, labels.shape), labels))
            errors.append(median_error(np.broadcast_to(guess.embeddings, exact[i].shape), exact[i]))
            if most < 1:
                values[i] = max(0.0, (right[-1] - most) / (1 - most))
        figures = {SHARE: float(np.mean(right or [0.0])), ERROR: float(np.mean(errors or [0.0]))}
        return Finding(tuple(values), np.array([*values.values()]), figures=figures)
