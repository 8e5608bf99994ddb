"""Attack A6: labels from what no permutation changes, learned on updates that the attacker made itself.

Sorted values, the share of zeros and the norms of an update depend on the client's labels. Whoever knows theta_0 and how clients
train makes shadow updates from public data with labels of its choice, and learns from them. Of values whose signs are flipped
magnitudes are left, and of a rotated update its norm.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Values = NDArray[np.float64]
ENDS, QUANTILES = 60, 200
Seen = Literal["values", "magnitudes", "norm"]


def features(uploads: Vectors, seen: Seen = "values") -> Values:
    """What is told of each update, float64 (n, features). uploads: float32 (n, d), permuted or in clear alike.

    seen: "values", lowest and highest ones, quantiles, share of zeros and norms; "magnitudes", the same without signs; "norm".
    """
    norm = np.linalg.norm(uploads.astype(np.float64), axis=1, keepdims=True)
    if seen == "norm":
        return np.hstack([norm, np.square(norm), np.log(norm + 1e-30)])
    ordered = np.sort((np.abs(uploads) if seen == "magnitudes" else uploads).astype(np.float64), axis=1)
    ends = min(ENDS, ordered.shape[1] // 2)
    quantiles = np.quantile(ordered, np.linspace(0, 1, QUANTILES), axis=1).T
    zeros = (uploads == 0).mean(axis=1, keepdims=True)
    size = np.abs(ordered).sum(axis=1, keepdims=True)
    found: Values = np.hstack([ordered[:, :ends], ordered[:, -ends:], quantiles, zeros, size, norm])
    return found


@dataclass(frozen=True, slots=True)
class ShadowLabels:
    """A logistic regression from features of updates to label shares.

    Adversary: the server, which knows theta_0 and how clients train and has public data of the same kind.
    """

    model: Any = field(repr=False)
    classes: int

    @classmethod
    def learned(cls, features: Values, histograms: Values) -> "ShadowLabels":
        """features: (n, f), of shadow updates; histograms: (n, classes), theirs. Each shadow counts for a label by its share."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        rows, labels = np.nonzero(histograms)
        model = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=500))
        model.fit(features[rows], labels, logisticregression__sample_weight=histograms[rows, labels])
        return cls(model, histograms.shape[1])

    def histograms(self, features: Values) -> Values:
        """Guessed label shares of updates with these features: float64 (n, classes), rows that add up to 1."""
        found = np.zeros((len(features), self.classes))
        found[:, self.model.classes_] = self.model.predict_proba(features)
        return found
