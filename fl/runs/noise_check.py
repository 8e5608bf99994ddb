"""Whether the epsilon of a scenario's noise would hold for all that the scenario releases about the same data."""

from contextlib import suppress
from copy import deepcopy
from typing import Any

import numpy as np

from ...protocol.core.errors import Refused
from ...protocol.view.functionality import EMBEDDING_MODEL, FULL_GRADIENTS, NUMBER_OF_EXAMPLES, Functionality
from ...protocol.view.noise_free import check_acknowledged
from ...protocol.view.protection import Protection
from ..algorithms.algorithm import Algorithm
from ..clients.cosine_pull import CosinePull
from ..clients.fast import Fast
from ..clients.record_privacy import BESIDE, OF, RecordPrivacy
from ..clients.training import Executor, PlainLoop, Training

TRIED_ON = (12, 30)
"""Clients of the updates that a rule is tried on."""


def check_noise(algorithm: Algorithm, protection: Protection, trained_privately: bool = False) -> None:
    """Raises Refused, in one line, for weights that noise cannot cover, and for noise-free answers that are not acknowledged.

    Noise of a protection covers sums. Noise of a choice covers what clients release to be compared; sums that have noise have an
    epsilon of their own, of another ledger, which that one names. trained_privately: whether clients train by DP-SGD, so that
    what is made of their updates is in the ledger of what they release to be compared, too.
    """
    of_sums: Any = getattr(protection, "noise", None)
    needs = set(algorithm.needs if of_sums is None else getattr(algorithm, "needs_under_noise", algorithm.needs))
    if of_sums is not None:
        if getattr(algorithm, "by_samples", False):
            raise Refused(
                f"{type(algorithm).__name__} weighs clients by their samples, which noise cannot cover: it is made"
                " for uniform weights; set algorithm.by_samples=False"
            )
        if (rule := getattr(algorithm, "rule", None)) is not None and _weighs_unequally(rule):
            raise Refused(
                f"{type(rule).__name__} weighs clients unequally, which noise cannot cover: every sum would be refused; take a"
                " rule that averages those whom it keeps, like MultiKrum, or leave the noise out"
            )
        try:
            check_acknowledged(needs - {Functionality.SUMS}, of_sums.acknowledge, "protection.noise", "the sums under noise")
        except Refused as error:
            more = ", ".join(sorted(needs - set(algorithm.needs)))
            words = f"; under noise {type(algorithm).__name__} asks for {more} besides, which tells more than without noise"
            raise Refused(f"{error}{words if more else ''}") from None
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
    if trained_privately and of_pairs.unit == "record":
        beside &= {name for name in BESIDE if name != Functionality.PAIRS}
    if getattr(choice, "embedding", "public") == "exchanged" and not of_pairs.trained_privately:
        beside |= {EMBEDDING_MODEL}
    check_acknowledged(
        beside, of_pairs.acknowledge, "algorithm.choice.noise", f"the {type(choice).__name__} under noise that clients release"
    )


def _weighs_unequally(rule: Any) -> bool:
    """Whether a rule gives those whom it keeps unlike weights, on some made-up updates; not where it cannot be tried on them."""
    rng, found = np.random.default_rng(0), []
    for n in TRIED_ON:
        rows = rng.standard_normal((n, n))
        rows[: n // 6] *= 10
        with suppress(Exception):  # of a rule of the user's own, or one that needs a root
            weights = np.asarray(deepcopy(rule).weights(rows @ rows.T, rng), np.float64)
            kept = weights[weights != 0]
            found.append(kept.size > 0 and float(np.ptp(kept)) > 1e-9 * float(np.abs(kept).max()))
    return any(found)


def check_training(algorithm: Algorithm, training: Training, execution: Executor, validation: float) -> None:
    """Raises Refused, in one line, where DP-SGD does not do the training, or what clients tell besides voids its epsilon.

    Work for slots weighs examples, or takes models, by losses on the client's own records, without noise and without telling:
    what is added up before the noise then depends on records beyond their clipped gradients, and nothing that could be
    acknowledged says by how much. A choice that clients tell is another matter: they train from what all know by then, and the
    choice is named. Under replacement the number of a client's examples is public, and what counts samples tells nothing new.
    """
    privacy, name = training.privacy, type(algorithm).__name__
    if privacy is None:
        return
    executes = getattr(algorithm, "executes", execution)
    if not isinstance(executes, Fast | PlainLoop | CosinePull):
        raise Refused(f"{name} trains by {type(executes).__name__}, which adds no noise; take training.privacy=None")
    if getattr(algorithm, "in_slots", None) is not None or Functionality.SLOTS in algorithm.needs:
        raise Refused(
            f"clients of {name} weigh examples or choose models by losses on their records, without noise and untold, so that no"
            " epsilon of DP-SGD holds for a record; take training.privacy=None"
        )
    if privacy.adjacency == "add or remove" and validation > 0:
        raise Refused(
            "what is held out for validation is drawn by position, and one record more or less moves all others;"
            ' set validation=0 or training.privacy.adjacency="replace"'
        )
    told: set[str] = {each.value for each in algorithm.needs} & BESIDE
    told |= {FULL_GRADIENTS} if getattr(algorithm, "full_gradients", False) else set()
    told |= {NUMBER_OF_EXAMPLES} if privacy.adjacency == "add or remove" else set()
    of_pairs: Any = getattr(getattr(algorithm, "choice", None), "noise", None)
    if of_pairs is not None and of_pairs.unit == "record":
        _check_alike(privacy, of_pairs)
        told -= {Functionality.PAIRS.value}
    check_acknowledged(told, privacy.acknowledge, "training.privacy", OF)


def _check_alike(privacy: RecordPrivacy, of_pairs: Any) -> None:
    """Raises Refused unless training and comparisons can be in one ledger."""
    if (privacy.adjacency, privacy.delta, privacy.budget) != ("replace", of_pairs.delta, of_pairs.budget):
        raise Refused(
            "training and comparisons with noise are about the same records, and count together: give training.privacy the"
            f' adjacency "replace", delta={of_pairs.delta} and budget={of_pairs.budget} of algorithm.choice.noise'
        )
