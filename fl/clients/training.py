"""Local training of one client, by the plain loop that the fast path is held equal to.

Minibatch SGD on the mean cross entropy, as in FedAvg (McMahan et al. 2017, algorithm 1, ClientUpdate), with FedProx's proximal
term (Li et al. 2020, eq. 2), about the start or, as in FPFC (Yu et al. 2023, Algorithm 1, line 3), another point; or by another
loss or optimizer, as `Training` says. The order of minibatches comes from the job's seed alone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ..data.population import Examples
from ..field_ranges import need_above, need_least, need_whole
from ..field_types import wrong_types
from ..functions import Unfit, brief, called, misfit
from ..models.draws import own_draws
from ..models.vector import load_vector, names_and_shapes, pieces_of, to_vector, trainable
from ..near_names import near
from .losses import CROSS_ENTROPY, IGNORED, LossFunction, check_loss, counts, losses
from .measures import Measure, check_measures
from .record_privacy import RecordPrivacy

if TYPE_CHECKING:
    from .ways import Way

EVALUATION_BATCH = 512
OPTIMIZERS = ("SGD", "Adam", "AdamW")
Optimizer = Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How every client trains in one round.

    epochs: passes over the client's data, E. batch: examples a step, B; the last batch of an epoch may be smaller.
    lr: learning rate of round 0; round t uses lr * lr_decay**t. momentum, weight_decay: as in `torch.optim.SGD`; the optimizer is
    fresh in each round. prox: FedProx' mu, which adds mu (w - w_t) to the gradient, or mu (w - toward) where a job has such a
    point; 0 is FedAvg. prox_rounds: how many rounds have it, counted from the first; None for all. privacy: DP-SGD in the place
    of SGD (`dp_sgd.py`), whose batches are samples of `batch` records on average; None for none.

    loss: a name of `losses.py` ("cross entropy", "binary cross entropy"; of numbers "mean squared error", "mean absolute error",
    "Huber"), or a function of (outputs, targets) that gives the loss of each record. optimizer: "SGD", "Adam", "AdamW", as in
    torch with its defaults, or a function of (parameters, lr) that makes one. Its state stays at the client and ends with the
    round, so that an update is the same kind of message whatever made it. What takes updates for multiples of gradients is
    argued for SGD alone: CFL's two norms and Theorem 1, FPFC's Theorem 1; meta steps (Per-FedAvg) refuse others. Under privacy
    it is given noisy gradients, and costs nothing. metrics: beside accuracy, names of `measures.py` ("balanced accuracy",
    "macro F1", "AUC"; of numbers "R2", "MSE", "MAE"), or functions of (outputs, targets).
    """

    epochs: int
    batch: int
    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    lr_decay: float = 1.0
    prox: float = 0.0
    prox_rounds: int | None = None
    privacy: RecordPrivacy | None = None
    loss: str | LossFunction = CROSS_ENTROPY
    optimizer: str | Optimizer = "SGD"
    metrics: tuple[str | Measure, ...] = ()

    def __post_init__(self) -> None:
        check_loss(self.loss)
        if self.optimizer not in OPTIMIZERS and (isinstance(self.optimizer, str) or not callable(self.optimizer)):
            like = near(self.optimizer, OPTIMIZERS) if isinstance(self.optimizer, str) else ""
            known = f"{', '.join(OPTIMIZERS)} or a function of (parameters, lr)"
            raise ValueError(f"optimizer is {known}, not {brief(self.optimizer)}{like}")
        for words in wrong_types(self, "training"):
            raise ValueError(words)
        check_measures(self.metrics)
        if not isinstance(self.optimizer, str) and (wrong := misfit(self.optimizer, ["parameters", "lr"])):
            raise ValueError(f"training.optimizer, {called(self.optimizer)}, does not fit: {wrong}")
        if isinstance(self.optimizer, type) and (wrong := _not_stepped(self.optimizer)):
            raise ValueError(f"training.optimizer, {wrong}")
        if self.momentum and self.optimizer != "SGD":
            raise ValueError(f"momentum is of SGD, and {self.optimizer} has its own: leave momentum at 0")
        if self.weight_decay and not isinstance(self.optimizer, str):
            raise ValueError("the optimizer is of your own making: give it its weight decay there, and leave weight_decay at 0")
        need_whole(self, 1, "epochs", "batch")
        need_above(self, 0, "lr")
        if not 0 < self.lr_decay <= 1:
            raise ValueError(f"lr_decay must be in (0, 1], not {self.lr_decay}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum must be in [0, 1), not {self.momentum}")
        need_least(self, 0, "weight_decay", "prox")
        need_whole(self, 0, "prox_rounds")

    @property
    def plain(self) -> bool:
        """Whether it is SGD on cross entropy, which the stacked fast path is written out for."""
        return self.loss == CROSS_ENTROPY and self.optimizer == "SGD"

    def lr_in(self, round: int) -> float:
        """The learning rate of a round, counted from 0."""
        return self.lr * self.lr_decay**round

    def prox_in(self, round: int) -> float:
        """The weight of the proximal term in a round, counted from 0."""
        return self.prox if self.prox_rounds is None or round < self.prox_rounds else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One client's work in one round. start: float32, shape (d,); jobs may share it, nobody writes to it.

    toward: what the proximal term pulls to, of the same shape; None for the start. pull: how strongly, times the training's prox.
    weights: float32 (n,), of each example's loss in the mean over a minibatch, (1 / B) sum_s q_s loss_s; None for 1 each.
    secret: 32 bytes of this one training, from which DP-SGD draws its samples and noise; empty where there is none.
    """

    client: int
    start: NDArray[np.float32]
    examples: Examples
    seed: int
    toward: NDArray[np.float32] | None = None
    pull: float = 1.0
    weights: NDArray[np.float32] | None = None
    secret: bytes = field(default=b"", repr=False)

    @property
    def anchor(self) -> NDArray[np.float32]:
        """What the proximal term pulls to."""
        return self.start if self.toward is None else self.toward

    def batch(self, index: Tensor) -> tuple[Examples, Tensor | None]:
        """Examples at these positions, and the weights of their losses, if they have any."""
        return self.examples.take(index), None if self.weights is None else torch.from_numpy(self.weights)[index]


class Executor(Protocol):
    """Runs jobs: yields (client id, update) lazily, in the order of the jobs. update: float32, shape (d,)."""

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int, /
    ) -> Iterator[tuple[int, NDArray[np.float32]]]: ...


class Regulariser(Protocol):
    """Adds to the gradients of parameters the gradient of a term in them and the job's anchor, both in pieces."""

    def __call__(self, parameters: Sequence[nn.Parameter], anchor: Sequence[Tensor], /) -> None: ...


