"""Attacks on the labels of a member's training data (attacks of group 5.2). Inputs stay as they are."""

from copy import deepcopy
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from ..fl.clients.losses import IGNORED
from ..fl.clients.training import EVALUATION_BATCH
from ..fl.data.population import Examples
from ..fl.functions import brief
from ..fl.models.vector import load_vector
from ..fl.own import is_part_of_ours
from .knowledge import Situation


def relabelled(examples: Examples, y: Tensor) -> Examples:
    """The examples with labels y where there was a label; padding stays padding."""
    return replace(examples, y=torch.where(examples.y == IGNORED, examples.y, y))


def labels_alone(examples: Examples) -> Tensor:
    """The labels, int64 (n,). Raises ValueError for token data, whose targets are no labels."""
    if examples.y.ndim != 1:
        raise ValueError("this attack flips one label an example; token data has a target for every word")
    return examples.y


def check_rate(name: str, rate: float) -> None:
    """Raise ValueError unless the rate is from 0 to 1."""
    if not 0 <= rate <= 1:
        raise ValueError(f"{name} is from 0 to 1, not {rate}")


def check_class(name: str, label: object) -> None:
    """Raise ValueError unless it is a whole number from 0, as labels are, or None."""
    if label is not None and (isinstance(label, bool) or not isinstance(label, int | np.integer) or label < 0):
        raise ValueError(f"{name} is the number of a class, from 0, not {brief(label)}")


def check_among(attack: object, classes: int) -> None:
    """Raise ValueError where a source or target of the attack, or of one inside it, is no class of the data."""
    for name in ("source", "target"):
        label = getattr(attack, name, None)
        if isinstance(label, int | np.integer) and label >= classes:
            said = f"{type(attack).__name__}({name}={label})"
            raise ValueError(f"{said}: the data have {classes} classes, 0 to {classes - 1}")
    for field in fields(attack) if is_part_of_ours(attack) else ():
        check_among(getattr(attack, field.name), classes)


@dataclass(frozen=True, slots=True)
class LabelFlip:
    """y -> C - 1 - y on all examples (Fang et al. 2020); or source -> target alone (Tolpegin et al. 2020)."""

    source: int | None = None
    target: int | None = None

    def __post_init__(self) -> None:
        if (self.source is None) != (self.target is None):
            raise ValueError("give both source and target, or neither")
        check_class("source", self.source)
        check_class("target", self.target)

    def __call__(self, situation: Situation, /) -> Examples:
        check_among(self, situation.classes)
        y = situation.examples.y
        if self.source is None or self.target is None:
            return relabelled(situation.examples, situation.classes - 1 - y)
        return relabelled(situation.examples, torch.where(y == self.source, self.target, y))


@dataclass(frozen=True, slots=True)
class SwappedLabels:
    """Two labels change places: who trains so is a loyal client of data in which they mean each other (`swap_theory.py`).

    Worst by members who hold most examples of the two. Permuted labels (Sattler et al. 2020) make groups of clients alike.
    """

    source: int = 0
    target: int = 1

    def __post_init__(self) -> None:
        check_class("source", self.source)
        check_class("target", self.target)
        if self.source is None or self.target is None or self.source == self.target:
            raise ValueError("give two labels that change places, source and target")

    def __call__(self, situation: Situation, /) -> Examples:
        check_among(self, situation.classes)
        y = labels_alone(situation.examples)
        swapped = torch.where(y == self.source, self.target, torch.where(y == self.target, self.source, y))
        return relabelled(situation.examples, swapped)


@dataclass(frozen=True, slots=True)
class DynamicLabelFlip:
    """y -> argmin_c p_c(x) of the model that the member opened, anew in every round (Shejwalkar et al. 2022)."""

    def __call__(self, situation: Situation, /) -> Examples:
        labels_alone(situation.examples)
        local = deepcopy(situation.module).eval()
        load_vector(local, situation.start)
        device = next(local.parameters()).device
        with torch.no_grad():
            pieces = [local(x.to(device)).argmin(1).cpu() for x in torch.split(situation.examples.x, EVALUATION_BATCH)]
        return relabelled(situation.examples, torch.cat(pieces))


@dataclass(frozen=True, slots=True)
class LabelShuffle:
    """The member's labels in a random order: each label stays as frequent as it was."""

    def __call__(self, situation: Situation, /) -> Examples:
        y = labels_alone(situation.examples)
        return relabelled(situation.examples, y[torch.from_numpy(situation.data_rng.permutation(len(y)))])


@dataclass(frozen=True, slots=True)
class SymmetricNoise:
    """Each label is replaced with probability `rate` by one of the C - 1 others, uniformly."""

    rate: float

    def __post_init__(self) -> None:
        check_rate("rate", self.rate)

    def __call__(self, situation: Situation, /) -> Examples:
        y, rng = labels_alone(situation.examples), situation.data_rng
        hit = torch.from_numpy(rng.random(len(y)) < self.rate)
        other = (y + torch.from_numpy(rng.integers(1, situation.classes, len(y)))) % situation.classes
        return relabelled(situation.examples, torch.where(hit, other, y))


@dataclass(frozen=True, slots=True)
class PairNoise:
    """Each label y is replaced by y + 1 mod C with probability `rate`."""

    rate: float

    def __post_init__(self) -> None:
        check_rate("rate", self.rate)

    def __call__(self, situation: Situation, /) -> Examples:
        y = labels_alone(situation.examples)
        hit = torch.from_numpy(situation.data_rng.random(len(y)) < self.rate)
        return relabelled(situation.examples, torch.where(hit, (y + 1) % situation.classes, y))
