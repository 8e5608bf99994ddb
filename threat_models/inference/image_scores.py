"""Scores of recovered images against the true ones, which no attack sees."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

Scores = NDArray[np.float64]


def psnr(guess: Tensor, truth: Tensor) -> Scores:
    """Peak signal-to-noise ratio of each guess with each true image, dB: float64 (guesses, images); inf where they are equal.

    guess: (g, ...), truth: (n, ...), floats of one shape, the true ones within [0, 1]. 10 log10(1 / mean squared error), reckoned
    in float64. A guess that is not finite has -inf.
    """
    found = guess.detach().double().flatten(1)[:, None, :] - truth.detach().double().flatten(1)[None, :, :]
    error = found.square().mean(dim=2).numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(np.isfinite(error), -10 * np.log10(error), -np.inf))


def matched_psnr(guess: Tensor, truth: Tensor) -> Scores:
    """For each true image the PSNR of the guess that it is matched with, dB: float64 (n,).

    No guess counts twice: the matching is the one with the least sum of squared errors. Where there are fewer guesses than
    images, a true image that none is left for has -inf.
    """
    ratios = psnr(guess, truth)
    found = np.full(len(truth), -np.inf)
    if ratios.size:
        rows, columns = linear_sum_assignment(np.minimum(10 ** (-ratios / 10), 1e6))
        found[columns] = ratios[rows, columns]
    return found


def exact_share(guess: Tensor, truth: Tensor, error: float = 1e-2) -> float:
    """Share of true images that some guess has up to a relative Euclidean error of `error`."""
    if not len(guess):
        return 0.0
    wide = truth.detach().double().flatten(1)
    apart = torch.cdist(guess.detach().double().flatten(1).nan_to_num(), wide)
    return float((apart.amin(dim=0) <= error * wide.norm(dim=1)).double().mean())