@dataclass(frozen=True, slots=True)
class PlainLoop:
    """One client after the other, by `train_one`."""

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        for job in jobs:
            yield job.client, train_one(module, job, training, round)

    def way(self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int) -> "Way":
        """The same, for whoever plays the pieces of it."""
        from .ways import OneByOne, Way

        return Way(train=OneByOne(train_one), chunk=max(1, len(jobs)), workers=0)


def train_one(
    module: nn.Module, job: Job, training: Training, round: int, also: Regulariser | None = None
) -> NDArray[np.float32]:
    """The client's update, local model - start: float32, shape (d,). also: what the objective has beside loss and proximal term.

    The module gives the architecture, the device and the buffers to start from; it is not changed. Layers that draw random
    numbers (dropout) draw them from the job's seed. With privacy this is `dp_sgd.train_privately`.
    """
    if training.privacy is not None:
        from .dp_sgd import train_privately

        return train_privately(module, job, training, round, also)
    check(job)
    local = deepcopy(module).train()
    load_vector(local, job.start)
    parameters = list(trainable(local).values())
    device, prox = parameters[0].device, training.prox_in(round)
    anchor = [piece.to(device) for piece in pieces_of(job.anchor, names_and_shapes(local))]
    optimizer = optimizer_of(training, parameters, round)
    with own_draws(job.seed):
        for index in minibatches(job, training):
            batch, weights = job.batch(index)
            optimizer.zero_grad()
            torch.autograd.backward(mean_loss(local(batch.x.to(device)), batch.y.to(device), weights, training.loss))
            if prox > 0:
                for parameter, point in zip(parameters, anchor, strict=True):
                    if parameter.grad is not None:
                        parameter.grad.add_(parameter.detach() - point, alpha=prox * job.pull)
            if also is not None:
                also(parameters, anchor)
            optimizer.step()
    return to_vector(local) - job.start


def _not_stepped(kind: type) -> str:
    """Why an optimizer of this class does not take the steps that are taken here; empty where it does."""
    wrong = misfit(getattr(kind, "step", None), ["self"])
    return f"{kind.__name__}, is not stepped by gradients alone: {wrong}; SGD, Adam and AdamW are" if wrong else ""


