"""Scores of membership guesses against the truth, which no attack sees."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, rankdata

Scores = NDArray[np.float64]
Membership = NDArray[np.bool_]


def auc(scores: Scores, member: Membership) -> float:
    """Probability that a member scores higher than a record that is none, ties counted half. Raises ValueError for one kind
    only.
    """
    count, others = sides(scores, member)
    return float((rankdata(scores)[member].sum() - count * (count + 1) / 2) / (count * others))


def tpr_at(scores: Scores, member: Membership, fpr: float) -> float:
    """Largest share of members above a threshold that at most a share `fpr` of the others is above; scores equal to it are
    below.
    """
    _, others = sides(scores, member)
    bar = np.sort(scores[~member])[::-1][min(int(np.floor(fpr * others)), others - 1)]
    return float((scores[member] > bar).mean())


def interval(share: float, of: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share of `of` independent trials."""
    hits, tail = round(share * of), (1 - level) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, of - hits + 1))
    high = 1.0 if hits == of else float(beta.ppf(1 - tail, hits + 1, of - hits))
    return low, high


def sides(scores: Scores, member: Membership) -> tuple[int, int]:
    """How many are members, and how many are not."""
    count = int(member.sum())
    if scores.shape != member.shape or count in (0, len(member)):
        raise ValueError("scores are judged against members and others, one truth for each score")
    return count, len(member) - count
