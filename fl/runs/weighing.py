"""What the clients of a simulation do by themselves with K models: they weigh them, work for slots, and predict by mixtures."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
from torch import nn

from ...protocol.view.answers import Vector
from ...protocol.view.work import LocalJob, LocalWork, Unwilling
from ..clients.keeping import Keeping, Kept
from ..clients.slots import Admit, InSlots, SlotInputs, Values, filled
from ..clients.training import Job
from ..data.population import Client, Examples
from ..models.vector import dimension, load_vector
from .evaluation import ModelScore, by_example, mixed_score


@dataclass(frozen=True, slots=True, eq=False)
class Weighing:
    """work: as the algorithm has clients do it. module: the architecture, which models are loaded into. validation: what clients
    hold out. kept: what they keep to themselves. Models are float32 (d + s,), with the numbers beside them last."""

    work: InSlots
    module: nn.Module
    clients: Mapping[int, Client]
    validation: Mapping[int, Client]
    kept: Keeping = field(default_factory=Keeping)

    def seen(self, client: int, round: int, models: Sequence[Vector], examples: Examples, kept: Kept) -> SlotInputs:
        """What a client weighs these models by. examples: what it trains on."""
        if self.work.by == "validation" and client in self.validation:
            examples = self.validation[client].train
        whole, d = np.stack(models), dimension(self.module)
        losses, targets = [], np.zeros(0, np.int64)
        for model in whole:
            load_vector(self.module, model[:d])
            loss, targets = by_example(self.module, examples)
            losses.append(loss)
        samples = len(self.clients[client].train)
        return SlotInputs(round, whole[:, :d], whole[:, d:], np.stack(losses), targets, examples.y.numpy(), samples, kept)

    def uses(self, clients: Sequence[int], round: int, models: Sequence[Vector]) -> dict[int, Values]:
        """The weights by which each of these clients predicts with the models."""
        return {i: self.work.uses(self.seen(i, round, models, self.clients[i].train, self.kept.of(i))) for i in clients}

    def filled(
        self,
        jobs: Sequence[LocalJob],
        instead: Mapping[int, Examples],
        do: Callable[[Sequence[Job]], Iterator[Vector]],
        seed: Callable[[LocalJob], int],
        admit: Admit,
    ) -> Iterator[tuple[int, LocalWork | Unwilling]]:
        """The slots of every job. instead: examples that a client trains on in place of its own."""
        examples = {job.client: instead.get(job.client, self.clients[job.client].train) for job in jobs}

        def see(job: LocalJob) -> SlotInputs:
            return self.seen(job.client, job.round, job.starts, examples[job.client], self.kept.of(job.client, job.round))

        def keep(job: LocalJob, kept: Kept) -> None:
            self.kept.keep(job.client, job.round, kept)

        return filled(jobs, self.work, examples, see, do, seed, keep, admit)

    def own(self, clients: Sequence[int]) -> dict[int, Vector]:
        """The models that clients keep, and predict with instead of public ones; of those that have one."""
        found = {i: self.kept.of(i) for i in clients}
        return {i: kept[self.work.own] for i, kept in found.items() if self.work.own in kept}

    def mixtures(self, models: Sequence[Vector], weights: Mapping[int, Values]) -> dict[int, ModelScore]:
        """Scores on their test examples of the clients that predict with several of these models."""
        several = {i: w for i, w in weights.items() if not self.work.own and np.count_nonzero(w) > 1}
        modules = [deepcopy(self.module) for _ in models] if several else []
        for module, model in zip(modules, models, strict=bool(several)):
            load_vector(module, model[: dimension(module)])
        return {i: mixed_score(modules, w, self.clients[i].test) for i, w in several.items()}
