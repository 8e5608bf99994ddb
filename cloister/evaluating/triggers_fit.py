"""Whether a grid's backdoors can be put into its records, as else all of their cells would fail, and measured on its model."""

from collections.abc import Sequence
from contextlib import suppress

import torch

from ..fl.data.population import Examples, Source
from ..fl.models.fit import takes_together
from ..fl.models.papers import initial
from ..fl.runs.objective_check import outputs_needed
from ..protocol.core.errors import Refused
from ..threat_models.backdoors import LearnedTarget, Target, misfit
from ..threat_models.evaluation import Cell, Evaluation, resolved, target_of

RECORDS = 10
"""Test records that triggers are tried on."""
IMAGE = 3
"""Dimensions of one."""
SHOWN = 3
"""Attacks that are named."""


def check_triggers(evaluation: Evaluation, source: Source, names: Sequence[Sequence[str]] = ()) -> None:
    """Raises Refused, which names those attacks and what to take, for backdoors that do not fit these data.

    names: of the attacks and of the defences that are to be played; empty for all.
    """
    few = source.test.take(torch.arange(min(RECORDS, len(source.test))))
    wrong = dict[str, list[str]]()
    for attack in names[0] if names else evaluation.attacks:
        if why := _misfit(evaluation, attack, few, source.classes):
            wrong.setdefault(why, []).append(attack)
    if not wrong:
        return
    why, attacks = next(iter(wrong.items()))
    does = f"attack {attacks[0]!r} does" if len(attacks) == 1 else f"attacks {', '.join(map(repr, attacks))} do"
    remedy = "leave them out; of suites, attacks.strongest(images=False) has none that is put into images"
    raise Refused(f"{does} not fit the data: {why}; {'leave it out' if len(source.shape) == IMAGE else remedy}")


def measured_together(evaluation: Evaluation, source: Source, names: Sequence[Sequence[str]] = ()) -> list[str]:
    """A doubt where backdoors are measured on a model that predicts for many records together: on test records that all have the
    trigger its means take out of them what they have in common. names: as of `check_triggers`.
    """
    few = source.test.take(torch.arange(min(RECORDS, len(source.test))))
    backdoors = [attack for attack in (names[0] if names else evaluation.attacks) if _target(evaluation, attack) is not None]
    scenario = evaluation.scenario
    if not backdoors or not len(few):
        return []
    outputs = outputs_needed(scenario.training, few.y, source.classes)
    if not takes_together(initial(scenario.model, source.shape, outputs, scenario.seed), few.x):
        return []
    return [
        "the model predicts for many records together (BatchNorm without running statistics), and a backdoor's success"
        f" ({', '.join(map(repr, backdoors[:SHOWN]))}) is measured on records that all have the trigger: its means take out what"
        " they have in common, so that success with and without attack says little; take LayerNorm, or columns scaled by agreed"
        " numbers"
    ]


def _target(evaluation: Evaluation, attack: str) -> Target | LearnedTarget | None:
    """What an attack's backdoor is after; None where it is none, or cannot be made, as its cells say."""
    with suppress(Exception):
        place, defence = next(iter(evaluation.partitions), ""), next(iter(evaluation.defences))
        cell = Cell(attack, defence, float(evaluation.strengths[0]), next(iter(evaluation.named_protections)), 0, place)
        return target_of(evaluation, cell, resolved(evaluation, cell))
    return None


def _misfit(evaluation: Evaluation, attack: str, few: Examples, classes: int) -> str:
    """Why an attack's backdoor cannot be put into these records; empty where it can, or is none, or cannot be made at all."""
    return misfit(_target(evaluation, attack), few, classes)
