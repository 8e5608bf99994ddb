"""Pre-trained embeddings: any network with a file of weights, as a model to be trained on, or frozen in front of the clients.

The file is what `torch.save(network.state_dict(), FILE)` writes; nothing in it is executed.
"""

import hashlib
import pickle
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..data.partition import Partition
from ..data.population import Examples, Population, Source
from ..field_ranges import need_above, need_finite, need_whole
from .mobilenet import MobileNet
from .papers import IMAGENET, EmbeddingAndHead, Normalise

BATCH = 64
MOST_EMBEDDED = 256
"""Sets of images whose vectors are kept."""
_embedded: "dict[tuple[Pretrained, int, tuple[int, ...], bytes], Tensor]" = {}
HOW = "torch.save(network.state_dict(), FILE)"


class Network(Protocol):
    """Builds an embedding network, images (n, 3, size, size) to vectors (n, D), and finds its weights in a file's."""

    def __call__(self) -> nn.Module: ...

    def weights(self, state: Mapping[str, Tensor], /) -> Mapping[str, Tensor]:
        """The file's tensors under the network's names; more than it has are not looked at. Raises ValueError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pretrained:
    """A model factory: the network with the file's weights, and a linear head with fresh ones.

    weights: path of the file; "" makes building the model an error that says so. size: images are resized to it (bilinear).
    mean, deviation: what is taken off every channel of images in [0, 1], and what they are then divided by.
    """

    weights: str = ""
    network: Network = field(default=MobileNet())
    size: int = 224
    mean: tuple[float, float, float] = IMAGENET[0]
    deviation: tuple[float, float, float] = IMAGENET[1]

    def __post_init__(self) -> None:
        need_whole(self, 1, "size")
        need_finite(self, "mean")
        need_above(self, 0, "deviation")

    def __call__(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        embedding = self.embedding()
        with torch.no_grad():
            width = int(embedding(torch.zeros(1, *shape)).shape[1])
        return EmbeddingAndHead(embedding, nn.Linear(width, classes))

    def embedding(self) -> nn.Module:
        """Images float32 (n, 1 or 3, height, width) in [0, 1] to vectors. Raises ValueError for a file that does not fit."""
        network = self.network()
        found = self.network.weights(_read(self.weights))
        wanted = network.state_dict()
        for name, tensor in wanted.items():
            if name not in found or found[name].shape != tensor.shape:
                there = f"of shape {tuple(found[name].shape)}" if name in found else "missing"
                raise ValueError(f"{self.weights} does not fit the network: {name}, {tuple(tensor.shape)}, is {there}")
        network.load_state_dict({name: found[name] for name in wanted})
        return nn.Sequential(Resized(self.size), Normalise(self.mean, self.deviation), network)


class Resized(nn.Module):
    """Images of any size as three channels of one size (bilinear)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        if tuple(x.shape[2:]) != (self.size, self.size):
            x = functional.interpolate(x, (self.size, self.size), mode="bilinear", align_corners=False)
        return x.expand(-1, 3, -1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """A partition whose clients hold the vectors of a frozen network in place of their images, float32 (n, D).

    Nobody's data are in the network, so it is a public embedding; what clients train on top of it is small.
    tests: most test examples that a client keeps, the first; None for all.
    """

    partition: Partition
    by: Pretrained
    tests: int | None = None

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        population = self.partition(source, rng)
        embedded = self.embedded
        clients = {
            i: replace(c, train=embedded(c.train), test=embedded(self.kept(c.test))) for i, c in population.clients.items()
        }
        width = next(iter(clients.values())).train.x.shape[1]
        return replace(population, clients=clients, shape=(width,))

    def kept(self, tests: Examples) -> Examples:
        """The test examples of a client that it keeps."""
        return tests.take(torch.arange(len(tests))[: self.tests])

    def embedded(self, examples: Examples) -> Examples:
        """The examples with their vectors in place of the images. Images that were embedded before in this process are not again:
        methods and seeds of a comparison share them, and the network takes longer than all else.
        """
        if not isinstance(self.by.network, Hashable):
            return replace(examples, x=self._vectors(examples.x))
        written = Path(self.by.weights).stat().st_mtime_ns if Path(self.by.weights).is_file() else 0
        key = self.by, written, tuple(examples.x.shape), hashlib.sha256(examples.x.numpy().tobytes()).digest()
        vectors = _embedded.pop(key, None)
        _embedded[key] = self._vectors(examples.x) if vectors is None else vectors  # the newest last
        while len(_embedded) > MOST_EMBEDDED:
            del _embedded[next(iter(_embedded))]
        return replace(examples, x=_embedded[key].clone())  # whoever changes its own changes nobody else's

    def _vectors(self, images: Tensor) -> Tensor:
        network = self.by.embedding().eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        with torch.no_grad():
            return torch.cat([network(batch) for batch in torch.split(images, BATCH)])


def _read(file: str) -> Mapping[str, Tensor]:
    if not file:
        raise ValueError(f"the model has no weights; name the file that {HOW} wrote")
    if not Path(file).is_file():
        raise ValueError(f"there is no file of weights {file}; {HOW} writes one")
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise ValueError(f"{file} is no file of weights ({type(error).__name__}); {HOW} writes one") from error
    if not isinstance(state, dict) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
        raise ValueError(f"{file} must hold a dictionary of tensors; {HOW} writes one")
    return state
