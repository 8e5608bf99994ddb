"""Whether a grid's backdoors can be put into its records: the cells of those that cannot would fail, one and all."""

from collections.abc import Sequence
from contextlib import suppress

import torch

from ..fl.data.population import Examples, Source
from ..protocol.core.errors import Refused
from ..threat_models.backdoors import misfit
from ..threat_models.evaluation import Cell, Evaluation, resolved, target_of

RECORDS = 10
"""Test records that triggers are tried on."""
IMAGE = 3
"""Dimensions of one."""


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


def _misfit(evaluation: Evaluation, attack: str, few: Examples, classes: int) -> str:
    """Why an attack's backdoor cannot be put into these records; empty where it can, or is none, or cannot be made at all."""
    target = None
    with suppress(Exception):  # its cells say what is wrong
        place, defence = next(iter(evaluation.partitions), ""), next(iter(evaluation.defences))
        cell = Cell(attack, defence, float(evaluation.strengths[0]), next(iter(evaluation.named_protections)), 0, place)
        target = target_of(evaluation, cell, resolved(evaluation, cell))
    return misfit(target, few, classes)
