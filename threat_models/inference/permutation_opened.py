"""Attack A11: once a permutation is opened, updates in clear tell what updates in clear tell: inputs and labels.

Of one step on one example, each row of the first layer's gradient is the input times the gradient of that unit's bias. Of one
step on all examples the output layer's bias changes by lr times the share of each label less what the model answered.
"""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Values = NDArray[np.float64]


def first_layer_input(update: Vectors, hidden: int, features: int) -> Values:
    """The input of one step on one example: dW1[j] / db1[j] of the unit j whose bias moved most; 0 where no bias moved.

    Adversary: whoever has the update in clear, float32 (d,), first layer first. Returns float64 (features,).
    """
    weights = update[: hidden * features].reshape(hidden, features).astype(np.float64)
    biases = update[hidden * features : hidden * features + hidden].astype(np.float64)
    unit = int(np.abs(biases).argmax())
    found: Values = weights[unit] / biases[unit] if biases[unit] else np.zeros(features)
    return found


def only_label(update: Vectors, classes: int) -> int:
    """The label of one step on one example: the one output whose bias moved up. Adversary: as for `first_layer_input`."""
    return int(update[-classes:].argmax())


def label_shares(updates: Vectors, answers: Values, lr: float) -> Values:
    """Label histograms after one step on all examples, from the output layer's bias.

    Adversary: as for `first_layer_input`, with public data. updates: float32 (n, d), output bias last. answers: float64
    (classes,), the mean of what the initial model answers to public inputs. Returns float64 (n, classes), not negative, rows
    that add up to 1.
    """
    shares = np.maximum(updates[:, -len(answers) :].astype(np.float64) / lr + answers, 0.0)
    found: Values = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    return found
