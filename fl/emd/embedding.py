"""Embeddings by the part of a model that comes before its head (EMD-CFL, section 2.2: f = h o g, Z = g(X))."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..models.papers import EmbeddingAndHead, split
from ..models.vector import dimension, load_vector, names_and_shapes, to_vector

Rows = NDArray[np.float32]

BATCH = 256


@dataclass(frozen=True, slots=True)
class Embedding:
    """Where a model is cut: `head` names the child that its forward calls last, as in `models.split`.

    None: the embedding of an `EmbeddingAndHead`, and in any other module everything before the last linear layer, in the
    order in which layers were added.
    """

    head: str | None = None

    def head_of(self, module: nn.Module) -> str:
        """The name of the child that is the module's head. Raises ValueError where none is named and none is linear."""
        if self.head is not None:
            return self.head
        if isinstance(module, EmbeddingAndHead):
            return "head"
        names: list[str] = [name for name, part in module.named_modules() if isinstance(part, nn.Linear) and name]
        if not names:
            raise ValueError("the module has no linear layer to cut off; name its head")
        return names[-1]

    def cut(self, module: nn.Module) -> EmbeddingAndHead:
        """A copy of the module as embedding and head. Raises ValueError if there is no such head."""
        if self.head is None and isinstance(module, EmbeddingAndHead):
            return deepcopy(module)
        return split(module, self.head_of(module))


LAST_LINEAR = Embedding()


class OwnEmbedding:
    """A network's embedding as a function of the weights before its head. module: as initialised. Raises ValueError where it has
    no such weights.
    """

    def __init__(self, module: nn.Module, embedding: Embedding) -> None:
        self.module = deepcopy(module).eval()
        self._embedding = embedding
        self._kept = _kept(module, embedding)

    def weights_of(self, model: Rows, /) -> Rows:
        """Of a model, float32 (d,), the part that embeds."""
        return np.concatenate([model[part] for part in self._kept])

    def put(self, weights: NDArray[Any], model: NDArray[Any], /) -> NDArray[Any]:
        """The model, (d,), with these in its part that embeds: a copy."""
        found, at = model.copy(), 0
        for part in self._kept:
            found[part] = weights[at : at + part.stop - part.start]
            at += part.stop - part.start
        return found

    def __call__(self, weights: Rows, inputs: Tensor, /) -> Rows:
        """Embeddings of inputs by these weights, see `embed`."""
        load_vector(self.module, self.put(weights, to_vector(self.module)))
        return embed(self.module, self._embedding, inputs)


def embed(module: nn.Module, embedding: Embedding, inputs: Tensor) -> NDArray[np.float32]:
    """Embeddings of inputs (n, ...): float32 (n, D), in evaluation mode, so that one does not depend on the others.

    The module is left as it was, mode and buffers included. Raises ValueError unless an input's embedding is one vector.
    """
    network = embedding.cut(module).embedding.eval()
    device = next((parameter.device for parameter in network.parameters()), inputs.device)
    with torch.no_grad():
        parts = [network(batch.to(device)).float().cpu() for batch in torch.split(inputs, BATCH)]
    found = torch.cat(parts)
    if found.ndim != 2 or len(found) != len(inputs):
        raise ValueError(f"embeddings have shape {tuple(found.shape[1:])}; name a head that takes one vector an input")
    return found.numpy()


def _kept(module: nn.Module, embedding: Embedding) -> list[slice]:
    """Where the embedding's parameters are in the model's vector. Raises ValueError if there are none."""
    whole, cut = deepcopy(module), embedding.head_of(module)
    found: list[slice] = []
    at = 0
    for name, shape in names_and_shapes(whole).items():
        size = int(np.prod(shape))
        if not name.startswith(f"{cut}."):
            if found and found[-1].stop == at:
                found[-1] = slice(found[-1].start, at + size)
            else:
                found.append(slice(at, at + size))
        at += size
    if not found or at != dimension(whole):
        raise ValueError("the model has no trainable parameters before its head, so its embedding says nothing")
    return found
