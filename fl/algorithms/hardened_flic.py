"""FLIC made to stand against majorities that lie, too: our variant, not the paper's (see flic.py for that).

What it does, in the order of a round, and what each part is against:
- **The deck.** Everybody is drawn once before anybody is twice, dealt anew each time: all clients come to meet, and are compared.
- **Evidence.** Of every session the cosines go into running averages, plain numbers: a client that is honest when it is looked
  at was looked at in all other rounds too (`hardened/evidence.py`). Who sends zeros says nothing, and is as if it were not there.
- **Forks.** Before anything is summed, the clients of a session are parted where they go different ways, by the evidence and
  by the round itself (`hardened/forks.py`): where they oppose each other, where some have turned from what they usually are to
  others, where some share what others lack (`hardened/cuts.py`), and where those who show least do so, too. Every part of at
  least a quorum, and of as many as a sum needs, gets a sum and a model of its own; smaller ones sit the round out. Who was parted
  stays so for some sessions, for more each time. Nobody asks which part is loyal, so a majority gains nothing by being one. There
  is no schedule: an attack of a single round meets a fork in that round.
- **Shortening, likeness, agreement** inside a part (`hardened/shares.py`), and any robust rule of the Gram matrix instead of
  the mean.
- **Choice** (`hardened/choices.py`), right after a fork, and in rounds that the server draws at random, one in `every` from T
  on: each client tries all current models and some earlier ones on its own data. It is served by the one that it chose, and
  trains there with those who chose it too, parted again by the evidence. So a ruined model is left behind, and votes for the
  worst one isolate the voters. The model of the largest community is offered first, and a client leaves it only for one that is
  better on its own examples beyond chance: where labels are skewed, loyal clients would otherwise part by what is a little
  better for each, and train ever more apart. Who sits a round out chooses in that round too.

It asks for sums, choices and one Gram matrix about the origin a session: whether updates are against each other is not seen in
their differences. All that it keeps is ids, numbers and models.

What it does not stand against. With half or more of the clients corrupt there is no bound, and cannot be: k equal groups may
each be honest for a different task, and a loyal minority with odd data looks like poisoners. What it has then is the choice,
which sees harm on a client's own examples, and no backdoor. Nor has the choice a bound here: what is provable of a client that
keeps the best model of those offered, and which of its assumptions fail, is in `threat_models/choice_theory.py`. The limit that
searches found is .20 of accuracy by 10 of 20; reports print it (`threat_models/design_limit.py`).
Harm below what a fork or a choice tells from noise stays: updates that are like the loyal ones, or orthogonal to them and to
each other; turning when honest updates are noise themselves; a backdoor among clients whose data differ as much as its poison
does. Where labels are skewed, coalitions of 6 to 9 of 20 that negate the last layer's rows of a few classes cost .02 to .03 of
accuracy in the mean of ten seeds, and up to .1, and need to see nothing of others: they come to differ as clients with other
data do. Those of 7 to 9 who hold most examples of two labels, and swap them, cost .10 in the worse of two runs, up to .15: no
method can keep both (`threat_models/swap_theory.py`). Who sees loyal updates costs as much there by 8 or 9, by mirroring its
own about theirs or by making two kinds of them (`threat_models/dividing.py`). Who sees them and has read the rule goes
against what clients differ by, alone or all one way, and leans to what the loyal share a little: that costs .03 by 9 where
data are alike; .03, up to .09, by 5, .05, up to .23, by 7 and .14, up to .39, by 9 where labels are skewed
(`threat_models/together.py`), and where half are drawn there .03 by 5, .05, up to .15, by 7 and .15, up to .27, by 9. With
labels dealt by Dirichlet(0.1) the same costs .10, up to .29, by 5, negated classes up to .37 by 9, and updates of next to
nothing up to .31 by 9 where half are drawn (`examples/results/robustness_search.md`). In
sessions of fewer than ten clients copies are not seen at once, nor lengths in those of fewer than eight, but by the evidence,
or not at all, and of fewer than 16 nobody is parted for going one way. **Where labels are much skewed it parts loyal clients
without any attack.** Of five to seven a quarter sits out in the mean, which costs up to .06 of accuracy with Dirichlet(0.5) and
.24 with Dirichlet(0.1); 20 with Dirichlet(0.1) lose .09 in the mean and up to .19. Where nobody lies federated averaging is
better there, by examples of all labels: by those of each client's own labels the 20 lose .01 in the mean and up to .05.
Long after all is learned updates are noise, and attackers may come back into the sums, to the harm that noise does. Nor does it
stand against clients that lie about the Gram matrix, or show one update and sum another (the protection says who can); nor,
with `by_samples`, about how many examples they have: 6 of 20 that report eighteen times as many and triple their updates lose
.5 to .7 of accuracy then, and nothing by default.
Without an inner rule a backdoor whose trigger is dealt out in parts (DBA) succeeds by 3 of 20, by 5 in up to all tests, and by
more. `inner=KrumOfShare()` keeps it out up to 5 of 20 where data are alike, to a tenth of the tests, for nothing. Where labels
are skewed it keeps parts by 4 of 20 out and costs accuracy, and a whole patch by 4 (BadNets) passes with it and without; from 8
of 20 on it helps nowhere (`examples/evaluate_inner_rule.py`).
What other searches found (`examples/hardened_flic_search.py`): attackers that differ from each other about a common shift
(loose ALIE, Min-Max), .03 below half and up to .1 at 12 of 20; from half of the clients on, updates that push honest ones apart,
scaled, .1 to .2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...protocol.view.answers import Assignment, Gram, Updates, Weights
from ...protocol.view.asks import Choices, MovesModels, Similarities, Sums, Trains
from ...protocol.view.functionality import Functionality
from ..clients.training import Training
from ..clustering.separation import cosine_similarity, norm_of_combination, norms
from ..robust.mixing import of_gram
from ..robust.rule import GramRule
from .algorithm import Cluster, Measured, Start, advanced, check_counts
from .cohorts import check_participation
from .flic import ALL
from .hardened.choices import quorum
from .hardened.evidence import Evidence, forgiven, parted_in
from .hardened.forks import by_evidence, by_round, with_session
from .hardened.serving import moved, offers, regrouped
from .hardened.shares import LOOSE, against, counted, enough, in_line, lengthened, of_their_own, shortened
from .hardened.state import FIRST, Anchor, State
from .usual import says_what_is_usual

OPPOSED = "an update against those of its community"
ALONE = "an update that goes its own way, with too few others for a community"


class HardenedView(Trains, Sums, Similarities, Choices, MovesModels, Protocol):
    """What the hardened FLIC asks for."""


class InnerRule(Protocol):
    """A robust rule that is a function of the Gram matrix. Its weights count relative to each other; those below 0 count as 0."""

    def weights(self, gram: NDArray[np.float64], rng: np.random.Generator, /) -> NDArray[np.float64]:
        """Weights (n,) of the updates in the result, from their Gram matrix (n, n). Raises ValueError where n is too small."""
        ...


@dataclass(frozen=True, slots=True)
class Branch:
    """Clients of a session that go one way. present: whose updates are there; absent: the others of theirs."""

    present: tuple[int, ...]
    absent: tuple[int, ...] = ()


@says_what_is_usual
@dataclass(frozen=True, slots=True, kw_only=True)
class HardenedFLIC:
    """FLIC with forks in every round, evidence from all of them, shortening, agreement, and choice.

    rounds_before: T, rounds before clients choose without a fork. every: rounds between such choices on average, and the least
    between models to go back to. guard: times the median norm to which longer updates are shortened. share: of all clients that
    makes a community. reluctance: standard errors by which another model has to be better on a client's own examples, example by
    example, before it leaves the first that is offered; 0 for the least mean loss. inner: a robust rule of the Gram matrix in the
    place of the mean and of likeness, inside every community, such as `KrumOfShare()` where backdoors count; a rule that cannot
    stand so few, or trusts nobody, leaves the model as it is. by_samples: weigh clients by how many examples they say they have,
    which nobody checks: not by default, unlike FLIC. The rest as in FLIC.
    """

    rounds_before: int
    every: int
    participation: float = 1.0
    inner: InnerRule | None = None
    guard: float = 1.0
    share: float = 0.2
    by_samples: bool = False
    reluctance: float = 2.0
    least: int = 1

    def __post_init__(self) -> None:
        check_participation(self.participation)
        check_counts(rounds_before=self.rounds_before, every=self.every, least=self.least)
        _check_inner(self.inner)
        if not 1 <= self.guard < inf:
            raise ValueError(f"guard is a finite factor of at least 1, not {self.guard}: half of all norms are above the median")
        if not 0 <= self.reluctance < inf:
            raise ValueError(f"reluctance is a finite number of standard errors of at least 0, not {self.reluctance}")
        if not 0 < self.share <= 0.5:
            raise ValueError(f"share is above 0 and at most 0.5, not {self.share}: a fork makes two communities")

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.SUMS, Functionality.GRAM_ORIGIN, Functionality.CHOICE})

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> State:
        return State(0, {ALL: Cluster(start.clients, start.model)}, {ALL: start.clients}, {FIRST: Anchor(start.model, 0)})

    def join(self, state: State, newcomers: Sequence[int], /) -> State:
        """New clients enter: as members while there is but one community, and as clients that choose at once afterwards."""
        if ALL not in state.clusters:
            return replace(state, waiting=tuple(sorted({*state.waiting, *newcomers})))
        everybody = tuple(sorted({*state.clusters[ALL].members, *newcomers}))
        return replace(state, clusters={ALL: replace(state.clusters[ALL], members=everybody)}, contributors={ALL: everybody})

    def round(self, state: State, view: HardenedView, rng: np.random.Generator, /) -> State:
        """A round of every community, forked where its clients go different ways; then a choice where one is due."""
        work = {}
        for name, contributors in sorted(state.contributors.items()):
            cluster, invited = state.clusters[name], self._drawn(state, contributors, rng, max(self.least, view.least))
            work[name] = Assignment(cluster.model, invited, tuple(sorted({*cluster.members, *invited})))
        drawn = {**state.drawn, **{i: state.round for a in work.values() for i in a.participants}}
        answered = view.train(state.round, work)
        state = replace(state, drawn=drawn, measured={}, forks={})
        for name, updates in sorted(answered.items()):
            state = self._averaged(state, view, name, updates, rng)
        state = replace(state, round=state.round + 1)
        due = rng.random() < 1 / self.every  # drawn in every round: nobody foresees it, and it tells nothing of the state
        offered = offers(state, self.every)
        if len(offered) > 1 and (state.forks or (due and state.round >= self.rounds_before)):
            chosen = view.choose(state.round - 1, offered, state.everybody)
            return regrouped(state, chosen, offered, max(view.least, quorum(len(state.everybody), self.share)), self.every)
        asked = tuple(sorted({*state.waiting, *_alone(state)}))
        return moved(state, view.choose(state.round - 1, offered, asked), offered) if asked and len(offered) > 1 else state

    def _drawn(self, state: State, contributors: Sequence[int], rng: np.random.Generator, least: int) -> tuple[int, ...]:
        """Everybody once before anybody twice, dealt anew each time: who never meets is never compared."""
        count = min(len(contributors), max(least, ceil(self.participation * len(contributors))))
        deal = ceil(len(contributors) / count) if count else 1
        shuffled = [int(i) for i in rng.permutation(np.array(contributors, dtype=np.int64))]
        return tuple(sorted(sorted(shuffled, key=lambda i: state.drawn.get(i, -1) // deal)[:count]))

    # --- one community's round ----------------------------------------------------------------------------------------

    def _averaged(self, state: State, view: HardenedView, name: str, updates: Updates, rng: np.random.Generator) -> State:
        cluster, gram = state.clusters[name], _that_move(view.gram(updates, origin=True))
        if not gram.clients:
            return state
        cosines, of = cosine_similarity(gram.matrix), norms(gram.matrix)
        community = tuple(sorted({*state.contributors[name], *gram.clients}))
        evidence = with_session(state.evidence, gram.clients, cosines, len(community) / len(state.everybody))
        fewest = max(view.least, quorum(len(state.everybody), self.share))
        least = max(2, view.least, ceil(fewest * len(gram.clients) / len(community) - 1e-9))
        parts, evidence = _parts(state.evidence, evidence, community, gram, cosines, of, least)
        going = [part for part in parts if len(part.present) >= least] or parts[:1]
        left_out = {i: ALONE for part in parts if part not in going for i in part.present}
        labels = [name] if len(going) == 1 else [f"{name}.{k}" for k in range(1, len(going) + 1)]
        asked: dict[str, Weights] = {}
        for label, part in zip(labels, going, strict=True):
            rows = [gram.clients.index(i) for i in part.present]
            lengths = [_shorten(state, part, of[rows], guard) for guard in (self.guard, max(self.guard, LOOSE))]
            weights, opposed = self._weights(gram, cosines, evidence, rows, lengths, view.least, rng)
            left_out |= dict.fromkeys(opposed, OPPOSED)
            asked |= {label: weights} if weights is not None else {}
        means = view.sums(updates, asked) if asked else {}
        on = {label: advanced(view, cluster, means.get(label)) for label in labels}
        following = replace(
            state,
            evidence=evidence,
            lengths=lengthened(state.lengths, gram.clients, of),
            measured={**state.measured, name: _measured(gram, cosines, asked, left_out)},
        )
        if len(going) == 1:
            return replace(following, clusters={**state.clusters, name: on[name]})
        return _forked(following, name, {label: (on[label], part) for label, part in zip(labels, going, strict=True)})

    def _weights(
        self,
        gram: Gram,
        cosines: NDArray[np.float64],
        evidence: Evidence,
        rows: Sequence[int],
        lengths: Sequence[NDArray[np.float64]],
        floor: int,
        rng: np.random.Generator,
    ) -> tuple[Weights | None, list[int]]:
        """The weights of a part's updates, or None where nobody is left; and who is not summed. lengths: factors for their
        lengths, of which the first are taken that leave enough. floor: of how many equal clients a sum has to show as little."""
        clients, block = [gram.clients[k] for k in rows], np.ix_(rows, rows)
        opposed = against(cosines[block])
        left_out = [clients[k] for k in opposed]
        own = of_their_own(evidence.centred(clients)[0]) if self.inner is None else np.ones(len(rows))
        own[opposed] = 0.0
        factors = enough([of * own for of in lengths], floor)
        if self.inner is None:
            factors = enough([factors * in_line(evidence.cosines(clients)[0]), factors], floor)
        else:
            kept = np.flatnonzero(factors)
            scale = np.outer(factors[kept], factors[kept])
            factors[kept] *= _inner(self.inner, gram.matrix[np.ix_(np.array(rows)[kept], np.array(rows)[kept])] * scale, rng)
        of = counted(clients, factors)
        return Weights(of, times_samples=self.by_samples and self.inner is None) if of else None, left_out


def _parts(
    before: Evidence,
    evidence: Evidence,
    community: Sequence[int],
    gram: Gram,
    cosines: NDArray[np.float64],
    of: NDArray[np.float64],
    least: int,
) -> tuple[list[Branch], Evidence]:
    """Who of a community goes one way, by all that was seen and by this round alone, most updates first, and the evidence."""
    parts, after = [], forgiven(evidence)
    for way in by_evidence(evidence, community):
        rows = [k for k, i in enumerate(gram.clients) if i in set(way)]
        present = [gram.clients[k] for k in rows]
        found = by_round(present, cosines[np.ix_(rows, rows)], of[rows], before, evidence, least) if rows else [()]
        after = parted_in(after, found)
        first, *rest = sorted(found, key=len, reverse=True)
        absent = tuple(i for i in way if i not in set(present))
        parts += [Branch(first, absent), *(Branch(part) for part in rest)]
    return sorted(parts, key=lambda part: len(part.present), reverse=True), after


def _shorten(state: State, part: Branch, of: NDArray[np.float64], guard: float) -> NDArray[np.float64]:
    """Factors for the lengths of a part's updates, of these norms, by what is known of all its clients."""
    clients = (*part.present, *part.absent)
    elsewhere = [state.lengths[i] for i in part.absent if i in state.lengths]
    all_drawn = all(i in state.drawn for i in clients)
    known = [state.lengths[i] for i in clients if i in state.lengths] if all_drawn else []
    return shortened(of, guard, elsewhere, float(np.median(known)) if known else None, all_drawn)


