"""What one client predicts with, of the models that it was given, and how well: on its own computer and test records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import nn

from ...protocol.view.answers import Vector
from ...protocol.view.work import LocalScore
from ..clients.losses import IGNORED
from ..clients.slots import Values
from ..clients.training import Job
from ..models.vector import dimension
from .evaluation import ModelScore, ScoringJob, accuracies
from .parties import Parties, seed_of


@dataclass(frozen=True, slots=True, eq=False)
class Predictor:
    """What a client predicts with. vector: the model that it goes by most, float32 (d,). which: its place among the models.

    weights: float64 (K,), of the mixture of all models, where it predicts by one; None otherwise.
    """

    vector: Vector = field(repr=False)
    which: int = 0
    weights: Values | None = None


def predictor_of(parties: Parties, client: int, rounds: int, models: Sequence[Vector]) -> Predictor:
    """models: one, or all those that clients weigh, with the numbers beside them. rounds: so many are over."""
    d = dimension(parties.module)
    if (weighing := parties.weighing) is None:
        return Predictor(models[0][:d])
    weights = weighing.uses((client,), rounds, models)[client]
    which = int(np.argmax(weights))
    kept = weighing.own((client,))
    mixture = weights if not kept and not weighing.work.own and np.count_nonzero(weights) > 1 else None
    return Predictor(kept.get(client, models[which][:d]), which, mixture)


def score_of(parties: Parties, client: int, rounds: int, models: Sequence[Vector]) -> LocalScore | None:
    """On its test examples, where it has any. Models are adapted first where the algorithm has clients do so."""
    found, own = predictor_of(parties, client, rounds, models), parties.population.clients[client]
    targets = int((own.test.y != IGNORED).sum())
    if not targets:
        return None
    if found.weights is not None and parties.weighing is not None:
        score: ModelScore = parties.weighing.mixtures(models, {client: found.weights})[client]
    else:
        vector = made_its_own(parties, client, found.vector)
        score = accuracies(parties.module, [ScoringJob(client, vector, own.test)], parties.scenario.training.loss)[client]
    return LocalScore(targets, round(score.accuracy * targets), score.loss, found.which)


def made_its_own(parties: Parties, client: int, vector: Vector) -> Vector:
    """What a client uses of its model, float32 (d,): adapted where the algorithm has clients do so."""
    adapt: Callable[[nn.Module, Job], Vector] | None = getattr(parties.scenario.algorithm, "adapt", None)
    if adapt is None:
        return vector
    train = parties.population.clients[client].train
    return adapt(parties.module, Job(client, vector, train, seed_of(parties.scenario.seed, "adapt", client)))
