"""What distances alone tell the server: those between the rows of clouds, and those between clients.

Adversary: the server alone. A fresh projection for every pair does not protect: each gives the same distances with fresh error,
so what a client is compared with many others for shows its distances the better. Where clients measure (`Distances`), the server
has two numbers a pair; they name clients that have one kind of data, as kinds of public data are as far apart.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .naming import alike, distances_of
from .projection_known import Labels, Matrix, Rows

Distance = Callable[[Rows, Rows], float]


def averaged(clouds: Sequence[Rows]) -> Matrix:
    """Distances between a client's embeddings, float64 (n, n), from its clouds for several pairs, float (n, p) each.

    Side information: none. The error falls with the square root of the number of clouds.
    """
    squares = [distances_of(cloud.astype(np.float64)) ** 2 for cloud in clouds]
    return np.asarray(np.sqrt(np.mean(squares, axis=0)))


def stacked(clouds: Sequence[Rows], coordinates: int) -> Matrix:
    """A cloud float64 (n, coordinates), or fewer, with the mean of the inner products of several: one to attack instead of all.

    Under independent projections it is the cloud of one with as many times the columns, of which there are that many at most.
    """
    whole = np.concatenate([cloud.astype(np.float64) for cloud in clouds], axis=1) / np.sqrt(len(clouds))
    left, sizes, _ = np.linalg.svd(whole, full_matrices=False)
    return np.asarray((left * sizes)[:, :coordinates])


def between_kinds(samples: Mapping[int, Sequence[Rows]], distance: Distance) -> tuple[Labels, Matrix]:
    """Kinds, int64 (m,), and distances between samples of public embeddings of each, float64 (m, m).

    samples: by kind, two samples of the size that clients have: on the diagonal is the distance of the two.
    """
    kinds = sorted(samples)
    found = [[distance(samples[a][0], samples[b][1]) for b in kinds] for a in kinds]
    return np.array(kinds), np.array(found)


def named_clients(
    told: Mapping[tuple[int, int], tuple[float, float]],
    kinds: Labels,
    between: Matrix,
    rng: np.random.Generator,
) -> dict[int, int]:
    """The kind of data of every client, from what clients told the server: (distance, reference) by (client, other).

    Side information: distances between kinds of public data under the public embedding, see `between_kinds`.
    """
    clients = sorted({i for pair in told for i in pair})
    place = {client: k for k, client in enumerate(clients)}
    seen: NDArray[np.float64] = np.zeros((len(clients), len(clients)))
    for (client, other), (found, _) in told.items():
        seen[place[client], place[other]] = found
    return {i: int(kinds[k]) for i, k in zip(clients, alike(seen, between, rng), strict=True)}
