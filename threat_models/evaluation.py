"""An evaluation: attacks against defences at several strengths, under several protections, over seeds, as one Python value.

A cell is one run of the simulation. Every attacked cell is compared with the attack-free run of the same defence, protection
and seed, which is a cell too and is run once. The protection is set after the defence, so a defence that is a function may be
written for any.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from inspect import isroutine
from itertools import product
from math import isfinite
from numbers import Real
from types import MappingProxyType
from typing import Any

from ..fl.algorithms.algorithm import Algorithm
from ..fl.clients.losses import OF_NUMBERS
from ..fl.data.partition import Partition
from ..fl.functions import brief, name_of
from ..fl.near_names import in_short, not_there
from ..fl.runs.parts_check import check_named, check_names
from ..fl.runs.scenario import Scenario, described
from ..protocol.uploaded.plain import Plain
from ..protocol.view.protection import Protection
from .backdoors import LearnedTarget, Target, check_target
from .breakdown import Steps
from .broken import Bounds
from .design_limit import known_breaks
from .evaluation_attack import ABSENT, Attack, Informed, absent_adversary, adversary_of
from .evaluation_check import ATTACKERS, check_attacks, check_defences, check_limits, check_somebody_loyal, check_strengths

__all__ = [
    "ABSENT",
    "Attack",
    "Bounds",
    "Cell",
    "Defence",
    "Evaluation",
    "Informed",
    "all_cells",
    "attacked_cells",
    "backdoor_of",
    "clean_cells",
    "description",
    "key_of",
    "names_of",
    "resolved",
    "search_key",
    "target_of",
]

FORMAT = 4
"""Of a cell's record; cells of another format are run anew."""


Defence = Algorithm | Callable[[Scenario], Scenario]
"""An algorithm to be run in the place of the scenario's, or a function that changes the scenario."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run, by the names that the evaluation gives. attack, strength: None for the attack-free run.

    partition: empty where the evaluation names none, and the scenario's own is meant.
    """

    attack: str | None
    defence: str
    strength: float | None
    protection: str
    seed: int
    partition: str = ""

    @property
    def clean(self) -> "Cell":
        """The attack-free run that it is compared with."""
        return replace(self, attack=None, strength=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """attacks x defences x strengths x protections x partitions x seeds, all by name.

    scenario: what cells have in common; it has no adversary. strength: what strengths are, in words, for the report.
    protections, partitions: by name; empty for the scenario's own. absent: play beside the attacks, at every strength, the run
    without the attackers' data, which harm is held against; not where attacks differ in who their members are. No attack has
    the name "absent", which is that run's. limits: the attackers in a round that a defence is built for, by its name, where
    it does not say so itself (`design_limit.py`). bounds: when a defence is called broken. targets: what a backdoor is after,
    by the attack's name; where none is named, the adversary's data or the poison of its training say it, if they are a
    backdoor's. breakdown: the strengths that `cloister breakdown` searches.
    """

    name: str
    scenario: Scenario
    attacks: Mapping[str, Attack]
    defences: Mapping[str, Defence]
    strengths: tuple[float, ...]
    strength: str = ATTACKERS
    protections: Mapping[str, Protection] = field(default_factory=lambda: MappingProxyType({}))
    partitions: Mapping[str, Partition] = field(default_factory=lambda: MappingProxyType({}))
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    absent: bool = True
    limits: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    bounds: Bounds = field(default_factory=Bounds)
    targets: Mapping[str, Target | LearnedTarget] = field(default_factory=lambda: MappingProxyType({}))
    breakdown: Steps | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.scenario, Scenario):
            raise ValueError(f"scenario is {brief(self.scenario)}; give a Scenario")
        if self.scenario.training.loss in OF_NUMBERS:
            raise ValueError("an evaluation is by accuracy, and the scenario's targets are numbers (its training.loss)")
        if self.scenario.adversary is not None:
            raise ValueError("the scenario of an evaluation has no adversary; name it among the attacks")
        for name in ("strengths", "seeds"):
            if not isinstance(getattr(self, name), Sequence) or isinstance(getattr(self, name), str):
                raise ValueError(_several(name, getattr(self, name)))
        for name in ("attacks", "defences", "strengths", "seeds"):
            if not getattr(self, name):
                raise ValueError(f"an evaluation needs {name}")
        if not isinstance(self.bounds, Bounds):
            raise ValueError(f"bounds is {brief(self.bounds)}; give attacks.Bounds(loss=0.05, success=0.1)")
        if not isinstance(self.limits, Mapping):
            raise ValueError(f"limits are a dict, attackers by a defence's name, not {brief(self.limits)}")
        for name in ("strengths", "seeds"):
            if len(set(getattr(self, name))) != len(getattr(self, name)):
                raise ValueError(f"{name} names one value twice: {getattr(self, name)}")
        if wrong := [k for k, s in enumerate(self.strengths) if not isinstance(s, Real)]:
            raise ValueError(f"strengths[{wrong[0]}] is {brief(self.strengths[wrong[0]])}; give a number")
        if not all(isfinite(s) for s in self.strengths):
            raise ValueError(f"strengths are finite numbers, not {self.strengths}")
        for kind in ("protection", "partition"):
            check_named(kind, getattr(self, f"{kind}s"))
        check_strengths(self.strengths, self.strength, self.partitions.values() or (self.scenario.partition,))
        for name in ("attacks", "defences"):
            given = getattr(self, name)
            if not isinstance(given, Mapping):
                raise ValueError(f"{name} are a dict by name, not {brief(given)}{_as_dict(name, given)}")
            check_names(name, given)
        check_defences(self.defences, self.scenario)
        check_attacks(self.attacks, self.strengths, self.scenario)
        check_somebody_loyal(self.attacks, self.strengths, self.scenario, self.partitions.values() or (self.scenario.partition,))
        if unknown := sorted(self.targets.keys() - self.attacks.keys()):
            raise ValueError(f"targets names attacks that are not there: {not_there(unknown, self.attacks)}")
        for target in self.targets.values():
            check_target(target)
        if unknown := sorted(self.limits.keys() - self.defences.keys()):
            raise ValueError(f"limits names defences that are not there: {not_there(unknown, self.defences, {})}")
        check_limits(self.limits, self.partitions.values() or (self.scenario.partition,))

    @property
    def named_protections(self) -> Mapping[str, Protection]:
        """The protections, the scenario's own by the name of its type where none are named."""
        return self.protections or {type(self.scenario.protection).__name__: self.scenario.protection}


