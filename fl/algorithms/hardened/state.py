"""What the hardened FLIC carries from round to round: handles on models, and numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....protocol.view.answers import Model, Remembered
from ..algorithm import Cluster, Measured
from ..parameter_tree import Node
from .evidence import Evidence

FIRST = "round 0"


@dataclass(frozen=True, slots=True)
class Anchor:
    """An earlier model that clients may go back to, and when a community went on from it."""

    model: Model
    round: int


@dataclass(frozen=True, slots=True)
class State:
    """clusters: who is served by what. contributors: whose updates make a cluster's model, where anybody's do. anchors: earlier
    models to go back to.

    evidence: what sessions have shown. lengths: the norm that each client was seen with last. forks: of communities that have
    just been forked, the name of what they were one of. drawn: when a client was last invited. waiting: clients that no cluster
    has yet. names: how many communities have been named. measured: of the last round, for the record.
    """

    round: int
    clusters: Mapping[str, Cluster]
    contributors: Mapping[str, tuple[int, ...]]
    anchors: Mapping[str, Anchor]
    evidence: Evidence = field(default_factory=Evidence)
    lengths: Mapping[int, float] = field(default_factory=dict)
    forks: Mapping[str, str] = field(default_factory=dict)
    drawn: Mapping[int, int] = field(default_factory=dict)
    waiting: tuple[int, ...] = ()
    names: int = 0
    measured: Mapping[str, Measured] = field(default_factory=dict, compare=False)

    @property
    def everybody(self) -> tuple[int, ...]:
        """All clients that have entered, ascending."""
        served = {i for cluster in self.clusters.values() for i in cluster.members}
        return tuple(sorted(served | {i for group in self.contributors.values() for i in group} | set(self.waiting)))

    @property
    def tree(self) -> Mapping[str, Node]:
        return {}

    @property
    def models(self) -> Sequence[Model]:
        return [*(c.model for c in self.clusters.values()), *(anchor.model for anchor in self.anchors.values())]

    @property
    def remembered(self) -> Sequence[Remembered]:
        return ()
