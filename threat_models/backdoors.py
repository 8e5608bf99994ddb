"""Backdoors in a member's training data (attacks of group 5.5)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import isroutine
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..fl.data.population import Examples
from ..fl.field_ranges import need_whole
from ..fl.functions import Unfit, brief, called
from ..protocol.view.answers import Vector
from .functions import check_trainable
from .knowledge import Situation
from .label_attacks import check_among, check_class, check_rate, labels_alone
from .triggers import Parts, Trigger, TriggerFunction, check_trigger, stamped


class Target(Protocol):
    """A backdoor as whoever measures it sees it: inputs that should be taken for something else."""

    def test(self, examples: Examples, classes: int, /) -> Examples:
        """Of test examples those that the backdoor is about, triggered, with the label that the attacker wants.

        Examples that have this label already are left out: a clean model would be counted as backdoored by them.
        """
        ...


class LearnedTarget(Protocol):
    """A backdoor whose inputs members learn during the run, so that it is a target only with what they have learned."""

    def given(self, learned: Mapping[str, Vector], /) -> Target:
        """The backdoor as members have it now. learned: what the harness keeps, `Situation.learned`."""
        ...


def as_learned(target: Target | LearnedTarget, learned: Mapping[str, Vector]) -> Target:
    """The target itself, or what it is by now where it is learned. Whoever measures success asks for this first."""
    found: Any = target
    resolved: Target = found.given(learned) if hasattr(target, "given") else found
    return resolved


def check_target(target: Any) -> None:
    """Raise Unfit for what cannot measure a backdoor: a class instead of one of it, or what has neither `test` nor `given`."""
    if isinstance(target, type):
        raise Unfit(f"a target is the class {called(target)} itself; make one of it: {target.__name__}(...)")
    if not callable(getattr(target, "test", getattr(target, "given", None))):
        raise Unfit(f"a target has test(examples, classes), as attacks.Backdoor; {called(target)}, {brief(target)}, has none")


def tested(target: Target, examples: Examples, classes: int) -> Examples:
    """What it makes of test examples. Raises Unfit, by its name, file and line, for what no model could be tested with."""
    found: object = target.test(examples, classes)
    if not isinstance(found, Examples):
        raise Unfit(f"{called(target)}.test returned {brief(found)}, where Examples(x, y) are taken")
    if len(found):
        check_trainable(target, examples, classes, found)
    return found


def misfit(target: Target | LearnedTarget | None, few: Examples, classes: int) -> str:
    """Why what it is after cannot be put into records like these, or is no change of them; empty where it can, or where it is
    after nothing.

    few: some of them, float32 (m, ...), with their labels. What one's own trigger raises beside ValueError is no misfit.
    """
    if target is None or not len(few):
        return ""
    try:
        made = as_learned(target, {})
        tested(made, few, classes)
        trigger: Any = getattr(made, "trigger", None)
        same = trigger is not None and torch.equal(stamped(trigger, few.x.clone()), few.x)
    except ValueError as error:
        return str(error)
    except Exception:
        return ""
    return f"{brief(trigger)} changes none of {len(few)} records" if same else ""


@dataclass(frozen=True, slots=True)
class Backdoor:
    """The trigger on a share of the training examples, with the label y* (BadNets, Gu et al. 2017; Chen et al. 2017 with Blend).

    target: y*; None for y + 1 mod C, all-to-all. source: only examples of this class are triggered, and only they count;
    None for all but y*. clean_label: the trigger goes on examples that are of class y* already, whose label is right.
    share: of the examples that may be triggered.
    """

    trigger: Trigger
    target: int | None = 0
    share: float = 0.5
    source: int | None = None
    clean_label: bool = False

    def __post_init__(self) -> None:
        check_trigger(self.trigger)
        if isroutine(self.trigger):
            object.__setattr__(self, "trigger", TriggerFunction(self.trigger))
        check_rate("share", self.share)
        check_class("target", self.target)
        check_class("source", self.source)
        if self.clean_label and (self.target is None or self.source is not None):
            raise ValueError("a clean-label backdoor has one target and no source")
        if self.source is not None and self.source == self.target:
            raise ValueError("source and target differ")

    def __call__(self, situation: Situation, /) -> Examples:
        check_among(self, situation.classes)
        examples = situation.examples
        y = labels_alone(examples)
        open_to = torch.eq(y, self.target or 0) if self.clean_label else self._about(y)
        chosen = drawn(open_to, self.share, situation.data_rng)
        return poisoned(examples, chosen, self.trigger, self._wanted(y[chosen], situation.classes))

    def test(self, examples: Examples, classes: int, /) -> Examples:
        check_among(self, classes)
        index = torch.nonzero(self._about(labels_alone(examples))).flatten()
        about = examples.take(index)
        return replace(about, x=stamped(self.trigger, about.x), y=self._wanted(about.y, classes))

    def _about(self, y: Tensor) -> Tensor:
        if self.source is not None:
            return y == self.source
        return torch.ones_like(y, dtype=torch.bool) if self.target is None else y != self.target

    def _wanted(self, y: Tensor, classes: int) -> Tensor:
        return (y + 1) % classes if self.target is None else torch.full_like(y, self.target)


@dataclass(frozen=True, slots=True)
class DistributedBackdoor:
    """DBA (Xie et al. 2020): member j trains with part j mod m of the trigger, and is tested with the whole."""

    parts: Parts
    target: int = 0
    share: float = 0.5

    def __post_init__(self) -> None:
        if not isinstance(self.parts, Parts) or not self.parts.parts:
            raise ValueError(f"parts are Parts((...)) of one trigger or more, not {brief(self.parts)}")
        check_class("target", self.target)
        check_rate("share", self.share)

    def __call__(self, situation: Situation, /) -> Examples:
        part = self.parts.parts[situation.place % len(self.parts.parts)]
        return Backdoor(part, self.target, self.share)(situation)

    def test(self, examples: Examples, classes: int, /) -> Examples:
        return Backdoor(self.parts, self.target, self.share).test(examples, classes)


@dataclass(frozen=True, slots=True)
class EdgeCase:
    """The share of the examples in the thinnest part of the data is labelled y*, the rest stays clean (Wang et al. 2020).

    No input is changed: the backdoor is that rare inputs are misread. Density: by the distance to the k-th nearest example.
    """

    target: int = 0
    share: float = 0.05
    neighbours: int = 5

    def __post_init__(self) -> None:
        need_whole(self, 1, "neighbours")
        check_class("target", self.target)
        check_rate("share", self.share)

    def __call__(self, situation: Situation, /) -> Examples:
        check_among(self, situation.classes)
        examples = situation.examples
        chosen = self._tail(examples)
        y = labels_alone(examples).clone()
        y[chosen] = self.target
        return replace(examples, y=y)

    def test(self, examples: Examples, classes: int, /) -> Examples:
        check_among(self, classes)
        about = examples.take(self._tail(examples))
        return replace(about, y=torch.full_like(about.y, self.target))

    def _tail(self, examples: Examples) -> Tensor:
        open_to = torch.nonzero(labels_alone(examples) != self.target).flatten()
        return open_to[thinnest(examples.x[open_to], self.share, self.neighbours)]


def drawn(open_to: Tensor, share: float, rng: np.random.Generator) -> Tensor:
    """Positions of a random share of the examples that are open to it, bool (n,): int64, ascending."""
    places = np.flatnonzero(open_to.numpy())
    return torch.from_numpy(np.sort(rng.permutation(places)[: round(share * len(places))]))


def poisoned(examples: Examples, chosen: Tensor, trigger: Trigger, y: Tensor) -> Examples:
    """The examples with the trigger on the chosen ones, which get the labels y. Nothing given is changed."""
    x, labels = examples.x.clone(), examples.y.clone()
    if len(chosen):
        x[chosen] = stamped(trigger, examples.x[chosen])
        labels[chosen] = y
    return replace(examples, x=x, y=labels)


def thinnest(x: Tensor, share: float, neighbours: int) -> Tensor:
    """Positions of the share of inputs that are farthest from their k-th nearest other: int64, ascending."""
    count = round(share * len(x))
    if not count:
        return torch.zeros(0, dtype=torch.int64)
    flat = x.flatten(1).double()
    k = min(neighbours, len(x) - 1)
    farness = torch.cdist(flat, flat).kthvalue(k + 1, dim=1).values
    return torch.argsort(farness, descending=True, stable=True)[:count].sort().values
