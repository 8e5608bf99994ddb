"""The label histogram of a client from the output layer of its update, or of an estimate of it.

The adversary has one client's update (the server under plain uploads, or whoever put an estimate together) and the model that the
client began from. What each function uses beside that stands with it. No function trains a shadow; for a regression over a whole
run see `label_regression`, whose `total_variation` and `top_label` score these guesses too.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from ...fl.data.population import Examples
from ...fl.models.vector import trainable
from .inversion import Update, cut, last_layer_sums

Histogram = NDArray[np.float64]
POINTS = 5
"""Models on the straight way from the start to the start plus the update at which an adversary looks at public data."""


def llg(module: nn.Module, gradient: Update, records: int) -> Histogram:
    """Label leakage from gradients (Wainakh et al. 2022, algorithm 1): float64 (classes,), shares that add up to 1.

    gradient: float32 (d,), of the mean loss, or minus an update. records: how many the client has. No data. An output whose sum
    is negative has at least one record; each record found adds the mean impact m = sum of the negative sums / records, times 1 +
    1 / classes, to its output, until all are given out. Made for a gradient at a model that is not trained yet: the more it is
    trained, or the more steps an update has, the less holds.
    """
    left = last_layer_sums(module, gradient).copy()
    classes = len(left)
    impact = float(left[left < 0].sum()) / records * (1 + 1 / classes)
    counts = np.zeros(classes)
    if impact == 0:
        return np.full(classes, 1 / classes)
    for label in np.argsort(left)[: min(int((left < 0).sum()), records)]:
        counts[label] += 1
        left[label] -= impact
    while counts.sum() < records:
        label = int(left.argmin())
        counts[label] += 1
        left[label] -= impact
    return counts / records


def labels_from_bias(module: nn.Module, update: Update, public: Examples, rate: float, steps: int, classes: int) -> Histogram:
    """The histogram whose expected bias update is the one seen: float64 (classes,), shares that add up to 1.

    Of mean cross entropy each step changes the last bias by rate * (share_k - mean softmax_k), so the whole update's is rate *
    steps * (I - P)^T share, where row c of P is the mean softmax of records of label c, which public data tell, at `POINTS`
    models on the way. Least squares over shares of 0 or more. public: examples of every label, distributed as the clients'.
    rate, steps: of local training, which is public.
    """
    softmax = label_softmax(module, update, public, classes)
    bias = last_layer_sums(module, update)
    return as_shares(nnls((rate * steps * (np.eye(classes) - softmax)).T, bias)[0])


def labels_from_layer(module: nn.Module, update: Update, public: Examples, classes: int) -> Histogram:
    """The mixture of labels whose gradients make the last layer of the update: float64 (classes,), shares that add up to 1.

    The last layer of the update is taken as a sum over labels, none less than 0, of what public examples of that label ask of it
    at `POINTS` models on the way. It needs neither the learning rate nor the number of steps, and no bias. public: examples of
    every label, distributed as the clients'.
    """
    templates = label_templates(module, update, public, classes)
    seen = np.concatenate([piece.double().numpy().ravel() for piece in last_layer(module, update).values()])
    return as_shares(nnls(templates, seen)[0])


def label_softmax(module: nn.Module, update: Update, public: Examples, classes: int) -> NDArray[np.float64]:
    """Mean softmax of the public examples of each label, over the way of the update: float64 (classes, classes)."""
    found = np.zeros((classes, classes))
    for logits, _ in on_the_way(module, update, public):
        found += by_label(functional.softmax(logits.double(), dim=1), public.y, classes).numpy() / POINTS
    return found


def label_templates(module: nn.Module, update: Update, public: Examples, classes: int) -> NDArray[np.float64]:
    """What a record of each label asks of the last layer, minus its gradient, over the way: float64 (last layer, classes)."""
    has_bias = len(last_layer(module, update)) > 1
    parts_of_way: list[NDArray[np.float64]] = []
    for logits, inputs in on_the_way(module, update, public):
        asked = functional.one_hot(public.y, classes).double() - functional.softmax(logits.double(), dim=1)
        weights = by_label(torch.einsum("nk,nh->nkh", asked, inputs.double()).flatten(1), public.y, classes)
        parts = [weights, by_label(asked, public.y, classes)] if has_bias else [weights]
        parts_of_way.append(torch.cat(parts, dim=1).T.numpy())
    return np.asarray(np.mean(parts_of_way, axis=0))


def on_the_way(module: nn.Module, update: Update, public: Examples) -> list[tuple[Tensor, Tensor]]:
    """Logits (n, classes) of the public examples and the last layer's inputs (n, h), at every point of the way."""
    name, start = last_name(module), {key: value.detach() for key, value in trainable(module).items()}
    moved, caught = cut(module, update), list[Tensor]()
    watch = module.get_submodule(name).register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0].detach()))
    found = []
    try:
        with torch.no_grad():
            for share in np.linspace(0, 1, POINTS):
                at = {key: value + float(share) * moved[key] for key, value in start.items()}
                found.append((functional_call(module, at, (public.x,)), caught.pop()))
    finally:
        watch.remove()
    return found


def by_label(values: Tensor, y: Tensor, classes: int) -> Tensor:
    """Means of rows by label: (classes, ...). Raises ValueError where a label has no example."""
    counts = torch.bincount(y, minlength=classes)
    if bool((counts == 0).any()):
        raise ValueError("public data have no example of some label; leave it out of the classes or add one")
    found = torch.zeros((classes, *values.shape[1:]), dtype=values.dtype).index_add_(0, y, values)
    return found / counts[:, None]


def last_name(module: nn.Module) -> str:
    """The name of the module that has the last of the parameters."""
    return next(reversed(trainable(module))).rpartition(".")[0]


def last_layer(module: nn.Module, vector: Update) -> Mapping[str, Tensor]:
    """The pieces of the last layer: weights, and a bias where it has one."""
    return {name: piece for name, piece in cut(module, vector).items() if name.rpartition(".")[0] == last_name(module)}


def as_shares(values: Histogram) -> Histogram:
    """Values of 0 or more as shares of 1; equal shares where all are 0."""
    total = values.sum()
    return np.asarray(values / total) if total > 0 else np.full(len(values), 1 / len(values))