def optimizer_of(
    training: Training, parameters: Sequence[nn.Parameter], round: int, fused: bool | None = None
) -> torch.optim.Optimizer:
    """What takes a round's steps: fresh, with the round's learning rate. fused: of SGD, as in torch."""
    lr, decay = training.lr_in(round), training.weight_decay
    match training.optimizer:
        case "SGD":
            return torch.optim.SGD(parameters, lr=lr, momentum=training.momentum, weight_decay=decay, fused=fused)
        case "Adam":
            return torch.optim.Adam(parameters, lr=lr, weight_decay=decay)
        case "AdamW":
            return torch.optim.AdamW(parameters, lr=lr, weight_decay=decay)
        case make if not isinstance(make, str):
            made: object = make(parameters, lr)
            if not isinstance(made, torch.optim.Optimizer):
                raise Unfit(f"training.optimizer, {called(make)}, returned {brief(made)}, where an optimizer of torch is taken")
            if wrong := _not_stepped(type(made)):
                raise Unfit(f"training.optimizer, {wrong}")
            return made
    raise ValueError(f"there is no optimizer {training.optimizer!r}")


def full_gradient(module: nn.Module, job: Job, loss: str | LossFunction = CROSS_ENTROPY) -> NDArray[np.float32]:
    """Gradient at the job's start of the mean loss over all of the client's examples (the "Gradient" of CFL 2020, section VI):
    float32, shape (d,).

    Taken in evaluation mode: it has no randomness and does not depend on the order of the examples.
    """
    check(job)
    local = deepcopy(module).eval()
    load_vector(local, job.start)
    parameters = list(trainable(local).values())
    device = parameters[0].device
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    count = counted(job.examples.y)
    for index in torch.split(torch.arange(len(job.examples)), EVALUATION_BATCH):
        batch, weights = job.batch(index)
        torch.autograd.backward(summed_loss(local(batch.x.to(device)), batch.y.to(device), weights, loss) / count)
    return np.concatenate([parameter.grad.cpu().numpy().ravel() for parameter in parameters if parameter.grad is not None])


def minibatches(job: Job, training: Training) -> Iterator[Tensor]:
    """Positions of every minibatch of the round, int64: one fresh permutation an epoch, the last partial batch kept."""
    for order in orders(job, training):
        yield from torch.split(torch.from_numpy(order), training.batch)


def orders(job: Job, training: Training) -> Iterator[NDArray[np.int64]]:
    """Positions of the examples in the order in which each epoch uses them, int64 (n,)."""
    rng = np.random.default_rng(job.seed)
    for _ in range(training.epochs):
        yield rng.permutation(len(job.examples))


def summed_loss(outputs: Tensor, y: Tensor, weights: Tensor | None = None, loss: str | LossFunction = CROSS_ENTROPY) -> Tensor:
    """The loss summed over all targets that count. outputs: of labels (..., classes), y: int64 (...); of numbers float32.

    weights: float32 (n,), of each example's targets; None for 1 each.
    """
    if loss == CROSS_ENTROPY and weights is None:
        return functional.cross_entropy(outputs.flatten(0, -2), y.flatten(), ignore_index=IGNORED, reduction="sum")
    found = losses(outputs, y, loss).view(len(y), -1)
    if y.is_floating_point() or not isinstance(loss, str):
        found = found.mean(1, keepdim=True)  # of a record, whatever it has of numbers
    return found.sum() if weights is None else (found * weights.to(found.device).unsqueeze(1)).sum()


def counted(y: Tensor) -> int:
    """How many targets the loss counts, and at least 1, so that nothing but padding has loss 0; of numbers, records."""
    return max(1, len(y) if y.is_floating_point() else int(counts(y).sum()))


def mean_loss(outputs: Tensor, y: Tensor, weights: Tensor | None = None, loss: str | LossFunction = CROSS_ENTROPY) -> Tensor:
    """`summed_loss` a counted target, whatever its weight."""
    return summed_loss(outputs, y, weights, loss) / counted(y)


def check(job: Job) -> None:
    """Raises ValueError if there is nothing to train on, or the start is not a vector of float32."""
    if len(job.examples) == 0:
        raise ValueError(f"client {job.client} has no training examples; leave it out of the round")
    if job.start.dtype != np.float32 or job.start.ndim != 1:
        raise ValueError(
            f"client {job.client} starts from {job.start.dtype} of shape {job.start.shape}; give it float32, shape (d,)"
        )
    if job.anchor.dtype != np.float32 or job.anchor.shape != job.start.shape:
        raise ValueError(
            f"client {job.client} is pulled to {job.anchor.dtype} of shape {job.anchor.shape}; give it what it starts from"
        )
    if not 0 <= job.pull < float("inf"):
        raise ValueError(f"client {job.client} is pulled {job.pull} times as strongly; that is a finite number, 0 or more")
    q = np.zeros(len(job.examples), np.float32) if job.weights is None else job.weights
    if q.dtype != np.float32 or q.shape != (len(job.examples),) or not bool(np.isfinite(q).all() and (q >= 0).all()):
        raise ValueError(f"client {job.client} has weights of losses; those are finite float32 of 0 or more, one an example")
