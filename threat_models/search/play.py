"""One run of a search: what it says of an attack at one point, or of the same clients not being there."""

import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from ...fl.algorithms.fedavg import FedAvg
from ...fl.runs.results_folder import Row
from ...fl.runs.scenario import Scenario
from ...fl.runs.simulation import NothingLearned, Simulation
from ..adversary import Adversary
from ..attack_metrics import attack_success
from ..backdoors import as_learned
from ..cell import recorded
from ..evaluation import backdoor_of
from ..evaluation_folder import EvaluationFolder
from ..membership import ALWAYS, Members
from ..trial import Clean
from .choosing import Given
from .fields import Numbers
from .space import Space, chosen_which
from .who import clients_of, members

Goal = Literal["any", "accuracy", "backdoor"]


@dataclass(frozen=True, slots=True)
class Try:
    """A point of the space under one seed. numbers: empty for the run without the attackers' data, but for "which" they are."""

    numbers: Numbers = field(hash=False)
    attackers: int
    seed: int

    @property
    def absent(self) -> "Try":
        """The run that it is compared with: the same members never answer."""
        return Try({"which": self.numbers.get("which", "any")}, self.attackers, self.seed)

    @property
    def is_absent(self) -> bool:
        return "attack" not in self.numbers


def scenario_of(space: Space, one: Try, data: Path | None) -> Scenario:
    """The run of a try. Raises ValueError where its numbers do not go together."""
    base = replace(space.scenario, seed=one.seed)
    which = str(one.numbers.get("which", "any"))
    who = members(which, one.attackers, {} if which == "any" else clients_of(base, data))
    if one.is_absent:
        return replace(base, adversary=_absent(who))
    choose = Given(one.numbers)
    adversary = space.adversary(choose, who)
    chosen_which(space, choose)
    return replace(base, adversary=adversary)


def _absent(who: Members) -> Adversary:
    return Adversary(members=who, silent=ALWAYS)


@dataclass(frozen=True, slots=True)
class Bench:
    """What a process needs to play tries. share: of the last rounds, over which accuracy is averaged."""

    space: Space
    folder: EvaluationFolder
    share: float
    data: Path | None

    def play(self, task: tuple[tuple[str, Try], Row | None], /) -> Row:
        """The line of a try, named by its key. Beside it stands that of its run without the attackers' data, if it has one."""
        (key, one), absent = task
        row = {"key": key, "numbers": dict(one.numbers), "attackers": one.attackers, "seed": one.seed}
        started = time.process_time()
        found = recorded(row, lambda: self._metrics(key, one, absent))
        return {**found, "cost": {"seconds": time.process_time() - started}}

    def _metrics(self, key: str, one: Try, absent: Row | None) -> Mapping[str, Any]:
        scenario = scenario_of(self.space, one, self.data)
        if not one.is_absent:
            found = None if absent is None else self.folder.read_clean(absent["key"], absent["clean_sha256"])
            if found is None:
                raise ValueError("there is no run without the attackers' data to compare with")
            return played(scenario, self.share, self.data, found)[0]
        metrics, clean = played(scenario, self.share, self.data, None)
        by = "the defence"
        if metrics["unmoved"]:  # a rule that cannot stand so few has no result to compare with
            by = "FedAvg: the defence has no result without these clients"
            metrics, clean = played(replace(scenario, algorithm=FedAvg()), self.share, self.data, None)
        return {**metrics, "by": by, "clean_sha256": self.folder.write_clean(key, clean)}


def last_rounds(rounds: int, every: int, share: float) -> list[int]:
    """Of the rounds after which a run is evaluated, the last share, at least one."""
    due = [t for t in range(rounds) if t + 1 == rounds or (t + 1) % every == 0]
    return due[-max(1, round(share * len(due))) :]


