"""A picture of the distances of all pairs, by which the paper suggests to judge eps (EMD-CFL, figure 2)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from .calibration import Excess


def distance_figure(matrix: Excess, eps: float, clients: Sequence[int]) -> Figure:
    """Left: W - tau of every pair, blue below eps and red above it. Right: the larger of both sides' excesses in order, with eps.

    matrix: as of `calibration.excess`, in the order of `clients`; pairs that were not asked stay grey. Draw clients of one
    cluster side by side to see blocks.
    """
    if matrix.shape != (len(clients), len(clients)):
        raise ValueError(f"{len(clients)} clients need a matrix of that many rows and columns, not {matrix.shape}")
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    spread = max(float(np.nanmax(np.abs(matrix - eps))), 1e-12)
    low, high = min(float(np.nanmin(matrix)), eps - 0.05 * spread), max(float(np.nanmax(matrix)), eps + 0.05 * spread)
    left.set_facecolor("0.85")
    image = left.imshow(matrix, cmap="RdBu_r", norm=TwoSlopeNorm(eps, low, high), interpolation="nearest")
    figure.colorbar(image, ax=left, label=r"$W - \tau$")
    step = max(1, -(-len(clients) // 10))
    for axis in (left.xaxis, left.yaxis):
        axis.set_ticks(range(0, len(clients), step), [str(client) for client in clients[::step]])
    left.set(xlabel="whose data arrive", ylabel="client that compares", title="Excess distance of every pair")
    mutual = np.maximum(matrix, matrix.T)[np.triu_indices(len(matrix), 1)]
    mutual = np.sort(mutual[np.isfinite(mutual)])
    edges = int((mutual < eps).sum())
    right.plot(np.arange(edges), mutual[:edges], ".", color="#2166ac", label=f"{edges} joined")
    right.plot(np.arange(edges, len(mutual)), mutual[edges:], ".", color="#b2182b", label=f"{len(mutual) - edges} apart")
    right.axhline(eps, color="0.3", linewidth=1, linestyle="--", label=rf"$\epsilon$ = {eps:.3g}")
    right.set(xlabel="pairs in order", ylabel=r"larger $W - \tau$ of the two sides", title="Mutual excess against the tolerance")
    right.legend(frameon=False)
    return figure
