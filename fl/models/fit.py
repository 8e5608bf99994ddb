"""Whether a module can be a run's model: tried on made-up records before anything is trained."""

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy

import torch
from torch import Tensor, nn

from .draws import own_draws

TRIED = 4
"""Made-up records of the trial."""
SEEN, FAR = 64, 1000.0
"""Records, at most, that a model is shown to find out whether it keeps something of them; and how large made-up ones are then."""

AGAIN = 3
"""Times that a model predicts anew without being shown any: one that draws by itself may come near the first by chance once."""

WITHOUT = "reckon it from the batch at hand, make it a parameter, or take another layer (GroupNorm or LayerNorm to scale inputs)"
"""What to do about what a model keeps."""

OF_SEVERAL = "which then predicts for several records together and not for one alone"


def check_model(module: nn.Module, x: Tensor, y: Tensor, classes: int) -> None:
    """Raises ValueError of one line, which says what to change, for a module that has nothing to learn, or complex
    numbers, does not take such inputs, has too few outputs, or keeps what no update carries.

    An update is what parameters learned. Running statistics (of BatchNorm, for example) are no parameters: each client would have
    its own, and the model that is scored those of nobody. Whatever a module keeps of records, in a buffer or anywhere, is found
    by what it predicts before it is shown some and afterwards.

    x, y: examples as clients have them, (n, ...). classes: numbers that it has to put out.
    """
    if not any(p.requires_grad for p in module.parameters()):
        raise ValueError("the model has no parameter to learn")
    if bad := next((name for name, p in module.named_parameters() if p.requires_grad and p.is_complex()), ""):
        raise ValueError(
            f"the model's parameter {bad} is of complex numbers, and updates are of real ones: make two of it, one of its real"
            " and one of its imaginary parts, and put them together in forward (torch.complex)"
        )
    if bad := next((name for name, p in module.named_parameters() if not p.isfinite().all()), ""):
        raise ValueError(f"the model's first weights are not finite: {bad}")
    trial = deepcopy(module).train()
    before = {name: buffer.clone() for name, buffer in trial.named_buffers()}
    made_up = torch.zeros((TRIED, *x.shape[1:]), dtype=x.dtype, device=next(trial.parameters()).device)
    try:
        with own_draws(like=made_up), torch.no_grad():
            found = trial(made_up)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"the model does not take inputs of shape {tuple(x.shape[1:])} ({x.dtype}): {reason}") from None
    for name, buffer in trial.named_buffers():
        if name not in before or not torch.equal(buffer, before[name]):
            owner = name.rpartition(".")[0]
            layer = trial.get_submodule(owner)
            kind, tracks = type(layer).__name__, hasattr(layer, "track_running_stats")
            keeps = "running statistics" if tracks else f"numbers beside its parameters ({name}) that training changes"
            fresh = f"make it {kind}(..., track_running_stats=False), {OF_SEVERAL}, or take GroupNorm or LayerNorm"
            instead = fresh if tracks else WITHOUT
            raise ValueError(
                f"the model's {owner or 'module'} ({kind}) keeps {keeps}, which no update carries, so that models would be scored"
                f" with those of nobody: {instead}"
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
    _check_nothing_kept(module, x[:SEEN].to(made_up.device))


def _check_nothing_kept(module: nn.Module, x: Tensor) -> None:
    """Raises ValueError where a copy of it that was shown records in training, without a step, predicts otherwise than one that
    was not. Of a module that draws by itself, otherwise than by torch, nothing can be said.
    """

    def predicted(*shown: Tensor) -> Tensor | None:
        trial = deepcopy(module)
        for given in shown:
            with suppress(RuntimeError, ValueError, TypeError, IndexError):  # it may not take records as large
                trial.train()(given)
        torch.manual_seed(0)
        found = trial.eval()(x[:TRIED])
        return found.clone() if isinstance(found, Tensor) else None

    try:
        with own_draws(like=x), torch.no_grad():
            far = [FAR * torch.randn(len(x), *x.shape[1:], device=x.device, dtype=x.dtype)] if x.is_floating_point() else []
            before, again, after = predicted(), [predicted() for _ in range(AGAIN)], predicted(x, *far)
    except (RuntimeError, ValueError, TypeError, IndexError):
        return  # it needs others than the first few, which its training will show
    if before is None or after is None or _close(before, after):
        return
    if not all(one is not None and _close(before, one) for one in again):
        return  # it draws by itself, and nothing can be said of it
    raise ValueError(
        "the model predicts otherwise once it was shown records in training: it keeps something of them, which no update carries,"
        f" so that models would be scored with what nobody has: {WITHOUT}"
    )


def _close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)


def _check_one(trial: nn.Module, one: Tensor, several: object) -> None:
    """Raises ValueError where outputs for a record alone, as in a last batch, have not the shape that those for several have."""
    try:
        with own_draws(like=one), torch.no_grad():
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


def check_tested(module: nn.Module, like: Tensor, sizes: Mapping[int, int]) -> None:
    """Raises ValueError where a client has one record to test on and the module needs two. sizes: of tests, by client."""
    alone = [client for client, size in sizes.items() if size == 1]
    if alone and needs_two(module, like):
        raise ValueError(
            f"client {alone[0]} has one record to test on, and the model needs two: hold out more of its records, or take"
            " LayerNorm in the place of BatchNorm"
        )


def takes_together(module: nn.Module, like: Tensor) -> bool:
    """Whether what it makes of a record depends on the others that it is given beside, when it predicts."""
    norms = [part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    if not all(part.track_running_stats for part in norms):
        return True
    trial = deepcopy(module).eval()
    here = like.to(next(trial.parameters()).device)
    try:
        with own_draws(like=here), torch.no_grad():
            both, half = trial(here), trial(here[: max(1, len(here) // 2)])
            return not torch.allclose(both[: len(half)], half, rtol=1e-3, atol=1e-4)
    except Exception:  # of the user's own module, which may ask for more records
        return needs_two(module, like)


def needs_two(module: nn.Module, like: Tensor) -> bool:
    """Whether it takes no record alone. like: inputs as clients have them, (n, ...)."""
    trial = deepcopy(module).train()
    one = torch.zeros((1, *like.shape[1:]), dtype=like.dtype, device=next(trial.parameters()).device)
    try:
        with own_draws(like=one), torch.no_grad():
            trial(one)
    except (RuntimeError, ValueError, TypeError, IndexError):
        return True
    return False
