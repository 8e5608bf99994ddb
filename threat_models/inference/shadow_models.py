"""Shadow models and shadow updates: what an adversary trains on public data of the same kind, by the clients' own local
training.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional

from ...crypto.prg import KEY_BYTES
from ...fl.clients.fast import Fast
from ...fl.clients.stacked import linear_layers
from ...fl.clients.training import Job, Training
from ...fl.data.population import Examples
from ...fl.models.vector import to_vector
from .record_membership import Membership, Scores, pieces

TOGETHER = 64
"""Models whose outputs are computed at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Shadows:
    """inside: bool (models, records), which record which model was trained on, each with probability half. models: float32
    (models, d).
    """

    inside: Membership = field(repr=False)
    models: NDArray[np.float32] = field(repr=False)

    def confidences(self, module: nn.Module, records: Examples) -> Scores:
        """Of the true labels, float64 (models, records). records: any, those trained on or others."""
        return confidences(module, self.models, records)


def train_shadows(module: nn.Module, records: Examples, training: Training, models: int, rng: np.random.Generator) -> Shadows:
    """Models trained from the module's parameters, each on half of the records (Carlini et al. 2022).

    Every record is in exactly half of the models (rounded up for one of the two sides), so each is seen from both. training: its
    epochs are all the training that there is. Raises ValueError for fewer than two models.
    """
    if models < 2:
        raise ValueError("a record needs a model with it and one without; train two at least")
    order = np.stack([rng.permutation(models) for _ in range(len(records))], axis=1)
    inside = order < models // 2
    for member in inside:  # a model without any record has nothing to learn from
        member[0] |= not member.any()
    parts = [records.take(torch.from_numpy(np.flatnonzero(member))) for member in inside]
    start = to_vector(module)
    return Shadows(inside, start + shadow_updates(module, start, parts, training, rng))


def shadow_updates(
    module: nn.Module,
    start: NDArray[np.float32],
    parts: Sequence[Examples],
    training: Training,
    rng: np.random.Generator,
    round: int = 0,
) -> NDArray[np.float32]:
    """What clients with these data would send from `start`: float32 (parts, d); where they train with noise, with other noise."""
    jobs = [Job(i, start, part, int(rng.integers(2**62))) for i, part in enumerate(parts)]
    if training.privacy is not None:
        jobs = [replace(job, secret=rng.bytes(KEY_BYTES)) for job in jobs]
    return np.stack([update for _, update in Fast(workers=1)(module, jobs, training, round)])


def confidences(module: nn.Module, models: NDArray[np.float32], records: Examples) -> Scores:
    """Probabilities of the true labels: float64 (models, records). models: float32 (models, d); perceptrons side by side."""
    with torch.no_grad():
        if linear_layers(module) is None:
            outputs = [functional_call(module, pieces(module, model), (records.x,)) for model in models]
        else:
            starts = range(0, len(models), TOGETHER)
            outputs = [each for at in starts for each in _outputs(module, models[at : at + TOGETHER], records)]
        found = [functional.softmax(each.double(), dim=1).gather(1, records.y[:, None])[:, 0].numpy() for each in outputs]
        return np.asarray(np.stack(found))


def _outputs(module: nn.Module, models: NDArray[np.float32], records: Examples) -> Tensor:
    """(models, records, classes)."""
    each = [pieces(module, model) for model in models]
    stacked = {name: torch.stack([one[name] for one in each]) for name in each[0]}
    found: Tensor = vmap(lambda parameters: functional_call(module, parameters, (records.x,)))(stacked)
    return found
