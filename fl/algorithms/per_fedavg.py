"""Per-FedAvg: federated averaging of a meta-model that each client makes its own by one step (Fallah et al., NeurIPS 2020).

min (1/n) sum_i f_i(w - alpha grad f_i(w)). Clients take tau steps of estimates of that gradient (`MetaSteps`; the training's lr
is beta), the server averages what they end with, uniformly as in Algorithm 1. It needs what FedAvg needs.

Where the paper is silent: the epochs and batches of a scenario say how many steps there are; a client's own model is one step of
its full gradient away.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from torch import nn

from ..clients.meta import MetaSteps, adapted
from ..clients.training import Job
from .fedavg import FedAvg


@dataclass(frozen=True, slots=True, kw_only=True)
class PerFedAvg(FedAvg):
    """alpha: the step that makes a model a client's own. kind: of the meta-gradient. delta: as in `MetaSteps`."""

    alpha: float
    kind: Literal["first order", "Hessian-free"] = "first order"
    delta: float = 1e-3
    by_samples: bool = False

    def __post_init__(self) -> None:
        FedAvg.__post_init__(self)
        MetaSteps(self.alpha, self.kind, self.delta)

    @property
    def executes(self) -> MetaSteps:
        """How clients train."""
        return MetaSteps(self.alpha, self.kind, self.delta)

    def adapt(self, module: nn.Module, job: Job, /) -> NDArray[np.float32]:
        """The model that a client uses, from the cluster's: float32, shape (d,)."""
        return adapted(module, job, self.alpha)
