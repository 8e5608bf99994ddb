"""Lies about which model serves a client best, where the server asks (FLIC's late assignment, attack of group 5.9; also IFCA's).

A choice is a report: nothing ties it to the client's data. With one a member enters the cluster that it wants to harm, or votes
for the model that harms most.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..fl.data.population import Examples
from ..fl.field_ranges import need_whole
from ..fl.models.vector import load_vector
from ..fl.runs.evaluation import ScoringJob, scores_of
from .attack import DataAttack
from .knowledge import Level
from .offers import Offered, OfferedTogether


@dataclass(frozen=True, slots=True)
class WorstModel:
    """The model with the largest loss on the member's own examples: votes for what an attack has ruined."""

    needs: ClassVar[Level] = Level.OWN

    def __call__(self, offered: Offered, /) -> int:
        return int(np.argmax(losses(offered, offered.examples)))


@dataclass(frozen=True, slots=True)
class Pretended:
    """The model that serves forged data best, such as another group's labels: the way into the cluster of that group.

    data: makes them from the member's own; it is handed an `Offered`, of which it may use the examples and the classes.
    """

    data: DataAttack
    needs: ClassVar[Level] = Level.OWN

    def __call__(self, offered: Offered, /) -> int:
        made: Any = self.data
        return int(np.argmin(losses(offered, made(offered))))


@dataclass(frozen=True, slots=True)
class SameAs:
    """What one client honestly says, to be where it is; the member's own honest choice where that client is not asked."""

    client: int
    needs: ClassVar[Level] = Level.OMNISCIENT

    def __post_init__(self) -> None:
        need_whole(self, 0, "client")

    def __call__(self, offered: Offered, /) -> int:
        if not isinstance(offered, OfferedTogether):
            raise ValueError("this attack needs the choices of other clients")
        own = 0 if offered.honest is None else offered.honest
        return offered.chosen.get(self.client, own)


def losses(offered: Offered, examples: Examples) -> list[float]:
    """The mean loss of every model on these examples; infinite where it is not a number."""
    local = deepcopy(offered.module).eval()
    found = []
    for model in offered.models:
        load_vector(local, model)
        loss = scores_of(local, [ScoringJob(offered.member, model, examples)])[offered.member].loss
        found.append(loss if np.isfinite(loss) else np.inf)
    return found
