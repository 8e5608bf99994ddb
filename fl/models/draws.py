"""torch's generator of random numbers, borrowed: initial weights and dropout draw from it, and a process has one."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch
from torch import Tensor

_ONE_AT_A_TIME = RLock()


@contextmanager
def own_draws(seed: int | None = None, like: Tensor | None = None) -> Iterator[None]:
    """What is drawn inside follows from `seed`, if one is given, and torch's generator is afterwards as it was before.

    Threads that borrow it at once wait for each other: who gives it back would otherwise change what another one draws. Nothing
    inside may therefore wait for a thread that borrows it. like: a tensor on the device whose generator is borrowed, too.
    """
    with _ONE_AT_A_TIME, torch.random.fork_rng(devices=[like.device] if like is not None and like.is_cuda else []):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
        yield
