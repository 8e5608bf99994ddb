"""A simulation: the population, the view and the algorithm's state of one run, advanced round by round."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from torch import nn

from ...protocol.core.errors import Fault, Refused, Silent
from ...protocol.parts.models import Models
from ...protocol.parts.record import Record
from ...protocol.parts.run import Harness
from ...protocol.parts.scores import Scores
from ...protocol.view.answers import BelowFloor, Model, Vector
from ...protocol.view.asks import ServerView
from ..algorithms.algorithm import Cluster, Start, State, TakesNewcomers
from ..clients.slots import Values, one_hot
from ..clients.spending import together
from ..clients.training import Job
from ..data.agreed import made_up
from ..fields_at_fault import about
from ..meters.record import lines
from ..meters.watch import Watch
from .dealt import Apportioned
from .evaluation import ModelScore, ScoringJob, accuracies, accuracies_in
from .hosts import OF_NUMBERS, Hosts, elsewhere
from .lost_round import IN_VAIN, NothingLearned, after_a_loss, why_lost
from .own_state import as_state
from .parties import Parties
from .parties import held_out as held_out
from .parties import seed_of as seed_of
from .scenario import Scenario

if TYPE_CHECKING:
    from ...protocol.privacy.ledger import Ledger, Release, Unit

INITIAL = Model("init")
COORDINATORS_BATCH = 64
"""Examples that a coordinator scores at once, as it has the memory of its clients' uploads beside."""


