"""What Gaussian noise costs, exactly: mu-GDP, and sums of discrete Gaussians as what a Gaussian could have been turned into.

A Gaussian whose standard deviation is 1 / mu sensitivities is mu-GDP, and releases that are mu_1-, mu_2-, ... GDP are together
sqrt(mu_1^2 + mu_2^2 + ...)-GDP, also where later ones depend on earlier ones (Dong, Roth, Su 2022). Nothing is lost on the way
from there to epsilon and delta (Balle, Wang 2018), where Renyi divergences, and zCDP, lose a tenth.
"""

import math
from functools import lru_cache

import attrs
import dp_accounting
from dp_accounting import dp_event
from scipy.special import erfcx

ROOM = 1e-12
"""What smoothing may add to the pointwise log ratio of a whole vector."""


def gaussian_delta(mu: float, epsilon: float) -> float:
    """delta at epsilon of a mu-GDP release, a hair above rather than below (Balle and Wang 2018, theorem 8).

    Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) = phi(x) (M(x) - M(x + mu)) with x = eps/mu - mu/2 and Mills' ratio M.
    """
    x = epsilon / mu - mu / 2
    if x < -30:
        return 1.0
    near, far = (math.sqrt(math.pi / 2) * float(erfcx(t / math.sqrt(2))) for t in (x, x + mu))
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return min(1.0, density * (near - far + 4e-16 * near) * (1 + 1e-10))


@lru_cache(maxsize=4096)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon at which a mu-GDP release is (epsilon, delta)-differentially private, at most 1e-9 of it above."""
    if mu <= 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if delta <= 0 or not math.isfinite(mu):
        return math.inf
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(mu, middle) > delta else (low, middle)
    return high


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose epsilon at delta is at most this one: noise of deviation sensitivity / mu is just enough."""
    low, high = 0.0, 1.0
    while gaussian_delta(high, epsilon) <= delta:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, epsilon) <= delta else (low, middle)
    return low


@attrs.frozen
class SummedDiscreteGaussians(dp_event.DpEvent):  # type: ignore[misc]
    """Publishing an integer vector plus the sum of `honest` independent discrete Gaussians of this variance on each coordinate.

    honest: clients that survive and add their noise as they should; noise of others counts for nothing. dimension: of the
    vector. l2, l1: sensitivities in the integer grid, after rounding (`rounded_l2`); l1 is at most min(sqrt(dimension) l2, l2^2).

    Two bounds hold, and the smaller one counts. `zcdp` is Kairouz, Liu and Steinke's. `gaussian` is exact up to `ROOM`:

    - The sum is as one discrete Gaussian of variance V = n s^2 up to a factor e^(+-tau/2) at every point and coordinate
      (the convolution bound behind their Proposition 14; tau is `closeness`).
    - Draw y from the Gaussian of variance V - r^2 about the integer v, and round it to the integer k with weight
      exp(-(k - y)^2 / 2 r^2). The weights add up to r sqrt(2 pi) (1 + e), |e| <= 2.1 exp(-2 pi^2 r^2), by Poisson summation; so
      k is distributed as a discrete Gaussian of variance V about v up to that factor (Peikert 2010, theorem 3.1). The rounding
      does not know v: it is what anybody could do to the Gaussian.
    """

    variance: float
    honest: int
    dimension: int
    l2: float
    l1: float | None = None

    def __attrs_post_init__(self) -> None:
        if self.honest < 1 or self.dimension < 1 or self.l2 <= 0:
            raise ValueError("noise needs at least one honest client, one dimension and a sensitivity above 0")
        if self.variance < 0.25:
            raise ValueError(f"the bound holds for a variance of at least 1/4, not {self.variance}; scale the values up")

    @property
    def gaussian(self) -> tuple[float, float]:
        """(mu, xi): the log ratio of the densities of two neighbours is that of mu-GDP up to xi; mu is infinite where V is small.

        So delta(epsilon) <= e^(xi/2) delta_mu(epsilon - xi), and of several such releases mu^2 and xi add up.
        """
        smoothing = math.log(16 * self.dimension / ROOM) / (2 * math.pi**2)  # r^2
        left = self.honest * self.variance - smoothing
        xi = self.dimension * closeness(self.variance, self.honest) + ROOM
        return (self.l2 / math.sqrt(left) if left > 0 else math.inf), xi

    @property
    def zcdp(self) -> dp_accounting.DpEvent:
        """(xi, rho)-zCDP by Kairouz, Liu and Steinke 2021, Proposition 14.

        For the sum Z of n vectors of discrete Gaussians of parameter s^2 >= 1/4 and integer shifts v, for all a >= 1,

            D_a(Z || Z + v) <= min { a |v|_2^2 / (2 n s^2) + tau d,
                                     a/2 (|v|_2^2 / (n s^2) + 2 |v|_1 tau / (sqrt(n) s) + tau^2 d),
                                     a/2 (|v|_2 / (sqrt(n) s) + tau sqrt(d))^2 },

        with tau from `closeness`. All three are (xi, rho)-zCDP; the one that is least at order 10 is taken. One summand is a
        discrete Gaussian itself (tau = 0), with rho = l2^2 / 2 s^2 exactly as for the continuous one (Canonne et al. 2020).
        """
        d, root = self.dimension, math.sqrt(self.honest * self.variance)
        tau, scale = closeness(self.variance, self.honest), self.l2 / root
        l1_scale = min(math.sqrt(d) * self.l2, self.l2**2, math.inf if self.l1 is None else self.l1) / root
        bounds = (
            (scale**2 / 2, tau * d),
            ((scale**2 + 2 * l1_scale * tau + tau**2 * d) / 2, 0.0),
            ((scale + tau * math.sqrt(d)) ** 2 / 2, 0.0),
        )
        rho, xi = min(bounds, key=lambda bound: 10 * bound[0] + bound[1])
        return dp_accounting.ZCDpEvent(rho=rho, xi=xi)


def closeness(variance: float, clients: int) -> float:
    """tau of Kairouz, Liu and Steinke 2021: how far the sum of `clients` discrete Gaussians is from one discrete Gaussian.

    tau = 10 sum_{k=1}^{n-1} exp(-2 pi^2 variance k / (k + 1)), for the variance of each and variance >= 1/4 (Proposition 14).
    """
    return 10 * math.fsum(math.exp(-2 * math.pi**2 * variance * k / (k + 1)) for k in range(1, clients))


def rounded_l2(l2: float, dimension: int, beta: float) -> float:
    """L2 bound, in the grid, of a vector of L2 norm `l2` in the grid after conditional stochastic rounding with parameter beta.

    min { l2 + sqrt(d), sqrt(l2^2 + d/4 + sqrt(2 ln(1/beta)) (l2 + sqrt(d) / 2)) } (Kairouz, Liu and Steinke 2021, Theorem 1
    with the grid as unit). Clients repeat the rounding until the bound holds; beta = exp(-1/2) is the paper's choice.
    """
    if not 0 < beta < 1:
        raise ValueError(f"beta lies between 0 and 1, not {beta}")
    root = math.sqrt(dimension)
    return min(l2 + root, math.sqrt(l2**2 + dimension / 4 + math.sqrt(2 * math.log(1 / beta)) * (l2 + root / 2)))
