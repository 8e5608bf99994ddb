"""Rotating images."""

import math

import torch
from torch import Tensor
from torch.nn import functional


def rotate(images: Tensor, degrees: float) -> Tensor:
    """Images, float32 (n, channels, height, width), turned counter-clockwise about their centre.

    Quarter turns are exact and 0 returns `images` itself; other angles interpolate bilinearly, with 0 outside of the image.
    """
    if images.ndim != 4 or images.shape[2] != images.shape[3]:
        raise ValueError(f"only square images can be rotated, not inputs of shape {tuple(images.shape[1:])}")
    quarters, rest = divmod(degrees % 360, 90)
    if rest == 0:
        return torch.rot90(images, int(quarters), (2, 3)).contiguous() if quarters else images
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    turn = torch.tensor([[cosine, -sine, 0.0], [sine, cosine, 0.0]])  # where each pixel comes from; rows point down
    grid = functional.affine_grid(turn.expand(len(images), 2, 3), list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)
