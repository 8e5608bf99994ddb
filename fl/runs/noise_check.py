"""Whether the epsilon of a scenario's noise would hold for all that the scenario releases about the same data."""

from typing import Any

from ...protocol.core.errors import Refused
from ...protocol.view.functionality import EMBEDDING_MODEL, Functionality
from ...protocol.view.noise_free import check_acknowledged
from ...protocol.view.protection import Protection
from ..algorithms.algorithm import Algorithm


def check_noise(algorithm: Algorithm, protection: Protection) -> None:
    """Raises Refused, in one line, for weights that noise cannot cover, and for noise-free answers that are not acknowledged.

    Noise of a protection covers sums. Noise of a choice covers what clients release to be compared; sums that have noise have an
    epsilon of their own, of another ledger, which that one names.
    """
    of_sums: Any = getattr(protection, "noise", None)
    needs = set(algorithm.needs if of_sums is None else getattr(algorithm, "needs_under_noise", algorithm.needs))
    if of_sums is not None:
        if getattr(algorithm, "by_samples", False):
            raise Refused(
                f"{type(algorithm).__name__} weighs clients by their samples, which noise cannot cover: it is made"
                " for uniform weights; set algorithm.by_samples=False"
            )
        check_acknowledged(needs - {Functionality.SUMS}, of_sums.acknowledge, "protection.noise", "the sums under noise")
        if {Functionality.GRAM_ORIGIN, Functionality.GRAM_EDGE} <= needs and getattr(protection, "keys", None) == "session":
            raise Refused(
                f"{type(algorithm).__name__} remembers splits by differences, and sums under noise make it compare the same"
                " updates about the origin; set algorithm.remember=False"
            )
    choice: Any = getattr(algorithm, "choice", None)
    of_pairs: Any = getattr(choice, "noise", None)
    if of_pairs is None:
        return
    beside: set[str] = {each.value for each in needs if each != Functionality.PAIRS}
    beside -= {Functionality.SUMS.value} if of_sums is not None else set()
    if getattr(choice, "embedding", "public") == "exchanged" and not of_pairs.trained_privately:
        beside |= {EMBEDDING_MODEL}
    check_acknowledged(
        beside, of_pairs.acknowledge, "algorithm.choice.noise", f"the {type(choice).__name__} under noise that clients release"
    )
