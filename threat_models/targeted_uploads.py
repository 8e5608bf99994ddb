"""Collusive attacks that copy one client, or make the aggregate any vector (attacks of groups 5.3 and 5.4)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..fl.field_ranges import need_whole
from ..protocol.view.answers import Vector
from .geometry import mean_of
from .knowledge import Colluding, Insider, Level, Omniscient, forged


@dataclass(frozen=True, slots=True)
class Mimic:
    """All members send the update of one honest client (Karimireddy et al. 2022, section 3.3 and appendix).

    whom: that client; where it is not in the session, or None: the honest client of the session whose updates lie farthest
    along z, summed over all rounds seen. z is the top principal direction of honest updates, learned by Oja's rule in every
    round, also before the attack starts.
    """

    whom: int | None = None
    needs: ClassVar[Level] = Level.OMNISCIENT
    identical: ClassVar[bool] = True

    def __post_init__(self) -> None:
        need_whole(self, 0, "whom")

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        honest = _honest(coalition)
        if not honest:
            return {i: own.update for i, own in coalition.own.items()}
        if self.whom is not None and self.whom in honest:
            whom = self.whom
        else:
            score = coalition.memory["score"]
            whom = max(sorted(honest), key=lambda i: abs(float(score[i])))
        return forged(coalition, [honest[whom].copy() for _ in coalition.own])

    def learn(self, coalition: Colluding, /) -> Mapping[str, Vector]:
        honest, memory = _honest(coalition), coalition.memory
        if not honest:
            return memory
        t = float(memory["rounds"][0]) if memory else 0.0
        here = mean_of(list(honest.values())).astype(np.float64)
        mean = (t * memory["mean"] + here) / (1 + t) if memory else here
        z = memory["z"].astype(np.float64) if memory else coalition.own[min(coalition.own)].agreed.standard_normal(len(mean))
        z /= np.linalg.norm(z)
        turned = np.zeros(len(mean))
        for _, update in sorted(honest.items()):
            centred = update - mean
            turned += float(centred @ z) * centred
        norm = float(np.linalg.norm(turned))
        z = t / (1 + t) * z + turned / (norm * (1 + t)) if norm > 0 else z
        z /= np.linalg.norm(z)
        before = memory.get("score", np.zeros(0, np.float32))
        score = np.zeros(max(*honest, len(before) - 1) + 1, np.float32)
        score[: len(before)] = before
        for i, update in honest.items():
            score[i] += np.float32(update @ z)
        kept = {"rounds": np.array([t + 1]), "mean": mean, "z": z, "score": score}
        return {name: np.asarray(vector, dtype=np.float32) for name, vector in kept.items()}


def _honest(coalition: Colluding) -> Mapping[int, Vector]:
    if not isinstance(coalition, Omniscient):
        raise ValueError("this attack needs the honest updates")
    return {i: work.vector for i, work in coalition.honest.items()}


@dataclass(frozen=True, slots=True)
class ArbitraryTarget:
    """One member makes the mean exactly U = target(start): u_k = U / lambda_k - sum_{i != k} (lambda_i / lambda_k) delta_i.

    FLIC (Espinoza Castellon et al. 2022), eq. 3; Blanchard et al. 2017, lemma 1. The member with the least id does it, the
    others of the session stay honest. lambda_i: n_i / sum n by_samples, else uniform. float32 rounds U by about
    1e-7 times the norms of the terms.
    """

    target: Callable[[Vector], Vector]
    by_samples: bool = False
    needs: ClassVar[Level] = Level.INSIDER
    identical: ClassVar[bool] = False

    def __call__(self, coalition: Colluding, /) -> Mapping[int, Vector]:
        if not isinstance(coalition, Insider):
            raise ValueError("this attack needs an insider's knowledge")
        k, own = min(coalition.own), coalition.own
        samples = {i: work.samples for i, work in coalition.honest.items()} | {i: o.samples for i, o in own.items()}
        vectors = {i: work.vector for i, work in coalition.honest.items()} | {i: o.update for i, o in own.items()}
        weight = {i: float(n) if self.by_samples else 1.0 for i, n in samples.items()}
        crafted = self.target(own[k].start).astype(np.float64) * sum(weight.values())
        for i in sorted(vectors.keys() - {k}):
            crafted -= weight[i] * vectors[i]
        uploads = {i: o.update for i, o in own.items()}
        return uploads | {k: (crafted / weight[k]).astype(np.float32)}


def back_to_zero(start: Vector, /) -> Vector:
    """The update that makes every parameter 0."""
    return np.negative(start)
