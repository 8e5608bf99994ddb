"""The clients' computers of a simulation, for embeddings of their own data (EMD-CFL): implements `pairs.question.Embedders`.

Every client takes one subsample of its training data and one of its validation data, all of one size, and uses them for every
pair and for its reference distance. Where what it releases has noise, a replaced record moves nothing but its own row: which rows
there are is drawn by position, and each is embedded by itself.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...protocol.core.errors import Refused
from ...protocol.pairs.question import Answered, Embedders, Occasion
from ...protocol.view.answers import Vector
from ..data.population import Client, Examples
from ..emd.embedding import BATCH, Embedding, OwnEmbedding, embed
from ..emd.subsample import Size, subsample
from ..models.papers import EmbeddingAndHead

Seed = Callable[[int, str], int]
"""The seed of a client's subsample of a part of its data."""


class Facts:
    """Of clients' computers, what a server knows: sizes, and how a model embeds. It embeds nobody's data."""

    def __init__(self, of: Embedders) -> None:
        self.d, self.inputs, self.rows, self.by_position = of.d, of.inputs, of.rows, of.by_position
        self.weights_of, self.embed_examples = of.weights_of, of.embed_examples

    def embed(self, client: int, part: str, weights: Vector | None, /) -> NDArray[np.float32]:
        """Raises RuntimeError."""
        raise RuntimeError("a coordinator has no client's data to embed")

    def examples(self, client: int, part: str, /) -> NDArray[np.float32]:
        """Raises RuntimeError."""
        raise RuntimeError("a coordinator has no client's data")

    def sent(self, client: int, occasion: Occasion, honest: Answered, /) -> Answered:
        """Raises RuntimeError."""
        raise RuntimeError("a coordinator answers for no client")


def parted(held_out: Mapping[int, Client], samples: int, seed: Seed, noisy: bool = False) -> dict[str, Mapping[int, Client]]:
    """Validation data as `pairs.question.Embedders` names it: whole, or dealt at random into as many disjoint samples.

    Every label is dealt evenly, as the luck of the labels would else be most of what samples differ by; where what is made of
    them has noise, examples are dealt by position alone. Raises ValueError for a client with fewer examples than samples.
    """
    if samples == 1:
        return {"validation": held_out}
    parts: dict[str, dict[int, Client]] = {f"validation {k}": {} for k in range(samples)}
    for i, client in held_out.items():
        if len(client.train) < samples:
            raise ValueError(
                f"client {i} holds out {len(client.train)} examples, too few for {samples} samples: hold out more (validation)"
            )
        order = np.random.default_rng(seed(i, "parted")).permutation(len(client.train))
        if not noisy:
            order = order[np.argsort(client.train.y.numpy()[order], kind="stable")]
        for k, part in enumerate(parts.values()):
            part[i] = replace(client, train=client.train.take(torch.from_numpy(order[k::samples].copy())))
    return dict(parts)


class SimulatedEmbedders:
    """module: the architecture that clients train, as initialised. parts: of each part of the data, the clients that are here.
    public: a network that everybody knew before the run, from inputs to embeddings; None for the embedding of the initial model.
    noisy: whether what is made of the embeddings has noise. like: examples as all clients have them, where others are elsewhere,
    so that samples are as large as was agreed (`Size.agreed`); None where all are here.

    Raises Refused for a stratified size under noise, and for networks whose embedding of one example depends on others;
    ValueError for too few examples.
    """

    def __init__(
        self,
        module: nn.Module,
        embedding: Embedding,
        parts: Mapping[str, Mapping[int, Client]],
        size: Size,
        seed: Seed,
        public: nn.Module | None = None,
        noisy: bool = False,
        like: Examples | None = None,
    ) -> None:
        self._own = _own(module, embedding, public)
        self._public = deepcopy(module if public is None else EmbeddingAndHead(public, nn.Identity())).eval()
        self._public_cut = embedding if public is None else Embedding()
        sizes = [len(client.train) for clients in parts.values() for client in clients.values()]
        count = size.common(sizes) if like is None else size.agreed(sizes)
        self.by_position = size.by_position(noisy)
        self._samples: dict[tuple[int, str], Examples] = {
            (i, part): subsample(client.train, count, np.random.default_rng(seed(i, part)), self.by_position)
            for part, clients in parts.items()
            for i, client in clients.items()
        }
        first = next(iter(self._samples.values())) if like is None else like
        self.rows = count
        self.inputs = int(first.x[0].numel())
        self.d = int(self._embed(first.take(torch.arange(1)), None).shape[1])
        self.shape = tuple(first.x.shape[1:])
        if noisy:
            own = [] if self._own is None else [(self._own.module, embedding)]
            check_alone([(self._public, self._public_cut), *own], first)

    def weights_of(self, model: NDArray[np.float32], /) -> NDArray[np.float32]:
        return model[:0] if self._own is None else self._own.weights_of(model)

    def sample(self, client: int, part: str, /) -> Examples:
        """The examples that are embedded of this part of the client's data, in order."""
        return self._samples[client, part]

    def embed(self, client: int, part: str, weights: NDArray[np.float32] | None, /) -> NDArray[np.float32]:
        return self._embed(self._samples[client, part], weights)

    def examples(self, client: int, part: str, /) -> NDArray[np.float32]:
        return self._samples[client, part].x.numpy().reshape(self.rows, self.inputs).astype(np.float32)

    def embed_examples(self, examples: NDArray[np.float32], weights: NDArray[np.float32] | None, /) -> NDArray[np.float32]:
        x = torch.from_numpy(np.array(examples)).reshape(len(examples), *self.shape)
        return self._embed(Examples(x, torch.zeros(len(x), dtype=torch.int64)), weights)

    def sent(self, client: int, occasion: Occasion, honest: Answered, /) -> Answered:
        return honest

    def _embed(self, examples: Examples, weights: NDArray[np.float32] | None) -> NDArray[np.float32]:
        if weights is None:
            return embed(self._public, self._public_cut, examples.x)
        if self._own is None:
            raise Refused("the model that clients train has no parameters before its head, so there is a public embedding alone")
        return self._own(weights, examples.x)


def _own(module: nn.Module, embedding: Embedding, public: nn.Module | None) -> OwnEmbedding | None:
    """How clients' own models embed; None, where there is a public one, for models that do not. Raises ValueError."""
    try:
        return OwnEmbedding(module, embedding)
    except ValueError:
        if public is None:
            raise
        return None


def check_alone(networks: list[tuple[nn.Module, Embedding]], examples: Examples) -> None:
    """Raises Refused for a network that embeds the first example otherwise where all others are replaced, by zeros."""
    batch = examples.x[:BATCH]
    others = torch.zeros_like(batch)
    others[0] = batch[0]
    for network, cut in networks:
        one, same = (embed(network, cut, x)[0] for x in (batch, others))
        if not np.allclose(one, same, rtol=1e-3, atol=1e-5 * float(np.abs(one).max()), equal_nan=True):
            raise Refused(
                "the embedding of one example depends on the others that are embedded with it, as by batch normalisation without"
                " running statistics; noise for one record does not cover that"
            )
