"""Models of the papers, each the pair of an embedding and a head: forward = head(embedding(x)).

A factory is a frozen dataclass that builds a fresh module for a shape of inputs and a number of classes. Initial weights come
from torch's generator: call `initial`, which seeds it and leaves it as it was.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from ..field_ranges import need_above, need_finite, need_least, need_whole
from ..functions import Unfit, brief, called, misfit
from .draws import own_draws
from .lazy import size, waits


class EmbeddingAndHead(nn.Module):
    """`head(embedding(x))`. The head is the last linear layer, the embedding all before it (EMD-CFL, section 3: f = h o g)."""

    def __init__(self, embedding: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.embedding(x))
        return out


class ModelFactory(Protocol):
    """Builds a module for inputs of `shape` (without the batch) and `classes` outputs, weights drawn from torch's generator."""

    def __call__(self, shape: tuple[int, ...], classes: int, /) -> nn.Module: ...


def initial(factory: ModelFactory | nn.Module, shape: tuple[int, ...], classes: int, seed: int) -> nn.Module:
    """The factory's module with weights drawn from `seed` alone; torch's global generator is as it was before. A module itself is
    copied, with the weights that it has. Layers without a size (nn.LazyLinear) are sized by the shape, with weights of the seed.
    """
    if isinstance(factory, nn.Module) and not waits(factory):
        return deepcopy(factory)
    if not isinstance(factory, nn.Module) and (wrong := misfit(factory, ["shape", "classes"])):
        raise Unfit(f"model, {called(factory)}, does not fit: {wrong}; write def NAME(shape, classes)")
    with own_draws(seed):
        module = deepcopy(factory) if isinstance(factory, nn.Module) else factory(shape, classes)
        if not isinstance(module, nn.Module):
            hint = "; is there a `return`?" if module is None else ""
            raise Unfit(f"{called(factory)} returned {brief(module)}, where a module of torch is taken{hint}")
        size(module, shape)
    return module


def split(module: nn.Module, head: str) -> EmbeddingAndHead:
    """Any module as embedding and head, where `head` names the child that its forward calls last ("fc", "classifier.1").

    The embedding is a copy of the module with an identity in the head's place; the given module is not changed.
    Raises ValueError if there is no such child.
    """
    if head not in dict(module.named_modules()) or not head:
        children = ", ".join(name for name, _ in module.named_children())
        raise ValueError(f"the module has no part named {head!r}; its children are: {children}")
    embedding = deepcopy(module)
    parent, _, name = head.rpartition(".")
    owner = embedding.get_submodule(parent)
    last = owner.get_submodule(name)
    setattr(owner, name, nn.Identity())
    return EmbeddingAndHead(embedding, last)


@dataclass(frozen=True, slots=True)
class Mlp:
    """Fully connected layers with ReLU between them; `hidden` are the widths of the inner layers."""

    hidden: tuple[int, ...] = (64,)

    def __post_init__(self) -> None:
        need_whole(self, 1, "hidden")

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        width = torch.Size(shape).numel()
        layers: list[nn.Module] = [nn.Flatten()]
        for wider in self.hidden:
            layers += [nn.Linear(width, wider), nn.ReLU()]
            width = wider
        return EmbeddingAndHead(nn.Sequential(*layers), nn.Linear(width, classes))


@dataclass(frozen=True, slots=True)
class SoftmaxRegression:
    """One linear layer, its weights ~ N(0, deviation^2), all 0 by default. 610 parameters for 60 features, 10 classes.

    FPFC's paper (Yu et al. 2023) starts all clients from one point and does not say which; its authors' code draws it from
    N(0, 1).
    """

    deviation: float = 0.0

    def __post_init__(self) -> None:
        need_least(self, 0, "deviation")

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        model = EmbeddingAndHead(nn.Sequential(nn.Flatten()), nn.Linear(torch.Size(shape).numel(), classes))
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=self.deviation)
        return model


