"""Models that a malicious server hands out so that sums of updates show records or single clients.

Imprinting (Fowl et al. 2022, "Robbing the Fed") needs nothing but the server's right to choose the model: every client gets the
same one, so that comparing digests of the model does not help. Model inconsistency (Pasquini et al. 2022) sends different models
to different clients, which clients that compare digests refuse.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...fl.clients.stacked import in_order, linear_layers
from ...fl.models.vector import load_vector, names_and_shapes, pieces_of, to_vector
from .inversion import Update

CRAFTED = (nn.Flatten, nn.Linear, nn.ReLU)
SILENT = -1e3
"""A bias that no input of ordinary size outweighs."""


def imprint(module: nn.Module, public: Tensor, rng: np.random.Generator, gain: float = 0.5) -> Update:
    """Parameters whose first layer sorts records into bins by how much of a fixed pattern they have: float32 (d,).

    module: linear layers with ReLU between them, as many bins as the first has units. public: inputs (n, ...), distributed as
    the clients'. Unit j has the pattern's weights and minus the (j + 1/2)-th quantile of the public values as its bias, and all
    units go on alike, so that what a record adds to unit j and to j + 1 differs only if it lies between the two (Fowl et al.
    2022). gain: length of the weights that go on. Raises ValueError for another architecture.
    """
    first, *others = layers_of(module)
    bins, width = first.out_features, first.in_features
    pattern = rng.standard_normal(width) / np.sqrt(width)
    values = public.detach().double().flatten(1).numpy() @ pattern
    quantiles = np.quantile(values, (np.arange(bins) + 0.5) / bins)
    onward = rng.standard_normal(others[0].out_features)
    onward *= gain / (np.linalg.norm(onward) * np.sqrt(bins) * max(float(values.std()), 1e-12))
    was = to_vector(module)
    with torch.no_grad():
        first.weight.copy_(torch.from_numpy(np.tile(pattern, (bins, 1))))
        first.bias.copy_(torch.from_numpy(-quantiles))
        others[0].weight.copy_(torch.from_numpy(np.tile(onward[:, None], (1, bins))))
    found = to_vector(module)
    load_vector(module, was)
    return found


def imprinted(module: nn.Module, total: Update, tolerance: float = 1e-7) -> Tensor:
    """The records that lie alone in a bin, from a sum of gradients, or of updates of one step: float32 (found, features).

    total: float32 (d,), of any number of clients who took a step from `imprint`'s model; any scale and sign. Each candidate is a
    difference of neighbouring units, dW over db; a bin whose db is under `tolerance` of the largest is empty. Bins with several
    records give a mixture of them.
    """
    shapes = names_and_shapes(module)
    pieces = [piece.double() for piece in pieces_of(total, shapes)]
    weight, bias = pieces[0], pieces[1]
    pairs = torch.cat([weight, torch.zeros_like(weight[:1])]).diff(dim=0), torch.cat([bias, torch.zeros(1)]).diff()
    kept = pairs[1].abs() > tolerance * bias.abs().max()
    return (pairs[0][kept] / pairs[1][kept, None]).float()


def silenced(module: nn.Module) -> Update:
    """Parameters at which nothing but the last bias has a gradient: float32 (d,), as all hidden units are dead.

    For every client but the target, who gets the true model (Pasquini et al. 2022, gradient suppression).
    """
    was = to_vector(module)
    with torch.no_grad():
        for layer in layers_of(module)[:-1]:
            layer.bias.fill_(SILENT)
    found = to_vector(module)
    load_vector(module, was)
    return found


def isolated(module: nn.Module, total: Update) -> Update:
    """The target's part of the sum of updates, where all others had `silenced`: float32 (d,).

    nan at the last bias, to which all add. total: float32 (d,), the sum, not the mean.
    """
    found = total.copy()
    found[-layers_of(module)[-1].out_features :] = np.nan
    return found


def relative_error(guess: Update, truth: NDArray[np.float32]) -> float:
    """|guess - truth| / |truth| over the coordinates that are guessed."""
    known = np.isfinite(guess)
    return float(np.linalg.norm((guess - truth)[known].astype(np.float64)) / np.linalg.norm(truth[known].astype(np.float64)))


def layers_of(module: nn.Module) -> Sequence[nn.Linear]:
    """The linear layers, two or more, each with a bias. Raises ValueError for another architecture."""
    layers = linear_layers(module)
    if layers is None or len(layers) < 2 or any(layer.bias is None for layer in layers):
        other = next((type(layer).__name__ for layer in in_order(module) if type(layer) not in CRAFTED), "")
        there = f", and this one has a {other}" if other and other not in ("Linear", "Sequential") else ""
        raise ValueError(f"only models of linear layers with biases and ReLU between them are crafted here{there}")
    return layers
