"""The clients of a scenario before its run: their data, their computers, and what all parties know."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from torch import nn

from ...crypto.entropy import SimulatedEntropy
from ...protocol.pairs.question import Embedders
from ...protocol.view.answers import COMPUTED, Vector
from ...protocol.view.functionality import Functionality
from ...protocol.view.protection import Setup
from ...protocol.view.work import Judgement, LocalJob, LocalOffer, LocalWork, Unwilling, Workers
from ..algorithms.algorithm import recalls_of, span_of, works_of
from ..algorithms.compared import ComparesClients
from ..clients.corruption import Computers, Corrupted
from ..clients.corruption import embedders_of as attackers_embedders
from ..clients.fast import Fast
from ..clients.fit_module import check_module
from ..clients.losses import counts
from ..clients.measures import measures
from ..clients.reluctance import reluctant
from ..clients.slots import InSlots, Values
from ..clients.spending import Spending
from ..clients.training import Executor, Job, full_gradient
from ..data.population import Examples
from ..fields_at_fault import about
from ..models.fit import check_batches, check_model, check_tested
from ..models.papers import initial
from ..models.vector import head_of, load_vector, to_vector
from .dealt import Apportioned
from .dealt import held_out as held_out
from .dealt import seed_of as seed_of
from .evaluation import ScoringJob, by_target, scores_of
from .objective_check import check_labels, check_targets, outputs_needed
from .scenario import Scenario
from .to_compare import comparing_of, embedders_of
from .weighing import Weighing

if TYPE_CHECKING:
    from ...protocol.privacy.ledger import Release


class Parties:
    """Clients, with data and computers, and what they and a server begin a run with: `setup`, of a simulation's secrets."""

    def __init__(
        self,
        scenario: Scenario,
        folder: Path | None,
        dealt: Apportioned | None = None,
        here: Collection[int] | None = None,
    ) -> None:
        """folder: of data sets. dealt: what is read there, where it was read already. here: clients whose data these are; None
        for all. Of others, which are elsewhere, data here say no more than what examples are like.
        """
        seed = scenario.seed
        self.scenario = scenario
        dealt = dealt or Apportioned.of(scenario, folder)
        self.of_data, self.validation, self.schema = dealt.of_data, dealt.validation, dealt.schema
        population = self.population = dealt.population
        unknown = sorted(scenario.arrivals.keys() - population.clients.keys())
        if unknown:
            raise ValueError(f"arrivals names clients that the partition does not make: {unknown}")
        one = next(iter(population.clients.values())).train
        check_labels(one.y, population.classes)
        check_targets(scenario.training, one.y, population.classes, scenario.adversary is not None)
        self.outputs = outputs_needed(scenario.training, one.y, population.classes)
        self.measures = measures(scenario.training.metrics, one.y.is_floating_point())
        with about("model"):
            self.module = initial(scenario.model, population.shape, self.outputs, seed_of(seed, "model"))
            self.module.to(scenario.device)
            check_model(self.module, one.x, one.y, self.outputs)
            mine = {i: client for i, client in population.clients.items() if here is None or i in here}
            check_tested(self.module, one.x, {i: len(client.test) for i, client in mine.items()})
        sizes = {i: len(client.train) for i, client in mine.items()}
        with about("training"):
            check_batches(self.module, one.x, sizes, scenario.training.batch or max(sizes.values(), default=0))
        self._training = scenario.algorithm.local(scenario.training)
        self._reluctance: float | None = getattr(scenario.algorithm, "reluctance", None)
        if self._training.privacy is not None:
            check_module(self.module, one.x)
        self.corrupted: Corrupted | None = None
        workers: Workers = self._work
        judge: Judgement = self._judge
        if scenario.adversary is not None:
            open_ = replace(self._training, privacy=None)  # whoever is corrupt protects nobody
            slots: InSlots | None = getattr(scenario.algorithm, "in_slots", None)
            kind = "update" if slots is None else slots.kind
            found = Computers(population.clients, population.classes, self.module, open_, seed, self._train, self._judge, kind)
            with about("adversary"):
                workers = self.corrupted = scenario.adversary.corrupt(found)
            judge = self.corrupted.judge
        embedders: Embedders | None = None
        if Functionality.PAIRS in scenario.algorithm.needs:
            embedders = embedders_of(scenario, dealt, self.module, here)
        if embedders is not None and self.corrupted is not None:
            embedders = attackers_embedders(self.corrupted, embedders)
        entropy = SimulatedEntropy(seed)
        self.spending = Spending.of(self._training, entropy, population.clients, self._released_besides)
        beside: Callable[[int], tuple[int, str]] = getattr(scenario.algorithm, "beside", lambda _: (0, ""))
        self._further, carried = beside(population.classes)
        work: InSlots | None = getattr(scenario.algorithm, "in_slots", None)
        self.weighing: Weighing | None = None
        if work is not None:
            self.weighing = Weighing(work, self._scratch, population.clients, self.validation)
        start = self._carrying(to_vector(self.module))
        clients = tuple(sorted(population.clients))
        run = entropy.secret("run", 16)
        further = range(1, getattr(scenario.algorithm, "starts", 1))
        others = tuple(self._carrying(self._drawn("model", k)) for k in further)
        setup = Setup(run, start, clients, workers, entropy, scenario.faults, judge, embedders, others=others, carried=carried)
        self.comparing = None if embedders is None else comparing_of(cast("ComparesClients", scenario.algorithm))
        apart: bool = getattr(scenario.algorithm, "starts_apart", False)
        asks = scenario.algorithm
        setup = replace(setup, works=works_of(asks), recalls=recalls_of(asks), span=span_of(asks))
        self.setup = replace(setup, besides=self.spending.released, starts_apart=apart)
        self.execution: Executor = getattr(scenario.algorithm, "executes", scenario.execution)  # an engine may take its place
        if isinstance(self.execution, Fast) and self.execution.device == "cpu":
            self.execution = replace(self.execution, device=scenario.device)

    @cached_property
    def _scratch(self) -> nn.Module:
        """What clients load models into that they judge."""
        return deepcopy(self.module).eval()

    def _carrying(self, parameters: Vector) -> Vector:
        """A model with the numbers beside it, which begin at 0."""
        return np.concatenate([parameters, np.zeros(self._further, np.float32)]) if self._further else parameters

    def _judge(self, offer: LocalOffer, /) -> int:
        """The model of the least loss on what the client holds out for validation, or else on its training examples.

        Where the algorithm wants its clients reluctant, the first of the offer, unless another is better beyond chance.

        The authors of FLIC let clients judge by their test images, which would tune to what the result is measured on.
        """
        own = self.validation.get(offer.client, self.population.clients[offer.client])
        if self._reluctance is None:
            return int(np.argmin(self._losses(offer.client, offer.models, own.train)))
        return reluctant([self._each(model, own.train) for model in offer.models], self._reluctance)

    def _each(self, model: Vector, examples: Examples) -> Values:
        """The model's loss on each target of these examples, or on each of them."""
        load_vector(self._scratch, model)
        each = by_target(self._scratch, examples, self._training.loss)[0].double()
        return each[counts(examples.y)].numpy() if each.shape == examples.y.shape else each.numpy()

    def _losses(self, client: int, models: Sequence[Vector], examples: Examples) -> Values:
        """Of each model, its mean loss on these examples; infinite where it is not a number."""
        return np.array([self._loss(client, model, examples) for model in models])

    def _drawn(self, *names: int | str) -> Vector:
        """The scenario's model, drawn by this purpose's seed."""
        return to_vector(initial(self.scenario.model, self.population.shape, self.outputs, seed_of(self.scenario.seed, *names)))

    def _loss(self, client: int, model: Vector, examples: Examples) -> float:
        """The model's mean loss on these examples; infinite where it is not a number."""
        load_vector(self._scratch, model)
        loss = scores_of(self._scratch, [ScoringJob(client, model, examples)], self._training.loss)[client].loss
        return loss if np.isfinite(loss) else np.inf

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

    def _released_besides(self, client: int) -> "Sequence[Release]":
        """About single records, in answers with noise of their own: where there is a run."""
        return ()

    def _admitted(self, kind: str, jobs: Sequence[Job]) -> tuple[Sequence[Job], Mapping[int, str]]:
        """What clients can pay for, and why others do nothing. Full gradients have no noise, and are not what is paid for."""
        return (jobs, {}) if kind == "gradient" else self.spending.admit(jobs)

    def _done(self, kind: str, jobs: Sequence[Job], round: int) -> Iterator[Vector]:
        """Updates, full gradients or updates of the last layer, in the order of the jobs."""
        if kind == "gradient":
            return (full_gradient(self.module, job, self._training.loss) for job in jobs)
        if kind == "head":
            return (head_of(self.module, vector) for vector in self._done("update", jobs, round))
        return (vector for _, vector in self.execution(self.module, jobs, self._training, round))

    def _local_seed(self, job: LocalJob) -> int:
        return seed_of(self.scenario.seed, "local", job.round, job.client)
