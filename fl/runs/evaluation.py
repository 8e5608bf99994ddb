"""Accuracy, loss and other measures of models on clients' examples."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import exp, inf, nan
from types import MappingProxyType
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ..clients.losses import CROSS_ENTROPY, IGNORED, LossFunction, counts, losses, right
from ..clients.measures import Measure
from ..clients.training import EVALUATION_BATCH
from ..data.population import Examples
from ..models.fit import takes_together
from ..models.vector import load_vector

_TOGETHER: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
"""Of modules that were tried, whether what they make of a record depends on others beside it."""
FEW = 8
"""Clients, and records of each, that a module is tried on for that."""


@dataclass(frozen=True, slots=True)
class ModelScore:
    """How a model does on some examples. accuracy: NaN of targets that are numbers. loss: the mean over targets that are not
    padding; cross entropy in nats, unless clients train by another. measures: further ones, by name; NaN where not defined.
    """

    accuracy: float
    loss: float
    measures: Mapping[str, float] = field(default_factory=dict)

    @property
    def perplexity(self) -> float:
        """exp(loss), the measure of language models; infinite where it exceeds a float."""
        return exp(self.loss) if self.loss < 709 else inf


@dataclass(frozen=True, slots=True, eq=False)
class ScoringJob:
    """One model, float32 shape (d,), to be scored on one client's examples."""

    client: int
    vector: NDArray[np.float32]
    examples: Examples


def accuracies(
    module: nn.Module,
    evaluations: Sequence[ScoringJob],
    loss: str | LossFunction = CROSS_ENTROPY,
    measures: Mapping[str, Measure] = MappingProxyType({}),
    batch: int = EVALUATION_BATCH,
) -> dict[int, ModelScore]:
    """The score of every client, in evaluation mode; buffers and device are the module's, which is not changed.

    Clients that share one vector (the same object) are scored in common batches, of at most `batch` examples; each by itself
    where the module predicts for several records together, as clients apart do. Raises ValueError for a client without examples
    or with padding only, and for one that is named twice.
    """
    return _accuracies(deepcopy(module).eval(), evaluations, loss, measures, batch, _apart(module, evaluations))


def accuracies_in(
    local: nn.Module,
    evaluations: Sequence[ScoringJob],
    loss: str | LossFunction = CROSS_ENTROPY,
    measures: Mapping[str, Measure] = MappingProxyType({}),
    batch: int = EVALUATION_BATCH,
) -> dict[int, ModelScore]:
    """`accuracies` in a module that is in evaluation mode, and has another model each time: no copy of it is made."""
    return _accuracies(local, evaluations, loss, measures, batch, _apart(local, evaluations))


def _apart(module: nn.Module, evaluations: Sequence[ScoringJob]) -> bool:
    """Whether a client's score would depend on the records of others that are scored beside."""
    if len(evaluations) < 2:
        return False
    if (known := _TOGETHER.get(module)) is None:
        some = torch.cat([one.examples.x[:FEW] for one in evaluations[:FEW]])
        known = _TOGETHER[module] = takes_together(module, some)
    return known


def _accuracies(
    local: nn.Module,
    evaluations: Sequence[ScoringJob],
    loss: str | LossFunction,
    measures: Mapping[str, Measure],
    batch: int,
    apart: bool,
) -> dict[int, ModelScore]:
    groups: dict[tuple[int, int], list[ScoringJob]] = {}
    seen: set[int] = set()
    for evaluation in evaluations:
        if evaluation.client in seen:
            raise ValueError(f"client {evaluation.client} is named twice; score one model of it at a time")
        if not bool(counts(evaluation.examples.y).any()):
            raise ValueError(f"client {evaluation.client} has no examples to score a model on; leave it out")
        seen.add(evaluation.client)
        groups.setdefault((id(evaluation.vector), evaluation.client if apart else 0), []).append(evaluation)
    scores: dict[int, ModelScore] = {}
    for group in groups.values():
        load_vector(local, group[0].vector)
        scores.update(scores_of(local, group, loss, measures, batch))
    return {evaluation.client: scores[evaluation.client] for evaluation in evaluations}


