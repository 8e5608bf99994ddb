"""What clients train by and models are scored by: a loss for each record, by name or by a function.

Targets are labels (int64, where -1 marks padding that counts for nothing) or numbers (float32, regression). A function takes the
model's outputs, (n, ...), and targets, (n,) or (n, k), and gives the loss of each record: float32 (n,), differentiable.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..functions import called, misfit, raised_by
from ..other_names import LOSSES, said_otherwise

IGNORED = -1  # the target that no loss counts: padding of token data
LossFunction = Callable[[Tensor, Tensor], Tensor]
CROSS_ENTROPY = "cross entropy"


def _cross_entropy(outputs: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(outputs.flatten(0, -2), y.flatten(), ignore_index=IGNORED, reduction="none").view(y.shape)


def _binary(outputs: Tensor, y: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(outputs.view(y.shape), y.to(outputs.dtype), reduction="none")


def _squared(outputs: Tensor, y: Tensor) -> Tensor:
    return functional.mse_loss(outputs.view(y.shape), y, reduction="none")


def _absolute(outputs: Tensor, y: Tensor) -> Tensor:
    return functional.l1_loss(outputs.view(y.shape), y, reduction="none")


def _huber(outputs: Tensor, y: Tensor) -> Tensor:
    return functional.huber_loss(outputs.view(y.shape), y, reduction="none")


OF_LABELS: Mapping[str, LossFunction] = {CROSS_ENTROPY: _cross_entropy, "binary cross entropy": _binary}
OF_NUMBERS: Mapping[str, LossFunction] = {"mean squared error": _squared, "mean absolute error": _absolute, "Huber": _huber}
NAMED: Mapping[str, LossFunction] = {**OF_LABELS, **OF_NUMBERS}


def check_loss(loss: object) -> None:
    """Raises ValueError for what is neither a name of a loss nor a function."""
    if isinstance(loss, str) and loss not in NAMED:
        other = said_otherwise(loss, NAMED, LOSSES)
        close = [other] if other else get_close_matches(loss, NAMED, 1, 0.3)
        meant = f"; did you mean {close[0]!r}" if close else ""
        raise ValueError(f"there is no loss {loss!r}{meant}; there are {', '.join(NAMED)}, or a function of (outputs, targets)")
    if isinstance(loss, str):
        return
    if not callable(loss):
        raise ValueError(f"loss is a name or a function of (outputs, targets), not {loss!r}")
    if isinstance(loss, type):
        made = f"{loss.__name__}(reduction='none')" if issubclass(loss, nn.Module) else f"{loss.__name__}()"
        raise ValueError(f"loss is the class {loss.__name__} itself; make one of it: {made}")
    if why := misfit(loss, ("outputs", "targets")):
        raise ValueError(f"training.loss, {called(loss)}, does not fit: {why}")


def losses(outputs: Tensor, y: Tensor, loss: str | LossFunction = CROSS_ENTROPY) -> Tensor:
    """Of each target, float32, shaped like y; of a function, of each record, (n,). Raises ValueError where a function gives
    something else, and Unfit, by its name, file and line, for whatever it raises itself.
    """
    if isinstance(loss, str):
        return NAMED[loss](outputs, y)
    with raised_by("training.loss", loss):
        found = loss(outputs, y)
    if not isinstance(found, Tensor) or found.shape[:1] != y.shape[:1]:
        given = f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise ValueError(
            f"training.loss, {called(loss)}, gives {given} for {len(y)} records; it has to give a number for each:"
            " reduction='none' in torch"
        )
    return found


def ignores_targets(outputs: Tensor, y: Tensor, classes: int, loss: str | LossFunction) -> bool:
    """Whether a function gives the same for other targets: the next label, or a larger number. False of named losses, and where
    there is but one label.
    """
    if isinstance(loss, str) or (not y.is_floating_point() and classes < 2):
        return False
    others = y + 1 if y.is_floating_point() else torch.where(y == IGNORED, y, (y + 1) % classes)
    return torch.equal(losses(outputs, y, loss), losses(outputs, others, loss))


def counts(y: Tensor) -> Tensor:
    """Which targets count, bool, shaped like y: all numbers, and labels that are not padding."""
    return y == y if y.is_floating_point() else y != IGNORED


def right(outputs: Tensor, y: Tensor) -> Tensor:
    """Whether each label is the one that the outputs speak for: bool, shaped like y. A single output above 0 speaks for 1."""
    if outputs.ndim == 1 or (outputs.ndim == 2 and outputs.shape[1] == 1 and y.ndim == 1):
        return (outputs.flatten() > 0) == (y == 1)
    flat = outputs.flatten(0, -2)
    return (flat.argmax(1) == y.flatten()).view(y.shape)
