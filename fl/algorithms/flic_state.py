"""What FLIC carries from round to round: handles on models and updates, and cosines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...protocol.view.answers import Model, Remembered
from .algorithm import Cluster, Flat, Measured
from .incremental_similarity import EMPTY, SimilarityMemory

ALL = "0"
"""The cluster of all clients, until communities are found."""


@dataclass(frozen=True, slots=True)
class State(Flat):
    """memory: the updates that are compared, and their cosines, where they are asked for in every round; empty after T.
    kept: handles on the last updates that are asked for at T, each client in one; empty after it.
    waiting: clients that no community has yet. asked: whose updates were asked for to be compared, until then; recalled: how
    often those that clients kept were; compared: of how many at most it was in vain. first: the model that communities began
    with, once all clients train alone from it.

    measured: the last round's norms, cosines and communities, for the record; not needed to go on.
    """

    round: int
    clusters: Mapping[str, Cluster]
    memory: SimilarityMemory = EMPTY
    waiting: tuple[int, ...] = ()
    kept: tuple[Remembered, ...] = ()
    asked: tuple[int, ...] = ()
    recalled: int = 0
    compared: int = 0
    first: Model | None = None
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def models(self) -> Sequence[Model]:
        return [*(cluster.model for cluster in self.clusters.values()), *([self.first] if self.first is not None else [])]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return [*self.memory.handles, *self.kept]
