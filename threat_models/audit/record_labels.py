"""Labels of single records, from clouds, means and distances of embeddings: the attacks of `inference` on a recorded view."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...protocol.view.answers import Vector
from ..inference.mean_sketch import clipped, label_shares, named_by_sketches
from ..inference.projection_distances import between_kinds, named_clients, stacked
from ..inference.projection_known import Labels, Matrix, Moments, Rows, linear
from ..inference.projection_unknown import Guess as Aligned
from ..inference.projection_unknown import aligned
from .clouds import Cloud, clouds, reported, terms_of
from .embedding_models import Networks, weights_known
from .experiment import Evidence
from .view import Public

STARTS = 2
"""Of matching a cloud to public embeddings."""
ROWS = 160
"""Of a cloud that are matched; the others are read by the projection that this gives."""
COORDINATES = 24
"""Leading ones of embeddings, and of clouds, that are matched: what is left is mostly in the way of the match."""
FEWEST = 2
"""Public examples of a label, and rows of a cloud for each label, without which nothing is matched."""
MOST_GROUPS = 6
"""Groups of clients whose like a cloud is matched to."""
NEIGHBOURS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """labels: int64 (n,), or (1,) if they are the same. embeddings: float64 (n, d), or (1, d)."""

    labels: Labels = field(repr=False)
    embeddings: Matrix = field(repr=False)


class Attack:
    """What the observer of this evidence makes of each client's records."""

    def __init__(self, evidence: Evidence, networks: Networks) -> None:
        self._view, self._public, self._networks = evidence.view, evidence.view.public, networks
        self._labels = np.asarray(self._public.auxiliary.y.numpy(), np.int64)
        self._updates = evidence.estimated(self._view) if networks.own else {}
        self._of: dict[int, list[Cloud]] = defaultdict(list)
        for cloud in clouds(self._view):
            self._of[cloud.client].append(cloud)

    def __call__(self, victims: Sequence[int], rng: np.random.Generator) -> dict[int, Guess]:
        """Of every victim: by its clouds, or one label for all of its records; where there is nothing, the most frequent one."""
        one = dict(self._by_means(rng)) | dict(self._by_distances(rng))
        often = int(np.bincount(self._labels).argmax())
        embedded = self._embedded(self._networks.weights_of(self._public.initial))
        average = {k: embedded[self._labels == k].mean(axis=0, keepdims=True) for k in {often, *one.values()}}
        alike = {i: Guess(np.array([one.get(i, often)]), average[one.get(i, often)]) for i in victims}
        return {i: (self._by_clouds(mine, rng) if (mine := self._rows(i)) else None) or alike[i] for i in victims}

    def shares(self, victims: Sequence[int], rng: np.random.Generator) -> dict[int, Matrix]:
        """Of victims of whom anything is known, the shares of labels, float64 (classes,), that it tells."""
        one, classes = dict(self._by_means(rng)) | dict(self._by_distances(rng)), self._public.classes
        found = {i: np.bincount([one[i]], minlength=classes).astype(np.float64) for i in victims if i in one}
        found |= {i: of for i, of in self._shares_of_means() if i in victims}
        for i in victims:
            if (mine := self._rows(i)) and (guess := self._by_clouds(mine, rng)) is not None:
                found[i] = np.bincount(guess.labels, minlength=classes) / len(guess.labels)
        return found

    def _rows(self, client: int) -> list[Cloud]:
        """Its clouds that have a row of every record: those with a known projection, or else all of one model together."""
        mine = [cloud for cloud in self._of.get(client, ()) if cloud.terms.released != "mean"]
        known = [cloud for cloud in mine if cloud.projection is not None]
        return known[:1] or [c for c in mine if (c.by, c.terms.session.round) == (mine[0].by, mine[0].terms.session.round)]

    def _by_clouds(self, mine: Sequence[Cloud], rng: np.random.Generator) -> Guess | None:
        """Embeddings and their labels; None for clouds under unknown projections with too few rows to match."""
        one, weights = mine[0], self._weights(mine[0])
        embedded = self._embedded(weights)
        if one.projection is not None:
            noise = getattr(self._public.algorithm.choice, "noise", None)
            deviation = 0.0 if noise is None else noise.multiplier * noise.sensitivity(one.projection)
            found = linear(one.rows, one.projection, Moments.of(embedded), deviation)
            return Guess(named(found, embedded, self._labels), found)
        axes = np.linalg.svd(embedded.astype(np.float64), full_matrices=False)[2][:COORDINATES]
        rows, short = stacked([c.rows for c in mine], COORDINATES), embedded @ axes.T
        chosen = np.sort(rng.permutation(len(rows))[: min(ROWS, len(short))])
        if (best := max(self._matched(rows[chosen], short, rng), key=_likelihood, default=None)) is None:
            return None
        found = linear(rows, best.projection, Moments.of(short))
        found[chosen] = best.embeddings
        labels = named(found, short, self._labels)
        labels[chosen] = best.labels
        return Guess(labels, found @ axes)

    def _matched(self, rows: Rows, embedded: Rows, rng: np.random.Generator) -> Iterator[Aligned]:
        """To public embeddings, of each group's like apart, but for labels that are too rare to have a covariance."""
        for at in sets_of(self._public, len(rows)):
            names, counts = np.unique(self._labels[at], return_counts=True)
            common = at & np.isin(self._labels, names[counts >= FEWEST])
            if common.sum() >= len(rows) >= FEWEST * (counts >= FEWEST).sum() > 0:
                for _ in range(STARTS):
                    yield aligned(rows, embedded[common], self._labels[common], rng)

    def _by_means(self, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
        """The label that has the largest share in a client's mean; without the projection, that of the clients whose every record
        has one label and whose means are as far apart."""
        of = self._means()
        if of and any(cloud.projection is None for cloud in of.values()):
            names, centres = self._centres(next(iter(of.values())))
            yield from zip(of, named_by_sketches([c.rows[0] for c in of.values()], centres, names, rng).tolist(), strict=True)
        for i, shares in self._shares_of_means():
            yield i, int(np.argmax(shares))

    def _shares_of_means(self) -> Iterator[tuple[int, Matrix]]:
        """Of clients whose mean is seen together with its projection: float64 (classes,)."""
        of = self._means()
        if not of or any(cloud.projection is None for cloud in of.values()):
            return
        names, centres = self._centres(next(iter(of.values())))
        for i, cloud in of.items():
            found = np.zeros(self._public.classes)
            found[names] = label_shares(cloud.rows[0], np.asarray(cloud.projection), centres)
            yield i, found

    def _means(self) -> dict[int, Cloud]:
        return {i: cloud for i, mine in self._of.items() for cloud in mine if cloud.terms.released == "mean"}

    def _centres(self, one: Cloud) -> tuple[Labels, Matrix]:
        """Labels, and the mean clipped public embedding of each: float64 (labels, d)."""
        names = np.unique(self._labels)
        embedded = clipped(self._embedded(None), one.terms.clip)
        return names, np.stack([embedded[self._labels == k].mean(axis=0) for k in names])

    def _by_distances(self, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
        """The label of clients whose every record has one and who are as far apart as these say that they are."""
        if not (told := reported(self._view)):
            return
        terms = next(of for of in terms_of(self._view).values() if of.released == "distances")
        first = terms.session.roster[0]
        embedded = self._embedded(weights_known(self._view, self._networks, terms.session.round, first, self._updates))
        of = {k: rng.permutation(np.flatnonzero(self._labels == k)) for k in np.unique(self._labels).tolist()}
        of = {k: at for k, at in of.items() if len(at) > 1}
        size = min(terms.rows, *(len(at) // 2 for at in of.values()))
        halves = {k: (embedded[at[:size]], embedded[at[size : 2 * size]]) for k, at in of.items()}
        yield from named_clients(told, *between_kinds(halves, self._public.algorithm.distance), rng).items()

    def _weights(self, cloud: Cloud) -> Vector | None:
        if cloud.model is not None or not self._networks.own:
            return cloud.model
        return weights_known(self._view, self._networks, cloud.terms.session.round, cloud.by, self._updates)

    def _embedded(self, weights: Vector | None) -> Rows:
        return self._networks(self._public.auxiliary.x, weights)


def _likelihood(guess: Aligned) -> float:
    return guess.likelihood


def named(embeddings: Rows, public: Rows, labels: Labels) -> Labels:
    """The label of most of the nearest public embeddings, int64 (n,). public: (m, d), with labels (m,)."""
    from sklearn.neighbors import KNeighborsClassifier

    found = KNeighborsClassifier(min(NEIGHBOURS, len(public))).fit(public, labels).predict(embeddings)
    return np.asarray(found, np.int64)


def sets_of(public: Public, least: int) -> list[NDArray[np.bool_]]:
    """Public examples like each group's, where there are so many of them; else all together."""
    names = np.unique(public.groups)[:MOST_GROUPS]
    found = [public.groups == name for name in names]
    return [at for at in found if at.sum() >= least] or [np.ones(len(public.auxiliary), bool)]
