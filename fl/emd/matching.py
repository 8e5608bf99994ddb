"""Potentials and couplings of a cost matrix, quickly: a few Sinkhorn iterations, a c-transform, a matching.

Costs are float32, shape (n, m); weights are 1/n and 1/m.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Costs32 = NDArray[np.float32]
Vector32 = NDArray[np.float32]

DEEPEST = 40.0
"""Costs above this many regularisations above a row's least count as that many, so that float32 neither over- nor underflows."""


def potentials(costs: Costs32, regularisation: float, iterations: int) -> Vector32:
    """Sinkhorn's potentials of the rows after a few iterations (Cuturi 2013): float32 (n,), any values, no guarantee."""
    least = costs.min(axis=1, keepdims=True)
    kernel = costs - least
    kernel *= np.float32(-1 / regularisation)
    np.exp(np.maximum(kernel, np.float32(-DEEPEST), out=kernel), out=kernel)
    columns = np.ones(costs.shape[1], dtype=np.float32)
    rows = np.ones(costs.shape[0], dtype=np.float32)
    for _ in range(iterations):
        rows = 1 / (kernel @ columns)
        columns = 1 / (rows @ kernel)
        columns /= columns.max()
    logarithms: Any = np.log(rows)
    return np.asarray(least[:, 0] + np.float32(regularisation) * logarithms, dtype=np.float32)


def dual_bound(costs: Costs32, rows: Vector32) -> tuple[float, Costs32]:
    """A lower bound of the transport by the c-transforms of any potentials, and the reduced costs, which are not negative.

    Feasible duals u_i + v_j <= c_ij give mean u + mean v <= the distance: v_j = min_i c_ij - rows_i, then
    u_i = min_j c_ij - v_j, which is at least rows_i.
    """
    reduced = costs - rows[:, None]
    columns = reduced.min(axis=0)
    reduced -= columns
    gain = reduced.min(axis=1)
    reduced -= gain[:, None]
    return sum(float(part.mean(dtype=np.float64)) for part in (rows, columns, gain)), reduced


def matched(costs: Costs32, reduced: Costs32) -> float:
    """Mean cost of a matching of n = m rows and columns that is good where reduced costs are small.

    Every column asks for the row of its least reduced cost and every row takes the best who asks; those left over are
    assigned at the least reduced cost.
    """
    n = len(reduced)
    wanted = reduced.argmin(axis=0)
    price = reduced[wanted, np.arange(n)]
    order = np.argsort(-price, kind="stable")
    taker = np.full(n, -1)
    taker[wanted[order]] = order  # the last to write is the cheapest
    rows = np.flatnonzero(taker >= 0)
    columns = taker[rows]
    free_rows = np.flatnonzero(taker < 0)
    free = np.ones(n, dtype=bool)
    free[columns] = False
    free_columns = np.flatnonzero(free)
    total = float(costs[rows, columns].sum(dtype=np.float64))
    if len(free_rows):
        from scipy.optimize import linear_sum_assignment  # here, as most runs do without

        row, column = linear_sum_assignment(reduced[np.ix_(free_rows, free_columns)])
        total += float(costs[free_rows[row], free_columns[column]].sum(dtype=np.float64))
    return total / n


def rounded(costs: Costs32, reduced: Costs32, regularisation: float) -> float:
    """Cost of the plan exp(-reduced / regularisation) made feasible (Altschuler et al. 2017, algorithm 2), in float64."""
    n, m = costs.shape
    plan = np.exp(reduced.astype(np.float64) / -regularisation)
    plan *= (1 / n / plan.sum(axis=1))[:, None]  # every row has a reduced cost of about 0, so its sum is about 1 or more
    plan *= np.minimum(1.0, 1 / m / np.maximum(plan.sum(axis=0), 1e-300))
    missing_rows, missing_columns = 1 / n - plan.sum(axis=1), 1 / m - plan.sum(axis=0)
    missing_rows, missing_columns = np.maximum(missing_rows, 0.0), np.maximum(missing_columns, 0.0)
    missing = float(missing_rows.sum())
    total = float(np.vdot(plan, costs))
    return total + (float(missing_rows @ costs @ missing_columns) / missing if missing > 0 else 0.0)
