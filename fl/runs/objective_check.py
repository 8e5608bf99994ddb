"""Whether a training's loss and metrics fit the algorithm, the data and the model, said in a user's words."""

from typing import Any

from torch import Tensor

from ...protocol.core.errors import Refused
from ...protocol.view.functionality import Functionality
from ..clients.losses import CROSS_ENTROPY, OF_NUMBERS
from ..clients.training import Training


def check_objective(algorithm: Any, training: Training, adversary: object) -> None:
    """Raises Refused where something weighs models, or attacks, by cross entropy of labels and clients train by another loss."""
    if training.loss == CROSS_ENTROPY:
        return
    name, instead = type(algorithm).__name__, f"; take training.loss={CROSS_ENTROPY!r}"
    if getattr(algorithm, "in_slots", None) is not None or Functionality.SLOTS in algorithm.needs:
        raise Refused(
            f"clients of {name} weigh models by cross entropy{instead}, or an algorithm without slots, CFL for instance"
        )
    if Functionality.PAIRS in algorithm.needs:
        raise Refused(
            f"{name} compares clients by embeddings or gradients of labels{instead}, or CFL or FLIC, which go by updates"
        )
    if getattr(algorithm, "adapt", None) is not None:
        raise Refused(f"{name} makes clients' models by steps on cross entropy{instead}")
    if adversary is not None:
        raise Refused(f"members of an adversary attack labels, by cross entropy{instead}, or leave the adversary out")


def check_targets(training: Training, y: Tensor, classes: int) -> None:
    """Raises ValueError where the data's targets are of another kind than the loss. classes: how many labels there are."""
    named, numbers = isinstance(training.loss, str), y.is_floating_point()
    if named and numbers and training.loss not in OF_NUMBERS:
        raise ValueError(
            f"targets are numbers, and training.loss is of labels ({training.loss}): take one of"
            f" {', '.join(map(repr, OF_NUMBERS))}"
        )
    if named and not numbers and training.loss in OF_NUMBERS:
        raise ValueError(
            f"training.loss is of numbers ({training.loss}), and targets are labels: read them as numbers, for instance by"
            " data.from_csv(..., numbers=True)"
        )
    if training.loss == "binary cross entropy" and classes != 2:
        raise ValueError(f"binary cross entropy is of two labels, and the data have {classes}: take {CROSS_ENTROPY!r}")


def outputs_needed(training: Training, y: Tensor, classes: int) -> int:
    """How many numbers a model puts out for a record: one a label, or a number."""
    if y.is_floating_point():
        return 1 if y.ndim == 1 else y.shape[1]
    return 1 if training.loss == "binary cross entropy" else classes
