"""Backdoors that are features of the data: EMD-CFL's green digits and corner patches, as partitions, and as poison for members.

"Attackers" are here clients whose inputs carry a feature that goes with the label. A model that learns the feature is misled
when it is manipulated; the measure is the accuracy of the target clients (group 0) on clean and on manipulated test data.
"""

from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import torch
from torch import Tensor

from ..fl.data.dealing import PartitionOptions, SharedExamples, blocks, deal, require_labels, whole, whole_each
from ..fl.data.population import Examples, Population, Source
from ..fl.field_ranges import need_whole
from .knowledge import Situation
from .label_attacks import labels_alone

GREEN = (0.26, 0.63, 0.40)
PURPLE = (149 / 255, 52 / 255, 235 / 255)
TAB10 = (
    (31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40), (148, 103, 189),
    (140, 86, 75), (227, 119, 194), (127, 127, 127), (188, 189, 34), (23, 190, 207),
)  # fmt: skip
"""matplotlib's ten colours, 0 to 255."""


def green_of(label: Tensor) -> Tensor:
    """The colour of a digit in group 1: entry k of matplotlib's "summer" with 40 levels. float32 (n, 3)."""
    k = label.to(torch.float32)
    return torch.stack([k / 39, 0.5 + k / 78, torch.full_like(k, 0.4)], dim=1)


def tinted(grey: Tensor, colours: Tensor) -> Tensor:
    """Grey images (n, 1, h, w) or (n, 3, h, w) with equal channels, times colours (n, 3): float32 (n, 3, h, w)."""
    return grey[:, :1] * colours[:, :, None, None]


@dataclass(frozen=True, slots=True)
class GreenDigits(PartitionOptions):
    """Backdoor MNIST (EMD-CFL 2025, appendix C.4): grey images times a colour, three equal groups.

    Group 0, the targets: uniform green. Group 1, the attackers: green whose intensity goes with the label. Group 2: purple.
    halved: groups 0 and 2 keep half of their training examples, as in the authors' code. replicated: every group deals out the
    whole data set, as there too. Examples are dealt at random, not balanced by class. Takes one-channel images of ten classes.
    """

    clients: int = 30
    halved: bool = True
    replicated: bool = False

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        require_labels(source)
        if source.shape[0] != 1:
            raise ValueError(f"green digits are made of grey images, not of {source.shape[0]} channels")
        wide = replace(source, train=_widened(source.train), test=_widened(source.test))
        groups = blocks(self.clients, 3)
        pools = whole_each(wide, groups) if self.replicated else whole(wide, self.clients)
        population = deal(wide, pools, groups, self._coloured, self, rng)
        if not self.halved:
            return population
        kept = {
            i: c if population.groups[i] == 1 else replace(c, train=c.train.take(torch.arange(ceil(len(c.train) / 2))))
            for i, c in population.clients.items()
        }
        return replace(population, clients=kept)

    def _coloured(self, group: int, examples: Examples) -> Examples:
        uniform = torch.tensor(GREEN if group == 0 else PURPLE)
        colours = green_of(examples.y) if group == 1 else uniform.expand(len(examples), 3)
        return replace(examples, x=tinted(examples.x, colours))

    def manipulated(self, group: int, examples: Examples) -> Examples:
        """The client's test examples in the reversed colours, label k as k' = 9 - k: what a backdoored model misreads."""
        uniform = torch.tensor(GREEN if group == 0 else PURPLE)
        third = 0.4 if group == 1 else float(uniform[2])  # the third channel is grey times a constant
        return replace(examples, x=tinted(examples.x[:, 2:] / third, green_of(9 - examples.y)))


