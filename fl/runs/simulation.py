"""A simulation: the population, the view and the algorithm's state of one run, advanced round by round."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import nn

from ...crypto.entropy import SimulatedEntropy
from ...protocol.core.errors import Fault
from ...protocol.pairs.choices import MeanSketch
from ...protocol.pairs.question import Embedders
from ...protocol.view.answers import COMPUTED, BelowFloor, Model, Vector
from ...protocol.view.asks import ServerView
from ...protocol.view.functionality import Functionality
from ...protocol.view.protection import Setup
from ...protocol.view.work import Judgement, LocalJob, LocalOffer, LocalWork, Unwilling, Workers
from ..algorithms.algorithm import Cluster, Start
from ..clients.corruption import Computers, Corrupted, embedders_of
from ..clients.dp_sgd import check_module
from ..clients.embedders import SimulatedEmbedders, parted
from ..clients.fast import Fast
from ..clients.slots import InSlots, Values
from ..clients.spending import Spending, together
from ..clients.training import Job, full_gradient
from ..data.population import Client, Examples, Population
from ..emd.judging import tau_of
from ..meters.record import lines
from ..meters.watch import Watch
from ..models.papers import initial
from ..models.vector import head_of, load_vector, to_vector
from .evaluation import Evaluation, Score, accuracies, scores_of
from .scenario import Scenario
from .weighing import Weighing

if TYPE_CHECKING:
    from ...protocol.privacy.ledger import Ledger, Release, Unit

INITIAL = Model("init")


IN_VAIN = 10
"""So many lost rounds in a row, and a run ends. Fewer may be chance: who is sampled differs from round to round."""


class NothingLearned(ValueError):
    """No client's update can be used, or no sum can be published: going on would be in vain."""


