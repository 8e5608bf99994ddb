"""Gradient inversion: images from one client's update, or from an estimate of it.

The adversary is whoever has the update of one client with the model that it began from: the server under plain uploads, or one
that put together an estimate from what it was shown. Beside that it uses what is public: the architecture, local training's
numbers, and how many records the client has. Every function returns a guess; `image_scores` compares it with the truth.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from ...fl.clients.training import Training, mean_loss
from ...fl.models.vector import names_and_shapes, pieces_of, trainable

Update = NDArray[np.float32]
Pieces = dict[str, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Inverted:
    """A guess. x: float32 (records, ...) as the model takes them. y: int64 (records,). objective: what was minimised, at the
    end.
    """

    x: Tensor = field(repr=False)
    y: Tensor
    objective: float


def gradient_of(update: Update, training: Training, records: int, round: int = 0) -> Update:
    """Minus the update over the learning rate and the number of steps: float32 (d,), the gradient if there was one full step.

    Of several steps it is their mean, along the way.
    """
    steps = training.epochs * -(-records // training.batch)
    return np.asarray(-update / (training.lr_in(round) * steps), np.float32)


def first_layer(module: nn.Module, update: Update, tolerance: float = 1e-3) -> Tensor:
    """Inputs that the first layer's update shows in closed form: float32 (found, features), those with more witnesses first.

    x = dW[j] / db[j] for each unit j of a linear first layer with a bias that only one record has lit (Geiping et al. 2020,
    proposition 3.1; Phong et al. 2017). Units that one record alone has lit agree on x: those within a relative `tolerance` of
    each other are one candidate, the least-squares x of all of them. With one record all units agree; of a batch, a unit that
    several records lit gives a mixture of them, which as a rule agrees with no other. One record is exact
    after any number of steps without weight decay, up to rounding of the update; of more, units change sides between steps.
    Raises ValueError for another first layer.
    """
    layers = [(name, layer) for name, layer in module.named_modules() if not list(layer.children()) and list(layer.parameters())]
    name, first = layers[0]
    if not isinstance(first, nn.Linear) or first.bias is None:
        raise ValueError("the first layer with parameters is not linear with a bias: this inversion has nothing to divide by")
    pieces = cut(module, update)
    weight, bias = pieces[f"{name}.weight"].double(), pieces[f"{name}.bias"].double()
    order = torch.argsort(bias.abs(), descending=True)
    order = order[bias[order].abs() > 1e-6 * bias.abs().max().clamp(min=1e-300)]
    ratio = weight[order] / bias[order, None]
    left = torch.ones(len(order), dtype=torch.bool)
    found: list[tuple[int, Tensor]] = []
    for at in range(len(order)):
        if not left[at]:
            continue
        near = left & ((ratio - ratio[at]).norm(dim=1) <= tolerance * ratio[at].norm().clamp(min=1e-12))
        left &= ~near
        units = order[near]
        found.append((len(units), bias[units] @ weight[units] / (bias[units] @ bias[units])))
    found.sort(key=lambda one: -one[0])
    return torch.stack([x for _, x in found]).float() if found else torch.zeros(0, weight.shape[1])


def only_label(module: nn.Module, gradient: Update) -> int:
    """The label of a single record: the one output whose gradient is negative (iDLG, Zhao et al. 2020).

    gradient: float32 (d,) of one record's loss. Reads the last layer's bias where it has one, else the sums of its rows of
    weights, which have the right sign behind a ReLU.
    """
    return int(last_layer_sums(module, gradient).argmin())


def last_layer_sums(module: nn.Module, vector: Update) -> NDArray[np.float64]:
    """What a vector says of each output: float64 (classes,), its last layer's bias, or the sums of the rows of its weights."""
    last = list(cut(module, vector).values())[-1].double()
    return np.asarray(last.numpy() if last.ndim == 1 else last.flatten(1).sum(dim=1).numpy())