def _that_move(gram: Gram) -> Gram:
    """The Gram matrix without updates of 0: who sends one says nothing, and counts in no sum."""
    moving = np.flatnonzero(np.diagonal(gram.matrix) > 0)
    if len(moving) == len(gram.clients):
        return gram
    return replace(gram, clients=tuple(gram.clients[k] for k in moving), matrix=gram.matrix[np.ix_(moving, moving)])


def _alone(state: State) -> set[int]:
    """Who has just sat a round out: what serves it, others make, who go another way."""
    return {i for measured in state.measured.values() for i, why in measured.left_out.items() if why == ALONE}


def _forked(state: State, name: str, ways: Mapping[str, tuple[Cluster, Branch]]) -> State:
    """The state with new communities in the place of one. Who belongs to none of them stays with the first, the largest."""
    cluster, contributors = state.clusters[name], state.contributors[name]
    placed = {label: {*part.present, *part.absent} for label, (_, part) in ways.items()}
    first = next(iter(ways))
    placed[first] |= {*cluster.members, *contributors} - {i for group in placed.values() for i in group}
    clusters = {other: c for other, c in state.clusters.items() if other != name}
    groups = {other: group for other, group in state.contributors.items() if other != name}
    for label, (gone_on, _) in ways.items():
        members = tuple(i for i in cluster.members if i in placed[label])
        clusters[label] = Cluster(members, gone_on.model, state.round)
        groups[label] = tuple(i for i in contributors if i in placed[label])
    return replace(state, clusters=clusters, contributors=groups, forks={**state.forks, **dict.fromkeys(ways, name)})


def _measured(gram: Gram, cosines: NDArray[np.float64], asked: Mapping[str, Weights], left_out: Mapping[int, str]) -> Measured:
    """What a session showed, for the record: of the sum over the most clients, its length without sample counts."""
    most = max(asked.values(), key=lambda weights: len(weights.of), default=None)
    length = 0.0
    if most is not None:
        row = np.array([most.of.get(i, 0.0) for i in gram.clients])
        length = norm_of_combination(gram.matrix, row / row.sum())
    return Measured(length, float(norms(gram.matrix).max()), gram.clients, cosines, left_out=left_out)


def _inner(rule: InnerRule, gram: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """The rule's weights, none below 0; all 0 where it cannot say."""
    try:
        return np.maximum(np.asarray(rule.weights(gram, rng), dtype=np.float64), 0.0)
    except ValueError:
        return np.zeros(len(gram))


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
