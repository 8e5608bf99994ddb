"""IFCA: K models, and every client works on the one that serves it best (Ghosh, Chung, Yin, Ramchandran, NeurIPS 2020).

Line numbers are Algorithm 1's. The server sends all K models to the round's clients; each estimates its cluster as the model of
the least loss on its training data and works on that one alone.

Where paper and authors' code differ or are silent, this is what happens:
- The choice is of the empirical loss on training data (line 6), ties go to the first model. It is put into slots, so that a
  protection that hides updates hides it too: the server learns sums and how many chose each model.
- Models average: theta_k is the uniform mean of what its choosers ended with (line 14), and stays where nobody chose it or where
  the sum is below the floor. Gradients average: gamma over the number of *all* invited clients times the sum of the choosers'
  gradients (line 12).
- The K models start at K draws of the scenario's model, one seed each. Of equal draws (`SoftmaxRegression()`, which is zero) the
  first takes all clients of the first round. No draw is taken back: the code for CIFAR-10 draws anew until every model attracts
  enough clients.
- Whom a client is with is what it chooses at the end, by the same rule; no party of the protocol knows all choices.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ...protocol.view.answers import BelowFloor, Sum
from ...protocol.view.asks import MovesModels
from ..clients.slots import InSlots, best, least
from .algorithm import Cluster, advanced
from .several_models import SeveralModels, SlotsView, State


@dataclass(frozen=True, slots=True, kw_only=True)
class IFCA(SeveralModels):
    """models: K. average: "models" after local training, or "gradients" at theta_k, with steps of gamma."""

    average: Literal["models", "gradients"] = "models"
    gamma: float = 0.1

    def __post_init__(self) -> None:
        SeveralModels.__post_init__(self)
        if self.average not in ("models", "gradients"):
            raise ValueError(f'average is of "models" or "gradients", not {self.average!r}')
        if not 0 < self.gamma < np.inf:
            raise ValueError(f"gamma is above 0 and finite, not {self.gamma}")

    @property
    def full_gradients(self) -> bool:
        """Whether clients are asked for gradients over all of their records."""
        return self.average == "gradients"

    @property
    def in_slots(self) -> InSlots:
        """What a client does (lines 5-10)."""
        return InSlots(least, best, "update" if self.average == "models" else "gradient")

    def round(self, state: State, view: SlotsView, rng: np.random.Generator, /) -> State:
        """Lines 3 to 15."""
        active, slots = self.asked(state, view, rng)  # lines 3-10
        moved = {
            name: self._moved(view, cluster, slot, len(active))
            for (name, cluster), slot in zip(state.clusters.items(), slots, strict=True)
        }
        return replace(state, round=state.round + 1, clusters=moved)

    def _moved(self, view: MovesModels, cluster: Cluster, slot: Sum | BelowFloor, active: int) -> Cluster:
        """Line 12 or line 14."""
        if self.average == "models" or not isinstance(slot, Sum):
            return advanced(view, cluster, slot)
        return advanced(view, cluster, slot, -self.gamma * slot.weight / active)