def scores_of(
    module: nn.Module,
    group: Sequence[ScoringJob],
    loss: str | LossFunction = CROSS_ENTROPY,
    measures: Mapping[str, Measure] = MappingProxyType({}),
    batch: int = EVALUATION_BATCH,
) -> dict[int, ModelScore]:
    """Scores of clients by the module as it stands."""
    sizes = [len(evaluation.examples) for evaluation in group]
    whole = Examples(torch.cat([e.examples.x for e in group]), torch.cat([e.examples.y for e in group]))
    each, hits = by_target(module, whole, loss, batch)
    outputs = torch.split(_outputs(module, whole, batch), sizes) if measures else [None] * len(sizes)
    scores = {}
    for evaluation, lost, hit, given in zip(group, torch.split(each, sizes), torch.split(hits, sizes), outputs, strict=True):
        y = evaluation.examples.y
        counted = counts(y)
        accuracy = nan if y.is_floating_point() else float(hit[counted].double().mean())
        further = {} if given is None else {name: measure(given.numpy(), y.numpy()) for name, measure in measures.items()}
        mean = lost[counted if lost.shape == y.shape else ...].double().mean()
        scores[evaluation.client] = ModelScore(accuracy, float(mean), {name: float(value) for name, value in further.items()})
    return scores


def _outputs(module: nn.Module, examples: Examples, batch: int) -> Tensor:
    """What the module puts out, on the CPU: float32 (n, k)."""
    device = next(module.parameters()).device
    with torch.no_grad():
        found = torch.cat([module(x.to(device)).cpu() for x in torch.split(examples.x, _size(examples, batch))])
    return found.unsqueeze(1) if found.ndim == 1 else found


def mixed_score(modules: Sequence[nn.Module], weights: NDArray[np.float64], examples: Examples) -> ModelScore:
    """Of the mixture of these models: the probability of a target is the mean of theirs, with these weights, which add up to 1.

    modules: as they stand. Raises ValueError for examples without a target to score on.
    """
    device, loss, right, count = next(modules[0].parameters()).device, 0.0, 0, 0
    shares = torch.log(torch.from_numpy(weights)).view(-1, 1, 1)
    with torch.no_grad():
        for x, y in zip(torch.split(examples.x, EVALUATION_BATCH), torch.split(examples.y, EVALUATION_BATCH), strict=True):
            counted = y.flatten() != IGNORED
            logits = torch.stack([module(x.to(device)).flatten(0, -2).cpu().double() for module in modules])
            mixed = torch.logsumexp(functional.log_softmax(logits, dim=2) + shares, dim=0)[counted]
            target = y.flatten()[counted]
            loss -= float(mixed.gather(1, target.unsqueeze(1)).sum())
            right += int((mixed.argmax(1) == target).sum())
            count += len(target)
    if not count:
        raise ValueError("there are no examples to score a mixture on")
    return ModelScore(right / count, loss / count)


def by_example(module: nn.Module, examples: Examples) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The mean loss of each example's targets that are not padding, infinite where it is not a number, and how many these are:
    float64 and int64, (n,). An example of padding alone has loss 0."""
    each, _ = by_target(module, examples)
    counted = counts(examples.y).view(len(examples), -1)
    summed = torch.where(counted, each.view(len(examples), -1).double(), 0.0).sum(1)
    found = (summed / counted.sum(1).clamp(min=1)).numpy()
    return np.where(np.isfinite(found), found, np.inf), counted.sum(1).numpy()


def by_target(
    module: nn.Module, examples: Examples, loss: str | LossFunction = CROSS_ENTROPY, batch: int = EVALUATION_BATCH
) -> tuple[Tensor, Tensor]:
    """The loss, float32, and whether the prediction is right, bool, of each target, shaped like `examples.y`, on the CPU.

    Of numbers none is right. A loss of one's own may be of records, (n,).
    """
    device, size = next(module.parameters()).device, _size(examples, batch)
    found, hits = [], []
    with torch.no_grad():
        for x, y in zip(torch.split(examples.x, size), torch.split(examples.y, size), strict=True):
            outputs, targets = module(x.to(device)), y.to(device)
            found.append(losses(outputs, targets, loss).cpu())
            hits.append(torch.zeros(y.shape, dtype=torch.bool) if y.is_floating_point() else right(outputs, targets).cpu())
    return torch.cat(found), torch.cat(hits)


def _size(examples: Examples, batch: int) -> int:
    """Of batches that leave no record alone, where a module may need two."""
    return batch + (len(examples) > batch > 1 and len(examples) % batch == 1)