class Normalise(nn.Module):
    """(x - mean) / deviation in every channel of images (n, channels, height, width); nothing in it is trained."""

    def __init__(self, mean: Sequence[float], deviation: Sequence[float]) -> None:
        super().__init__()
        self.mean: Tensor
        self.deviation: Tensor
        self.register_buffer("mean", torch.tensor(mean).reshape(1, -1, 1, 1), persistent=False)
        self.register_buffer("deviation", torch.tensor(deviation).reshape(1, -1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = (x - self.mean) / self.deviation
        return out


@dataclass(frozen=True, slots=True)
class Normalised:
    """Another factory's model, its inputs normalised with these numbers a channel; the embedding is its own.

    IMAGENET is what EMD-CFL's authors take for three channels, MNIST_GREYS for one.
    """

    model: ModelFactory
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def __post_init__(self) -> None:
        need_finite(self, "mean")
        need_above(self, 0, "deviation")

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        model = self.model(shape, classes)
        if not isinstance(model, EmbeddingAndHead) or len(self.mean) != shape[0] or len(self.deviation) != shape[0]:
            raise ValueError(f"give a mean and a deviation for each of {shape[0]} channels, and a model with embedding and head")
        return EmbeddingAndHead(nn.Sequential(Normalise(self.mean, self.deviation), model.embedding), model.head)


IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
MNIST_GREYS = ((0.1307,), (0.3081,))


@dataclass(frozen=True, slots=True)
class CflCnn:
    """The small CNN of CFL's authors: conv5x5(6) - pool - conv5x5(16) - pool - fc. 18,506 parameters for 1x28x28, 62 classes."""

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        layers = [nn.Conv2d(shape[0], 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)]
        return with_linear_head([*layers, nn.Flatten()], shape, classes)


@dataclass(frozen=True, slots=True)
class FpfcCnn:
    """FPFC's authors' CNN: conv5x5(6) - pool - conv5x5(16) - pool - fc. 6,582 parameters for 1x28x28, 10 classes.

    The first convolution keeps the size of the image (padding 2).
    """

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        layers = [
            nn.Conv2d(shape[0], 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
        return with_linear_head([*layers, nn.Flatten()], shape, classes)


@dataclass(frozen=True, slots=True)
class FlicCnn:
    """FLIC's CNN: conv5x5(32) - pool - conv5x5(64) - pool - fc512 - fc. 1,663,370 parameters for 1x28x28, 10 classes."""

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        convolutions = [nn.Conv2d(shape[0], 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
        convolutions += [nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
        layers = [*convolutions, nn.Linear(width_after(convolutions, shape), 512), nn.ReLU()]
        return with_linear_head(layers, shape, classes)


@dataclass(frozen=True, slots=True)
class EmdCflCnn:
    """EMD-CFL's CNN (appendix D.2): conv3x3(64) - conv3x3(128) - pool - fc128 - fc. 3,287,178 parameters for 1x28x28, 10 classes.

    Both convolutions keep the size of the image (padding 1): only then is the number of parameters the authors'.
    """

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        convolutions = [nn.Conv2d(shape[0], 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 128, 3, padding=1), nn.ReLU()]
        convolutions += [nn.MaxPool2d(2), nn.Flatten()]
        layers = [*convolutions, nn.Linear(width_after(convolutions, shape), 128), nn.ReLU()]
        return with_linear_head(layers, shape, classes)


@dataclass(frozen=True, slots=True)
class Cifar5Cnn:
    """Five layers for CIFAR-10: three 3x3 convolutions, each pooled, and two fully connected.

    CFL's paper (section VI.A) says "5-layer convolutional neural network" and no more; the widths are ours.
    """

    widths: tuple[int, int, int] = (16, 32, 64)
    hidden: int = 128

    def __post_init__(self) -> None:
        need_whole(self, 1, "widths", "hidden")

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        layers: list[nn.Module] = []
        channels = shape[0]
        for width in self.widths:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
            channels = width
        layers.append(nn.Flatten())
        layers += [nn.Linear(width_after(layers, shape), self.hidden), nn.ReLU()]
        return with_linear_head(layers, shape, classes)


class HiddenStates(nn.Module):
    """Tokens, int64 (n, length), to the states of the last LSTM layer, float32 (n, length, hidden)."""

    def __init__(self, vocabulary: int, embedding: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.lstm(self.tokens(x))[0]
        return states


@dataclass(frozen=True, slots=True)
class Lstm:
    """Next-word prediction (CFL, section VI.B): tokens int64 (n, length) to logits (n, length, vocabulary)."""

    embedding: int = 64
    hidden: int = 128
    layers: int = 2

    def __post_init__(self) -> None:
        need_whole(self, 1, "embedding", "hidden", "layers")

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        states = HiddenStates(classes, self.embedding, self.hidden, self.layers)
        return EmbeddingAndHead(states, nn.Linear(self.hidden, classes))


def with_linear_head(layers: Sequence[nn.Module], shape: tuple[int, ...], classes: int) -> EmbeddingAndHead:
    """The layers as embedding, and a linear head of `classes` outputs that fits them."""
    return EmbeddingAndHead(nn.Sequential(*layers), nn.Linear(width_after(layers, shape), classes))


def width_after(layers: Sequence[nn.Module], shape: tuple[int, ...]) -> int:
    """Number of features that flat `layers` make of one input of `shape`. Raises ValueError if the input is too small."""
    try:
        with torch.no_grad():
            return int(nn.Sequential(*layers)(torch.zeros(1, *shape)).shape[1])
    except RuntimeError as error:
        raise ValueError(f"inputs of shape {shape} do not fit this model: {error}") from error
