"""What a run says of itself within a round, so that whoever looks knows that it goes on: who has trained, what is compared."""

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ..clients.training import Executor, Job, Training
from ..clients.ways import Train, Way, played
from ..emd.pairs import Cores, silent

if TYPE_CHECKING:
    from .simulation import Simulation

Tell = Callable[[str, int, int], None]
"""(what is done, how many of it are, of how many). 0 of 0 where it is one thing; of 0 where nobody knows. From any thread."""
MADE, TRAINED, COMPARED = "making the clients' data", "clients trained", "comparisons of clients"


def telling(simulation: "Simulation", tell: Tell) -> None:
    """From now on the simulation tells what is done within its rounds. What it computes stays the same."""
    simulation.execution = Told(simulation.execution, tell)
    algorithm = simulation.scenario.algorithm
    cores: object = getattr(algorithm, "cores", None)
    if isinstance(cores, Cores) and cores.progress is silent:
        heard = replace(cores, progress=lambda done: tell(COMPARED, done, 0))
        simulation.scenario = replace(simulation.scenario, algorithm=replace(algorithm, cores=heard))  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Told:
    """An executor that tells how many of its jobs are over, while others are not. Its updates are those of the executor.

    One that says how its jobs are divided (`way`) is told of piece by piece: it may give no update before many are there.
    """

    of: Executor
    tell: Tell

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        over = _Over(self.tell, len(jobs))
        over.more(0)
        divided: Any = self.of
        if not hasattr(divided, "way"):
            for update in divided(module, jobs, training, round):
                over.more(1)
                yield update
            return
        ready = deepcopy(module).train()
        if (device := getattr(divided, "device", None)) is not None:
            ready.to(device)
        way: Way = divided.way(ready, jobs, training, round)
        yield from played(replace(way, train=_Piecewise(way.train, over)), ready, jobs, training, round)


@dataclass(slots=True)
class _Over:
    """How many of a round's jobs are over."""

    tell: Tell
    of: int
    count: int = 0
    lock: Lock = field(default_factory=Lock)

    def more(self, jobs: int) -> None:
        with self.lock:  # threads train pieces side by side
            self.count += jobs
            self.tell(TRAINED, self.count, self.of)


@dataclass(frozen=True, slots=True)
class _Piecewise:
    """A way to train that counts what is over."""

    train: Train
    over: _Over

    def __call__(
        self, module: nn.Module, jobs: Sequence[Job], training: Training, round: int, stop: Event, /
    ) -> list[NDArray[np.float32]]:
        found = self.train(module, jobs, training, round, stop)
        self.over.more(len(jobs))
        return found