def played(scenario: Scenario, share: float, data: Path | None, absent: Clean | None) -> tuple[dict[str, Any], Clean]:
    """A run and its metrics: of loyal clients, the mean over the last share of its evaluations; a client without a model has 0.

    A backdoor's success is measured at the end, beside that of its trigger on the models of the run without the attackers' data.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of models that an attack has driven to infinity
        return _played(scenario, share, data, absent)


def _played(scenario: Scenario, share: float, data: Path | None, absent: Clean | None) -> tuple[dict[str, Any], Clean]:
    simulation = Simulation(scenario, data)
    corrupt = frozenset() if simulation.corrupted is None else simulation.corrupted.members
    clients = sorted(simulation.population.clients)
    loyal = [i for i in clients if i not in corrupt]
    if not loyal:
        raise ValueError("nobody is loyal; fewer attackers leave somebody to measure")
    judged, rows, unmoved = set(last_rounds(scenario.rounds, scenario.evaluate_every, share)), [], 0
    for t in range(scenario.rounds):
        with suppress(NothingLearned):  # a lost round is a result
            simulation.step()
        outcome: Any = getattr(simulation.state, "outcome", None)
        unmoved += bool(outcome is not None and outcome.unmoved)
        if t in judged:
            found = simulation.evaluate()
            rows.append([found[i].accuracy if i in found else 0.0 for i in loyal])
    course = np.nan_to_num(np.array(rows))
    of = course.mean(axis=0)
    models = {i: v for i, v in simulation.vectors().items() if i in set(loyal)}
    metrics = {
        "members": sorted(corrupt),
        "accuracy": float(of.mean()),
        "of": {str(i): float(a) for i, a in zip(loyal, of, strict=True)},
        "unmoved": unmoved == scenario.rounds,
        "success": None if absent is None else _success(simulation, models, absent),
    }
    return metrics, Clean(tuple(loyal), course, models)


def _success(simulation: Simulation, models: dict[int, Any], absent: Clean) -> dict[str, Any] | None:
    target = backdoor_of(simulation.scenario.adversary)
    if target is None:
        return None
    watched: Any = simulation.corrupted
    backdoor = as_learned(target, watched.learned if hasattr(target, "given") else {})
    both = sorted(models.keys() & absent.models.keys())
    tests = {i: simulation.population.clients[i].test for i in both}
    before, now = {i: absent.models[i] for i in both}, {i: models[i] for i in both}
    found = attack_success(simulation.module, now, tests, backdoor, simulation.population.classes, before)
    return {"mean": found.mean, "worst": found.worst, "absent": found.clean_mean}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """When a defence is broken: loyal clients lose more than `loss` of accuracy against the run without the attackers' data, or
    a backdoor succeeds with them more often by `success`. share: of the last evaluations, over which accuracy is averaged. goal:
    whether either counts, or one of the two alone.
    """

    loss: float = 0.1
    success: float = 0.2
    share: float = 0.25
    goal: Goal = "any"

    def __post_init__(self) -> None:
        for name in ("loss", "success", "share"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise ValueError(f"{name} is above 0 and at most 1, not {value}")
        if self.goal not in get_args(Goal):
            raise ValueError(f"the goal is {', '.join(get_args(Goal))}, not {self.goal!r}")


@dataclass(frozen=True, slots=True)
class Harm:
    """What a try did. severity: times the bound that it comes nearest to or passes; above 1 it breaks. loss: mean of loyal
    clients; client: of the one that loses most. success, absent: of a backdoor, and without the attackers' data; None for others.
    """

    severity: float
    loss: float
    client: float
    success: float | None
    absent: float | None


NOTHING = Harm(-1.0, 0.0, 0.0, None, None)
"""Of a try that could not be played."""


def harm(row: Row, absent: Row, bounds: Bounds) -> Harm:
    """Of the line of a try beside that of its run without the attackers' data."""
    if row["status"] != "done" or absent["status"] != "done":
        return NOTHING
    loss = float(absent["accuracy"]) - float(row["accuracy"])
    client = max(float(absent["of"][i]) - float(a) for i, a in row["of"].items())
    success = row["success"]
    more = 0.0 if success is None else success["mean"] - success["absent"]
    of = {"accuracy": loss / bounds.loss, "backdoor": more / bounds.success}
    severity = max(of.values()) if bounds.goal == "any" else of[bounds.goal]
    if not isfinite(severity):
        return NOTHING
    return Harm(severity, loss, client, *((None, None) if success is None else (success["mean"], success["absent"])))
