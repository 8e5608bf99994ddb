"""A trained distinguisher: can classifiers tell real views of a party from simulated ones?

Classifiers are trained on one half of the views and judged on the other by the area under the ROC curve (AUC), with DeLong's
interval (DeLong, DeLong, Clarke-Pearson 1988, by midranks as in Sun and Xu 2014). Views that are equally distributed have
an AUC of 0.5 whatever the classifier. All classifiers of a verdict share one confidence, so that a verdict on equally
distributed views is wrong with probability 1 - CONFIDENCE at most, about 1e-4; all seeds are fixed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, rankdata
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

CONFIDENCE = 1 - 1e-4

CLASSIFIERS = {
    "logistic": lambda seed: make_pipeline(StandardScaler(), LogisticRegression(C=0.05, max_iter=300)),
    "trees": lambda seed: ExtraTreesClassifier(40, min_samples_leaf=8, random_state=seed),
    "boosting": lambda seed: HistGradientBoostingClassifier(
        max_iter=30, max_leaf_nodes=8, early_stopping=False, random_state=seed
    ),
}
"""Linear in the features; and two that find products of them."""


@dataclass(frozen=True, slots=True)
class Auc:
    """The area under a ROC curve and its interval."""

    area: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the classifiers found, by name; their intervals hold together with the confidence of the verdict."""

    of: dict[str, Auc]
    tested: int

    @property
    def blind(self) -> bool:
        """Whether 0.5 lies within every interval."""
        return all(auc.low <= 0.5 <= auc.high for auc in self.of.values())

    @property
    def told_apart(self) -> bool:
        """Whether some classifier's whole interval lies above 0.6."""
        return any(auc.low > 0.6 for auc in self.of.values())

    @property
    def best(self) -> float:
        return max(auc.area for auc in self.of.values())

    @property
    def detectable(self) -> float:
        """The least AUC at which a classifier's interval excludes 0.5 in nine of ten trials, near 0.5."""
        half = self.tested / 2
        deviation = math.sqrt((self.tested + 1) / (12 * half * half))
        return 0.5 + deviation * (_quantile(CONFIDENCE, len(self.of)) + norm.ppf(0.9))

    def __str__(self) -> str:
        return ", ".join(f"{name} {auc.area:.3f} in [{auc.low:.3f}, {auc.high:.3f}]" for name, auc in self.of.items())


def _quantile(confidence: float, intervals: int) -> float:
    """The half-width, in deviations, of each of several intervals that hold together (Bonferroni)."""
    return float(norm.isf((1 - confidence) / 2 / intervals))


def auc_interval(ones: np.ndarray, zeros: np.ndarray, confidence: float) -> Auc:
    """P[a score of `ones` > one of `zeros`], ties half, with DeLong's interval. Scores: float (n,) and (m,)."""
    n, m = len(ones), len(zeros)
    ranks = rankdata(np.concatenate([ones, zeros]))
    above = (ranks[:n] - rankdata(ones)) / m  # per score of ones: the share of zeros below it
    below = 1 - (ranks[n:] - rankdata(zeros)) / n
    area = float(above.mean())
    deviation = math.sqrt(above.var(ddof=1) / n + below.var(ddof=1) / m)
    reach = float(norm.isf((1 - confidence) / 2)) * deviation
    return Auc(area, area - reach, area + reach)


