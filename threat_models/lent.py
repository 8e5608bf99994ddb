"""What somebody's own attack is given: copies, so that what it writes into them changes nothing for others or for later rounds.

A member's own examples, the architecture and vectors are copied for one call, and are gone after it.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import fields, replace
from typing import Any

import numpy as np
from torch import Tensor, nn

from ..fl.data.population import Examples
from ..protocol.view.work import LocalWork
from .knowledge import Colluding, Situation
from .offers import Offered

OPENED = (Situation, Colluding, Offered, LocalWork, Examples)
"""Of which each field is a copy; of what else is known nothing can be written to, or it is the attack's own."""


def lent(found: Any, /) -> Any:
    """The same, in copies."""
    if isinstance(found, OPENED):
        return replace(found, **{one.name: lent(getattr(found, one.name)) for one in fields(found)})
    if isinstance(found, Mapping):
        return {key: lent(value) for key, value in found.items()}
    if isinstance(found, tuple):
        return tuple(map(lent, found))
    if isinstance(found, nn.Module):
        return deepcopy(found)
    if isinstance(found, Tensor):
        return found.clone()
    return found.copy() if isinstance(found, np.ndarray) else found
