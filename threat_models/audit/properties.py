"""Whether a property holds of a client's data, from what the observer makes of the client's first update."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from ...fl.data.population import Examples
from ...fl.models.vector import dimension
from ..inference.property_inference import learned
from .experiment import Anchor, Budget, Evidence, Finding, Values
from .labels import honest
from .made_up import MadeUp
from .membership import start_of
from .truth import Truth
from .unread import unread


class Holds(Protocol):
    """Whether a property holds of a client's examples. public: others of the same kind, to compare them with."""

    def __call__(self, examples: Examples, public: Examples, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class MoreOf:
    """Whether a larger share of the examples than of public ones has this label."""

    label: int

    def __call__(self, examples: Examples, public: Examples, /) -> bool:
        return bool((examples.y == self.label).double().mean() > (public.y == self.label).double().mean())


@dataclass(frozen=True, slots=True)
class PropertyInference:
    """2 p - 1 of each victim, p the share of victims on the other side that it is told from, ties half: 0 by chance on average.

    holds: the property; None for `MoreOf` the label that splits the attacker's own clients most evenly, which can be asked of any
    labelled data. Ask what your clients would not have known of them, as `PropertyInference(from_a_city, "from a city")`. A
    linear classifier is learned on clients that the attacker makes up of public examples, with the property and without, from the
    initial model; it reads each client's first update from there, as it is estimated. members, others: scores of clients with
    the property, and without.
    """

    holds: Holds | None = None
    name: str = "property"
    unit: str = (
        "2 p - 1, p the chance that a client is told from one on the other side: by default, whether it has more of a label than"
        " others, of that which splits the attacker's clients most evenly"
    )
    side: str = "public examples, and a run of its own for the sizes of clients"
    source: str = "meta-classifier on made-up clients (Ganju et al. 2018; Melis et al. 2019)"
    anchor: Anchor = "sums alone"
    alike_in_a_run: ClassVar[bool] = True  # one classifier for all of its clients, who differ by the groups that they are of

    def applies(self, evidence: Evidence, /) -> str:
        return "targets are tokens" if evidence.view.public.auxiliary.y.ndim == 2 else unread(evidence)

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        public, clients = evidence.view.public, truth.population.clients
        made = evidence.taught(budget.clients, rng)
        holds = self.holds or even_split(evidence.known, public.auxiliary)
        victims = honest(evidence.view)
        truly = np.array([bool(holds(clients[i].train, public.auxiliary)) for i in victims], bool)
        if truly.all() or not truly.any():
            return Finding((), np.zeros(0), why="all clients have the property, or none has")
        scores = read_property(evidence, made, holds, victims)
        values = placements(scores, truly)
        return Finding(victims, values, scores[truly], scores[~truly], moves=moves(values, truly))


def read_property(evidence: Evidence, made: MadeUp, holds: Holds, clients: tuple[int, ...]) -> Values:
    """Log odds of the property for each client, float64 (clients,); 0 where nothing is known of it."""
    view = evidence.view
    known = np.array([bool(holds(part, view.public.auxiliary)) for part in made.parts], np.int64)
    if len(np.unique(known)) < 2:
        return np.zeros(len(clients))
    classifier, d = learned(made.updates[0], known), dimension(view.public.module)
    first, scores = view.public.initial[:d], np.zeros(len(clients))
    found = evidence.estimated(view)
    for k, i in enumerate(clients):
        rounds = sorted(t for t, kind, j in found if (kind, j) == ("update", i))
        starts = {t: start_of(view, t, i) for t in rounds}
        at = next((t for t in rounds if (s := starts[t]) is None or np.array_equal(s[:d], first)), None)
        if at is not None and len(of := found[at, "update", i].vector) >= d:
            scores[k] = float(classifier.scores(of[None, :d].astype(np.float32))[0])
    return scores


def even_split(known: Truth, public: Examples) -> MoreOf:
    """`MoreOf` the label that nearest to half of the attacker's own clients have more of."""
    clients = known.population.clients.values()
    shares = [np.mean([MoreOf(k)(c.train, public) for c in clients]) for k in range(known.population.classes)]
    return MoreOf(int(np.argmin(np.abs(np.array(shares) - 0.5))))


def placements(scores: Values, truly: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Values:
    """Of each client, twice the share of those on the other side that it is on its own side of, ties half, less 1."""
    found = np.zeros(len(scores))
    for k, own in enumerate(truly):
        ahead = (scores[k] - scores[truly != own]) * (1 if own else -1)
        found[k] = 2 * float(np.mean((ahead > 0) + 0.5 * (ahead == 0))) - 1
    return found


def moves(values: Values, truly: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Values:
    """What each placement adds to the mean of all, whose spread is that of an area under a curve (DeLong, DeLong and
    Clarke-Pearson 1988): each side has that area as its mean, however few are on it, and both are drawn by chance.
    """
    sizes = np.where(truly, truly.sum(), (~truly).sum())
    mean = float(values.mean())
    return np.asarray(mean + (values - mean) * len(values) / sizes, np.float64)
