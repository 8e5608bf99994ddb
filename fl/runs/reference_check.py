"""Whether clients have anything to measure a reference distance on, where their algorithm asks them for one."""

from ...protocol.core.errors import Refused
from ...protocol.pairs.choices import MeanSketch
from ..algorithms.compared import BringsEmbedders, ByEmbeddings


def measures_references(algorithm: object) -> bool:
    """Whether each client measures how far apart its own data are. The reference of a mean sketch is a public number."""
    if isinstance(algorithm, BringsEmbedders) or not isinstance(algorithm, ByEmbeddings):
        return False
    return not isinstance(algorithm.choice, MeanSketch)


def check_references(algorithm: object, validation: float) -> None:
    """Raises Refused, in one line, where nothing is held out that a client could be measured against itself by.

    validation: the share of a client's training data that is held out.
    """
    if measures_references(algorithm) and validation == 0:
        raise Refused(
            f"clients of {type(algorithm).__name__} measure a reference distance on what they hold out, and validation is 0;"
            " set validation of the scenario, to 0.1 for the paper's"
        )
