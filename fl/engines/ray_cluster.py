"""A Ray cluster for one command: the one that RAY_ADDRESS names, or one of this machine's cores that ends with the command.

Ray gives everybody who reaches a cluster the rights of its processes, and what travels in it is neither encrypted nor checked
unless the cluster was set up so: a simulation's data and secrets are as safe as the cluster's network.
"""

import logging
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

from .cores import cores
from .dispatch import WorkerDied

ADDRESS = "RAY_ADDRESS"
STATISTICS = "RAY_USAGE_STATS_ENABLED"
NOBODY = "no Ray cluster answers at RAY_ADDRESS={}; start one with `ray start --head`, or unset RAY_ADDRESS"
TIMEOUT = 10
"""Seconds to reach the cluster's head."""
R = TypeVar("R")


def check_installed() -> None:
    """Raises ValueError of one line where Ray is not."""
    if find_spec("ray") is None:
        raise ValueError("the engine ray is not installed; install it with: pip install 'cloister[ray]'")


@contextmanager
def cluster(workers: int | None) -> Iterator[None]:
    """This process is connected inside. workers: CPUs of the cluster, where it is begun here; None for this machine's.

    A connection that is there already is used, and left. One begun here has no dashboard, sends no statistics of use and ends.
    Raises ValueError of one line where there is no Ray, or no cluster at the address.
    """
    check_installed()
    import ray

    if ray.is_initialized():
        yield
        return
    address, quiet = os.environ.get(ADDRESS, ""), {"log_to_driver": False, "logging_level": logging.ERROR}
    if address.startswith("ray://"):
        raise ValueError(f"{ADDRESS} is of the Ray client, which is not supported; give HOST:PORT of the cluster's head")
    if address not in ("", "local", "auto"):
        _check_listens(address)
    before = os.environ.get(STATISTICS)
    try:
        if address and address != "local":
            ray.init(address=address, **quiet)
        else:
            os.environ[STATISTICS] = "0"
            ray.init(address="local", num_cpus=workers or cores(), include_dashboard=False, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise ValueError(NOBODY.format(address) if address else f"Ray does not start: {_first_line(error)}") from None
    finally:
        os.environ.pop(STATISTICS, None)
        if before is not None:
            os.environ[STATISTICS] = before
    try:
        yield
    finally:
        ray.shutdown()


def _check_listens(address: str) -> None:
    """Raises ValueError where nobody does: Ray itself tries for minutes, and may end the process."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=TIMEOUT).close()
    except (OSError, ValueError, OverflowError):
        raise ValueError(NOBODY.format(address)) from None


def cpus() -> int:
    """CPUs of the cluster that this process is connected to."""
    import ray

    return int(ray.cluster_resources().get("CPU", 0))


def answer_of(reference: Any, read: Callable[[Any], R]) -> "Future[R]":
    """What a call comes to, through `read`; `WorkerDied` where there will be no answer; what the call raised, as it was."""
    from ray import exceptions

    lost = (
        exceptions.RayActorError,
        exceptions.WorkerCrashedError,
        exceptions.NodeDiedError,
        exceptions.ObjectLostError,
        exceptions.OutOfMemoryError,
    )
    answer: Future[R] = Future()

    def done(future: "Future[Any]") -> None:
        try:
            answer.set_result(read(future.result()))
        except exceptions.RayTaskError as error:
            answer.set_exception(error.cause if isinstance(error.cause, Exception) else RuntimeError(_first_line(error)))
        except lost as error:
            answer.set_exception(WorkerDied(_first_line(error)))
        except BaseException as error:
            answer.set_exception(error)

    reference.future().add_done_callback(done)
    return answer


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
