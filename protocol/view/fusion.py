"""Asks about models that are drawn together pair by pair: each client's last model, and what a penalty left of each difference.

In the words of FPFC (Yu, Liu, Sun, Wang, AAAI 2023, Algorithm 1): w_i, theta_ij and v_ij / rho, and what is made of them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .answers import BelowFloor, Remembered, Sum, Updates, Weights

Values = NDArray[np.float64]
Shrink = Callable[[Values], Values]
"""c of D = |delta|, so that the prox of delta is c delta: float64 (n,) to float64 (n,), from 0 to 1."""


class Fuses(Protocol):
    """Keeps the last model of every client, and one vector of every pair, and tells each client where its pairs pull it."""

    def fuse(
        self,
        updates: Updates,
        clients: Sequence[int],
        shrink: Shrink,
        earlier: Remembered | None = None,
        /,
        *,
        both: bool = False,
    ) -> Remembered:
        """Take these updates in, and do line 5 once for each pair with one of their clients in it; with two, if `both`.

        updates: of clients that began at models of their own (`Assignment.own`), all less one public model, the same in all
        rounds. clients: of the run's fusion, all there will be. earlier: what was fused before; it goes on in the new handle, and
        is gone. Raises Refused where updates of different rounds cannot be compared, where sums of these were published, and for
        other starts; ValueError for factors that are none.
        """
        ...

    def pulls(self, round: int, fused: Remembered, receivers: Sequence[int], /) -> Mapping[int, Sum | BelowFloor]:
        """For each receiver zeta_i = 1/m sum_j (w_j + theta_ij - v_ij / rho) (line 5, last), less the public model; it alone
        learns it. Left out is whose zeta_i is its own last model.

        Below the floor is what rests on fewer others' last models, or too much on one of them; so is what earlier models of
        others alone are in. That holds for each pull: what pulls of several rounds tell together is not counted. Raises Refused
        for a second one in a round.
        """
        ...

    def distances(self, round: int, fused: Remembered, /) -> Values:
        """|theta_ij|: float64 (m, m), in the ascending order of the clients; infinite where one of two has had no model yet."""
        ...

    def last_means(self, round: int, fused: Remembered, weights: Mapping[str, Weights], /) -> Mapping[str, Sum | BelowFloor]:
        """Publish weighted means of last models, less the public one, each to its members, or else to those that are in it.

        Raises Refused if together fewer than `floor` clients would show, and for clients that have had no model yet.
        """
        ...
