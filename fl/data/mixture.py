"""A partition in which no client is of one group alone: each holds examples of several distributions."""

from dataclasses import dataclass

import numpy as np
import torch

from ..field_ranges import need_between, need_finite
from .dealing import PartitionOptions, blocks, deal, whole
from .population import Examples, Population, Source
from .rotation import rotate


@dataclass(frozen=True, slots=True)
class MixedRotation(PartitionOptions):
    """Of the images of half of the clients a share is turned by `angle` degrees, of the others all but that share (FedSoft's
    mixture of 0 and 90 degrees, 30 to 70). The halves are the planted groups; test images are mixed as training images are."""

    clients: int
    angle: float = 90
    share: float = 0.3

    def __post_init__(self) -> None:
        PartitionOptions.__post_init__(self)
        need_between(self, 0, 0.5, "share")
        need_finite(self, "angle")
        if not self.angle % 360:
            raise ValueError(f"images are turned by an angle that makes others of them, not by {self.angle}")

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        def mixed(group: int, examples: Examples) -> Examples:
            turned = round((self.share if group == 0 else 1 - self.share) * len(examples))
            x = torch.cat([rotate(examples.x[:turned], self.angle), examples.x[turned:]])  # dealt in random order
            return Examples(x, examples.y, examples.topic)

        return deal(source, whole(source, self.clients), blocks(self.clients, 2), mixed, self, rng)
