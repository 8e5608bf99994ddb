"""Whether a module can be a run's model: tried on made-up records before anything is trained."""

from collections.abc import Mapping
from copy import deepcopy

import torch
from torch import Tensor, nn

from .papers import ONE_GENERATOR

TRIED = 4
"""Made-up records of the trial."""


def check_model(module: nn.Module, x: Tensor, y: Tensor, classes: int) -> None:
    """Raises ValueError of one line, which says what to change, for a module that has nothing to learn, does not take such
    inputs, has too few outputs, or keeps what no update carries.

    An update is what parameters learned. Running statistics (of BatchNorm, for example) are no parameters: each client would have
    its own, and the model that is scored those of nobody.

    x, y: examples as clients have them, (n, ...); their values are not looked at. classes: numbers that it has to put out.
    """
    if not any(p.requires_grad for p in module.parameters()):
        raise ValueError("the model has no parameter to learn")
    if bad := next((name for name, p in module.named_parameters() if not p.isfinite().all()), ""):
        raise ValueError(f"the model's first weights are not finite: {bad}")
    trial = deepcopy(module).train()
    before = {name: buffer.clone() for name, buffer in trial.named_buffers()}
    made_up = torch.zeros((TRIED, *x.shape[1:]), dtype=x.dtype, device=next(trial.parameters()).device)
    try:
        with (
            ONE_GENERATOR,
            torch.random.fork_rng(devices=[made_up.device] if made_up.device.type == "cuda" else []),
            torch.no_grad(),
        ):
            found = trial(made_up)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"the model does not take inputs of shape {tuple(x.shape[1:])} ({x.dtype}): {reason}") from None
    for name, buffer in trial.named_buffers():
        if name not in before or not torch.equal(buffer, before[name]):
            owner = name.rpartition(".")[0]
            kind = type(trial.get_submodule(owner)).__name__
            raise ValueError(
                f"the model's {owner or 'module'} ({kind}) keeps running statistics, which no update carries, so that models"
                f" would be scored with those of nobody: make it {kind}(..., track_running_stats=False), or take GroupNorm or"
                " LayerNorm"
            )
    shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if y.is_floating_point() or classes == 1:
        if shape != (TRIED, classes) and (classes, shape) != (1, (TRIED,)):
            raise ValueError(f"the model gives {shape} for {TRIED} records, where ({TRIED}, {classes}) is needed")
    elif y.ndim == 1 and (not isinstance(found, Tensor) or found.ndim != 2 or len(found) != TRIED or found.shape[1] < classes):
        raise ValueError(
            f"the model gives {shape} for {TRIED} records of {classes} classes, where ({TRIED}, {classes}) is needed"
        )
    _check_one(trial, made_up[:1], found)


def _check_one(trial: nn.Module, one: Tensor, several: object) -> None:
    """Raises ValueError where outputs for a record alone, as in a last batch, have not the shape that those for several have."""
    try:
        with ONE_GENERATOR, torch.random.fork_rng(devices=[one.device] if one.device.type == "cuda" else []), torch.no_grad():
            found = trial(one)
    except (RuntimeError, ValueError, TypeError, IndexError):
        return  # it needs two, which is looked at where batches are known
    if not isinstance(found, Tensor) or not isinstance(several, Tensor):
        return  # of whatever else a language model may give
    if (shape := tuple(found.shape)) != (needed := (1, *several.shape[1:])):
        squeezed = "; squeeze a dimension by its number, not all of size 1" if len(shape) < len(needed) else ""
        raise ValueError(f"the model gives {shape} for 1 record, where {needed} is needed{squeezed}")


def check_batches(module: nn.Module, like: Tensor, sizes: Mapping[int, int], batch: int) -> None:
    """Raises ValueError, which names a batch that fits, where a client's last batch has one record and the module needs two.

    like: inputs as clients have them, (n, ...). sizes: number of training examples by client. batch: records of one step.
    """
    alone = [client for client, size in sizes.items() if size % batch == 1 or 1 in (size, batch)]
    if not alone or not needs_two(module, like):
        return
    client = alone[0]
    others = (*range(batch - 1, 1, -1), *range(batch + 1, max(sizes.values()) + 1))
    fitting = next((b for b in others if all(size % b != 1 for size in sizes.values())), None)
    how = f"set training.batch={fitting}, or leave one record out"
    if not fitting:
        how = "give it another, or take LayerNorm in the place of BatchNorm"
    leave = "have" if batch == 1 else "leave"
    raise ValueError(
        f"client {client} has {sizes[client]} records, of which batches of {batch} {leave} one, and the model needs two: {how}"
    )


def needs_two(module: nn.Module, like: Tensor) -> bool:
    """Whether it takes no record alone. like: inputs as clients have them, (n, ...)."""
    trial = deepcopy(module).train()
    one = torch.zeros((1, *like.shape[1:]), dtype=like.dtype, device=next(trial.parameters()).device)
    try:
        with ONE_GENERATOR, torch.random.fork_rng(devices=[one.device] if one.device.type == "cuda" else []), torch.no_grad():
            trial(one)
    except ValueError:
        return True
    return False
