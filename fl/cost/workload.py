"""What is played where a protection's cost is measured: how many clients and parameters, and what an algorithm asks for."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...protocol.view.answers import Work
from ...protocol.view.functionality import Functionality
from ..models.papers import initial
from ..models.vector import dimension
from ..runs.objective_check import outputs_needed
from ..runs.scenario import Scenario
from ..runs.simulation import seed_of
from .pairs import PairLoad, pair_load_of

SUMMED = frozenset(
    {
        Functionality.SUMS,
        Functionality.COORDINATES,
        Functionality.SLOTS,
        Functionality.PERSONAL_SUMS,
        Functionality.FUSION,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is played. needs: the algorithm's. compared: the vectors of the Gram matrix, updates or full gradients.

    clients, parameters: n and d. clusters: disjoint, of nearly equal size. drop: share of the clients, at least one, that fall
    silent in each round, at a random one of their messages. All clients take part in all rounds. slots: K, where they are needed.
    pairs: what pairs of clients are compared by, where they are. energy: whether sums are asked for their mean squared norm,
    where they tell it. Raises ValueError for sizes out of range, and where nothing is summed.
    """

    needs: frozenset[Functionality]
    clients: int
    parameters: int
    clusters: int = 1
    drop: float = 0.0
    rounds: int = 3
    seed: int = 0
    by_samples: bool = False
    compared: Work = "update"
    slots: int = 2
    pairs: PairLoad | None = None
    energy: bool = False

    def __post_init__(self) -> None:
        if (self.pairs is None) == (Functionality.PAIRS in self.needs):
            raise ValueError(
                "pairs say what clients are compared by, where an algorithm compares pairs of them, and nowhere else"
            )
        if min(self.clients, self.parameters, self.clusters, self.rounds, self.slots) < 1:
            raise ValueError("clients, parameters, clusters, rounds and slots are at least 1")
        if self.clusters > self.clients:
            raise ValueError(f"{self.clusters} clusters of {self.clients} clients: at least one would be empty")
        if not 0 <= self.drop < 1:
            raise ValueError(f"drop is a share from 0 to below 1, not {self.drop}")
        if not self.needs & SUMMED:
            raise ValueError("an algorithm that asks the server for no sum sends no updates: there is nothing to measure")

    @property
    def dropped(self) -> int:
        """Clients that fall silent in a round."""
        return max(1, round(self.drop * self.clients)) if self.drop else 0

    @property
    def members(self) -> dict[str, tuple[int, ...]]:
        """The clients of every cluster."""
        return {str(k): tuple(range(k, self.clients, self.clusters)) for k in range(self.clusters)}


def _slots(scenario: Scenario) -> int:
    """Models that clients choose among by themselves."""
    found = getattr(scenario.algorithm, "models", 2)
    return found if Functionality.SLOTS in scenario.algorithm.needs and isinstance(found, int) and found > 0 else 2


def workload_of(scenario: Scenario, clients: int | None, parameters: int | None, folder: Path | None) -> Workload:
    """What the scenario would play: its algorithm's needs, its numbers of clients and parameters where none are given.

    Reads the scenario's data, from `folder`, only if one of the numbers is needed, or the sizes of embeddings. Raises
    ValueError of one line.
    """
    if clients is None or parameters is None:
        source = scenario.data(folder)
        population = scenario.partition(source, np.random.default_rng(seed_of(scenario.seed, "partition")))
        clients = len(population.clients) if clients is None else clients
        if parameters is None:
            y = next(iter(population.clients.values())).train.y
            outputs = outputs_needed(scenario.training, y, population.classes)
            parameters = dimension(initial(scenario.model, population.shape, outputs, scenario.seed))
    return Workload(
        needs=scenario.algorithm.needs,
        clients=clients,
        parameters=parameters,
        seed=scenario.seed,
        by_samples=getattr(scenario.algorithm, "by_samples", False),
        compared=getattr(scenario.algorithm, "similarity", "update"),
        pairs=pair_load_of(scenario, folder),
        energy=getattr(scenario.algorithm, "similarities", "") == "when ripe",
        slots=_slots(scenario),
    )
