"""Attacks and defences of one's own tried once before a grid is played: a misspelt name is said at once, not after an hour."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..fl.data.partition import Partition
from ..fl.data.population import Examples, Population, Source
from ..fl.functions import Unfit, called, own_function, own_place
from ..fl.near_names import in_short
from ..fl.own import is_own
from ..fl.own_code import has_own
from ..fl.robust.function import OfGram
from ..fl.robust.rule import GramRule, Matrix, Sight
from ..fl.runs.own_rule import as_given
from ..fl.runs.scenario import Scenario
from ..fl.runs.simulation import Simulation
from ..protocol.uploaded.plain import Plain
from ..threat_models.evaluation import Cell, Evaluation, resolved

MOST = 2.0
"""What weights of a rule sum to, at most, that is not said."""
CLOSE = 1e-3
"""By how much weights may miss the 1 that a rule says that they sum to."""
RECORDS = 10
"""Of each client, in the round that is tried."""


def failures(evaluation: Evaluation, source: Source, names: Sequence[Sequence[str]] = ()) -> Iterator[str]:
    """Of attacks and defences that have code of the user's own: those in which it fails in one round of all clients with few
    records, without a protection, and how; and rules whose weights sum to what no mean has. What fails elsewhere is left to the
    cells: a round like this proves nothing of it.

    names: of the attacks and of the defences that are to be played; empty for all.
    """
    attacks, defences = names or (evaluation.attacks, evaluation.defences)
    small = replace(evaluation.scenario, protection=Plain(), data=lambda _: source)
    made = replace(evaluation, scenario=small, protections={})
    (protection,), partition = made.named_protections, next(iter(made.partitions), "")
    said = set[str]()
    for defence in defences:
        cell = Cell(None, defence, None, protection, made.seeds[0], partition)
        yield from _fresh(f"defence {defence!r}", _tried(made, cell, lambda scenario: scenario.algorithm), said)
        yield from filter(None, [_far_from_a_mean(made, cell)])
    defence = next(iter(defences))
    for attack in attacks:
        cell = Cell(attack, defence, float(made.strengths[0]), protection, made.seeds[0], partition)
        yield from _fresh(f"attack {attack!r}", _tried(made, cell, lambda scenario: scenario.adversary), said)


def _fresh(name: str, why: str, said: set[str]) -> Iterator[str]:
    """A defence that fails fails under an attack, too: that is said once."""
    if why and why not in said:
        said.add(why)
        yield f"{name} fails, as one round with few records showed: {why}; its cells may fail, too"


def _tried(evaluation: Evaluation, cell: Cell, part: Callable[[Scenario], object]) -> str:
    """What code of the user's own raised, in one line with its place; empty where there is none, or none failed."""
    try:
        scenario = resolved(evaluation, cell)
        if not has_own(part(scenario)):
            return ""
        _round(scenario)
    except Unfit as error:
        return str(error)
    except Exception as error:  # whatever the user's own code raises
        place = own_place(error)
        return f"{in_short(error)} ({place}, in {own_function(error)})" if place else ""
    return ""


def _round(scenario: Scenario) -> None:
    """One round of all its clients with few records."""
    small = replace(scenario, training=replace(scenario.training, epochs=1), partition=Few(scenario.partition))
    with torch.random.fork_rng(devices=[]), np.errstate(all="ignore"):
        Simulation(as_given(small), None).step()


def _far_from_a_mean(evaluation: Evaluation, cell: Cell) -> str:
    """Of a rule of the user's own that gives weights: what they sum to in that round, where it is no step to be expected. A
    server's own length of step is scaled weights, too, so that this is said and not refused; of a rule that says that its weights
    sum to 1 (`shift_invariant`) any other sum is.
    """
    sums, name, declared = list[float](), "", False
    with suppress(Exception):  # what fails was said
        scenario = resolved(evaluation, cell)
        algorithm: Any = scenario.algorithm
        rule = getattr(algorithm, "rule", None)
        if not isinstance(rule, OfGram) and not (isinstance(rule, GramRule) and is_own(rule)):
            return ""
        name, declared = called(rule.function if isinstance(rule, OfGram) else rule), rule.shift_invariant
        _round(replace(scenario, algorithm=replace(algorithm, rule=_Summed(rule, sums))))
    far = [total for total in sums if not 0 < total <= MOST or (declared and abs(total - 1) > CLOSE)]
    if not far:
        return ""
    goes = {-1: "away from them", 0: "nowhere in their common direction", 1: f"{far[0]:.3g} times as far as their mean"}
    says = ", as shift_invariant=True says that they do" * declared
    return (
        f"defence {cell.defence!r}: weights of {name} sum to {far[0]:.3g}, as one round with few records showed, so that models"
        f" go {goes[int(np.sign(far[0]))]} for updates that agree; of a mean they sum to 1{says}"
    )


@dataclass(frozen=True, slots=True)
class _Summed:
    """A rule that notes what its weights sum to. sums: one list for all copies of it."""

    rule: GramRule
    sums: list[float]

    @property
    def sees(self) -> Sight:
        return self.rule.sees

    @property
    def shift_invariant(self) -> bool:
        return self.rule.shift_invariant

    def weights(self, gram: Matrix, rng: np.random.Generator, /) -> Matrix:
        found = self.rule.weights(gram, rng)
        self.sums.append(float(np.sum(np.asarray(found, dtype=np.float64))))
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Summed":
        return _Summed(deepcopy(self.rule, memo), self.sums)


@dataclass(frozen=True, slots=True)
class Few:
    """The clients of a partition with their first records alone."""

    partition: Partition

    def __call__(self, source: Source, rng: np.random.Generator, /) -> Population:
        found = self.partition(source, rng)
        kept = {i: replace(of, train=_first(of.train), test=_first(of.test)) for i, of in found.clients.items()}
        return replace(found, clients=kept)


def _first(examples: Examples) -> Examples:
    return examples.take(torch.arange(min(RECORDS, len(examples))))
