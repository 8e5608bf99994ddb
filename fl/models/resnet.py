"""Residual networks for small images (He et al. 2016, section 4.2), with normalisation that keeps no running statistics.

What a federation averages is what an update carries. Batch normalisation of papers keeps running statistics beside it, which
would be nobody's; it is replaced by group normalisation (Wu and He 2018), which needs none and does not depend on a client's
labels (Hsieh et al. 2020, section 5, find it better on skewed ones), or keeps to the batch at hand, also when a model is scored.
"""

from dataclasses import dataclass
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from .papers import EmbeddingAndHead

GROUPS = 2


class Residual(nn.Module):
    """relu(x + norm(conv(relu(norm(conv(x)))))). Where the size halves, x is each second pixel, new channels are 0 (option A)."""

    def __init__(self, channels: int, wider: int, norm: Literal["group", "batch"]) -> None:
        super().__init__()
        self.added = wider - channels
        self.first = nn.Conv2d(channels, wider, 3, stride=2 if self.added else 1, padding=1, bias=False)
        self.first_norm = normalisation(norm, wider)
        self.second = nn.Conv2d(wider, wider, 3, padding=1, bias=False)
        self.second_norm = normalisation(norm, wider)

    def forward(self, x: Tensor) -> Tensor:
        found = self.second_norm(self.second(F.relu(self.first_norm(self.first(x)))))
        if self.added:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.added // 2, self.added - self.added // 2))
        return F.relu(found + x)


def normalisation(norm: Literal["group", "batch"], channels: int) -> nn.Module:
    return nn.GroupNorm(GROUPS, channels) if norm == "group" else nn.BatchNorm2d(channels, track_running_stats=False)


@dataclass(frozen=True, slots=True)
class ResNet:
    """3 x 3 convolutions of `width`, twice and four times as many channels, (depth - 2) / 6 blocks each; mean of pixels; linear.

    ResNet(): the paper's ResNet-20, 269,722 parameters for 3x32x32 and 10 classes. depth: 8, 14, 20, 32, 44, 56 or 110.
    norm: "group", over half of the channels, or "batch", over the batch at hand.
    """

    depth: int = 20
    width: int = 16
    norm: Literal["group", "batch"] = "group"

    def __post_init__(self) -> None:
        if self.depth < 8 or (self.depth - 2) % 6:
            raise ValueError(f"a ResNet for small images has 6 n + 2 layers: 8, 14, 20, 32, ...; not {self.depth}")
        if self.width < GROUPS or self.width % GROUPS:
            raise ValueError(f"width is an even number of channels, not {self.width}")
        if self.norm not in ("group", "batch"):
            raise ValueError(f'norm is "group" or "batch", not {self.norm!r}')

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        widths = [self.width << stage for stage in range(3) for _ in range((self.depth - 2) // 6)]
        first = nn.Conv2d(shape[0], self.width, 3, padding=1, bias=False)
        layers: list[nn.Module] = [first, normalisation(self.norm, self.width), nn.ReLU()]
        layers += [Residual(before, wider, self.norm) for before, wider in zip([self.width, *widths], widths, strict=False)]
        module = EmbeddingAndHead(
            nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), nn.Linear(4 * self.width, classes)
        )
        for part in module.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight)  # He et al. 2015, as the paper takes
        return module
