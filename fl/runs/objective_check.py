"""Whether a training's loss and metrics fit the algorithm, the data and the model, said in a user's words."""

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from ...protocol.core.errors import Refused
from ...protocol.view.functionality import Functionality
from ..clients.losses import CROSS_ENTROPY, OF_NUMBERS, ignores_targets
from ..clients.training import Training
from ..data.population import Examples
from ..fields_at_fault import about
from ..functions import called
from ..models.draws import own_draws

TRIED = 32
"""Records, at most, that a loss of the user's own is tried on before training."""


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
    if adversary is not None and isinstance(training.loss, str) and training.loss in OF_NUMBERS:
        raise Refused(f"members of an adversary attack what predicts labels{instead}, or leave the adversary out")
    poison, local = getattr(adversary, "data", None), getattr(adversary, "local", None)
    if local is not None or hasattr(poison, "learn"):
        which = type(poison if local is None else local).__name__
        raise Refused(
            f"members of an adversary with {which} train by cross entropy of their own{instead}, or attack uploads or data"
        )


def check_labels(y: Tensor, classes: int) -> None:
    """Raises ValueError for labels that are all one: any model is right, and a single output means something else. classes: how
    many labels there are.
    """
    if not y.is_floating_point() and classes < 2:
        with about("data"):
            raise ValueError(
                "all records have one label, so that there is nothing to learn: is it the right column, or folder, of labels?"
                " Take data with two labels or more, or numbers to be predicted"
            )


def check_targets(training: Training, y: Tensor, classes: int, attacked: bool = False) -> None:
    """Raises ValueError where the data's targets are of another kind than the loss. classes: how many labels there are. attacked:
    whether there is an adversary.
    """
    if attacked and y.is_floating_point():
        with about("adversary"):
            raise ValueError(
                "targets are numbers, and members of an adversary attack what predicts labels: leave the adversary out"
            )
    with about("training"):
        _check_loss(training, y, classes)


def _check_loss(training: Training, y: Tensor, classes: int) -> None:
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


def loss_doubts(training: Training, module: nn.Module, examples: Examples, classes: int) -> list[str]:
    """A line where a loss of the user's own does not look at its targets, tried on the first records. It raises what that raises.

    classes: how many labels there are.
    """
    if isinstance(training.loss, str) or not len(examples):
        return []
    first, trial = examples.take(torch.arange(min(TRIED, len(examples)))), deepcopy(module).eval()
    device = next(trial.parameters()).device
    x, y = first.x.to(device), first.y.to(device)
    with about("training"), own_draws(like=x), torch.no_grad():
        same = ignores_targets(trial(x), y, classes, training.loss)
    words = f"training.loss, {called(training.loss)}, gives the same for other targets: models learn nothing of them; compute it"
    return [f"{words} from its second argument"] if same else []


def outputs_needed(training: Training, y: Tensor, classes: int) -> int:
    """How many numbers a model puts out for a record: one a label, or a number."""
    if y.is_floating_point():
        return 1 if y.ndim == 1 else y.shape[1]
    return 1 if training.loss == "binary cross entropy" else classes
