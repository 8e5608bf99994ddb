"""A model as one flat vector: trainable parameters only, in the order of `named_parameters`.

Buffers (the running statistics and counters of BatchNorm) are never in the vector. They would dominate every norm and cosine
that clustering looks at, and they are not learned. A training call starts from the buffers of the module that it is given and
drops its own when it ends; models that are to be evaluated on their own do better with GroupNorm or LayerNorm.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name, in the order of the vector."""
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}


def named_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Copies of all that a fresh module needs to be this one, as `load_state_dict` takes them: what is frozen and what is kept
    beside parameters too, and a layer that is used twice under both names.
    """
    state = module.state_dict()
    return {name: value.detach().cpu().contiguous().clone() for name, value in state.items() if isinstance(value, Tensor)}


def names_and_shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """Name and shape of every piece of the vector, in its order."""
    return {name: tuple(parameter.shape) for name, parameter in trainable(module).items()}


def dimension(module: nn.Module) -> int:
    """d, the length of the vector."""
    return sum(parameter.numel() for parameter in trainable(module).values())


def to_vector(module: nn.Module) -> NDArray[np.float32]:
    """A copy of the trainable parameters: float32, shape (d,)."""
    pieces = [parameter.detach().cpu().float().flatten() for parameter in trainable(module).values()]
    return torch.cat(pieces).numpy() if pieces else np.zeros(0, np.float32)


def load_vector(module: nn.Module, vector: NDArray[np.float32]) -> None:
    """Set the trainable parameters of `module` to `vector`, shape (d,); the vector is copied and never written to."""
    d = dimension(module)
    if vector.shape != (d,):
        raise ValueError(f"the vector has shape {vector.shape}, but this model has {d} trainable parameters")
    with torch.no_grad():
        for parameter, piece in zip(trainable(module).values(), pieces_of(vector, names_and_shapes(module)), strict=True):
            parameter.copy_(piece)


def pieces_of(vector: NDArray[np.float32], shapes: dict[str, tuple[int, ...]]) -> list[Tensor]:
    """The vector cut into float32 tensors of the given shapes. Every tensor owns its memory."""
    pieces = []
    start = 0
    for shape in shapes.values():
        stop = start + math.prod(shape)
        pieces.append(torch.tensor(vector[start:stop].reshape(shape), dtype=torch.float32))
        start = stop
    return pieces


def head_of(module: nn.Module, vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vector at the parameters of the last layer, which is the module that has the last of them, and 0 elsewhere."""
    shapes = names_and_shapes(module)
    layer = next(reversed(shapes)).rpartition(".")[0]
    kept = sum(math.prod(shape) for name, shape in shapes.items() if name.rpartition(".")[0] == layer)
    found = np.zeros_like(vector)
    found[-kept:] = vector[-kept:]
    return found
