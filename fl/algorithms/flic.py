"""FLIC: federated learning with incremental clustering (Espinoza Castellon et al., IJCNN 2022). Line numbers are Algorithm 1's.

The server trains one model for T rounds. Then it finds communities in the graph of the similarities of all clients' most recent
updates, and each community goes on with a model of its own.

As printed, the server fills the matrix of similarities round by round, for which it must be able to compare updates of different
rounds all the time. Here it asks once, in the last round before T (`similarities="once"`): everybody is invited to it, and its
updates are compared by what they differ in from their mean. They begin from one model, so that groups are told apart sooner than
by updates of different rounds. Where not all can be invited at once, clients keep their last update until T and show the inner
products of what they kept, less the mean of those that were summed with them (`similarities="recalled"`). Who does not answer
then is like a client that was never sampled. Communities wait until similarities are known of half of the clients that were
asked, and of as many as a sum needs (`flic_ripe.py`): until then all train one model, and are compared anew. Clients are grouped
by what they did in one round: an attacker who is honest in it stays among the loyal, whatever it does before and after. Against
poisoning use `HardenedFLIC`.

Where paper and authors' code differ or are silent, this is what happens:
- The graph has no self loops, and what is not known is no edge. A similarity of exactly 0 (a minus-gradient twin) stays 0.
- An update of norm 0 has cosine 0, so similarity 1, to all others; asked once, one that is the mean of all does. An update that
  the view rejects is not stored.
- A client whose cosine to another is exactly 1 is compared like any other.
- A sample is ceil(participation * |c|) clients of a community, `least` at least, and so one of a community of one. By default
  it is one of fixed cohorts, in turn, so that sums of many rounds tell no client from its cohort; the paper's is random.
- A community that is too small for a sum (`Sums.least`) would keep the first model for good: each of its clients trains alone
  from it, from the round after T, and newcomers choose among the models of the others. Where all are alone newcomers have none to
  choose: they go on together from the model that communities began with. Where all communities would be too small while clients
  are away, there are none yet.
- After T, updates are neither compared nor stored (Algorithm 1); what was stored is forgotten.
- Right after T all communities have one model, and nobody could choose among them: clients that were never sampled wait until
  each community has trained for `settle` rounds. They judge on their own training or validation examples, not on test images.
- Before T a newcomer is a client like all; afterwards it chooses like a client that was never sampled. Who does not answer is
  asked again in the next round.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Protocol

import numpy as np

from ...protocol.view.answers import Assignment, BelowFloor, Gram, Sum, Updates
from ...protocol.view.asks import Choices, MovesModels, Recalls, Similarities, Sums, Trains
from ...protocol.view.functionality import Functionality
from ..clients.training import Training
from ..clustering.communities import (
    Detector,
    Louvain,
    Similarity,
    check_callables,
    detect,
    one_plus_cosine,
    one_plus_cosine_squared,
)
from ..clustering.separation import cosine_similarity, norm_of_combination, norms
from .algorithm import Cluster, Measured, Start, advanced, check_counts, left_alone, mean_of, resting, trained_alone
from .cohorts import Sampling, check_participation, check_sampling, cohorts, divided, invited
from .flic_placing import begun_with, placed
from .flic_ripe import SHARE, put_off, too_few, without_a_sum
from .flic_state import ALL as ALL
from .flic_state import State as State
from .incremental_similarity import EMPTY, SimilarityMemory, newest, refreshed
from .usual import says_what_is_usual

COMPARED = {
    "once": frozenset({Functionality.GRAM}),
    "recalled": frozenset({Functionality.GRAM_RECALL}),
    "every round": frozenset({Functionality.GRAM_ORIGIN, Functionality.GRAM_REMEMBER}),
}
"""What each way to ask for similarities needs."""


class FlicView(Trains, Sums, Similarities, Recalls, Choices, MovesModels, Protocol):
    """What FLIC asks for."""


@says_what_is_usual
@dataclass(frozen=True, slots=True, kw_only=True)
class FLIC:
    """Communities of clients by the similarity of their most recent updates.

    rounds_before: T. participation: C, share sampled a round. similarities: asked for "once", in a round of everybody, of the
    deviations from its mean; at T, of the last updates' deviations from the means of their rounds ("recalled"); or in "every
    round", of the updates themselves, as printed. similarity: s of a cosine; None for 1 + cos, as printed (Eq. 7), and of
    deviations for its square, which parts more sharply what is about the mean.
    detector: finds communities, by default Louvain. by_samples: means by n_i, as printed, or uniform. warm_up: first rounds whose
    updates are not compared (the paper's advice in IV-B). least: fewest clients sampled in a community: a protection's floor.
    settle: rounds that communities train before clients choose among their models. trace: look for communities in every round,
    for the record (Fig. 5).
    """

    span: ClassVar[int] = 1
    alone_if_few: ClassVar[bool] = True

    rounds_before: int
    participation: float = 1.0
    sampling: Sampling = "cohorts"
    similarities: Literal["once", "recalled", "every round"] = "once"
    similarity: Similarity | None = None
    detector: Detector = field(default_factory=Louvain)
    by_samples: bool = True
    warm_up: int = 0
    least: int = 1
    settle: int = 1
    trace: bool = False

    def __post_init__(self) -> None:
        check_participation(self.participation)
        check_sampling(self.sampling)
        check_counts(rounds_before=self.rounds_before, least=self.least, settle=self.settle)
        check_callables(similarity=self._similarity, detector=self.detector)
        if type(self.warm_up) is not int or not 0 <= self.warm_up < self.rounds_before:
            raise ValueError(f"warm_up is whole, from 0 to below rounds_before, {self.rounds_before}, not {self.warm_up!r}")
        if self.similarities not in COMPARED:
            raise ValueError(f'similarities are asked for "once", "recalled" or in "every round", not {self.similarities!r}')
        if self.trace and self.similarities != "every round":
            raise ValueError('a trace looks for communities in every round; set similarities="every round"')

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.SUMS, Functionality.CHOICE}) | COMPARED[self.similarities]

    @property
    def recalls(self) -> int:
        """As often as clients answer for what they keep: at T, and twice more where nothing came of it."""
        return 3 if self.similarities == "recalled" else 0

    @property
    def _similarity(self) -> Similarity:
        if self.similarity is not None:
            return self.similarity
        return one_plus_cosine if self.similarities == "every round" else one_plus_cosine_squared

    def local(self, training: Training, /) -> Training:
        return training

    def init(self, start: Start, /) -> State:
        return State(0, {ALL: Cluster(start.clients, start.model, seed=start.seed)})

    def join(self, state: State, newcomers: Sequence[int], /) -> State:
        """New clients enter: as members before T, and as clients that choose a community afterwards."""
        if ALL in state.clusters:
            everybody = state.clusters[ALL]
            return replace(state, clusters={ALL: replace(everybody, members=tuple(sorted({*everybody.members, *newcomers})))})
        return replace(state, waiting=tuple(sorted({*state.waiting, *newcomers})))

    def round(self, state: State, view: FlicView, rng: np.random.Generator, /) -> State:
        """A round before T (lines 4-12), with line 14 in the last one; or a round in every community (lines 15-23)."""
        return self._together(state, view, rng) if ALL in state.clusters else self._apart(state, view, rng)

    def _together(self, state: State, view: FlicView, rng: np.random.Generator) -> State:
        cluster, last = state.clusters[ALL], state.round + 1 >= self.rounds_before
        least, once = max(self.least, view.least), self.similarities == "once"
        there = invited(cluster, state.round, 1.0 if last and once else self.participation, self.sampling, rng, least)  # line 4
        updates = view.train(state.round, {ALL: Assignment(cluster.model, there, cluster.members)}).get(ALL)  # lines 5-6
        asked = tuple(sorted({*there, *(() if once else state.asked)})) if state.round >= self.warm_up else ()
        following = replace(state, round=state.round + 1, measured={}, asked=asked)
        if updates is not None:
            mean = view.sums(updates, {ALL: mean_of(updates.clients, self.by_samples)})[ALL]
            following = replace(following, clusters={ALL: advanced(view, cluster, mean)})  # line 9
            following = self._compared(following, view, updates, mean, last)  # lines 7 and 11
            if last and following.kept:
                following = self._recalled(following, view, updates, there)
        ripe = last and bool(following.memory.clients)
        if ripe and (words := self._too_few(following, view, len(following.memory.clients))):
            return self._put_off(following, words)
        return self._grouped(following, view, ripe, rng) if ripe or (self.trace and following.measured) else following

    def _too_few(self, state: State, view: FlicView, known: int) -> str:
        """That communities cannot be decided by similarities of so many clients; empty where they can."""
        return too_few(known, len(state.clusters[ALL].members), len(state.asked), max(self.least, view.least))

    def _put_off(self, state: State, words: str) -> State:
        """All train one model still. What is compared in a single round is compared anew, what is stored stays."""
        memory = state.memory if self.similarities == "every round" else EMPTY
        compared = max(state.compared, len(state.memory.clients))
        return replace(state, memory=memory, compared=compared, measured=put_off(dict(state.measured), ALL, words))

    def _recalled(self, state: State, view: FlicView, updates: Updates, asked: Sequence[int]) -> State:
        """The state with similarities of what clients kept, where enough have something; they answer `recalls` times at most.

        That enough are there, too, is taken from who trained of those that were `asked`.
        """
        there, words = len(updates.clients), self._too_few(state, view, sum(len(handle.clients) for handle in state.kept))
        if not words and there < SHARE * len(asked):
            words = f"{there} of {len(asked)} clients that were asked to train were there, and communities need half of them"
        if not words and state.recalled >= self.recalls:
            words = f"clients answered {self.recalls} times for what they kept, each time too few of them"
        if words:
            return self._put_off(state, words)
        return replace(_with(state, view.recall(updates.round, state.kept)), recalled=state.recalled + 1)

    def _compared(self, state: State, view: FlicView, updates: Updates, mean: Sum | BelowFloor, last: bool) -> State:
        """The state with what this round's updates tell, or, where they are compared later, with handles on them."""
        match self.similarities:
            case "once" if last:
                words, there = self._too_few(state, view, len(updates.clients)), len(updates.clients)
                if not words and there <= state.compared:
                    words = f"{there} clients were there, and as many were compared before in vain"
                if words:
                    return self._put_off(state, words)  # nothing is asked that could not be used
                return _with(state, view.gram(updates))
            case "recalled" if updates.round >= self.warm_up:
                return replace(state, kept=newest(state.kept, view, updates))
            case "every round" if updates.round >= self.warm_up:
                gram = view.gram(updates, origin=True)
                memory = refreshed(state.memory, view, updates, gram, gram.clients)
                return replace(state, memory=memory, measured=_measured(gram, mean, memory))
        return state

    def _grouped(self, state: State, view: FlicView, ripe: bool, rng: np.random.Generator) -> State:
        """Line 14: the communities of the clients that are in memory, on record, and, if it is time, as clusters."""
        seen = state.memory
        found = detect(self.detector, self._similarity, seen.cosines, seen.known, seen.clients, rng)
        state = replace(state, measured={name: replace(m, communities=found) for name, m in state.measured.items()})
        if not ripe:
            return state
        before, least = state.clusters[ALL], max(self.least, view.least)
        waiting = tuple(sorted(set(before.members) - set(seen.clients)))
        if words := without_a_sum(found, len(waiting), least):
            return self._put_off(state, words)
        groups = named(found)  # line 16
        parts = cohorts(before, self.participation, least) if self.sampling == "cohorts" else ()
        within = divided(parts, list(groups.values()), least)
        clusters = {
            name: Cluster(c, before.model, state.round, before.seed, within=w)
            for (name, c), w in zip(groups.items(), within, strict=True)
        }
        return replace(state, clusters=clusters, memory=EMPTY, kept=(), waiting=waiting, asked=(), recalled=0, compared=0)

    def _apart(self, state: State, view: FlicView, rng: np.random.Generator) -> State:
        clusters = dict(state.clusters)
        work = {}
        for name, c in sorted(clusters.items()):
            if not c.alone:
                who = invited(c, state.round, self.participation, self.sampling, rng, max(self.least, view.least, c.least))
                work[name] = Assignment(c.model, who, c.members)
        weights = {name: mean_of(a.participants, self.by_samples) for name, a in work.items()}
        means = view.train_and_sum(state.round, work, weights) if work else {}  # lines 18-21
        idle = resting(clusters, state.round, self.participation)
        clusters = {name: advanced(view, cluster, means.get(name)) for name, cluster in clusters.items()}  # line 22
        clusters = left_alone(clusters, means)
        first = begun_with(state, clusters)
        clusters = trained_alone(view, state.round, clusters, idle)
        following = State(state.round + 1, clusters, waiting=state.waiting, first=first)
        trained = following.round - max(c.born for c in clusters.values())
        return placed(following, view) if state.waiting and trained >= self.settle else following


def named(communities: Sequence[tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Names for communities, in their order."""
    return {f"community {k}": community for k, community in enumerate(communities, 1)}


def _with(state: State, gram: Gram) -> State:
    """The state with the cosines of a Gram matrix about the mean, all of them known. Of the updates' norms nothing is."""
    if not gram.clients:
        return state
    cosines = cosine_similarity(gram.matrix)
    memory = SimilarityMemory((), gram.clients, cosines, np.ones(cosines.shape, np.bool_))
    return replace(state, memory=memory, measured={ALL: Measured(None, None, gram.clients, cosines, centred=True)})


def _measured(gram: Gram, mean: object, memory: SimilarityMemory) -> dict[str, Measured]:
    """Norms of the round, and cosines of all that is stored."""
    if not gram.clients:
        return {}
    known = mean.norm if isinstance(mean, Sum) else None
    of_mean = known if known is not None else norm_of_combination(gram.matrix, np.full(len(gram.clients), 1 / len(gram.clients)))
    return {ALL: Measured(of_mean, float(norms(gram.matrix).max()), memory.clients, memory.cosines, known=memory.known)}