def _several(name: str, given: Any) -> str:
    """How one value is written where several stand; of seeds a number may be how many."""
    alone = f"{name} are several, in brackets: {name}=({given!r},)"
    if name != "seeds" or type(given) is not int or given < 2:
        return alone
    counted = tuple(range(given)) if given < 6 else f"tuple(range({given}))"
    return f"{name} are several, in brackets: {name}={counted} for {given} seeds, {name}=({given},) for seed {given} alone"


def _as_dict(field: str, given: Any) -> str:
    """How what stands in the place of a dict would be written in one, as the end of a sentence; empty where nobody knows."""
    if isroutine(given):
        return f"; a function that makes one is called: {name_of(given)}()"
    made = name_of(given) if isinstance(given, type) or hasattr(type(given), "__dataclass_fields__") else ""
    return f"; for example {field}={{{made!r}: {made}(...)}}" if made else ""


def clean_cells(evaluation: Evaluation) -> list[Cell]:
    """The attack-free runs, seed by seed."""
    places = [*product(evaluation.partitions or ("",), evaluation.defences, evaluation.named_protections)]
    return [Cell(None, d, None, p, seed, of) for seed in evaluation.seeds for of, d, p in places]


def attacked_cells(evaluation: Evaluation, clean: Cell) -> list[Cell]:
    """The cells that are compared with this attack-free run."""
    strengths = [(float(s), names_of(evaluation, float(s))) for s in evaluation.strengths]
    return [replace(clean, attack=name, strength=s) for s, names in strengths for name in names]


def names_of(evaluation: Evaluation, strength: float) -> Sequence[str]:
    """The attacks of a strength, the run without the attackers' data among them, as the first, where there is one."""
    own = [*evaluation.attacks]
    plays = evaluation.absent
    known = absent_adversary(evaluation.attacks, strength, evaluation.scenario) if plays else None
    return own if known is None else [ABSENT, *own]


def all_cells(evaluation: Evaluation) -> list[Cell]:
    """Every cell in the order of the record: attack-free runs first, each seed's together."""
    clean = clean_cells(evaluation)
    return [*clean, *(cell for one in clean for cell in attacked_cells(evaluation, one))]


def resolved(evaluation: Evaluation, cell: Cell) -> Scenario:
    """The scenario of a cell. Raises Refused, with the reason, where the protection cannot give what the defence needs."""
    defence = evaluation.defences[cell.defence]
    protection = evaluation.named_protections[cell.protection]
    partition = evaluation.partitions[cell.partition] if cell.partition else evaluation.scenario.partition
    base = replace(evaluation.scenario, partition=partition)
    if hasattr(defence, "needs"):
        algorithm: Any = defence
        scenario = replace(base, algorithm=algorithm, protection=protection, seed=cell.seed)
    else:
        change: Any = defence
        # under Plain, which answers everything, so that the cell's protection judges the defence and not the scenario it changes
        defended: Scenario = change(replace(base, protection=Plain()))
        scenario = replace(defended, protection=protection, seed=cell.seed)
    if cell.attack is None or cell.strength is None:
        return scenario
    if cell.attack == ABSENT:
        return replace(scenario, adversary=absent_adversary(evaluation.attacks, cell.strength, scenario))
    return replace(scenario, adversary=adversary_of(cell.attack, evaluation.attacks[cell.attack], cell.strength, scenario))


