"""Whether a record is among a client's training data, from what the observer makes of the client's updates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...fl.data.population import Examples
from ...protocol.view.answers import Vector
from .experiment import Anchor, Budget, Evidence, Finding, Values, victims_of
from .ranks import by_chance
from .record_scores import Score, scores_for
from .scoring import auc
from .truth import Truth
from .unread import unread
from .view import CorruptView

ROUNDS = 4
"""Rounds of a victim that are looked at, at most, evenly spaced."""
TRIED = 4
"""Clients of the attacker's own run on which scores are compared."""
FEWEST = 8
PAIR = 2
"""Examples outside of a victim's own kind, at least: with fewer it is not tried."""


@dataclass(frozen=True, slots=True)
class MembershipInference:
    """2 AUC - 1 of each victim, over records of its own and as many that nobody has: 0 by chance on average.

    The others are what the victim holds out to test on, where such are left to compare with, and have the labels of its own, one
    for one, as far as there are such: a victim's records of a label are tried as far as there are others of it, so that to know
    its labels is of no help.
    Where fewer than FEWEST have such a counterpart, others are any. A record's score is that which tells most in the attacker's
    own run of how much the client's updates, as the observer estimates them, lower its loss; how they align with its gradient
    beside what public gradients span; and how the models that come of them treat it beside shadow models from the same start,
    which the attacker trains with half of the records in question each (LiRA, RMIA; of perceptrons alone).
    """

    name: str = "membership"
    unit: str = "2 AUC - 1 over a victim's records and others of the same labels"
    side: str = "the records in question, public examples, and a run and models of its own"
    source: str = (
        "loss (Yeom et al. 2018), gradients (after Li et al. 2023), LiRA (Carlini et al. 2022), RMIA (Zarifzadeh et al. 2024)"
    )
    anchor: Anchor = "sums alone"

    def applies(self, evidence: Evidence, /) -> str:
        return "targets are tokens" if evidence.view.public.auxiliary.y.ndim == 2 else unread(evidence)

    def __call__(self, evidence: Evidence, truth: Truth, budget: Budget, rng: np.random.Generator, /) -> Finding:
        victims = comparable(truth, victims_of(evidence.view, budget.victims, rng))
        own = comparable(evidence.known, victims_of(evidence.shadow, TRIED, rng))
        if not victims or not own:
            return found_of((), (), ())
        score = chosen(evidence, own, budget, rng)
        return found_of(victims, *tried(evidence, evidence.view, truth, victims, score, budget, rng))


def found_of(victims: tuple[int, ...], members: Sequence[Values], others: Sequence[Values]) -> Finding:
    """Of the scores of each victim's records, and of others."""
    values = [2 * auc(m, o).value - 1 for m, o in zip(members, others, strict=True)]  # below 0, too: chance is 0 in the mean
    none, chances = np.zeros(0), [by_chance([one]) for one in zip(members, others, strict=True)]
    sides = np.concatenate([none, *members]), np.concatenate([none, *others])
    return Finding(victims, np.array(values), *sides, chances=np.array(chances))


def chosen(evidence: Evidence, own: Sequence[int], budget: Budget, rng: np.random.Generator) -> Score:
    """The score that tells members best among these clients of the attacker's own run."""
    scores = scores_for(evidence.view.public)
    seed = int(rng.integers(2**63))

    def told(score: Score) -> float:
        drawing = np.random.default_rng(seed)
        pairs = zip(*tried(evidence, evidence.shadow, evidence.known, own, score, budget, drawing), strict=True)
        return float(np.mean([auc(m, o).value for m, o in pairs]))

    return max(scores, key=told) if len(scores) > 1 else scores[0]


def tried(
    evidence: Evidence,
    view: CorruptView,
    truth: Truth,
    victims: Sequence[int],
    score: Score,
    budget: Budget,
    rng: np.random.Generator,
) -> tuple[list[Values], list[Values]]:
    """Of each victim, the scores of its records and of others."""
    found = {key: e.vector for key, e in evidence.estimated(view).items() if key[1] == "update"}
    d = sum(p.numel() for p in view.public.module.parameters() if p.requires_grad)
    members, others = list[Values](), list[Values]()
    for i in victims:
        records, count = compared(truth, i, budget.records, rng)
        starts = {t: start for t, _, j in found if j == i and (start := start_of(view, t, i)) is not None}
        rounds = spaced(sorted(starts), ROUNDS)
        pairs = [(t, starts[t][:d], found[t, "update", i][:d].astype(np.float32)) for t in rounds]
        scores = score(view.public, pairs, records, budget.shadows, rng) if pairs else np.zeros(len(records))
        members.append(scores[:count])
        others.append(scores[count:])
    return members, others


def compared(truth: Truth, client: int, most: int, rng: np.random.Generator) -> tuple[Examples, int]:
    """Records of the client's, `most` at most, and as many others; and how many of each."""
    own = truth.population.clients[client].train
    foreign = truth.outside.take(alike(truth, client))
    mine, theirs = list[int](), list[int]()
    for label in np.unique(own.y.numpy()):
        here, there = (rng.permutation(np.flatnonzero(of.y.numpy() == label)) for of in (own, foreign))
        equal = min(len(here), len(there))
        mine += here[:equal].tolist()
        theirs += there[:equal].tolist()
    if len(mine) < min(FEWEST, len(own), len(foreign)):
        count = min(len(own), len(foreign))
        mine, theirs = (rng.permutation(len(of))[:count].tolist() for of in (own, foreign))
    kept = rng.permutation(len(mine))[:most]
    index = [torch.tensor(side, dtype=torch.long)[torch.from_numpy(kept)] for side in (mine, theirs)]
    return joined(own.take(index[0]), foreign.take(index[1])), len(kept)


def alike(truth: Truth, client: int) -> torch.Tensor:
    """Which of the examples outside are the client's own kind, as it is tested on: indices. All, where they are of no client's
    tests; of a client whose own are not among them none, as those of others may be of another kind, which tells more than
    membership does.
    """
    own, keys = {*_keys(truth.population.clients[client].test)}, _keys(truth.outside)
    found = [k for k, key in enumerate(keys) if key in own]
    ours = bool(found) or any(not {*_keys(of.test)}.isdisjoint(keys) for of in truth.population.clients.values())
    return torch.tensor(found if ours else range(len(keys)), dtype=torch.long)


def _keys(examples: Examples) -> list[tuple[bytes, bytes]]:
    return [(x.tobytes(), y.tobytes()) for x, y in zip(examples.x.numpy(), examples.y.numpy(), strict=True)]


def comparable(truth: Truth, clients: Sequence[int]) -> tuple[int, ...]:
    """Those of whom some examples outside are of their own kind."""
    return tuple(i for i in clients if len(alike(truth, i)) >= PAIR)


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


def joined(one: Examples, other: Examples) -> Examples:
    return Examples(torch.cat([one.x, other.x]), torch.cat([one.y, other.y]))
