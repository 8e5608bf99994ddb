"""pFedGraph: every client has a model of its own, a mean weighted by who it is similar to (Ye et al., ICML 2023).

The server compares what clients have moved from the common w^0, d_ij = -cos(w_i - w^0, w_j - w^0), and gives each client i the
weights x_i = argmin over the simplex of lambda |x|^2 + (d_i - 2 lambda p)^T x, in closed form a projection. Client i goes on from
sum_j x_ij w_j. Each client is told its own mean; the server inner products.

The rest, and what happens where paper and authors' code differ or are silent, is in `personal_graph`. The code's snap is .9, the
paper has none.
"""

from dataclasses import dataclass

import numpy as np

from ...protocol.view.functionality import Functionality
from .personal_graph import PersonalGraph, PersonalGraphView, State, rows_by_similarity


@dataclass(frozen=True, slots=True, kw_only=True)
class PFedGraph(PersonalGraph):
    """lam: lambda, how even the weights are. The rest as in `PersonalGraph`."""

    lam: float = 0.8

    def __post_init__(self) -> None:
        PersonalGraph.__post_init__(self)
        if not 0 < self.lam < np.inf:
            raise ValueError(f"lam is above 0 and finite, not {self.lam}")

    @property
    def needs(self) -> frozenset[Functionality]:
        return frozenset({Functionality.GRAM_ORIGIN, Functionality.PERSONAL_SUMS})

    def round(self, state: State, view: PersonalGraphView, rng: np.random.Generator, /) -> State:
        """Local training from each client's model, the graph, and everybody's mean."""
        done = self.trained(state, view, rng)
        if done is None:
            return state.over()
        return self.mixed(state, view, done, rows_by_similarity(self.snapped(done.cosines), self.lam))
