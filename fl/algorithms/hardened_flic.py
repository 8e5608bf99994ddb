"""FLIC made to stand against a minority of clients that lies: our variant, not the paper's (see flic.py for that).

Against half and more of the clients, where their data are alike, take `forking_flic.py`: a majority that attacks weakly, in
pulses or by votes ruins this one. Where labels are skewed and attackers are fewer than half, this one loses less.

What it adds, and what each part is against:
- **Norm guard.** Cosines do not see lengths. An update far longer than the median of its community's last two rounds is left
  out of the sum and of the memory, and recorded.
- **The deck.** A round draws the clients that have waited longest, so that after 1 / participation rounds all have been seen and
  every similarity is recent.
- **Agreement.** Inside a community an update is summed unless its mean cosine to the community's updates since the last
  grouping is below 0, and that to those of them that are not below 0 is so by more than noise; the sum itself may follow any
  robust rule of the Gram matrix.
- **Grouping again**, every `every` rounds from T on: who turns is found out, and found out early, because T may be small.
- **Choice.** At every grouping each client tries, on its own data, all communities' models, what they were at the grouping
  before, and before T the models of earlier rounds. A community goes on from the model that most of its members chose. So a
  model that an attack has ruined is left behind: for the initial one, if nothing better is there (the rewind).
- **Evidence.** Late in training cosines are small, and noise would carry clients from one community to another. Groupings look
  at the mean of all groupings' cosines, weighted by how large those were.
- **Turning.** A client whose updates are clearly against its community's, time after time, is judged anew towards that community:
  what it was does not speak for what it is.
- **Fragments.** Modularity breaks clients that differ by noise alone into pieces. Communities whose updates do not point
  apart, and whose cosines are not `apart` standard deviations lower between than inside either, are one.

Which community is loyal is decided by nobody else: each client is *served* by its own community, by another one whose model it
says serves it better and which that one made, or by a model that it keeps as it is. So loyal clients leave a captured
community that is not captured again at once. It *contributes* where its updates agree; a client that has sent none contributes
where it says, and is summed if it agrees.

What it does not stand against: updates that agree with the loyal ones in direction and length and differ by little in every
round (a hider, cloaked collusion): they stay in the sum, to the harm that so little does; and who can lie about the Gram matrix
(the protection says so). Where cosines have become small, as late in training or with few examples a client, single clients are
grouped by noise: who joins then is served as it chooses, but may contribute to nobody, and a loyal client that lands among
attackers is served badly until the next grouping, when it chooses. No more than `guard` and `apart` stand between an attacker
that knows them and the sum. Measured in `examples/hardened_flic_adaptive.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...protocol.answers import Assignment, Functionality, Gram, Updates, Weights
from ...protocol.view import ServerView
from ..communities import Detector, Louvain, Similarity, check_callables, detect, one_plus_cosine
from ..robust.mixing import of_gram
from ..robust.rule import GramRule
from ..screening import against, clearly_against, faded, far_above, gathered, merged, plurality
from ..separation import cosine_similarity, norm_of_combination, norms
from ..training import Training
from .algorithm import Cluster, Measured, Start, advanced, check_counts, check_participation, mean_of
from .flic import ALL, named
from .hardened_state import State, Stored
from .incremental_similarity import refreshed
from .serving import anchors_after, serving

EVERYBODY = "everybody"
"""What a grouping measured, on record."""
LONG = "an update far longer than those of its community"
OPPOSED = "an update against those of its community"
LIKELY = 1.0
"""Standard errors by which the mean cosine of an update that is left out is below 0: less may be noise."""
TURNED = 3
"""So many updates clearly against the others without one that agrees, and a client is no longer taken for what it was."""


class InnerRule(Protocol):
    """A robust rule that is a function of the Gram matrix. Its weights count relative to each other; those below 0 count as 0."""

    def weights(self, gram: NDArray[np.float64], rng: np.random.Generator, /) -> NDArray[np.float64]:
        """Weights (n,) of the updates in the result, from their Gram matrix (n, n). Raises ValueError where n is too small."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HardenedFLIC:
    """FLIC with a norm guard, agreement inside communities, choice, rewind, merging, and grouping again.

    rounds_before: T, rounds before the first grouping. every: rounds between groupings, and between anchors before T. guard:
    times the median norm beyond which an update is left out. apart: standard deviations by which the cosines between two
    communities are lower than inside. inner: a robust rule of the Gram matrix in the place of the mean; a rule that cannot stand
    so few, or trusts nobody, leaves the model as it is. The rest as in FLIC.
    """

    rounds_before: int
    every: int
    participation: float = 1.0
    similarity: Similarity = one_plus_cosine
    detector: Detector = field(default_factory=Louvain)
    inner: InnerRule | None = None
    guard: float = 3.0
    apart: float = 2.0
    by_samples: bool = True
    least: int = 1

    def __post_init__(self) -> None:
        check_participation(self.participation)
        check_counts(rounds_before=self.rounds_before, every=self.every, least=self.least)
        check_callables(similarity=self.similarity, detector=self.detector)
        _check_inner(self.inner)
        if not 1 <= self.guard < inf:
            raise ValueError(f"guard is a finite factor of at least 1, not {self.guard}: half of all norms are above the median")
        if not 0 <= self.apart < inf:
            raise ValueError(f"apart is a finite number of 0 or more, not {self.apart}")

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.SUMS, Functionality.GRAM_ORIGIN, Functionality.GRAM_REMEMBER, Functionality.CHOICE})

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> State:
        return State(0, {ALL: Cluster(start.clients, start.model)}, {ALL: start.clients}, {"round 0": start.model})

    def join(self, state: State, newcomers: Sequence[int], /) -> State:
        """New clients enter: as members before T, and as clients that choose at the next grouping afterwards."""
        if ALL not in state.clusters:
            return replace(state, waiting=tuple(sorted({*state.waiting, *newcomers})))
        everybody = tuple(sorted({*state.clusters[ALL].members, *newcomers}))
        return replace(state, clusters={ALL: replace(state.clusters[ALL], members=everybody)}, contributors={ALL: everybody})

    def round(self, state: State, view: ServerView, rng: np.random.Generator, /) -> State:
        """A round of robust averaging in every cluster, then a grouping or an anchor where one is due."""
        work = {}
        for name, contributors in sorted(state.contributors.items()):
            cluster, invited = state.clusters[name], self._drawn(state, contributors, rng)
            work[name] = Assignment(cluster.model, invited, tuple(sorted({*cluster.members, *invited})))
        drawn = {**state.drawn, **{i: state.round for a in work.values() for i in a.participants}}
        answered = view.train(state.round, work)
        state = replace(state, drawn=drawn, measured={})
        for name, updates in sorted(answered.items()):
            state = self._averaged(state, view, name, updates, rng)
        state = replace(state, round=state.round + 1)
        since = state.round - self.rounds_before
        if state.memory.clients and (since >= 0 and (since % self.every == 0 or ALL in state.clusters)):
            return self._grouped(state, view, rng)
        if ALL in state.clusters and state.round % self.every == 0:
            return replace(state, anchors={**state.anchors, f"round {state.round}": state.clusters[ALL].model})
        return state

    def _drawn(self, state: State, contributors: Sequence[int], rng: np.random.Generator) -> tuple[int, ...]:
        """Those who have waited longest, in random order among equals."""
        count = min(len(contributors), max(self.least, int(np.ceil(self.participation * len(contributors)))))
        shuffled = [int(i) for i in rng.permutation(np.array(contributors, dtype=np.int64))]
        return tuple(sorted(sorted(shuffled, key=lambda i: state.drawn.get(i, -1))[:count]))

    # --- one cluster's round ------------------------------------------------------------------------------------------

    def _averaged(self, state: State, view: ServerView, name: str, updates: Updates, rng: np.random.Generator) -> State:
        cluster, gram = state.clusters[name], view.gram(updates, origin=True)
        if not gram.clients:
            return state
        of = dict(zip(gram.clients, (float(norm) for norm in norms(gram.matrix)), strict=True))
        era = [i for i in state.contributors[name] if i in state.stored and state.stored[i].round >= cluster.born]
        recent = [state.stored[i].norm for i in era if i not in of and state.stored[i].round == state.round - 1]
        long = far_above(of, recent, self.guard)
        kept = tuple(i for i in gram.clients if i not in long)
        memory = refreshed(state.memory, view, updates, gram, kept)
        row = {client: k for k, client in enumerate(memory.clients)}
        others = [row[i] for i in sorted({*era, *kept} - set(long))]
        below = against(memory.cosines, [row[i] for i in kept], others)
        steady = [k for k in others if k not in below] or others
        opposed, clearly = against(memory.cosines, below, steady, LIKELY), clearly_against(memory.cosines, below, steady)
        left_out = dict.fromkeys(long, LONG) | {memory.clients[k]: OPPOSED for k in opposed}
        times = {i: 0 for i in kept if row[i] not in below}
        times |= {i: state.opposed.get(i, 0) + 1 for i in (memory.clients[k] for k in clearly)}
        weights = self._weights(gram, [i for i in kept if i not in left_out], rng)
        moved, of_mean = cluster, 0.0
        if weights is not None:
            moved = advanced(view, cluster, view.sums(updates, {name: weights})[name])
            row_of = np.array([weights.of.get(i, 0.0) for i in gram.clients])
            of_mean = norm_of_combination(gram.matrix, row_of / row_of.sum())
        measured = Measured(of_mean, max(of.values()), gram.clients, cosine_similarity(gram.matrix), left_out=left_out)
        return replace(
            state,
            clusters={**state.clusters, name: moved},
            memory=memory,
            stored={**state.stored, **{i: Stored(state.round, of[i]) for i in kept}},
            opposed={**state.opposed, **times},
            measured={**state.measured, name: measured},
        )

    def _weights(self, gram: Gram, clients: Sequence[int], rng: np.random.Generator) -> Weights | None:
        """The weights of these clients' updates; None where nobody is left, or the rule trusts nobody or cannot say."""
        if not clients:
            return None
        if self.inner is None:
            return mean_of(clients, self.by_samples)
        rows = [gram.clients.index(i) for i in clients]
        try:
            found = self.inner.weights(gram.matrix[np.ix_(rows, rows)], rng)
        except ValueError:
            return None
        of = {i: float(w) for i, w in zip(clients, found, strict=True) if w > 0}
        return Weights(of) if of else None

    # --- grouping -----------------------------------------------------------------------------------------------------

    def _grouped(self, state: State, view: ServerView, rng: np.random.Generator) -> State:
        """Communities by what updates say, their models by what clients say."""
        models = {**{f"{name}'s model": c.model for name, c in state.clusters.items()}, **state.anchors}
        members = sorted({i for c in state.clusters.values() for i in c.members} | set(state.waiting))
        chosen = view.choose(state.round - 1, models, members)
        seen, order = state.memory, list(models)
        fresh = [i for i, stored in state.stored.items() if stored.round >= min(c.born for c in state.clusters.values())]
        turned = {i: group for group in state.contributors.values() for i in group if state.opposed.get(i, 0) >= TURNED}
        evidence = gathered(faded(state.evidence, turned), seen.clients, seen.cosines, seen.known, fresh)
        cosines = evidence.mean
        found = detect(self.detector, self.similarity, cosines, evidence.known, evidence.clients, rng)
        groups = named(merged(found, cosines, evidence.clients, self.apart))
        start = {name: plurality(chosen, group, order) or order[0] for name, group in groups.items()}
        made = {} if ALL in state.clusters else {f"{name}'s model": set(of) for name, of in state.contributors.items()}
        served = {i: serving(i, groups, start, made, chosen.get(i)) for i in members}
        contributors = {
            name: tuple(sorted({*group, *(i for i in members if i not in evidence.clients and served[i] == name)}))
            for name, group in groups.items()
        }
        kept = {f"kept {k}": name for k, name in enumerate((n for n in order if n in served.values()), 1)}
        clusters = {
            name: Cluster(tuple(i for i in members if served[i] == kept.get(name, name)), models[model], state.round)
            for name, model in {**start, **kept}.items()
        }
        everything = Measured(0.0, 0.0, evidence.clients, cosines, communities=tuple(groups.values()), known=evidence.known)
        return replace(
            state,
            clusters=clusters,
            contributors=contributors,
            anchors=anchors_after(state, {name: clusters[name] for name in groups}),
            evidence=evidence,
            opposed={i: times for i, times in state.opposed.items() if i not in turned},
            waiting=tuple(i for i in members if served[i] is None),
            measured={**state.measured, EVERYBODY: everything},
        )


def _check_inner(inner: object) -> None:
    """Raise ValueError for what gives no weights from a Gram matrix, and for rules that shorten updates.

    The weights of an inner rule count relative to each other, so that a rule that shortens would silently be a mean. Of the
    rules of `fl.robust` those are let in whose weights sum to 1 by definition (`shift_invariant`).
    """
    if inner is None:
        return
    if not callable(getattr(inner, "weights", None)) or (isinstance(inner, GramRule) and not of_gram(inner)):
        raise ValueError(f"{inner!r} gives no weights from a Gram matrix alone; take a rule that does, such as GeometricMedian()")
    if getattr(inner, "shift_invariant", True) is not True:
        raise ValueError(f"{inner!r} may shorten updates, but inner weights are relative; take one that is shift_invariant")