def dlg(
    module: nn.Module,
    gradient: Update,
    shape: tuple[int, ...],
    records: int,
    classes: int,
    rng: np.random.Generator,
    label: int | None = None,
    steps: int = 100,
) -> Inverted:
    """Deep leakage from gradients (Zhu et al. 2019, algorithm 1): dummy records and soft labels whose gradient is the one seen.

    gradient: float32 (d,), of the mean loss over `records` records at the module's parameters. label: of a single record, given,
    as iDLG does after `only_label` (Zhao et al. 2020); None optimises labels too. L-BFGS on the squared distance, scaled by the
    square length of the gradient, from standard normal noise. ReLU networks have no second derivative to speak of: it fails
    there more often than on smooth ones, as the paper says.
    """
    goal, frozen = list(cut(module, gradient).values()), parameters_of(module)
    size = sum(piece.square().sum().item() for piece in goal) or 1.0
    x = torch.from_numpy(rng.standard_normal((records, *shape)).astype(np.float32)).requires_grad_()
    logits = torch.from_numpy(rng.standard_normal((records, classes)).astype(np.float32)).requires_grad_()
    fixed = None if label is None else torch.full((records,), label)
    moved = [x] if fixed is not None else [x, logits]
    optimizer: torch.optim.Optimizer = torch.optim.LBFGS(moved, lr=1.0, max_iter=20, line_search_fn="strong_wolfe")

    def objective() -> Tensor:
        target = fixed if fixed is not None else functional.softmax(logits, dim=1)
        loss = functional.cross_entropy(functional_call(module, frozen, (x,)), target)
        gradients = torch.autograd.grad(loss, list(frozen.values()), create_graph=True)
        return sum_of((one - other).square().sum() for one, other in zip(gradients, goal, strict=True)) / size

    def closure() -> float:
        found = objective()
        for leaf, slope in zip(moved, torch.autograd.grad(found, moved), strict=True):
            leaf.grad = slope
        return found.item()

    best = (float("inf"), x.detach().clone(), logits.detach().clone())
    for _ in range(-(-steps // 20)):
        optimizer.step(closure)
        value = objective().item()
        if not value < best[0]:
            break
        best = (value, x.detach().clone(), logits.detach().clone())
    return Inverted(best[1], best[2].argmax(dim=1) if fixed is None else fixed, best[0])


def inverting_gradients(
    module: nn.Module,
    update: Update,
    y: Tensor,
    shape: tuple[int, ...],
    training: Training,
    rng: np.random.Generator,
    round: int = 0,
    steps: int = 1000,
    restarts: int = 1,
    smooth: float = 1e-4,
    lr: float = 0.1,
) -> Inverted:
    """Images whose simulated local training gives the direction of the update seen (Geiping et al. 2020).

    update: float32 (d,), local model - start. y: int64 (records,), labels, which are given. The client's steps are played on the
    guess and differentiated through, in the order in which y stands: the client's own order of minibatches is not known, and
    matters only where a batch holds fewer than all records. Momentum and the proximal term are not played; with them the match
    is rough. Minimises 1 - cosine + smooth * total variation over [0, 1] by Adam on the sign of the gradient, its rate cut to a
    tenth after 3/8, 5/8 and 7/8 of the steps; the best of `restarts` by the objective. smooth is for images; 0 for anything
    else.
    """
    goal, start, rate = list(cut(module, update).values()), parameters_of(module), training.lr_in(round)
    length = sum_of(piece.square().sum() for piece in goal).sqrt().clamp(min=1e-30)
    tall = smooth if len(shape) == 3 else 0.0

    def objective(x: Tensor) -> Tensor:
        moved = trained(module, start, x, y, training, rate)
        apart = [moved[name] - start[name] for name in start]
        along = sum_of((one * other).sum() for one, other in zip(apart, goal, strict=True))
        size = sum_of(one.square().sum() for one in apart).sqrt().clamp(min=1e-30)
        found = 1 - along / (size * length)
        return found + tall * total_variation(x) if tall else found

    best: Inverted | None = None
    for _ in range(restarts):
        guess = descended(objective, torch.from_numpy(rng.random((len(y), *shape)).astype(np.float32)), steps, lr)
        value = objective(guess.requires_grad_()).item()
        if best is None or value < best.objective:
            best = Inverted(guess.detach(), y, value)
    if best is None:
        raise ValueError("an inversion has one start at least")
    return best


def trained(module: nn.Module, start: Mapping[str, Tensor], x: Tensor, y: Tensor, training: Training, rate: float) -> Pieces:
    """The parameters after local training on (x, y) in this order, as something that can be differentiated by x."""
    local = dict(start)
    for _ in range(training.epochs):
        for index in torch.split(torch.arange(len(y)), training.batch):
            loss = mean_loss(functional_call(module, local, (x[index],)), y[index], loss=training.loss)
            slopes = torch.autograd.grad(loss, list(local.values()), create_graph=True)
            shrunk = 1 - rate * training.weight_decay
            local = {name: shrunk * value - rate * slope for (name, value), slope in zip(local.items(), slopes, strict=True)}
    return local


def descended(objective: Callable[[Tensor], Tensor], x: Tensor, steps: int, lr: float) -> Tensor:
    """x after Adam on the sign of the gradient, kept within [0, 1]."""
    x = x.clone().requires_grad_()
    optimizer = torch.optim.Adam([x], lr=lr)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [steps * k // 8 for k in (3, 5, 7)], gamma=0.1)
    for _ in range(steps):
        (slope,) = torch.autograd.grad(objective(x), [x])
        x.grad = slope.sign()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            x.clamp_(0.0, 1.0)
    return x.detach()


def total_variation(x: Tensor) -> Tensor:
    """Mean absolute difference of neighbouring pixels: x (n, channels, height, width)."""
    return (x[..., 1:, :] - x[..., :-1, :]).abs().mean() + (x[..., 1:] - x[..., :-1]).abs().mean()


def cut(module: nn.Module, vector: Update) -> Pieces:
    """A vector of the module's, in pieces by name."""
    shapes = names_and_shapes(module)
    return dict(zip(shapes, pieces_of(vector, shapes), strict=True))


def parameters_of(module: nn.Module) -> Pieces:
    """The module's trainable parameters, which are what a guess is differentiated through."""
    return {name: parameter.detach().clone().requires_grad_() for name, parameter in trainable(module).items()}


def sum_of(terms: Iterable[Tensor]) -> Tensor:
    """The sum of scalars, as one."""
    found = torch.zeros(())
    for term in terms:
        found = found + term
    return found
