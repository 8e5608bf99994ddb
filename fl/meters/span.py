"""The span meter: what part of an update's deviation lies along directions of which the server knows both vector and sketch.

With such pairs (v, S v) the server regresses the sketch of any update under the same key on them, and has the update's component
in their span. Counted as if a sketch had no error, so it is what a sketch of any length gives at most.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .account import Account, Instance
from .algebra import MEASURED, Matrix, null_space, row_basis
from .known import Key, keys_of, known_sums


@dataclass(frozen=True)
class Span:
    """pairs: known (vector, sketch) pairs, independent ones, over all keys. energy: of each watched update that was sketched,
    |B^T delta|^2 / |delta|^2, delta its deviation from the mean of the smallest published sum that it is in.

    missing: sketched updates of watched clients of which the account has no vector.
    """

    pairs: int
    energy: Mapping[Instance, float]
    missing: int = 0


def span(account: Account) -> Span:
    """The meter over the whole run, each update under the key that tells most of it."""
    keys = keys_of(account.sketched)
    sums = {name: known_sums(account, key) for name, key in keys.items()}
    under: dict[Instance, list[bytes]] = defaultdict(list)
    for name, key in keys.items():
        for instance in key.grounded:
            under[instance].append(name)
    energy: dict[Instance, float] = {}
    missing: set[Instance] = set()
    for name, key in keys.items():
        basis = row_basis(sums[name], MEASURED)
        others = sorted({other for i in key.grounded for other in under[i] if other != name and len(sums[other])})
        through = [_completed(account, key, keys[other], sums[other]) for other in others]
        for instance in sorted(i for i in key.grounded if i[2] in account.watched):
            delta = account.deviation(instance)
            if delta is None:
                missing.add(instance)
                continue
            told = share(delta, basis, account)
            if through:
                told = max(told, _completed_share(delta, sums[name], through))
            energy[instance] = max(told, energy.get(instance, 0.0))
    return Span(sum(map(len, sums.values())), energy, len(missing))


def share(delta: Matrix, basis: Matrix, account: Account) -> float:
    """|B delta|^2 / |delta|^2; of sketched vectors without what rows of noise in so few dimensions would have."""
    if not len(basis) or not (whole := float(delta @ delta)):
        return 0.0
    found = min(1.0, float(np.square(basis @ delta).sum()) / whole)
    by_chance = len(basis) / account.width if account.width < account.d else 0.0
    return found if by_chance >= 1 else max(0.0, (found - by_chance) / (1 - by_chance))


def _completed(account: Account, key: Key, other: Key, known: Matrix) -> tuple[Matrix, Matrix]:
    """The sums that are known under the other key, and what of them updates under this key have known products with.

    S are the combinations known under both keys. Products of x with a sum m, K_xm, are not known but for K_xS K_SS^+ K_Sm: those
    of x with the part of m in the span of S. Where not all clients are watched, S is not known, and m counts in full.
    """
    shared = sorted(key.grounded.keys() & other.grounded.keys())
    floating = [part.instances for k in (key, other) for part in k.parts if not part.grounded]
    totals = np.array([[instance in part for instance in shared] for part in floating], np.float64)
    free = null_space(totals.reshape(len(floating), len(shared)) / np.sqrt(len(shared)))
    vectors = [account.blocks[i[:2]].updates.get(i[2]) if i[:2] in account.blocks else None for i in shared]
    if account.others or any(v is None for v in vectors):
        return known, known
    common = row_basis(free.T @ np.array(vectors, np.float64), MEASURED)
    return known, known @ common.T @ common


def _completed_share(delta: Matrix, direct: Matrix, through: list[tuple[Matrix, Matrix]]) -> float:
    """The share of |delta|^2 that an estimate of it takes off: the point in the span of all these sums with products as known."""
    rows = np.concatenate([direct, *(sums for sums, _ in through)])
    seen = np.concatenate([direct, *(part for _, part in through)])
    norms = np.linalg.norm(rows, axis=1)
    rows, seen = rows[norms > 0] / norms[norms > 0, None], seen[norms > 0] / norms[norms > 0, None]
    estimate = np.linalg.pinv(rows @ rows.T, rcond=MEASURED, hermitian=True) @ (seen @ delta) @ rows
    whole = float(delta @ delta)
    return max(0.0, float(2 * estimate @ delta - estimate @ estimate) / whole) if whole else 0.0
