"""Gradients of the last layer, one a record, under a public model: what clients of `PrivateCFL` are compared by.

A record (x, y) has the gradient (softmax(W h + b) - e_y) [h, 1]^T of its cross entropy, h the model's embedding of x: it depends
on this record and on the public model alone. Nothing here has noise: clip, mean and noise are `protocol.pairs.noise`'s, which
treats these gradients as it does public embeddings. Implements `pairs.question.Embedders`.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from ...protocol.core.errors import Refused
from ...protocol.pairs.question import Answered, Occasion
from ..data.population import Client, Examples
from ..emd.embedding import BATCH, LAST_LINEAR, Embedding
from ..emd.subsample import subsample
from .embedders import check_alone

Rows = NDArray[np.float32]
Seed = Callable[[int], int]
"""The seed of a client's subsample."""


def head_gradients(model: nn.Module, examples: Examples, embedding: Embedding = LAST_LINEAR) -> Rows:
    """Of each example the gradient of its cross entropy by the last layer's weights and bias: float32 (n, classes * (width + 1)).

    Row by row of the weight matrix, each with its bias. In evaluation mode; the model is left as it was. Raises ValueError for a
    head that is not linear, and for examples without one label each.
    """
    if examples.y.ndim != 1:
        raise ValueError("gradients of a last layer are of examples with one label each")
    cut = embedding.cut(model).eval()
    if not isinstance(cut.head, nn.Linear):
        raise ValueError(f"the last layer is a {type(cut.head).__name__} and not linear; name another head")
    found = []
    with torch.no_grad():
        for x, y in zip(torch.split(examples.x, BATCH), torch.split(examples.y, BATCH), strict=True):
            h = cut.embedding(x)
            scores = cut.head(h)
            residual = scores.softmax(dim=1) - functional.one_hot(y, scores.shape[1])
            inputs = torch.cat([h, torch.ones(len(h), 1)], dim=1)
            found.append((residual[:, :, None] * inputs[:, None, :]).flatten(1).float())
    return torch.cat(found).numpy()


class HeadGradients:
    """Of every client `records` of its training examples, drawn by position. model: public; its weights are not any client's.

    Raises ValueError for a client with fewer examples, and Refused for a model that mixes examples.
    """

    by_position = True

    def __init__(self, clients: Mapping[int, Client], model: nn.Module, records: int, seed: Seed) -> None:
        few = [i for i, client in clients.items() if len(client.train) < records]
        if few:
            raise ValueError(f"client {few[0]} has {len(clients[few[0]].train)} training examples, fewer than records={records}")
        self._model, self.rows = model.cpu().eval(), records
        self._samples = {i: subsample(c.train, records, np.random.default_rng(seed(i)), True) for i, c in clients.items()}
        first = next(iter(self._samples.values()))
        self.inputs = int(first.x[0].numel())
        self.d = int(head_gradients(model, first.take(torch.arange(1))).shape[1])
        check_alone([(self._model, LAST_LINEAR)], first)

    def weights_of(self, model: Rows, /) -> Rows:
        raise Refused("gradients are under a public model, and not under a client's own")

    def embed(self, client: int, part: str, weights: Rows | None, /) -> Rows:
        """The gradients of the client's sample, float32 (rows, d)."""
        if weights is not None or part != "train":
            raise Refused("gradients are of training examples under a public model")
        return head_gradients(self._model, self._samples[client])

    def examples(self, client: int, part: str, /) -> Rows:
        raise Refused("clients release a mean of gradients, and no example")

    def embed_examples(self, examples: Rows, weights: Rows | None, /) -> Rows:
        raise Refused("clients release a mean of gradients, and no example")

    def sent(self, client: int, occasion: Occasion, honest: Answered, /) -> Answered:
        return honest
