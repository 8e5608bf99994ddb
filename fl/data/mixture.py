"""A partition in which no client is of one group alone: each holds examples of several distributions."""

from dataclasses import dataclass

import numpy as np
import torch

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

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        if not (0 < self.share < 0.5 and self.angle % 360):
            raise ValueError(f"a share above 0 and below 1/2 is turned by an angle, not {self.share} by {self.angle}")

        def mixed(group: int, examples: Examples) -> Examples:
            turned = round((self.share if group == 0 else 1 - self.share) * len(examples))
            x = torch.cat([rotate(examples.x[:turned], self.angle), examples.x[turned:]])  # dealt in random order
            return Examples(x, examples.y, examples.topic)

        return deal(source, whole(source, self.clients), blocks(self.clients, 2), mixed, self, rng)
