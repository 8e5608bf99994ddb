"""A test that trains a model carries the marker `trains`; one that does not say so fails.

What training ends with differs between processors: torch picks other kernels, which round otherwise. `make test-processors` plays
the tests with the marker under two of torch's kinds of kernels, so that what they assert is true on both.
"""

from collections.abc import Callable, Generator
from functools import wraps
from typing import Any

import pytest
import torch
from hypothesis import settings

from cloister.fl.clients import fast

ABOUT = "this test trains a model: mark it `@pytest.mark.trains`, and let it assert what holds however a processor rounds"
settings.register_profile("cloister", deadline=None)  # how long an example takes is the machine's affair
settings.load_profile("cloister")
trained = [0]
BEFORE = pytest.StashKey[int]()
TRAINED_BY_FIXTURE = {"test_evaluate.py": "whole", "test_attack_command.py": "searched"}


def counted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, each call of which counts."""

    @wraps(function)
    def counting(*arguments: Any, **named: Any) -> Any:
        trained[0] += 1
        return function(*arguments, **named)

    return counting


def pytest_configure(config: pytest.Config) -> None:
    """Count what every way to train goes through: torch's backward pass, and the one that `fl.stacked` writes out."""
    torch.autograd.backward = counted(torch.autograd.backward)
    fast.train_stacked = counted(fast.train_stacked)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that looks at what a fixture of its module trained, trains: whichever of them comes first."""
    for item in items:
        if TRAINED_BY_FIXTURE.get(item.path.name, "") in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.trains)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Fixtures count as their test."""
    item.stash[BEFORE] = trained[0]
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    result = yield
    if trained[0] > item.stash[BEFORE] and item.get_closest_marker("trains") is None:
        pytest.fail(ABOUT, pytrace=False)
    return result
