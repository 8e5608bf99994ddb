"""Which losses an audit's attacks can work with, and what to know of those that are not cross entropy."""

from collections.abc import Mapping
from typing import Any

from ..fl.clients.losses import CROSS_ENTROPY
from ..fl.clients.training import Training
from ..fl.data.population import Population


def check_of_labels(training: Training, population: Population) -> None:
    """Raises ValueError, with what to do, for runs whose models do not put out a number for each label: attacks are on those."""
    what = "an audit's attacks are on labels, with an output for each"
    if next(iter(population.clients.values())).train.y.is_floating_point():
        raise ValueError(f"{what}, and targets are numbers: audit the same with labels made of them, above or below a bound")
    if isinstance(training.loss, str) and training.loss != CROSS_ENTROPY:
        loss = f"training.loss is {training.loss!r}"
        raise ValueError(f"{what}, and {loss}: audit the same with {CROSS_ENTROPY!r} and an output for each label")


def notes_on_loss(described: Mapping[str, Any]) -> list[str]:
    """described: a scenario as a run folder has it. A line where its loss is one of the user's own."""
    training = described.get("training")
    if not isinstance(training, Mapping) or training.get("loss", CROSS_ENTROPY) == CROSS_ENTROPY:
        return []
    return [
        "records are told by the loss that clients train by; attacks that read labels or records out of an update take it for one"
        f" of {CROSS_ENTROPY}, so that one made for this loss may find more"
    ]
