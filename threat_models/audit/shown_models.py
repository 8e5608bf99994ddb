"""What a corrupt client makes of the models that others show it, to have its records embedded their way (EMD-CFL)."""

from collections.abc import Iterator, Mapping
from copy import deepcopy

import numpy as np
from numpy.typing import NDArray

from ...fl.algorithms.emd_cfl import EMDCFL
from ...fl.emd.embedding import OwnEmbedding
from ...protocol.view.answers import Vector
from .clouds import models_shown
from .reading import Instance
from .view import CorruptView

Matrix = NDArray[np.float64]


def updates_shown(view: CorruptView, known: Mapping[Instance, Matrix]) -> Iterator[tuple[Instance, Matrix]]:
    """Updates of the clients whose embedding models the observer opened, exact before the head: float64 (d,).

    known: what is made of them otherwise, of which the head's part is kept; 0 without it. Nothing of rounds of which the observer
    does not know what clients started from.
    """
    shown = models_shown(view) if isinstance(view.public.algorithm, EMDCFL) and view.held else {}
    if not shown:
        return
    embeds = OwnEmbedding(deepcopy(view.public.module).cpu(), view.public.algorithm.embedding)
    for (round, client), weights in shown.items():
        start = _start(view, round, client)
        if start is not None:
            key: Instance = (round, "update", client)
            moved = weights.astype(np.float64) - embeds.weights_of(start)
            yield key, embeds.put(moved, known.get(key, np.zeros(len(start))))


def _start(view: CorruptView, round: int, client: int) -> Vector | None:
    found = view.models.get((round, client))
    if found is not None or round:
        return found
    return view.public.initial  # of the first round everybody knows it
