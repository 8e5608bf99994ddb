"""How well a model does on a client's records, beside accuracy: by name, or by a function of (outputs, targets).

A function gets what the model puts out, float32 (n, k), and the targets, int64 or float32 (n, ...), and gives a number. Where a
measure is not defined for a client's records (AUC of one class alone, for instance) it is NaN.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..functions import Unfit, brief, called, misfit, raised_by
from ..near_names import near
from ..other_names import METRICS

Values = NDArray[Any]
Measure = Callable[[Values, Values], float]


def balanced_accuracy(outputs: Values, y: Values) -> float:
    """The mean over the labels that are there of the share of their records that is found."""
    found = _predicted(outputs)
    return float(np.mean([np.mean(found[y == label] == label) for label in np.unique(y)]))


def macro_f1(outputs: Values, y: Values) -> float:
    """The mean of F1 = 2 TP / (2 TP + FP + FN) over all labels that are there, or predicted."""
    found = _predicted(outputs)
    scores = []
    for label in np.union1d(y, found):
        true = np.sum((found == label) & (y == label))
        scores.append(2 * true / (np.sum(found == label) + np.sum(y == label)))
    return float(np.mean(scores))


def auc(outputs: Values, y: Values) -> float:
    """The area under the ROC curve, of each label against the rest, mean over labels that some records have and some have not."""
    from sklearn.metrics import roc_auc_score

    if outputs.shape[1] == 1:
        scores = {1: outputs[:, 0]}
    else:
        shifted = outputs.astype(np.float64) - outputs.max(axis=1, keepdims=True)
        shares = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
        scores = {label: shares[:, label] for label in range(outputs.shape[1])}
    areas = [roc_auc_score(y == label, of) for label, of in scores.items() if 0 < np.sum(y == label) < len(y)]
    return float(np.mean(areas)) if areas and np.isfinite(outputs).all() else float("nan")


def mse(outputs: Values, y: Values) -> float:
    """The mean squared error."""
    return float(np.mean(np.square(outputs.reshape(y.shape).astype(np.float64) - y)))


def mae(outputs: Values, y: Values) -> float:
    """The mean absolute error."""
    return float(np.mean(np.abs(outputs.reshape(y.shape).astype(np.float64) - y)))


def r2(outputs: Values, y: Values) -> float:
    """The share of the targets' variance that is explained: 1 is all of it, 0 no more than their mean does."""
    spread = float(np.var(y.astype(np.float64), axis=0).mean())
    return 1 - mse(outputs, y) / spread if spread > 0 else float("nan")


OF_LABELS: Mapping[str, Measure] = {"balanced accuracy": balanced_accuracy, "macro F1": macro_f1, "AUC": auc}
OF_NUMBERS: Mapping[str, Measure] = {"R2": r2, "MSE": mse, "MAE": mae}
LOWER = ("MSE", "MAE")
"""Of which less is better."""
ACCURACY = ("accuracy", "acc", "accuracy_score")
"""What people call that which is measured beside all of these."""


def check_measures(given: Sequence[object]) -> None:
    """Raises ValueError for what is neither a name of a measure nor a function with a name, or is there twice."""
    if isinstance(given, Mapping):
        raise ValueError("metrics are a tuple of names or functions, ('AUC', mine), not a mapping; a function has its name")
    known = {**OF_LABELS, **OF_NUMBERS}
    for one in given:
        if isinstance(one, str) and one not in known:
            meant = "; accuracy is always measured, leave it out" if one.lower() in ACCURACY else near(one, known, METRICS, 0.3)
            there = ", ".join(known)
            raise ValueError(f"there is no metric {one!r}{meant}; there are {there}, or a function of (outputs, targets)")
        if not isinstance(one, str) and not callable(one):
            raise ValueError(f"a metric is a name or a function of (outputs, targets), not {one!r}")
        if not isinstance(one, str) and (wrong := misfit(one, ["outputs", "targets"])):
            raise ValueError(f"metric {called(one)} does not fit: {wrong}")
    names = [name_of(one) for one in given]
    if len(set(names)) < len(names):
        raise ValueError(f"two metrics have one name: {', '.join(names)}")


def measures(given: Sequence[str | Measure], numbers: bool) -> dict[str, Measure]:
    """By name; of numbers R2 and MSE if none are given. Raises ValueError where one is of the other kind of targets."""
    of = OF_NUMBERS if numbers else OF_LABELS
    chosen = given or (("R2", "MSE") if numbers else ())
    if wrong := [one for one in chosen if isinstance(one, str) and one not in of]:
        raise ValueError(f"{wrong[0]} is no metric of {'numbers' if numbers else 'labels'}: take {', '.join(of)}")
    return {name_of(one): of[one] if isinstance(one, str) else _a_number(one) for one in chosen}


def _a_number(measure: Measure) -> Measure:
    """A function of the user's, that raises Unfit where it gives no number."""

    def measured(outputs: Values, y: Values) -> float:
        with raised_by("metric", measure):
            found: Any = measure(outputs.copy(), y.copy())  # what it writes into them changes no test record
        try:
            return float(found)
        except (TypeError, ValueError):
            raise Unfit(f"metric {called(measure)} returned {brief(found)}, where one number is taken") from None

    return measured


def directions(given: Sequence[str | Measure]) -> dict[str, bool | None]:
    """By name whether less is better; of a function what its attribute `less_is_better` says, None where it has none."""
    return {name_of(one): _direction(one) for one in given}


def _direction(one: str | Measure) -> bool | None:
    if isinstance(one, str):
        return one in LOWER
    said = getattr(one, "less_is_better", None)
    return said if isinstance(said, bool) else None


def name_of(measure: object) -> str:
    """A name as it is; a function's own name."""
    return measure if isinstance(measure, str) else str(getattr(measure, "__name__", type(measure).__name__))


def _predicted(outputs: Values) -> Values:
    return (outputs[:, 0] > 0).astype(np.int64) if outputs.shape[1] == 1 else outputs.argmax(axis=1)