class Simulation(Parties):
    """One run in progress. Clients, server and network are all here; only `view` knows which of them may see what."""

    def __init__(
        self, scenario: Scenario, folder: Path | None, hosts: "Hosts | None" = None, dealt: Apportioned | None = None
    ) -> None:
        """hosts: where the clients are, if not here: then this process does no work of theirs, and has no secret of theirs.

        dealt: as in `Parties`.
        """
        super().__init__(scenario, folder, dealt, None if hosts is None else ())
        if hosts is not None and next(iter(self.population.clients.values())).test.y.is_floating_point():
            raise Refused(OF_NUMBERS)
        self.watch = Watch(self.setup.workers, len(self.setup.initial), self.setup.clients)
        setup = replace(self.setup, workers=self.watch) if hosts is None else elsewhere(self.setup, hosts, self.comparing)
        with about("protection"):  # the scenario has checked that it gives what is needed
            self.view = cast(ServerView, scenario.protection.open(setup))
        self.watch.on, self.watch.here = not self.view.record.sees_updates, hosts is None
        self.accounted: Sequence[Mapping[str, object]] = ()  # what the last round added to the account, for the record
        present = tuple(i for i in self.setup.clients if scenario.arrivals.get(i, 0) <= 0)
        models = tuple(Model(f"init {k + 1}") for k in range(len(self.setup.others)))
        start = Start(present, self.population.groups, INITIAL, seed_of(scenario.seed, "cohorts"), models)
        self._initial = {INITIAL, *models}
        with about("algorithm"):
            self.state: State = as_state(scenario.algorithm.init(start), scenario.algorithm, "init", 0)
        self._used: tuple[State, Mapping[int, Values]] | None = None  # of one state, how much clients go by each of its models
        self.told: Scores | None = None  # how clients elsewhere are asked how well they predict
        self.asks_all = False  # and not only those with models that are not here
        if hosts is not None:
            self.told = Scores(self._harness.run, self._models)
            self.asks_all = hosts.scores or self.view.owner == "clients" or self.weighing is not None
        self.went: dict[int, int] = {}  # of clients that weigh models elsewhere, which they last said that they go by
        if hosts is not None:  # what clients spend is on ledgers of their own
            self.spending.ledgers.clear()
        self.ended = ""  # by what the last round ended before it was over; empty if it did not
        self.lost = ""  # why nothing was learned in the last round; empty if something was
        self.in_vain = self.for_want = 0  # lost rounds in a row, and those for want of a second server or a dealer

    def step(self) -> None:
        """One communication round.

        Raises NothingLearned where nothing was ever learned, after `IN_VAIN` lost rounds or where no later one can be better; in
        a simulation also where something was, and none can be better; and after as many for want of a second server or dealer.
        """
        t = self.state.round
        arriving = sorted(i for i, round in self.scenario.arrivals.items() if round == t and round > 0)
        if arriving:
            algorithm = cast(TakesNewcomers, self.scenario.algorithm)  # that it can was checked when the scenario was built
            self.state = algorithm.join(self.state, arriving)
        known, refused = len(self.view.record.faults), len(self.view.record.below_floor)
        sketched, opened = len(self.view.record.sketched), len(self.view.record.opened)
        rng = np.random.default_rng(seed_of(self.scenario.seed, "round", t))
        before = {c.model for c in self.state.clusters.values()}
        self.ended = ""
        try:
            found = self.scenario.algorithm.round(self.state, self.view, rng)
            self.state = as_state(found, self.scenario.algorithm, "round", t + 1)
        except Silent as silent:
            cast(Record, self.view.record).fault(silent.blame, silent.reason)
            self.ended = silent.reason
            self.state = after_a_loss(self.state)
        self.view.harness.retire(self.state.models, self.state.remembered)
        self.accounted = lines(*self.watch.close(self.view.record.sketched[sketched:], self.view.record.opened[opened:]))
        self._check_lost(t, before, self.view.record.faults[known:], self.view.record.below_floor[refused:])

    def _check_lost(self, t: int, before: set[Model], faults: Sequence[Fault], refused: Sequence[BelowFloor]) -> None:
        """Why the round was lost, if it was. Raises NothingLearned."""
        first = {c.model for c in self.state.clusters.values()} == before <= self._initial
        clients, declined = self.population.clients, self.spending.declined
        found = why_lost(self.scenario, t, self.state, before, first, faults, refused, clients, declined)
        self.lost = found.words
        self.in_vain = self.in_vain + 1 if self.lost else 0
        hopeless = found.hopeless and all(round <= t for round in self.scenario.arrivals.values())
        hopeless = hopeless and (first or self.told is None)  # else clients that are here have what was learned
        self.for_want = self.for_want + 1 if found.helper else 0
        ended = (first and self.in_vain >= IN_VAIN) or self.for_want >= IN_VAIN
        last = first and t + 1 >= self.scenario.rounds  # whatever other lives counted; there is nothing to go on with
        if self.lost and (hopeless or ended or last):
            raise NothingLearned(self.lost, found.refused, found.who, found.helper and not last)

    def vectors(self, without: Collection[int] = ()) -> dict[int, Vector]:
        """The current model of every client that is in a cluster, as it uses it: float32 (d,), shared between members.

        Of one that predicts with several models, the one that it goes by most. without: clients that are left out.
        """
        used = {i: c.model for c in self.clusters.values() for i in c.members if i not in without}
        shared = {model: self.parameters(model) for model in dict.fromkeys(used.values())}
        found = {i: shared[model] for i, model in used.items()}
        if self.weighing is not None:
            found |= self.weighing.own(tuple(found))
        adapt: Callable[[nn.Module, Job], Vector] | None = getattr(self.scenario.algorithm, "adapt", None)
        if adapt is None:
            return found
        clients, seed = self.population.clients, self.scenario.seed
        jobs = {i: Job(i, model, clients[i].train, seed_of(seed, "adapt", i)) for i, model in found.items()}
        return {i: adapt(self.module, job) for i, job in jobs.items()}

    @property
    def samples(self) -> dict[int, int]:
        """How many records each client trains on, as the data here have it."""
        return {i: len(client.train) for i, client in sorted(self.population.clients.items())}

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """The state's; where clients weigh its models for themselves, with who goes by which of them most.

        No party of the protocol knows it of all clients.
        """
        offered: Mapping[str, Cluster] = self.state.clusters
        if not (used := self.used):
            return offered
        chosen = {i: int(np.argmax(weights)) for i, weights in used.items()}
        found = {
            name: replace(c, members=tuple(i for i in used if chosen[i] == k)) for k, (name, c) in enumerate(offered.items())
        }
        return {name: c for name, c in found.items() if c.members}

    @property
    def used(self) -> Mapping[int, Values]:
        """Of clients that weigh the state's models for themselves, the weights of each; empty where clients are in clusters."""
        if self.weighing is None:
            return {}
        if self.told is not None:
            return {i: one_hot(k, len(self.state.clusters)) for i, k in sorted(self.went.items())}
        if self._used is None or self._used[0] is not self.state:
            self._used = self.state, self.weighing.uses(self._open_to, self.state.round, self._offered)
        return self._used[1]

    @property
    def _open_to(self) -> tuple[int, ...]:
        """Clients that choose among the state's models for themselves."""
        found: tuple[int, ...] = getattr(self.state, "open_to", ())
        return found

    @property
    def _offered(self) -> list[Vector]:
        """The models of the state's clusters, with the numbers beside them."""
        return [self.view.harness.observe(c.model) for c in self.state.clusters.values()]

    def parameters(self, model: Model) -> Vector:
        """The parameters of a model, float32 (d,), without the numbers that are carried beside them."""
        vector = self.view.harness.observe(model)
        return vector[: len(vector) - self._further] if self._further else vector

    def sees(self, model: Model) -> bool:
        """Whether this process has the model, or whoever plays the run may look at it where it is."""
        return self.told is None or model.name in self._models.held

    def evaluate(self) -> dict[int, ModelScore]:
        """Score of what every client predicts with, on its own test examples: its current model, or the mixture that it makes of
        all. What clients share is scored once. Of clients elsewhere that are asked, what they say, if they do."""
        if self.told is not None and (unseen := self.unseen):
            scores = self.told.ask(self.state.round, unseen)
            self.went |= {i: score.which for i, score in scores.items()} if self.weighing is not None else {}
            told = {i: ModelScore(score.right / score.targets, score.nats) for i, score in scores.items()}
            return dict(sorted((told | self._scored(self.vectors(unseen), {})).items()))
        mixed = {} if self.weighing is None else self.weighing.mixtures(self._offered, self.used)
        return self._scored(self.vectors(mixed), mixed)

    def _scored(self, vectors: Mapping[int, Vector], mixed: Mapping[int, ModelScore]) -> dict[int, ModelScore]:
        """Scores of these models by the data that is here, and those of mixtures. A coordinator's made-up rows score nothing."""
        if self.told is not None and made_up(self.scenario.data):
            return dict(mixed)
        alike: dict[tuple[int, int], list[int]] = {}
        for i in sorted(vectors):
            alike.setdefault((id(vectors[i]), id(self.population.clients[i].test)), []).append(i)
        first = [ScoringJob(same[0], vectors[same[0]], self.population.clients[same[0]].test) for same in alike.values()]
        if self.told is None:
            found = accuracies_in(self._scratch, first, self._training.loss, self.measures)
        else:  # a coordinator holds no module for it meanwhile, and few outputs of a wide layer at once
            found = accuracies(self.module, first, self._training.loss, self.measures, COORDINATORS_BATCH)
        return dict(mixed) | {i: found[same[0]] for same in alike.values() for i in same}

    @property
    def _models(self) -> Models:
        """What the server has, or knows of."""
        return self._harness.part(Models)

    @property
    def _harness(self) -> Harness:
        """Of a protection of ours, which are those that are played between processes."""
        return cast(Harness, self.view.harness)

    @property
    def unseen(self) -> dict[int, tuple[Model, ...]]:
        """Of clients elsewhere that are asked how well they predict, with what."""
        return {i: m for i, m in self._predicted_with.items() if self.asks_all or not all(map(self.sees, m))}

    @property
    def _predicted_with(self) -> dict[int, tuple[Model, ...]]:
        """What each client that is in a cluster predicts with: the cluster's model, or all of those that it weighs."""
        if self.weighing is not None:
            return dict.fromkeys(self._open_to, tuple(c.model for c in self.state.clusters.values()))
        return {i: (c.model,) for c in self.state.clusters.values() for i in c.members}

    @property
    def finals(self) -> dict[int, tuple[Vector | str, ...]]:
        """What to hand clients elsewhere at the end, as they have them: models, or names of those that they hold."""
        held = self._models.held

        def final(model: Model) -> Vector | str:
            return held.get(model.name, model.name)

        return {i: tuple(map(final, several)) for i, several in self._predicted_with.items()}

    @property
    def ledgers(self) -> "Mapping[tuple[int, Unit], Ledger]":
        """What each client's unit has spent of its privacy budget, by training and by answers; empty where nothing has noise."""
        found = dict(self.view.record.ledgers)
        for client, ledger in self.spending.ledgers.items():
            key = client, ledger.unit
            found[key] = together(ledger, found[key]) if key in found else ledger
        return found

    def _released_besides(self, client: int) -> "Sequence[Release]":
        """About single records, in answers with noise of their own."""
        ledger = self.view.record.ledgers.get((client, "record"))
        return () if ledger is None else ledger.releases
