"""How near a guess came to the truth, which attacks never see: errors of embeddings, labels, images, and membership."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.floating[Any]]


def median_error(guess: Rows, truth: Rows) -> float:
    """The median over rows of |guess - truth| / |truth|; rows that are 0 in truth are left out."""
    lengths = np.linalg.norm(truth, axis=1)
    kept = lengths > 0
    return float(np.median(np.linalg.norm(guess[kept] - truth[kept], axis=1) / lengths[kept]))


def exact_share(guess: Rows, truth: Rows, within: float = 1e-3) -> float:
    """The share of rows with |guess - truth| <= within |truth|."""
    return float(np.mean(np.linalg.norm(guess - truth, axis=1) <= within * np.linalg.norm(truth, axis=1)))


def accuracy(guess: NDArray[np.int64], truth: NDArray[np.int64]) -> float:
    """The share of labels that are right."""
    return float(np.mean(guess == truth))


def psnr(guess: Rows, truth: Rows, peak: float = 1.0) -> float:
    """Peak signal-to-noise ratio in dB, of all rows together; infinite for equal ones."""
    squared = float(np.mean((guess.astype(np.float64) - truth) ** 2))
    return float("inf") if squared == 0 else 10 * float(np.log10(peak**2 / squared))


def total_variation(guess: Rows, truth: Rows) -> float:
    """Half the l1 distance of two distributions, mean over rows where there are several."""
    return float(np.mean(np.abs(guess - truth).sum(axis=-1) / 2))


@dataclass(frozen=True, slots=True)
class Told:
    """How well scores tell members from others. auc: ties counted half. tpr: share of members found where at most one in a
    hundred of the others is taken for one.
    """

    auc: float
    tpr: float


def told_apart(members: Rows, others: Rows) -> Told:
    """Of scores that are larger for members."""
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([members, others]))
    count = len(members)
    auc = (float(ranks[:count].sum()) - count * (count + 1) / 2) / (count * len(others))
    limit = np.quantile(others, 0.99, method="higher")
    return Told(auc, float(np.mean(members > limit)))
