"""What the hardened FLIC carries from round to round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...protocol.answers import Model, Remembered
from ..screening import Evidence
from .algorithm import Cluster, Measured
from .incremental_similarity import EMPTY, Memory
from .parameter_tree import Node


@dataclass(frozen=True, slots=True)
class Stored:
    """The round and the norm of a client's stored update."""

    round: int
    norm: float


@dataclass(frozen=True, slots=True)
class State:
    """clusters: who is served by what. contributors: whose updates make a cluster's model, where anybody's do. anchors: earlier
    models to go back to.

    evidence: cosines over the groupings so far. stored: what is known of the updates in memory. opposed: how many of a client's
    updates were clearly against those of its community since one was not against them. drawn: when a client was last
    invited. waiting: clients that no cluster has yet. measured: of the last round, for the record.
    """

    round: int
    clusters: Mapping[str, Cluster]
    contributors: Mapping[str, tuple[int, ...]]
    anchors: Mapping[str, Model]
    memory: Memory = EMPTY
    evidence: Evidence = field(default_factory=Evidence)
    stored: Mapping[int, Stored] = field(default_factory=dict)
    opposed: Mapping[int, int] = field(default_factory=dict)
    drawn: Mapping[int, int] = field(default_factory=dict)
    waiting: tuple[int, ...] = ()
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def tree(self) -> Mapping[str, Node]:
        return {}

    @property
    def models(self) -> Sequence[Model]:
        return [*(c.model for c in self.clusters.values()), *self.anchors.values()]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return self.memory.handles
