"""Which modules DP-SGD can train: those whose output for a record is that record's alone."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from ..models.draws import own_draws

PROBED = 4
"""Made-up records of a module's trial."""
ROUNDING = 1e-3
"""How far outputs may be apart, over the largest."""


def check_module(module: nn.Module, like: Tensor) -> None:
    """Raises ValueError, in words, where an output depends on other records or on chance, or a forward pass changes state.

    Known layers are told by their type. All else is tried, in a copy: made-up records go through twice together and then one by
    one. What the trial cannot see is what moves no output of those records by `ROUNDING`, or only some later one.

    like: inputs of the shape and dtype that are trained on, (n, ...). Their values are not looked at, so that nothing follows
    from them.
    """
    for part in module.modules():
        _check_layer(part)
    _try(module, like)


def _check_layer(part: nn.Module) -> None:
    name = type(part).__name__
    if isinstance(part, nn.modules.batchnorm._BatchNorm):
        raise ValueError(f"{name} mixes the records of a batch, so that no record's gradient is its own; take GroupNorm")
    if isinstance(part, nn.modules.instancenorm._InstanceNorm) and part.track_running_stats:
        raise ValueError(f"{name} keeps statistics of records without noise; set track_running_stats=False")
    if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0:
        raise ValueError(f"{name} draws by a generator that is not the noise's; leave it out where training has noise")
    if isinstance(part, nn.RReLU) and part.lower != part.upper:
        raise ValueError(f"{name} draws by a generator that is not the noise's; take LeakyReLU")
    if isinstance(part, nn.RNNBase) and part.dropout > 0:
        raise ValueError(f"{name} draws by a generator that is not the noise's; set its dropout to 0")
    if isinstance(part, nn.Embedding | nn.EmbeddingBag):
        if part.max_norm is not None:
            raise ValueError(f"{name} scales the rows that records look up without noise; set max_norm=None")
        if part.scale_grad_by_freq:
            raise ValueError(f"{name} scales gradients by how often a batch has a token; set scale_grad_by_freq=False")


def _try(module: nn.Module, like: Tensor) -> None:
    device, name = next(module.parameters()).device, type(module).__name__
    trial, records = deepcopy(module).train(), _made_up(like).to(device)
    before = {at: value.detach().clone() for at, value in _state(trial).items()}
    with own_draws(like=records), torch.no_grad():
        together: Tensor = trial(records)
        for at, value in _state(trial).items():
            if at not in before or not torch.equal(value, before[at]):
                raise ValueError(f"a forward pass of {name} changes {at}, without noise; keep it as it is")
        if not _alike(trial(records), together):
            raise ValueError(f"{name} answers the same records in two ways: it draws, or remembers, where training has noise")
        alone = torch.cat([trial(record) for record in torch.split(records, 1)])
        if not _alike(alone, together):
            raise ValueError(f"{name} mixes the records of a batch, so that no record's gradient is its own")


def _state(module: nn.Module) -> dict[str, Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _made_up(like: Tensor) -> Tensor:
    """The same for all data of one shape and dtype; tokens are 0 and 1."""
    generator, shape = torch.Generator().manual_seed(0), (PROBED, *like.shape[1:])
    if like.dtype.is_floating_point:
        return torch.rand(shape, generator=generator).to(like.dtype)
    return torch.randint(0, 2, shape, generator=generator).to(like.dtype)


def _alike(found: Tensor, expected: Tensor) -> bool:
    room = ROUNDING * float(expected.abs().max())
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=0.0, atol=room, equal_nan=True)
