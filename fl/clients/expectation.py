"""Soft choice among K models, example by example: the client's side of FedEM and FedRC.

The client sees itself as drawn from a mixture of the K models with weights pi of its own, which it keeps to itself. From them and
the models' losses follows how much of each example every model answers for (the E-step); by that it weighs the example in the
training of each model (the M-step).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .slots import Piece, SlotInputs, SlotWork, Values

PI = "pi"
"""What a client keeps its weights of the models as."""


def responsibilities(pi: Values, scores: Values) -> Values:
    """q_ks = softmax_k(log pi_k + scores_ks): float64 (K, n), columns that add up to 1.

    A model of weight 0 answers for nothing, and never will. Where no model has a score above -inf, q_ks is pi_k.
    """
    with np.errstate(divide="ignore"):
        logits = np.log(pi)[:, None] + scores
    top = logits.max(axis=0)
    lost = np.isneginf(top)
    found = np.exp(logits - np.where(lost, 0.0, top))
    found[:, lost] = pi[:, None]
    return np.asarray(found / found.sum(axis=0))


def pi_of(seen: SlotInputs) -> Values:
    """What the client kept, or 1 / K each."""
    return np.asarray(seen.kept[PI]) if PI in seen.kept else np.full(len(seen.models), 1 / len(seen.models))


def weighed(seen: SlotInputs, scores: Values) -> Values:
    """The weights by which a client predicts: those that it kept; of one that never took part, those of one E-step."""
    return pi_of(seen) if PI in seen.kept else np.asarray(responsibilities(pi_of(seen), scores).mean(axis=1))


def soft(seen: SlotInputs, scores: Values, share: int, beside: Callable[[Values], NDArray[np.float32]] | None = None) -> SlotWork:
    """One E-step, then training from every model on the examples as it answers for them; `share` in every slot.

    beside: of q, the client's part of the numbers beside each model.
    """
    q = responsibilities(pi_of(seen), scores)
    pieces = tuple(Piece(model, (k,), q[k].astype(np.float32)) for k, model in enumerate(seen.models))
    kept = {PI: q.mean(axis=1)}
    return SlotWork((share,) * len(q), pieces, kept, None if beside is None else beside(q))
