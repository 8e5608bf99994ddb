"""What algorithms bring whose clients are compared in pairs: what clients release, and by what they are told apart."""

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from torch import nn

from ...protocol.pairs.choices import Choice
from ...protocol.pairs.question import Embedders
from ..data.population import Population
from ..emd.distances import Distance
from ..emd.embedding import Embedding
from ..emd.judging import Tolerance
from ..emd.subsample import Size

if TYPE_CHECKING:
    from .emd_cfl import PublicEmbedding


@runtime_checkable
class ComparesClients(Protocol):
    """choice: what clients release to be compared."""

    @property
    def choice(self) -> Choice: ...


@runtime_checkable
class ByDistances(ComparesClients, Protocol):
    """distance: of two clients' embeddings. eps: up to which they belong together, or how that is found."""

    @property
    def distance(self) -> Distance: ...

    @property
    def eps(self) -> Tolerance: ...


@runtime_checkable
class ByEmbeddings(ByDistances, Protocol):
    """size: of a client's subsample. embedding: where the model is cut. public: builds the public embedding, if there is one."""

    @property
    def size(self) -> Size: ...

    @property
    def embedding(self) -> Embedding: ...

    @property
    def public(self) -> "PublicEmbedding | None": ...


@runtime_checkable
class BringsEmbedders(Protocol):
    """Its clients are compared by something else than embeddings of examples."""

    def embedders(self, population: Population, module: nn.Module, /) -> Embedders: ...