def bootstrap_interval(ones: np.ndarray, zeros: np.ndarray, confidence: float, rng: np.random.Generator, draws: int) -> Auc:
    """The same by resampling, percentiles: slower, and what DeLong's is checked against."""
    areas = [auc_interval(rng.choice(ones, len(ones)), rng.choice(zeros, len(zeros)), 0.5).area for _ in range(draws)]
    low, high = np.quantile(areas, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Auc(auc_interval(ones, zeros, confidence).area, float(low), float(high))


def distinguish(
    real: Sequence[object] | np.ndarray,
    simulated: Sequence[object] | np.ndarray,
    features: Callable[[object], np.ndarray] | None = None,
    *,
    seed: int = 0,
    classifiers: Sequence[str] = tuple(CLASSIFIERS),
) -> Verdict:
    """Train on a random half of the views of either kind, judge on the other.

    real, simulated: independent views, (views, features) float; or anything, with `features` of one view -> float (features,).
    """
    sides = [np.stack([features(v) for v in side]) if features else np.asarray(side, float) for side in (real, simulated)]
    if not all(np.isfinite(side).all() for side in sides):
        raise ValueError("features are finite numbers")
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(side)) for side in sides]
    cuts = [np.split(side[order], [len(side) // 2]) for side, order in zip(sides, orders, strict=True)]
    train, test = (np.concatenate([cut[half] for cut in cuts]) for half in (0, 1))
    label, truth = (np.repeat([1, 0], [len(cut[half]) for cut in cuts]) for half in (0, 1))
    level = 1 - (1 - CONFIDENCE) / len(classifiers)
    found = {}
    for name in classifiers:
        scores = CLASSIFIERS[name](seed).fit(train, label).predict_proba(test)[:, 1]
        found[name] = auc_interval(scores[truth == 1], scores[truth == 0], level)
    return Verdict(found, len(test))


# --- features of what a party sees ----------------------------------------------------------------------------------------


def of_words(words: np.ndarray, bits: int) -> np.ndarray:
    """Ring elements as a classifier can use them: uint (views, words) to float (views, 4 words), each within [-1, 1].

    Size around 0 modulo the ring, cosine and sine of its angle (characters of the group: additive structure), lowest four bits.
    """
    centred = words.astype(np.uint64).view(np.int64) if bits == 64 else words.astype(np.uint32).view(np.int32)
    turns = centred.astype(np.float64) / 2.0 ** (bits - 1)
    low = (words & words.dtype.type(15)).astype(np.float64) / 15
    return np.concatenate([np.abs(turns), np.cos(np.pi * turns), np.sin(np.pi * turns), low], axis=1)


def of_bytes(data: bytes) -> np.ndarray:
    """Moments of a byte string: mean, deviation, share of zero bytes, share of set bits, correlation of neighbours, of a stride.

    float (10,), each near 0 for random bytes, in units of its deviation there.
    """
    octets = np.frombuffer(data, np.uint8).astype(np.float64)
    n = len(octets)
    centred = (octets - 127.5) / math.sqrt((256**2 - 1) / 12)
    bits = np.unpackbits(np.frombuffer(data, np.uint8)).reshape(-1, 8).mean(axis=0) - 0.5
    lags = [float(centred[lag:] @ centred[:-lag]) / math.sqrt(n - lag) if n > lag else 0.0 for lag in (1, 4)]
    moments = [
        centred.sum() / math.sqrt(n),
        ((centred**2).sum() - n) / math.sqrt(0.8 * n),
        ((octets == 0).sum() - n / 256) / math.sqrt(n / 256),
        *lags,
        2 * math.sqrt(n) * bits[0],
        2 * math.sqrt(n) * bits[7],
        2 * math.sqrt(8 * n) * bits.mean(),
    ]
    return np.array([*moments, float(octets.min()) / 255, float(octets.max()) / 255])


def of_matrix(view: np.ndarray, whitening: np.ndarray) -> np.ndarray:
    """Moments of a real-valued view (n, k) and of its whitened form (rank, k) = whitening @ view.

    Raw and whitened entries; per row: log of the mean square, kurtosis, largest and sorted magnitudes; products of rows; lags.
    """
    white = whitening @ view
    k = white.shape[1]
    squares = (white**2).mean(axis=1)
    sorted_white = np.sort(np.abs(white), axis=1)
    products = (white @ white.T / k)[np.triu_indices(len(white), 1)]
    lags = (white[:, 1:] * white[:, :-1]).mean(axis=1)
    return np.concatenate(
        [
            view.ravel(),
            white.ravel(),
            np.log(squares + 1e-12),
            (white**4).mean(axis=1) / (squares**2 + 1e-12),
            sorted_white.ravel(),
            products,
            lags,
            white.mean(axis=0),
        ]
    )
