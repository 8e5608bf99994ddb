"""A process has one generator of torch, and threads that borrow it do not change what others draw."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from cloister.fl.clients.fast import probe
from cloister.fl.clients.training import Job, Training, train_one
from cloister.fl.data.population import Examples
from cloister.fl.models.draws import own_draws
from cloister.fl.models.fit import check_model, needs_two
from cloister.fl.models.papers import Mlp, initial
from cloister.fl.models.vector import to_vector
from cloister.protocol.view.answers import Vector

EXAMPLES = Examples(torch.linspace(-1, 1, 40 * 12).reshape(40, 12), torch.arange(40) % 3)
TRAINING = Training(lr=0.1, batch=8, epochs=2)
MODULE = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.5), nn.Linear(24, 3))
START = to_vector(MODULE)


def drawn(seed: int) -> Vector:
    return to_vector(initial(Mlp((64,)), (12,), 3, seed))


def trained(seed: int) -> Vector:
    return train_one(MODULE, Job(0, START, EXAMPLES, seed), TRAINING, 0)


def looked_at(seed: int) -> Vector:
    """A module is tried, which draws, too."""
    check_model(MODULE, EXAMPLES.x, EXAMPLES.y, 3)
    assert not needs_two(MODULE, EXAMPLES.x)
    assert probe(MODULE, Job(0, START, EXAMPLES, seed), TRAINING)[1]
    return np.zeros(1, np.float32)


@pytest.mark.trains
@pytest.mark.long
def test_threads_that_begin_train_and_try_modules_at_once_get_what_each_gets_alone() -> None:
    """A client that trained gave the generator back while another one in the process drew its first model."""
    tasks: list[tuple[Callable[[int], Vector], int]] = [
        (work, seed) for seed in range(24) for work in (drawn, trained, looked_at)
    ]
    alone = [work(seed) for work, seed in tasks]
    torch.manual_seed(5)
    before = torch.get_rng_state()
    for _ in range(3):
        with ThreadPoolExecutor(12) as threads:
            found = list(threads.map(lambda task: task[0](task[1]), tasks))
        assert all(np.array_equal(one, other) for one, other in zip(found, alone, strict=True))
        assert torch.equal(torch.get_rng_state(), before)


def test_what_is_borrowed_within_another_loan_is_given_back_to_it() -> None:
    with own_draws(1):
        expected = torch.rand(4)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with own_draws(1):
        first = torch.rand(2)
        with own_draws(2):
            torch.rand(7)
        found = torch.cat([first, torch.rand(2)])
    assert torch.equal(found, expected)
    assert torch.equal(torch.get_rng_state(), before)
