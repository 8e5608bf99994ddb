"""Modules with layers that are sized by the first inputs that they see (nn.LazyLinear, for example)."""

import torch
from torch import nn
from torch.nn.parameter import is_lazy

EXAMPLES = 2
"""Made-up inputs that a module is sized by: normalisation over a batch needs two."""


def waits(module: nn.Module) -> list[str]:
    """Kinds of its layers that have no size yet, the first first; none of a module that is ready."""
    return [type(layer).__name__ for layer in module.modules() if any(map(is_lazy, layer.parameters(recurse=False)))]


def size(module: nn.Module, shape: tuple[int, ...]) -> None:
    """Size its lazy layers for inputs of this shape, (EXAMPLES, *shape), all 0: float32 or, where it takes none, int64 tokens.

    Weights come from torch's generator. Raises ValueError of one line, with what to do, where it takes neither.
    """
    if not (lazy := waits(module)):
        return
    training, reason = module.training, ""
    for dtype in (torch.float32, torch.int64):
        try:
            with torch.no_grad():
                module.eval()(torch.zeros((EXAMPLES, *shape), dtype=dtype))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            reason = reason or next(iter(str(error).splitlines()), type(error).__name__)
        if not waits(module):
            module.train(training)
            return
    inputs = f"inputs of shape {shape}"
    why = f"and it does not take {inputs}: {reason}" if reason else f"and a pass of {inputs} does not reach them"
    remedy = "give them sizes, or call the model once on an example"
    raise ValueError(f"the model has layers without a size ({lazy[0]}), {why}; {remedy}")