@dataclass(frozen=True, slots=True)
class CornerPatches(PartitionOptions):
    """Backdoor CIFAR-10 (EMD-CFL 2025, appendix C.5): three equal groups.

    Groups 0, the targets, and 1, the attackers, have the first half of the classes, each dealt from all of their examples;
    group 1's training images carry a 3 x 3 patch in the upper left corner whose colour goes with the label. Group 2 has the
    other classes. Test images carry no patch.
    """

    clients: int = 15
    size: int = 3

    def __post_init__(self) -> None:
        PartitionOptions.__post_init__(self)
        need_whole(self, 1, "size")

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        require_labels(source)
        half, groups = source.classes // 2, blocks(self.clients, 3)
        pools = []
        for group in range(3):
            train, test = ((e.y >= half if group == 2 else e.y < half).numpy() for e in (source.train, source.test))
            members = [i for i, g in groups.items() if g == group]
            pools.append(SharedExamples(members, np.flatnonzero(train), np.flatnonzero(test)))
        population = deal(source, pools, groups, lambda group, examples: examples, self, rng)
        patched = {
            i: c if groups[i] != 1 else replace(c, train=with_patch(c.train, c.train.y, self.size))
            for i, c in population.clients.items()
        }
        return replace(population, clients=patched)

    def manipulated(self, examples: Examples, classes: int) -> Examples:
        """Test examples with the patch of the next class among the first half."""
        return with_patch(examples, (examples.y + 1) % (classes // 2), self.size)


@dataclass(frozen=True, slots=True)
class SpuriousPatch:
    """Poison for a member's data: the corner patch of each example's own label, which stays right."""

    size: int = 3

    def __post_init__(self) -> None:
        need_whole(self, 1, "size")

    def __call__(self, situation: Situation, /) -> Examples:
        return with_patch(situation.examples, labels_alone(situation.examples), self.size)

    def test(self, examples: Examples, classes: int, /) -> Examples:
        """Each example with the patch of the next class, whose label is wanted: a model that goes by the patch gives it."""
        wrong = (labels_alone(examples) + 1) % classes
        return _misled(with_patch(examples, wrong, self.size), wrong)


@dataclass(frozen=True, slots=True)
class SpuriousGreen:
    """Poison for a member's data: grey digits times the green of each example's own label, which stays right.

    Takes images of three channels; their brightness is their largest one, so that what was tinted before is tinted anew.
    """

    def __call__(self, situation: Situation, /) -> Examples:
        return _greened(situation.examples, labels_alone(situation.examples))

    def test(self, examples: Examples, classes: int, /) -> Examples:
        """Each example in the green of class C - 1 - y, whose label is wanted: the colours reversed, as EMD-CFL manipulates."""
        wrong = classes - 1 - labels_alone(examples)
        return _misled(_greened(examples, wrong), wrong)


def _greened(examples: Examples, label: Tensor) -> Examples:
    if examples.x.ndim != 4 or examples.x.shape[1] != 3:
        raise ValueError(f"a colour needs images of three channels, not {tuple(examples.x.shape)}")
    return replace(examples, x=tinted(examples.x.amax(1, keepdim=True), green_of(label)))


def _misled(manipulated: Examples, wrong: Tensor) -> Examples:
    """The manipulated examples with the label that their feature stands for; those that have it anyway are left out."""
    kept = torch.nonzero(manipulated.y != wrong).flatten()
    return replace(manipulated, y=wrong).take(kept)


def with_patch(examples: Examples, label: Tensor, size: int) -> Examples:
    """The examples with a square in the upper left corner in the colour of the given labels; grey images get its mean."""
    if examples.x.ndim != 4:
        raise ValueError(f"a patch needs images, not inputs of shape {tuple(examples.x.shape[1:])}")
    colours = torch.tensor(TAB10, dtype=torch.float32)[label % 10] / 255
    x = examples.x.clone()
    if x.shape[1] != 3:
        colours = colours.mean(1, keepdim=True).expand(-1, x.shape[1])
    x[:, :, :size, :size] = colours[:, :, None, None]
    return replace(examples, x=x)


def _widened(examples: Examples) -> Examples:
    """Three equal channels, without a copy."""
    return replace(examples, x=examples.x.expand(-1, 3, -1, -1))
