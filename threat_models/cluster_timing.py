"""Attacks on clustering by timing, by forged reports, and by making loyal clients unlike each other (attacks of group 5.9)."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..fl.clients.training import mean_loss
from ..fl.field_ranges import need_finite, need_numbers
from ..fl.models.vector import load_vector, to_vector, trainable
from ..protocol.view.answers import Vector
from .adversary import Adversary
from .attack import ChoiceAttack, LoneAttack
from .knowledge import Level, Situation
from .membership import Members, Schedule
from .simple_attacks import MinusGradient

Key = TypeVar("Key", int, str)


def mimic_then_flip(members: Members, turn: int, attack: LoneAttack = MinusGradient()) -> Adversary:
    """Sleepers: honest before round `turn`, then they attack from inside the loyal cluster. FLIC clusters once, at its T."""
    return Adversary(members=members, upload=attack, when=Schedule(start=turn))


def last_impression(members: Members, clustering: int, window: int, attack: LoneAttack = MinusGradient()) -> Adversary:
    """Attacks in every round but the `window` before round `clustering`: a server that keeps each client's latest update forgets.

    A member drawn with probability C a round leaves an honest last update with probability 1 - (1 - C)^window.
    """
    if not 0 < window <= clustering:
        raise ValueError(f"a window of 1 to {clustering} rounds lies before round {clustering}, not {window}")
    return Adversary(members=members, upload=attack, when=Schedule(pauses=((clustering - window, clustering),)))


def late_assignment(
    members: Members,
    until: int,
    attack: LoneAttack = MinusGradient(),
    choice: ChoiceAttack | None = None,
    knows: Level = Level.OWN,
) -> Adversary:
    """Members do not answer before round `until`, so that no similarity is known of them; then they join by a forged report.

    choice: what they say when they are offered models; None for the truth, by which a member whose data are those of the
    loyal enters their cluster.
    """
    schedule = Schedule(start=until)
    return Adversary(members=members, upload=attack, choice=choice, when=schedule, silent=Schedule(stop=until), knows=knows)


def forged_report(scores: Mapping[Key, float], wanted: Key, higher_is_better: bool) -> dict[Key, float]:
    """Scores of cluster models with those of the wanted and of the best cluster exchanged: no value looks made up.

    FLIC's late clients report accuracies, where higher is better; IFCA's report losses.
    """
    best = max(sorted(scores), key=lambda k: scores[k] if higher_is_better else -scores[k])
    return {**scores, wanted: scores[best], best: scores[wanted]}


def forged_embeddings(copied: NDArray[Any], count: int, jitter: float, rng: np.random.Generator) -> NDArray[Any]:
    """Rows drawn from a target's embeddings (n, k), plus noise of `jitter` times their deviation: for EMD-CFL a twin."""
    drawn = copied[rng.integers(len(copied), size=count)]
    return np.asarray(drawn + jitter * copied.std(axis=0) * rng.standard_normal(drawn.shape), dtype=copied.dtype)


@dataclass(frozen=True, slots=True)
class Fragmentation:
    """Pushes the model to where gradients of different data disagree, so that loyal clients look unlike each other.

    Normalised descent, by second derivatives, on the coherence of the gradients of `pieces` of the member's own data. Each of the
    `steps` has length `step` |w|; the update is multiplied by `scale`, to survive the mean. A training attack.
    """

    pieces: int = 4
    steps: int = 5
    step: float = 0.02
    scale: float = 1.0

    def __post_init__(self) -> None:
        need_finite(self, "step")
        need_numbers(self, "scale")
        if self.pieces < 2 or self.steps < 1:
            raise ValueError(f"fragmentation needs 2 pieces and 1 step at least, not {self.pieces} and {self.steps}")

    def __call__(self, situation: Situation, /) -> Vector:
        local = deepcopy(situation.module).eval()
        load_vector(local, situation.start)
        parameters = list(trainable(local).values())
        length = self.step * float(np.linalg.norm(situation.start))
        chunks = torch.chunk(torch.arange(len(situation.examples)), self.pieces)
        for _ in range(self.steps):
            slopes = torch.autograd.grad(coherence(local, situation, chunks), parameters)
            norm = float(torch.cat([s.flatten() for s in slopes]).norm())
            if norm == 0:
                break
            with torch.no_grad():
                for parameter, slope in zip(parameters, slopes, strict=True):
                    parameter.sub_(slope, alpha=length / norm)
        return np.float32(self.scale) * (to_vector(local) - situation.start)


def coherence(local: torch.nn.Module, situation: Situation, chunks: tuple[Tensor, ...]) -> Tensor:
    """|mean gradient|^2 / mean |gradient|^2 over chunks of the examples: 1 if all agree, 1 / chunks if orthogonal."""
    parameters = list(trainable(local).values())
    device = parameters[0].device
    gradients = []
    for index in chunks:
        batch = situation.examples.take(index)
        found = torch.autograd.grad(mean_loss(local(batch.x.to(device)), batch.y.to(device)), parameters, create_graph=True)
        gradients.append(torch.cat([g.flatten() for g in found]))
    stacked = torch.stack(gradients)
    return (stacked.mean(0) ** 2).sum() / (stacked**2).sum(1).mean()
