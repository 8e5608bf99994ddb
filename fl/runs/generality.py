"""Models of every generality on a client's path through the tree, their ensemble, and falling back (CFL, V-C and II-A)."""

from collections.abc import Mapping, Sequence
from math import inf, isnan
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...protocol.view.answers import Model
from ..algorithms.algorithm import State
from ..algorithms.parameter_tree import generalities
from ..data.population import Client
from ..models.vector import load_vector

Vector = NDArray[np.float32]


def models_of_clients(state: State) -> dict[int, list[Model]]:
    """Per client in a cluster, the models on its path: first the FL solution, last its own cluster's."""
    current = {name: cluster.model for name, cluster in state.clusters.items()}
    return {i: generalities(state.tree, current, name) for name, cluster in state.clusters.items() for i in cluster.members}


def ensemble_accuracy(module: nn.Module, vectors: Sequence[Vector], client: Client) -> float:
    """Accuracy on the client's test examples of the mean of the models' predicted probabilities."""
    total: Any = 0.0
    with torch.no_grad():
        for vector in vectors:
            load_vector(module, vector)
            module.eval()
            total = total + module(client.test.x.to(next(module.parameters()).device)).softmax(-1)
    counted = client.test.y >= 0
    return float((total.argmax(-1).cpu() == client.test.y)[counted].float().mean())


def fall_back(losses: Mapping[int, Sequence[float]]) -> dict[int, int]:
    """Per client, which model of its path to use: the one of least validation loss, the more special one on a tie.

    losses: validation losses per client, from the most general model to the most special. A client that gets any answer
    but the last falls back: its split made it worse. A loss that is not a number counts as infinite.
    """
    known = {i: [inf if isnan(loss) else loss for loss in path] for i, path in losses.items()}
    return {i: max(k for k, loss in enumerate(path) if loss == min(path)) for i, path in known.items()}
