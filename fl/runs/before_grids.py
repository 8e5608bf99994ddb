"""What is looked at before anything of a grid, a search or an audit is played: each cell would fail for it, or mean nothing."""

from ..data.agreed import made_up
from ..data.population import Source
from ..fields_at_fault import about
from ..models.fit import SEEN, check_model
from ..models.papers import initial
from .objective_check import outputs_needed
from .scenario import Scenario
from .simulation import seed_of


def check_records(scenario: Scenario) -> None:
    """Raises ValueError for records that are made up, as of a deployment where nobody has another's: no verdict is about them."""
    with about("data"):
        if words := made_up(scenario.data):
            raise ValueError(words)


def check_fits(scenario: Scenario, source: Source) -> None:
    """Raises ValueError for such records, and as `check_model` does, about the model. source: what the data were read as."""
    check_records(scenario)
    with about("model"):
        y = source.train.y
        outputs = outputs_needed(scenario.training, y, source.classes)
        module = initial(scenario.model, source.shape, outputs, seed_of(scenario.seed, "model"))
        check_model(module, source.train.x[:SEEN], y, outputs)