def seed_of(seed: int, *names: int | str) -> int:
    """A 63-bit seed for one purpose: a hash of the run's seed and the purpose's names. Seeds of simulations, not secrets."""
    digest = hashlib.sha256(repr((seed, names)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def held_out(client: Client, share: float, seed: int) -> tuple[Client, Client]:
    """The client without the share of its training data held out for validation, and a client with only that share.

    Drawn by position, whatever the records are.
    """
    count = round(share * len(client.train))
    if not 0 < count < len(client.train):
        raise ValueError(f"client {client.id} has {len(client.train)} examples: too few to hold out a share of {share}")
    order = np.random.default_rng(seed).permutation(len(client.train))
    index = torch.from_numpy(order)
    return replace(client, train=client.train.take(index[count:])), replace(client, train=client.train.take(index[:count]))


class Simulation:
    """One run in progress. Clients, server and network are all here; only `view` knows which of them may see what."""

    def __init__(self, scenario: Scenario, folder: Path | None) -> None:
        seed = scenario.seed
        self.scenario = scenario
        source = scenario.data(folder)
        population = scenario.partition(source, np.random.default_rng(seed_of(seed, "partition")))
        self.validation: Mapping[int, Client] = {}
        if scenario.validation > 0:
            parts = {i: held_out(c, scenario.validation, seed_of(seed, "validation", i)) for i, c in population.clients.items()}
            population = replace(population, clients={i: kept for i, (kept, _) in parts.items()})
            self.validation = {i: out for i, (_, out) in parts.items()}
        self.population: Population = population
        unknown = sorted(scenario.arrivals.keys() - population.clients.keys())
        if unknown:
            raise ValueError(f"arrivals names clients that the partition does not make: {unknown}")
        self.module = initial(scenario.model, population.shape, population.classes, seed_of(seed, "model"))
        self.module.to(scenario.device)
        self._scratch = deepcopy(self.module).eval()  # what clients load models into that they judge
        self._training = scenario.algorithm.local(scenario.training)
        if self._training.privacy is not None:
            check_module(self.module)
        self.corrupted: Corrupted | None = None
        workers: Workers = self._work
        judge: Judgement = self._judge
        if scenario.adversary is not None:
            open_ = replace(self._training, privacy=None)  # whoever is corrupt protects nobody
            found = Computers(population.clients, population.classes, self.module, open_, seed, self._train, self._judge)
            workers = self.corrupted = scenario.adversary.corrupt(found)
            judge = self.corrupted.judge
        embedders: Embedders | None = self._embedders() if Functionality.PAIRS in scenario.algorithm.needs else None
        if embedders is not None and self.corrupted is not None:
            embedders = embedders_of(self.corrupted, embedders)
        entropy = SimulatedEntropy(seed)
        self.spending = Spending.of(self._training, entropy, population.clients, self._released_besides)
        beside: Callable[[int], tuple[int, str]] = getattr(scenario.algorithm, "beside", lambda _: (0, ""))
        self._further, carried = beside(population.classes)
        work: InSlots | None = getattr(scenario.algorithm, "in_slots", None)
        self.weighing: Weighing | None = None
        if work is not None:
            self.weighing = Weighing(work, self._scratch, population.clients, self.validation)
        start = self._carrying(to_vector(self.module))
        self.watch = Watch(workers, len(start), tuple(population.clients))
        clients = tuple(sorted(population.clients))
        run = entropy.secret("run", 16)
        further = range(1, getattr(scenario.algorithm, "starts", 1))
        others = tuple(self._carrying(self._drawn("model", k)) for k in further)
        setup = Setup(run, start, clients, self.watch, entropy, scenario.faults, judge, embedders, others=others, carried=carried)
        apart: bool = getattr(scenario.algorithm, "starts_apart", False)
        setup = replace(setup, besides=self.spending.released, starts_apart=apart)
        self.view = cast(ServerView, scenario.protection.open(setup))  # the scenario has checked that it gives what is needed
        self.watch.on = not self.view.record.sees_updates
        self.accounted: list[dict[str, Any]] = []  # what the last round added to the account, for the record
        self._execution = getattr(scenario.algorithm, "executes", scenario.execution)
        if isinstance(self._execution, Fast) and self._execution.device == "cpu":
            self._execution = replace(self._execution, device=scenario.device)
        present = tuple(i for i in clients if scenario.arrivals.get(i, 0) <= 0)
        models = tuple(Model(f"init {k}") for k in further)
        self.state: Any = scenario.algorithm.init(Start(present, population.groups, INITIAL, seed_of(seed, "cohorts"), models))
        self._used: tuple[Any, Mapping[int, Values]] | None = None  # of one state, how much clients go by each of its models
        self.lost = ""  # why nothing was learned in the last round; empty if something was
        self.in_vain = 0  # lost rounds in a row

    def step(self) -> None:
        """One communication round. Raises NothingLearned after `IN_VAIN` lost ones, or where no later one can be better."""
        t = self.state.round
        arriving = sorted(i for i, round in self.scenario.arrivals.items() if round == t and round > 0)
        if arriving:
            algorithm: Any = self.scenario.algorithm  # that it can was checked when the scenario was built
            self.state = algorithm.join(self.state, arriving)
        known, refused = len(self.view.record.faults), len(self.view.record.below_floor)
        sketched, opened = len(self.view.record.sketched), len(self.view.record.opened)
        rng = np.random.default_rng(seed_of(self.scenario.seed, "round", t))
        before = {c.model for c in self.state.clusters.values()}
        self.state = self.scenario.algorithm.round(self.state, self.view, rng)
        self.view.harness.retire(self.state.models, self.state.remembered)
        self.accounted = lines(*self.watch.close(self.view.record.sketched[sketched:], self.view.record.opened[opened:]))
        self._check_lost(t, before, self.view.record.faults[known:], self.view.record.below_floor[refused:])

    def _check_lost(self, t: int, before: set[Model], faults: Sequence[Fault], refused: Sequence[BelowFloor]) -> None:
        """Why the round was lost, if it was. Raises NothingLearned."""
        clusters = list(self.state.clusters.values())
        models, first = {c.model for c in clusters}, {c.model for c in clusters} == before == {INITIAL}
        below = [sum_ for sum_ in refused if sum_.clients]
        own = [f for f in faults if f.blame in self.population.clients]  # and not the server's of a sum that nobody was left for
        self.lost, hopeless = "", False
        if first and below:
            floor = below[-1].floor
            self.lost = f"{below[-1].words}, and there is no other:"
            equal = ", algorithm.by_samples=False" if len(below[-1].clients) >= floor else ""
            self.lost += f" more clients{equal} or a lower protection.floor are needed"
            hopeless = sum(len(c.members) for c in clusters) < floor
        elif own and {f.blame for f in own} <= self.spending.declined:
            hopeless = first and self.spending.declined >= self.population.clients.keys()
            self.lost = f"no client can train: {own[-1].reason}" if hopeless else ""  # else models are what they are for good
        elif faults and models <= before and not self.state.measured:
            self.lost = f"no update of round {t} could be used ({faults[-1].reason}); a smaller training.lr may help"
            present = {*getattr(self.state, "open_to", ()), *(i for c in clusters for i in c.members)}
            hopeless = present <= {f.blame for f in faults}
        self.in_vain = self.in_vain + 1 if self.lost else 0
        hopeless = hopeless and all(round <= t for round in self.scenario.arrivals.values())
        ended = self.in_vain >= IN_VAIN or self.in_vain == self.scenario.rounds
        if self.lost and (hopeless or ended):
            raise NothingLearned(self.lost)

    def vectors(self) -> dict[int, np.ndarray[Any, np.dtype[np.float32]]]:
        """The current model of every client that is in a cluster, as it uses it: float32 (d,), shared between members.

        Of one that predicts with several models, the one that it goes by most.
        """
        shared = {c.model: self.parameters(c.model) for c in self.clusters.values()}
        found = {i: shared[c.model] for c in self.clusters.values() for i in c.members}
        if self.weighing is not None:
            found |= self.weighing.own(tuple(found))
        adapt: Callable[[nn.Module, Job], Vector] | None = getattr(self.scenario.algorithm, "adapt", None)
        if adapt is None:
            return found
        clients, seed = self.population.clients, self.scenario.seed
        jobs = {i: Job(i, model, clients[i].train, seed_of(seed, "adapt", i)) for i, model in found.items()}
        return {i: adapt(self.module, job) for i, job in jobs.items()}

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
        if self._used is None or self._used[0] is not self.state:
            self._used = self.state, self.weighing.uses(self.state.open_to, self.state.round, self._offered)
        return self._used[1]

    @property
    def _offered(self) -> list[Vector]:
        """The models of the state's clusters, with the numbers beside them."""
        return [self.view.harness.observe(c.model) for c in self.state.clusters.values()]

    def parameters(self, model: Model) -> Vector:
        """The parameters of a model, float32 (d,), without the numbers that are carried beside them."""
        vector = self.view.harness.observe(model)
        return vector[: len(vector) - self._further] if self._further else vector

    def evaluate(self) -> dict[int, Score]:
        """Score of what every client predicts with, on its own test examples: its current model, or the mixture that it makes of
        all. What clients share is scored once."""
        mixed = {} if self.weighing is None else self.weighing.mixtures(self._offered, self.used)
        vectors = {i: vector for i, vector in self.vectors().items() if i not in mixed}
        alike: dict[tuple[int, int], list[int]] = {}
        for i in sorted(vectors):
            alike.setdefault((id(vectors[i]), id(self.population.clients[i].test)), []).append(i)
        first = [Evaluation(same[0], vectors[same[0]], self.population.clients[same[0]].test) for same in alike.values()]
        found = accuracies(self.module, first)
        return mixed | {i: found[same[0]] for same in alike.values() for i in same}

    def _carrying(self, parameters: Vector) -> Vector:
        """A model with the numbers beside it, which begin at 0."""
        return np.concatenate([parameters, np.zeros(self._further, np.float32)]) if self._further else parameters

    def _judge(self, offer: LocalOffer, /) -> int:
        """The model of the least loss on what the client holds out for validation, or else on its training examples.

        The authors of FLIC let clients judge by their test images, which would tune to what the result is measured on.
        """
        own = self.validation.get(offer.client, self.population.clients[offer.client])
        return int(np.argmin(self._losses(offer.client, offer.models, own.train)))

    def _losses(self, client: int, models: Sequence[Vector], examples: Examples) -> Values:
        """Of each model, its mean loss on these examples; infinite where it is not a number."""
        return np.array([self._loss(client, model, examples) for model in models])

    def _drawn(self, *names: int | str) -> Vector:
        """The scenario's model, drawn by this purpose's seed."""
        shape, classes = self.population.shape, self.population.classes
        return to_vector(initial(self.scenario.model, shape, classes, seed_of(self.scenario.seed, *names)))

    def _loss(self, client: int, model: Vector, examples: Examples) -> float:
        """The model's mean loss on these examples; infinite where it is not a number."""
        load_vector(self._scratch, model)
        loss = scores_of(self._scratch, [Evaluation(client, model, examples)])[client].loss
        return loss if np.isfinite(loss) else np.inf

    def _embedders(self) -> Embedders:
        """The clients' computers for embeddings, or what the algorithm has in their place.

        Raises ValueError where clients hold out nothing to measure themselves by.
        """
        algorithm: Any = self.scenario.algorithm
        if (made := getattr(algorithm, "embedders", None)) is not None:
            found: Embedders = made(self.population, self.module)
            return found
        measures = not isinstance(algorithm.choice, MeanSketch)  # whose reference is a public number
        if measures and not self.validation:
            raise ValueError("clients measure a reference distance on what they hold out; set validation, to 0.1 for the paper's")
        samples = tau_of(algorithm.distance, algorithm.eps).samples
        noisy = getattr(algorithm.choice, "noise", None) is not None

        def seed(client: int, part: str) -> int:
            return seed_of(self.scenario.seed, "subsample", part, client)

        held = parted(self.validation, samples, seed, noisy) if measures else {}
        parts = {"train": self.population.clients, **held}
        public = None if algorithm.public is None else algorithm.public(self.population.shape)
        return SimulatedEmbedders(
            self.module,
            algorithm.embedding,
            parts,
            algorithm.size,
            seed,
            public,
            getattr(algorithm.choice, "noise", None) is not None,
        )

    def _work(self, jobs: Sequence[LocalJob], /) -> Iterator[tuple[int, LocalWork | Unwilling]]:
        """The clients' computers."""
        return self._train(jobs, {})

    def _train(self, jobs: Sequence[LocalJob], instead: Mapping[int, Examples], /) -> Iterator[tuple[int, LocalWork | Unwilling]]:
        """Local training through the scenario's executor, of it the last layer, or full gradients.

        instead: examples of clients that train on others than their own.
        """
        clients = self.population.clients
        slots = [job for job in jobs if job.work == "slots"]
        if slots and (weighing := self.weighing) is not None:

            def do(found: Sequence[Job]) -> Iterator[Vector]:
                return self._done(weighing.work.kind, found, slots[0].round)

            admit = partial(self._admitted, weighing.work.kind)
            yield from weighing.filled(slots, instead, do, self._local_seed, admit)
        for kind in COMPUTED:
            chosen = [
                Job(
                    j.client,
                    j.start,
                    instead.get(j.client, clients[j.client].train),
                    self._local_seed(j),
                    j.toward,
                )
                for j in jobs
                if j.work == kind
            ]
            admitted, reasons = self._admitted(kind, chosen)
            yield from ((client, Unwilling(reason)) for client, reason in reasons.items())
            if not admitted:
                continue
            for job, vector in zip(admitted, self._done(kind, admitted, jobs[0].round), strict=True):
                yield job.client, LocalWork(vector, len(clients[job.client].train))

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

    def _admitted(self, kind: str, jobs: Sequence[Job]) -> tuple[Sequence[Job], Mapping[int, str]]:
        """What clients can pay for, and why others do nothing. Full gradients have no noise, and are not what is paid for."""
        return (jobs, {}) if kind == "gradient" else self.spending.admit(jobs)

    def _done(self, kind: str, jobs: Sequence[Job], round: int) -> Iterator[Vector]:
        """Updates, full gradients or updates of the last layer, in the order of the jobs."""
        if kind == "gradient":
            return (full_gradient(self.module, job) for job in jobs)
        if kind == "head":
            return (head_of(self.module, vector) for vector in self._done("update", jobs, round))
        return (vector for _, vector in self._execution(self.module, jobs, self._training, round))

    def _local_seed(self, job: LocalJob) -> int:
        return seed_of(self.scenario.seed, "local", job.round, job.client)
