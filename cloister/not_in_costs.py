"""What a measured cost leaves out, and where it is more than a run's, in words for `cloister cost`."""

from collections.abc import Iterator

from .fl.cost.measure import MeasuredCost
from .fl.cost.workload import Workload
from .protocol.view.functionality import Functionality
from .reporting.byte_words import byte_words

PARAMETER = 4
"""Bytes of a parameter in a model that is sent."""
LINKS = "not counted: what they add to messages between machines, a larger share the smaller the model is"


def not_in_costs(measured: MeasuredCost, load: Workload) -> Iterator[tuple[str, str]]:
    """Rows of a name and words."""
    asks = ["similarities"] if any(phase.compared for phase in measured.rounds) and load.pairs is None else []
    asks += ["choices"] if Functionality.CHOICE in load.needs else []
    if asks:
        words = f"{' and '.join(asks)} are asked for in every round here"
        yield "at most", f"{words}; where the algorithm does so in some alone, as CFL when it may split, the others cost less"
    if measured.hands_models:
        several = load.slots if Functionality.SLOTS in load.needs else 1
        whole = f"{several} models" if several > 1 else "the model"
        more = byte_words(several * PARAMETER * load.parameters)
        when = "(always, for methods with slots)" if several > 1 else "(serve --ask-scores)"
        asked = f"a client that is asked how well it predicts {when} is sent {whole} for it"
        yield "scores", f"not counted: {asked}, {more} more down in each round that is evaluated"
    yield "links", LINKS
