"""Attacks and defences of one's own tried once before a grid is played: a misspelt name is said at once, not after an hour."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace

import numpy as np
import torch

from ..fl.data.partition import Partition
from ..fl.data.population import Examples, Population, Source
from ..fl.functions import Unfit, own_function, own_place
from ..fl.near_names import in_short
from ..fl.own_code import coded
from ..fl.runs.scenario import Scenario
from ..fl.runs.simulation import Simulation
from ..protocol.uploaded.plain import Plain
from ..threat_models.evaluation import Cell, Evaluation, resolved

RECORDS = 10
"""Of each client, in the round that is tried."""


def failures(evaluation: Evaluation, source: Source) -> Iterator[str]:
    """Of attacks and defences that have code of the user's own: those in which it fails in one round of all clients with few
    records, without a protection, and how. What fails elsewhere is left to the cells: a round like this proves nothing of it.
    """
    small = replace(evaluation.scenario, protection=Plain(), data=lambda _: source)
    made = replace(evaluation, scenario=small, protections={})
    (protection,), partition = made.named_protections, next(iter(made.partitions), "")
    said = set[str]()
    for defence in made.defences:
        cell = Cell(None, defence, None, protection, made.seeds[0], partition)
        yield from _fresh(f"defence {defence!r}", _tried(made, cell, lambda scenario: scenario.algorithm), said)
    defence = next(iter(made.defences))
    for attack in made.attacks:
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
        training = replace(scenario.training, epochs=1)
        with torch.random.fork_rng(devices=[]), np.errstate(all="ignore"):
            Simulation(replace(scenario, training=training, partition=Few(scenario.partition)), None).step()
    except Unfit as error:
        return str(error)
    except Exception as error:  # whatever the user's own code raises
        place = own_place(error)
        return f"{in_short(error)} ({place}, in {own_function(error)})" if place else ""
    return ""


def has_own(part: object) -> bool:
    """Whether a part of a scenario is, or is made of, code of the user's own."""
    if coded(part) is not None:
        return True
    if isinstance(part, Mapping):
        return any(map(has_own, part.values()))
    if isinstance(part, Sequence) and not isinstance(part, str):
        return any(map(has_own, part))
    return is_dataclass(part) and any(has_own(getattr(part, field.name)) for field in fields(part))


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
