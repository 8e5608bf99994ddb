"""Local training whose objective rewards a model in the direction of another (pFedGraph: Ye et al., ICML 2023)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .fast import Fast, SideBySide, tile_of
from .stacked import Stack, linear_layers, stackable
from .training import Job, Training, check, train_one
from .ways import OneByOne, Way, played


@dataclass(frozen=True, slots=True)
class CosinePull:
    """An `Executor`: minibatch SGD on loss - mu cos(w, a), where a is the job's anchor. In round 0 and with mu = 0 on the loss.

    A model or anchor of norm 0 has no direction and is not pulled. Multilayer perceptrons train many clients at once.
    """

    mu: float

    def __post_init__(self) -> None:
        if not 0 <= self.mu < np.inf:
            raise ValueError(f"mu is 0 or more and finite, not {self.mu}")

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int, /
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        if self.mu == 0 or round == 0:
            return Fast()(module, jobs, training, round)
        return played(self.way(module, jobs, training, round), module, jobs, training, round)

    def way(self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int) -> Way:
        """Perceptrons in tiles, other models one after the other."""
        if self.mu == 0 or round == 0:
            return Fast().way(module, jobs, training, round)
        for job in jobs:
            check(job)
        layers = linear_layers(module)
        if layers and training.plain and stackable(layers, jobs):
            size, threads = tile_of(module), torch.get_num_threads()
            return Way(train=SideBySide(self.stacked), chunk=threads * size, workers=threads, tile=size)
        return Way(train=OneByOne(self.train_one), chunk=max(1, len(jobs)), workers=0)

    def train_one(self, module: nn.Module, job: Job, training: Training, round: int) -> NDArray[np.float32]:
        """The client's update, local model - start: float32, shape (d,)."""
        return train_one(module, job, training, round, self.add)

    def add(self, parameters: Sequence[nn.Parameter], anchor: Sequence[Tensor], /) -> None:
        """The gradient of -mu cos(w, a): -mu (a / |a| - cos w / |w|) / |w|."""
        with torch.no_grad():
            w, a = _length(parameters), _length(anchor)
            if w == 0 or a == 0:
                return
            inner = sum(float((one * other).sum(dtype=torch.float64)) for one, other in zip(parameters, anchor, strict=True))
            for parameter, point in zip(parameters, anchor, strict=True):
                if parameter.grad is not None:
                    parameter.grad.add_(point, alpha=-self.mu / (w * a))
                    parameter.grad.add_(parameter, alpha=self.mu * inner / (w**3 * a))

    def stacked(self, stacks: Sequence[Stack], /) -> tuple[Tensor, Tensor]:
        """The same of many clients, as p (w - a) + q w with p = mu / |w| |a| and q = p (cos |a| / |w| - 1): (p, q), (k,) each."""
        w, a = (_lengths([getattr(stack, part) for stack in stacks]) for part in ("value", "anchor"))
        inner = sum((_sums(stack.value * stack.anchor) for stack in stacks), torch.zeros_like(w))
        pulled = (w > 0) & (a > 0)
        p = torch.where(pulled, self.mu / (w * a).where(pulled, torch.ones_like(w)), 0.0)
        q = p * (inner / w.where(pulled, torch.ones_like(w)).square() - 1)
        return p.float(), q.float()


def _length(pieces: Sequence[Tensor]) -> float:
    return float(np.sqrt(sum(float(piece.square().sum(dtype=torch.float64)) for piece in pieces)))


def _sums(values: Tensor) -> Tensor:
    """Client by client: float64 (k,)."""
    return values.flatten(1).sum(dim=1, dtype=torch.float64)


def _lengths(pieces: Sequence[Tensor]) -> Tensor:
    """The same of squares, over all pieces, and their roots."""
    return torch.stack([_sums(piece.square()) for piece in pieces]).sum(dim=0).sqrt()
