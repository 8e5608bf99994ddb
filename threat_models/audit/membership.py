"""Whether a record is among a client's training data, from what the observer makes of the client's updates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ...fl.data.population import Examples
from ...protocol.view.answers import Vector
from ..inference.record_membership import loss_scores
from .estimates import estimates
from .experiment import Budget, Evidence, Finding, Values
from .scoring import auc
from .truth import Truth
from .view import CorruptView


@dataclass(frozen=True, slots=True)
class MembershipInference:
    """2 AUC - 1 of each victim, at least 0, over records of its own and as many that nobody has.

    A record's score is how much the client's updates, as the observer estimates them, lower its loss. Where each is chance the
    mean is a little above 0, as the anchors are too.
    """

    name: str = "membership"
    unit: str = "2 AUC - 1 over a victim's records and others"
    side: str = "the records in question"
    source: str = "loss (Yeom et al. 2018), calibrated by the model before"

    def applies(self, evidence: Evidence, /) -> str:
        return "targets are tokens" if evidence.view.public.auxiliary.y.ndim == 2 else ""

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        view = evidence.view
        honest = [i for i in view.public.clients if i not in view.observer.clients]
        victims = tuple(sorted(rng.permutation(honest)[: budget.victims].tolist()))
        found = {key: e.vector for key, e in estimates(view, evidence.prior).items() if key[1] == "update"}
        members, others, values = list[Values](), list[Values](), list[float]()
        for i in victims:
            own, foreign = truth.population.clients[i].train, truth.outside
            count = min(len(own), len(foreign), budget.records)
            records = joined(own.take(drawn(len(own), count, rng)), foreign.take(drawn(len(foreign), count, rng)))
            scores = scored(view, i, {t: v for (t, _, j), v in found.items() if j == i}, records, budget.rounds)
            members.append(scores[:count])
            others.append(scores[count:])
            values.append(max(0.0, 2 * auc(members[-1], others[-1]).value - 1))
        return Finding(victims, np.array(values), np.concatenate(members), np.concatenate(others))


def scored(view: CorruptView, client: int, updates: dict[int, NDArray[np.float64]], records: Examples, rounds: int) -> Values:
    """The attacker's score of every record: of rounds in which it knows a start and makes something of the update."""
    starts = {t: start for t in updates if (start := start_of(view, t, client)) is not None}
    chosen = spaced(sorted(starts), rounds)
    d = sum(p.numel() for p in view.public.module.parameters() if p.requires_grad)
    pairs = [(starts[t][:d], updates[t][:d].astype(np.float32)) for t in chosen]
    return loss_scores(view.public.module, pairs, records) if pairs else np.zeros(len(records))


def start_of(view: CorruptView, round: int, client: int) -> Vector | None:
    """The model that this client started from, as far as the observer knows; of corrupt clients, theirs."""
    found = view.models.get((round, client))
    if found is not None:
        return found
    return next((held.models[round] for held in view.held.values() if round in held.models), None)


def spaced(rounds: Sequence[int], count: int) -> list[int]:
    """So many of them, evenly."""
    if not rounds:
        return []
    return [rounds[k] for k in sorted({*np.linspace(0, len(rounds) - 1, min(count, len(rounds))).astype(int).tolist()})]


def drawn(total: int, count: int, rng: np.random.Generator) -> torch.Tensor:
    return torch.from_numpy(rng.permutation(total)[:count])


def joined(one: Examples, other: Examples) -> Examples:
    return Examples(torch.cat([one.x, other.x]), torch.cat([one.y, other.y]))
