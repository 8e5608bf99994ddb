"""CRFL (Xie et al. 2021): clip the model and blur it in every round, vote over blurred models at test time, and a certificate.

A wrapper about federated averaging rather than a rule: it acts on the model, whatever made it. Equations are the paper's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import erf, inf, log, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..field_ranges import need_above, need_least, need_whole
from .rows import Vector
from .rule import Sight


@dataclass(frozen=True, slots=True, kw_only=True)
class CRFL:
    """rho_0 + rate * t bounds the model's norm in round t = 1 .. T; sigma blurs it in training, sigma_test in the last round.

    It sees the model that a sum has made, and nothing of any client.
    """

    rho_0: float
    rate: float
    sigma: float
    sigma_test: float
    T: int
    sees: ClassVar[Sight] = Sight.SUM

    def __post_init__(self) -> None:
        need_above(self, 0, "rho_0", endless=True)
        need_above(self, 0, "sigma", "sigma_test")
        need_least(self, 0, "rate")
        need_whole(self, 1, "T")

    def rho(self, t: int) -> float:
        """The norm bound of round t, from 1."""
        return self.rho_0 + self.rate * t

    def after_round(self, model: Vector, t: int, rng: np.random.Generator) -> Vector:
        """The model, float32 (d,), clipped to rho(t), and blurred unless t = T (algorithm 1). The argument is not changed."""
        clipped = clip_model(model, self.rho(t))
        return clipped if t >= self.T else blurred(clipped, self.sigma, rng)

    def vote(
        self, model: Vector, predict: Callable[[Vector], NDArray[np.int64]], classes: int, M: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Votes of M blurred copies of the clipped model: int64 (examples, classes) (algorithm 2).

        predict: the labels, int64 (examples,), that a model gives. One copy exists at a time.
        """
        if not M > 0:
            raise ValueError(f"M must be above 0, not {M}")
        clipped = clip_model(model, self.rho(self.T))
        counts: NDArray[np.int64] | None = None
        for _ in range(M):
            hot = np.eye(classes, dtype=np.int64)[predict(blurred(clipped, self.sigma_test, rng))]
            counts = hot if counts is None else counts + hot
        return np.asarray(counts)

    def certified_radius(self, p_a: float, p_b: float, attack: "Exposure") -> float:
        """How far, in L2 over the backdoors of all examples, the attack may go without changing the vote: the paper's RAD.

        p_a, p_b: bounds on the chances of the first and second class (`bounds`). Formal guarantee, for federated averaging
        whose local steps are Lipschitz in the data with constant L_Z (multi-class logistic regression in the paper), against
        an attack in round t_adv alone. 0 where p_a <= p_b; infinite where the blur forgets all.
        """
        if not p_a > p_b:
            return 0.0
        contraction = 1.0
        for t in range(attack.t_adv + 1, self.T):
            contraction *= erf(self.rho(t) / self.sigma / sqrt(2))
        if attack.t_adv < self.T:
            contraction *= erf(self.rho(self.T) / self.sigma_test / sqrt(2))
        gap = (sqrt(p_a) - sqrt(p_b)) ** 2
        if gap >= 1 or contraction == 0:
            return inf
        sigma = self.sigma if attack.t_adv < self.T else self.sigma_test
        reach = 2 * attack.R * attack.L_Z**2 * attack.R * attack.moved_per_unit**2 * contraction
        return sqrt(-log(1 - gap) * sigma**2 / reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """An attack of R equal clients in round t_adv.

    p: their weight in the mean. gamma: how much they scale. tau: local steps. eta: local learning rate. q_share: poisoned
    share of a batch. L_Z: Lipschitz constant of the gradient in the data.
    """

    R: int
    t_adv: int
    p: float
    gamma: float
    tau: int
    eta: float
    q_share: float
    L_Z: float

    @property
    def moved_per_unit(self) -> float:
        """p gamma tau eta q_B / n_B: how much one attacker moves the mean for a backdoor of unit length, over L_Z."""
        return self.p * self.gamma * self.tau * self.eta * self.q_share


def bounds(votes: NDArray[np.int64], alpha: float) -> tuple[float, float]:
    """Bounds (p_a, p_b) on the chances of the first and second class from one example's votes, each wrong with chance alpha.

    Hoeffding's, as in the paper: p_a less and p_b more sqrt(log(1 / alpha) / (2 M)).
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is a chance of error between 0 and 1, not {alpha}")
    M = int(votes.sum())
    first, second = np.sort(votes)[::-1][:2] / M
    slack = sqrt(log(1 / alpha) / (2 * M))
    return max(0.0, float(first) - slack), min(1.0, float(second) + slack)


def clip_model(model: Vector, rho: float) -> Vector:
    """The model shortened to norm rho if it is longer, as a copy."""
    length = float(np.linalg.norm(model))
    return model * np.float32(min(1.0, rho / length)) if length > 0 else model.copy()


def blurred(model: Vector, sigma: float, rng: np.random.Generator) -> Vector:
    """The model plus N(0, sigma^2) on every coordinate."""
    return model + np.float32(sigma) * rng.standard_normal(len(model), dtype=np.float32)
