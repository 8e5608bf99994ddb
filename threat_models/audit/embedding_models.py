"""The networks that embed clients' records: in truth, and as far as an observer of the run knows them."""

from collections.abc import Mapping
from copy import deepcopy
from functools import cached_property

import numpy as np
from torch import Tensor, nn

from ...fl.emd.embedding import Embedding, OwnEmbedding, embed
from ...fl.models.papers import EmbeddingAndHead
from ...fl.models.vector import load_vector, to_vector
from ...protocol.pairs.choices import MeanSketch, ServerSamples
from ...protocol.pairs.question import Rows
from ...protocol.view.answers import Vector
from .estimates import Estimate
from .membership import start_of
from .reading import Instance
from .truth import Truth
from .view import CorruptView, Public


class Networks:
    """How a model embeds in a run of EMD-CFL, and the public network: what everybody knows.

    own: whether clients embed by models of their own; where they hand over samples, these are taken as they are.
    """

    def __init__(self, public: Public) -> None:
        self._algorithm = public.algorithm
        self._module = deepcopy(public.module).cpu()
        load_vector(self._module, public.initial[: len(to_vector(self._module))])
        self._shape = tuple(public.auxiliary.x.shape[1:])
        choice = self._algorithm.choice
        self._samples = isinstance(choice, ServerSamples)
        self.own = not (self._samples or isinstance(choice, MeanSketch) or getattr(choice, "embedding", "public") == "public")

    def weights_of(self, model: Vector) -> Vector | None:
        """The part of a model, float32 (d,), that embeds; None where that is not what embeds."""
        return self._own.weights_of(model) if self.own else None

    def __call__(self, inputs: Tensor, weights: Vector | None) -> Rows:
        """Embeddings of inputs (n, ...), float32 (n, D), by these weights; None for the public network."""
        if self._samples:
            return np.asarray(inputs.flatten(1).numpy(), np.float32)
        return embed(*self._public, inputs) if weights is None else self._own(weights, inputs)

    @cached_property
    def _own(self) -> OwnEmbedding:
        return OwnEmbedding(self._module, self._algorithm.embedding)

    @cached_property
    def _public(self) -> tuple[nn.Module, Embedding]:
        if self._algorithm.public is None:
            return self._module, self._algorithm.embedding
        return EmbeddingAndHead(self._algorithm.public(self._shape), nn.Identity()).eval(), Embedding()


def true_weights(networks: Networks, truth: Truth, client: int) -> Vector | None:
    """Those that embed, of the client's own model of the first round in which it trained one."""
    if not networks.own:
        return None
    first = min(t for t, kind, i in truth.updates if (kind, i) == ("update", client))
    start = truth.starts[first, client]
    return networks.weights_of(start + truth.updates[first, "update", client][: len(start)])


def weights_known(
    view: CorruptView, networks: Networks, round: int, client: int, found: Mapping[Instance, Estimate]
) -> Vector | None:
    """Those of the client's own model of that round: of a corrupt client's, or of what its estimated update leads to; of what it
    started from where nothing is known of that, and of the initial model where nothing is known at all."""
    held = view.held.get(client)
    if held is not None and (round, "update") in held.updates:
        return networks.weights_of(held.models[round] + held.updates[round, "update"])
    start, guessed = start_of(view, round, client), found.get((round, "update", client))
    if start is None or guessed is None:
        return networks.weights_of(view.public.initial if start is None else start)
    return networks.weights_of((start + guessed.vector).astype(np.float32))
