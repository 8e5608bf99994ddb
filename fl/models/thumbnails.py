"""Public networks without anything learned: coarse images, to compare clients by what nobody's data went into.

Noise on a mean has one deviation a coordinate, so the fewer coordinates, the less noise altogether: a mean of images says nearly
as much about how clients differ at a few cells as at all pixels, and more by low frequencies than by as many cells. Nothing here
was fitted to any data.
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


EVEN = 1e-3
"""Length below which rows of frequencies are not stretched: an even image has rounding errors alone."""


class LowFrequencies(nn.Module):
    """Images (n, channels, side, side) by their discrete cosine transform (Ahmed, Natarajan, Rao 1974): of every channel the
    coefficients of frequencies u, v with 1 <= u + v <= most, times 1 + u + v, as images have less of the higher ones.

    Rows (n, channels * most * (most + 3) / 2) have the length sqrt(columns); one of an even image is 0.
    """

    def __init__(self, side: int, most: int) -> None:
        super().__init__()
        at = torch.arange(side, dtype=torch.float64)
        basis = torch.cos(torch.pi / side * (at + 0.5) * at[:, None]) * (2 / side) ** 0.5
        basis[0] /= 2**0.5
        frequency = at[:, None] + at
        self._kept = (frequency >= 1) & (frequency <= most)
        self._basis = basis.float()
        self._weights = (1 + frequency[self._kept]).float()

    def forward(self, x: Tensor) -> Tensor:
        found = torch.einsum("ki,ncij,lj->nckl", self._basis, x, self._basis)[:, :, self._kept] * self._weights
        rows = found.flatten(1)
        scaled: Tensor = functional.normalize(rows, dim=1, eps=EVEN) * rows.shape[1] ** 0.5
        return scaled


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
        embedding = nn.Sequential(*_cells(self.side), nn.LayerNorm(width, elementwise_affine=False))
        return EmbeddingAndHead(embedding, _zero(width, classes))


@dataclass(frozen=True, slots=True)
class FrequencyRegression:
    """The same on `LowFrequencies` up to `most`, of means of side x side cells, or of as many as the smaller side has pixels.

    Raises ValueError for most >= side, and for images that have no such frequencies.
    """

    side: int = 14
    most: int = 6

    def __post_init__(self) -> None:
        if not 1 <= self.most < self.side:
            raise ValueError(f"of {self.side} x {self.side} cells most is a frequency from 1 to {self.side - 1}, not {self.most}")

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        _check(self.most + 1, shape)
        side = min(self.side, *shape[1:])
        embedding = nn.Sequential(nn.AdaptiveAvgPool2d(side), LowFrequencies(side, self.most))
        return EmbeddingAndHead(embedding, _zero(shape[0] * self.most * (self.most + 3) // 2, classes))


def _zero(width: int, classes: int) -> nn.Linear:
    """A last layer that holds every label for equally likely."""
    head = nn.Linear(width, classes)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.zero_()
    return head
