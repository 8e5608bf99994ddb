"""How likely each record is among a client's training data: scores that membership inference chooses between.

Each is told what the client started from and what the observer thinks that it made of it, in some rounds, and not who is who.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from torch import nn

from ...fl.clients.stacked import linear_layers
from ...fl.data.population import Examples
from ...fl.models.vector import dimension
from ...protocol.view.answers import Vector
from ..inference.record_membership import Membership, Spans, alignment, lira_online, logit_scaled, loss_scores, mean_where, rmia
from ..inference.shadow_models import confidences, shadow_updates
from .experiment import Values
from .view import Public

Pairs = Sequence[tuple[int, Vector, Vector]]
"""Of some rounds, which, what a client started from, and what it made of it, float32 (d,) each."""
PUBLIC = 100
"""Public examples whose gradients are taken away, or that records are compared with, at most."""
LARGEST = 200_000
"""Numbers of a model up to which gradients of records are compared with updates, and shadow models of perceptrons trained."""


class Score(Protocol):
    """float64 (records,), higher for members. models: how many shadow models may be trained a round."""

    def __call__(self, public: Public, pairs: Pairs, records: Examples, models: int, rng: np.random.Generator, /) -> Values: ...


def by_loss(public: Public, pairs: Pairs, records: Examples, models: int, rng: np.random.Generator) -> Values:
    """How much each update lowers a record's loss."""
    return loss_scores(public.module, [pair[1:] for pair in pairs], records, public.training.loss)


@dataclass(frozen=True, slots=True, eq=False)
class ByGradient:
    """How each update aligns with a record's gradient, beside what gradients of PUBLIC public examples span. spans: of one run's
    public examples, by what clients started from, which many share.
    """

    spans: Spans = field(default_factory=Spans)

    def __call__(self, public: Public, pairs: Pairs, records: Examples, models: int, rng: np.random.Generator, /) -> Values:
        return alignment(public.module, [pair[1:] for pair in pairs], records, some_of(public), self.spans, public.training.loss)


def by_lira(public: Public, pairs: Pairs, records: Examples, models: int, rng: np.random.Generator) -> Values:
    """Log likelihood ratios of the records' confidences, with one variance for all (Carlini et al. 2022), added over rounds."""

    def of_round(inside: Membership, shadow: Sequence[Vector], target: Vector) -> Values:
        scaled = logit_scaled(confidences(public.module, np.stack([*shadow, target]), records))
        return lira_online(scaled[-1], scaled[:-1], inside, fixed_variance=True)

    return over_rounds(public, pairs, records, models, rng, of_round)


def by_rmia(public: Public, pairs: Pairs, records: Examples, models: int, rng: np.random.Generator) -> Values:
    """Shares of PUBLIC public examples whose confidence rose less (RMIA, Zarifzadeh et al. 2024), added over rounds."""
    population = some_of(public)

    def of_round(inside: Membership, shadow: Sequence[Vector], target: Vector) -> Values:
        models = np.stack([*shadow, target])
        own, others = confidences(public.module, models, records), confidences(public.module, models, population)
        sides = mean_where(own[:-1], ~inside), mean_where(own[:-1], inside)
        return rmia(own[-1], sides[0], others[-1], others[:-1].mean(axis=0), sides[1], offline_a=1.0)

    return over_rounds(public, pairs, records, models, rng, of_round)


def over_rounds(
    public: Public,
    pairs: Pairs,
    records: Examples,
    models: int,
    rng: np.random.Generator,
    of_round: Callable[[Membership, Sequence[Vector], Vector], Values],
) -> Values:
    """The sum over rounds of a score of shadow models from the same start and the target that came of it.

    Each shadow model is trained as clients train, but without noise, on half of the records.
    """
    training, found = replace(public.training, privacy=None), np.zeros(len(records))
    for t, start, update in pairs:
        order = np.stack([rng.permutation(models) for _ in range(len(records))], axis=1)
        inside = order < models // 2
        inside[:, 0] |= ~inside.any(axis=1)  # a model without any record has nothing to learn from
        parts = [records.take(torch.from_numpy(np.flatnonzero(member))) for member in inside]
        shadow = start + shadow_updates(public.module, start, parts, training, rng, t)
        found += of_round(inside, list(shadow), (start + update).astype(np.float32))
    return found


def scores_for(public: Public) -> tuple[Score, ...]:
    """All but those that would take too long, or that this module has not: shadow models are of perceptrons alone, which are
    trained side by side; where records are normalised by their batch, no record has a gradient of its own.
    """
    mixes = any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in public.module.modules())
    if dimension(public.module) > LARGEST or mixes:
        return (by_loss,)
    return (by_loss, ByGradient(), by_lira, by_rmia) if linear_layers(public.module) else (by_loss, ByGradient())


def some_of(public: Public) -> Examples:
    """PUBLIC public examples at most."""
    return public.auxiliary.take(torch.arange(min(PUBLIC, len(public.auxiliary))))
