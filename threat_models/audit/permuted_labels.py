"""Labels of clients whose uploads are under one secret permutation, by updates that the attacker makes up."""

import numpy as np

from ...crypto.orthonormal import Permutation, SignedPermutation
from ...protocol.core.session import SERVER
from ...protocol.uploaded.permuted import Permuted
from ..inference.permutation_labels import Known, permuted_labels
from .made_up import made_up
from .reading import uploads
from .sketch_reading import seed_of
from .truth import Matrix, Truth
from .view import CorruptView

ROUNDS = 3
"""First rounds of a run that are looked at, at most; of a permutation for every session the first alone."""


def read_permuted(
    view: CorruptView, clients: tuple[int, ...], known: Truth, count: int, rng: np.random.Generator
) -> Matrix | None:
    """Label shares of these clients, float64 (clients, classes); None where there is nothing to read, or a better way.

    known: of a run of the attacker's own, for the sizes of its clients. count: how many clients are made up.
    """
    how = view.public.protection
    if not isinstance(how, Permuted) or SERVER not in view.observer.servers or seed_of(view):
        return None
    if how.transform not in (Permutation, SignedPermutation):
        return None
    came, rounds = uploads(view), 0
    while rounds < min(ROUNDS if how.keys == "run" else 1, view.public.rounds):
        of = [came.get((rounds, "update", i)) for i in clients]
        if None in of or (how.keys != "run" and len({u.session for u in of if u}) > 1):
            break
        rounds += 1
    if rounds == 0:
        return None
    sizes = [len(c.train) for c in known.population.clients.values()]
    made = made_up(view.public, sizes, count, rng, rounds)
    vectors = np.stack([[came[t, "update", i].vector for i in clients] for t in range(rounds)])
    samples = np.array([came[0, "update", i].samples for i in clients], np.float64)
    if vectors.shape[2] != made.updates.shape[2]:
        return None
    of_made = Known(made.updates, made.histograms, made.samples)
    return permuted_labels(vectors, samples, of_made, how.transform is SignedPermutation)
