"""What the clients of a scenario that are compared in pairs show of their data, and how large a sample of it."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from torch import nn

from ...protocol.pairs.question import Comparing, Embedders
from ..algorithms.compared import BringsEmbedders, ByDistances, ByEmbeddings, ComparesClients
from ..clients.embedders import SimulatedEmbedders, parted
from ..clustering.subspaces import Unmeasured
from ..emd.judging import tau_of
from .dealt import Apportioned, seed_of
from .reference_check import measures_references
from .scenario import Scenario

if TYPE_CHECKING:
    from .parties import Parties


def comparing_of(algorithm: ComparesClients) -> Comparing:
    """What clients can know beforehand of how an algorithm compares them."""
    tau = tau_of(algorithm.distance, algorithm.eps) if isinstance(algorithm, ByDistances) else Unmeasured()
    return Comparing(algorithm.choice, tau)


def embedders_of(
    scenario: Scenario[Any], dealt: Apportioned, module: nn.Module, here: Collection[int] | None = None
) -> Embedders:
    """The clients' computers for embeddings, or what the algorithm has in their place.

    here: clients whose data are in this process, where others' are elsewhere: what this party has of those says nothing of how
    many records they have. None where all are here. Raises Refused, and ValueError for too few records.
    """
    algorithm: Any = scenario.algorithm
    if isinstance(algorithm, BringsEmbedders):
        return algorithm.embedders(dealt.population, module)
    samples = tau_of(algorithm.distance, algorithm.eps).samples
    noisy = getattr(algorithm.choice, "noise", None) is not None

    def seed(client: int, part: str) -> int:
        return seed_of(scenario.seed, "subsample", part, client)

    clients = dealt.population.clients
    mine = {i: client for i, client in clients.items() if here is None or i in here}
    validation = {i: dealt.validation[i] for i in mine if i in dealt.validation}
    held = parted(validation, samples, seed, noisy) if measures_references(algorithm) else {}
    public = None if algorithm.public is None else algorithm.public(dealt.population.shape)
    like = None if here is None else next(iter(clients.values())).train
    return SimulatedEmbedders(module, algorithm.embedding, {"train": mine, **held}, algorithm.size, seed, public, noisy, like)


def sampled_apart(algorithm: object) -> int | None:
    """How many records every client is compared by where each has its data to itself; None where that is no agreed number."""
    if not isinstance(algorithm, ByEmbeddings) or isinstance(algorithm, BringsEmbedders):
        return None
    return algorithm.size.limit


def compared_by(parties: "Parties", client: int) -> str:
    """By how many of its records a client is compared, in words; empty where it is not, or by all."""
    embedders = parties.setup.embedders
    algorithm: Any = parties.scenario.algorithm
    if embedders is None or isinstance(algorithm, BringsEmbedders):
        return ""
    words = f"by {embedders.rows} of its records to train on"
    if not measures_references(algorithm):
        return words
    samples, held = tau_of(algorithm.distance, algorithm.eps).samples, len(parties.validation[client].train)
    some = f"{samples} samples of {embedders.rows}" if samples > 1 else f"{embedders.rows}"
    return f"{words}, and {some} of those that it holds out ({held})"
