"""Public networks without anything learned: coarse images, to compare clients by what nobody's data went into.

Noise on a mean has one deviation a coordinate, so the fewer coordinates, the less noise altogether: a mean of images says nearly
as much about how clients differ at a few cells as at all pixels. Nothing here was fitted to any data.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from .papers import EmbeddingAndHead


class UnitLength(nn.Module):
    """Rows (n, d) scaled to Euclidean length 1; a row of zeros stays one."""

    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = functional.normalize(x, dim=1)
        return scaled


def _cells(side: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(side), nn.Flatten()]


def _check(side: int, shape: tuple[int, ...]) -> int:
    """Coordinates of a coarse image. Raises ValueError for inputs that are no images, or smaller ones."""
    if len(shape) != 3 or min(shape[1:]) < side or side < 1:
        raise ValueError(f"inputs of shape {shape} are no images (channels, height, width) of {side} x {side} cells or more")
    return shape[0] * side * side


@dataclass(frozen=True, slots=True)
class Thumbnails:
    """A public embedding: images (n, channels, height, width) as means of side x side cells a channel, scaled to length 1."""

    side: int = 4

    def width(self, shape: tuple[int, ...]) -> int:
        """Coordinates of an embedding of inputs of this shape. Raises ValueError for what are no images of that size."""
        return _check(self.side, shape)

    def __call__(self, shape: tuple[int, ...]) -> nn.Module:
        self.width(shape)
        return nn.Sequential(*_cells(self.side), UnitLength())


@dataclass(frozen=True, slots=True)
class ThumbnailRegression:
    """A public model, softmax regression on means of side x side cells, which each image has with mean 0 and variance 1.

    All weights are 0: it holds every label for equally likely, and its last layer is all that it has.
    """

    side: int = 7

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        width = _check(self.side, shape)
        head = nn.Linear(width, classes)
        with torch.no_grad():
            head.weight.zero_()
            head.bias.zero_()
        return EmbeddingAndHead(nn.Sequential(*_cells(self.side), nn.LayerNorm(width, elementwise_affine=False)), head)