def target_of(evaluation: Evaluation, cell: Cell, scenario: Scenario) -> Target | LearnedTarget | None:
    """What the cell's backdoor is after, or None where it is none."""
    if cell.attack is not None and cell.attack in evaluation.targets:
        return evaluation.targets[cell.attack]
    return backdoor_of(scenario.adversary)


def backdoor_of(adversary: object) -> Target | LearnedTarget | None:
    """What an adversary's poison says that it is after, where it is a backdoor's."""
    local: Any = getattr(adversary, "local", None)
    poisons: tuple[Any, ...] = (getattr(adversary, "data", None), getattr(local, "poison", None))
    return next((poison for poison in poisons if is_backdoor(poison)), None)


def is_backdoor(poison: object) -> bool:
    """Whether a poison, or a class of them, says what it is after."""
    return hasattr(poison, "test") or hasattr(poison, "given")


def key_of(evaluation: Evaluation, cell: Cell) -> str:
    """A name for what the cell resolves to: 24 hex digits of a hash of all that its run is made of, as far as it is described.

    The code of functions and classes of the user's own is part of it; the data are not.
    """
    made_of: dict[str, Any] = {"format": FORMAT, "cell": asdict(cell)}
    try:
        scenario = resolved(evaluation, cell)
        made_of |= {"scenario": described(scenario), "target": described(target_of(evaluation, cell, scenario))}
    except Exception:  # refused, or whatever an attack of the user's raises: the cell's line will say it
        base, defence = replace(evaluation.scenario, seed=cell.seed), evaluation.defences[cell.defence]
        protection = evaluation.named_protections[cell.protection]
        made_of |= {"base": described(base), "defence": described(defence), "protection": described(protection)}
    return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:24]


def search_key(evaluation: Evaluation, attack: str, defence: str, protection: str, partition: str = "") -> str:
    """A name for what breakdown searches of this attack are about, whatever the strengths and seeds of the grid."""
    return key_of(evaluation, Cell(attack, defence, 1.0, protection, 0, partition))


def description(evaluation: Evaluation) -> dict[str, Any]:
    """The evaluation as plain JSON values: what its folder records.

    keys: of its cells, to tell their lines from others; searches: likewise of breakdown searches.
    """
    named = evaluation.named_protections
    return {
        "name": evaluation.name,
        "scenario": described(evaluation.scenario),
        "attacks": {name: _adversaries(evaluation, name, attack) for name, attack in evaluation.attacks.items()},
        "defences": {name: described(defence) for name, defence in evaluation.defences.items()},
        "strengths": list(evaluation.strengths),
        "strength": evaluation.strength,
        "protections": {name: repr(protection) for name, protection in evaluation.named_protections.items()},
        "partitions": {name: described(partition) for name, partition in evaluation.partitions.items()},
        "absent": {f"{s:g}": ABSENT in names_of(evaluation, float(s)) for s in evaluation.strengths},
        "limits": dict(evaluation.limits),
        "known_breaks": {name: words for name in evaluation.defences if (words := _known_breaks(evaluation, name))},
        "bounds": asdict(evaluation.bounds),
        "seeds": list(evaluation.seeds),
        "targets": {name: described(target) for name, target in evaluation.targets.items()},
        "breakdown": described(evaluation.breakdown),
        "keys": [key_of(evaluation, cell) for cell in all_cells(evaluation)],
        "searches": [
            search_key(evaluation, a, d, p, of)
            for a in evaluation.attacks
            for d in evaluation.defences
            for p in named
            for of in evaluation.partitions or ("",)
        ],
    }


def _known_breaks(evaluation: Evaluation, defence: str) -> str:
    """What searches have found against a defence; empty, too, for one of the user's own that cannot be made here."""
    with suppress(Exception):  # its cells' lines will say it
        of = Cell(None, defence, None, next(iter(evaluation.named_protections)), 0, next(iter(evaluation.partitions), ""))
        return known_breaks(resolved(evaluation, of).algorithm)
    return ""


def _adversaries(evaluation: Evaluation, name: str, attack: Attack) -> Any:
    """The attack's adversary at each strength; those that know the run are described in their cells."""
    if isinstance(attack, Informed):
        return described(attack)
    found = {}
    for strength in evaluation.strengths:
        try:
            found[f"{strength:g}"] = described(adversary_of(name, attack, float(strength), evaluation.scenario))
        except Exception as error:  # whatever an attack of the user's raises: the cells' lines will say it
            found[f"{strength:g}"] = in_short(error)
    return found
