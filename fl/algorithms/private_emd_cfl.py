"""EMD-CFL by one release a client, with noise of a stated epsilon: a noisy mean of thumbnails, compared at a public tolerance.

After EMD-CFL (Zhang, Williams, Toni 2025), with the choice `MeanSketch` in place of clouds: two clients accept each other
where the noisy means of their public embeddings are near. The distance of two means is at most the earth mover's distance at
the Euclidean cost, so whom it parts that would part too; not all that the earth mover tells apart do means.

Formal guarantee: (epsilon, delta) for one record of a client, replaced by any other, for all that it releases to be compared: one
vector. tau is a function of public numbers, so it costs nothing; edges and clusters are computed from the vectors. Not covered:
that it takes part, its sample's size, and training, whose releases have no noise of this claim.
"""

from math import sqrt

from ...protocol.pairs.choices import MeanSketch
from ...protocol.pairs.noise import SLACK, one_release
from ..emd.distances import Euclidean, MeanDistance
from ..emd.judging import Share
from ..emd.subsample import Size
from ..models.thumbnails import Thumbnails
from .emd_cfl import EMDCFL


def private_emd_cfl(
    *,
    epsilon: float,
    delta: float,
    records: int,
    shape: tuple[int, ...],
    public: Thumbnails = Thumbnails(),
    deviations: float = 4.0,
    budget: float | None = None,
    acknowledge: tuple[str, ...] = (),
) -> EMDCFL:
    """EMD-CFL whose comparison costs a client epsilon at delta, for one record.

    records: N, how many of its records each client takes. shape: of inputs (channels, height, width). deviations: by how many of
    the noise's deviations two means of one distribution may be farther apart than expected. budget: of all that a client's ledger
    counts, None for epsilon alone. acknowledge: as in `Noise`, ("sums",) where training has no noise.

    The tolerance is of public numbers alone. Embeddings have length 1 and no negative coordinate, so replacing a record moves
    the mean by sqrt(2) / N, and each of p coordinates has noise of deviation sigma = multiplier * sqrt(2) / N. Noise puts two
    means tau = sqrt(2 p) sigma apart, with a deviation of sigma (of a chi distribution, p large), and sampling 2 / N in square at
    most: eps = sqrt(tau^2 + 2 / N) - tau + deviations * sigma. Clients of one group whose data differ otherwise, as by labels
    that are not equally frequent, are beyond it.
    """
    width = public.width(shape)
    noise = one_release(epsilon, delta, clip=1.0, coordinates=width, nonnegative=True, budget=budget, acknowledge=acknowledge)
    sigma = noise.multiplier * sqrt(2) * SLACK / records
    tau = sqrt(2 * width) * sigma
    tolerance = sqrt(tau**2 + 2 / records) - tau + deviations * sigma
    return EMDCFL(
        eps=Share(tolerance / tau),
        choice=MeanSketch(noise=noise, ratio=1.0),
        distance=MeanDistance(Euclidean()),
        size=Size(records),
        public=public,
    )
