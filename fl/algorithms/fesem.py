"""FeSEM: K centres, each client with the one that its model is nearest to (Xie, Long, Shen, et al., multi-center FL, 2020).

min over centres c_k and memberships r of (1/m) sum_i min_k |w_i - c_k|^2, where every w_i is trained locally. In turn: (E) r_i is
the nearest centre, (M) c_k the mean of its members' models, and then each client trains from c_{r_i}. All w_i are differences
from one public model, so inner products of those tell every distance of a model to a mean of models.

Where paper and authors' code differ or are silent, this is what happens:
- Distances are of whole models; the code's are of one weight matrix. Means are uniform, as in the objective.
- In the first round everybody trains from w^0, and k-means of what they end with makes the centres; the code takes the first K.
- The paper's (E) is about the centres that clients started from (`centres="printed"`): updates of two rounds are compared. By
  default it is about the means of what those members ended with, the centres that (M) would give, as in a step of Lloyd's
  algorithm, like the code's: one Gram matrix of the round tells it. Then nobody can join a centre none of whose members answered.
- A centre without members, or whose mean is not published because too few are in it, stays. Who does not answer stays with its
  own. Newcomers train from w^0 and then join the nearest.
- The inner products are of the updates themselves and not of deviations from their mean: several means are published of them.
- Clients start from another model than the one that their session names, which two servers have no way for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol

import numpy as np

from ...protocol.view.answers import Assignment, Gram, Model, Remembered, Updates, Weights
from ...protocol.view.asks import Histories, MovesModels, PersonalSums, Similarities, Sums, Trains
from ...protocol.view.functionality import Functionality
from ..clients.training import Training
from ..clustering.kmeans import Labels, Values, coordinates, grouped, kmeans, lloyd
from ..clustering.separation import norms
from .algorithm import Cluster, Flat, Measured, Start, check_counts, moved
from .cohorts import Sampling, check_participation, check_sampling, invited

ALL = "all"
"""The cluster that all clients' work is named by."""
FIRST_STEPS = 5
"""Of Lloyd's algorithm, to make the first centres."""


class FesemView(Trains, Sums, Similarities, Histories, PersonalSums, MovesModels, Protocol):
    """What FeSEM asks for. Of personal sums no sum: that clients start from models of their own choice."""


