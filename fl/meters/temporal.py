"""The temporal meter: how well the server can estimate what a client does in every round.

One product of an update with the published mean a round is little; deviations persist, so that products of many rounds add up.
A ridge regression of them on the means is the estimate; 0 where no product is known.
"""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from .account import Account
from .algebra import Matrix
from .known import keys_of


def temporal(account: Account, rho: float) -> Mapping[int, float]:
    """cos^2(u_i, mean of d_i^t) of every watched client that was sketched, u_i = B^T (B B^T + lambda I)^-1 c_i.

    Rows of B are b_t = m_t / |m_t|, over rounds t in which the product of the update with the mean m_t is known,
    c_it = <d_i^t, b_t> and d_i^t is the deviation from m_t. rho: correlation of a client's deviations between rounds; the ridge
    is lambda = (1 - rho) / rho.
    """
    rows: dict[int, list[tuple[Matrix, Matrix]]] = defaultdict(list)
    seen: set[int] = set()
    done: set[tuple[int, str, int]] = set()
    for key in keys_of(account.sketched).values():
        for instance in sorted(key.grounded):
            made, client = instance[:2], instance[2]
            if client not in account.watched or instance in done:
                continue
            seen.add(client)
            block, delta = account.blocks.get(made), account.deviation(instance)
            if block is None or delta is None or (k := block.smallest(client)) is None or not np.any(block.sums[k]):
                continue
            if key.knows(made, block, block.rows[k]):
                done.add(instance)
                sign = np.sign(block.rows[k].sum())
                rows[client].append((sign * block.sums[k] / np.linalg.norm(block.sums[k]), delta))
    return {i: _aligned(rows[i], (1 - rho) / rho) if i in rows else 0.0 for i in sorted(seen)}


def _aligned(rows: list[tuple[Matrix, Matrix]], ridge: float) -> float:
    means, deviations = (np.array(column) for column in zip(*rows, strict=True))
    products = np.einsum("td,td->t", means, deviations)
    estimate = means.T @ np.linalg.solve(means @ means.T + ridge * np.eye(len(means)), products)
    truth = deviations.mean(axis=0)
    scale = float(np.linalg.norm(estimate) * np.linalg.norm(truth))
    return float(estimate @ truth / scale) ** 2 if scale else 0.0
