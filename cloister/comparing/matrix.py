"""The matrix by which a method grouped its clients: watched in a simulation, and drawn."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..fl.algorithms.algorithm import Measured
from ..fl.algorithms.emd_cfl import State as EmdState
from ..fl.runs.simulation import Simulation
from ..reporting.distances import shades
from ..reporting.matrices import VALUES_SHOWN
from ..reporting.matrix_picture import draw_matrix
from ..reporting.run_data import number

Values = NDArray[np.float64]


class Looked:
    """Keeps the last of the largest matrices that an algorithm looked at, as a watcher of a simulation."""

    def __init__(self) -> None:
        self._found: tuple[int, str, Values, Measured] | None = None
        self._distances: tuple[tuple[int, ...], Values, float | None] | None = None
        self._clusters: list[tuple[int, ...]] = []

    def __call__(self, simulation: Simulation, /) -> None:
        state = simulation.state
        for measured in state.measured.values():
            kind, matrix = "distance", measured.distances
            if matrix is None:
                kind, matrix = "cosine about the mean" if measured.centred else "cosine", measured.similarity
            if matrix is not None and (self._found is None or len(matrix) >= len(self._found[2])):
                self._found = state.round - 1, kind, matrix, measured
        if isinstance(state, EmdState):  # whose state keeps it
            self._distances = state.clients, state.matrix(), state.eps
        self._clusters = [tuple(c.members) for c in simulation.clusters.values()]

    def plain(self) -> dict[str, Any] | None:
        """As plain JSON values; None where the method looked at none. eps: up to which distances join."""
        clusters = [list(members) for members in self._clusters]
        if self._distances is not None:
            said = {"kind": "distance above the reference", "round": None, "clusters": clusters}
            return said | _plain(*self._distances)
        if self._found is None:
            return None
        round, kind, values, measured = self._found
        known = np.ones(values.shape, np.bool_) if measured.known is None else measured.known
        of = _plain(measured.clients, np.where(known, values, np.nan), measured.joins)
        return {"kind": kind, "round": round, "clusters": clusters} | of


def _plain(clients: tuple[int, ...], values: Values, eps: float | None) -> dict[str, Any]:
    rows = [[float(f"{v:.4g}") if math.isfinite(v) else None for v in line] for line in values.tolist()]
    return {"clients": list(clients), "values": rows, "eps": eps}


def drawn(matrix: Mapping[str, Any], groups: Mapping[str, int]) -> dict[str, Any]:
    """The picture, rows in the order of the clusters at the end, who is alone last, and within one of the planted groups.

    Blue: alike; orange: not. Distances are shaded about the one that joins, or, where none is said, about their median.
    """
    clients = [int(i) for i in matrix["clients"]]
    row = {i: r for r, i in enumerate(clients)}
    order, sizes = [], {}
    together = [members for members in matrix["clusters"] if len(members) > 1]
    home = {i: k for k, members in enumerate(together, 1) for i in members}
    for k in sorted({home.get(i, 0) for i in clients}, key=lambda k: (k == 0, k)):
        inside = sorted((i for i in clients if home.get(i, 0) == k), key=lambda i: (groups.get(str(i), 0), i))
        order += inside
        sizes[f"{k}" if k else "alone"] = len(inside)
    at = [row[i] for i in order]
    values = np.array([[number(v) for v in line] for line in matrix["values"]], dtype=np.float64)[np.ix_(at, at)]
    if str(matrix["kind"]).startswith("distance"):
        apart = ~np.eye(len(values), dtype=np.bool_) & np.isfinite(values)
        eps = number(matrix["eps"])
        eps = eps if math.isfinite(eps) else float(np.median(values[apart])) if apart.any() else 0.0
        shaded = shades(values, np.where(np.isfinite(values), values <= eps, np.nan), eps)
    else:
        shaded = values
    tints = {g: k for k, g in enumerate(sorted({groups.get(str(i), 0) for i in order}))}
    picture = draw_matrix(shaded, sizes, [tints[groups.get(str(i), 0)] for i in order])
    cells = [[None if math.isnan(v) else float(f"{v:.3g}") for v in line] for line in values.tolist()]
    shown = {"ids": [str(i) for i in order], "cells": cells} if len(order) <= VALUES_SHOWN else None
    return {"picture": picture, "sizes": sizes, "shown": shown}