@dataclass(frozen=True, slots=True)
class State(Flat):
    """everyone: all clients, and w^0. centres: with their members, of which there may be none; empty before the first round.

    means: of the centres, the sums of updates that they are w^0 moved by, where they are compared with those of later rounds.
    """

    round: int
    everyone: Cluster
    centres: Mapping[str, Cluster] = field(default_factory=dict)
    means: Mapping[str, Remembered] = field(default_factory=dict)
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """The centres that have members."""
        return {name: c for name, c in self.centres.items() if c.members} or {ALL: self.everyone}

    @property
    def models(self) -> Sequence[Model]:
        return [self.everyone.model, *(centre.model for centre in self.centres.values())]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return list(self.means.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class FeSEM:
    """models: K. prox: mu of the variant with mu/2 |w - c|^2 in the local objective. centres: what (E) is about, as above.

    participation, sampling: who takes part in a round.
    """

    starts_apart: ClassVar[bool] = True
    span: ClassVar[int] = 1

    models: int
    prox: float = 0.0
    centres: Literal["this round's", "printed"] = "this round's"
    participation: float = 1.0
    sampling: Sampling = "cohorts"

    def __post_init__(self) -> None:
        check_counts(models=self.models)
        check_participation(self.participation)
        check_sampling(self.sampling)
        if not 0 <= self.prox < np.inf:
            raise ValueError(f"prox is 0 or more and finite, not {self.prox}")
        if self.centres not in ("this round's", "printed"):
            raise ValueError(f'centres are "this round\'s" or as "printed", not {self.centres!r}')

    @property
    def needs(self) -> frozenset[Functionality]:
        needed = {Functionality.SUMS, Functionality.GRAM_ORIGIN, Functionality.PERSONAL_SUMS}
        return frozenset(needed | ({Functionality.GRAM_HISTORY} if self.centres == "printed" else set()))

    def local(self, training: Training, /) -> Training:
        return replace(training, prox=self.prox) if self.prox else training

    def init(self, start: Start, /) -> State:
        if len(start.clients) < self.models:
            raise ValueError(f"{len(start.clients)} clients do not make {self.models} clusters")
        return State(0, Cluster(start.clients, start.model, seed=start.seed))

    def join(self, state: State, newcomers: Sequence[int], /) -> State:
        """New clients enter: without a centre until they have trained once."""
        members = tuple(sorted({*state.everyone.members, *newcomers}))
        return replace(state, everyone=replace(state.everyone, members=members))

    def round(self, state: State, view: FesemView, rng: np.random.Generator, /) -> State:
        """Local training, then (E) and (M)."""
        everyone = state.everyone
        least = 1 if state.centres else self.models  # the first round makes so many centres
        active = invited(everyone, state.round, self.participation, self.sampling, rng, max(least, view.least))
        own = {i: centre.model for centre in state.centres.values() for i in centre.members if i in active}
        updates = view.train(state.round, {ALL: Assignment(everyone.model, active, everyone.members, own=own)}).get(ALL)
        following = replace(state, round=state.round + 1, measured={})
        if updates is None:
            return following
        gram = view.gram(updates, origin=True)
        if len(gram.clients) < (1 if state.centres else self.models):
            return following
        found = self._nearest(state, view, updates, gram) if state.centres else self._first(gram, rng)
        seen = Measured(None, float(norms(gram.matrix).max()), gram.clients, None, communities=tuple(found.values()))
        return self._moved(replace(following, measured={ALL: seen}), view, replace(updates, clients=gram.clients), found)

    def _first(self, gram: Gram, rng: np.random.Generator) -> dict[str, tuple[int, ...]]:
        """Who is with which of the first centres."""
        labels = kmeans(coordinates(gram.matrix), self.models, rng, steps=FIRST_STEPS)
        return {f"centre {k + 1}": members for k, members in grouped(labels, gram.clients).items()}

    def _nearest(self, state: State, view: FesemView, updates: Updates, gram: Gram) -> dict[str, tuple[int, ...]]:
        """(E): of those who answered, who is nearest to which centre."""
        if self.centres == "printed":
            apart = np.stack([_distances(view, updates, gram, mean) for mean in state.means.values()], axis=1)
            return _named(list(state.means), np.argmin(apart, axis=1), gram.clients)
        points = coordinates(gram.matrix)
        before = {n: [k for k, i in enumerate(gram.clients) if i in c.members] for n, c in state.centres.items()}
        there = {name: at for name, at in before.items() if at}
        if not there:
            return {}
        labels, _ = lloyd(points, np.stack([points[at].mean(axis=0) for at in there.values()]), 1)
        return _named(list(there), labels, gram.clients)

    def _moved(self, state: State, view: FesemView, updates: Updates, found: Mapping[str, tuple[int, ...]]) -> State:
        """(M): the mean of what the members of each centre ended with."""
        placed = {i for members in found.values() for i in members}
        centres = {
            name: replace(c, members=tuple(i for i in c.members if i not in placed)) for name, c in state.centres.items()
        } or {name: replace(state.everyone, members=(), born=state.round) for name in found}
        centres = {n: replace(c, members=tuple(sorted({*c.members, *found.get(n, ())}))) for n, c in centres.items()}
        weights = {n: Weights(dict.fromkeys(members, 1.0), members=centres[n].members) for n, members in found.items()}
        means = dict(state.means)
        for name, mean in view.sums(updates, weights).items():
            if (model := moved(view, state.everyone.model, mean)) is not None:
                centres[name] = replace(centres[name], model=model)
            if self.centres == "printed" and (model is not None or name not in means):
                share = 0.0 if model is None else 1 / len(found[name])  # w^0 stays where nothing was published
                means[name] = view.accumulate(updates, dict.fromkeys(found[name], share), together=True)
        return replace(state, centres=centres, means=means)


def _distances(view: Histories, updates: Updates, gram: Gram, mean: Remembered) -> Values:
    """Squared distances of the models of this round to a centre of the last."""
    inner = view.gram_with(replace(updates, clients=gram.clients), mean)
    found: Values = np.diagonal(inner)[:-1] + inner[-1, -1] - 2 * inner[:-1, -1]
    return found


def _named(names: Sequence[str], labels: Labels, clients: Sequence[int]) -> dict[str, tuple[int, ...]]:
    return {names[k]: members for k, members in grouped(labels, clients).items()}
