"""What is looked at before anything of a grid, a search or an audit is played: each cell would fail for it, or mean nothing."""

import numpy as np

from ..data.agreed import made_up
from ..data.population import Source
from ..fields_at_fault import about
from ..models.fit import check_model
from ..models.papers import initial
from .objective_check import check_labels, outputs_needed
from .scenario import Scenario
from .simulation import seed_of


def check_records(scenario: Scenario) -> None:
    """Raises ValueError for records that are made up, as of a deployment where nobody has another's: no verdict is about them."""
    with about("data"):
        if words := made_up(scenario.data):
            raise ValueError(words)


def check_fits(scenario: Scenario, source: Source) -> None:
    """Raises ValueError for such records, and as `check_model` does, about the model. source: what the data were read as. Where
    they cannot be dealt with this seed, others' cells may be, and each says it.
    """
    check_records(scenario)
    try:
        population = scenario.partition(source, np.random.default_rng(seed_of(scenario.seed, "partition")))
        one = next(iter(population.clients.values())).train
    except Exception:  # a partition may be the user's own
        return
    check_labels(one.y, population.classes)
    with about("model"):
        outputs = outputs_needed(scenario.training, one.y, population.classes)
        module = initial(scenario.model, population.shape, outputs, seed_of(scenario.seed, "model"))
        check_model(module, one.x, one.y, outputs)
