"""Whether a scenario's model fits its data, before anything of a grid is played: else each cell would fail for that."""

from ..data.population import Source
from ..fields_at_fault import about
from ..models.fit import SEEN, check_model
from ..models.papers import initial
from .objective_check import outputs_needed
from .scenario import Scenario
from .simulation import seed_of


def check_model_of(scenario: Scenario, source: Source) -> None:
    """Raises ValueError as `check_model` does, about the scenario's model. source: what its data were read as."""
    with about("model"):
        y = source.train.y
        outputs = outputs_needed(scenario.training, y, source.classes)
        module = initial(scenario.model, source.shape, outputs, seed_of(scenario.seed, "model"))
        check_model(module, source.train.x[:SEEN], y, outputs)
