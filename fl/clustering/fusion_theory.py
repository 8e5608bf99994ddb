"""What FPFC's convergence rests on: the conditions of Theorem 1 (Yu, Liu, Sun, Wang, AAAI 2023), each held against a run.

The theorem is of the smoothed SCAD penalty and of full gradients. L_f is a Lipschitz constant of all gradients of f_i, L_- one
with Hessians >= -L_- I; where they are not known, neither is what needs them. The settings that its authors publish break it:
rho = 1, and 2 lambda / xi = 1200.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, log

import numpy as np
import torch
from torch import nn

from ..clients.stacked import linear_layers
from ..clients.training import Training
from ..data.population import Examples
from .fusion import Penalty, Scad


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a theorem. words: what has to be, with the run's numbers, be it so or not. holds: None where that is
    not known.
    """

    words: str
    holds: bool | None


def theorem_1(
    penalty: Penalty, rho: float, training: Training, sizes: Sequence[int], smoothness: float | None, weak: float = 0.0
) -> list[Condition]:
    """Theorem 1's conditions. sizes: n_i of all clients; empty where clients alone know theirs, and L_f with them. smoothness:
    L_f, or None. weak: L_-, where L_f is known.
    """
    plain = not training.momentum and not training.weight_decay and training.plain
    full = training.batch >= max(sizes) if sizes else None
    of = f"at most {max(sizes)} examples" if sizes else "all of a client's examples, how many these are it alone knows"
    found = [Condition("the step has to be the same in all rounds", False)] if training.lr_decay < 1 else []
    found += [
        Condition(f"every step has to be by the full gradient of {of}, without momentum or decay", full if plain else False)
    ]
    if not isinstance(penalty, Scad) or penalty.xi == 0:
        return [*found, Condition("the penalty has to be SCAD, smoothed by some xi above 0", False)]
    bound = 2 * penalty.lam / penalty.xi
    found += [
        Condition(f"rho = {rho:g} has to be above 2 lambda / xi = {bound:g}", rho > bound),
        Condition(f"rho = {rho:g} has to be above 2 / (a - 1) = {2 / (penalty.a - 1):.3g}", rho > 2 / (penalty.a - 1)),
    ]
    alpha, steps = training.lr, training.epochs * ceil(min(sizes) / training.batch) if sizes else 0
    if smoothness is None or not sizes:
        known = None if alpha * 2 * rho <= 1 else False  # L_- is at most L_f, so that 1 / (2 rho) is the most that there can be
        short = Condition(f"the step {alpha:g} has to be at most 1 / (L_f + 2 rho - L_-), at most {1 / (2 * rho):.3g}", known)
        return [
            *found,
            short,
            Condition(
                f"T{f' = {steps}' if steps else ''} steps and rho have to be large enough for L_f, which is not known", None
            ),
        ]
    most = 1 / (smoothness + 2 * rho - weak)
    least, bound = _least_steps(rho, alpha, steps, smoothness, weak)
    step = f"the step {alpha:g} has to be at most 1 / (L_f + 2 rho - L_-) = {most:.3g}, with L_f = {smoothness:.3g}"
    return [
        *found,
        Condition(f"rho = {rho:g} has to be above L_- = {weak:.3g}", rho > weak),
        Condition(step, alpha <= most),
        Condition(f"T = {steps} steps have to be more than -2 log 2 / log c = {least:.3g}", steps > least),
        Condition(f"rho = {rho:g} has to be above L_f / (1 - 2 c^(T/2)) = {bound:.3g}", rho > bound),
    ]


def _least_steps(rho: float, alpha: float, steps: int, smoothness: float, weak: float) -> tuple[float, float]:
    """-2 log 2 / log c and L_f / (1 - 2 c^(T/2)), infinite where c is not in (0, 1) or T is too small for it."""
    mu = rho - weak
    if mu <= 0:
        return inf, inf
    c = 1 - alpha * 2 * mu * (smoothness + rho) / (smoothness + rho + mu)
    if not c < 1:
        return inf, inf
    if c <= 0:
        return 0.0, smoothness
    rest = 1 - 2 * c ** (steps / 2)
    return -2 * log(2) / log(c), smoothness / rest if rest > 0 else inf


def smoothness_of(module: nn.Module, data: Sequence[Examples]) -> float | None:
    """A Lipschitz constant of the gradients of all clients' mean losses, for a softmax regression; None for any other model, and
    where a client has no examples, or some that are not finite.

    Half of the largest eigenvalue of the second moment of (x, 1): the softmax's own Hessian is at most 1/2 (Boehning 1992).
    Softmax regression is convex, so that any L_- will do.
    """
    layers = linear_layers(module)
    if layers is None or len(layers) != 1:
        return None
    most = 0.0
    for examples in data:
        if len(examples) == 0 or not bool(torch.isfinite(examples.x).all()):
            return None
        x = examples.x.flatten(1).to(torch.float64).numpy()
        if layers[0].bias is not None:
            x = np.hstack([x, np.ones((len(x), 1))])
        most = max(most, float(np.linalg.eigvalsh(x.T @ x / len(x))[-1]))
    return most / 2
